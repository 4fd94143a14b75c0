"""Loads from memory that is written before the last use of what they read.

A script reads an element where it uses it; passes load it before. Between the two the
element may change, as where two elements are swapped.
"""

from collections.abc import Sequence

from mlir import ir

from relax_mlir.dialects.tir import VectorLoadOp
from relax_mlir.traversal import walk

__all__ = ["is_overwritten"]

_LOADS = ("memref.load", VectorLoadOp.OPERATION_NAME)
_STORES = {"memref.store": 1, "tir.vector_store": 1}  # the operand that is the buffer
# What is read where its result is used; the variable of a `tir.let` is no term.
_TERMS = ("arith.", "math.", "memref.load", "scf.if", "vector.", "tir.")
_STATEMENTS = ("tir.let", "tir.assert", "tir.attr", "tir.block", "tir.vector_store")


def is_overwritten(op: ir.OpView, rest: Sequence[ir.OpView]) -> bool:
    """Whether an operation reads memory that is written before its result is last used.

    Args:
        op: the operation.
        rest: those after it in its block.
    """
    operation = op.operation
    if not len(operation.results) or not _is_term(operation):
        return False
    buffers = {o.operands[0] for o in (operation, *walk(op)) if _loads(o)}
    writers = [s for buffer in buffers for s in _stores_to(buffer)]
    if not writers:
        return False
    places = {other.operation: number for number, other in enumerate(rest)}
    written = [n for n in (_place(s, places) for s in writers) if n is not None]
    if not written:
        return False
    first, last = min(written), _last_use(operation, places)
    # A store itself comes after what it stores; a loop may store, and then use.
    return last > first or (last == first and len(rest[first].operation.regions) > 0)


def _loads(op: ir.OpView | ir.Operation) -> bool:
    return op.operation.name in _LOADS


def _stores_to(buffer: ir.Value) -> list[ir.Operation]:
    owners = [(use.owner.operation, use.operand_number) for use in buffer.uses]
    return [o for o, number in owners if _STORES.get(o.name) == number]


def _is_term(op: ir.Operation) -> bool:
    return op.name.startswith(_TERMS) and op.name not in _STATEMENTS


def _place(op: ir.Operation | None, places: dict[ir.Operation, int]) -> int | None:
    """Where in a block an operation, or what holds it, stands; None outside of it."""
    while op is not None and op not in places:
        op = op.parent
    return None if op is None else places[op]


def _last_use(op: ir.Operation, places: dict[ir.Operation, int]) -> int:
    """The place of the last statement that spells a result of an operation; -1 for none."""
    found, seen, left = -1, {op}, [op]
    while left:
        for result in left.pop().results:
            for use in result.uses:
                user = use.owner.operation
                number = _place(user, places)
                found = max(found, -1 if number is None else number)
                if user not in seen and len(user.results) and _is_term(user):
                    seen.add(user)
                    left.append(user)
    return found
