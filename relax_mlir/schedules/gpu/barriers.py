"""Insertion of barriers at dependences between the threads of a block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mlir import ir
from mlir.dialects import gpu

from relax_mlir.analysis.index_maps import constant_of
from relax_mlir.errors import PassError
from relax_mlir.ir.traversal import own_operations, walk
from relax_mlir.objects.write.memref import base_buffer
from relax_mlir.rewrite.patterns import erase
from relax_mlir.schedules.builder import constant, op
from relax_mlir.schedules.gpu.affine_index import STORES
from relax_mlir.schedules.gpu.global_workspace import cross_thread_buffers
from relax_mlir.schedules.gpu.memory_spaces import is_shared, stores_distinct_elements

__all__ = ["insert_barriers"]


def insert_barriers(launch: ir.Block) -> None:
    """Inserts barriers wherever values pass from one thread of a block to another.

    Two statements conflict if one writes a shared buffer that the other reads or writes,
    whichever the elements; loop-carried conflicts count too. Conditions around a barrier are
    distributed over the statements next to it, so that all threads reach the barrier.

    Raises:
        PassError: a loop around a barrier may have different trip counts for the threads, or
            values pass between blocks.
    """
    _BarrierInsertion(cross_thread_buffers(launch)).visit(launch, _PendingAccesses())
    _distribute_conditions(launch)


@dataclass
class _PendingAccesses:
    """Shared buffers that were read and written since the last barrier."""

    reads: set[ir.Value] = field(default_factory=set)
    writes: set[ir.Value] = field(default_factory=set)

    def conflicts(
        self, later: _PendingAccesses, disjoint: frozenset[ir.Value] = frozenset()
    ) -> bool:
        """Whether a barrier is needed before later accesses.

        Args:
            disjoint: buffers whose later writes are to other elements.
        """
        written = self.writes & later.writes
        others = self.writes & later.reads or self.reads & later.writes
        return bool(others or written - disjoint)

    def join(self, other: _PendingAccesses) -> _PendingAccesses:
        """The union of both."""
        return _PendingAccesses(self.reads | other.reads, self.writes | other.writes)


class _BarrierInsertion:
    """Walk over the statements of a launch that inserts barriers.

    Args:
        cross_thread: buffers in global memory through which threads of a block communicate.
    """

    def __init__(self, cross_thread: frozenset[ir.Value]) -> None:
        self._cross_thread = cross_thread

    def visit(self, block: ir.Block, before: _PendingAccesses) -> _PendingAccesses:
        """Inserts barriers into a block; returns the accesses that are pending after it.

        A statement ends with a store: its loads come first.
        """
        pending = before
        statement: list[ir.OpView] = []
        current = _PendingAccesses()
        for operation in list(own_operations(block)):
            name = operation.operation.name
            if name == "gpu.barrier":
                pending, current, statement = _PendingAccesses(), _PendingAccesses(), []
                continue
            if name in ("scf.for", "scf.if"):
                pending = _after_statement(pending, current, statement)
                current, statement = _PendingAccesses(), []
                whole = _PendingAccesses()
                self._record(operation, whole)
                if pending.conflicts(whole):
                    _insert_barrier(operation)
                    pending = _PendingAccesses()
                pending = self._visit_regions(operation, pending)
                continue
            statement.append(operation)
            self._record(operation, current)
            if name == "scf.while" and current.writes:
                raise _divergent_loop_error(operation)
            if name in STORES:
                pending = _after_statement(pending, current, statement)
                current, statement = _PendingAccesses(), []
        return _after_statement(pending, current, statement)

    def _visit_regions(
        self, operation: ir.OpView, before: _PendingAccesses
    ) -> _PendingAccesses:
        blocks = [b for r in operation.operation.regions for b in r.blocks]
        if operation.operation.name == "scf.if":
            after = [self.visit(b, before) for b in blocks]
            has_else = len(blocks) == 2
            first, *others = after if has_else else [*after, before]
            for other in others:
                first = first.join(other)
            return first
        (block,) = blocks
        after = self.visit(block, before)
        if self._conflicts_across_iterations(block, after, _disjoint_stores(operation)):
            _insert_barrier(list(own_operations(block))[-1])
            after = _PendingAccesses()
        return after if _runs_at_least_once(operation) else after.join(before)

    def _record(self, operation: ir.OpView, pending: _PendingAccesses) -> None:
        """Records the accesses of an operation and of its regions."""
        for inner in (operation, *walk(operation)):
            for place, value in enumerate(inner.operation.operands):
                if not isinstance(value.type, ir.MemRefType):
                    continue
                root = base_buffer(value)
                if is_shared(root) or root in self._cross_thread:
                    is_target = STORES.get(inner.operation.name) == place
                    (pending.writes if is_target else pending.reads).add(root)

    def _conflicts_across_iterations(
        self, block: ir.Block, before: _PendingAccesses, disjoint: frozenset[ir.Value]
    ) -> bool:
        """Whether ``before`` conflicts with an iteration's accesses up to its first barrier."""
        first = _PendingAccesses()
        for operation in own_operations(block):
            if _contains_barrier(operation):
                if operation.operation.name == "gpu.barrier":
                    return before.conflicts(first, disjoint)
                for region in operation.operation.regions:
                    for inner in region.blocks:
                        if self._conflicts_across_iterations(inner, before, disjoint):
                            return True
                continue
            self._record(operation, first)
        return before.conflicts(first, disjoint)


