"""Short names for the operations that rules write."""

from collections.abc import Callable, Sequence

from mlir import ir

from relax_mlir.dialects.dtypes import element_of

__all__ = [
    "TILES",
    "UNROLLED",
    "add",
    "alloc",
    "broadcast",
    "ceil_div",
    "constant",
    "div",
    "either",
    "for_loop",
    "if_else",
    "index",
    "is_one",
    "is_parallel_loop",
    "lane_of",
    "less",
    "maximum",
    "minimum",
    "multiply",
    "multiply_add",
    "op",
    "parallel_loop",
    "prefetch",
    "product",
    "reinterpret",
    "rem",
    "row_major_strides",
    "static",
    "strided_view",
    "subtract",
    "unflatten",
    "unrolled_loop",
    "vector_type",
]

Extent = int | ir.Value

TILES = "tir.tiles"  # of the loop over tiles: how many there are, where that is known

UNROLLED = 2  # steps of a sum in the body of its loop

_LESS = 6  # of arith.cmpi's predicates: unsigned <


def op(
    name: str, type_: ir.Type | None, *operands: ir.Value, **attributes: ir.Attribute
) -> ir.Value:
    """Build an operation with at most one result; that result, or None."""
    created = ir.Operation.create(
        name,
        results=[] if type_ is None else [type_],
        operands=list(operands),
        attributes=attributes,
    )
    return created.results[0] if type_ is not None else None


def index(value: Extent) -> ir.Value:
    """An ``index`` value of an int or of itself."""
    if isinstance(value, ir.Value):
        return value
    type_ = ir.IndexType.get()
    return op("arith.constant", type_, value=ir.IntegerAttr.get(type_, value))


def is_one(extent: Extent) -> bool:
    """Whether a size is known to be 1."""
    return isinstance(extent, int) and extent == 1


def static(extent: Extent | None) -> int:
    """A size that the caller knows to be static."""
    assert isinstance(extent, int)
    return extent


def constant(value: float, type_: ir.Type) -> ir.Value:
    """A number of a float or integer type."""
    is_integer = isinstance(type_, (ir.IntegerType, ir.IndexType))
    make = ir.IntegerAttr.get if is_integer else ir.FloatAttr.get
    return op("arith.constant", type_, value=make(type_, value))


def _fold(
    name: str, fold: Callable[[int, int], int], lhs: Extent, rhs: Extent
) -> Extent:
    if isinstance(lhs, int) and isinstance(rhs, int):
        return fold(lhs, rhs)
    return op(name, ir.IndexType.get(), index(lhs), index(rhs))


def add(lhs: Extent, rhs: Extent) -> Extent:
    """lhs + rhs."""
    if isinstance(rhs, int) and rhs == 0:
        return lhs
    if isinstance(lhs, int) and lhs == 0:
        return rhs
    return _fold("arith.addi", lambda a, b: a + b, lhs, rhs)


def subtract(lhs: Extent, rhs: Extent) -> Extent:
    """lhs - rhs."""
    if isinstance(rhs, int) and rhs == 0:
        return lhs
    return _fold("arith.subi", lambda a, b: a - b, lhs, rhs)


def multiply(lhs: Extent, rhs: Extent) -> Extent:
    """lhs * rhs."""
    if isinstance(lhs, int):
        lhs, rhs = rhs, lhs
    if isinstance(rhs, int) and rhs in (0, 1):
        return lhs if rhs else 0
    return _fold("arith.muli", lambda a, b: a * b, lhs, rhs)


