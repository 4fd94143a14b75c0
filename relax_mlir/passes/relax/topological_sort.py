"""``relax-topological-sort``: bindings of dataflow blocks in another order."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from mlir import ir

from relax_mlir.graphs import block_number, blocks_of, graph_functions, users_of
from relax_mlir.module import IRModule
from relax_mlir.objects import names
from relax_mlir.passes.relax.outline import sort_block
from relax_mlir.rewriting import Pass

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
                for bindings in _dataflow_blocks(block):
                    self._sort(bindings)
                sort_block(block)

    def _sort(self, bindings: Sequence[ir.OpView]) -> None:
        graph = _Graph(bindings)
        is_deep = self.order == "depth-first"
        if self.direction == "from-inputs":
            order = graph.from_inputs(is_deep=is_deep)
        else:
            order = graph.from_outputs(is_deep=is_deep)
        anchor = bindings[-1]
        marker = [op for op in order if op is not anchor]
        for op in marker:
            op.operation.move_before(anchor.operation)
        place = order.index(anchor)
        if place + 1 < len(order):
            anchor.operation.move_before(order[place + 1].operation)


def _dataflow_blocks(block: ir.Block) -> Iterator[list[ir.OpView]]:
    found: dict[int, list[ir.OpView]] = {}
    for op in block.operations:
        if block_number(op) >= 0:
            found.setdefault(block_number(op), []).append(op)
    yield from list(found.values())


class _Graph:
    """Who reads whom among the bindings of one block."""

    def __init__(self, bindings: Sequence[ir.OpView]) -> None:
        self.bindings = list(bindings)
        inside = set(self.bindings)
        self.readers = {
            op: [
                user
                for result in op.operation.results
                for user in users_of(result)
                if user in inside
            ]
            for op in self.bindings
        }
        order = {op: number for number, op in enumerate(self.bindings)}
        self.sources: dict[ir.OpView, list[ir.OpView]] = {
            op: [] for op in self.bindings
        }
        for op, readers in self.readers.items():
            readers.sort(key=order.__getitem__)
            for reader in readers:
                self.sources[reader].append(op)

    def from_inputs(self, *, is_deep: bool) -> list[ir.OpView]:
        """Each binding as soon as all that it reads is there."""
        done: dict[ir.OpView, None] = {}
        todo = [op for op in self.bindings if not self.sources[op]]
        while todo:
            op = todo.pop(0)
            if op in done or any(s not in done for s in self.sources[op]):
                continue
            done[op] = None
            todo = [*self.readers[op], *todo] if is_deep else [*todo, *self.readers[op]]
        return list(done)

    def from_outputs(self, *, is_deep: bool) -> list[ir.OpView]:
        """What each result needs, right before it; or all that many need first."""
        outputs = [
            op for op in self.bindings if names.OUTPUT in op.operation.attributes
        ]
        rest = [op for op in reversed(self.bindings) if op not in outputs]
        if is_deep:
            done: dict[ir.OpView, None] = {}
            for op in [*outputs, *reversed(rest)]:
                self._add(op, done)
            return list(done)
        reverse: dict[ir.OpView, None] = {}
        todo = [*reversed(outputs), *rest]
        while todo:
            op = todo.pop(0)
            if op in reverse or any(r not in reverse for r in self.readers[op]):
                continue
            reverse[op] = None
            todo = [*todo, *reversed(self.sources[op])]
        return list(reversed(list(reverse)))

    def _add(self, op: ir.OpView, done: dict[ir.OpView, None]) -> None:
        if op not in done:
            for source in self.sources[op]:
                self._add(source, done)
            done[op] = None
