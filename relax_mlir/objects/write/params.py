"""Maps the parameters of a tensor program to function arguments.

A script has pointers and scalars in any order; the function has buffers first, then sizes
(parameters and symbols of buffer shapes), then other scalars.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import tensors
from relax_mlir.dialects.tir import attribute_names
from relax_mlir.ir import function_attributes
from relax_mlir.objects import prim
from relax_mlir.objects.mlir_attributes import to_attribute
from relax_mlir.objects.prim import PrimExpr, Var
from relax_mlir.objects.prim.symbolic_sizes import Symbols
from relax_mlir.objects.prim.value_types import pointee, scalar_type
from relax_mlir.objects.scope import FunctionScope
from relax_mlir.objects.stmt.buffer import Buffer
from relax_mlir.objects.write.memref import (
    buffer_and_views,
    buffer_attributes,
    memref_type,
)
from relax_mlir.objects.write.prim_expr import PrimExprWriter

__all__ = ["PrimFuncParams"]


class PrimFuncParams:
    """The parameters of a PrimFunc.

    Attributes:
        order: pointer and scalar parameters, in the order of the script.
        buffers: the buffer of each pointer, by the pointer's id.
        symbols: the symbol table of sizes.
    """

    def __init__(self) -> None:
        self.order: list[Var] = []
        self.buffers: dict[int, Buffer] = {}
        self.symbols = Symbols()
        self._sizes: list[Var] = []

    def add(self, var: Var) -> None:
        """Adds a parameter."""
        self.order.append(var)

    def match(self, handle: Var, buffer: Buffer) -> None:
        """Binds a pointer parameter to a buffer.

        Raises:
            ValueError: the pointer is not a parameter, or is bound already.
        """
        if not any(handle is var for var in self.order):
            raise ValueError(f"`{handle.name}` is not a parameter: expected a pointer")
        if id(handle) in self.buffers:
            raise ValueError(f"`{handle.name}` has a buffer already")
        self.buffers[id(handle)] = buffer

    def _buffer_params(self) -> list[tuple[Var, Buffer]]:
        return [
            (var, self.buffers[id(var)])
            for var in self.order
            if id(var) in self.buffers
        ]

    def _scalars(self) -> list[Var]:
        return [v for v in self.order if id(v) not in self.buffers]

    def _is_size(self, var: Var) -> bool:
        return var.dtype in ("int32", "int64")

    def create(self, function: func.FuncOp, exprs: PrimExprWriter) -> None:
        """Creates the arguments of the function and defines their values."""
        block, loc = function.entry_block, ir.Location.unknown()
        for handle, buffer in self._buffer_params():
            exprs.define_by_caller(handle)
            exprs.define_buffer(buffer, block.add_argument(memref_type(buffer), loc))
        explicit = [v for v in self._scalars() if self._is_size(v)]
        shapes = [s for _, b in self._buffer_params() for s in (*b.shape, *b.strides)]
        implicit = _variables(shapes)
        self._sizes = list({id(v): v for v in (*implicit, *explicit)}.values())
        for var in self._sizes:
            self.symbols.name(var)
            value = block.add_argument(ir.IndexType.get(), loc)
            exprs.define(var, value)
            if isinstance(var, prim.SizeVar) or any(var is v for v in implicit):
                exprs.sizes.add(value)
        for var in self._others():
            exprs.define(var, block.add_argument(_scalar_type(var), loc))

    def _others(self) -> list[Var]:
        return [v for v in self._scalars() if not self._is_size(v)]

    def mark(self, function: func.FuncOp, outputs: int | None) -> None:
        """Sets type and attributes of the function, after its body is written."""
        matched = self._buffer_params()
        arguments = list(function.entry_block.arguments)
        types = [a.type for a in arguments]
        function.attributes["function_type"] = ir.TypeAttr.get(
            ir.FunctionType.get(types, [])
        )
        attributes = function.attributes
        attributes[attribute_names.PRIM_FUNC] = ir.UnitAttr.get()
        count = _output_count(arguments[: len(matched)]) if outputs is None else outputs
        attributes["tir.num_outputs"] = to_attribute(count)
        order = self._order()
        natural = sorted(order)
        if order != natural:
            attributes[attribute_names.ORDER] = ir.DenseI64ArrayAttr.get(order)
        described = [
            *(self._describe(handle, buffer) for handle, buffer in matched),
            *map(self._describe_size, self._sizes),
            *map(_describe_scalar, self._others()),
        ]
        if described:
            attributes["arg_attrs"] = ir.ArrayAttr.get(
                [ir.DictAttr.get(d) for d in described]
            )

    def _order(self) -> list[int]:
        """The argument number of each parameter."""
        listed = [*(h for h, _ in self._buffer_params()), *self._sizes, *self._others()]
        number = {id(var): i for i, var in enumerate(listed)}
        return [number[id(var)] for var in self.order]

    def _describe(self, handle: Var, buffer: Buffer) -> dict[str, ir.Attribute]:
        attributes = dict(buffer_attributes(buffer))
        attributes[function_attributes.NAME] = ir.StringAttr.get(buffer.name)
        if handle.name != f"var_{buffer.name}":
            attributes[attribute_names.HANDLE] = ir.StringAttr.get(handle.name)
        if any(not isinstance(s, prim.IntImm) for s in buffer.shape):
            attributes["tir.shape"] = tensors.shape_attr(
                self.symbols.dims(buffer.shape)
            )
        return attributes

    def _describe_size(self, var: Var) -> dict[str, ir.Attribute]:
        attributes: dict[str, ir.Attribute] = {
            attribute_names.SYMBOL: ir.StringAttr.get(self.symbols.name(var)),
            function_attributes.NAME: ir.StringAttr.get(var.name),
        }
        if any(var is v for v in self.order):
            attributes[attribute_names.PARAM] = ir.UnitAttr.get()
        if var.dtype != "int64":
            attributes[attribute_names.DTYPE] = ir.StringAttr.get(var.dtype)
        return attributes

    def scope(self) -> FunctionScope:
        """The scope with the objects of the function's arguments."""
        scope = FunctionScope()
        scope.symbols = self.symbols
        matched = self._buffer_params()
        listed = [*matched, *((v, None) for v in (*self._sizes, *self._others()))]
        scope.arguments = dict(enumerate(listed))
        return scope


