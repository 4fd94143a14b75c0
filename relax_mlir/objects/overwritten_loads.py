"""Finds loads whose buffer is overwritten before the last use of the loaded value.

TVMScript loads an element at its use, while MLIR loads it earlier. In between the element may
change, as in a swap of two elements; such loads must be read as ``let`` statements.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator

from mlir import ir

from relax_mlir.dialects.tir import VectorLoadOp
from relax_mlir.ir.traversal import blocks_of, own_operations, walk
from relax_mlir.objects.write.memref import base_buffer

__all__ = ["OverwrittenLoads", "is_expression"]

_LOADS = ("memref.load", VectorLoadOp.OPERATION_NAME)
_STORES = {"memref.store": 1, "tir.vector_store": 1}  # operand number of the buffer
# Operations that are printed at their uses; `tir.let` is not, it binds a variable.
_EXPRESSIONS = ("arith.", "math.", "memref.load", "vector.", "tir.")


class OverwrittenLoads:
    """Positions of the stores of a PrimFunc and of the last uses of its loads.

    Operations are numbered block by block once, so that a query is a binary search.

    Args:
        function: the PrimFunc in MLIR.
    """

    def __init__(self, function: ir.Operation | ir.OpView) -> None:
        # For each operation: the number of its block, and its position there.
        self._positions: dict[ir.Operation, tuple[int, int]] = {}
        self._with_regions: set[tuple[int, int]] = set()
        blocks = list(blocks_of(function))
        for number, block in enumerate(blocks):
            for position, op in enumerate(own_operations(block)):
                self._positions[op.operation] = (number, position)
                if len(op.operation.regions):
                    self._with_regions.add((number, position))
        # By buffer and block: sorted positions of stores, directly or in nested regions.
        self._stores: dict[tuple[ir.Value, int], list[int]] = defaultdict(list)
        for op in walk(function):
            self._record_store(op.operation)
        self._last_uses: dict[ir.Operation, int] = {}
        for block in blocks:
            for op in reversed(list(own_operations(block))):
                self._last_uses[op.operation] = self._last_use(op.operation)

    def is_overwritten(self, op: ir.OpView) -> bool:
        """Whether the result of an operation is used after its memory is overwritten."""
        operation = op.operation
        if not is_expression(operation):
            return False
        loads = [o for o in (op, *walk(op)) if o.operation.name in _LOADS]
        stores = [
            self._next_store(base_buffer(o.operands[0]), operation) for o in loads
        ]
        written = [position for position in stores if position is not None]
        if not written:
            return False
        block, _ = self._positions[operation]
        first, last = min(written), self._last_uses[operation]
        # A store happens after reading its operands; a loop may store before a use.
        holds_both = (block, first) in self._with_regions
        return last > first or (last == first and holds_both)

    def _next_store(self, buffer: ir.Value, op: ir.Operation) -> int | None:
        """The position of the first store to a buffer after an operation, in its block."""
        block, position = self._positions[op]
        positions = self._stores.get((buffer, block), [])
        number = bisect_right(positions, position)
        return positions[number] if number < len(positions) else None

    def _last_use(self, op: ir.Operation) -> int:
        """The position in its block at which the result of an operation is last evaluated.

        Last uses of later operations are known. An expression operand is evaluated where the
        expression is; so is the region of an ``scf.if`` with a result.
        """
        block, last = self._positions[op]
        for result in op.results:
            for use in result.uses:
                user = next(
                    o
                    for o in self._ancestors(use.owner.operation)
                    if self._positions[o][0] == block
                )
                last = max(last, self._positions[user][1])
                if is_expression(user):
                    last = max(last, self._last_uses[user])
        return last

    def _record_store(self, op: ir.Operation) -> None:
        number = _STORES.get(op.name)
        if number is None:
            return
        buffer = base_buffer(op.operands[number])
        for ancestor in self._ancestors(op):
            block, position = self._positions[ancestor]
            self._stores[buffer, block].append(position)

    def _ancestors(self, op: ir.Operation) -> Iterator[ir.Operation]:
        """An operation and its ancestors."""
        ancestor: ir.Operation | None = op
        while ancestor is not None and ancestor in self._positions:
            yield ancestor
            ancestor = ancestor.parent


def is_expression(op: ir.Operation) -> bool:
    """Whether an operation is printed as an expression at the uses of its result."""
    if op.name == "scf.if":
        return len(op.results) > 0
    return op.name.startswith(_EXPRESSIONS) and op.name != "tir.let"
