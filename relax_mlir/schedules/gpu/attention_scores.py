"""Score modifiers of attention: scale, bias, mask, applied to scores in registers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mlir import ir

from relax_mlir.dialects.dtypes import element_of
from relax_mlir.schedules.builder import (
    IndexLike,
    broadcast,
    constant,
    index,
    op,
    vector_type,
)
from relax_mlir.schedules.constant_scalars import constant_value
from relax_mlir.schedules.gpu.attention_matmuls import RowFragment
from relax_mlir.schedules.gpu.attention_softmax import ScoreModifier, SoftmaxPlan
from relax_mlir.schedules.kernel_view import Access
from relax_mlir.schedules.vectorize_body import (
    BodyVectorizer,
    NotVectorizableError,
    load_vector,
)

__all__ = ["ScoreModifiers"]


class ScoreModifiers:
    """Emitter of the score modifiers of a thread.

    Operands that depend only on the row or the head are loaded on construction.

    Args:
        heads: the head's indices; matmul_point: the same by the axes of the score matmul.
        rows: of the thread.
    """

    def __init__(
        self,
        plan: SoftmaxPlan,
        heads: Sequence[IndexLike],
        matmul_point: Mapping[int, IndexLike],
        rows: Sequence[IndexLike],
    ) -> None:
        self._plan, self._heads, self._rows = plan, heads, rows
        self._cloner = BodyVectorizer if plan.is_exact else _FastMathCloner
        self._outer = matmul_point
        self._of_rows = [
            {
                argument: self._load(modifier, access, (row, 0), 1)
                for modifier, argument, access in self._memory_operands()
                if self._axes(modifier)[1] not in access.axes
            }
            for row in rows
        ]

    def _memory_operands(self) -> Iterator[tuple[ScoreModifier, ir.Value, Access]]:
        """The operands of modifiers in memory, with their block arguments."""
        inside = {self._plan.attention.scores.anchor.outputs[0].buffer}
        inside.update(m.statement.outputs[0].buffer for m in self._plan.score_modifiers)
        for modifier in self._plan.score_modifiers:
            arguments = modifier.statement.body.arguments
            for argument, access in zip(arguments, modifier.inputs, strict=False):
                if access.buffer not in inside:
                    yield modifier, argument, access

    def _axes(self, modifier: ScoreModifier) -> tuple[int, int]:
        """The row axis and the key axis of a modifier's accesses."""
        if not modifier.is_in_matmul_axes:
            return len(self._heads), len(self._heads) + 1
        matmul = self._plan.attention.scores
        return matmul.m[-1], matmul.n[0]

    def _points(
        self, modifier: ScoreModifier, row_and_key: tuple[IndexLike, IndexLike]
    ) -> list[IndexLike]:
        """The point of a modifier at a row and a key, along all axes."""
        if modifier.is_in_matmul_axes:
            statement, outer = self._plan.attention.scores.anchor, self._outer
        else:
            statement, outer = modifier.statement, dict(enumerate(self._heads))
        at = {**outer, **dict(zip(self._axes(modifier), row_and_key, strict=True))}
        return [at.get(axis, 0) for axis in range(len(statement.kinds))]

    def _load(
        self,
        modifier: ScoreModifier,
        access: Access,
        row_and_key: tuple[IndexLike, IndexLike],
        lanes: int,
    ) -> ir.Value:
        """Emits the load of a modifier's operand for a row and a vector of keys."""
        stride = access.stride_of(self._axes(modifier)[1]) if lanes > 1 else 0
        if stride not in (0, 1):
            raise NotVectorizableError
        where = access.indices(self._points(modifier, row_and_key))
        return load_vector(access.buffer, where, lanes, stride, None)

    def run(
        self,
        scores: RowFragment,
        keys: Sequence[IndexLike],
        lanes: int,
        *,
        all_visible: bool,
    ) -> RowFragment:
        """Emits the modifiers of a score fragment; returns f32 inputs of the softmax.

        The scale is left to the softmax if it is the only modifier besides the causal mask.

        Args:
            scores: by row, vectors (or scalars, if ``lanes`` is 1) of scores.
            keys: first key of each vector; all_visible: whether no key is masked.

        Raises:
            NotVectorizableError: the modifiers cannot be vectorized along keys.
        """
        of_keys = [
            {
                argument: self._load(modifier, access, (0, key), lanes)
                for modifier, argument, access in self._memory_operands()
                if self._axes(modifier)[0] not in access.axes
                and self._axes(modifier)[1] in access.axes
            }
            for key in keys
        ]
        causal_mask = self._plan.causal_mask
        if self._plan.scale is not None and (causal_mask is None or all_visible):
            return scores  # no modifier but the scale
        unmasked = (
            causal_mask.score if causal_mask is not None and all_visible else None
        )
        return [
            [
                self._apply(score, (row, key), {**of_row, **of_key}, lanes, unmasked)
                for score, key, of_key in zip(row_scores, keys, of_keys, strict=True)
            ]
            for row_scores, row, of_row in zip(
                scores, self._rows, self._of_rows, strict=True
            )
        ]

    def _apply(
        self,
        score: ir.Value,
        row_and_key: tuple[IndexLike, IndexLike],
        known: Mapping[ir.Value, ir.Value],
        lanes: int,
        unmasked: ir.Value | None,
    ) -> ir.Value:
        """Emits all modifiers of a score vector.

        Args:
            unmasked: the unmasked value in the last modifier, if no key is masked.
        """
        plan = self._plan
        produced, score_modifiers = (
            {plan.attention.scores.anchor.outputs[0].buffer: score},
            plan.score_modifiers,
        )
        if plan.scale is not None and plan.causal_mask is not None:
            produced[score_modifiers[-1].inputs[0].buffer] = score
            known, score_modifiers = (
                {**known, plan.causal_mask.score: score},
                score_modifiers[-1:],
            )
        for modifier in score_modifiers:
            body, values = modifier.statement.body, dict(known)
            for argument, access in zip(body.arguments, modifier.inputs, strict=False):
                if access.buffer in produced:
                    values[argument] = produced[access.buffer]
                elif argument not in values:
                    values[argument] = self._load(modifier, access, row_and_key, lanes)
            points = [index(p) for p in self._points(modifier, row_and_key)]
            cloner = self._cloner(body, points, self._axes(modifier)[1], lanes)
            (value,) = cloner.run(values)
            if unmasked is not None:
                value = cloner.values.get(unmasked, value)
            produced[modifier.statement.outputs[0].buffer] = value
        return _to_f32(produced[self._plan.scores], lanes)


