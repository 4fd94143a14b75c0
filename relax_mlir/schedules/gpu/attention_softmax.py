"""Which attention can be computed key by key: one whose rows are a softmax.

A softmax needs the greatest score of a row and the sum of its exponentials. Both can be kept
while keys come, and what was summed before is scaled when a greater score comes.

Source: Milakov and Gimelshein, Online normalizer calculation for softmax, 2018.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.indexing import Linear, buffer_sizes, linear_in
from relax_mlir.schedules.attention_plan import (
    AttentionPlan,
    exponentials_of,
    maker_of,
    plan_attention,
)
from relax_mlir.schedules.combination import Combination
from relax_mlir.schedules.constants import number_of
from relax_mlir.schedules.emit import is_one
from relax_mlir.schedules.nest import Access, Kernel, Statement
from relax_mlir.schedules.rule import Refusal
from relax_mlir.schedules.statement_loops import combinations_of
from relax_mlir.traversal import walk

__all__ = ["Factor", "ScoreMap", "Sight", "SoftmaxPlan", "plan_softmax"]


@dataclass(frozen=True)
class ScoreMap:
    """A statement that runs on each score.

    Attributes:
        inputs: its accesses, in the axes of the product if ``is_of_product``, else in those
            of the statement: heads, row and key.
    """

    statement: Statement
    inputs: tuple[Access, ...]
    is_of_product: bool


@dataclass(frozen=True)
class Factor:
    """What all weights of a row are multiplied with, or divided by.

    Attributes:
        buffer: holds it; is_divisor: whether they are divided.
    """

    buffer: ir.Value
    is_divisor: bool


@dataclass(frozen=True)
class Sight:
    """What the last map of scores tells: a row sees no key behind some place.

    Attributes:
        reach: how far behind the row's own number that is.
        score: what the map gives where the row sees a key, in the map's body.
    """

    reach: int
    score: ir.Value


@dataclass(frozen=True)
class SoftmaxPlan:
    """How a kernel is attention with a softmax.

    Attributes:
        attention: its products.
        maps: what runs on scores before the softmax.
        scores: the buffer that it reads.
        top, total: the statements of the greatest score and of the sum of a row.
        numbers: statements of one number a row that follow.
        factor: what weights are scaled by before the product with the values, if they are.
        greatest: how two scores become the greater one.
        sight: which keys a row sees, if its maps tell.
        scale: what scores are multiplied by, if all that maps do is this, and to hide those
            that ``sight`` does: more than 0, so that the greatest one stays it.
    """

    attention: AttentionPlan
    maps: tuple[ScoreMap, ...]
    scores: ir.Value
    top: Statement
    total: Statement
    numbers: tuple[Statement, ...]
    factor: Factor | None
    greatest: Combination
    sight: Sight | None
    scale: float | None

    @property
    def is_exact(self) -> bool:
        """Whether factors are of f32, so that all else is computed to as many bits."""
        return isinstance(self.attention.scores.rows_of.element, ir.F32Type)


def plan_softmax(kernel: Kernel) -> SoftmaxPlan:
    """The plan of a kernel.

    Raises:
        Refusal: it is no attention, or none with a softmax of rows.
    """
    attention = plan_attention(kernel)
    if is_one(attention.keys):
        raise Refusal("it has one key")
    depth, rows = attention.depth, attention.rows
    for statement in rows:
        _check_places(statement, attention, kernel)
    total, power, top, greatest = _sum_of_exponentials(attention)
    weights, factor = _weights(attention, power.outputs[0].buffer)
    scores = top.inputs[0].buffer
    wholes = [s for s in rows if _is_whole(s, depth)]
    before = wholes[: wholes.index(power)]
    if wholes[len(before) + 1 :] != weights:
        raise Refusal("the weights of its softmax are more than that")
    maps = (
        *(ScoreMap(m.statement, m.inputs, True) for m in attention.scores.maps),
        *(ScoreMap(s, s.inputs, False) for s in before),
    )
    is_last = (before[-1].outputs[0] if before else attention.result).buffer == scores
    numbers = tuple(s for s in rows if s not in (*wholes, top, total))
    sight = _sight(before, depth)
    plan = SoftmaxPlan(
        attention=attention,
        maps=maps,
        scores=scores,
        top=top,
        total=total,
        numbers=numbers,
        factor=factor,
        greatest=greatest,
        sight=sight,
        scale=_scale(attention, maps, sight),
    )
    if not is_last or any(s.is_reduction for s in numbers):
        raise Refusal("a softmax is not all that its rows need")
    _check_readers(plan, power)
    return plan


def _is_whole(statement: Statement, depth: int) -> bool:
    """Whether a statement runs on every number of a row, without a sum."""
    inner = statement.extents[depth:]
    return not statement.is_reduction and not all(map(is_one, inner))


def _check_places(
    statement: Statement, attention: AttentionPlan, kernel: Kernel
) -> None:
    """Refuse a statement that reads another number of a row than its own, or has more."""
    depth, extents = attention.depth, statement.extents
    inner = [a for a in range(depth, len(extents)) if not is_one(extents[a])]
    if len(inner) > 1 or (inner != [depth] and _is_whole(statement, depth)):
        raise Refusal("a statement of its rows has more axes than a row")
    for access in statement.accesses:
        if access.buffer in kernel.temporaries:
            sizes = buffer_sizes(access.buffer)[depth:]
            for form, size in zip(access.forms[depth:], sizes, strict=True):
                is_only = form == Linear({}) and size == 1
                if form.single_axis is None and not is_only:
                    raise Refusal("a statement reads another number than its own")


def _sum_of_exponentials(
    attention: AttentionPlan,
) -> tuple[Statement, Statement, Statement, Combination]:
    """The statements of the sum, of the exponentials, and of the greatest scores.

    And how two scores become the greater one.
    """
    for total in attention.rows:
        if not _is_plain_sum(total):
            continue
        found = exponentials_of(total.inputs[0].buffer, attention.rows)
        if found is not None:
            power, top = found
            ways = combinations_of(top)
            if ways is None or top.start is None or not _is_plain(top):
                raise Refusal("its greatest scores are computed in another way")
            return total, power, top, ways[0]
    raise Refusal("its rows are no softmax")


def _is_plain_sum(statement: Statement) -> bool:
    """Whether a statement sums what it reads, from 0."""
    made = statement.yielded[0].owner
    is_sum = not isinstance(made, ir.Block) and made.name == "arith.addf"
    is_sum = is_sum and statement.starts_from_zero
    return is_sum and statement.is_reduction and _is_plain(statement)


def _is_plain(statement: Statement) -> bool:
    """Whether a statement combines what it reads, and not what it computes from that."""
    if len(statement.inputs) != 1:
        return False
    operands = map(_before_rounding, statement.yielded[0].owner.operands)
    return set(operands) == set(statement.body.arguments)


def _weights(
    attention: AttentionPlan, powers: ir.Value
) -> tuple[list[Statement], Factor | None]:
    """The statements from exponentials to what the second product reads.

    They may round them, and scale them once, by a number of the row.

    Raises:
        Refusal: they do more.
    """
    found: list[Statement] = []
    factor: Factor | None = None
    buffer = attention.values.a.buffer
    while buffer != powers:
        made = maker_of(buffer, attention.rows)
        if made is None:
            raise Refusal("its weights are no exponentials")
        found.insert(0, made)
        value = _before_rounding(made.yielded[0])
        inputs = list(made.body.arguments)[: len(made.inputs)]
        if value not in inputs:
            if factor is not None:
                raise Refusal("its weights are scaled twice")
            value, factor = _scaled(made, value, attention.depth)
        buffer = made.inputs[inputs.index(value)].buffer
    return found, factor


_ROUNDING = ("arith.truncf", "arith.extf")


def _before_rounding(value: ir.Value) -> ir.Value:
    """A number before it gets another type."""
    while not isinstance(value.owner, ir.Block) and value.owner.name in _ROUNDING:
        value = value.owner.operands[0]
    return value


def _scaled(
    statement: Statement, value: ir.Value, depth: int
) -> tuple[ir.Value, Factor]:
    """The argument that a statement scales by a number of its row, and that."""
    inputs = list(statement.body.arguments)[: len(statement.inputs)]
    owner = value.owner
    if not isinstance(owner, ir.Block) and owner.name in ("arith.mulf", "arith.divf"):
        is_divisor = owner.name == "arith.divf"
        lhs, rhs = map(_before_rounding, owner.operands)
        for scaled, other in ((lhs, rhs), (rhs, lhs))[: 1 if is_divisor else 2]:
            if scaled in inputs and other in inputs:
                number = statement.inputs[inputs.index(other)]
                whole = statement.inputs[inputs.index(scaled)]
                if depth in whole.axes and not any(a >= depth for a in number.axes):
                    return scaled, Factor(number.buffer, is_divisor)
    raise Refusal("its weights are more than scaled exponentials")


def _check_readers(plan: SoftmaxPlan, power: Statement) -> None:
    """Refuse readers of what is nowhere once the kernel is written."""
    attention = plan.attention
    numbers = {s.outputs[0].buffer for s in (plan.top, plan.total, *plan.numbers)}
    wide = {plan.top.outputs[0].buffer, plan.total.outputs[0].buffer}
    wide |= {plan.factor.buffer} if plan.factor is not None else set()
    if any(str(b.type.element_type) != "f32" for b in wide):
        raise Refusal("its softmax is not computed in f32")
    if plan.factor is not None and plan.factor.buffer not in numbers:
        raise Refusal("its weights are scaled by what is not computed from its rows")
    inside = {
        *attention.temporaries,
        *(m.statement.outputs[0].buffer for m in plan.maps),
    }
    wholes = inside - numbers
    late = [a for s in plan.numbers for a in s.inputs]
    late += [a for m in attention.values.maps for a in m.inputs]
    if any(access.buffer in wholes for access in late):
        raise Refusal("what follows its softmax reads scores")
    early = [a for m in plan.maps for a in m.inputs]
    if any(access.buffer in numbers for access in early):
        raise Refusal("its scores depend on numbers of rows")
    read = {access.buffer for access in power.inputs}
    if read != {plan.scores, plan.top.outputs[0].buffer}:
        raise Refusal("its exponentials are of other numbers than its scores")


_AT_MOST = {"sle": 0, "slt": -1}
_PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
_TURNED = {"sgt": "slt", "sge": "sle"}


def _sight(before: Sequence[Statement], depth: int) -> Sight | None:
    """Which keys a row sees, if the last map chooses between a score and -inf by that."""
    if not before:
        return None
    last = before[-1]
    chosen = last.yielded[0].owner
    if isinstance(chosen, ir.Block) or chosen.name != "arith.select":
        return None
    score = chosen.operands[1]
    condition = chosen.operands[0].owner
    if isinstance(condition, ir.Block) or condition.name != "arith.cmpi":
        return None
    if number_of(chosen.operands[2]) != -math.inf:
        return None
    lhs, rhs = condition.operands
    predicate = _PREDICATES[ir.IntegerAttr(condition.attributes["predicate"]).value]
    if predicate in _TURNED:
        predicate, lhs, rhs = _TURNED[predicate], rhs, lhs
    axes = {
        o.results[0]: ir.IntegerAttr(o.attributes["dim"]).value
        for o in walk(last.body)
        if o.operation.name == "linalg.index"
    }
    forms = linear_in(lhs, axes), linear_in(rhs, axes)
    if predicate not in _AT_MOST or forms[0] is None or forms[1] is None:
        return None
    # The key's number less the row's, and a constant.
    apart = forms[0].plus(forms[1], -1)
    if apart.coefficients != {depth - 1: -1, depth: 1}:
        return None
    return Sight(_AT_MOST[predicate] - apart.constant, score)


def _scale(
    attention: AttentionPlan, maps: Sequence[ScoreMap], sight: Sight | None
) -> float | None:
    """What maps multiply scores by, if they do no more but to hide some.

    Rounding to as many bits as factors have is nothing.
    """
    scale, before = 1.0, attention.scores.anchor
    is_exact = isinstance(attention.scores.rows_of.element, ir.F32Type)
    for position, following in enumerate(maps):
        statement = following.statement
        score, first = statement.body.arguments[0], following.inputs[0]
        if first.buffer != before.outputs[0].buffer:
            return None
        is_last = position == len(maps) - 1
        value = sight.score if sight and is_last else statement.yielded[0]
        while value != score:
            made = value.owner
            if isinstance(made, ir.Block):
                return None
            if made.name in _ROUNDING and not is_exact:
                (value,) = made.operands
                continue
            if made.name not in _SCALES:
                return None
            value, factor = _scaled_by(made)
            if factor is None:
                return None
            scale *= factor
        before = statement
    is_normal = _LEAST_SCALE < scale < 1 / _LEAST_SCALE
    return scale if is_normal else None


_SCALES = ("arith.mulf", "arith.divf")
_LEAST_SCALE = 2.0**-100  # with the logarithm of e, far from what f32 cannot hold


def _scaled_by(product: ir.Operation) -> tuple[ir.Value, float | None]:
    """What is multiplied, or divided, and by which number."""
    value, other = product.operands
    if product.name == "arith.mulf" and number_of(other) is None:
        value, other = other, value
    factor = number_of(other)
    if product.name == "arith.divf" and factor:
        factor = 1 / factor
    return value, factor
