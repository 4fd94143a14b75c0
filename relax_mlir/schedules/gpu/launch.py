"""Builder helpers for launches: grids, shared memory, barriers, shuffles, predication."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlir import ir
from mlir.dialects import gpu, nvvm

from relax_mlir.dialects.tir import attribute_names
from relax_mlir.schedules.builder import IndexLike, constant, index, less, op

__all__ = [
    "ACCESS_BYTES",
    "SHARED_SPACE",
    "SM_COUNT",
    "WARP_SIZE",
    "alloc_private",
    "alloc_shared",
    "barrier",
    "if_less",
    "launch",
    "launch_grid",
    "shared_type",
    "shuffle_xor",
    "sync_warp",
    "wait_for_previous_grid",
    "warp_uniform",
]

WARP_SIZE = 32  # threads
SM_COUNT = 132  # streaming multiprocessors of an H100 or H200
ACCESS_BYTES = 16  # of the widest load or store of a thread

SHARED_SPACE = "#gpu.address_space<workgroup>"  # shared memory of a thread block


def launch(
    blocks: IndexLike,
    threads: int,
    body: Callable[[ir.Value, ir.Value], None],
    min_blocks_per_sm: int = 1,
) -> None:
    """Emits a ``gpu.launch`` with a one-dimensional grid; ``body(block, thread)`` fills it.

    Launches of a kernel run in order: each sees what the previous ones have written.

    Args:
        blocks: size of the grid; threads: of a block.
        min_blocks_per_sm: resident blocks per SM that the register allocation must allow.
    """
    block = launch_grid([blocks], [threads], lambda b, t: body(b[0], t[0]))
    if min_blocks_per_sm > 1:
        i32 = ir.IntegerType.get_signless(32)
        block.owner.attributes[attribute_names.AT_ONCE] = ir.IntegerAttr.get(
            i32, min_blocks_per_sm
        )


def launch_grid(
    blocks: Sequence[IndexLike],
    threads: Sequence[int],
    body: Callable[[Sequence[ir.Value], Sequence[ir.Value]], None],
) -> ir.Block:
    """:func:`launch` with up to three dimensions; ``body(block, thread)`` gets all ids.

    Args:
        blocks, threads: extents along x, y and z; missing ones are 1.

    Returns:
        The body of the launch.
    """
    grid, size = (
        tuple(map(index, [*extents, 1, 1, 1][:3])) for extents in (blocks, threads)
    )
    block = gpu.LaunchOp(grid, size).regions[0].blocks[0]
    numbers = list(block.arguments)
    with ir.InsertionPoint(block):
        body(numbers[:3], numbers[3:6])
        op("gpu.terminator", None)
    return block


def barrier() -> None:
    """Emits a barrier of the thread block, which also orders its memory accesses."""
    op("gpu.barrier", None)


def shared_type(shape: Sequence[int], element: ir.Type) -> ir.MemRefType:
    """The type of a buffer in shared memory."""
    space = ir.Attribute.parse(SHARED_SPACE)
    return ir.MemRefType.get(list(shape), element, memory_space=space)


def alloc_shared(
    shape: Sequence[int], element: ir.Type, alignment: int | None = None
) -> ir.Value:
    """Allocates shared memory, at the top of a launch.

    Args:
        alignment: in bytes, if more than 128.
    """
    i64 = ir.IntegerType.get_signless(64)
    aligned = (
        {} if alignment is None else {"alignment": ir.IntegerAttr.get(i64, alignment)}
    )
    return op(
        "memref.alloc",
        shared_type(shape, element),
        operandSegmentSizes=ir.DenseI32ArrayAttr.get([0, 0]),
        **aligned,
    )


def alloc_private(shape: Sequence[int], element: ir.Type) -> ir.Value:
    """Allocates memory private to a thread: registers, if all indices are constants."""
    type_, i64 = (
        ir.MemRefType.get(list(shape), element),
        ir.IntegerType.get_signless(64),
    )
    return op(
        "memref.alloca",
        type_,
        operandSegmentSizes=ir.DenseI32ArrayAttr.get([0, 0]),
        alignment=ir.IntegerAttr.get(i64, ACCESS_BYTES),
    )


def if_less(
    lhs: IndexLike,
    rhs: IndexLike,
    then: Callable[[], None],
    otherwise: Callable[[], None] | None = None,
) -> None:
    """Emits ``scf.if`` on ``lhs < rhs``; only the taken branch if both are constants."""
    if isinstance(lhs, int) and isinstance(rhs, int):
        chosen = then if lhs < rhs else otherwise
        if chosen is not None:
            chosen()
        return
    created = ir.Operation.create("scf.if", operands=[less(lhs, rhs)], regions=2)
    for region, body in zip(created.regions, (then, otherwise), strict=True):
        if body is not None:
            with ir.InsertionPoint(ir.Block.create_at_start(region, [])):
                body()
                ir.Operation.create("scf.yield")


def sync_warp() -> None:
    """Emits a barrier of the warp, which also orders its memory accesses."""
    i32 = ir.IntegerType.get_signless(32)
    op("nvvm.bar.warp.sync", None, constant(_ALL_THREADS, i32))


_ALL_THREADS = -1  # member mask of a full warp


def wait_for_previous_grid() -> None:
    """Waits until the previous grid of the stream has completed (``griddepcontrol.wait``).

    For programmatic dependent launch. Code before it may prefetch, but must not otherwise
    access memory. In a launch without it, the wait is the first instruction.
    """
    nvvm.griddepcontrol(nvvm.GridDepActionKind.wait)


def warp_uniform(number: ir.Value) -> ir.Value:
    """Marks a value as uniform across the warp, by a shuffle from lane 0."""
    i32, i1 = (ir.IntegerType.get_signless(bits) for bits in (32, 1))
    shuffled = ir.Operation.create(
        "gpu.shuffle",
        results=[i32, i1],
        operands=[
            op("arith.index_cast", i32, number),
            constant(0, i32),
            constant(WARP_SIZE, i32),
        ],
        attributes={"mode": ir.Attribute.parse("#gpu<shuffle_mode idx>")},
    )
    return op("arith.index_cast", ir.IndexType.get(), shuffled.results[0])


def shuffle_xor(value: ir.Value, distance: int) -> ir.Value:
    """The value of lane ``lane ^ distance`` of the warp (``shfl.sync.bfly``)."""
    if value.type.width < _SHUFFLED_BITS:
        return _shuffle_narrow(value, distance)
    i32, i1 = (ir.IntegerType.get_signless(bits) for bits in (_SHUFFLED_BITS, 1))
    numbers = [constant(n, i32) for n in (distance, WARP_SIZE)]
    mode = ir.Attribute.parse("#gpu<shuffle_mode xor>")
    shuffled = ir.Operation.create(
        "gpu.shuffle",
        results=[value.type, i1],
        operands=[value, *numbers],
        attributes={"mode": mode},
    )
    return shuffled.results[0]


_SHUFFLED_BITS = 32


def _shuffle_narrow(value: ir.Value, distance: int) -> ir.Value:
    """Shuffles a value of fewer than 32 bits in the low bits of a word."""
    type_, word = value.type, ir.IntegerType.get_signless(_SHUFFLED_BITS)
    bits = ir.IntegerType.get_signless(type_.width)
    is_integer = isinstance(type_, ir.IntegerType)
    plain = value if is_integer else op("arith.bitcast", bits, value)
    found = shuffle_xor(op("arith.extui", word, plain), distance)
    narrow = op("arith.trunci", bits, found)
    return narrow if is_integer else op("arith.bitcast", type_, narrow)