class _FastMathCloner(BodyVectorizer):
    """Clones a body with reciprocals for constant divisors, and with FMA contraction.

    Intermediate rounding to narrower types is dropped.
    """

    def create(
        self, operation: ir.OpView, type_: ir.Type, operands: Sequence[ir.Value]
    ) -> ir.Value:
        name = operation.operation.name
        if name == "arith.extf":
            return _extend(operands[0], type_)
        divisor = (
            constant_value(operation.operands[1]) if name == "arith.divf" else None
        )
        if divisor and _is_normal(1 / divisor):
            element, lanes = element_of(type_), self.lanes
            factor = constant(1 / divisor, element)
            if isinstance(type_, ir.VectorType):
                factor = broadcast(factor, lanes)
            return op("arith.mulf", type_, operands[0], factor, fastmath=_contract())
        made = super().create(operation, type_, operands)
        if name in _CONTRACTED and isinstance(element_of(type_), ir.F32Type):
            made.owner.attributes["fastmath"] = _contract()
        return made


_CONTRACTED = ("arith.addf", "arith.mulf", "arith.subf")


def _contract() -> ir.Attribute:
    return ir.Attribute.parse("#arith.fastmath<contract>")


def _is_normal(number: float) -> bool:
    return _LEAST_NORMAL <= abs(number) < 1 / _LEAST_NORMAL


_LEAST_NORMAL = 2.0**-14  # of f16, the narrowest score type


def _to_f32(value: ir.Value, lanes: int) -> ir.Value:
    """Extends a value to f32, and broadcasts a scalar to the lanes."""
    if lanes > 1 and not isinstance(value.type, ir.VectorType):
        value = broadcast(value, lanes)
    f32 = ir.F32Type.get()
    if element_of(value.type) == f32:
        return value
    return _extend(value, vector_type(lanes, f32) if lanes > 1 else f32)


def _extend(value: ir.Value, type_: ir.Type) -> ir.Value:
    """Extends a value; undoes a truncation if it came from one."""
    made = value.owner
    is_rounded = not isinstance(made, ir.Block) and made.name == "arith.truncf"
    if is_rounded and made.operands[0].type == type_:
        return made.operands[0]
    return op("arith.extf", type_, value)
