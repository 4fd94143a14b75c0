"""Bound: loops that a program binds to threads, as the launches that they ask for."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mlir import ir

from relax_mlir.dialects.tir import BlockOp, marks
from relax_mlir.errors import PassError
from relax_mlir.indexing import constant_of
from relax_mlir.objects.memrefs import whole_buffer
from relax_mlir.rewriting import clone, erase, is_read_once, replace, walk
from relax_mlir.schedules.emit import Extent, less, maximum, op, static
from relax_mlir.schedules.gpu.barriers import place_barriers
from relax_mlir.schedules.gpu.index_sums import STORES
from relax_mlir.schedules.gpu.launch import launch_grid
from relax_mlir.schedules.gpu.rule import GpuRule
from relax_mlir.schedules.gpu.thread_memory import (
    is_of_threads,
    is_private,
    is_shared,
    place_buffers,
)
from relax_mlir.schedules.gpu.thread_sums import Threads, write_sum
from relax_mlir.schedules.nest import Kernel, beyond_sizes
from relax_mlir.schedules.rule import Refusal
from relax_mlir.traversal import own_operations, values_read

__all__ = ["Bound"]

_BLOCKS = ("blockIdx.x", "blockIdx.y", "blockIdx.z")
_THREADS = ("threadIdx.x", "threadIdx.y", "threadIdx.z")
_MOST_THREADS = 1024  # that a block may have


class Bound(GpuRule[Kernel]):
    """Programs whose loops are bound to threads, as ``tir-lower-blocks{threads}`` left them.

    Each nest of such loops is a launch; nests that exchange values through memory of
    threads or blocks are one. A nest has as many blocks and threads as its largest loops:
    smaller ones leave the others out. Loops bound to ``vthread`` run step by step.
    """

    def plan(self, kernel: Kernel) -> Kernel:
        if not any(_axis_of(o) in (*_BLOCKS, *_THREADS) for o in walk(kernel.function)):
            raise Refusal("no loop of it is bound to threads")
        return kernel

    def write(self, plan: Kernel) -> None:
        where = plan.function.name.value
        for nest in _nests(list(own_operations(plan.block))[:-1]):
            _Nest(where, nest).write()


def _axis_of(operation: ir.OpView) -> str | None:
    """The threads that a loop is bound to; None of what is no such loop."""
    is_loop = operation.operation.name == "scf.for"
    if not is_loop or marks.THREAD not in operation.attributes:
        return None
    return ir.StringAttr(operation.attributes[marks.THREAD]).value


def _nests(operations: Sequence[ir.OpView]) -> list[list[ir.OpView]]:
    """The statements of a program, in order; those that need each other's values together."""
    found: list[tuple[list[ir.OpView], set[ir.Value]]] = []
    for operation in beyond_sizes(operations):
        if not _is_statement(operation):
            continue
        needed = set(_needed(operation))
        places = (n for n, (_, given) in enumerate(found) if given & needed)
        first = next(places, len(found))
        joined = [o for nest, _ in found[first:] for o in nest]
        given = {v for v in needed if isinstance(v.type, ir.MemRefType)}
        given.update(operation.results, *(values for _, values in found[first:]))
        found[first:] = [([*joined, operation], given)]
    return [nest for nest, _ in found]


def _is_statement(operation: ir.OpView) -> bool:
    name = operation.operation.name
    if name == "memref.alloc":
        return False
    is_view = name.startswith("memref.") and any(
        isinstance(r.type, ir.MemRefType) for r in operation.results
    )
    return not is_view or is_of_threads(whole_buffer(operation.results[0]))


def _needed(operation: ir.OpView) -> Iterator[ir.Value]:
    """Memory of threads that a statement uses, and what others have computed for it."""
    for inner in (operation, *walk(operation)):
        for value in inner.operation.operands:
            if not isinstance(value.type, ir.MemRefType):
                yield value
            elif is_of_threads(whole_buffer(value)):
                yield whole_buffer(value)