def _after_statement(
    pending: _PendingAccesses, current: _PendingAccesses, statement: Sequence[ir.OpView]
) -> _PendingAccesses:
    """The pending accesses after a statement, with a barrier before it if they conflict."""
    if not statement or not pending.conflicts(current):
        return pending.join(current)
    _insert_barrier(statement[0])
    return current


def _insert_barrier(operation: ir.OpView) -> None:
    with ir.InsertionPoint(operation), operation.location:
        gpu.BarrierOp()


def _disjoint_stores(loop: ir.OpView) -> frozenset[ir.Value]:
    """Shared buffers with a single store, which hits distinct elements in each iteration."""
    stores: dict[ir.Value, list[ir.OpView]] = {}
    for operation in walk(loop):
        if operation.operation.name in STORES:
            place = STORES[operation.operation.name]
            stores.setdefault(base_buffer(operation.operands[place]), []).append(
                operation
            )
    found = (
        b
        for b, s in stores.items()
        if len(s) == 1 and stores_distinct_elements(s[0], loop)
    )
    return frozenset(found)


def _runs_at_least_once(loop: ir.OpView) -> bool:
    """Whether a loop has at least one iteration."""
    begin, end = (constant_of(v) for v in list(loop.operands)[:2])
    return begin is not None and end is not None and begin < end


def _contains_barrier(operation: ir.OpView) -> bool:
    everything = (operation, *walk(operation))
    return any(o.operation.name == "gpu.barrier" for o in everything)


def _distribute_conditions(block: ir.Block) -> None:
    """Moves barriers out of conditions."""
    for operation in list(own_operations(block)):
        if not _contains_barrier(operation):
            continue
        name = operation.operation.name
        if name == "scf.for":
            _check_uniform(operation)
            _distribute_conditions(operation.regions[0].blocks[0])
        elif name == "scf.if":
            _distribute(operation)


def _check_uniform(loop: ir.OpView) -> None:
    """Raises for a loop whose trip count may differ between threads."""
    if any(_is_divergent(v) for v in list(loop.operands)[:3]):
        raise _divergent_loop_error(loop)


def _divergent_loop_error(loop: ir.OpView) -> PassError:
    return PassError(
        f"{loop.location}: threads exchange values in a loop whose trip count differs "
        "between them"
    )


