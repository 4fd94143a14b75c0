"""Reductions and their combiners."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from relax_mlir.objects.argument_checks import instance_of, integer_of, sequence_of
from relax_mlir.objects.prim.constants import convert
from relax_mlir.objects.prim.expr import PrimExpr
from relax_mlir.objects.prim.scripted import Scripted
from relax_mlir.objects.prim.variables import IterVar, Var

__all__ = ["CommReducer", "Reduce"]


class CommReducer(Scripted):
    """The combiner of a reduction: a commutative, associative operation with an identity.

    Attributes:
        name: ``add``, ``mul``, ``max``, ``min``, ``and``, ``or``, or the name of a custom
            combiner.
        combine: maps accumulated and new values to combined values.
        identity: maps element types to the identity element.
    """

    def __init__(
        self,
        name: str,
        combine: Callable[[Sequence[PrimExpr], Sequence[PrimExpr]], list[PrimExpr]],
        identity: Callable[[Sequence[str]], list[PrimExpr]],
    ) -> None:
        for what, given in (("combine", combine), ("identity", identity)):
            where = f"CommReducer: `{what}`"
            instance_of(given, Callable, where, "a function")  # pyright: ignore[reportArgumentType]
        self.name = name
        self.combine = combine
        self.identity = identity
        self._parts: tuple[tuple[PrimExpr, ...], ...] | None = None

    @property
    def identity_element(self) -> tuple[PrimExpr, ...]:
        """The identity element; empty types are passed to ``identity``."""
        return self._symbolic_parts()[0]

    @property
    def lhs(self) -> tuple[PrimExpr, ...]:
        """The variables of the accumulated values in :attr:`result`."""
        return self._symbolic_parts()[1]

    @property
    def rhs(self) -> tuple[PrimExpr, ...]:
        """The variables of the new values in :attr:`result`."""
        return self._symbolic_parts()[2]

    @property
    def result(self) -> tuple[PrimExpr, ...]:
        """The combined values, in :attr:`lhs` and :attr:`rhs`."""
        return self._symbolic_parts()[3]

    def _symbolic_parts(self) -> tuple[tuple[PrimExpr, ...], ...]:
        if self._parts is None:
            where = "CommReducer: the result of `identity`"
            identities = sequence_of(self.identity([]), where, "scalar expressions")
            suffixes = (
                [""] if len(identities) == 1 else map(str, range(len(identities)))
            )
            named = list(zip(suffixes, identities, strict=True))
            lhs = tuple(Var(f"x{n}", s.dtype) for n, s in named)
            rhs = tuple(Var(f"y{n}", s.dtype) for n, s in named)
            where = "CommReducer: the result of `combine`"
            result = sequence_of(self.combine(lhs, rhs), where, "scalar expressions")
            self._parts = (identities, lhs, rhs, result)
        return self._parts


class Reduce(PrimExpr):
    """A reduction over axes; only valid as the whole body of a computed tensor."""

    __slots__ = ("axis", "combiner", "condition", "init", "source", "value_index")

    def __init__(
        self,
        combiner: CommReducer,
        source: Sequence[PrimExpr],
        axis: Sequence[IterVar],
        condition: PrimExpr | None = None,
        value_index: int = 0,
        init: Sequence[PrimExpr] = (),
    ) -> None:
        self.combiner = combiner
        self.source = tuple(map(convert, sequence_of(source, "Reduce", "sources")))
        self.axis = sequence_of(axis, "Reduce: `axis`", "axes")
        self.condition = condition
        self.value_index = value_index
        self.init = sequence_of(init, "Reduce: `init`", "scalar expressions")
        if not 0 <= integer_of(value_index, "Reduce: `value_index`") < len(self.source):
            raise ValueError(
                f"Reduce: `value_index`: expected one of {len(self.source)} sources, "
                f"got {value_index}"
            )
        self.dtype = self.source[value_index].dtype

    def children(self) -> tuple[PrimExpr, ...]:
        return self.source

    def with_children(self, children: Sequence[PrimExpr]) -> PrimExpr:
        return Reduce(
            self.combiner,
            children,
            self.axis,
            self.condition,
            self.value_index,
            self.init,
        )

    def key(self) -> tuple[object, ...]:
        return (self.combiner.name, tuple(id(a.var) for a in self.axis))
