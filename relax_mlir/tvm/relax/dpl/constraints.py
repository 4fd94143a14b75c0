"""Constraints between patterns: def-use edges and equal shapes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from relax_mlir.objects.expr import ShapeExpr, Var
from relax_mlir.objects.expr.struct_info import ShapeStructInfo, TensorStructInfo
from relax_mlir.tvm.relax.dpl.matcher import is_provably_equal

if TYPE_CHECKING:
    from relax_mlir.tvm.relax.dpl.pattern import DFPattern

__all__ = ["DFConstraint", "PatternConstraints", "SameShapeConstraint", "UseEdge"]


@dataclass(frozen=True)
class UseEdge:
    """Def-use edge between two patterns.

    Attributes:
        only: the user is the only one of the producer.
        index: argument position in the user; -1 for any.
    """

    only: bool
    index: int = -1


class DFConstraint(Protocol):
    """Condition on the variables that patterns are matched to."""

    def holds(self, matched: Callable[[DFPattern], Var | None]) -> bool | None:
        """Evaluate the condition; None while too few patterns are matched to decide."""
        ...


class PatternConstraints:
    """Set of constraints on patterns; constraints created while it is open are added to it.

    Attributes:
        edges: edges by producer, then by user.
        conditions: further constraints.
    """

    _open: ClassVar[list[PatternConstraints]] = []

    def __init__(self) -> None:
        self.edges: dict[DFPattern, dict[DFPattern, list[UseEdge]]] = {}
        self.conditions: list[DFConstraint] = []

    @staticmethod
    def innermost() -> PatternConstraints | None:
        """The most recently opened context, or None."""
        return PatternConstraints._open[-1] if PatternConstraints._open else None

    def open(self) -> None:
        """Make it the innermost context."""
        PatternConstraints._open.append(self)

    def close(self) -> None:
        """Remove it from the stack of open contexts."""
        PatternConstraints._open.remove(self)

    def copy_from(self, other: PatternConstraints) -> None:
        """Copy the constraints of another context."""
        self.edges = {
            producer: {user: list(edges) for user, edges in users.items()}
            for producer, users in other.edges.items()
        }
        self.conditions = list(other.conditions)

    def add_edge(self, producer: DFPattern, user: DFPattern, edge: UseEdge) -> None:
        """Require that ``user`` uses ``producer``.

        Raises:
            ValueError: the edge exists already.
        """
        edges = self.edges.setdefault(producer, {}).setdefault(user, [])
        if edge in edges:
            raise ValueError("this constraint between two patterns exists already")
        edges.append(edge)


class SameShapeConstraint:
    """Constraint that all patterns match tensors, or shape values, of the same shape.

    Args:
        args: the patterns.
    """

    def __init__(self, *args: DFPattern) -> None:
        self.args = args
        context = PatternConstraints.innermost()
        if context is not None:
            context.conditions.append(self)

    def holds(self, matched: Callable[[DFPattern], Var | None]) -> bool | None:
        """Whether all matched shapes are equal; None while a pattern is unmatched."""
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
            if not all(map(is_provably_equal, shape, shapes[0])):
                return False
        return True if is_complete else None


def _shape(var: Var) -> ShapeExpr | None:
    info = var.struct_info_or_none()
    if isinstance(info, TensorStructInfo) and isinstance(info.shape, ShapeExpr):
        return info.shape
    if isinstance(info, ShapeStructInfo) and info.values is not None:
        return ShapeExpr(info.values)
    return None
