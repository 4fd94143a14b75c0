"""ThreadBound rule: programs with explicit thread bindings, lowered to launches."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mlir import ir

from relax_mlir.analysis.index_maps import constant_of
from relax_mlir.dialects.tir import BlockOp, attribute_names
from relax_mlir.errors import PassError
from relax_mlir.ir.traversal import own_operations, values_read, walk
from relax_mlir.objects.write.memref import base_buffer
from relax_mlir.rewrite.patterns import clone, erase, has_one_use, replace
from relax_mlir.schedules.builder import IndexLike, less, maximum, op, static_size
from relax_mlir.schedules.gpu.affine_index import STORES
from relax_mlir.schedules.gpu.barriers import insert_barriers
from relax_mlir.schedules.gpu.block_reduction import (
    ThreadBinding,
    lower_cross_thread_reduction,
)
from relax_mlir.schedules.gpu.launch import launch_grid
from relax_mlir.schedules.gpu.memory_spaces import (
    compact_buffers,
    is_launch_local,
    is_private,
    is_shared,
)
from relax_mlir.schedules.gpu.rule import GpuRule
from relax_mlir.schedules.kernel_view import Kernel, without_size_arithmetic
from relax_mlir.schedules.rule import NotApplicable

__all__ = ["ThreadBound"]

_BLOCKS = ("blockIdx.x", "blockIdx.y", "blockIdx.z")
_THREADS = ("threadIdx.x", "threadIdx.y", "threadIdx.z")
_MAX_THREADS = 1024  # per block


class ThreadBound(GpuRule[Kernel]):
    """Programs with bound loops, as ``tir-lower-blocks{threads}`` leaves them.

    Each nest of bound loops becomes a launch; nests that communicate through shared or
    private buffers share one. The launch extents are those of the largest loops; smaller ones
    are predicated. Loops bound to ``vthread`` run sequentially.
    """

    def plan(self, kernel: Kernel) -> Kernel:
        if not any(_axis_of(o) in (*_BLOCKS, *_THREADS) for o in walk(kernel.function)):
            raise NotApplicable("it has no loop bound to a thread axis")
        return kernel

    def write(self, plan: Kernel) -> None:
        where = plan.function.name.value
        for nest in _nests(list(own_operations(plan.block))[:-1]):
            _Nest(where, nest).write()


def _axis_of(operation: ir.OpView) -> str | None:
    """The thread axis that a loop is bound to; None if there is none."""
    is_loop = operation.operation.name == "scf.for"
    if not is_loop or attribute_names.THREAD not in operation.attributes:
        return None
    return ir.StringAttr(operation.attributes[attribute_names.THREAD]).value


def _nests(operations: Sequence[ir.OpView]) -> list[list[ir.OpView]]:
    """Groups the statements of a program, in order, into launches by their dependences."""
    found: list[tuple[list[ir.OpView], set[ir.Value]]] = []
    for operation in without_size_arithmetic(operations):
        if not _is_statement(operation):
            continue
        used = set(_used_values(operation))
        places = (n for n, (_, provided) in enumerate(found) if provided & used)
        first = next(places, len(found))
        joined = [o for nest, _ in found[first:] for o in nest]
        provided = {v for v in used if isinstance(v.type, ir.MemRefType)}
        provided.update(operation.results, *(values for _, values in found[first:]))
        found[first:] = [([*joined, operation], provided)]
    return [nest for nest, _ in found]


def _is_statement(operation: ir.OpView) -> bool:
    name = operation.operation.name
    if name == "memref.alloc":
        return False
    is_view = name.startswith("memref.") and any(
        isinstance(r.type, ir.MemRefType) for r in operation.results
    )
    return not is_view or is_launch_local(base_buffer(operation.results[0]))


def _used_values(operation: ir.OpView) -> Iterator[ir.Value]:
    """The shared and private buffers, and the scalar values, that a statement uses."""
    for inner in (operation, *walk(operation)):
        for value in inner.operation.operands:
            if not isinstance(value.type, ir.MemRefType):
                yield value
            elif is_launch_local(base_buffer(value)):
                yield base_buffer(value)


@dataclass
class _Nest:
    """A group of statements that becomes one launch.

    Attributes:
        where: name of the program, for errors.
        operations: the statements.
        reductions: the cross-thread reductions among them, with the bound loops around each.
    """

    where: str
    operations: list[ir.OpView]
    reductions: list[tuple[BlockOp, Mapping[str, IndexLike]]] = field(
        default_factory=list
    )

    def write(self) -> None:
        """Emits the launch at the insertion point."""
        grid = [self._launch_extent(self._loops(axis)) for axis in _BLOCKS]
        threads = [self._thread_extent(self._loops(axis)) for axis in _THREADS]
        if math.prod(threads) > _MAX_THREADS:
            raise PassError(
                f"`{self.where}`: {math.prod(threads)} threads in a block: expected at "
                f"most {_MAX_THREADS}"
            )

        launch_extents = dict(
            zip((*_BLOCKS, *_THREADS), (*grid, *threads), strict=True)
        )
        ids: dict[str, ir.Value] = {}

        def body(blocks: Sequence[ir.Value], thread_ids: Sequence[ir.Value]) -> None:
            ids.update(zip(launch_extents, (*blocks, *thread_ids), strict=True))
            inside = ir.InsertionPoint.current.block
            for operation in self.operations:
                inside.append(operation)
            self._bind_loops(self.operations, ids, launch_extents, {})

        inside = launch_grid(grid, threads, body)
        for block, enclosing in self.reductions:
            extents = {a: static_size(enclosing[a]) for a in _THREADS if a in enclosing}
            threads = ThreadBinding(ids, launch_extents, extents, frozenset(enclosing))
            lower_cross_thread_reduction(block, threads, inside)
        insert_barriers(inside)
        compact_buffers(inside)
        _contract_fma(inside)

    def _loops(self, axis: str) -> list[ir.OpView]:
        everything = (o for s in self.operations for o in (s, *walk(s)))
        return [o for o in everything if _axis_of(o) == axis]

    def _extent(self, loop: ir.OpView) -> IndexLike:
        begin, end, step = list(loop.operands)[:3]
        if constant_of(begin) != 0 or constant_of(step) != 1:
            raise PassError(
                f"`{self.where}`: {loop.location}: a loop bound to a thread axis must start "
                "at 0, with step 1"
            )
        known = constant_of(end)
        return end if known is None else known

    def _launch_extent(self, loops: Iterable[ir.OpView]) -> IndexLike:
        """Emits the largest extent of some loops, outside of the launch."""
        total: IndexLike = 1
        for loop in loops:
            extent = self._extent(loop)
            own = extent if isinstance(extent, int) else self._rematerialize(extent, {})
            total = own if total == 1 else maximum(total, own)
        return total

    def _rematerialize(
        self, value: ir.Value, cloned: dict[ir.Value, ir.Value]
    ) -> ir.Value:
        """Rematerializes a size at the insertion point."""
        owner = value.owner
        if isinstance(owner, ir.Block):
            if owner.owner.operation.name != "func.func":
                raise PassError(
                    f"`{self.where}`: the number of blocks depends on a loop: expected a "
                    "function of the program's sizes"
                )
            return value
        for operand in values_read(owner):
            self._rematerialize(operand, cloned)
        if value not in cloned:
            clone(owner.opview, cloned)
        return cloned[value]

    def _thread_extent(self, loops: Iterable[ir.OpView]) -> int:
        extents = [self._extent(loop) for loop in loops]
        known = [e for e in extents if isinstance(e, int)]
        if len(known) < len(extents):
            raise PassError(
                f"`{self.where}`: a loop bound to `threadIdx` has a dynamic extent: expected "
                "a constant"
            )
        return max([1, *known])

    def _check_not_nested(self, loop: ir.OpView) -> None:
        """Raises for a grid inside a loop: blocks cannot synchronize between iterations."""
        if _axis_of(loop) not in _BLOCKS:
            return
        parent = loop.operation.parent
        while parent.name != "gpu.launch":
            is_loop = (
                parent.name == "scf.for"
                and attribute_names.THREAD not in parent.attributes
            )
            if is_loop and not _runs_once(parent.opview):
                raise PassError(
                    f"`{self.where}`: {loop.location}: a loop bound to `blockIdx` is nested "
                    "in a sequential loop: expected it outside"
                )
            parent = parent.parent

    def _bind_loops(
        self,
        operations: Sequence[ir.OpView],
        ids: Mapping[str, ir.Value],
        launch_extents: Mapping[str, IndexLike],
        enclosing: Mapping[str, IndexLike],
    ) -> None:
        """Replaces the bound loops by the iteration of each thread.

        Args:
            ids: block and thread ids, by axis; launch_extents: their launch extents.
            enclosing: extents of the bound loops around the operations, by axis.
        """
        for operation in operations:
            if isinstance(operation, BlockOp):
                self.reductions.append((operation, enclosing))
                continue
            if operation.operation.name in STORES:
                _predicate_store(operation, ids, launch_extents, enclosing)
                continue
            axis = _axis_of(operation)
            is_bound = axis in ids
            self._check_not_nested(operation)
            inner = enclosing
            if is_bound:
                inner = {**enclosing, axis: self._extent(operation)}
            for region in operation.operation.regions:
                for block in region.blocks:
                    self._bind_loops(
                        list(own_operations(block)), ids, launch_extents, inner
                    )
            if is_bound:
                _bind_iteration(
                    operation, ids[axis], self._extent(operation), launch_extents[axis]
                )
            elif operation.operation.name == "scf.for" and _runs_once(operation):
                _bind_iteration(operation, operation.operands[0], 1, 1)


def _runs_once(loop: ir.OpView) -> bool:
    begin, end, step = (constant_of(v) for v in list(loop.operands)[:3])
    if begin is None or end is None or step is None:
        return False
    return begin < end <= begin + step


def _predicate_store(
    store: ir.OpView,
    ids: Mapping[str, ir.Value],
    launch_extents: Mapping[str, IndexLike],
    enclosing: Mapping[str, IndexLike],
) -> None:
    """Predicates a store on id 0 along the thread axes that no enclosing loop is bound to."""
    root = base_buffer(store.operands[STORES[store.operation.name]])
    if is_private(root):
        return
    for axis in _THREADS if is_shared(root) else (*_BLOCKS, *_THREADS):
        if axis not in enclosing and launch_extents[axis] != 1:
            with ir.InsertionPoint(store), store.location:
                guard = _emit_if(less(ids[axis], 1))
            store.operation.move_before(guard)


def _emit_if(condition: ir.Value) -> ir.Operation:
    """Emits an ``scf.if``; returns the terminator of its then-region."""
    guard = ir.Operation.create("scf.if", operands=[condition], regions=2)
    with ir.InsertionPoint(ir.Block.create_at_start(guard.regions[0], [])):
        return ir.Operation.create("scf.yield")


def _contract_fma(launch: ir.Block) -> None:
    """Contracts ``mulf`` and ``addf`` into ``fma``: one rounding and half the time."""
    for operation in list(walk(launch)):
        is_sum = operation.operation.name == "arith.addf"
        if not is_sum or str(operation.operands[0].type) not in ("f32", "f64"):
            continue
        lhs, rhs = operation.operands
        for multiplication, other in ((rhs, lhs), (lhs, rhs)):
            owner = multiplication.owner
            is_multiplication = (
                not isinstance(owner, ir.Block) and owner.name == "arith.mulf"
            )
            if is_multiplication and has_one_use(multiplication):
                with ir.InsertionPoint(operation), operation.location:
                    replace(
                        operation, op("math.fma", other.type, *owner.operands, other)
                    )
                erase(owner)
                break


def _bind_iteration(
    loop: ir.OpView, number: ir.Value, extent: IndexLike, launch_extent: IndexLike
) -> None:
    """Replaces a loop by its iteration ``number``, predicated on ``number < extent``."""
    body = loop.regions[0].blocks[0]
    *operations, _ = own_operations(body)
    place = loop.operation
    with ir.InsertionPoint(loop), loop.location:
        if launch_extent == 1:
            number = loop.operands[0]
        body.arguments[0].replace_all_uses_with(number)
        if extent != launch_extent:
            place = _emit_if(less(number, extent))
    for operation in operations:
        operation.operation.move_before(place)
    erase(loop)
