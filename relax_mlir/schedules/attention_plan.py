"""Which kernels are attention: a product, what follows on its rows, another product."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mlir import ir

from relax_mlir.indexing import Form, Linear, buffer_sizes
from relax_mlir.schedules.contraction_plan import Plan, plan_sum
from relax_mlir.schedules.emit import Extent
from relax_mlir.schedules.epilogue import Map, map_after, maps_after
from relax_mlir.schedules.nest import Access, Kernel, Statement
from relax_mlir.schedules.rule import Refusal, check_one_output, check_statements
from relax_mlir.traversal import own_operations

__all__ = [
    "AttentionPlan",
    "exponentials_of",
    "maker_of",
    "plan_attention",
    "with_late_factor",
]


@dataclass(frozen=True)
class AttentionPlan:
    """How a kernel is attention.

    Buffers inside the kernel have the dimensions of the scores: heads, then the rows,
    then what a row has, which are keys or one number.

    Attributes:
        scores: the first product, and maps of it; its columns are the keys. Of its rows
            the last axis counts them; others are heads that share keys.
        result: where these are written, in the axes of the product.
        rows: the statements that follow on a row of scores.
        values: the second product, that of the rows and the values, and maps of it.
        extents: of heads and rows.
    """

    scores: Plan
    result: Access
    rows: tuple[Statement, ...]
    values: Plan
    extents: tuple[Extent, ...]

    @property
    def depth(self) -> int:
        """Dimensions of heads and rows."""
        return len(self.extents)

    @property
    def keys(self) -> Extent:
        """How many numbers a row of scores has."""
        return self.scores.anchor.extents[self.scores.n[0]]

    @property
    def temporaries(self) -> list[ir.Value]:
        """The buffers between the products, in the order in which they are written."""
        return [self.result.buffer, *(s.outputs[0].buffer for s in self.rows)]

    @property
    def score_axes(self) -> list[int | None]:
        """The axes of heads and rows in the first product; None for an only point."""
        return _leading_axes(self.result, self.depth)

    @property
    def value_axes(self) -> list[int | None]:
        """The axes of heads and rows in the second product; None for an only point."""
        return _leading_axes(self.values.a, self.depth)


def plan_attention(kernel: Kernel) -> AttentionPlan:
    """The plan of a kernel.

    Raises:
        Refusal: it is no attention, or one whose rows need each other.
    """
    check_statements(kernel)
    first, *rest = kernel.statements
    scores = plan_sum(first)
    number = _second_product(rest)
    between, second, after = rest[:number], rest[number], rest[number + 1 :]
    values = plan_sum(second)
    values = replace(values, maps=maps_after(second, values.n, after, kernel))
    maps, rows = _leading_maps(scores, between, [second, *after])
    if not any(statement.is_reduction for statement in rows):
        raise Refusal("nothing between its products needs whole rows")
    result = maps[-1].output if maps else first.outputs[0]
    scores = replace(scores, maps=maps)
    _check_scores(scores, result)
    axes = _leading_axes(result, len(result.forms) - 1)
    extents = tuple(1 if axis is None else first.extents[axis] for axis in axes)
    values = _rows_last(values, len(extents))
    plan = AttentionPlan(scores, result, rows, values, extents)
    _check_operands(plan, kernel)
    for statement in rows:
        _check_row(plan, statement, kernel)
    _check_values(plan, kernel)
    return plan


def _second_product(statements: Sequence[Statement]) -> int:
    """Which statement is the one sum of products beside the first."""
    found = [n for n, s in enumerate(statements) if _is_sum_of_products(s)]
    if len(found) != 1:
        raise Refusal(f"{len(found)} sums of products follow the first, not one")
    return found[0]


def _is_sum_of_products(statement: Statement) -> bool:
    try:
        plan_sum(statement)
    except Refusal:
        return False
    return True


def _leading_maps(
    scores: Plan, between: Sequence[Statement], later: Sequence[Statement]
) -> tuple[tuple[Map, ...], tuple[Statement, ...]]:
    """The maps that run while scores are in registers, and the statements after them."""
    produced = scores.anchor.outputs[0]
    maps: list[Map] = []
    for number, statement in enumerate(between):
        known = {produced.buffer: produced}
        try:
            following = map_after(scores.anchor, scores.n, statement, known)
        except Refusal:
            break
        rest = [*between[number + 1 :], *later]
        if any(a.buffer == produced.buffer for s in rest for a in s.inputs):
            break
        maps.append(following)
        produced = following.output
    return tuple(maps), tuple(between[len(maps) :])


def _rows_last(values: Plan, depth: int) -> Plan:
    """The second product with its rows behind what shares values, however it is written."""
    *_, row = _leading_axes(values.a, depth)
    others = tuple(axis for axis in values.m if axis != row)
    is_row = row is not None and len(others) < len(values.m)
    return replace(values, m=(*others, row)) if is_row else values


def _check_scores(scores: Plan, result: Access) -> None:
    """Refuse scores that are not written head by head, row by row."""
    *_, row, key = (form.single_axis for form in result.forms)
    *shared, last = scores.m
    if row != last or (key,) != scores.n:
        raise Refusal("its scores are not written row by row, keys side by side")
    heads, extents = _leading_axes(result, len(result.forms) - 2), scores.anchor.extents
    others = (axis for axis in (*scores.outer, *shared) if extents[axis] != 1)
    if any(axis not in heads for axis in others):
        raise Refusal("its scores have axes that are no heads")


def _check_operands(plan: AttentionPlan, kernel: Kernel) -> None:
    """Refuse products of what is made inside, or is packed for other rules."""
    for product in (plan.scores, plan.values):
        if str(product.element) not in ("f32", "f64"):
            raise Refusal(f"it sums {product.element}, not f32 or f64")
        if product.block or product.group != 1:
            raise Refusal("its keys or values are packed in blocks")
    if plan.values.a.buffer not in plan.temporaries:
        raise Refusal("the second product does not read what follows the first")
    read = (plan.scores.a, plan.scores.b, plan.values.b)
    if any(access.buffer in kernel.temporaries for access in read):
        raise Refusal("its queries, keys or values are made inside")


def _check_row(plan: AttentionPlan, statement: Statement, kernel: Kernel) -> None:
    """Refuse a statement that does more than to follow on a row of scores."""
    check_one_output(statement)
    heads = statement.extents[: plan.depth]
    if "R" in statement.kinds[: plan.depth] or heads != plan.extents:
        raise Refusal("a statement between its products is not one of rows of scores")
    if statement.outputs[0].buffer not in kernel.temporaries:
        raise Refusal("it has results between its products")
    for access in statement.accesses:
        if access.buffer in kernel.temporaries:
            _check_in_row(plan, access, range(plan.depth))
    if statement.read_within.intersection(kernel.temporaries):
        raise Refusal("a statement between its products reads a computed place")


def _check_values(plan: AttentionPlan, kernel: Kernel) -> None:
    """Refuse a second product that is not one of rows of scores."""
    values, axes = plan.values, plan.value_axes
    extents = values.anchor.extents
    key = values.a.forms[-1].single_axis
    *shared, last = values.m
    is_whole = last == axes[-1] and values.k == (key,)
    if len(axes) != plan.depth or len(values.a.forms) != plan.depth + 1 or not is_whole:
        raise Refusal("its second product is not one of whole rows of scores")
    if any(a not in axes and extents[a] != 1 for a in (*values.outer, *shared)):
        raise Refusal("its values have axes that are no heads")
    sizes = [1 if axis is None else extents[axis] for axis in axes]
    if (*sizes, extents[values.k[0]]) != (*plan.extents, plan.keys):
        raise Refusal("its second product reads a part of the scores")
    inside = {values.anchor.outputs[0].buffer, *(m.output.buffer for m in values.maps)}
    for access in (a for m in values.maps for a in m.inputs):
        if access.buffer in kernel.temporaries and access.buffer not in inside:
            _check_in_row(plan, access, axes)


def _check_in_row(
    plan: AttentionPlan, access: Access, axes: Sequence[int | None]
) -> None:
    """Refuse an access to a buffer inside that leaves the row."""
    sizes = buffer_sizes(access.buffer)
    leading, rest = access.forms[: len(axes)], access.forms[len(axes) :]
    for axis, form, size in zip(axes, leading, sizes, strict=False):
        if form.single_axis != axis and not _is_only_point(form, size):
            raise Refusal("a statement reads another row of scores than its own")
    is_row = len(leading) == len(axes) and len(rest) <= 1
    if not is_row or any(size not in (1, plan.keys) for size in sizes[len(axes) :]):
        raise Refusal("a buffer inside has other dimensions than the scores")
    if any(form.coefficients.keys() & set(axes) for form in rest):
        raise Refusal("a statement reads a part of a row that depends on the row")


def _is_only_point(form: Form, size: Extent | None) -> bool:
    return form == Linear({}) and size == 1


def _leading_axes(access: Access, depth: int) -> list[int | None]:
    """The axes of the first dimensions; None for the only point of one.

    Raises:
        Refusal: one is neither.
    """
    found: list[int | None] = []
    sizes = buffer_sizes(access.buffer)
    for form, size in zip(access.forms[:depth], sizes, strict=False):
        if form.single_axis is None and not _is_only_point(form, size):
            raise Refusal("a buffer inside is not read by the axes of heads and rows")
        found.append(form.single_axis)
    return found


def with_late_factor(plan: AttentionPlan) -> AttentionPlan:
    """The plan with a factor of whole rows put off until after the second product.

    Sums of values are fewer than keys, and a sum times a number is the sum of what is
    multiplied by it, but for rounding: once instead of once a key. There must be keys: of
    none, the factor may be infinite, which times an empty sum is no number. And what is
    multiplied must be at most 1, as in a softmax: sums of larger numbers could overflow.
    """
    if not isinstance(plan.keys, int):
        return plan
    *rows, last = plan.rows or (None,)
    if last is None or not plan.values.anchor.starts_from_zero:
        return plan
    number = _scaled(last, plan.depth)
    if number is None or last.outputs[0].buffer != plan.values.a.buffer:
        return plan
    if exponentials_of(last.inputs[number].buffer, rows) is None:
        return plan
    read = [a.buffer for m in plan.values.maps for a in m.inputs]
    if last.outputs[0].buffer in read:
        return plan
    out = plan.values.anchor.outputs[0]
    renamed = [
        out if n == number else _in_axes(access, plan.value_axes)
        for n, access in enumerate(last.inputs)
    ]
    scale = Map(last, tuple(renamed), out)
    source = Access(last.inputs[number].buffer, plan.values.a.forms)
    values = replace(
        plan.values,
        rows_of=replace(plan.values.rows_of, access=source),
        maps=(scale, *plan.values.maps),
    )
    return replace(plan, rows=tuple(rows), values=values)


def exponentials_of(
    buffer: ir.Value, rows: Sequence[Statement]
) -> tuple[Statement, Statement] | None:
    """What makes a buffer exponentials of rows less their greatest numbers.

    Returns:
        The statement of the exponentials, and that of the greatest numbers; None if it
        is anything else, and may be larger than 1.
    """
    made = maker_of(buffer, rows)
    if made is None:
        return None
    power = made.yielded[0].owner
    if isinstance(power, ir.Block) or power.name != "math.exp":
        return None
    less = power.operands[0].owner
    if isinstance(less, ir.Block) or less.name != "arith.subf":
        return None
    inputs = list(made.body.arguments)[: len(made.inputs)]
    whole, top = map(_before_extension, less.operands)
    if whole not in inputs or top not in inputs:
        return None
    row = made.inputs[inputs.index(whole)].buffer
    greatest = maker_of(made.inputs[inputs.index(top)].buffer, rows)
    if greatest is None or [a.buffer for a in greatest.inputs] != [row]:
        return None
    kinds = ("arith.maximumf", "arith.maxnumf")
    total = greatest.yielded[0].owner
    is_greatest = not isinstance(total, ir.Block) and total.name in kinds
    return (made, greatest) if is_greatest else None


def _before_extension(value: ir.Value) -> ir.Value:
    """What a value is, in a narrower type if it was widened."""
    owner = value.owner
    is_wide = not isinstance(owner, ir.Block) and owner.name == "arith.extf"
    return owner.operands[0] if is_wide else value


def maker_of(buffer: ir.Value, rows: Sequence[Statement]) -> Statement | None:
    """The statement that writes a buffer."""
    return next((s for s in rows if s.outputs[0].buffer == buffer), None)


def _scaled(statement: Statement, depth: int) -> int | None:
    """Which input a statement multiplies, or divides, by one that all of a row share."""
    operation, *rest = own_operations(statement.body)
    out = statement.outputs[0]
    if len(rest) != 1 or len(statement.inputs) != 2 or len(out.forms) != depth + 1:
        return None
    inputs = list(statement.body.arguments)[:2]
    name, operands = operation.operation.name, list(operation.operands)
    if name not in ("arith.mulf", "arith.divf") or set(operands) != set(inputs):
        return None
    for number in (0,) if name == "arith.divf" else (0, 1):
        read = statement.inputs[inputs.index(operands[number])]
        other = statement.inputs[inputs.index(operands[1 - number])]
        shares = not any(axis >= depth for axis in other.axes)
        if read.forms == out.forms and shares and read.buffer.type == out.buffer.type:
            return inputs.index(operands[number])
    return None


def _in_axes(access: Access, axes: Sequence[int | None]) -> Access:
    """An access of a statement of rows in the axes of the second product."""
    forms = []
    for form in access.forms:
        total = Linear({}, form.constant)
        for axis, factor in form.coefficients.items():
            by = axes[axis]
            total = total if by is None else total.plus(Linear({by: 1}), factor)
        forms.append(total)
    return Access(access.buffer, tuple(forms))
