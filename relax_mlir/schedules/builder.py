"""Builders of the operations that schedule rules emit, with constant folding of sizes."""

from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

from mlir import ir

from relax_mlir.dialects.dtypes import element_of
from relax_mlir.symbolic.affine_forms import AffineForm

__all__ = [
    "TILE_COUNT",
    "UNROLL_FACTOR",
    "add",
    "affine_value",
    "alloc",
    "broadcast",
    "ceil_div",
    "constant",
    "div",
    "extract_lane",
    "for_loop",
    "if_else",
    "index",
    "is_one",
    "is_parallel_loop",
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
    "scf_if",
    "static_size",
    "strided_view",
    "subtract",
    "unflatten",
    "unrolled_loop",
    "vector_type",
]

IndexLike = int | ir.Value
V = TypeVar("V", bound=Hashable)

TILE_COUNT = "tir.tiles"  # attribute of a parallel loop: its trip count, if static

UNROLL_FACTOR = 2  # of reduction loops

_LESS = 6  # arith.cmpi predicate: ult


def op(
    name: str, type_: ir.Type | None, *operands: ir.Value, **attributes: ir.Attribute
) -> ir.Value:
    """Build an operation with at most one result, and return that result or None."""
    created = ir.Operation.create(
        name,
        results=[] if type_ is None else [type_],
        operands=list(operands),
        attributes=attributes,
    )
    return created.results[0] if type_ is not None else None


def index(value: IndexLike) -> ir.Value:
    """Materialize an int as an ``index`` constant; values are returned as they are."""
    if isinstance(value, ir.Value):
        return value
    type_ = ir.IndexType.get()
    return op("arith.constant", type_, value=ir.IntegerAttr.get(type_, value))


def is_one(extent: IndexLike) -> bool:
    """Whether a size is statically 1."""
    return isinstance(extent, int) and extent == 1


def static_size(extent: IndexLike | None) -> int:
    """Narrow a size that is known to be static to an int."""
    assert isinstance(extent, int)
    return extent


def constant(value: float, type_: ir.Type) -> ir.Value:
    """A constant of a float, integer or index type."""
    is_integer = isinstance(type_, (ir.IntegerType, ir.IndexType))
    make = ir.IntegerAttr.get if is_integer else ir.FloatAttr.get
    return op("arith.constant", type_, value=make(type_, value))


def _fold(
    name: str, fold: Callable[[int, int], int], lhs: IndexLike, rhs: IndexLike
) -> IndexLike:
    if isinstance(lhs, int) and isinstance(rhs, int):
        return fold(lhs, rhs)
    return op(name, ir.IndexType.get(), index(lhs), index(rhs))


def add(lhs: IndexLike, rhs: IndexLike) -> IndexLike:
    """lhs + rhs."""
    if isinstance(rhs, int) and rhs == 0:
        return lhs
    if isinstance(lhs, int) and lhs == 0:
        return rhs
    return _fold("arith.addi", lambda a, b: a + b, lhs, rhs)


def subtract(lhs: IndexLike, rhs: IndexLike) -> IndexLike:
    """lhs - rhs."""
    if isinstance(rhs, int) and rhs == 0:
        return lhs
    return _fold("arith.subi", lambda a, b: a - b, lhs, rhs)


def multiply(lhs: IndexLike, rhs: IndexLike) -> IndexLike:
    """lhs * rhs."""
    if isinstance(lhs, int):
        lhs, rhs = rhs, lhs
    if isinstance(rhs, int) and rhs in (0, 1):
        return lhs if rhs else 0
    return _fold("arith.muli", lambda a, b: a * b, lhs, rhs)


