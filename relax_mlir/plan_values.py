"""What values of lowered functions are to the runtime of GPUs: sizes, and places in memory."""

from __future__ import annotations

import math
from typing import Any

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import dims
from relax_mlir.dialects.dims import Dim
from relax_mlir.errors import PassError
from relax_mlir.indexing import SIZE_ARITHMETIC, size_by
from relax_mlir.programs import argument_shape, argument_symbols
from relax_mlir.runtime.cuda.plan import Expression, Pointer

__all__ = ["ValueReader", "expression", "item_bytes"]


def expression(dim: Dim) -> Expression:
    """A size as plans write it."""
    return dim if isinstance(dim, int) else str(dim)


class ValueReader:
    """Reads the values of a function: sizes, and pointers into its memory."""

    def __init__(self, function: func.FuncOp) -> None:
        self._function = function
        self._sizes: dict[ir.Value, Dim] = {}
        self._pointers: dict[ir.Value, tuple[str, int, Dim]] = {}
        self._shapes: dict[ir.Value, tuple[Dim, ...]] = {}
        symbols = argument_symbols(function)
        self.size_names = tuple(symbols.values())
        self._sizes.update((v, dims.symbol(name)) for v, name in symbols.items())

    def size(self, value: ir.Value) -> Dim:
        """What an integer is, in terms of the function's sizes.

        Raises:
            PassError: it is computed from something else.
        """
        if value not in self._sizes:
            if isinstance(value.owner, ir.Block):
                raise PassError(
                    f"{self._function.location}: an argument is no size and no buffer"
                )
            self._sizes[value] = self._computed(value.owner)
        return self._sizes[value]

    def _computed(self, operation: ir.OpView) -> Dim:
        if operation.name == "arith.constant":
            return ir.IntegerAttr(operation.attributes["value"]).value
        if operation.name not in SIZE_ARITHMETIC:
            raise PassError(
                f"{operation.location}: `{operation.name}` has no place in sizes of a plan"
            )
        size = size_by(operation.name, list(map(self.size, operation.operands)))
        if size is None:
            raise PassError(
                f"{operation.location}: `{operation.name}` of a number that may be negative "
                "has no place in sizes of a plan"
            )
        return size

    def shape(self, value: ir.Value) -> tuple[Dim, ...]:
        """The dimensions of a buffer."""
        if value not in self._shapes:
            type_ = ir.MemRefType(value.type)
            if isinstance(value.owner, ir.Block):
                number = ir.BlockArgument(value).arg_number
                self._shapes[value] = tuple(argument_shape(self._function, number))
            elif value.owner.name == "memref.cast":
                self._shapes[value] = self.shape(value.owner.operands[0])
            else:
                given = map(self.size, _size_operands(value.owner))
                self._shapes[value] = tuple(
                    n if n >= 0 else next(given) for n in type_.shape
                )
        return self._shapes[value]

    def size_bytes(self, value: ir.Value) -> Dim:
        """Of all elements of a buffer."""
        return math.prod(self.shape(value), start=item_bytes(value))

    def pointer(self, value: ir.Value) -> Pointer:
        """Where a buffer begins.

        Raises:
            PassError: it is a view of a kind that has no place in a plan.
        """
        base, number, offset = self._place(value)
        return Pointer(base, number, expression(offset))

    def _place(self, value: ir.Value) -> tuple[str, int, Dim]:
        if value in self._pointers:
            return self._pointers[value]
        if isinstance(value.owner, ir.Block):
            raise PassError(f"{self._function.location}: an argument has no role")
        operation = value.owner
        offset: Dim
        if operation.name == "memref.cast":
            offset = 0
        elif operation.name == "memref.view":
            offset = self.size(operation.operands[1])
        elif operation.name == "memref.reinterpret_cast":
            (static,) = ir.DenseI64ArrayAttr(operation.attributes["static_offsets"])
            is_dynamic = static == ir.ShapedType.get_dynamic_stride_or_offset()
            offset = self.size(operation.operands[1]) if is_dynamic else static
            offset = offset * item_bytes(value)
        else:
            raise PassError(
                f"{operation.location}: `{operation.name}` has no place in a plan"
            )
        base, number, start = self._place(operation.operands[0])
        self._pointers[value] = (base, number, start + offset)
        return self._pointers[value]


def _size_operands(operation: ir.OpView) -> list[ir.Value]:
    """The operands that give the dimensions of a new buffer, or of a view."""
    operands = list(operation.operands)
    if operation.name == "memref.alloc":
        return operands
    if operation.name == "memref.view":
        return operands[2:]
    if operation.name == "memref.reinterpret_cast":
        _, offsets, sizes, _ = ir.DenseI32ArrayAttr(
            operation.attributes["operandSegmentSizes"]
        )
        return operands[1 + offsets : 1 + offsets + sizes]
    raise PassError(f"{operation.location}: `{operation.name}` has no place in a plan")


def item_bytes(value: ir.Value) -> int:
    """Of an element of a buffer."""
    element: Any = ir.MemRefType(value.type).element_type  # Any: has a width
    if isinstance(element, ir.VectorType):
        (lanes,) = element.shape
        inner: Any = element.element_type
        return lanes * -(-inner.width // 8)
    return -(-element.width // 8)