def div(lhs: Extent, rhs: Extent) -> Extent:
    """lhs / rhs of sizes, rounded down."""
    if is_one(rhs):
        return lhs
    return _fold("arith.divui", lambda a, b: a // b, lhs, rhs)


def rem(lhs: Extent, rhs: Extent) -> Extent:
    """The rest of lhs / rhs of sizes."""
    if is_one(rhs):
        return 0
    return _fold("arith.remui", lambda a, b: a % b, lhs, rhs)


def ceil_div(lhs: Extent, rhs: int) -> Extent:
    """lhs / rhs of sizes, rounded up."""
    return div(add(lhs, rhs - 1), rhs)


def product(extents: Sequence[Extent]) -> Extent:
    """All multiplied; 1 of none."""
    total: Extent = 1
    for extent in extents:
        total = multiply(total, extent)
    return total


def unflatten(number: ir.Value, extents: Sequence[Extent]) -> list[Extent]:
    """The indices of point ``number`` of a row-major grid; 0 along axes of size 1."""
    wide = [axis for axis, extent in enumerate(extents) if not is_one(extent)]
    points: list[Extent] = [0] * len(extents)
    for axis in reversed(wide[1:]):
        points[axis] = rem(number, extents[axis])
        number = index(div(number, extents[axis]))
    if wide:
        points[wide[0]] = number
    return points


def minimum(lhs: Extent, rhs: Extent) -> Extent:
    """The smaller one."""
    return _fold("arith.minsi", min, lhs, rhs)


def maximum(lhs: Extent, rhs: Extent) -> Extent:
    """The larger one."""
    return _fold("arith.maxsi", max, lhs, rhs)


def vector_type(lanes: int, element: ir.Type) -> ir.VectorType:
    """``vector<lanes x element>``."""
    return ir.VectorType.get([lanes], element)


def broadcast(value: ir.Value, lanes: int) -> ir.Value:
    """A scalar in every lane."""
    return op("vector.broadcast", vector_type(lanes, value.type), value)


def lane_of(vector: ir.Value, number: int) -> ir.Value:
    """One lane of a vector."""
    where = ir.DenseI64ArrayAttr.get([number])
    return op("vector.extract", element_of(vector.type), vector, static_position=where)


def multiply_add(x: ir.Value, y: ir.Value, total: ir.Value) -> ir.Value:
    """x * y + total, of vectors; of floats rounded once."""
    if isinstance(total.type.element_type, ir.FloatType):
        return op("vector.fma", total.type, x, y, total)
    return op("arith.addi", total.type, op("arith.muli", total.type, x, y), total)


def for_loop(
    begin: Extent,
    end: Extent,
    step: Extent,
    body: Callable[..., Sequence[ir.Value]],
    carried: Sequence[ir.Value] = (),
) -> list[ir.Value]:
    """``scf.for``; ``body(i, *carried)`` returns the next carried values.

    A loop that surely runs once is written without a loop.
    """
    if all(isinstance(v, int) for v in (begin, end, step)):
        if begin >= end:
            return list(carried)
        if begin + step >= end:
            return list(body(index(begin), *carried))
    loop = _create_loop(index(begin), index(end), index(step), body, carried)
    return list(loop.results)


def unrolled_loop(
    extent: Extent,
    step: Callable[[Extent, Sequence[ir.Value]], list[ir.Value]],
    carried: list[ir.Value],
    turn_begins: Callable[[ir.Value], None] = lambda turn: None,
) -> list[ir.Value]:
    """Take ``step(i, carried)`` for all i below ``extent``, `UNROLLED` of them a turn.

    Where ``extent`` is not known, each turn takes one.

    Args:
        turn_begins: is called once a turn with the first i of it, where that is unrolled.
    """
    times = UNROLLED
    if not isinstance(extent, int):
        return for_loop(0, extent, 1, lambda i, *values: step(i, values), carried)
    full = extent - extent % times

    def turn(i: ir.Value, *values: ir.Value) -> list[ir.Value]:
        turn_begins(i)
        found = list(values)
        for n in range(times):
            found = step(add(i, n), found)
        return found

    carried = for_loop(0, full, times, turn, carried)
    for i in range(full, extent):
        carried = step(i, carried)
    return carried


def _create_loop(
    begin: ir.Value,
    end: ir.Value,
    step: ir.Value,
    body: Callable[..., Sequence[ir.Value]],
    carried: Sequence[ir.Value],
) -> ir.Operation:
    loop = ir.Operation.create(
        "scf.for",
        results=[c.type for c in carried],
        operands=[begin, end, step, *carried],
        regions=1,
    )
    types = [ir.IndexType.get(), *(c.type for c in carried)]
    block = ir.Block.create_at_start(
        loop.regions[0], types, [ir.Location.current] * len(types)
    )
    with ir.InsertionPoint(block):
        following = body(*block.arguments)
        ir.Operation.create("scf.yield", operands=list(following or ()))
    return loop


def less(lhs: Extent, rhs: Extent) -> ir.Value:
    """Whether lhs < rhs, of sizes."""
    i1, i64 = (ir.IntegerType.get_signless(bits) for bits in (1, 64))
    predicate = ir.IntegerAttr.get(i64, _LESS)
    return op("arith.cmpi", i1, index(lhs), index(rhs), predicate=predicate)


def if_else(
    condition: ir.Value,
    type_: ir.Type,
    then: Callable[[], ir.Value],
    otherwise: Callable[[], ir.Value],
) -> ir.Value:
    """``scf.if`` with one result."""
    return either(condition, [type_], lambda: [then()], lambda: [otherwise()])[0]


def either(
    condition: ir.Value,
    types: Sequence[ir.Type],
    then: Callable[[], Sequence[ir.Value]],
    otherwise: Callable[[], Sequence[ir.Value]] = tuple,
) -> list[ir.Value]:
    """``scf.if`` with any number of results."""
    created = ir.Operation.create(
        "scf.if", results=list(types), operands=[condition], regions=2
    )
    for region, write in zip(created.regions, (then, otherwise), strict=True):
        with ir.InsertionPoint(ir.Block.create_at_start(region, [])):
            ir.Operation.create("scf.yield", operands=list(write()))
    return list(created.results)


def parallel_loop(
    tiles: Extent, body: Callable[[ir.Value], None], grain: int = 1
) -> None:
    """The loop over the independent tiles of a kernel: every kernel has exactly one.

    Args:
        grain: tiles that are worth a thread's while.
    """

    def run(tile: ir.Value) -> tuple[()]:
        body(tile)
        return ()

    loop = _create_loop(index(0), index(tiles), index(1), run, ())
    loop.attributes["tir.kind"] = ir.StringAttr.get("parallel")
    i64 = ir.IntegerType.get_signless(64)
    loop.attributes["tir.grain"] = ir.IntegerAttr.get(i64, grain)


def is_parallel_loop(operation: ir.OpView) -> bool:
    """Whether :func:`parallel_loop` made it."""
    return operation.operation.name == "scf.for" and "tir.grain" in operation.attributes


def prefetch(buffer: ir.Value, *where: Extent) -> None:
    """Bring the line of an element nearer: on CPUs and GPUs to the second cache.

    On CPUs a place beyond the buffer does no harm; on GPUs it must be inside.
    """
    hint = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 2)
    op(
        "memref.prefetch",
        None,
        buffer,
        *map(index, where),
        isWrite=ir.BoolAttr.get(False),
        isDataCache=ir.BoolAttr.get(True),
        localityHint=hint,
    )


