"""LibraryConvolution: convolutions that NVIDIA's cuDNN computes, instead of launches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from mlir import ir

from relax_mlir.dialects.tir import LibraryConvolutionOp
from relax_mlir.indexing import Linear
from relax_mlir.schedules.choice import Choice
from relax_mlir.schedules.contraction_plan import factors_of
from relax_mlir.schedules.convolution_plan import (
    Convolution,
    Operand,
    read_convolution,
)
from relax_mlir.schedules.emit import Extent, index, static
from relax_mlir.schedules.epilogue import Map, maps_after
from relax_mlir.schedules.flat import flat_view, view_from
from relax_mlir.schedules.gpu.library import check_gain, check_types, launches_of
from relax_mlir.schedules.gpu.library_epilogue import LibraryEpilogue, read_epilogue
from relax_mlir.schedules.gpu.rule import GpuRule
from relax_mlir.schedules.nest import Access, Kernel, Statement
from relax_mlir.schedules.padding import split_padding
from relax_mlir.schedules.rule import Refusal, check_one_output, check_statements

__all__ = ["ConvolutionPlan", "LibraryConvolution"]

_ALIGNMENT = 16  # bytes, at multiples of which all operands begin


@dataclass(frozen=True)
class ConvolutionPlan:
    """A convolution that a library computes.

    Attributes:
        convolution: as plain numbers.
        factors: where the picture and the weights are read.
        batch: how many pictures.
        epilogue: of what follows, that which the library does.
        result: where it writes.
        rest: what launches do with the result afterwards.
    """

    convolution: Convolution
    factors: tuple[Access, Access]
    batch: Extent
    epilogue: LibraryEpilogue
    result: Access
    rest: tuple[Choice, ...] = ()


class LibraryConvolution(GpuRule[ConvolutionPlan]):
    """Convolutions of one to three axes, with a bias, a residual and a ReLU.

    ``Gpu.library`` says when: ``never``; ``auto``, where it gains, and the library does
    all that follows; or ``always``, where launches of their own may do the rest.
    """

    def plan(self, kernel: Kernel) -> ConvolutionPlan:
        """One convolution, and maps of its result."""
        if self.gpu.library == "never":
            raise Refusal("no library is asked for")
        check_statements(kernel)
        anchor, factors, rest = _sum_of(kernel)
        maps = maps_after(anchor, (), rest, kernel)
        try:
            made = _fused(kernel, anchor, factors, maps)
        except Refusal:
            if self.gpu.library == "auto" or not maps:
                raise
            made = _plan_of(anchor, factors, anchor.outputs[0], LibraryEpilogue())
            made = replace(made, rest=launches_of(kernel, rest, self.gpu))
        if self.gpu.library == "auto":
            self._check_gain(anchor, made)
        return made

    def _check_gain(self, anchor: Statement, plan: ConvolutionPlan) -> None:
        """Refuse what ``auto`` leaves to kernels of ours.

        Raises:
            Refusal: it does.
        """
        shape = plan.convolution.shape
        if not shape.is_packed(channels_last=shape.channels_last):
            raise Refusal("its pictures, weights and results lie in different orders")
        if shape.channels == shape.groups:
            raise Refusal("its channels do not see each other, so memory is waited for")
        check_gain(
            self.gpu,
            anchor.extents,
            plan.convolution.filters[-1:],
            plan.factors,
            has_rows=shape.channels_last,
        )

    def write(self, plan: ConvolutionPlan) -> None:
        _write(plan, self.gpu.tf32)
        for choice in plan.rest:
            choice.write()


def _sum_of(
    kernel: Kernel,
) -> tuple[Statement, tuple[Access, Access], list[Statement]]:
    """The sum of a kernel, where its factors are read, and what follows.

    Pads of the kernel's own are looked through.

    Raises:
        Refusal: it is no sum of products of a library's types.
    """
    padding, statements = split_padding(kernel)
    if not statements:
        raise Refusal("it has no sum")
    anchor, *rest = statements
    factors = factors_of(anchor)
    check_one_output(anchor)
    check_types(anchor, factors, "convolution")
    first, second = (factor.access for factor in factors)
    if padding is None:
        return anchor, (first, second), rest
    read = [*(a for s in rest for a in s.accesses), first, second]
    is_picture = [access.buffer == padding.buffer for access in read]
    if sum(is_picture) != 1 or float(padding.fill.value) != 0:
        raise Refusal("it pads something else than a picture, or with other numbers")
    shifts = [-before for before in padding.before]
    first, second = (
        _moved(access, padding.source, shifts)
        if access.buffer == padding.buffer
        else access
        for access in (first, second)
    )
    return anchor, (first, second), rest


def _moved(access: Access, buffer: ir.Value, shifts: Sequence[int]) -> Access:
    """An access as one to another buffer, whose indices are others by some numbers."""
    moved = zip(access.forms, shifts, strict=True)
    forms = [form.plus(Linear({}, n)) for form, n in moved if isinstance(form, Linear)]
    if len(forms) < len(shifts):
        raise Refusal(_BY_PARTS)
    return Access(buffer, tuple(forms))


_BY_PARTS = "an operand is read by parts of an axis"


def _operand(access: Access) -> Operand:
    forms = [form for form in access.forms if isinstance(form, Linear)]
    if len(forms) < len(access.forms):
        raise Refusal(_BY_PARTS)
    return Operand(forms, ir.MemRefType(access.buffer.type).shape)


def _fused(
    kernel: Kernel,
    anchor: Statement,
    factors: tuple[Access, Access],
    maps: Sequence[Map],
) -> ConvolutionPlan:
    """A convolution that the library computes with all that follows.

    Raises:
        Refusal: it does not.
    """
    result = maps[-1].output if maps else anchor.outputs[0]
    plan = _plan_of(anchor, factors, result, LibraryEpilogue())
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
    factors: tuple[Access, Access],
    result: Access,
    epilogue: LibraryEpilogue,
) -> ConvolutionPlan:
    element = factors[0].buffer.type.element_type
    if result.buffer.type.element_type != element:
        raise Refusal("a library writes results of its factors' type alone")
    extents = [n if isinstance(n, int) else -1 for n in anchor.extents]
    first, second = map(_operand, factors)
    found = read_convolution(anchor.kinds, extents, (first, second), _operand(result))
    if any(offset * element.width % (8 * _ALIGNMENT) for offset in found.offsets):
        raise Refusal("an operand does not begin at a multiple of 16 bytes")
    batch = 1 if found.batch is None else anchor.extents[found.batch]
    ordered = factors[found.picture], factors[found.weights]
    return ConvolutionPlan(found, ordered, batch, epilogue, result)


def _is_bias(plan: ConvolutionPlan, anchor: Statement, access: Access) -> bool:
    """Whether an operand has one number for each channel of the result, side by side."""
    steps, step = {}, 1
    for axis in reversed(plan.convolution.filters):
        steps[axis] = step
        step *= static(anchor.extents[axis])
    return _is_read_so(anchor, access, lambda axis: steps.get(axis, 0))


def _is_residual(plan: ConvolutionPlan, anchor: Statement, access: Access) -> bool:
    """Whether an operand has a number for each result, and lies as that does."""
    return _is_read_so(anchor, access, _operand(plan.result).step)


def _is_read_so(anchor: Statement, access: Access, step: Callable[[int], int]) -> bool:
    """Whether an operand begins with its buffer, and goes along axes by these steps."""
    read = _operand(access)
    spatial = (axis for axis, kind in enumerate(anchor.kinds) if kind == "S")
    long = (axis for axis in spatial if anchor.extents[axis] != 1)
    return read.offset == 0 and all(read.step(axis) == step(axis) for axis in long)


def _write(plan: ConvolutionPlan, tf32: bool) -> None:
    found, epilogue = plan.convolution, plan.epilogue
    buffers = [*(factor.buffer for factor in plan.factors), plan.result.buffer]
    views = [
        view_from(flat_view(buffer), offset)
        for buffer, offset in zip(buffers, found.offsets, strict=True)
    ]
    added = [
        [] if access is None else [flat_view(access.buffer)]
        for access in (epilogue.bias, epilogue.residual)
    ]
    grouped = [*([view] for view in views), [index(plan.batch)], *added]
    element = str(plan.factors[0].buffer.type.element_type)
    ir.Operation.create(
        LibraryConvolutionOp.OPERATION_NAME,
        operands=[value for group in grouped for value in group],
        attributes={
            **LibraryConvolutionOp.shape_attributes(found.shape),
            "tf32": ir.BoolAttr.get(tf32 and element == "f32"),
            "activation": ir.StringAttr.get(epilogue.activation),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get(list(map(len, grouped))),
        },
    )
