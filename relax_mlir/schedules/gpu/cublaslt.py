"""CublasLt rule: matmuls as calls of NVIDIA's cuBLASLt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from mlir import ir

from relax_mlir.dialects.tir import LibraryMatmulOp
from relax_mlir.schedules.builder import IndexLike, index
from relax_mlir.schedules.contraction_axes import Axis, merge_axes, mergeable_groups
from relax_mlir.schedules.epilogue import is_contiguous
from relax_mlir.schedules.flat_buffers import FlatAccess
from relax_mlir.schedules.gpu.elementwise import Elementwise
from relax_mlir.schedules.gpu.fallback import Fallback
from relax_mlir.schedules.gpu.gemm_kernel import plan_gemm
from relax_mlir.schedules.gpu.library_epilogue import LibraryEpilogue, read_epilogue
from relax_mlir.schedules.gpu.rule import GpuRule
from relax_mlir.schedules.kernel_view import Access, Kernel, Statement, point_count
from relax_mlir.schedules.match_contraction import ContractionOperand, ContractionPlan
from relax_mlir.schedules.rule import NotApplicable
from relax_mlir.schedules.rule_selection import SelectedRule, choose
from relax_mlir.schedules.target_features import Gpu

__all__ = [
    "CublasLt",
    "CublasLtPlan",
    "check_element_types",
    "check_profitable",
    "launch_each",
]

# Supported result types, by operand type.
# Source: cuBLAS documentation, cublasLtMatmul(), table of supported data types.
_RESULTS = {
    "f16": ("f16", "f32"),
    "bf16": ("bf16", "f32"),
    "f32": ("f32",),
    "f64": ("f64",),
}
_HOPPER = 90
_ROW_BYTES = 16  # alignment of rows that our Hopper kernels need for TMA


@dataclass(frozen=True)
class _Axes:
    """The loop axes of a batched matmul; those of one dimension are fused."""

    outer: tuple[int, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    k: tuple[int, ...]


@dataclass(frozen=True)
class CublasLtPlan:
    """A matmul that cuBLASLt computes.

    Attributes:
        contraction: the matmul; axes: of its batch, M, N and K.
        epilogue: fused into the call.
        result: the access that the call writes.
        rest: launches of the statements that are not fused.
    """

    contraction: ContractionPlan
    axes: _Axes
    epilogue: LibraryEpilogue
    result: Access
    rest: tuple[SelectedRule, ...] = ()


class CublasLt(GpuRule[CublasLtPlan]):
    """Matmuls, batched or not, with bias and ReLU.

    ``Gpu.library`` selects when: ``never``; ``auto``, if it is expected to be faster and the
    whole epilogue is fused; or ``always``, where unfused statements become launches.
    """

    def plan(self, kernel: Kernel) -> CublasLtPlan:
        """Matches a matmul with an elementwise epilogue."""
        if self.gpu.library == "never":
            raise NotApplicable("libraries are not enabled")
        plan = plan_gemm(kernel)
        _check_matmul(plan)
        if self.gpu.library == "auto":
            check_profitable(self.gpu, plan.anchor.extents, plan.m, (plan.a, plan.b))
        try:
            total = plan.anchor.outputs[0]
            epilogue = read_epilogue(
                plan.maps, total, kernel.function, partial(_is_bias, plan)
            )
            result = plan.maps[-1].output if plan.maps else total
            axes = _axes_of(plan, result)
        except NotApplicable:
            if self.gpu.library == "auto" or not plan.maps:
                raise
            return self._without_epilogue(kernel, plan)
        return CublasLtPlan(plan, axes, epilogue, result)

    def _without_epilogue(self, kernel: Kernel, plan: ContractionPlan) -> CublasLtPlan:
        """The matmul without its epilogue, which becomes a launch per statement."""
        result = plan.anchor.outputs[0]
        axes = _axes_of(plan, result)
        rest = launch_each(kernel, kernel.statements[1:], self.gpu)
        return CublasLtPlan(plan, axes, LibraryEpilogue(), result, rest)

    def write(self, plan: CublasLtPlan) -> None:
        _write(plan, self.gpu.tf32)
        for choice in plan.rest:
            choice.write()


def launch_each(
    kernel: Kernel, statements: Sequence[Statement], gpu: Gpu
) -> tuple[SelectedRule, ...]:
    """A launch for each statement of an epilogue that a library does not fuse."""
    rules = Elementwise(gpu), Fallback(gpu)
    return tuple(
        choose(replace(kernel, statements=[statement], temporaries=[]), rules)
        for statement in statements
    )


# Thresholds of `auto`. A matmul with this number of multiply-adds takes some microseconds,
# next to which the overhead of a call is negligible. Tensor-core types on Hopper are left to
# GemmWgmma if TMA can read the operands; our kernels for everything else are simpler than
# those of the library. With few rows, Gemv reaches the memory bandwidth as well.
_MIN_MULTIPLY_ADDS = 1 << 26
_MIN_ROWS = 16


def check_profitable(
    gpu: Gpu,
    extents: Sequence[IndexLike],
    rows: Sequence[int],
    operands: Sequence[Access],
    *,
    is_contiguous_for_mma: bool = True,
) -> None:
    """Checks that a library is expected to be faster than our kernels.

    Args:
        extents: of all axes; rows: the M axes.
        operands: of the contraction.
        is_contiguous_for_mma: whether both operands are contiguous as tensor-core kernels need.

    Raises:
        NotApplicable: it is not.
    """
    if point_count([extents[axis] for axis in rows]) < _MIN_ROWS:
        raise NotApplicable("it has few rows, so it is bound by memory bandwidth")
    if point_count(extents) < _MIN_MULTIPLY_ADDS:
        raise NotApplicable("it is too small for a library call")
    element = operands[0].buffer.type.element_type
    has_tensor_cores = element.width == 16 or (str(element) == "f32" and gpu.tf32)
    is_aligned = is_contiguous_for_mma and all(
        stride is not None and stride * element.width % (8 * _ROW_BYTES) == 0
        for access in operands
        for stride in map(access.stride_of, range(len(extents)))
        if stride != 1
    )
    if gpu.sm >= _HOPPER and has_tensor_cores and is_aligned:
        raise NotApplicable("the Hopper kernels are as fast")


def _check_matmul(plan: ContractionPlan) -> None:
    """Checks that a contraction is a matmul that the library computes.

    Raises:
        NotApplicable: it is not.
    """
    operands = plan.lhs, plan.rhs
    if any(operand.edges for operand in operands):
        raise NotApplicable("an operand has implicit padding, which the library lacks")
    check_element_types(plan.anchor, operands, "matmul")
    extents = plan.anchor.extents
    if not all(isinstance(extents[axis], int) and extents[axis] for axis in plan.k):
        raise NotApplicable("its K is dynamic, or 0")


def check_element_types(
    anchor: Statement, operands: Sequence[ContractionOperand], what: str
) -> None:
    """Checks that a library supports the element types of a contraction.

    Args:
        anchor: the reduction statement; what: its name in messages.

    Raises:
        NotApplicable: it does not, or the accumulator does not start from 0.
    """
    element, *others = {str(operand.element) for operand in operands}
    total = str(anchor.outputs[0].buffer.type.element_type)
    is_known = not others and element in _RESULTS
    if not is_known or total != ("f64" if element == "f64" else "f32"):
        raise NotApplicable(f"the library has no {what} of its operand types")
    if not anchor.starts_from_zero:
        raise NotApplicable("its accumulator does not start from 0")


def _is_bias(plan: ContractionPlan, access: Access) -> bool:
    """Whether an operand is a contiguous vector with an element per column."""
    return access.axes == set(plan.n) and is_contiguous(access, plan.n, plan.anchor)


def _axes_of(plan: ContractionPlan, result: Access) -> _Axes:
    """The axes along which operands and result are matrices in memory.

    Raises:
        NotApplicable: one is not a matrix or a batch of matrices.
    """
    element, extents = str(plan.lhs.element), plan.anchor.extents
    if str(result.buffer.type.element_type) not in _RESULTS[element]:
        raise NotApplicable("the library does not support the result type")
    if not all(_is_box(access, extents) for access in (plan.a, plan.b, result)):
        raise NotApplicable("an operand is not a dense box of its buffer")
    rows = mergeable_groups(plan.m, extents, (plan.a, result))
    # M axes that do not fuse with the innermost group become batch axes.
    outer = [*plan.outer, *(axis for group in rows[:-1] for axis in group)]
    sides = (
        *([(outer, (plan.a, plan.b, result))] if outer else []),
        (rows[-1], (plan.a, result)),
        (plan.n, (plan.b, result)),
        (plan.k, (plan.a, plan.b)),
    )
    fused = [mergeable_groups(axes, extents, accesses) for axes, accesses in sides]
    if any(len(group) > 1 for group in fused):
        raise NotApplicable("it has more axes than a batched matmul")
    kinds = [tuple(axes) for (axes,) in fused]
    matrix_axes = _Axes(*(kinds if outer else [(), *kinds]))
    _is_column_major(plan.a, matrix_axes.rows, matrix_axes.k)
    _is_column_major(plan.b, matrix_axes.k, matrix_axes.columns)
    if _is_column_major(result, matrix_axes.rows, matrix_axes.columns):
        raise NotApplicable("its result is not row-major")
    return matrix_axes


def _is_box(access: Access, extents: Sequence[IndexLike]) -> bool:
    """Whether an access reads a box of unit steps, each axis in one dimension."""
    if not access.is_affine:
        return False
    used = [
        (axis, coefficient)
        for form in access.forms
        for axis, coefficient in form.coefficients.items()
        if extents[axis] != 1
    ]
    axes = {axis for axis, _ in used}
    by_dimension = [axes.intersection(form.coefficients) for form in access.forms]
    return (
        len(axes) == len(used)
        and all(coefficient == 1 for _, coefficient in used)
        and all(len(fused) <= 1 for fused in by_dimension)
    )


def _is_column_major(
    access: Access, rows: Sequence[int], columns: Sequence[int]
) -> bool:
    """Whether a matrix is column-major.

    Raises:
        NotApplicable: it is neither row-major nor column-major.
    """
    for axes, is_column_major in ((columns, False), (rows, True)):
        if access.stride_of(axes[-1]) == 1:
            return is_column_major
    raise NotApplicable("a matrix is neither row-major nor column-major")


def _write(plan: CublasLtPlan, tf32: bool) -> None:
    contraction, result = plan.contraction, plan.result
    a, b, extents = contraction.a, contraction.b, contraction.anchor.extents
    axes = plan.axes
    batch = merge_axes(axes.outer, extents, (a, b, result)) if axes.outer else []
    (rows,) = merge_axes(axes.rows, extents, (a, result))
    (columns,) = merge_axes(axes.columns, extents, (b, result))
    (k,) = merge_axes(axes.k, extents, (a, b))
    transposed = (
        _is_column_major(a, axes.rows, axes.k),
        _is_column_major(b, axes.k, axes.columns),
    )
    flat = [FlatAccess.of(access) for access in (a, b, result)]
    leading_axes = (
        k if transposed[0] else rows,
        columns if transposed[1] else k,
        rows,
    )
    leading = [f.step(axis.number) for f, axis in zip(flat, leading_axes, strict=True)]
    steps = [f.step(batch[0].number) if batch else 0 for f in flat]
    sizes = [axis.extent for axis in (*(batch or [Axis(0, 1)]), rows, columns, k)]
    bias = [] if plan.epilogue.bias is None else [FlatAccess.of(plan.epilogue.bias)]
    grouped = [
        *([f.begin] for f in flat),
        *(list(map(index, numbers)) for numbers in (sizes, leading, steps)),
        [f.begin for f in bias],
    ]
    is_f32 = str(contraction.lhs.element) == "f32"
    ir.Operation.create(
        LibraryMatmulOp.OPERATION_NAME,
        operands=[value for group in grouped for value in group],
        attributes={
            "turned": ir.ArrayAttr.get([ir.BoolAttr.get(flag) for flag in transposed]),
            "tf32": ir.BoolAttr.get(tf32 and is_f32),
            "activation": ir.StringAttr.get(plan.epilogue.activation),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get(list(map(len, grouped))),
        },
    )
