"""Which kernels are contractions: sums of products, and maps of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mlir import ir

from relax_mlir.indexing import Form, Part
from relax_mlir.schedules.epilogue import Map, is_flat, maps_after
from relax_mlir.schedules.nest import Access, Kernel, Statement
from relax_mlir.schedules.rule import (
    Refusal,
    check_one_output,
    check_statements,
)

__all__ = ["Factor", "Plan", "factors_of", "plan_contraction", "plan_sum"]


@dataclass(frozen=True)
class Factor:
    """One of the two operands whose products are summed.

    Attributes:
        access: where it is read.
        extend: the operation that widens an element to the type of the sum; None if it
            is of that type.
        edges: the dimensions of its buffer whose indices may be outside, where zeros are.
    """

    access: Access
    extend: str | None = None
    edges: frozenset[int] = frozenset()

    @property
    def edge_axes(self) -> set[int]:
        """The axes along which it may be read outside."""
        forms = self.access.forms
        return {axis for d in self.edges for axis in forms[d].coefficients}

    @property
    def element(self) -> ir.Type:
        """The type of an element in memory."""
        return self.access.buffer.type.element_type


@dataclass(frozen=True)
class Plan:
    """How a kernel is a contraction.

    Attributes:
        anchor: the statement that sums; maps: what follows, element by element.
        rows_of, columns_of: the operand of the rows, and that of the columns.
        outer: axes of separate products; m, n, k: rows, columns, and what is summed.
        whole: whether the columns lie side by side in ``b`` too.
        block: columns that lie side by side in blocks of the whole sum; 0 for none.
        group: steps of the sum that are neighbours in a block, for each column.
    """

    anchor: Statement
    rows_of: Factor
    columns_of: Factor
    outer: tuple[int, ...]
    m: tuple[int, ...]
    n: tuple[int, ...]
    k: tuple[int, ...]
    whole: bool
    block: int = 0
    group: int = 1
    maps: tuple[Map, ...] = ()

    @property
    def a(self) -> Access:
        """Where the rows' operand is read."""
        return self.rows_of.access

    @property
    def b(self) -> Access:
        """Where the columns' operand is read."""
        return self.columns_of.access

    @property
    def element(self) -> ir.Type:
        """The type of the sum."""
        return self.anchor.outputs[0].buffer.type.element_type


def plan_contraction(kernel: Kernel) -> Plan:
    """The plan of a kernel.

    Raises:
        Refusal: it is no contraction in f32, f64 or i32.
    """
    check_statements(kernel)
    anchor, *rest = kernel.statements
    plan = plan_sum(anchor)
    return replace(plan, maps=maps_after(anchor, plan.n, rest, kernel))


def plan_sum(anchor: Statement) -> Plan:
    """The plan of one statement, without what follows it.

    Raises:
        Refusal: it is no sum of products in f32, f64 or i32.
    """
    factors = factors_of(anchor)
    if anchor.start is None:
        raise Refusal("its sum does not start from a constant")
    check_one_output(anchor)
    return _classify(anchor, factors)


_EXTENSIONS = (
    *("arith.extsi", "arith.extui", "arith.sitofp", "arith.uitofp"),
    "arith.extf",
)
_SUMS = {"arith.addf": "arith.mulf", "arith.addi": "arith.muli"}


def factors_of(anchor: Statement) -> tuple[Factor, Factor]:
    """The two reads whose products a statement sums.

    Raises:
        Refusal: it is no such sum in f32, f64 or i32.
    """
    total = anchor.yielded[0].owner
    is_sum = anchor.is_reduction and not isinstance(total, ir.Block)
    if not is_sum or total.name not in _SUMS:
        raise Refusal("its first statement is no sum")
    out = list(anchor.body.arguments)[-1]
    terms = [v for v in total.operands if v != out]
    is_term = len(terms) == 1 and not isinstance(terms[0].owner, ir.Block)
    if not is_term or terms[0].owner.name != _SUMS[total.name]:
        raise Refusal("what it sums are no products")
    if str(out.type) not in ("f32", "f64", "i32"):
        raise Refusal(f"its sum is of {out.type}, not of f32, f64 or i32")
    first, second = (_factor(anchor, v) for v in terms[0].owner.operands)
    if first is None or second is None:
        raise Refusal("a factor of its products is computed, not read")
    return first, second


