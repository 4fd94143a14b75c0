"""Matches the softmax of an attention, which an online softmax can then compute tile by tile.

The online softmax keeps the running maximum of a row and the running sum of exponentials, and
rescales the sum when the maximum grows.

Source: Milakov and Gimelshein, Online normalizer calculation for softmax, 2018.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.analysis.index_maps import affine_form, buffer_sizes
from relax_mlir.ir.traversal import walk
from relax_mlir.schedules.builder import is_one
from relax_mlir.schedules.combiner import Combiner
from relax_mlir.schedules.constant_scalars import constant_value
from relax_mlir.schedules.kernel_view import Access, Kernel, Statement
from relax_mlir.schedules.match_attention import (
    AttentionPlan,
    match_softmax_exponentials,
    plan_attention,
    writer_of,
)
from relax_mlir.schedules.rule import NotApplicable
from relax_mlir.schedules.statement_loops import combiners_of
from relax_mlir.symbolic.affine_forms import AffineForm

__all__ = ["CausalMask", "RowScale", "ScoreModifier", "SoftmaxPlan", "plan_softmax"]


@dataclass(frozen=True)
class ScoreModifier:
    """An elementwise statement on scores before the softmax (scale, bias, mask).

    Attributes:
        inputs: its accesses, by the axes of the score matmul if ``is_in_matmul_axes``, else by
            those of the statement: heads, row and key.
    """

    statement: Statement
    inputs: tuple[Access, ...]
    is_in_matmul_axes: bool


@dataclass(frozen=True)
class RowScale:
    """The scalar of a row that normalizes its weights.

    Attributes:
        buffer: holds it; is_divisor: whether weights are divided by it, not multiplied.
    """

    buffer: ir.Value
    is_divisor: bool


@dataclass(frozen=True)
class CausalMask:
    """The causal mask of the last score modifier.

    Attributes:
        diagonal: key ``j`` is visible to row ``i`` if ``j <= i + diagonal``.
        score: the unmasked value, in the body of the modifier.
    """

    diagonal: int
    score: ir.Value


@dataclass(frozen=True)
class SoftmaxPlan:
    """An attention with a softmax of rows.

    Attributes:
        attention: its matmuls.
        score_modifiers: the score modifiers.
        scores: the buffer of the softmax inputs.
        row_max, row_sum: the statements of the row maximum and of the row sum.
        row_scalars: further statements on scalars of a row.
        normalization: the normalization of the weights before the second matmul, if any.
        max_combiner: the combiner of the row maximum.
        causal_mask: the causal mask, if the last modifier is one.
        scale: constant factor of the scores, if the modifiers do nothing else besides the
            causal mask. It is positive, so that it preserves the maximum.
    """

    attention: AttentionPlan
    score_modifiers: tuple[ScoreModifier, ...]
    scores: ir.Value
    row_max: Statement
    row_sum: Statement
    row_scalars: tuple[Statement, ...]
    normalization: RowScale | None
    max_combiner: Combiner
    causal_mask: CausalMask | None
    scale: float | None

    @property
    def is_exact(self) -> bool:
        """Whether operands are f32, so that the softmax must have f32 accuracy too."""
        return isinstance(self.attention.scores.lhs.element, ir.F32Type)


def plan_softmax(kernel: Kernel) -> SoftmaxPlan:
    """Matches an attention with a softmax of rows.

    Raises:
        NotApplicable: the kernel is not such an attention.
    """
    attention = plan_attention(kernel)
    if is_one(attention.keys):
        raise NotApplicable("it has one key")
    depth, rows = attention.depth, attention.rows
    for statement in rows:
        _check_point_accesses(statement, attention, kernel)
    row_sum, exponentials, row_max, max_combiner = _sum_of_exponentials(attention)
    weights, normalization = _weights(attention, exponentials.outputs[0].buffer)
    scores = row_max.inputs[0].buffer
    elementwise = [s for s in rows if _is_elementwise(s, depth)]
    before = elementwise[: elementwise.index(exponentials)]
    if elementwise[len(before) + 1 :] != weights:
        raise NotApplicable("its weights are not a plain softmax")
    score_modifiers = (
        *(ScoreModifier(m.statement, m.inputs, True) for m in attention.scores.maps),
        *(ScoreModifier(s, s.inputs, False) for s in before),
    )
    is_last = (before[-1].outputs[0] if before else attention.result).buffer == scores
    row_scalars = tuple(s for s in rows if s not in (*elementwise, row_max, row_sum))
    causal_mask = _causal_mask(before, depth)
    plan = SoftmaxPlan(
        attention=attention,
        score_modifiers=score_modifiers,
        scores=scores,
        row_max=row_max,
        row_sum=row_sum,
        row_scalars=row_scalars,
        normalization=normalization,
        max_combiner=max_combiner,
        causal_mask=causal_mask,
        scale=_scale(attention, score_modifiers, causal_mask),
    )
    if not is_last or any(s.is_reduction for s in row_scalars):
        raise NotApplicable("its rows are used by more than a softmax")
    _check_readers(plan, exponentials)
    return plan


def _is_elementwise(statement: Statement, depth: int) -> bool:
    """Whether a statement is elementwise over the whole row."""
    inner = statement.extents[depth:]
    return not statement.is_reduction and not all(map(is_one, inner))


def _check_point_accesses(
    statement: Statement, attention: AttentionPlan, kernel: Kernel
) -> None:
    """Checks that a statement is indexed by one row axis, and reads its own point only."""
    depth, extents = attention.depth, statement.extents
    inner = [a for a in range(depth, len(extents)) if not is_one(extents[a])]
    if len(inner) > 1 or (inner != [depth] and _is_elementwise(statement, depth)):
        raise NotApplicable("a statement of the softmax has more than one row axis")
    for access in statement.accesses:
        if access.buffer in kernel.temporaries:
            sizes = buffer_sizes(access.buffer)[depth:]
            for form, size in zip(access.forms[depth:], sizes, strict=True):
                is_only = form == AffineForm({}) and size == 1
                if form.single_variable is None and not is_only:
                    raise NotApplicable("a statement reads another point of the row")


def _sum_of_exponentials(
    attention: AttentionPlan,
) -> tuple[Statement, Statement, Statement, Combiner]:
    """The statements of the row sum, the exponentials and the row maximum, and its combiner."""
    for row_sum in attention.rows:
        if not _is_plain_sum(row_sum):
            continue
        found = match_softmax_exponentials(row_sum.inputs[0].buffer, attention.rows)
        if found is not None:
            exponentials, row_max = found
            combiners = combiners_of(row_max)
            if combiners is None or row_max.start is None or not _is_plain(row_max):
                raise NotApplicable("its row maximum is not a plain reduction")
            return row_sum, exponentials, row_max, combiners[0]
    raise NotApplicable("it has no softmax of rows")


def _is_plain_sum(statement: Statement) -> bool:
    """Whether a statement is a sum of its input, from 0."""
    producer = statement.yielded[0].owner
    is_sum = not isinstance(producer, ir.Block) and producer.name == "arith.addf"
    is_sum = is_sum and statement.starts_from_zero
    return is_sum and statement.is_reduction and _is_plain(statement)


def _is_plain(statement: Statement) -> bool:
    """Whether a reduction combines its input as it is, without a computation on it."""
    if len(statement.inputs) != 1:
        return False
    operands = map(_before_rounding, statement.yielded[0].owner.operands)
    return set(operands) == set(statement.body.arguments)


def _weights(
    attention: AttentionPlan, powers: ir.Value
) -> tuple[list[Statement], RowScale | None]:
    """The statements from the exponentials to the weights that the second matmul reads.

    They may convert the exponentials, and normalize them once by a scalar of the row.

    Raises:
        NotApplicable: they do more.
    """
    statements: list[Statement] = []
    normalization: RowScale | None = None
    buffer = attention.values.a.buffer
    while buffer != powers:
        producer = writer_of(buffer, attention.rows)
        if producer is None:
            raise NotApplicable("its weights are not computed from the exponentials")
        statements.insert(0, producer)
        value = _before_rounding(producer.yielded[0])
        inputs = list(producer.body.arguments)[: len(producer.inputs)]
        if value not in inputs:
            if normalization is not None:
                raise NotApplicable("its weights are normalized twice")
            value, normalization = _normalized(producer, value, attention.depth)
        buffer = producer.inputs[inputs.index(value)].buffer
    return statements, normalization


_ROUNDING = ("arith.truncf", "arith.extf")


def _before_rounding(value: ir.Value) -> ir.Value:
    """The value before conversions of its type."""
    while not isinstance(value.owner, ir.Block) and value.owner.name in _ROUNDING:
        value = value.owner.operands[0]
    return value


def _normalized(
    statement: Statement, value: ir.Value, depth: int
) -> tuple[ir.Value, RowScale]:
    """Matches ``weight * scalar`` or ``weight / scalar`` of a row; returns both."""
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
                    return scaled, RowScale(number.buffer, is_divisor)
    raise NotApplicable("its weights are not normalized exponentials")


def _check_readers(plan: SoftmaxPlan, exponentials: Statement) -> None:
    """Checks that no statement reads intermediate tensors that are never stored."""
    attention = plan.attention
    row_scalars = {
        s.outputs[0].buffer for s in (plan.row_max, plan.row_sum, *plan.row_scalars)
    }
    statistics = {plan.row_max.outputs[0].buffer, plan.row_sum.outputs[0].buffer}
    statistics |= (
        {plan.normalization.buffer} if plan.normalization is not None else set()
    )
    if any(str(b.type.element_type) != "f32" for b in statistics):
        raise NotApplicable("its softmax is not computed in f32")
    if plan.normalization is not None and plan.normalization.buffer not in row_scalars:
        raise NotApplicable("its weights are normalized by no scalar of its rows")
    intermediates = {
        *attention.temporaries,
        *(m.statement.outputs[0].buffer for m in plan.score_modifiers),
    }
    elementwise = intermediates - row_scalars
    epilogue_inputs = [a for s in plan.row_scalars for a in s.inputs]
    epilogue_inputs += [a for m in attention.values.maps for a in m.inputs]
    if any(access.buffer in elementwise for access in epilogue_inputs):
        raise NotApplicable("its epilogue reads scores")
    modifier_inputs = [a for m in plan.score_modifiers for a in m.inputs]
    if any(access.buffer in row_scalars for access in modifier_inputs):
        raise NotApplicable("its scores depend on statistics of rows")
    read = {access.buffer for access in exponentials.inputs}
    if read != {plan.scores, plan.row_max.outputs[0].buffer}:
        raise NotApplicable("its exponentials read more than scores and row maxima")


_AT_MOST = {"sle": 0, "slt": -1}
_PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
_SWAPPED = {"sgt": "slt", "sge": "sle"}


def _causal_mask(before: Sequence[Statement], depth: int) -> CausalMask | None:
    """Matches a causal mask: a select of the score or -inf on an affine index comparison."""
    if not before:
        return None
    last = before[-1]
    select = last.yielded[0].owner
    if isinstance(select, ir.Block) or select.name != "arith.select":
        return None
    score = select.operands[1]
    condition = select.operands[0].owner
    if isinstance(condition, ir.Block) or condition.name != "arith.cmpi":
        return None
    if constant_value(select.operands[2]) != -math.inf:
        return None
    lhs, rhs = condition.operands
    predicate = _PREDICATES[ir.IntegerAttr(condition.attributes["predicate"]).value]
    if predicate in _SWAPPED:
        predicate, lhs, rhs = _SWAPPED[predicate], rhs, lhs
    axes = {
        o.results[0]: ir.IntegerAttr(o.attributes["dim"]).value
        for o in walk(last.body)
        if o.operation.name == "linalg.index"
    }
    forms = affine_form(lhs, axes), affine_form(rhs, axes)
    if predicate not in _AT_MOST or forms[0] is None or forms[1] is None:
        return None
    # The index of the key minus that of the row, plus a constant.
    difference = forms[0].plus(forms[1], -1)
    if difference.coefficients != {depth - 1: -1, depth: 1}:
        return None
    return CausalMask(_AT_MOST[predicate] - difference.constant, score)


def _scale(
    attention: AttentionPlan,
    score_modifiers: Sequence[ScoreModifier],
    causal_mask: CausalMask | None,
) -> float | None:
    """The constant factor of the scores, if modifiers only scale and mask them.

    Conversions to the operand type are ignored, unless it is f32.
    """
    scale, before = 1.0, attention.scores.anchor
    is_exact = isinstance(attention.scores.lhs.element, ir.F32Type)
    for position, modifier in enumerate(score_modifiers):
        statement = modifier.statement
        score, first = statement.body.arguments[0], modifier.inputs[0]
        if first.buffer != before.outputs[0].buffer:
            return None
        is_last = position == len(score_modifiers) - 1
        value = causal_mask.score if causal_mask and is_last else statement.yielded[0]
        while value != score:
            producer = value.owner
            if isinstance(producer, ir.Block):
                return None
            if producer.name in _ROUNDING and not is_exact:
                (value,) = producer.operands
                continue
            if producer.name not in _SCALES:
                return None
            value, factor = _scaled_by(producer)
            if factor is None:
                return None
            scale *= factor
        before = statement
    is_normal = _LEAST_SCALE < scale < 1 / _LEAST_SCALE
    return scale if is_normal else None


_SCALES = ("arith.mulf", "arith.divf")
_LEAST_SCALE = 2.0**-100  # times log2(e), still far from the limits of f32


def _scaled_by(operation: ir.Operation) -> tuple[ir.Value, float | None]:
    """The operand of a multiplication or division, and its constant factor if any."""
    value, other = operation.operands
    if operation.name == "arith.mulf" and constant_value(other) is None:
        value, other = other, value
    factor = constant_value(other)
    if operation.name == "arith.divf" and factor:
        factor = 1 / factor
    return value, factor
