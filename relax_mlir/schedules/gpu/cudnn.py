"""Cudnn rule: convolutions as calls of NVIDIA's cuDNN."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from mlir import ir

from relax_mlir.dialects.tir import LibraryConvolutionOp
from relax_mlir.schedules.builder import IndexLike, index, static_size
from relax_mlir.schedules.epilogue import ElementwiseStatement, match_epilogue
from relax_mlir.schedules.flat_buffers import flat_view, view_at_offset
from relax_mlir.schedules.gpu.cublaslt import (
    check_element_types,
    check_profitable,
    launch_each,
)
from relax_mlir.schedules.gpu.library_epilogue import LibraryEpilogue, read_epilogue
from relax_mlir.schedules.gpu.rule import GpuRule
from relax_mlir.schedules.kernel_view import Access, Kernel, Statement
from relax_mlir.schedules.match_contraction import contraction_operands
from relax_mlir.schedules.match_convolution import (
    Convolution,
    ConvolutionOperand,
    match_convolution,
)
from relax_mlir.schedules.padding import split_padding
from relax_mlir.schedules.rule import NotApplicable, check_one_output, check_statements
from relax_mlir.schedules.rule_selection import SelectedRule
from relax_mlir.symbolic.affine_forms import AffineForm

__all__ = ["Cudnn", "CudnnPlan"]

_ALIGNMENT = 16  # bytes, for all operands


@dataclass(frozen=True)
class CudnnPlan:
    """A convolution that cuDNN computes.

    Attributes:
        convolution: its shape parameters.
        operands: accesses of the image and of the weights.
        batch: number of images.
        epilogue: fused into the call.
        result: the access that the call writes.
        rest: launches of the statements that are not fused.
    """

    convolution: Convolution
    operands: tuple[Access, Access]
    batch: IndexLike
    epilogue: LibraryEpilogue
    result: Access
    rest: tuple[SelectedRule, ...] = ()


class Cudnn(GpuRule[CudnnPlan]):
    """Convolutions with one to three spatial axes, with bias, residual and ReLU.

    ``Gpu.library`` selects when: ``never``; ``auto``, if it is expected to be faster and the
    whole epilogue is fused; or ``always``, where unfused statements become launches.
    """

    def plan(self, kernel: Kernel) -> CudnnPlan:
        """Matches a convolution with an elementwise epilogue."""
        if self.gpu.library == "never":
            raise NotApplicable("libraries are not enabled")
        check_statements(kernel)
        anchor, operands, rest = _contraction_of(kernel)
        maps = match_epilogue(anchor, (), rest, kernel)
        try:
            plan = _plan_fused(kernel, anchor, operands, maps)
        except NotApplicable:
            if self.gpu.library == "auto" or not maps:
                raise
            plan = _plan_of(anchor, operands, anchor.outputs[0], LibraryEpilogue())
            plan = replace(plan, rest=launch_each(kernel, rest, self.gpu))
        if self.gpu.library == "auto":
            self._check_profitable(anchor, plan)
        return plan

    def _check_profitable(self, anchor: Statement, plan: CudnnPlan) -> None:
        """Checks that ``auto`` prefers cuDNN to our kernels.

        Raises:
            NotApplicable: it does not.
        """
        shape = plan.convolution.shape
        if not shape.is_packed(channels_last=shape.channels_last):
            raise NotApplicable(
                "its images, weights and results have different layouts"
            )
        if shape.channels == shape.groups:
            raise NotApplicable("it is depthwise, so it is bound by memory bandwidth")
        check_profitable(
            self.gpu,
            anchor.extents,
            plan.convolution.filters[-1:],
            plan.operands,
            is_contiguous_for_mma=shape.channels_last,
        )

    def write(self, plan: CudnnPlan) -> None:
        _write(plan, self.gpu.tf32)
        for choice in plan.rest:
            choice.write()


def _contraction_of(
    kernel: Kernel,
) -> tuple[Statement, tuple[Access, Access], list[Statement]]:
    """The reduction of a kernel, the accesses of its operands, and the epilogue statements.

    A fused pad becomes implicit padding.

    Raises:
        NotApplicable: it is not a contraction of supported types.
    """
    padding, statements = split_padding(kernel)
    if not statements:
        raise NotApplicable("it has no reduction")
    anchor, *rest = statements
    operands = contraction_operands(anchor)
    check_one_output(anchor)
    check_element_types(anchor, operands, "convolution")
    first, second = (operand.access for operand in operands)
    if padding is None:
        return anchor, (first, second), rest
    read = [*(a for s in rest for a in s.accesses), first, second]
    is_image = [access.buffer == padding.buffer for access in read]
    if sum(is_image) != 1 or float(padding.fill.value) != 0:
        raise NotApplicable("it pads more than the image, or not with zeros")
    shifts = [-before for before in padding.before]
    first, second = (
        _shifted(access, padding.source, shifts)
        if access.buffer == padding.buffer
        else access
        for access in (first, second)
    )
    return anchor, (first, second), rest


def _shifted(access: Access, buffer: ir.Value, shifts: Sequence[int]) -> Access:
    """An access with another buffer and shifted indices."""
    moved = zip(access.forms, shifts, strict=True)
    forms = [form.shifted(n) for form, n in moved if isinstance(form, AffineForm)]
    if len(forms) < len(shifts):
        raise NotApplicable(_BY_PARTS)
    return Access(buffer, tuple(forms))


_BY_PARTS = "an operand is indexed by floordiv or mod of an axis"


def _operand(access: Access) -> ConvolutionOperand:
    forms = [form for form in access.forms if isinstance(form, AffineForm)]
    if len(forms) < len(access.forms):
        raise NotApplicable(_BY_PARTS)
    return ConvolutionOperand(forms, ir.MemRefType(access.buffer.type).shape)


def _plan_fused(
    kernel: Kernel,
    anchor: Statement,
    operands: tuple[Access, Access],
    maps: Sequence[ElementwiseStatement],
) -> CudnnPlan:
    """The plan of a convolution whose whole epilogue is fused.

    Raises:
        NotApplicable: cuDNN cannot fuse it.
    """
    result = maps[-1].output if maps else anchor.outputs[0]
    plan = _plan_of(anchor, operands, result, LibraryEpilogue())
    epilogue = read_epilogue(
        maps,
        anchor.outputs[0],
        kernel.function,
        partial(_is_bias, plan, anchor),
        partial(_is_residual, plan, anchor),
    )
    return replace(plan, epilogue=epilogue)


def _plan_of(
    anchor: Statement,
    operands: tuple[Access, Access],
    result: Access,
    epilogue: LibraryEpilogue,
) -> CudnnPlan:
    element = operands[0].buffer.type.element_type
    if result.buffer.type.element_type != element:
        raise NotApplicable("its result type differs from its operand type")
    extents = [n if isinstance(n, int) else -1 for n in anchor.extents]
    first, second = map(_operand, operands)
    convolution = match_convolution(
        anchor.kinds, extents, (first, second), _operand(result)
    )
    if any(offset * element.width % (8 * _ALIGNMENT) for offset in convolution.offsets):
        raise NotApplicable("an operand is not aligned to 16 bytes")
    batch = 1 if convolution.batch is None else anchor.extents[convolution.batch]
    ordered = operands[convolution.image], operands[convolution.weights]
    return CudnnPlan(convolution, ordered, batch, epilogue, result)


def _is_bias(plan: CudnnPlan, anchor: Statement, access: Access) -> bool:
    """Whether an operand is a contiguous vector with an element per output channel."""
    steps, step = {}, 1
    for axis in reversed(plan.convolution.filters):
        steps[axis] = step
        step *= static_size(anchor.extents[axis])
    return _has_strides(anchor, access, lambda axis: steps.get(axis, 0))


def _is_residual(plan: CudnnPlan, anchor: Statement, access: Access) -> bool:
    """Whether an operand has the shape and layout of the result."""
    return _has_strides(anchor, access, _operand(plan.result).step)


def _has_strides(anchor: Statement, access: Access, step: Callable[[int], int]) -> bool:
    """Whether an access has offset 0 and the given strides along the spatial axes."""
    read = _operand(access)
    spatial = (axis for axis, kind in enumerate(anchor.kinds) if kind == "S")
    long = (axis for axis in spatial if anchor.extents[axis] != 1)
    return read.offset == 0 and all(read.step(axis) == step(axis) for axis in long)


def _write(plan: CudnnPlan, tf32: bool) -> None:
    convolution, epilogue = plan.convolution, plan.epilogue
    buffers = [*(operand.buffer for operand in plan.operands), plan.result.buffer]
    views = [
        view_at_offset(flat_view(buffer), offset)
        for buffer, offset in zip(buffers, convolution.offsets, strict=True)
    ]
    added = [
        [] if access is None else [flat_view(access.buffer)]
        for access in (epilogue.bias, epilogue.residual)
    ]
    grouped = [*([view] for view in views), [index(plan.batch)], *added]
    element = str(plan.operands[0].buffer.type.element_type)
    ir.Operation.create(
        LibraryConvolutionOp.OPERATION_NAME,
        operands=[value for group in grouped for value in group],
        attributes={
            **LibraryConvolutionOp.shape_attributes(convolution.shape),
            "tf32": ir.BoolAttr.get(tf32 and element == "f32"),
            "activation": ir.StringAttr.get(epilogue.activation),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get(list(map(len, grouped))),
        },
    )
