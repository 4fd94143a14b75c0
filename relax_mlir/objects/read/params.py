"""Reads the arguments of a tensor program as parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mlir import ir
from mlir.dialects import func

from relax_mlir.analysis.symbol_substitution import layout_size
from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.tir import attribute_names
from relax_mlir.ir import function_attributes
from relax_mlir.objects import prim
from relax_mlir.objects.mlir_attributes import from_attribute
from relax_mlir.objects.prim import PrimExpr, Var
from relax_mlir.objects.prim.pointers import Pointer, PointerType
from relax_mlir.objects.prim.symbolic_sizes import Symbols
from relax_mlir.objects.read.prim_expr import PrimExprReader, value_dtype
from relax_mlir.objects.scope import FunctionScope
from relax_mlir.objects.stmt.buffer import Buffer

__all__ = ["PrimFuncArguments", "annotations_of", "string_attr", "variable_of"]


class PrimFuncArguments:
    """The arguments of one PrimFunc as parameters and buffers.

    Args:
        function: the PrimFunc in MLIR.
        scope: the objects of its arguments, completed with those that are read first.
        exprs: the expression reader, which learns about the arguments.

    Attributes:
        params: pointer and scalar parameters, in the order of the script.
        buffer_map: the buffer of each pointer parameter.
    """

    def __init__(
        self, function: func.FuncOp, scope: FunctionScope, exprs: PrimExprReader
    ) -> None:
        self._function, self._scope, self._exprs = function, scope, exprs
        self.params: list[Var] = []
        self.buffer_map: dict[Var, Buffer] = {}
        self._read_arguments()

    def _read_arguments(self) -> None:
        attributes = self._function.attributes
        arguments = list(self._function.entry_block.arguments)
        described: list[Any] = [ir.DictAttr.get({})] * len(arguments)
        if "arg_attrs" in attributes:
            described = [ir.DictAttr(a) for a in ir.ArrayAttr(attributes["arg_attrs"])]
        self._read_sizes(arguments, described)
        listed = [
            self._argument(number, argument, attrs)
            for number, (argument, attrs) in enumerate(
                zip(arguments, described, strict=True)
            )
        ]
        order = range(len(listed))
        if attribute_names.ORDER in attributes:
            order = list(ir.DenseI64ArrayAttr(attributes[attribute_names.ORDER]))
        self.params = [var for i in order if (var := listed[i]) is not None]

    def _read_sizes(
        self, arguments: Sequence[ir.Value], described: Sequence[Any]
    ) -> None:
        """Reads the size variables, which buffer shapes refer to."""
        implicit = {
            name
            for attrs in described
            if "tir.shape" in attrs
            for dim in tensors.python_value(attrs["tir.shape"])
            if not isinstance(dim, int)
            for name in shapes.symbols_of(dim)
        }
        for number, (argument, attrs) in enumerate(
            zip(arguments, described, strict=True)
        ):
            if not isinstance(argument.type, ir.IndexType):
                continue
            symbol = ir.StringAttr(attrs[attribute_names.SYMBOL]).value
            known = self._scope.arguments.get(number, (None, None))[0]
            if known is None:
                known = Var(
                    string_attr(attrs, function_attributes.NAME, symbol),
                    string_attr(attrs, attribute_names.DTYPE, "int64"),
                )
                self._scope.arguments[number] = (known, None)
            self._scope.symbols.alias(known, symbol)
            self._exprs.leaves[argument] = known
            if symbol in implicit:
                self._exprs.indices.sizes.add(argument)

    def _argument(self, number: int, argument: ir.Value, attrs: Any) -> Var | None:
        """The parameter of an argument; None for implicit sizes of buffers."""
        if isinstance(argument.type, ir.MemRefType):
            handle, buffer = self._buffer_argument(number, argument, attrs)
            self._exprs.buffers[argument] = buffer
            self.buffer_map[handle] = buffer
            return handle
        if isinstance(argument.type, ir.IndexType):
            var = self._scope.arguments[number][0]
            return var if attribute_names.PARAM in attrs else None
        var = self._scope.arguments.get(number, (None, None))[0]
        if var is None:
            var = _scalar(number, argument, attrs)
            self._scope.arguments[number] = (var, None)
        self._exprs.leaves[argument] = var
        return var

    def _buffer_argument(
        self, number: int, argument: ir.Value, attrs: Any
    ) -> tuple[Var, Buffer]:
        known = self._scope.arguments.get(number)
        if known is not None:
            return known
        name = string_attr(attrs, function_attributes.NAME, f"arg{number}")
        type_ = ir.MemRefType(argument.type)
        dims = tuple(type_.shape)
        if not type_.has_static_shape:
            dims = tensors.python_value(attrs["tir.shape"])
        buffer = self.buffer(name, type_, dims, attrs)
        handle = Pointer(string_attr(attrs, attribute_names.HANDLE, f"var_{name}"))
        self._scope.arguments[number] = (handle, buffer)
        return handle, buffer

    def buffer(
        self,
        name: str,
        type_: ir.MemRefType,
        dims: Sequence[Any],
        attrs: Any,
        data: Any = None,
    ) -> Buffer:
        """The buffer of a memref and its additional attributes."""
        dtype = string_attr(
            attrs, attribute_names.DTYPE, dtypes.from_mlir(type_.element_type).name
        )
        size_dtype = string_attr(attrs, attribute_names.SIZE_DTYPE, "int32")
        shape = [self.size(d, size_dtype) for d in dims]
        extras = (
            from_attribute(attrs[attribute_names.BUFFER])
            if attribute_names.BUFFER in attrs
            else {}
        )
        space = type_.memory_space
        offset = extras.get("elem_offset")
        buffer = Buffer(
            shape,
            dtype,
            name,
            data,
            strides=[self._stride_or_offset(s) for s in extras.get("strides", ())],
            elem_offset=None if offset is None else self._stride_or_offset(offset),
            scope="global" if space is None else ir.StringAttr(space).value,
            data_alignment=extras.get("align", -1),
            offset_factor=extras.get("offset_factor", 0),
            buffer_type=extras.get("buffer_type", ""),
            axis_separators=extras.get("axis_separators"),
        )
        if buffer.has_own_offset:
            self._make_offset_unique(buffer)
        return buffer

    def _make_offset_unique(self, buffer: Buffer) -> None:
        """Creates a new offset variable if another buffer has the one of this name."""
        if any(
            b.elem_offset is buffer.elem_offset for b in self._exprs.buffers.values()
        ):
            old = buffer.elem_offset
            buffer.elem_offset = Var(str(old), old.dtype)

    def layout_variable(self, name: str) -> Var | None:
        """The pointer, stride or offset variable of this name, or None."""
        for handle in self.buffer_map:
            if handle.name == name:
                return handle
        for buffer in reversed(self._exprs.buffers.values()):
            for expr in (buffer.elem_offset, *buffer.strides):
                if isinstance(expr, Var) and expr.name == name:
                    return expr
        return None

    def size(self, dim: Any, dtype: str) -> PrimExpr:
        """A size of the IR as a scalar expression."""
        if isinstance(dim, int):
            return prim.const(dim, dtype)
        return self._symbols.expr(dim)

    @property
    def _symbols(self) -> Symbols:
        return self._scope.symbols

    def _stride_or_offset(self, text: str) -> PrimExpr:
        """A stride or offset: the name of a variable, a number, or an expression of sizes."""
        if text.isdigit():
            return prim.const(int(text))
        size = layout_size(text)
        if size is not None:
            return self._symbols.expr(size)
        known = self._exprs.leaves.values()
        found = (v for v in known if isinstance(v, Var) and v.name == text)
        known = next(found, None)
        return Var(text, "int32") if known is None else known


def string_attr(attrs: Any, name: str, default: str) -> str:
    """A string attribute, with a default."""
    return ir.StringAttr(attrs[name]).value if name in attrs else default


def annotations_of(attrs: Any) -> Mapping[str, Any]:
    """The annotations of a loop or a block."""
    if attribute_names.ANNOTATIONS not in attrs:
        return {}
    return from_attribute(attrs[attribute_names.ANNOTATIONS])


def _scalar(number: int, argument: ir.Value, attrs: Any) -> Var:
    name = string_attr(attrs, function_attributes.NAME, f"arg{number}")
    dtype = string_attr(attrs, attribute_names.DTYPE, value_dtype(argument))
    return variable_of(name, dtype, attrs)


def variable_of(name: str, dtype: str, attrs: Any) -> Var:
    """A variable or pointer variable."""
    return Pointer(name, _pointee(attrs)) if dtype == "handle" else Var(name, dtype)


def _pointee(attrs: Any) -> PointerType | None:
    """The pointee type of a pointer, if it is annotated."""
    if attribute_names.POINTEE not in attrs:
        return None
    element, scope = from_attribute(attrs[attribute_names.POINTEE])
    return PointerType(element, scope)
