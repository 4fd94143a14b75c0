"""What runs on the scores of attention while they are in registers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mlir import ir

from relax_mlir.dialects.dtypes import element_of
from relax_mlir.schedules.constants import number_of
from relax_mlir.schedules.emit import (
    Extent,
    broadcast,
    constant,
    index,
    op,
    vector_type,
)
from relax_mlir.schedules.gpu.attention_products import Tile
from relax_mlir.schedules.gpu.attention_softmax import ScoreMap, SoftmaxPlan
from relax_mlir.schedules.nest import Access
from relax_mlir.schedules.vectorize_body import BodyCloner, NotVectorizableError, load

__all__ = ["ScoreMaps"]


class ScoreMaps:
    """The maps of a thread's scores.

    What they read for rows, or for all of a head, is read at once: where it is made.

    Args:
        heads: the head of the block; of_product: the same in the axes of the product.
        rows: of the thread.
    """

    def __init__(
        self,
        plan: SoftmaxPlan,
        heads: Sequence[Extent],
        of_product: Mapping[int, Extent],
        rows: Sequence[Extent],
    ) -> None:
        self._plan, self._heads, self._rows = plan, heads, rows
        self._cloner = BodyCloner if plan.is_exact else _RoughCloner
        self._outer = of_product
        self._of_rows = [
            {
                argument: self._load(following, access, (row, 0), 1)
                for following, argument, access in self._read()
                if self._axes(following)[1] not in access.axes
            }
            for row in rows
        ]

    def _read(self) -> Iterator[tuple[ScoreMap, ir.Value, Access]]:
        """What maps read from memory, by their arguments."""
        inside = {self._plan.attention.scores.anchor.outputs[0].buffer}
        inside.update(m.statement.outputs[0].buffer for m in self._plan.maps)
        for following in self._plan.maps:
            arguments = following.statement.body.arguments
            for argument, access in zip(arguments, following.inputs, strict=False):
                if access.buffer not in inside:
                    yield following, argument, access

    def _axes(self, following: ScoreMap) -> tuple[int, int]:
        """The axes of rows and keys of a map's accesses."""
        if not following.is_of_product:
            return len(self._heads), len(self._heads) + 1
        product = self._plan.attention.scores
        return product.m[-1], product.n[0]

    def _points(
        self, following: ScoreMap, place: tuple[Extent, Extent]
    ) -> list[Extent]:
        """All axes of a map's accesses."""
        if following.is_of_product:
            statement, outer = self._plan.attention.scores.anchor, self._outer
        else:
            statement, outer = following.statement, dict(enumerate(self._heads))
        at = {**outer, **dict(zip(self._axes(following), place, strict=True))}
        return [at.get(axis, 0) for axis in range(len(statement.kinds))]

    def _load(
        self,
        following: ScoreMap,
        access: Access,
        place: tuple[Extent, Extent],
        lanes: int,
    ) -> ir.Value:
        """What a map reads for a row and some keys from one on."""
        stride = access.stride_of(self._axes(following)[1]) if lanes > 1 else 0
        if stride not in (0, 1):
            raise NotVectorizableError
        where = access.indices(self._points(following, place))
        return load(access.buffer, where, lanes, stride, None)

    def run(
        self, scores: Tile, keys: Sequence[Extent], lanes: int, *, are_seen: bool
    ) -> Tile:
        """The numbers that the softmax gets, in f32; where it scales them, before that.

        Args:
            scores: the products of each row with some keys, in vectors if there are several
                lanes.
            keys: the first of each; are_seen: whether all rows of the block see all of them.

        Raises:
            NotVectorizableError: the lanes differ in more than their place.
        """
        of_keys = [
            {
                argument: self._load(following, access, (0, key), lanes)
                for following, argument, access in self._read()
                if self._axes(following)[0] not in access.axes
                and self._axes(following)[1] in access.axes
            }
            for key in keys
        ]
        sight = self._plan.sight
        if self._plan.scale is not None and (sight is None or are_seen):
            return scores  # nothing else is done with them
        seen = sight.score if sight is not None and are_seen else None
        return [
            [
                self._one(score, (row, key), {**of_row, **of_key}, lanes, seen)
                for score, key, of_key in zip(products, keys, of_keys, strict=True)
            ]
            for products, row, of_row in zip(
                scores, self._rows, self._of_rows, strict=True
            )
        ]

    def _one(
        self,
        score: ir.Value,
        place: tuple[Extent, Extent],
        known: Mapping[ir.Value, ir.Value],
        lanes: int,
        seen: ir.Value | None,
    ) -> ir.Value:
        """All maps of the scores of a row with some keys.

        Args:
            seen: the number that the last map gives, if that is known.
        """
        plan = self._plan
        produced, maps = (
            {plan.attention.scores.anchor.outputs[0].buffer: score},
            plan.maps,
        )
        if plan.scale is not None and plan.sight is not None:
            produced[maps[-1].inputs[0].buffer] = score
            known, maps = {**known, plan.sight.score: score}, maps[-1:]
        for following in maps:
            body, values = following.statement.body, dict(known)
            for argument, access in zip(body.arguments, following.inputs, strict=False):
                if access.buffer in produced:
                    values[argument] = produced[access.buffer]
                elif argument not in values:
                    values[argument] = self._load(following, access, place, lanes)
            points = [index(p) for p in self._points(following, place)]
            cloner = self._cloner(body, points, self._axes(following)[1], lanes)
            (value,) = cloner.run(values)
            if seen is not None:
                value = cloner.values.get(seen, value)
            produced[following.statement.outputs[0].buffer] = value
        return _wide(produced[self._plan.scores], lanes)


class _RoughCloner(BodyCloner):
    """Multiplies instead of dividing, and lets a product and a sum be one operation.

    Numbers are not rounded to fewer bits on the way.
    """

    def create(
        self, operation: ir.OpView, type_: ir.Type, operands: Sequence[ir.Value]
    ) -> ir.Value:
        name = operation.operation.name
        if name == "arith.extf":
            return _widened(operands[0], type_)
        divisor = number_of(operation.operands[1]) if name == "arith.divf" else None
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


_LEAST_NORMAL = 2.0**-14  # of f16, which scores may have


def _wide(value: ir.Value, lanes: int) -> ir.Value:
    """A number, or as many as there are lanes, in f32."""
    if lanes > 1 and not isinstance(value.type, ir.VectorType):
        value = broadcast(value, lanes)
    f32 = ir.F32Type.get()
    if element_of(value.type) == f32:
        return value
    return _widened(value, vector_type(lanes, f32) if lanes > 1 else f32)


def _widened(value: ir.Value, type_: ir.Type) -> ir.Value:
    """A number in more bits: as it was before it was rounded."""
    made = value.owner
    is_rounded = not isinstance(made, ir.Block) and made.name == "arith.truncf"
    if is_rounded and made.operands[0].type == type_:
        return made.operands[0]
    return op("arith.extf", type_, value)
