"""Grids of threads: how rules write what a launch does."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlir import ir
from mlir.dialects import gpu, nvvm

from relax_mlir.dialects.tir import marks
from relax_mlir.schedules.emit import Extent, constant, index, less, op

__all__ = [
    "ACCESS_BYTES",
    "PROCESSORS",
    "SHARED",
    "WARP",
    "alloc_private",
    "alloc_shared",
    "barrier",
    "if_less",
    "launch",
    "launch_grid",
    "meet_warp",
    "shared_type",
    "shuffle_xor",
    "uniform",
    "wait_for_launch_before",
]

WARP = 32  # threads that run in step
PROCESSORS = 132  # that run blocks at the same time, of an H100 or H200
ACCESS_BYTES = 16  # that a thread reads or writes at once, at the most

SHARED = "#gpu.address_space<workgroup>"  # where a block's memory is


def launch(
    blocks: Extent,
    threads: int,
    body: Callable[[ir.Value, ir.Value], None],
    at_once: int = 1,
) -> None:
    """``gpu.launch`` of a grid of one dimension; ``body(block, thread)`` is what each does.

    Launches of a kernel run one after the other: what one has written the next one reads.

    Args:
        blocks: how many; threads: of each.
        at_once: blocks for which a processor has registers, at least.
    """
    block = launch_grid([blocks], [threads], lambda b, t: body(b[0], t[0]))
    if at_once > 1:
        i32 = ir.IntegerType.get_signless(32)
        block.owner.attributes[marks.AT_ONCE] = ir.IntegerAttr.get(i32, at_once)


def launch_grid(
    blocks: Sequence[Extent],
    threads: Sequence[int],
    body: Callable[[Sequence[ir.Value], Sequence[ir.Value]], None],
) -> ir.Block:
    """:func:`launch` of up to three dimensions; ``body(block, thread)`` gets all three.

    Args:
        blocks, threads: how many along x, y and z; one where nothing is said.

    Returns:
        What each does.
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
    """All threads of a block wait here for each other, and see what others have written."""
    op("gpu.barrier", None)


def shared_type(shape: Sequence[int], element: ir.Type) -> ir.MemRefType:
    """Of buffers in the memory that the threads of a block share."""
    space = ir.Attribute.parse(SHARED)
    return ir.MemRefType.get(list(shape), element, memory_space=space)


def alloc_shared(
    shape: Sequence[int], element: ir.Type, alignment: int | None = None
) -> ir.Value:
    """Memory that the threads of a block share, at the top of a launch.

    Args:
        alignment: of its first byte, if 128 are not enough.
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
    """Memory of one thread: registers, where its indices are constants."""
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
    lhs: Extent,
    rhs: Extent,
    then: Callable[[], None],
    otherwise: Callable[[], None] | None = None,
) -> None:
    """``scf.if`` where ``lhs < rhs``, without asking where that is known."""
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


def meet_warp() -> None:
    """All threads of a warp wait here for each other, and see what others have written."""
    i32 = ir.IntegerType.get_signless(32)
    op("nvvm.bar.warp.sync", None, constant(_ALL_THREADS, i32))


_ALL_THREADS = -1  # of a warp: a bit for each


def wait_for_launch_before() -> None:
    """Wait until the launch in front of this one has ended, at the top of a launch.

    What comes before must not touch memory but for asking for it. A launch that does not
    say so waits first of all.
    """
    nvvm.griddepcontrol(nvvm.GridDepActionKind.wait)


def uniform(number: ir.Value) -> ir.Value:
    """A number that all threads of a warp have, such that the compiler knows it."""
    i32, i1 = (ir.IntegerType.get_signless(bits) for bits in (32, 1))
    made = ir.Operation.create(
        "gpu.shuffle",
        results=[i32, i1],
        operands=[
            op("arith.index_cast", i32, number),
            constant(0, i32),
            constant(WARP, i32),
        ],
        attributes={"mode": ir.Attribute.parse("#gpu<shuffle_mode idx>")},
    )
    return op("arith.index_cast", ir.IndexType.get(), made.results[0])


def shuffle_xor(value: ir.Value, distance: int) -> ir.Value:
    """The value of the thread of the warp whose number differs by ``distance``, bit by bit."""
    if value.type.width < _SHUFFLED_BITS:
        return _shuffle_narrow(value, distance)
    i32, i1 = (ir.IntegerType.get_signless(bits) for bits in (_SHUFFLED_BITS, 1))
    numbers = [constant(n, i32) for n in (distance, WARP)]
    mode = ir.Attribute.parse("#gpu<shuffle_mode xor>")
    made = ir.Operation.create(
        "gpu.shuffle",
        results=[value.type, i1],
        operands=[value, *numbers],
        attributes={"mode": mode},
    )
    return made.results[0]


_SHUFFLED_BITS = 32


def _shuffle_narrow(value: ir.Value, distance: int) -> ir.Value:
    """A number of less than 32 bits, as a part of a word."""
    type_, word = value.type, ir.IntegerType.get_signless(_SHUFFLED_BITS)
    bits = ir.IntegerType.get_signless(type_.width)
    is_integer = isinstance(type_, ir.IntegerType)
    plain = value if is_integer else op("arith.bitcast", bits, value)
    found = shuffle_xor(op("arith.extui", word, plain), distance)
    narrow = op("arith.trunci", bits, found)
    return narrow if is_integer else op("arith.bitcast", type_, narrow)