def _is_divergent(value: ir.Value) -> bool:
    """Whether a value may differ between threads of a block."""
    seen: set[ir.Value] = set()
    todo = [value]
    while todo:
        current = todo.pop()
        if current in seen:
            continue
        seen.add(current)
        owner = current.owner
        if not isinstance(owner, ir.Block):
            if owner.name == "memref.load":
                return True
            todo += [*owner.operands, *_yielded(owner)]
            continue
        parent = owner.owner.operation
        number = ir.BlockArgument(current).arg_number
        if parent.name == "gpu.launch" and number in (3, 4, 5):
            return True
        if parent.name not in ("gpu.launch", "func.func"):
            todo += [*parent.operands, *_yielded(parent)]
    return False


def _yielded(operation: ir.Operation) -> list[ir.Value]:
    """The operands of the terminators of an operation's regions."""
    ends = (
        own_operations(b)[len(own_operations(b)) - 1]
        for r in operation.regions
        for b in r.blocks
    )
    return [value for end in ends for value in end.operation.operands]


def _distribute(branch: ir.OpView) -> None:
    """Distributes a condition over its statements."""
    (condition,) = branch.operands
    _distribute_under(None, condition, branch, branch)
    erase(branch)


def _distribute_under(
    test: ir.Value | None, condition: ir.Value, branch: ir.OpView, place: ir.OpView
) -> None:
    for region, is_then in zip(branch.operation.regions, (True, False), strict=True):
        for block in region.blocks:
            with ir.InsertionPoint(place), branch.location:
                both = condition if is_then else _not(condition)
                if test is not None:
                    both = op("arith.andi", both.type, test, both)
            _move_under(list(own_operations(block))[:-1], both, place)


def _move_under(
    operations: Sequence[ir.OpView], test: ir.Value, place: ir.OpView
) -> None:
    """Moves operations in front of ``place``, predicated where they have side effects."""
    statement: list[ir.OpView] = []
    for operation in operations:
        if not _contains_barrier(operation):
            statement.append(operation)
            continue
        _predicate(statement, test, place)
        statement = []
        name = operation.operation.name
        if name == "scf.if":
            _distribute_under(test, operation.operands[0], operation, place)
            erase(operation)
            continue
        operation.operation.move_before(place.operation)
        if name == "scf.for":
            _check_uniform(operation)
            *inner, end = own_operations(operation.regions[0].blocks[0])
            _move_under(inner, test, end)
    _predicate(statement, test, place)


def _predicate(
    statement: Sequence[ir.OpView], test: ir.Value, place: ir.OpView
) -> None:
    """Moves operations in front of ``place``; memory accesses become conditional."""
    guarded: list[ir.OpView] = []
    defined_inside: set[ir.Value] = set()
    for operation in statement:
        is_pure = operation.operation.name.startswith("arith.")
        if is_pure and defined_inside.isdisjoint(operation.operands):
            operation.operation.move_before(place.operation)
        else:
            guarded.append(operation)
            defined_inside.update(operation.operation.results)
    if not guarded:
        return
    inside = {o.operation for h in guarded for o in (h, *walk(h))}
    live_out = [
        v
        for v in defined_inside
        if any(u.owner.operation not in inside for u in v.uses)
    ]
    with ir.InsertionPoint(place), guarded[0].location:
        types = [v.type for v in live_out]
        branch = ir.Operation.create(
            "scf.if", results=types, operands=[test], regions=2
        )
        with ir.InsertionPoint(ir.Block.create_at_start(branch.regions[0], [])):
            end = ir.Operation.create("scf.yield", operands=live_out)
        if live_out:
            with ir.InsertionPoint(ir.Block.create_at_start(branch.regions[1], [])):
                zeros = [constant(0, t) for t in types]
                ir.Operation.create("scf.yield", operands=zeros)
    for operation in guarded:
        operation.operation.move_before(end)
    for old, new in zip(live_out, branch.results, strict=True):
        for use in list(old.uses):
            if use.owner.operation not in inside and use.owner.operation != end:
                use.owner.operands[use.operand_number] = new


def _not(condition: ir.Value) -> ir.Value:
    one = constant(1, condition.type)
    return op("arith.xori", condition.type, condition, one)
