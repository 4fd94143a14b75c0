"""Barriers where threads of a block read what others have written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mlir import ir
from mlir.dialects import gpu

from relax_mlir.errors import PassError
from relax_mlir.indexing import constant_of
from relax_mlir.objects.memrefs import whole_buffer
from relax_mlir.rewriting import erase, walk
from relax_mlir.schedules.emit import constant, op
from relax_mlir.schedules.gpu.exchanges import exchanged_buffers
from relax_mlir.schedules.gpu.index_sums import STORES
from relax_mlir.schedules.gpu.thread_memory import (
    is_apart,
    is_shared,
)
from relax_mlir.traversal import own_operations

__all__ = ["place_barriers"]


def place_barriers(launch: ir.Block) -> None:
    """Let the threads of a block wait wherever memory passes values from one to another.

    That is between two statements of which one writes a buffer that the other reads or
    writes, whatever the elements, also where they are statements of two turns of a loop.
    Conditions around barriers move into the statements beside them, so that all threads
    come by.

    Raises:
        PassError: a loop with a barrier may not turn as often for all threads, or values
            pass between blocks.
    """
    _Plan(exchanged_buffers(launch)).visit(launch, _Touched())
    _share_conditions(launch)


@dataclass
class _Touched:
    """Buffers that threads share, which were read and written since the last barrier."""

    reads: set[ir.Value] = field(default_factory=set)
    writes: set[ir.Value] = field(default_factory=set)

    def conflicts(
        self, later: _Touched, apart: frozenset[ir.Value] = frozenset()
    ) -> bool:
        """Whether what comes later must wait.

        Args:
            apart: buffers of which it writes other elements.
        """
        written = self.writes & later.writes
        others = self.writes & later.reads or self.reads & later.writes
        return bool(others or written - apart)

    def join(self, other: _Touched) -> _Touched:
        """Both."""
        return _Touched(self.reads | other.reads, self.writes | other.writes)


class _Plan:
    """Walks statements in order.

    Args:
        exchanged: buffers of the device through which threads of a block pass values.
    """

    def __init__(self, exchanged: frozenset[ir.Value]) -> None:
        self._exchanged = exchanged

    def visit(self, block: ir.Block, before: _Touched) -> _Touched:
        """Put barriers into a block; what is touched behind it.

        Statements are what ends with a store: a thread reads first, then writes.
        """
        touched = before
        run: list[ir.OpView] = []
        own = _Touched()
        for operation in list(own_operations(block)):
            name = operation.operation.name
            if name == "gpu.barrier":
                touched, own, run = _Touched(), _Touched(), []
                continue
            if name in ("scf.for", "scf.if"):
                touched, own, run = _passed(touched, own, run), _Touched(), []
                whole = _Touched()
                self._note(operation, whole)
                if touched.conflicts(whole):
                    _wait_before(operation)
                    touched = _Touched()
                touched = self._inside(operation, touched)
                continue
            run.append(operation)
            self._note(operation, own)
            if name == "scf.while" and own.writes:
                raise _uneven(operation)
            if name in STORES:
                touched, own, run = _passed(touched, own, run), _Touched(), []
        return _passed(touched, own, run)

    def _inside(self, operation: ir.OpView, before: _Touched) -> _Touched:
        blocks = [b for r in operation.operation.regions for b in r.blocks]
        if operation.operation.name == "scf.if":
            behind = [self.visit(b, before) for b in blocks]
            is_whole = len(blocks) == 2
            first, *others = behind if is_whole else [*behind, before]
            for other in others:
                first = first.join(other)
            return first
        (block,) = blocks
        behind = self.visit(block, before)
        if self._meets(block, behind, _stored_apart(operation)):
            _wait_before(list(own_operations(block))[-1])
            behind = _Touched()
        return behind if _turns(operation) else behind.join(before)

    def _note(self, operation: ir.OpView, touched: _Touched) -> None:
        """Note what an operation, and what is inside of it, reads and writes."""
        for inner in (operation, *walk(operation)):
            for place, value in enumerate(inner.operation.operands):
                if not isinstance(value.type, ir.MemRefType):
                    continue
                root = whole_buffer(value)
                if is_shared(root) or root in self._exchanged:
                    is_target = STORES.get(inner.operation.name) == place
                    (touched.writes if is_target else touched.reads).add(root)

    def _meets(
        self, block: ir.Block, before: _Touched, apart: frozenset[ir.Value]
    ) -> bool:
        """Whether what a turn of a loop touches before its first barrier must wait."""
        first = _Touched()
        for operation in own_operations(block):
            if _holds_barrier(operation):
                if operation.operation.name == "gpu.barrier":
                    return before.conflicts(first, apart)
                for region in operation.operation.regions:
                    for inner in region.blocks:
                        if self._meets(inner, before, apart):
                            return True
                continue
            self._note(operation, first)
        return before.conflicts(first, apart)


def _passed(touched: _Touched, own: _Touched, run: Sequence[ir.OpView]) -> _Touched:
    """What is touched after a statement, with a barrier before it where it must wait."""
    if not run or not touched.conflicts(own):
        return touched.join(own)
    _wait_before(run[0])
    return own


def _wait_before(operation: ir.OpView) -> None:
    with ir.InsertionPoint(operation), operation.location:
        gpu.BarrierOp()


def _stored_apart(loop: ir.OpView) -> frozenset[ir.Value]:
    """The shared buffers that one statement stores to, each turn at other elements."""
    stores: dict[ir.Value, list[ir.OpView]] = {}
    for operation in walk(loop):
        if operation.operation.name in STORES:
            place = STORES[operation.operation.name]
            stores.setdefault(whole_buffer(operation.operands[place]), []).append(
                operation
            )
    found = (b for b, s in stores.items() if len(s) == 1 and is_apart(s[0], loop))
    return frozenset(found)


def _turns(loop: ir.OpView) -> bool:
    """Whether a loop surely runs."""
    begin, end = (constant_of(v) for v in list(loop.operands)[:2])
    return begin is not None and end is not None and begin < end


def _holds_barrier(operation: ir.OpView) -> bool:
    everything = (operation, *walk(operation))
    return any(o.operation.name == "gpu.barrier" for o in everything)


# conditions


def _share_conditions(block: ir.Block) -> None:
    """Take barriers out of conditions."""
    for operation in list(own_operations(block)):
        if not _holds_barrier(operation):
            continue
        name = operation.operation.name
        if name == "scf.for":
            _check_uniform(operation)
            _share_conditions(operation.regions[0].blocks[0])
        elif name == "scf.if":
            _open(operation)


def _check_uniform(loop: ir.OpView) -> None:
    """Refuse a loop that does not turn as often for all threads."""
    if any(_differs(v) for v in list(loop.operands)[:3]):
        raise _uneven(loop)


def _uneven(loop: ir.OpView) -> PassError:
    return PassError(
        f"{loop.location}: threads exchange values in a loop that does not turn as often "
        "for all of them"
    )


def _differs(value: ir.Value) -> bool:
    """Whether a value may not be the same for all threads of a block."""
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
        holder = owner.owner.operation
        number = ir.BlockArgument(current).arg_number
        if holder.name == "gpu.launch" and number in (3, 4, 5):
            return True
        if holder.name not in ("gpu.launch", "func.func"):
            todo += [*holder.operands, *_yielded(holder)]
    return False


def _yielded(operation: ir.Operation) -> list[ir.Value]:
    """What the regions of an operation end with."""
    ends = (
        own_operations(b)[len(own_operations(b)) - 1]
        for r in operation.regions
        for b in r.blocks
    )
    return [value for end in ends for value in end.operation.operands]


def _open(choice: ir.OpView) -> None:
    """Put the statements of a condition beside each other, each under it."""
    (condition,) = choice.operands
    _open_under(None, condition, choice, choice)
    erase(choice)


def _open_under(
    test: ir.Value | None, condition: ir.Value, choice: ir.OpView, place: ir.OpView
) -> None:
    for region, is_then in zip(choice.operation.regions, (True, False), strict=True):
        for block in region.blocks:
            with ir.InsertionPoint(place), choice.location:
                own = condition if is_then else _not(condition)
                both = own if test is None else op("arith.andi", own.type, test, own)
            _move(list(own_operations(block))[:-1], both, place)


def _move(operations: Sequence[ir.OpView], test: ir.Value, place: ir.OpView) -> None:
    """Move operations in front of ``place``, under a condition where that matters."""
    run: list[ir.OpView] = []
    for operation in operations:
        if not _holds_barrier(operation):
            run.append(operation)
            continue
        _guard(run, test, place)
        run = []
        name = operation.operation.name
        if name == "scf.if":
            _open_under(test, operation.operands[0], operation, place)
            erase(operation)
            continue
        operation.operation.move_before(place.operation)
        if name == "scf.for":
            _check_uniform(operation)
            *inner, end = own_operations(operation.regions[0].blocks[0])
            _move(inner, test, end)
    _guard(run, test, place)


def _guard(run: Sequence[ir.OpView], test: ir.Value, place: ir.OpView) -> None:
    """Move operations in front of ``place``: what touches memory under a condition."""
    held: list[ir.OpView] = []
    given: set[ir.Value] = set()
    for operation in run:
        is_free = operation.operation.name.startswith("arith.")
        if is_free and given.isdisjoint(operation.operands):
            operation.operation.move_before(place.operation)
        else:
            held.append(operation)
            given.update(operation.operation.results)
    if not held:
        return
    inside = {o.operation for h in held for o in (h, *walk(h))}
    needed = [v for v in given if any(u.owner.operation not in inside for u in v.uses)]
    with ir.InsertionPoint(place), held[0].location:
        types = [v.type for v in needed]
        choice = ir.Operation.create(
            "scf.if", results=types, operands=[test], regions=2
        )
        with ir.InsertionPoint(ir.Block.create_at_start(choice.regions[0], [])):
            end = ir.Operation.create("scf.yield", operands=needed)
        if needed:
            with ir.InsertionPoint(ir.Block.create_at_start(choice.regions[1], [])):
                zeros = [constant(0, t) for t in types]
                ir.Operation.create("scf.yield", operands=zeros)
    for operation in held:
        operation.operation.move_before(end)
    for old, new in zip(needed, choice.results, strict=True):
        for use in list(old.uses):
            if use.owner.operation not in inside and use.owner.operation != end:
                use.owner.operands[use.operand_number] = new


def _not(condition: ir.Value) -> ir.Value:
    one = constant(1, condition.type)
    return op("arith.xori", condition.type, condition, one)
