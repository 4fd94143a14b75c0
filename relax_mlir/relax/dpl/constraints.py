"""The context of patterns: which is used by which, and what else must hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from relax_mlir.objects.expr import ShapeExpr, Var
from relax_mlir.objects.struct_info import ShapeStructInfo, TensorStructInfo
from relax_mlir.relax.dpl.matcher import same_size

if TYPE_CHECKING:
    from relax_mlir.relax.dpl.pattern import DFPattern

__all__ = ["Constraints", "DFConstraint", "Edge", "SameShapeConstraint"]


@dataclass(frozen=True)
class Edge:
    """How one pattern is used by another.

    Attributes:
        only: whether nothing else uses it.
        index: which argument of the user it is; -1 for any.
    """

    only: bool
    index: int = -1


class DFConstraint(Protocol):
    """What must hold between the variables that patterns stand for."""

    def holds(self, matched: Callable[[DFPattern], Var | None]) -> bool | None:
        """Whether it holds; None while too little is matched to tell."""
        ...


class Constraints:
    """What patterns must fulfil together; those made while it is open belong to it.

    Attributes:
        edges: by user, by producer.
        conditions: what else must hold.
    """

    _open: ClassVar[list[Constraints]] = []

    def __init__(self) -> None:
        self.edges: dict[DFPattern, dict[DFPattern, list[Edge]]] = {}
        self.conditions: list[DFConstraint] = []

    @staticmethod
    def innermost() -> Constraints | None:
        """The context that was opened last, if one is open."""
        return Constraints._open[-1] if Constraints._open else None

    def open(self) -> None:
        """From here on it is the innermost context."""
        Constraints._open.append(self)

    def close(self) -> None:
        """It is no longer open."""
        Constraints._open.remove(self)

    def copy_from(self, other: Constraints) -> None:
        """Take over all that another context demands."""
        self.edges = {
            producer: {user: list(edges) for user, edges in users.items()}
            for producer, users in other.edges.items()
        }
        self.conditions = list(other.conditions)

    def add_edge(self, producer: DFPattern, user: DFPattern, edge: Edge) -> None:
        """Demand that ``user`` uses ``producer``.

        Raises:
            ValueError: that is demanded already.
        """
        edges = self.edges.setdefault(producer, {}).setdefault(user, [])
        if edge in edges:
            raise ValueError("this constraint between two patterns was given already")
        edges.append(edge)


class SameShapeConstraint:
    """Patterns that stand for tensors, or shapes, of one shape.

    Args:
        args: the patterns.
    """

    def __init__(self, *args: DFPattern) -> None:
        self.args = args
        context = Constraints.innermost()
        if context is not None:
            context.conditions.append(self)

    def holds(self, matched: Callable[[DFPattern], Var | None]) -> bool | None:
        """Whether all known shapes are equal; None while one is missing."""
        shapes = []
        is_complete = True
        for pattern in self.args:
            var = matched(pattern)
            if var is None:
                is_complete = False
                continue
            shape = _shape(var)
            if shape is None:
                return False
            shapes.append(shape)
        for shape in shapes[1:]:
            if len(shape) != len(shapes[0]):
                return False
            if not all(map(same_size, shape, shapes[0])):
                return False
        return True if is_complete else None


def _shape(var: Var) -> ShapeExpr | None:
    info = var.struct_info_or_none()
    if isinstance(info, TensorStructInfo) and isinstance(info.shape, ShapeExpr):
        return info.shape
    if isinstance(info, ShapeStructInfo) and info.values is not None:
        return ShapeExpr(info.values)
    return None