def _variables(exprs: Sequence[PrimExpr]) -> list[Var]:
    """The variables of expressions, in order of first use."""
    attributes = {
        id(t): t for expr in exprs for t in prim.post_order(expr) if isinstance(t, Var)
    }
    return list(attributes.values())


def _scalar_type(var: Var) -> ir.Type:
    return scalar_type(var.dtype)


def _describe_scalar(var: Var) -> dict[str, ir.Attribute]:
    attributes: dict[str, ir.Attribute] = {
        function_attributes.NAME: ir.StringAttr.get(var.name),
        attribute_names.PARAM: ir.UnitAttr.get(),
    }
    attributes |= pointee(var)
    if var.dtype.startswith("uint"):
        attributes[attribute_names.DTYPE] = ir.StringAttr.get(var.dtype)
    return attributes


def _output_count(buffers: Sequence[ir.Value]) -> int:
    """The number of buffers from the first written one to the last."""
    for number, buffer in enumerate(buffers):
        uses = [
            use.owner.operation
            for part in buffer_and_views(buffer)
            for use in part.uses
        ]
        if any(map(_may_write, uses)):
            return len(buffers) - number
    return 0


def _may_write(op: ir.Operation) -> bool:
    if op.name == "tir.address":
        return any(u.owner.name != "tir.decl_buffer" for u in op.results[0].uses)
    return op.name in ("memref.store", "tir.vector_store")
