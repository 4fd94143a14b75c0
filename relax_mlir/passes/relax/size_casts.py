"""Casts that preserve operators' constraints on symbolic sizes after legalization."""

from collections.abc import Callable, Iterable

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects.relax import graph
from relax_mlir.dialects.relax.core import RelaxOperation
from relax_mlir.dialects.shapes import Dim
from relax_mlir.errors import PassError
from relax_mlir.ir.function_attributes import location_of
from relax_mlir.ir.traversal import own_operations
from relax_mlir.objects.expr.struct_info import ShapeStructInfo
from relax_mlir.objects.expr.struct_info_types import from_mlir, to_mlir
from relax_mlir.objects.prim.symbolic_sizes import Symbols
from relax_mlir.rewrite.functions import bind_next_to
from relax_mlir.symbolic import constraints
from relax_mlir.symbolic.constraints import Constraint

__all__ = ["constraints_of_operator", "insert_size_casts", "sizes_in"]


def insert_size_casts(
    function: func.FuncOp, wanted: Callable[[ir.OpView], bool]
) -> None:
    """Inserts, before each operator, a cast that states its constraints on symbolic sizes.

    A matmul of [n, k] and [5, m] gets ``R.match_cast(R.shape([k]), R.Shape([5]))``; a
    constraint k >= 5 is a cast of k to ``max(k, 5)``. A constraint that a dominating cast
    checks is not checked again.

    Args:
        function: the function.
        wanted: selects operators, all of which infer their types.
    """
    _insert_casts(function.regions[0].blocks, wanted, frozenset())


def _insert_casts(
    blocks: Iterable[ir.Block],
    wanted: Callable[[ir.OpView], bool],
    known: frozenset[Constraint],
) -> None:
    for block in blocks:
        checked = known
        for op in list(own_operations(block)):
            if isinstance(op, RelaxOperation) and wanted(op):
                new = list(dict.fromkeys(map(_canonical, constraints_of_operator(op))))
                new = [c for c in new if c not in checked]
                checked = checked.union(new)
                if new:
                    _insert_cast(op, new)
            for region in op.regions:
                _insert_casts(region.blocks, wanted, checked)


def _canonical(constraint: Constraint) -> Constraint:
    """An equality in canonical order: a symbolic side first."""
    sides = sorted((constraint.lhs, constraint.rhs), key=_sort_key)
    if constraint.relation == "==":
        return Constraint(sides[0], "==", sides[1])
    return constraint


def _sort_key(size: Dim) -> tuple[bool, str]:
    return isinstance(size, int), str(size)


def constraints_of_operator(op: RelaxOperation) -> list[Constraint]:
    """The constraints of an operator on the symbolic sizes of its operands and attributes.

    Raises:
        PassError: no sizes satisfy them.
    """
    with constraints.collect() as found:
        try:
            op.infer_again()
        except ValueError as error:
            raise PassError(
                f"{location_of(op)}: `{op.OPERATION_NAME}`: {error}"
            ) from error
    return list(found)


def _insert_cast(op: ir.OpView, found: list[Constraint]) -> None:
    """Inserts one cast before ``op`` that checks constraints."""
    symbols = Symbols()
    sides = [[symbols.expr(d) for d in c.equality] for c in found]
    given, stated = (ShapeStructInfo(list(side)) for side in zip(*sides, strict=True))
    with ir.InsertionPoint(op), op.location:
        shape = graph.ShapeExprOp(results=[to_mlir(given, symbols)])
        cast = graph.MatchCastOp(shape.result, results=[to_mlir(stated, symbols)])
    bind_next_to(cast, op, "sizes")


def sizes_in(type_: ir.Type) -> tuple[Dim, ...] | None:
    """The sizes of a shape type; None for other types."""
    symbols = Symbols()
    info = from_mlir(type_, symbols)
    if not isinstance(info, ShapeStructInfo) or info.values is None:
        return None
    return tuple(symbols.dims(info.values))
