"""The arguments of a tensor program read as its parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.tir import marks
from relax_mlir.objects import names, prim
from relax_mlir.objects.attributes import from_attribute
from relax_mlir.objects.buffer import Buffer
from relax_mlir.objects.pointers import Pointer, PointerType
from relax_mlir.objects.prim import PrimExpr, Var
from relax_mlir.objects.scope import FunctionScope
from relax_mlir.objects.sizes import Symbols
from relax_mlir.objects.term_reader import TermReader, dtype_of
from relax_mlir.renaming import layout_size

__all__ = ["Arguments", "annotations_of", "text_of", "variable_of"]


class Arguments:
    """Reads the arguments of one program, and tells a term reader what they are.

    Args:
        function: the program.
        scope: which objects its arguments are; what is read first is remembered there.
        terms: gets to know them.

    Attributes:
        params: pointers and numbers, as a script lists them.
        buffer_map: the buffer of each pointer.
    """

    def __init__(
        self, function: func.FuncOp, scope: FunctionScope, terms: TermReader
    ) -> None:
        self._function, self._scope, self._terms = function, scope, terms
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
        if marks.ORDER in attributes:
            order = list(ir.DenseI64ArrayAttr(attributes[marks.ORDER]))
        self.params = [var for i in order if (var := listed[i]) is not None]

    def _read_sizes(
        self, arguments: Sequence[ir.Value], described: Sequence[Any]
    ) -> None:
        """The variables that sizes are; shapes of buffers mention them."""
        told = {
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
            symbol = ir.StringAttr(attrs[marks.SYMBOL]).value
            known = self._scope.arguments.get(number, (None, None))[0]
            if known is None:
                known = Var(
                    text_of(attrs, names.NAME, symbol),
                    text_of(attrs, marks.DTYPE, "int64"),
                )
                self._scope.arguments[number] = (known, None)
            self._scope.symbols.alias(known, symbol)
            self._terms.terms[argument] = known
            if symbol in told:
                self._terms.indices.sizes.add(argument)

    def _argument(self, number: int, argument: ir.Value, attrs: Any) -> Var | None:
        """The parameter that an argument is; None for sizes that buffers tell."""
        if isinstance(argument.type, ir.MemRefType):
            handle, buffer = self._buffer_argument(number, argument, attrs)
            self._terms.buffers[argument] = buffer
            self.buffer_map[handle] = buffer
            return handle
        if isinstance(argument.type, ir.IndexType):
            var = self._scope.arguments[number][0]
            return var if marks.PARAM in attrs else None
        var = self._scope.arguments.get(number, (None, None))[0]
        if var is None:
            var = _scalar(number, argument, attrs)
            self._scope.arguments[number] = (var, None)
        self._terms.terms[argument] = var
        return var

    def _buffer_argument(
        self, number: int, argument: ir.Value, attrs: Any
    ) -> tuple[Var, Buffer]:
        known = self._scope.arguments.get(number)
        if known is not None:
            return known
        name = text_of(attrs, names.NAME, f"arg{number}")
        type_ = ir.MemRefType(argument.type)
        dims = tuple(type_.shape)
        if not type_.has_static_shape:
            dims = tensors.python_value(attrs["tir.shape"])
        buffer = self.buffer(name, type_, dims, attrs)
        handle = Pointer(text_of(attrs, marks.HANDLE, f"var_{name}"))
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
        """A buffer, from its memref and what that does not say."""
        dtype = text_of(attrs, marks.DTYPE, dtypes.from_mlir(type_.element_type).name)
        size_dtype = text_of(attrs, marks.SIZE_DTYPE, "int32")
        shape = [self.size(d, size_dtype) for d in dims]
        extras = from_attribute(attrs[marks.BUFFER]) if marks.BUFFER in attrs else {}
        space = type_.memory_space
        offset = extras.get("elem_offset")
        made = Buffer(
            shape,
            dtype,
            name,
            data,
            strides=[self._named(s) for s in extras.get("strides", ())],
            elem_offset=None if offset is None else self._named(offset),
            scope="global" if space is None else ir.StringAttr(space).value,
            data_alignment=extras.get("align", -1),
            offset_factor=extras.get("offset_factor", 0),
            buffer_type=extras.get("buffer_type", ""),
            axis_separators=extras.get("axis_separators"),
        )
        if made.has_own_offset:
            self._own_offset(made)
        return made

    def _own_offset(self, buffer: Buffer) -> None:
        """Another variable, if the one of this name is the offset of another buffer."""
        if any(
            b.elem_offset is buffer.elem_offset for b in self._terms.buffers.values()
        ):
            old = buffer.elem_offset
            buffer.elem_offset = Var(str(old), old.dtype)

    def placing(self, name: str) -> Var | None:
        """The pointer, stride or offset of a name, if there is one."""
        for handle in self.buffer_map:
            if handle.name == name:
                return handle
        for buffer in reversed(self._terms.buffers.values()):
            for term in (buffer.elem_offset, *buffer.strides):
                if isinstance(term, Var) and term.name == name:
                    return term
        return None

    def size(self, dim: Any, dtype: str) -> PrimExpr:
        """A size of the IR as a term."""
        if isinstance(dim, int):
            return prim.const(dim, dtype)
        return self._symbols.term(dim)

    @property
    def _symbols(self) -> Symbols:
        return self._scope.symbols

    def _named(self, text: str) -> PrimExpr:
        """A stride or an offset: a name, a number, or what sizes make up."""
        if text.isdigit():
            return prim.const(int(text))
        size = layout_size(text)
        if size is not None:
            return self._symbols.term(size)
        known = self._terms.terms.values()
        found = (v for v in known if isinstance(v, Var) and v.name == text)
        known = next(found, None)
        return Var(text, "int32") if known is None else known


def text_of(attrs: Any, name: str, default: str) -> str:
    """A string attribute, or what it is where it is left out."""
    return ir.StringAttr(attrs[name]).value if name in attrs else default


def annotations_of(attrs: Any) -> Mapping[str, Any]:
    """What schedules say of a loop or a block."""
    if marks.ANNOTATIONS not in attrs:
        return {}
    return from_attribute(attrs[marks.ANNOTATIONS])


def _scalar(number: int, argument: ir.Value, attrs: Any) -> Var:
    name = text_of(attrs, names.NAME, f"arg{number}")
    dtype = text_of(attrs, marks.DTYPE, dtype_of(argument))
    return variable_of(name, dtype, attrs)


def variable_of(name: str, dtype: str, attrs: Any) -> Var:
    """A variable; a pointer if it is one."""
    return Pointer(name, _pointee(attrs)) if dtype == "handle" else Var(name, dtype)


def _pointee(attrs: Any) -> PointerType | None:
    """What a pointer points to, where a script says it."""
    if marks.POINTEE not in attrs:
        return None
    element, scope = from_attribute(attrs[marks.POINTEE])
    return PointerType(element, scope)