def _factor(anchor: Statement, value: ir.Value) -> Factor | None:
    """An operand of the product, if it is read, and is or was an integer, if widened."""
    extend, owner = None, value.owner
    if not isinstance(owner, ir.Block) and owner.name in _EXTENSIONS:
        extend, value = owner.name, owner.operands[0]
    inputs = list(anchor.body.arguments)[: len(anchor.inputs)]
    if value not in inputs:
        return None
    return Factor(anchor.inputs[inputs.index(value)], extend)


def _classify(anchor: Statement, factors: tuple[Factor, Factor]) -> Plan:
    """Sort the axes: the columns come from one of the factors."""
    out = anchor.outputs[0]
    spatial = [axis for form in out.forms for axis in _axes_by_stride(form)]
    if len(spatial) != len(set(spatial)) or len(spatial) != anchor.kinds.count("S"):
        raise Refusal("its result is not indexed by each spatial axis once")
    for left, right in (factors, factors[::-1]):
        columns = _column_axes(anchor, spatial, left.access, right.access)
        if columns:
            return _with_columns(anchor, left, right, spatial, columns)
    raise Refusal("neither factor alone has the columns, the last axis of the result")


def _with_columns(
    anchor: Statement,
    left: Factor,
    right: Factor,
    spatial: Sequence[int],
    columns: Sequence[int],
) -> Plan:
    """The plan, if the columns come from ``right``."""
    a, b = left.access, right.access
    rest = [axis for axis in spatial if axis not in columns]
    rows = [axis for axis in rest if axis in a.axes and axis not in b.axes]
    summed = _walked_by(a, [i for i, kind in enumerate(anchor.kinds) if kind == "R"])
    # Without rows every column is read once: a panel would cost more than it saves, as in
    # a depthwise convolution.
    if not rows:
        raise Refusal("it has no rows, which the factor without columns would have")
    if not all(axis in a.axes for axis in summed):
        raise Refusal("an axis of the sum is not one of both factors")
    return Plan(
        anchor,
        left,
        right,
        outer=tuple(axis for axis in rest if axis not in rows),
        m=tuple(rows),
        n=tuple(columns),
        k=tuple(summed),
        whole=is_flat(b, columns, anchor),
        block=_block_of(b, columns),
        group=_group_of(b, summed),
    )


def _block_of(access: Access, columns: Sequence[int]) -> int:
    """How many columns a block has; 0 if the operand is not stored in blocks."""
    parts = [f for f in access.forms if isinstance(f, Part) and f.is_inner]
    return next((f.base for f in parts if [f.axis] == list(columns)), 0)


def _group_of(access: Access, summed: Sequence[int]) -> int:
    """How many steps of the sum are neighbours in a block."""
    parts = [f for f in access.forms if isinstance(f, Part) and f.is_inner]
    return next((f.base for f in parts if f.axis in summed), 1)


def _column_axes(
    anchor: Statement, spatial: Sequence[int], a: Access, b: Access
) -> list[int]:
    """The last axes of the result that only ``b`` depends on; none if it is not the last."""
    out = anchor.outputs[0]
    found: list[int] = []
    for axis in reversed(spatial):
        group = [axis, *found]
        fits = is_flat(out, group, anchor) if found else out.stride_of(axis) == 1
        if axis in a.axes or axis not in b.axes or not fits:
            break
        found = group
    return found


def _axes_by_stride(form: Form) -> list[int]:
    """The axes of an index, the one that steps farthest first."""
    return sorted(form.coefficients, key=lambda axis: -form.coefficients[axis])


def _walked_by(access: Access, axes: Sequence[int]) -> list[int]:
    """Some axes in the order in which an operand steps farthest first."""
    dimensions = {
        axis: number
        for number, form in enumerate(access.forms)
        for axis in form.coefficients
    }
    return sorted(axes, key=lambda axis: dimensions.get(axis, -1))
