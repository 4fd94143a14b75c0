"""Sums that threads of a block share: each sums its part, then they meet in pairs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from mlir import ir

from relax_mlir.dialects.tir import BlockOp
from relax_mlir.errors import PassError
from relax_mlir.objects.memrefs import whole_buffer
from relax_mlir.rewriting import clone, erase
from relax_mlir.schedules.emit import Extent, add, index, less, multiply, op, static
from relax_mlir.schedules.gpu.combinations import reaches, read_combination
from relax_mlir.schedules.gpu.launch import alloc_shared, if_less
from relax_mlir.schedules.gpu.thread_memory import (
    is_private,
    is_shared,
)
from relax_mlir.traversal import own_operations, values_read

__all__ = ["Threads", "write_sum"]


@dataclass(frozen=True)
class Threads:
    """The threads that run a block of a program.

    Attributes:
        ids: the number of the thread along each axis; most: how many there are.
        extents: how many of them the loops around the block let run.
        around: the axes of all loops around it that are bound, to threads or to blocks.
    """

    ids: Mapping[str, ir.Value]
    most: Mapping[str, Extent]
    extents: Mapping[str, int]
    around: frozenset[str]


def write_sum(block: BlockOp, threads: Threads, launch: ir.Block) -> None:
    """Replace a block whose reduce axes threads share, inside of ``launch``.

    Every thread sums what it meets into a number of its own, from the start value on,
    which adds nothing. The numbers meet in shared memory: of those that are left, the
    lower half takes those of the upper half. Then the first thread stores the sum; where
    each thread has its own memory for it, all do.

    Source: M. Harris, "Optimizing Parallel Reduction in CUDA" (2007), sequential
    addressing.

    Raises:
        PassError: the block is no sum of that kind.
    """
    _Sum(block, threads, launch).write()


def _conjuncts(condition: ir.Value) -> Iterator[ir.Value]:
    owner = condition.owner
    if not isinstance(owner, ir.Block) and owner.name == "arith.andi":
        for operand in owner.operands:
            yield from _conjuncts(operand)
    else:
        yield condition


def _stands_alone(operation: ir.Operation) -> bool:
    """Whether all that stands beside an operation computes indices."""
    others = list(own_operations(operation.block))[:-1]
    return all(
        o.operation == operation or o.operation.name.startswith("arith.")
        for o in others
    )


def _stands_in(operation: ir.Operation, top: ir.Operation) -> bool:
    current: ir.Operation | None = operation
    while current is not None:
        if current == top:
            return True
        current = current.parent
    return False


def _load(buffer: ir.Value, *indices: Extent) -> ir.Value:
    element = ir.MemRefType(buffer.type).element_type
    return op("memref.load", element, buffer, *map(index, indices))


def _store(value: ir.Value, buffer: ir.Value, *indices: Extent) -> None:
    op("memref.store", None, value, buffer, *map(index, indices))


def _alloc_own(element: ir.Type) -> ir.Value:
    """A number that each thread has for itself."""
    segments = ir.DenseI32ArrayAttr.get([0, 0])
    type_ = ir.MemRefType.get([1], element)
    return op("memref.alloca", type_, operandSegmentSizes=segments)


def _where(tests: Sequence[ir.Value], write: Callable[[], None]) -> None:
    """Write something for the threads that pass all tests."""
    if not tests:
        write()
        return
    first, *rest = tests
    guard = ir.Operation.create("scf.if", operands=[first], regions=2)
    with ir.InsertionPoint(ir.Block.create_at_start(guard.regions[0], [])):
        _where(rest, write)
        op("scf.yield", None)


def _flat(numbers: Sequence[tuple[ir.Value, int]]) -> Extent:
    """Places along some axes, the first fastest, as one number."""
    total: Extent = 0
    stride = 1
    for number, extent in numbers:
        total = add(total, multiply(number, stride))
        stride *= extent
    return total


class _Sum:
    def __init__(self, block: BlockOp, threads: Threads, launch: ir.Block) -> None:
        self._block, self._threads, self._launch = block, threads, launch
        kinds = list(zip(block.kinds.value, block.bindings, strict=True))
        self._reduced = [value for kind, value in kinds if kind == "R"]
        self._axes = [
            axis
            for axis in threads.extents
            if any(reaches(r, {threads.ids[axis]}) for r in self._reduced)
        ]
        self._moving = {threads.ids[a] for a in self._axes}
        if any(reaches(v, self._moving) for kind, v in kinds if kind != "R"):
            raise self._error("a thread axis counts reduce and spatial axes at once")
        if not block.has_init:
            raise self._error("it has no start value")
        found = read_combination(block)
        if found is None:
            raise self._error("expected each result combined with one value")
        self._sum = found
        if not found.takes_any_order(self._stored_starts()):
            raise self._error(
                "expected a sum, product, minimum, maximum or selection that takes values in "
                "any order, and start values that change no other"
            )
        self._conditions: list[ir.Value] = []
        self._top = self._climb()
        self._outside: dict[ir.Value, ir.Value] = {}

    def _error(self, reason: str) -> PassError:
        block = self._block
        return PassError(
            f"block `{block.name.value}`: {block.location}: threads cannot share its sum: "
            f"{reason}"
        )

    def _climb(self) -> ir.Operation:
        """The outermost loop of a thread's own sum; notes the conditions inside of it."""
        chain = [self._block.operation]
        while chain[-1].parent.name in ("scf.if", "scf.for"):
            chain.append(chain[-1].parent)
        counters = [_counter(o) for o in chain[1:] if o.name == "scf.for"]
        self._moving.update(
            c for c in counters if any(reaches(r, {c}) for r in self._reduced)
        )
        top, is_alone = 0, True
        for number, (inner, holder) in enumerate(pairwise(chain), start=1):
            is_loop = holder.name == "scf.for"
            tells = _counter(holder) if is_loop else holder.operands[0]
            is_reduced = reaches(tells, self._moving)
            is_alone = is_alone and _stands_alone(inner)
            is_alone = is_alone and (is_reduced or not is_loop)
            if is_reduced and is_alone:
                top = number
            elif is_reduced and is_loop:
                raise self._error("its loops hold other statements or spatial loops")
        held = [o for o in chain[1 : top + 1] if o.name == "scf.if"]
        self._conditions = [o.operands[0] for o in held]
        return chain[top]

    def write(self) -> None:
        elements = [ir.MemRefType(b.type).element_type for b in self._sum.buffers]
        extents = self._threads.extents
        mine = [(self._threads.ids[a], extents[a]) for a in self._axes]
        others = self._others()
        count, width = (math.prod(n for _, n in axes) for axes in (mine, others))
        with ir.InsertionPoint.at_block_begin(self._launch), self._block.location:
            own = [_alloc_own(e) for e in elements]
            parts = [alloc_shared([width, count], e) for e in elements]
            lane, place = _flat(others), _flat(mine)
        following = list(own_operations(self._top.block))
        behind = following[[o.operation for o in following].index(self._top) + 1]
        with ir.InsertionPoint(self._top), self._block.location:
            for number, value in zip(own, self._starts(), strict=True):
                _store(value, number, 0)
        self._write_own(own)
        with ir.InsertionPoint(behind), self._block.location:
            self._where_reduced(lambda: self._give(own, parts, lane, place))
            self._meet(parts, lane, place, count)
            self._write_results(parts, lane, place)
        erase(self._block)

    def _others(self) -> list[tuple[ir.Value, int]]:
        """The axes of threads that have sums of their own, and how long they are."""
        found = []
        for axis, number in self._threads.ids.items():
            most = self._threads.most[axis]
            is_other = axis.startswith("threadIdx") and axis not in self._axes
            if is_other and most != 1:
                found.append((number, static(most)))
        return found

    def _value(self, value: ir.Value) -> ir.Value:
        """What stands inside of the loops of the sum, computed at the insertion point."""
        if value in self._outside:
            return self._outside[value]
        owner = value.owner
        if isinstance(owner, ir.Block):
            if owner.owner.operation != self._block.operation:
                return value
            return self._value(self._block.bindings[ir.BlockArgument(value).arg_number])
        if not _stands_in(owner, self._top):
            return value
        for operand in values_read(owner):
            self._outside[operand] = self._value(operand)
        clone(owner.opview, self._outside)
        return self._outside[value]

    def _stored_starts(self) -> list[ir.Value]:
        """The start values, as the block stores them."""
        stores = [
            list(o.operands)[:2]
            for o in own_operations(self._block.init.blocks[0])
            if o.operation.name == "memref.store"
        ]
        found = {buffer: value for value, buffer in stores}
        return [found[buffer] for buffer in self._sum.buffers]

    def _starts(self) -> list[ir.Value]:
        """The start values, at the insertion point."""
        return [self._value(v) for v in self._stored_starts()]

    def _write_own(self, own: Sequence[ir.Value]) -> None:
        """What a thread adds at a point, in front of the block."""
        body = self._block.body.blocks[0]
        mapping = dict(zip(body.arguments, self._block.bindings, strict=True))
        with ir.InsertionPoint(self._block), self._block.location:
            for operation in self._sum.terms:
                clone(operation, mapping)
            given = [mapping.get(v, v) for v in self._sum.given]
            held = [_load(number, 0) for number in own]
            for number, value in zip(own, self._sum.combine(held, given), strict=True):
                _store(value, number, 0)

    def _first_of_unasked(self) -> list[ir.Value]:
        """Whether a thread is the first along axes that no loop around the block has.

        Of memory that each block has for itself, each block stores its own.
        """
        ids, most = self._threads.ids, self._threads.most
        unasked = [a for a in ids if a not in self._threads.around and most[a] != 1]
        if is_shared(whole_buffer(self._sum.buffers[0])):
            unasked = [a for a in unasked if a.startswith("threadIdx")]
        return [less(ids[a], 1) for a in unasked]

    def _where_reduced(self, write: Callable[[], None]) -> None:
        """Write something for the threads that the loops around the block let run."""
        ids, most = self._threads.ids, self._threads.most
        extents = self._threads.extents
        smaller = [a for a in self._axes if extents[a] != most[a]]
        _where([less(ids[a], extents[a]) for a in smaller], write)

    def _give(
        self,
        own: Sequence[ir.Value],
        parts: Sequence[ir.Value],
        lane: Extent,
        place: Extent,
    ) -> None:
        for number, part in zip(own, parts, strict=True):
            _store(_load(number, 0), part, lane, place)

    def _meet(
        self, parts: Sequence[ir.Value], lane: Extent, place: Extent, count: int
    ) -> None:
        """Add up the parts of ``count`` threads; the first place then has it all."""
        while count > 1:
            half = (count + 1) // 2

            def take(half: int = half) -> None:
                lower = [_load(part, lane, place) for part in parts]
                upper = [_load(part, lane, add(place, half)) for part in parts]
                sums = self._sum.combine(lower, upper)
                for part, value in zip(parts, sums, strict=True):
                    _store(value, part, lane, place)

            left = count - half
            self._where_reduced(partial(if_less, place, left, take))
            count = half

    def _write_results(
        self, parts: Sequence[ir.Value], lane: Extent, place: Extent
    ) -> None:
        """Store the sums: the first thread, or each where it has memory of its own."""
        tests = [
            self._value(c)
            for condition in self._conditions
            for c in _conjuncts(condition)
            if not reaches(c, self._moving)
        ]
        targets = [
            (buffer, [self._value(v) for v in indices])
            for buffer, indices in zip(
                self._sum.buffers, self._sum.indices, strict=True
            )
        ]
        if not is_private(whole_buffer(self._sum.buffers[0])):
            tests += [less(place, 1), *self._first_of_unasked()]

        def write() -> None:
            for part, (buffer, indices) in zip(parts, targets, strict=True):
                _store(_load(part, lane, 0), buffer, *indices)

        _where(tests, write)


def _counter(loop: ir.Operation) -> ir.Value:
    return loop.regions[0].blocks[0].arguments[0]