def alloc(shape: Sequence[Extent], element: ir.Type) -> ir.Value:
    """Scratch of one tile; it becomes part of the thread's scratch memory."""
    dynamic = ir.ShapedType.get_dynamic_size()
    sizes = [s for s in shape if not isinstance(s, int)]
    type_ = ir.MemRefType.get(
        [s if isinstance(s, int) else dynamic for s in shape], element
    )
    segments = ir.DenseI32ArrayAttr.get([len(sizes), 0])
    return op("memref.alloc", type_, *sizes, operandSegmentSizes=segments)


def row_major_strides(sizes: Sequence[Extent]) -> list[Extent]:
    """How far neighbours along each dimension are apart, in elements."""
    strides: list[Extent] = [1]
    for size in reversed(sizes[1:]):
        strides.append(multiply(strides[-1], size))
    return strides[::-1] if sizes else []


def reinterpret(
    buffer: ir.Value, type_: ir.MemRefType, sizes: Sequence[Extent]
) -> ir.Value:
    """A row-major buffer seen in another shape."""
    return _reinterpret(buffer, type_, 0, sizes, row_major_strides(sizes))


def strided_view(
    buffer: ir.Value, sizes: Sequence[Extent], strides: Sequence[Extent], offset: Extent
) -> ir.Value:
    """What of a buffer's memory begins at an offset, and steps so far along each axis."""
    mark = ir.ShapedType.get_dynamic_stride_or_offset()
    begin, *known = (n if isinstance(n, int) else mark for n in (offset, *strides))
    dynamic = ir.ShapedType.get_dynamic_size()
    type_ = ir.MemRefType.get(
        [n if isinstance(n, int) else dynamic for n in sizes],
        buffer.type.element_type,
        ir.StridedLayoutAttr.get(begin, known),
        buffer.type.memory_space,
    )
    return _reinterpret(buffer, type_, offset, sizes, strides)


def _reinterpret(
    buffer: ir.Value,
    type_: ir.MemRefType,
    offset: Extent,
    sizes: Sequence[Extent],
    strides: Sequence[Extent],
) -> ir.Value:
    known, begin = type_.get_strides_and_offset()
    mark = ir.ShapedType.get_dynamic_stride_or_offset()
    dynamic_offsets = [index(offset)] if begin == mark else []
    dynamic_sizes = [index(s) for s, n in zip(sizes, type_.shape, strict=True) if n < 0]
    dynamic_strides = [
        index(s) for s, n in zip(strides, known, strict=True) if n == mark
    ]
    return op(
        "memref.reinterpret_cast",
        type_,
        buffer,
        *dynamic_offsets,
        *dynamic_sizes,
        *dynamic_strides,
        static_offsets=ir.DenseI64ArrayAttr.get([begin]),
        static_sizes=ir.DenseI64ArrayAttr.get(list(type_.shape)),
        static_strides=ir.DenseI64ArrayAttr.get(list(known)),
        operandSegmentSizes=ir.DenseI32ArrayAttr.get(
            [1, len(dynamic_offsets), len(dynamic_sizes), len(dynamic_strides)]
        ),
    )
