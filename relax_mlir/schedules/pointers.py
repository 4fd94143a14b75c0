"""Pointers of the runtime's calling convention, between memrefs and LLVM."""

from mlir import ir

from relax_mlir.schedules.emit import Extent, constant, index, op

__all__ = [
    "address_of_element",
    "alloca",
    "load_element",
    "pointer_type",
    "store_element",
    "to_i64",
    "to_index",
]


def pointer_type() -> ir.Type:
    """``!llvm.ptr``."""
    return ir.Type.parse("!llvm.ptr")


def alloca(count: int, element: ir.Type) -> ir.Value:
    """Space for ``count`` elements, or one if that is none, on the stack."""
    size = constant(max(1, count), ir.IntegerType.get_signless(64))
    return op("llvm.alloca", pointer_type(), size, elem_type=ir.TypeAttr.get(element))


def address_of_element(base: ir.Value, number: int, element: ir.Type) -> ir.Value:
    """Where element ``number`` of an array is."""
    return op(
        "llvm.getelementptr",
        pointer_type(),
        base,
        rawConstantIndices=ir.DenseI32ArrayAttr.get([number]),
        elem_type=ir.TypeAttr.get(element),
    )


def load_element(base: ir.Value, number: int, element: ir.Type) -> ir.Value:
    """Element ``number`` of an array."""
    return op("llvm.load", element, address_of_element(base, number, element))


def store_element(value: ir.Value, base: ir.Value, number: int) -> None:
    """Write element ``number`` of an array."""
    op("llvm.store", None, value, address_of_element(base, number, value.type))


def to_index(value: ir.Value) -> ir.Value:
    """An integer as an index."""
    return op("arith.index_cast", ir.IndexType.get(), value)


def to_i64(value: Extent) -> ir.Value:
    """An index, or a number, as a 64-bit integer."""
    return op("arith.index_cast", ir.IntegerType.get_signless(64), index(value))
