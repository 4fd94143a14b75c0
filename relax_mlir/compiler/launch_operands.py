"""Translation of SSA values into operands of launch plans: sizes and pointers."""

from __future__ import annotations

import math
from typing import Any

from mlir import ir
from mlir.dialects import func

from relax_mlir.analysis.index_maps import SIZE_ARITHMETIC, size_of_operation
from relax_mlir.analysis.prim_func_verifier import argument_shape, argument_symbols
from relax_mlir.errors import PassError
from relax_mlir.runtime.cuda.plan import Expression, Pointer
from relax_mlir.symbolic import dims
from relax_mlir.symbolic.dims import Dim

__all__ = ["ValueReader", "item_bytes", "size_expression"]


def size_expression(dim: Dim) -> Expression:
    """A size as launch plans represent it."""
    return dim if isinstance(dim, int) else str(dim)


class ValueReader:
    """Translates the SSA values of a lowered function into sizes and pointers."""

    def __init__(self, function: func.FuncOp) -> None:
        self._function = function
        self._sizes: dict[ir.Value, Dim] = {}
        self._pointers: dict[ir.Value, tuple[str, int, Dim]] = {}
        self._shapes: dict[ir.Value, tuple[Dim, ...]] = {}
        symbols = argument_symbols(function)
        self.size_names = tuple(symbols.values())
        self._sizes.update((v, dims.symbol(name)) for v, name in symbols.items())

    def size(self, value: ir.Value) -> Dim:
        """An integer value as an expression of the function's symbolic sizes.

        Raises:
            PassError: it depends on other values.
        """
        if value not in self._sizes:
            if isinstance(value.owner, ir.Block):
                raise PassError(
                    f"{self._function.location}: an argument is neither a size nor a buffer"
                )
            self._sizes[value] = self._computed(value.owner)
        return self._sizes[value]

    def _computed(self, operation: ir.OpView) -> Dim:
        if operation.name == "arith.constant":
            return ir.IntegerAttr(operation.attributes["value"]).value
        if operation.name not in SIZE_ARITHMETIC:
            raise PassError(
                f"{operation.location}: `{operation.name}` is unsupported in sizes of a "
                "launch plan"
            )
        size = size_of_operation(
            operation.name, list(map(self.size, operation.operands))
        )
        if size is None:
            raise PassError(
                f"{operation.location}: `{operation.name}` of a value that may be negative "
                "is unsupported in sizes of a launch plan"
            )
        return size

    def shape(self, value: ir.Value) -> tuple[Dim, ...]:
        """The shape of a buffer."""
        if value not in self._shapes:
            type_ = ir.MemRefType(value.type)
            if isinstance(value.owner, ir.Block):
                number = ir.BlockArgument(value).arg_number
                self._shapes[value] = tuple(argument_shape(self._function, number))
            elif value.owner.name == "memref.cast":
                self._shapes[value] = self.shape(value.owner.operands[0])
            else:
                dynamic = map(self.size, _size_operands(value.owner))
                self._shapes[value] = tuple(
                    n if n >= 0 else next(dynamic) for n in type_.shape
                )
        return self._shapes[value]

    def size_bytes(self, value: ir.Value) -> Dim:
        """Size of a buffer in bytes."""
        return math.prod(self.shape(value), start=item_bytes(value))

    def pointer(self, value: ir.Value) -> Pointer:
        """The start address of a buffer.

        Raises:
            PassError: launch plans do not support its kind of view.
        """
        base, number, offset = self._address(value)
        return Pointer(base, number, size_expression(offset))

    def _address(self, value: ir.Value) -> tuple[str, int, Dim]:
        if value in self._pointers:
            return self._pointers[value]
        if isinstance(value.owner, ir.Block):
            raise PassError(f"{self._function.location}: a buffer argument has no role")
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
                f"{operation.location}: `{operation.name}` is unsupported in a launch plan"
            )
        base, number, start = self._address(operation.operands[0])
        self._pointers[value] = (base, number, start + offset)
        return self._pointers[value]


def _size_operands(operation: ir.OpView) -> list[ir.Value]:
    """The dynamic sizes among the operands of an allocation or view."""
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
    raise PassError(
        f"{operation.location}: `{operation.name}` is unsupported in a launch plan"
    )


def item_bytes(value: ir.Value) -> int:
    """Size of an element of a buffer, in bytes."""
    element: Any = ir.MemRefType(value.type).element_type  # Any: has a width
    if isinstance(element, ir.VectorType):
        (lanes,) = element.shape
        inner: Any = element.element_type
        return lanes * -(-inner.width // 8)
    return -(-element.width // 8)
