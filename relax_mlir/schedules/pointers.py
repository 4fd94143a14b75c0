"""LLVM pointer operations for the runtime's calling convention."""

from mlir import ir

from relax_mlir.schedules.builder import IndexLike, constant, index, op

__all__ = [
    "address_of_element",
    "alloca",
    "load_element",
    "memref_of",
    "pointer_type",
    "store_element",
    "to_i64",
    "to_index",
]


def pointer_type() -> ir.Type:
    """``!llvm.ptr``."""
    return ir.Type.parse("!llvm.ptr")


def alloca(count: int, element: ir.Type) -> ir.Value:
    """Stack allocation of max(count, 1) elements."""
    size = constant(max(1, count), ir.IntegerType.get_signless(64))
    return op("llvm.alloca", pointer_type(), size, elem_type=ir.TypeAttr.get(element))


def address_of_element(base: ir.Value, number: int, element: ir.Type) -> ir.Value:
    """Address of element ``number`` of an array."""
    return op(
        "llvm.getelementptr",
        pointer_type(),
        base,
        rawConstantIndices=ir.DenseI32ArrayAttr.get([number]),
        elem_type=ir.TypeAttr.get(element),
    )


def load_element(base: ir.Value, number: int, element: ir.Type) -> ir.Value:
    """Load element ``number`` of an array."""
    return op("llvm.load", element, address_of_element(base, number, element))


def store_element(value: ir.Value, base: ir.Value, number: int) -> None:
    """Store element ``number`` of an array."""
    op("llvm.store", None, value, address_of_element(base, number, value.type))


def to_index(value: ir.Value) -> ir.Value:
    """Cast an integer to an index."""
    return op("arith.index_cast", ir.IndexType.get(), value)


def to_i64(value: IndexLike) -> ir.Value:
    """Cast an index or int to a 64-bit integer."""
    return op("arith.index_cast", ir.IntegerType.get_signless(64), index(value))


def memref_of(pointer: ir.Value, type_: ir.MemRefType) -> ir.Value:
    """Wrap a pointer as a memref of rank 1, by building its LLVM descriptor."""
    i64 = ir.IntegerType.get_signless(64)
    struct = ir.Type.parse(
        "!llvm.struct<(ptr, ptr, i64, array<1 x i64>, array<1 x i64>)>"
    )
    value = op("llvm.mlir.undef", struct)
    zero = op("arith.constant", i64, value=ir.IntegerAttr.get(i64, 0))
    one = op("arith.constant", i64, value=ir.IntegerAttr.get(i64, 1))
    for part, position in (
        (pointer, [0]),
        (pointer, [1]),
        (zero, [2]),
        (one, [3, 0]),
        (one, [4, 0]),
    ):
        path = ir.DenseI64ArrayAttr.get(position)
        value = op("llvm.insertvalue", struct, value, part, position=path)
    return op("builtin.unrealized_conversion_cast", type_, value)
