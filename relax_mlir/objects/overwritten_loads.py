"""Loads from memory that is written before the last use of what they read.

A script reads an element where it uses it; passes load it before. Between the two the
element may change, as where two elements are swapped.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator

from mlir import ir

from relax_mlir.dialects.tir import VectorLoadOp
from relax_mlir.objects.memrefs import whole_buffer
from relax_mlir.traversal import blocks_of, own_operations, walk

__all__ = ["OverwrittenLoads", "is_term"]

_LOADS = ("memref.load", VectorLoadOp.OPERATION_NAME)
_STORES = {"memref.store": 1, "tir.vector_store": 1}  # the operand that is the buffer
# What is read where its result is used; but for `tir.let`, whose variable has a value.
_TERMS = ("arith.", "math.", "memref.load", "vector.", "tir.")


class OverwrittenLoads:
    """Where a program stores to its buffers, and where it last uses what it loads.

    Operations are numbered block by block, once, so that a question takes the time of a
    binary search.

    Args:
        function: the program.
    """

    def __init__(self, function: ir.Operation | ir.OpView) -> None:
        # The block of an operation, by a number, and the operation's place in it.
        self._places: dict[ir.Operation, tuple[int, int]] = {}
        self._with_regions: set[tuple[int, int]] = set()
        blocks = list(blocks_of(function))
        for number, block in enumerate(blocks):
            for place, op in enumerate(own_operations(block)):
                self._places[op.operation] = (number, place)
                if len(op.operation.regions):
                    self._with_regions.add((number, place))
        # Where in each block a buffer is stored to, there or in a region of what is there,
        # in order.
        self._stores: dict[tuple[ir.Value, int], list[int]] = defaultdict(list)
        for op in walk(function):
            self._note_store(op.operation)
        self._last_uses: dict[ir.Operation, int] = {}
        for block in blocks:
            for op in reversed(list(own_operations(block))):
                self._last_uses[op.operation] = self._last_use(op.operation)

    def holds(self, op: ir.OpView) -> bool:
        """Whether an operation reads memory that is written before its result is last used."""
        operation = op.operation
        if not is_term(operation):
            return False
        loads = [o for o in (op, *walk(op)) if o.operation.name in _LOADS]
        stores = [
            self._next_store(whole_buffer(o.operands[0]), operation) for o in loads
        ]
        written = [place for place in stores if place is not None]
        if not written:
            return False
        block, _ = self._places[operation]
        first, last = min(written), self._last_uses[operation]
        # A store itself comes after what it stores; a loop may store, and then use.
        holds_both = (block, first) in self._with_regions
        return last > first or (last == first and holds_both)

    def _next_store(self, buffer: ir.Value, op: ir.Operation) -> int | None:
        """The first place after an operation, in its block, where a buffer is stored to."""
        block, place = self._places[op]
        places = self._stores.get((buffer, block), [])
        number = bisect_right(places, place)
        return places[number] if number < len(places) else None

    def _last_use(self, op: ir.Operation) -> int:
        """The last place in its block where a script spells the result of an operation.

        Of the operations after it, this is known. What is part of a term is spelled where
        the term is; so is what stands in a region of an ``scf.if`` that has a result.
        """
        block, last = self._places[op]
        for result in op.results:
            for use in result.uses:
                user = next(
                    o
                    for o in self._around(use.owner.operation)
                    if self._places[o][0] == block
                )
                last = max(last, self._places[user][1])
                if is_term(user):
                    last = max(last, self._last_uses[user])
        return last

    def _note_store(self, op: ir.Operation) -> None:
        number = _STORES.get(op.name)
        if number is None:
            return
        buffer = whole_buffer(op.operands[number])
        for around in self._around(op):
            block, place = self._places[around]
            self._stores[buffer, block].append(place)

    def _around(self, op: ir.Operation) -> Iterator[ir.Operation]:
        """An operation, and those that it is nested in."""
        around: ir.Operation | None = op
        while around is not None and around in self._places:
            yield around
            around = around.parent


def is_term(op: ir.Operation) -> bool:
    """Whether a script spells an operation where it uses its result."""
    if op.name == "scf.if":
        return len(op.results) > 0
    return op.name.startswith(_TERMS) and op.name != "tir.let"
