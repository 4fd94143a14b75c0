"""``relax-topological-sort``: bindings of dataflow blocks in another order."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from mlir import ir

from relax_mlir.graphs import block_number, blocks_of, graph_functions
from relax_mlir.module import IRModule
from relax_mlir.objects import names
from relax_mlir.rewriting import Pass
from relax_mlir.traversal import own_operations

__all__ = ["TopologicalSort"]


@dataclass(frozen=True)
class TopologicalSort(Pass):
    """Sort the bindings of every dataflow block.

    Args:
        order: whether readers follow what they read at once, or after what is beside it.
        direction: whether to start from what is read, or from what is given.
    """

    order: Literal["depth-first", "breadth-first"] = "depth-first"
    direction: Literal["from-inputs", "from-outputs"] = "from-inputs"

    def run(self, module: IRModule) -> None:
        for function in graph_functions(module):
            for block in blocks_of(function):
                blocks = list(_dataflow_blocks(block))
                order = self._order(_Graph(block)) if blocks else []
                for bindings in blocks:
                    _sort(bindings, order)

    def _order(self, graph: "_Graph") -> list[ir.OpView]:
        is_deep = self.order == "depth-first"
        if self.direction == "from-inputs":
            return graph.from_inputs(is_deep=is_deep)
        return graph.from_outputs(is_deep=is_deep)


def _sort(bindings: Sequence[ir.OpView], order: Sequence[ir.OpView]) -> None:
    """Write the bindings of one dataflow block in the order that all have."""
    inside = set(bindings)
    moved: set[ir.Operation] = set()
    behind = _next(bindings[-1].operation)
    for op in order:
        if op in inside:
            _move(op.operation, behind, moved)


def _next(op: ir.Operation) -> ir.Operation:
    """The operation behind another one in its block; the last one binds nothing."""
    operations = [other.operation for other in own_operations(op.block)]
    return operations[operations.index(op) + 1]


def _move(op: ir.Operation, behind: ir.Operation, moved: set[ir.Operation]) -> None:
    """Move a binding, and the arguments that are written in front of it for it alone."""
    for operand in op.operands:
        owner = operand.owner
        if isinstance(owner, ir.Block):
            continue
        source = owner.operation
        if source in moved or source.block != op.block:
            continue
        if names.NAME not in source.attributes:
            _move(source, behind, moved)
    moved.add(op)
    op.move_before(behind)


def _dataflow_blocks(block: ir.Block) -> Iterator[list[ir.OpView]]:
    found: dict[int, list[ir.OpView]] = {}
    for op in own_operations(block):
        if block_number(op) >= 0:
            found.setdefault(block_number(op), []).append(op)
    yield from list(found.values())


class _Graph:
    """Which bindings of a block of MLIR read which.

    Nodes are numbers: 0 is where all begins, then come parameters and bindings, and the
    last one is what the block gives. What reads nothing is read from the beginning, and
    what nothing reads is given.
    """

    def __init__(self, block: ir.Block) -> None:
        self.block = block
        *inner, end = own_operations(block)
        self.bindings = [op for op in inner if names.NAME in op.operation.attributes]
        self.nodes: dict[ir.Value, int] = {}
        for argument in block.arguments:
            self.nodes[argument] = len(self.nodes) + 1
        self.first = len(self.nodes) + 1
        for number, op in enumerate(self.bindings, self.first):
            self.nodes.update(dict.fromkeys(op.operation.results, number))
        self.end = self.first + len(self.bindings)
        self.users: list[list[int]] = [[] for _ in range(self.end + 1)]
        self.sources: list[list[int]] = [[] for _ in range(self.end + 1)]
        self._connect(end)

    def _connect(self, end: ir.OpView) -> None:
        for param in range(1, self.first):
            self._edge(0, param)
        for number, op in enumerate([*self.bindings, end], self.first):
            for source in self._reads(op.operation):
                self._edge(source, number)
        bindings = range(self.first, self.end)
        for free in [n for n in bindings if not self.sources[n]]:
            self._edge(0, free)
        unread = [n for n in bindings if not self.users[n]]
        self.sources[self.end] = unread + self.sources[self.end]
        for node in unread:
            self.users[node] = [self.end]

    def _edge(self, source: int, user: int) -> None:
        self.users[source].append(user)
        self.sources[user].append(source)

    def _reads(self, op: ir.Operation) -> Iterator[int]:
        """What an operation reads, also by arguments written in front of it for it."""
        for operand in op.operands:
            owner = operand.owner
            if operand in self.nodes:
                yield self.nodes[operand]
            elif (
                not isinstance(owner, ir.Block) and owner.operation.block == self.block
            ):
                yield from self._reads(owner.operation)
        for region in op.regions:
            for inner in region.blocks:
                for nested in own_operations(inner):
                    yield from self._reads(nested.operation)

    def from_inputs(self, *, is_deep: bool) -> list[ir.OpView]:
        """Each binding as soon as all that it reads is there."""
        users = [each[::-1] if is_deep else each for each in self.users]
        return self._search(0, users, self.sources, is_deep=is_deep)

    def from_outputs(self, *, is_deep: bool) -> list[ir.OpView]:
        """Each binding as late as what reads it allows."""
        found = self._search(self.end, self.sources, self.users, is_deep=is_deep)
        return found[::-1]

    def _search(
        self,
        start: int,
        following: Sequence[Sequence[int]],
        needed: Sequence[Sequence[int]],
        *,
        is_deep: bool,
    ) -> list[ir.OpView]:
        done: dict[int, None] = {}
        todo = [start]
        while todo:
            node = todo.pop(-1 if is_deep else 0)
            done[node] = None
            waiting = [other for other in following[node] if other not in done]
            todo += [o for o in waiting if all(n in done for n in needed[o])]
        numbers = (n - self.first for n in done if self.first <= n < self.end)
        return [self.bindings[number] for number in numbers]