@dataclass
class _Nest:
    """Statements that become one launch.

    Attributes:
        where: the program, for errors.
        operations: the statements.
    """

    where: str
    operations: list[ir.OpView]
    sums: list[tuple[BlockOp, Mapping[str, Extent]]] = field(default_factory=list)

    def write(self) -> None:
        """The launch, at the insertion point."""
        grid = [self._most(self._loops(axis)) for axis in _BLOCKS]
        threads = [self._count(self._loops(axis)) for axis in _THREADS]
        if math.prod(threads) > _MOST_THREADS:
            raise PassError(
                f"`{self.where}`: {math.prod(threads)} threads in a block: expected at "
                f"most {_MOST_THREADS}"
            )

        most = dict(zip((*_BLOCKS, *_THREADS), (*grid, *threads), strict=True))
        ids: dict[str, ir.Value] = {}

        def body(blocks: Sequence[ir.Value], numbers: Sequence[ir.Value]) -> None:
            ids.update(zip(most, (*blocks, *numbers), strict=True))
            inside = ir.InsertionPoint.current.block
            for operation in self.operations:
                inside.append(operation)
            self._spread(self.operations, ids, most, {})

        inside = launch_grid(grid, threads, body)
        for block, around in self.sums:
            extents = {a: static(around[a]) for a in _THREADS if a in around}
            threads = Threads(ids, most, extents, frozenset(around))
            write_sum(block, threads, inside)
        place_barriers(inside)
        place_buffers(inside)
        _fuse_products(inside)

    def _loops(self, axis: str) -> list[ir.OpView]:
        everything = (o for s in self.operations for o in (s, *walk(s)))
        return [o for o in everything if _axis_of(o) == axis]

    def _extent(self, loop: ir.OpView) -> Extent:
        begin, end, step = list(loop.operands)[:3]
        if constant_of(begin) != 0 or constant_of(step) != 1:
            raise PassError(
                f"`{self.where}`: {loop.location}: a loop bound to threads begins at 0"
            )
        known = constant_of(end)
        return end if known is None else known

    def _most(self, loops: Iterable[ir.OpView]) -> Extent:
        """The largest number of steps, computed beside the launch."""
        total: Extent = 1
        for loop in loops:
            extent = self._extent(loop)
            own = extent if isinstance(extent, int) else self._outside(extent, {})
            total = own if total == 1 else maximum(total, own)
        return total

    def _outside(self, value: ir.Value, made: dict[ir.Value, ir.Value]) -> ir.Value:
        """A size, computed at the insertion point."""
        owner = value.owner
        if isinstance(owner, ir.Block):
            if owner.owner.operation.name != "func.func":
                raise PassError(
                    f"`{self.where}`: the number of blocks depends on a loop: expected one "
                    "that the program's sizes tell"
                )
            return value
        for operand in values_read(owner):
            self._outside(operand, made)
        if value not in made:
            clone(owner.opview, made)
        return made[value]

    def _count(self, loops: Iterable[ir.OpView]) -> int:
        extents = [self._extent(loop) for loop in loops]
        known = [e for e in extents if isinstance(e, int)]
        if len(known) < len(extents):
            raise PassError(
                f"`{self.where}`: a loop over threads of a block has a size that only a "
                "run tells: expected a number"
            )
        return max([1, *known])

    def _check_place(self, loop: ir.OpView) -> None:
        """Refuse grids that run again and again: blocks cannot wait for each other."""
        if _axis_of(loop) not in _BLOCKS:
            return
        holder = loop.operation.parent
        while holder.name != "gpu.launch":
            is_loop = holder.name == "scf.for" and marks.THREAD not in holder.attributes
            if is_loop and not _runs_once(holder.opview):
                raise PassError(
                    f"`{self.where}`: {loop.location}: a loop bound to `blockIdx` stands "
                    "in one that runs step by step: expected it outside"
                )
            holder = holder.parent

    def _spread(
        self,
        operations: Sequence[ir.OpView],
        ids: Mapping[str, ir.Value],
        most: Mapping[str, Extent],
        around: Mapping[str, Extent],
    ) -> None:
        """Let each thread run its step of the loops that are bound.

        Args:
            ids: the number of the thread along each axis; most: how many there are.
            around: steps of the bound loops that stand around the operations.
        """
        for operation in operations:
            if isinstance(operation, BlockOp):
                self.sums.append((operation, around))
                continue
            if operation.operation.name in STORES:
                _let_one_store(operation, ids, most, around)
                continue
            axis = _axis_of(operation)
            is_bound = axis in ids
            self._check_place(operation)
            inner = around
            if is_bound:
                inner = {**around, axis: self._extent(operation)}
            for region in operation.operation.regions:
                for block in region.blocks:
                    self._spread(list(own_operations(block)), ids, most, inner)
            if is_bound:
                _run_step(operation, ids[axis], self._extent(operation), most[axis])
            elif operation.operation.name == "scf.for" and _runs_once(operation):
                _run_step(operation, operation.operands[0], 1, 1)


def _runs_once(loop: ir.OpView) -> bool:
    begin, end, step = (constant_of(v) for v in list(loop.operands)[:3])
    if begin is None or end is None or step is None:
        return False
    return begin < end <= begin + step


def _let_one_store(
    store: ir.OpView,
    ids: Mapping[str, ir.Value],
    most: Mapping[str, Extent],
    around: Mapping[str, Extent],
) -> None:
    """Let the first thread store what no loop asks others to; each block, what is its own."""
    root = whole_buffer(store.operands[STORES[store.operation.name]])
    if is_private(root):
        return
    for axis in _THREADS if is_shared(root) else (*_BLOCKS, *_THREADS):
        if axis not in around and most[axis] != 1:
            with ir.InsertionPoint(store), store.location:
                guard = _guard(less(ids[axis], 1))
            store.operation.move_before(guard)


def _guard(condition: ir.Value) -> ir.Operation:
    """A condition at the insertion point; the end of what it holds."""
    guard = ir.Operation.create("scf.if", operands=[condition], regions=2)
    with ir.InsertionPoint(ir.Block.create_at_start(guard.regions[0], [])):
        return ir.Operation.create("scf.yield")


def _fuse_products(launch: ir.Block) -> None:
    """Add products of floats in one step, which rounds once and takes half the time."""
    for operation in list(walk(launch)):
        is_sum = operation.operation.name == "arith.addf"
        if not is_sum or str(operation.operands[0].type) not in ("f32", "f64"):
            continue
        lhs, rhs = operation.operands
        for product, other in ((rhs, lhs), (lhs, rhs)):
            owner = product.owner
            is_product = not isinstance(owner, ir.Block) and owner.name == "arith.mulf"
            if is_product and is_read_once(product):
                with ir.InsertionPoint(operation), operation.location:
                    replace(
                        operation, op("math.fma", other.type, *owner.operands, other)
                    )
                erase(owner)
                break


def _run_step(loop: ir.OpView, number: ir.Value, extent: Extent, most: Extent) -> None:
    """Replace a loop by its step ``number``, where it has so many."""
    body = loop.regions[0].blocks[0]
    *operations, _ = own_operations(body)
    place = loop.operation
    with ir.InsertionPoint(loop), loop.location:
        if most == 1:
            number = loop.operands[0]
        body.arguments[0].replace_all_uses_with(number)
        if extent != most:
            place = _guard(less(number, extent))
    for operation in operations:
        operation.operation.move_before(place)
    erase(loop)
