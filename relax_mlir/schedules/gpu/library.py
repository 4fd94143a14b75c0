"""Library: products of matrices that NVIDIA's cuBLASLt computes, instead of a launch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from mlir import ir

from relax_mlir.dialects.tir import LibraryProductOp
from relax_mlir.indexing import Linear
from relax_mlir.schedules.choice import Choice, choose
from relax_mlir.schedules.contraction_axes import Axis, groups, merged
from relax_mlir.schedules.contraction_plan import Factor, Plan
from relax_mlir.schedules.emit import Extent, index
from relax_mlir.schedules.epilogue import is_flat
from relax_mlir.schedules.flat import Flat
from relax_mlir.schedules.gpu.elementwise import Elementwise
from relax_mlir.schedules.gpu.fallback import Fallback
from relax_mlir.schedules.gpu.gemm_kernel import plan_gemm
from relax_mlir.schedules.gpu.library_epilogue import LibraryEpilogue, read_epilogue
from relax_mlir.schedules.gpu.rule import Gpu, GpuRule
from relax_mlir.schedules.nest import Access, Kernel, Statement, point_count
from relax_mlir.schedules.rule import Refusal

__all__ = ["Library", "LibraryPlan", "check_gain", "check_types", "launches_of"]

# By the type of the factors: what the result may be of.
# Source: cuBLAS, cublasLtMatmul(), its table of types.
_RESULTS = {
    "f16": ("f16", "f32"),
    "bf16": ("bf16", "f32"),
    "f32": ("f32",),
    "f64": ("f64",),
}
_HOPPER = 90
_ROW_BYTES = 16  # rows lie at multiples of so many for the kernels of Hopper


@dataclass(frozen=True)
class _Axes:
    """The axes of a batch of matrices; those of one kind are walked as one."""

    outer: tuple[int, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    summed: tuple[int, ...]


@dataclass(frozen=True)
class LibraryPlan:
    """A product that a library computes.

    Attributes:
        product: as a contraction; axes: of its matrices.
        epilogue: of what follows, that which the library does.
        result: where it writes.
        rest: what launches do with the result afterwards.
    """

    product: Plan
    axes: _Axes
    epilogue: LibraryEpilogue
    result: Access
    rest: tuple[Choice, ...] = ()


class Library(GpuRule[LibraryPlan]):
    """Products of matrices, one or a batch, with a bias and a ReLU.

    ``Gpu.library`` says when: ``never``; ``auto``, where it gains, and the library does
    all that follows; or ``always``, where launches of their own may do the rest.
    """

    def plan(self, kernel: Kernel) -> LibraryPlan:
        """One product of matrices, and maps of its result."""
        if self.gpu.library == "never":
            raise Refusal("no library is asked for")
        plan = plan_gemm(kernel)
        _check_product(plan)
        if self.gpu.library == "auto":
            check_gain(self.gpu, plan.anchor.extents, plan.m, (plan.a, plan.b))
        try:
            total = plan.anchor.outputs[0]
            epilogue = read_epilogue(
                plan.maps, total, kernel.function, partial(_is_bias, plan)
            )
            result = plan.maps[-1].output if plan.maps else total
            axes = _axes_of(plan, result)
        except Refusal:
            if self.gpu.library == "auto" or not plan.maps:
                raise
            return self._apart(kernel, plan)
        return LibraryPlan(plan, axes, epilogue, result)

    def _apart(self, kernel: Kernel, plan: Plan) -> LibraryPlan:
        """The sum alone, and a launch for each statement that follows."""
        result = plan.anchor.outputs[0]
        axes = _axes_of(plan, result)
        rest = launches_of(kernel, kernel.statements[1:], self.gpu)
        return LibraryPlan(plan, axes, LibraryEpilogue(), result, rest)

    def write(self, plan: LibraryPlan) -> None:
        _write(plan, self.gpu.tf32)
        for choice in plan.rest:
            choice.write()


def launches_of(
    kernel: Kernel, statements: Sequence[Statement], gpu: Gpu
) -> tuple[Choice, ...]:
    """A launch for each of some statements, which map what a library has written."""
    rules = Elementwise(gpu), Fallback(gpu)
    return tuple(
        choose(replace(kernel, statements=[statement], temporaries=[]), rules)
        for statement in statements
    )


# When `auto` gains. A product of so many terms takes some microseconds, beside which one
# more call does not show. Numbers of tensor cores on Hopper are left to GemmWgmma, if the
# copy engine can read their rows; the kernels for everything else are simpler than those
# of the library. A few rows are read at the speed of memory by Gemv as well.
_LEAST_TERMS = 1 << 26
_LEAST_ROWS = 16


def check_gain(
    gpu: Gpu,
    extents: Sequence[Extent],
    rows: Sequence[int],
    factors: Sequence[Access],
    *,
    has_rows: bool = True,
) -> None:
    """Refuse sums of products that a library is not expected to compute faster.

    Args:
        extents: of all axes; rows: those that the result has of the first factor alone.
        factors: what is multiplied.
        has_rows: whether neighbours along rows of both are what threads multiply at once.

    Raises:
        Refusal: it is one.
    """
    if point_count([extents[axis] for axis in rows]) < _LEAST_ROWS:
        raise Refusal("it has few rows, so memory is what it waits for")
    if point_count(extents) < _LEAST_TERMS:
        raise Refusal("it is too small to be worth a call of a library")
    element = factors[0].buffer.type.element_type
    has_tensor_cores = element.width == 16 or (str(element) == "f32" and gpu.tf32)
    is_aligned = has_rows and all(
        stride is not None and stride * element.width % (8 * _ROW_BYTES) == 0
        for access in factors
        for stride in map(access.stride_of, range(len(extents)))
        if stride != 1
    )
    if gpu.sm >= _HOPPER and has_tensor_cores and is_aligned:
        raise Refusal("kernels for Hopper compute it as fast")


def _check_product(plan: Plan) -> None:
    """Refuse sums that are no products of matrices.

    Raises:
        Refusal: it is one.
    """
    factors = plan.rows_of, plan.columns_of
    if any(factor.edges for factor in factors):
        raise Refusal("zeros lie around an operand, which a library does not add")
    check_types(plan.anchor, factors, "product")
    extents = plan.anchor.extents
    if not all(isinstance(extents[axis], int) and extents[axis] for axis in plan.k):
        raise Refusal("its sum is of an open number of terms, or of none")


def check_types(anchor: Statement, factors: Sequence[Factor], what: str) -> None:
    """Refuse sums of products of types that a library has not, or that begin with others.

    Args:
        anchor: the sum; what: the library calls it.

    Raises:
        Refusal: it is one.
    """
    element, *others = {str(factor.element) for factor in factors}
    total = str(anchor.outputs[0].buffer.type.element_type)
    is_known = not others and element in _RESULTS
    if not is_known or total != ("f64" if element == "f64" else "f32"):
        raise Refusal(f"a library has no {what} of its factors' types")
    if not anchor.starts_from_zero:
        raise Refusal("its sum does not start from 0")


def _is_bias(plan: Plan, access: Access) -> bool:
    """Whether an operand has one number for each column, side by side."""
    return access.axes == set(plan.n) and is_flat(access, plan.n, plan.anchor)


def _axes_of(plan: Plan, result: Access) -> _Axes:
    """How operands and results are matrices in memory.

    Raises:
        Refusal: one is none.
    """
    element, extents = str(plan.rows_of.element), plan.anchor.extents
    if str(result.buffer.type.element_type) not in _RESULTS[element]:
        raise Refusal("a library does not write results of that type")
    if not all(_is_box(access, extents) for access in (plan.a, plan.b, result)):
        raise Refusal("an operand is not read element by element")
    rows = groups(plan.m, extents, (plan.a, result))
    # Rows of matrices that lie apart are those of a batch.
    outer = [*plan.outer, *(axis for group in rows[:-1] for axis in group)]
    sides = (
        *([(outer, (plan.a, plan.b, result))] if outer else []),
        (rows[-1], (plan.a, result)),
        (plan.n, (plan.b, result)),
        (plan.k, (plan.a, plan.b)),
    )
    found = [groups(axes, extents, accesses) for axes, accesses in sides]
    if any(len(group) > 1 for group in found):
        raise Refusal("its axes are more than those of a batch of matrices")
    kinds = [tuple(axes) for (axes,) in found]
    made = _Axes(*(kinds if outer else [(), *kinds]))
    _is_turned(plan.a, made.rows, made.summed)
    _is_turned(plan.b, made.summed, made.columns)
    if _is_turned(result, made.rows, made.columns):
        raise Refusal("the columns of its result do not lie side by side")
    return made


def _is_box(access: Access, extents: Sequence[Extent]) -> bool:
    """Whether an access reads the elements of a box, each once."""
    if not all(isinstance(form, Linear) for form in access.forms):
        return False
    moving = [
        (axis, factor)
        for form in access.forms
        for axis, factor in form.coefficients.items()
        if extents[axis] != 1
    ]
    axes = {axis for axis, _ in moving}
    by_form = [axes.intersection(form.coefficients) for form in access.forms]
    return (
        len(axes) == len(moving)
        and all(factor == 1 for _, factor in moving)
        and all(len(found) <= 1 for found in by_form)
    )


def _is_turned(access: Access, rows: Sequence[int], columns: Sequence[int]) -> bool:
    """Whether neighbours in a column lie side by side, and not those in a row.

    Raises:
        Refusal: neither do.
    """
    for axes, is_turned in ((columns, False), (rows, True)):
        if access.stride_of(axes[-1]) == 1:
            return is_turned
    raise Refusal("neither rows nor columns of a matrix lie side by side")


def _write(plan: LibraryPlan, tf32: bool) -> None:
    product, result = plan.product, plan.result
    a, b, extents = product.a, product.b, product.anchor.extents
    axes = plan.axes
    batch = merged(axes.outer, extents, (a, b, result)) if axes.outer else []
    (rows,) = merged(axes.rows, extents, (a, result))
    (columns,) = merged(axes.columns, extents, (b, result))
    (summed,) = merged(axes.summed, extents, (a, b))
    turned = (
        _is_turned(a, axes.rows, axes.summed),
        _is_turned(b, axes.summed, axes.columns),
    )
    flat = [Flat.of(access) for access in (a, b, result)]
    between = (
        summed if turned[0] else rows,
        columns if turned[1] else summed,
        rows,
    )
    leading = [f.step(axis.number) for f, axis in zip(flat, between, strict=True)]
    steps = [f.step(batch[0].number) if batch else 0 for f in flat]
    sizes = [axis.extent for axis in (*(batch or [Axis(0, 1)]), rows, columns, summed)]
    bias = [] if plan.epilogue.bias is None else [Flat.of(plan.epilogue.bias)]
    grouped = [
        *([f.begin] for f in flat),
        *(list(map(index, numbers)) for numbers in (sizes, leading, steps)),
        [f.begin for f in bias],
    ]
    is_f32 = str(product.rows_of.element) == "f32"
    ir.Operation.create(
        LibraryProductOp.OPERATION_NAME,
        operands=[value for group in grouped for value in group],
        attributes={
            "turned": ir.ArrayAttr.get([ir.BoolAttr.get(flag) for flag in turned]),
            "tf32": ir.BoolAttr.get(tf32 and is_f32),
            "activation": ir.StringAttr.get(plan.epilogue.activation),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get(list(map(len, grouped))),
        },
    )