def div(lhs: IndexLike, rhs: IndexLike) -> IndexLike:
    """lhs / rhs of nonnegative integers, rounded down."""
    if is_one(rhs):
        return lhs
    return _fold("arith.divui", lambda a, b: a // b, lhs, rhs)


def rem(lhs: IndexLike, rhs: IndexLike) -> IndexLike:
    """lhs modulo rhs of nonnegative integers."""
    if is_one(rhs):
        return 0
    return _fold("arith.remui", lambda a, b: a % b, lhs, rhs)


def ceil_div(lhs: IndexLike, rhs: int) -> IndexLike:
    """lhs / rhs of nonnegative integers, rounded up."""
    return div(add(lhs, rhs - 1), rhs)


def affine_value(form: AffineForm[V], value_of: Callable[[V], IndexLike]) -> IndexLike:
    """The value of an affine form, from the values of its variables."""
    total: IndexLike = form.constant
    for variable, coefficient in form.coefficients.items():
        total = add(total, multiply(value_of(variable), coefficient))
    return total


def product(extents: Sequence[IndexLike]) -> IndexLike:
    """The product of sizes; 1 for an empty sequence."""
    total: IndexLike = 1
    for extent in extents:
        total = multiply(total, extent)
    return total


def unflatten(number: ir.Value, extents: Sequence[IndexLike]) -> list[IndexLike]:
    """Delinearize ``number`` over a row-major grid; 0 along axes of size 1."""
    wide = [axis for axis, extent in enumerate(extents) if not is_one(extent)]
    points: list[IndexLike] = [0] * len(extents)
    for axis in reversed(wide[1:]):
        points[axis] = rem(number, extents[axis])
        number = index(div(number, extents[axis]))
    if wide:
        points[wide[0]] = number
    return points


def minimum(lhs: IndexLike, rhs: IndexLike) -> IndexLike:
    """min(lhs, rhs)."""
    return _fold("arith.minsi", min, lhs, rhs)


def maximum(lhs: IndexLike, rhs: IndexLike) -> IndexLike:
    """max(lhs, rhs)."""
    return _fold("arith.maxsi", max, lhs, rhs)


def vector_type(lanes: int, element: ir.Type) -> ir.VectorType:
    """``vector<lanes x element>``."""
    return ir.VectorType.get([lanes], element)


def broadcast(value: ir.Value, lanes: int) -> ir.Value:
    """Broadcast a scalar to all lanes."""
    return op("vector.broadcast", vector_type(lanes, value.type), value)


def extract_lane(vector: ir.Value, number: int) -> ir.Value:
    """Extract one lane of a vector."""
    position = ir.DenseI64ArrayAttr.get([number])
    return op(
        "vector.extract", element_of(vector.type), vector, static_position=position
    )


def multiply_add(x: ir.Value, y: ir.Value, total: ir.Value) -> ir.Value:
    """x * y + total of vectors; a fused multiply-add for floats."""
    if isinstance(total.type.element_type, ir.FloatType):
        return op("vector.fma", total.type, x, y, total)
    return op("arith.addi", total.type, op("arith.muli", total.type, x, y), total)


def for_loop(
    begin: IndexLike,
    end: IndexLike,
    step: IndexLike,
    body: Callable[..., Sequence[ir.Value]],
    carried: Sequence[ir.Value] = (),
) -> list[ir.Value]:
    """``scf.for``; ``body(i, *carried)`` returns the values to yield.

    A loop of static trip count 0 or 1 is folded away.
    """
    if all(isinstance(v, int) for v in (begin, end, step)):
        if begin >= end:
            return list(carried)
        if begin + step >= end:
            return list(body(index(begin), *carried))
    loop = _create_loop(index(begin), index(end), index(step), body, carried)
    return list(loop.results)


def unrolled_loop(
    extent: IndexLike,
    step: Callable[[IndexLike, Sequence[ir.Value]], list[ir.Value]],
    carried: list[ir.Value],
    prologue: Callable[[ir.Value], None] = lambda i: None,
) -> list[ir.Value]:
    """Loop of ``step(i, carried)`` over 0..extent - 1, unrolled by `UNROLL_FACTOR`.

    Loops of dynamic extent are not unrolled.

    Args:
        prologue: emits code at the start of each unrolled iteration, from its first i.
    """
    times = UNROLL_FACTOR
    if not isinstance(extent, int):
        return for_loop(0, extent, 1, lambda i, *values: step(i, values), carried)
    full = extent - extent % times

    def unrolled(i: ir.Value, *values: ir.Value) -> list[ir.Value]:
        prologue(i)
        following = list(values)
        for n in range(times):
            following = step(add(i, n), following)
        return following

    carried = for_loop(0, full, times, unrolled, carried)
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


def less(lhs: IndexLike, rhs: IndexLike) -> ir.Value:
    """lhs < rhs as unsigned integers: an i1."""
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
    return scf_if(condition, [type_], lambda: [then()], lambda: [otherwise()])[0]


def scf_if(
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
    tiles: IndexLike, body: Callable[[ir.Value], None], grain: int = 1
) -> None:
    """The parallel loop over the tiles of a kernel; each kernel has exactly one.

    Args:
        grain: minimum number of tiles per thread that pays for starting it.
    """

    def run(tile: ir.Value) -> tuple[()]:
        body(tile)
        return ()

    loop = _create_loop(index(0), index(tiles), index(1), run, ())
    loop.attributes["tir.kind"] = ir.StringAttr.get("parallel")
    i64 = ir.IntegerType.get_signless(64)
    loop.attributes["tir.grain"] = ir.IntegerAttr.get(i64, grain)


def is_parallel_loop(operation: ir.OpView) -> bool:
    """Whether an operation is a loop from :func:`parallel_loop`."""
    return operation.operation.name == "scf.for" and "tir.grain" in operation.attributes


def prefetch(buffer: ir.Value, *indices: IndexLike) -> None:
    """Software prefetch of an element's cache line into the L2 cache.

    On CPUs the address may be out of bounds; on GPUs it must be in bounds.
    """
    hint = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 2)
    op(
        "memref.prefetch",
        None,
        buffer,
        *map(index, indices),
        isWrite=ir.BoolAttr.get(False),
        isDataCache=ir.BoolAttr.get(True),
        localityHint=hint,
    )


def alloc(shape: Sequence[IndexLike], element: ir.Type) -> ir.Value:
    """Allocate scratch of one tile, which is carved from the thread's scratch memory."""
    dynamic = ir.ShapedType.get_dynamic_size()
    sizes = [s for s in shape if not isinstance(s, int)]
    type_ = ir.MemRefType.get(
        [s if isinstance(s, int) else dynamic for s in shape], element
    )
    segments = ir.DenseI32ArrayAttr.get([len(sizes), 0])
    return op("memref.alloc", type_, *sizes, operandSegmentSizes=segments)


def row_major_strides(sizes: Sequence[IndexLike]) -> list[IndexLike]:
    """Row-major strides of a shape, in elements."""
    strides: list[IndexLike] = [1]
    for size in reversed(sizes[1:]):
        strides.append(multiply(strides[-1], size))
    return strides[::-1] if sizes else []


def reinterpret(
    buffer: ir.Value, type_: ir.MemRefType, sizes: Sequence[IndexLike]
) -> ir.Value:
    """A row-major buffer reinterpreted in another shape."""
    return _reinterpret(buffer, type_, 0, sizes, row_major_strides(sizes))


def strided_view(
    buffer: ir.Value,
    sizes: Sequence[IndexLike],
    strides: Sequence[IndexLike],
    offset: IndexLike,
) -> ir.Value:
    """A strided view of a buffer's memory, from an offset in elements."""
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
    offset: IndexLike,
    sizes: Sequence[IndexLike],
    strides: Sequence[IndexLike],
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
