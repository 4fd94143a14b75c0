"""Casts that keep what operators assume of symbolic sizes, once the operators are gone."""

from collections.abc import Callable, Iterable

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import constraints
from relax_mlir.dialects.constraints import Constraint
from relax_mlir.dialects.relax import graph
from relax_mlir.dialects.relax.core import RelaxOperation
from relax_mlir.dialects.shapes import Dim
from relax_mlir.errors import PassError
from relax_mlir.graphs import stand_beside
from relax_mlir.objects.names import place_of
from relax_mlir.objects.sizes import Symbols
from relax_mlir.objects.struct_info import ShapeStructInfo
from relax_mlir.objects.struct_info_types import from_mlir, to_mlir
from relax_mlir.traversal import own_operations

__all__ = ["assumed_by", "sizes_in", "write_size_casts"]


def write_size_casts(
    function: func.FuncOp, wanted: Callable[[ir.OpView], bool]
) -> None:
    """Write what operators assume of symbolic sizes as a cast in front of each of them.

    A matmul of [n, k] and [5, m] gets ``R.match_cast(R.shape([k]), R.Shape([5]))``; that
    k is at least 5 would be a cast of k to ``max(k, 5)``. An assumption that a cast
    further up checks is not checked again.

    Args:
        function: the function.
        wanted: says which operators; each is one that infers its types.
    """
    _write_casts(function.regions[0].blocks, wanted, frozenset())


def _write_casts(
    blocks: Iterable[ir.Block],
    wanted: Callable[[ir.OpView], bool],
    known: frozenset[Constraint],
) -> None:
    for block in blocks:
        checked = known
        for op in list(own_operations(block)):
            if isinstance(op, RelaxOperation) and wanted(op):
                new = list(dict.fromkeys(map(_ordered, assumed_by(op))))
                new = [c for c in new if c not in checked]
                checked = checked.union(new)
                if new:
                    _write_cast(op, new)
            for region in op.regions:
                _write_casts(region.blocks, wanted, checked)


def _ordered(constraint: Constraint) -> Constraint:
    """An equality with the sides in one order: a symbolic one first."""
    sides = sorted((constraint.lhs, constraint.rhs), key=_place_in_order)
    if constraint.relation == "==":
        return Constraint(sides[0], "==", sides[1])
    return constraint


def _place_in_order(size: Dim) -> tuple[bool, str]:
    return isinstance(size, int), str(size)


def assumed_by(op: RelaxOperation) -> list[Constraint]:
    """What an operator assumes of the symbolic sizes of its operands and attributes.

    Raises:
        PassError: no sizes satisfy it.
    """
    with constraints.collect() as found:
        try:
            op.infer_again()
        except ValueError as error:
            raise PassError(
                f"{place_of(op)}: `{op.OPERATION_NAME}`: {error}"
            ) from error
    return list(found)


def _write_cast(op: ir.OpView, found: list[Constraint]) -> None:
    """Write one cast in front of ``op`` that checks constraints."""
    symbols = Symbols()
    sides = [[symbols.term(d) for d in c.equality] for c in found]
    given, stated = (ShapeStructInfo(list(side)) for side in zip(*sides, strict=True))
    with ir.InsertionPoint(op), op.location:
        shape = graph.ShapeExprOp(results=[to_mlir(given, symbols)])
        cast = graph.MatchCastOp(shape.result, results=[to_mlir(stated, symbols)])
    stand_beside(cast, op, "sizes")


def sizes_in(type_: ir.Type) -> tuple[Dim, ...] | None:
    """The sizes of a shape as a value; None for other types."""
    symbols = Symbols()
    info = from_mlir(type_, symbols)
    if not isinstance(info, ShapeStructInfo) or info.values is None:
        return None
    return tuple(symbols.dims(info.values))
