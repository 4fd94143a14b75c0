"""``relax-topological-sort``: sorts the bindings of dataflow blocks topologically."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from mlir import ir

from relax_mlir.ir import function_attributes
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import blocks_of, own_operations
from relax_mlir.rewrite.functions import dataflow_block_number, graph_functions
from relax_mlir.rewrite.patterns import Pass

__all__ = ["TopologicalSort"]


@dataclass(frozen=True)
class TopologicalSort(Pass):
    """Sorts the bindings of every dataflow block topologically.

    Args:
        order: depth-first places users right after their operands; breadth-first places
            them after all bindings of the same depth.
        direction: whether to traverse from the inputs or from the outputs.
    """

    order: Literal["depth-first", "breadth-first"] = "depth-first"
    direction: Literal["from-inputs", "from-outputs"] = "from-inputs"

    def run(self, module: IRModule) -> None:
        for function in graph_functions(module):
            for block in blocks_of(function):
                blocks = list(_dataflow_blocks(block))
                order = self._order(_DependenceGraph(block)) if blocks else []
                for bindings in blocks:
                    _sort(bindings, order)

    def _order(self, graph: "_DependenceGraph") -> list[ir.OpView]:
        is_deep = self.order == "depth-first"
        if self.direction == "from-inputs":
            return graph.from_inputs(is_deep=is_deep)
        return graph.from_outputs(is_deep=is_deep)


def _sort(bindings: Sequence[ir.OpView], order: Sequence[ir.OpView]) -> None:
    """Reorders the bindings of one dataflow block according to a global order."""
    inside = set(bindings)
    moved: set[ir.Operation] = set()
    anchor = _next(bindings[-1].operation)
    for op in order:
        if op in inside:
            _move(op.operation, anchor, moved)


def _next(op: ir.Operation) -> ir.Operation:
    """Returns the operation after another one; the terminator follows the last binding."""
    operations = [other.operation for other in own_operations(op.block)]
    return operations[operations.index(op) + 1]


def _move(op: ir.Operation, anchor: ir.Operation, moved: set[ir.Operation]) -> None:
    """Moves a binding, together with its unnamed operands."""
    for operand in op.operands:
        owner = operand.owner
        if isinstance(owner, ir.Block):
            continue
        operand_node = owner.operation
        if operand_node in moved or operand_node.block != op.block:
            continue
        if function_attributes.NAME not in operand_node.attributes:
            _move(operand_node, anchor, moved)
    moved.add(op)
    op.move_before(anchor)


def _dataflow_blocks(block: ir.Block) -> Iterator[list[ir.OpView]]:
    bindings_by_block: dict[int, list[ir.OpView]] = {}
    for op in own_operations(block):
        if dataflow_block_number(op) >= 0:
            bindings_by_block.setdefault(dataflow_block_number(op), []).append(op)
    yield from list(bindings_by_block.values())


class _DependenceGraph:
    """The dependence graph of an MLIR block.

    Node 0 is the source, then come parameters and bindings; the last node is the sink, the
    result of the block. Bindings without operands depend on the source, and the sink
    depends on unused bindings.
    """

    def __init__(self, block: ir.Block) -> None:
        self.block = block
        *inner, end = own_operations(block)
        self.bindings = [
            op for op in inner if function_attributes.NAME in op.operation.attributes
        ]
        self.nodes: dict[ir.Value, int] = {}
        for argument in block.arguments:
            self.nodes[argument] = len(self.nodes) + 1
        self.first = len(self.nodes) + 1
        for node, op in enumerate(self.bindings, self.first):
            self.nodes.update(dict.fromkeys(op.operation.results, node))
        self.end = self.first + len(self.bindings)
        self.users: list[list[int]] = [[] for _ in range(self.end + 1)]
        self.operands: list[list[int]] = [[] for _ in range(self.end + 1)]
        self._connect(end)

    def _connect(self, end: ir.OpView) -> None:
        for param in range(1, self.first):
            self._add_edge(0, param)
        for user_node, op in enumerate([*self.bindings, end], self.first):
            for operand_node in self._reads(op.operation):
                self._add_edge(operand_node, user_node)
        bindings = range(self.first, self.end)
        for node in [n for n in bindings if not self.operands[n]]:
            self._add_edge(0, node)
        unused = [n for n in bindings if not self.users[n]]
        self.operands[self.end] = unused + self.operands[self.end]
        for node in unused:
            self.users[node] = [self.end]

    def _add_edge(self, operand_node: int, user: int) -> None:
        self.users[operand_node].append(user)
        self.operands[user].append(operand_node)

    def _reads(self, op: ir.Operation) -> Iterator[int]:
        """Yields the nodes that an operation reads, also through unnamed operands."""
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
        """Returns the bindings, each as early as its operands allow."""
        users = [each[::-1] if is_deep else each for each in self.users]
        return self._search(0, users, self.operands, is_deep=is_deep)

    def from_outputs(self, *, is_deep: bool) -> list[ir.OpView]:
        """Returns the bindings, each as late as its users allow."""
        reverse_order = self._search(
            self.end, self.operands, self.users, is_deep=is_deep
        )
        return reverse_order[::-1]

    def _search(
        self,
        start: int,
        successors: Sequence[Sequence[int]],
        predecessors: Sequence[Sequence[int]],
        *,
        is_deep: bool,
    ) -> list[ir.OpView]:
        done: dict[int, None] = {}
        worklist = [start]
        while worklist:
            node = worklist.pop(-1 if is_deep else 0)
            done[node] = None
            pending = [other for other in successors[node] if other not in done]
            worklist += [o for o in pending if all(n in done for n in predecessors[o])]
        indices = (n - self.first for n in done if self.first <= n < self.end)
        return [self.bindings[index] for index in indices]
