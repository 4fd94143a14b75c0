"""Loads from memory that is written before the last use of what they read.

A script reads an element where it uses it; passes load it before. Between the two the
element may change, as where two elements are swapped.
"""

from collections.abc import Iterable, Mapping, Sequence

from mlir import ir

from relax_mlir.dialects.tir import VectorLoadOp
from relax_mlir.objects.memrefs import whole_buffer
from relax_mlir.traversal import walk

__all__ = ["is_overwritten"]

_LOADS = ("memref.load", VectorLoadOp.OPERATION_NAME)
_STORES = {"memref.store": 1, "tir.vector_store": 1}  # the operand that is the buffer
# What is read where its result is used; but for `tir.let`, whose variable has a value.
_TERMS = ("arith.", "math.", "memref.load", "scf.if", "vector.", "tir.")


def is_overwritten(op: ir.OpView, rest: Sequence[ir.OpView]) -> bool:
    """Whether an operation reads memory that is written before its result is last used.

    Args:
        op: the operation.
        rest: those after it in its block.
    """
    operation = op.operation
    if not _is_term(operation):
        return False
    buffers = {whole_buffer(o.operands[0]) for o in (operation, *walk(op)) if _loads(o)}
    writers = [s for buffer in buffers for s in _stores_to(buffer)]
    if not writers:
        return False
    places = {other.operation: number for number, other in enumerate(rest)}
    written = _places_of(writers, places)
    if not written:
        return False
    first = min(written)
    # A store itself comes after what it stores; a loop may store, and then use.
    holds_both = len(rest[first].operation.regions) > 0
    used = _places_of(_spelled_in(operation), places)
    return any(place > first or (place == first and holds_both) for place in used)


def _loads(op: ir.OpView | ir.Operation) -> bool:
    return op.operation.name in _LOADS


def _stores_to(buffer: ir.Value) -> list[ir.Operation]:
    """The stores to a buffer, or to a box of it."""
    found: list[ir.Operation] = []
    for use in buffer.uses:
        owner = use.owner.operation
        if owner.name == "memref.subview":
            found += _stores_to(owner.results[0])
        elif _STORES.get(owner.name) == use.operand_number:
            found.append(owner)
    return found


def _is_term(op: ir.Operation) -> bool:
    return op.name.startswith(_TERMS) and op.name != "tir.let"


def _places_of(
    operations: Iterable[ir.Operation], places: Mapping[ir.Operation, int]
) -> list[int]:
    """Where in a block operations, or what holds them, stand; those outside left out."""
    found: list[int] = []
    for op in operations:
        around: ir.Operation | None = op
        while around is not None and around not in places:
            around = around.parent
        if around is not None:
            found.append(places[around])
    return found


def _spelled_in(op: ir.Operation) -> set[ir.Operation]:
    """What a result of an operation is an operand of, as itself or as part of a term."""
    found: set[ir.Operation] = set()
    left = [op]
    while left:
        users = [use.owner.operation for r in left.pop().results for use in r.uses]
        left += [user for user in users if user not in found and _is_term(user)]
        found.update(users)
    return found
