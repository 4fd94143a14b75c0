"""Cross-thread reduction: per-thread partial results, then a tree in shared memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from mlir import ir

from relax_mlir.dialects.tir import BlockOp
from relax_mlir.errors import PassError
from relax_mlir.ir.traversal import own_operations, values_read
from relax_mlir.objects.write.memref import base_buffer
from relax_mlir.rewrite.patterns import clone, erase
from relax_mlir.schedules.builder import (
    IndexLike,
    add,
    index,
    less,
    multiply,
    op,
    static_size,
)
from relax_mlir.schedules.gpu.combiner_reader import depends_on, read_block_combiner
from relax_mlir.schedules.gpu.launch import alloc_shared, if_less
from relax_mlir.schedules.gpu.memory_spaces import is_private, is_shared

__all__ = ["ThreadBinding", "lower_cross_thread_reduction"]


@dataclass(frozen=True)
class ThreadBinding:
    """The thread axes that a TIR block is bound to.

    Attributes:
        ids: block and thread ids, by axis; launch_extents: their launch extents.
        extents: extents of the bound loops around the block, by axis of threads.
        enclosing: the axes of all bound loops around it, of threads and of blocks.
    """

    ids: Mapping[str, ir.Value]
    launch_extents: Mapping[str, IndexLike]
    extents: Mapping[str, int]
    enclosing: frozenset[str]


def lower_cross_thread_reduction(
    block: BlockOp, threads: ThreadBinding, launch: ir.Block
) -> None:
    """Replaces a TIR block whose reduction axes are bound to threads, inside ``launch``.

    Each thread accumulates its partial result in a register, from the start value, which must
    be the identity. The partial results are combined by a tree in shared memory: at each
    level the lower half takes the upper half. Thread 0 stores the result; if the result
    buffer is private to threads, all threads do.

    Source: M. Harris, "Optimizing Parallel Reduction in CUDA" (2007), sequential
    addressing.

    Raises:
        PassError: the block is not a reduction by an associative and commutative combiner.
    """
    _CrossThreadReduction(block, threads, launch).write()


def _conjuncts(condition: ir.Value) -> Iterator[ir.Value]:
    owner = condition.owner
    if not isinstance(owner, ir.Block) and owner.name == "arith.andi":
        for operand in owner.operands:
            yield from _conjuncts(operand)
    else:
        yield condition


def _is_alone_in_block(operation: ir.Operation) -> bool:
    """Whether an operation is the only one in its block, except for index arithmetic."""
    others = list(own_operations(operation.block))[:-1]
    return all(
        o.operation == operation or o.operation.name.startswith("arith.")
        for o in others
    )


def _is_nested_in(operation: ir.Operation, top: ir.Operation) -> bool:
    current: ir.Operation | None = operation
    while current is not None:
        if current == top:
            return True
        current = current.parent
    return False


def _load(buffer: ir.Value, *indices: IndexLike) -> ir.Value:
    element = ir.MemRefType(buffer.type).element_type
    return op("memref.load", element, buffer, *map(index, indices))


def _store(value: ir.Value, buffer: ir.Value, *indices: IndexLike) -> None:
    op("memref.store", None, value, buffer, *map(index, indices))


def _alloc_accumulator(element: ir.Type) -> ir.Value:
    """Allocates an accumulator that is private to each thread."""
    segments = ir.DenseI32ArrayAttr.get([0, 0])
    type_ = ir.MemRefType.get([1], element)
    return op("memref.alloca", type_, operandSegmentSizes=segments)


def _emit_if_all(tests: Sequence[ir.Value], write: Callable[[], None]) -> None:
    """Emits code under the conjunction of some conditions."""
    if not tests:
        write()
        return
    first, *rest = tests
    guard = ir.Operation.create("scf.if", operands=[first], regions=2)
    with ir.InsertionPoint(ir.Block.create_at_start(guard.regions[0], [])):
        _emit_if_all(rest, write)
        op("scf.yield", None)


def _linearize(numbers: Sequence[tuple[ir.Value, int]]) -> IndexLike:
    """The linear index along some axes, the first of which is the fastest."""
    total: IndexLike = 0
    stride = 1
    for number, extent in numbers:
        total = add(total, multiply(number, stride))
        stride *= extent
    return total


class _CrossThreadReduction:
    def __init__(
        self, block: BlockOp, threads: ThreadBinding, launch: ir.Block
    ) -> None:
        self._block, self._threads, self._launch = block, threads, launch
        kinds = list(zip(block.kinds.value, block.bindings, strict=True))
        self._reduced = [value for kind, value in kinds if kind == "R"]
        self._axes = [
            axis
            for axis in threads.extents
            if any(depends_on(r, {threads.ids[axis]}) for r in self._reduced)
        ]
        self._moving = {threads.ids[a] for a in self._axes}
        if any(depends_on(v, self._moving) for kind, v in kinds if kind != "R"):
            raise self._error("a thread axis drives both reduce and spatial axes")
        if not block.has_init:
            raise self._error("it has no start value")
        found = read_block_combiner(block)
        if found is None:
            raise self._error("expected a combiner of each result and one new value")
        self._combiner = found
        if not found.is_reorderable(self._stored_starts()):
            raise self._error(
                "expected an associative and commutative combiner (sum, product, minimum, "
                "maximum, selection), and its identity as the start value"
            )
        self._conditions: list[ir.Value] = []
        self._outer_loop = self._find_outer_loop()
        self._rematerialized: dict[ir.Value, ir.Value] = {}

    def _error(self, reason: str) -> PassError:
        block = self._block
        return PassError(
            f"block `{block.name.value}`: {block.location}: threads cannot share its "
            f"reduction: {reason}"
        )

    def _find_outer_loop(self) -> ir.Operation:
        """The outermost serial reduction loop; records the conditions inside it."""
        chain = [self._block.operation]
        while chain[-1].parent.name in ("scf.if", "scf.for"):
            chain.append(chain[-1].parent)
        counters = [_counter(o) for o in chain[1:] if o.name == "scf.for"]
        self._moving.update(
            c for c in counters if any(depends_on(r, {c}) for r in self._reduced)
        )
        top, is_alone = 0, True
        for number, (inner, holder) in enumerate(pairwise(chain), start=1):
            is_loop = holder.name == "scf.for"
            driver = _counter(holder) if is_loop else holder.operands[0]
            is_reduction = depends_on(driver, self._moving)
            is_alone = is_alone and _is_alone_in_block(inner)
            is_alone = is_alone and (is_reduction or not is_loop)
            if is_reduction and is_alone:
                top = number
            elif is_reduction and is_loop:
                raise self._error(
                    "its reduction loops contain other statements or spatial loops"
                )
        conditionals = [o for o in chain[1 : top + 1] if o.name == "scf.if"]
        self._conditions = [o.operands[0] for o in conditionals]
        return chain[top]

    def write(self) -> None:
        elements = [ir.MemRefType(b.type).element_type for b in self._combiner.buffers]
        extents = self._threads.extents
        reduced_axes = [(self._threads.ids[a], extents[a]) for a in self._axes]
        others = self._independent_axes()
        count, width = (
            math.prod(n for _, n in axes) for axes in (reduced_axes, others)
        )
        with ir.InsertionPoint.at_block_begin(self._launch), self._block.location:
            accumulators = [_alloc_accumulator(e) for e in elements]
            shared = [alloc_shared([width, count], e) for e in elements]
            group, slot = _linearize(others), _linearize(reduced_axes)
        operations = list(own_operations(self._outer_loop.block))
        next_operation = operations[
            [o.operation for o in operations].index(self._outer_loop) + 1
        ]
        with ir.InsertionPoint(self._outer_loop), self._block.location:
            for number, value in zip(accumulators, self._emit_starts(), strict=True):
                _store(value, number, 0)
        self._emit_update(accumulators)
        with ir.InsertionPoint(next_operation), self._block.location:
            self._emit_if_in_range(
                lambda: self._store_partials(accumulators, shared, group, slot)
            )
            self._emit_tree(shared, group, slot, count)
            self._write_results(shared, group, slot)
        erase(self._block)

    def _independent_axes(self) -> list[tuple[ir.Value, int]]:
        """Thread axes that index independent reductions, with their extents."""
        found = []
        for axis, number in self._threads.ids.items():
            launch_extents = self._threads.launch_extents[axis]
            is_other = axis.startswith("threadIdx") and axis not in self._axes
            if is_other and launch_extents != 1:
                found.append((number, static_size(launch_extents)))
        return found

    def _rematerialize(self, value: ir.Value) -> ir.Value:
        """Rematerializes a value of the reduction loops at the insertion point."""
        if value in self._rematerialized:
            return self._rematerialized[value]
        owner = value.owner
        if isinstance(owner, ir.Block):
            if owner.owner.operation != self._block.operation:
                return value
            return self._rematerialize(
                self._block.bindings[ir.BlockArgument(value).arg_number]
            )
        if not _is_nested_in(owner, self._outer_loop):
            return value
        for operand in values_read(owner):
            self._rematerialized[operand] = self._rematerialize(operand)
        clone(owner.opview, self._rematerialized)
        return self._rematerialized[value]

    def _stored_starts(self) -> list[ir.Value]:
        """The start values that the block's init region stores."""
        stores = [
            list(o.operands)[:2]
            for o in own_operations(self._block.init.blocks[0])
            if o.operation.name == "memref.store"
        ]
        found = {buffer: value for value, buffer in stores}
        return [found[buffer] for buffer in self._combiner.buffers]

    def _emit_starts(self) -> list[ir.Value]:
        """The start values, rematerialized at the insertion point."""
        return [self._rematerialize(v) for v in self._stored_starts()]

    def _emit_update(self, accumulators: Sequence[ir.Value]) -> None:
        """Emits the update of a thread's accumulators, in front of the block."""
        body = self._block.body.blocks[0]
        mapping = dict(zip(body.arguments, self._block.bindings, strict=True))
        with ir.InsertionPoint(self._block), self._block.location:
            for operation in self._combiner.value_ops:
                clone(operation, mapping)
            new_values = [mapping.get(v, v) for v in self._combiner.new_values]
            previous = [_load(number, 0) for number in accumulators]
            for number, value in zip(
                accumulators,
                self._combiner.combine(previous, new_values),
                strict=True,
            ):
                _store(value, number, 0)

    def _unbound_axes_are_first(self) -> list[ir.Value]:
        """Conditions for id 0 along the axes that no loop around the block is bound to.

        For a result in shared memory, each thread block stores its own.
        """
        ids, launch_extents = self._threads.ids, self._threads.launch_extents
        unbound = [
            a
            for a in ids
            if a not in self._threads.enclosing and launch_extents[a] != 1
        ]
        if is_shared(base_buffer(self._combiner.buffers[0])):
            unbound = [a for a in unbound if a.startswith("threadIdx")]
        return [less(ids[a], 1) for a in unbound]

    def _emit_if_in_range(self, write: Callable[[], None]) -> None:
        """Emits code for the threads inside the bound loops around the block."""
        ids, launch_extents = self._threads.ids, self._threads.launch_extents
        extents = self._threads.extents
        smaller = [a for a in self._axes if extents[a] != launch_extents[a]]
        _emit_if_all([less(ids[a], extents[a]) for a in smaller], write)

    def _store_partials(
        self,
        accumulators: Sequence[ir.Value],
        shared: Sequence[ir.Value],
        group: IndexLike,
        slot: IndexLike,
    ) -> None:
        for number, part in zip(accumulators, shared, strict=True):
            _store(_load(number, 0), part, group, slot)

    def _emit_tree(
        self, shared: Sequence[ir.Value], group: IndexLike, slot: IndexLike, count: int
    ) -> None:
        """Emits the reduction tree of ``count`` partial results; slot 0 holds the result."""
        while count > 1:
            half = (count + 1) // 2

            def combine_halves(half: int = half) -> None:
                lower = [_load(part, group, slot) for part in shared]
                upper = [_load(part, group, add(slot, half)) for part in shared]
                sums = self._combiner.combine(lower, upper)
                for part, value in zip(shared, sums, strict=True):
                    _store(value, part, group, slot)

            remaining = count - half
            self._emit_if_in_range(partial(if_less, slot, remaining, combine_halves))
            count = half

    def _write_results(
        self, shared: Sequence[ir.Value], group: IndexLike, slot: IndexLike
    ) -> None:
        """Emits the stores of the results, by thread 0, or by all to private buffers."""
        tests = [
            self._rematerialize(c)
            for condition in self._conditions
            for c in _conjuncts(condition)
            if not depends_on(c, self._moving)
        ]
        targets = [
            (buffer, [self._rematerialize(v) for v in indices])
            for buffer, indices in zip(
                self._combiner.buffers, self._combiner.indices, strict=True
            )
        ]
        if not is_private(base_buffer(self._combiner.buffers[0])):
            tests += [less(slot, 1), *self._unbound_axes_are_first()]

        def write() -> None:
            for part, (buffer, indices) in zip(shared, targets, strict=True):
                _store(_load(part, group, 0), buffer, *indices)

        _emit_if_all(tests, write)


def _counter(loop: ir.Operation) -> ir.Value:
    return loop.regions[0].blocks[0].arguments[0]
