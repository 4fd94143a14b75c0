"""Negation, selection and shuffles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relax_mlir.objects.argument_checks import sequence_of
from relax_mlir.objects.prim.constants import convert
from relax_mlir.objects.prim.conversion import matched
from relax_mlir.objects.prim.expr import PrimExpr
from relax_mlir.objects.prim.lanes import element_type, with_lanes

__all__ = ["Not", "Select", "Shuffle"]


class Not(PrimExpr):
    """Logical negation."""

    __slots__ = ("a",)
    fields = ("a",)

    def __init__(self, a: Any, span: object = None) -> None:
        self.a = convert(a)
        self.dtype = with_lanes("bool", self.a.dtype)

    def with_children(self, children: Sequence[PrimExpr]) -> PrimExpr:
        return Not(*children)


class Select(PrimExpr):
    """One of two values; both are evaluated."""

    __slots__ = ("condition", "false_value", "true_value")
    fields = ("condition", "true_value", "false_value")

    def __init__(
        self, condition: Any, true_value: Any, false_value: Any, span: object = None
    ) -> None:
        self.condition = convert(condition)
        self.true_value, self.false_value = matched(true_value, false_value)
        self.dtype = self.true_value.dtype

    def with_children(self, children: Sequence[PrimExpr]) -> PrimExpr:
        return Select(*children)


class Shuffle(PrimExpr):
    """A permutation of the lanes of the concatenated vectors."""

    __slots__ = ("indices", "vectors")

    def __init__(
        self, vectors: Sequence[Any], indices: Sequence[Any], span: object = None
    ) -> None:
        self.vectors = tuple(map(convert, sequence_of(vectors, "Shuffle", "vectors")))
        self.indices = tuple(map(convert, sequence_of(indices, "Shuffle", "indices")))
        if not self.vectors or not self.indices:
            raise ValueError("Shuffle: expected at least one vector and one index")
        element = element_type(self.vectors[0].dtype)
        count = len(self.indices)
        self.dtype = element if count == 1 else f"{element}x{count}"

    def children(self) -> tuple[PrimExpr, ...]:
        return (*self.vectors, *self.indices)

    def with_children(self, children: Sequence[PrimExpr]) -> PrimExpr:
        count = len(self.vectors)
        return Shuffle(children[:count], children[count:])

    def key(self) -> tuple[object, ...]:
        return (self.dtype, len(self.vectors))
