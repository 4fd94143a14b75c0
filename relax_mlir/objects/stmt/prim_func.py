"""PrimFuncs: the tensor programs of a module as Python objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mlir import ir

from relax_mlir.dialects.tir import attribute_names
from relax_mlir.ir import function_attributes
from relax_mlir.objects import prim
from relax_mlir.objects.argument_checks import instance_of, sequence_of
from relax_mlir.objects.compare.token_stream import encode_prim_func
from relax_mlir.objects.expr import Attrs
from relax_mlir.objects.expr.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from relax_mlir.objects.function import BaseFunc
from relax_mlir.objects.mlir_attributes import from_attribute, to_attribute
from relax_mlir.objects.prim import PrimExpr, Var
from relax_mlir.objects.prim.pointers import Pointer
from relax_mlir.objects.read.prim_func import PrimFuncReader
from relax_mlir.objects.stmt import statements
from relax_mlir.objects.stmt.buffer import Buffer
from relax_mlir.objects.stmt.functor import set_statement_paths, substitute
from relax_mlir.objects.write.prim_func import PrimFuncWriter
from relax_mlir.objects.write.statements import write_statement

if TYPE_CHECKING:
    from relax_mlir.objects.compare.structural_equal import StructuralEncoder

__all__ = ["PrimFunc"]


class PrimFunc(BaseFunc):
    """A tensor program: a view of a TIR function in a module.

    Args:
        params: pointer, buffer and scalar parameters.
        body: its statement.
        ret_type: type of its return value; None for none.
        buffer_map: the buffer of each pointer parameter.
        attrs: its attributes.
    """

    def __init__(
        self,
        params: Sequence[Any],
        body: Any,
        ret_type: Any = None,
        buffer_map: Mapping[Var, Buffer] | None = None,
        attrs: Mapping[str, Any] | None = None,
        span: object = None,
    ) -> None:
        found = dict(attrs or {})
        writer = PrimFuncWriter(
            str(found.get("global_symbol", "main")), allows_free_vars=True
        )
        given = {id(var): buffer for var, buffer in (buffer_map or {}).items()}
        for param in sequence_of(params, "PrimFunc: `params`", "parameters"):
            instance_of(
                param, (Var, Buffer), "PrimFunc: `params`", "variables, buffers"
            )
            if isinstance(param, Buffer):
                writer.buffer_param(param)
            elif id(param) in given:
                writer.buffer_param(given[id(param)], param)
            else:
                writer.scalar_param(param)
        write_statement(writer, _without_root(statements.stmt_seq(body), writer))
        written = writer.finish(found, None if ret_type is None else str(ret_type))
        self.module, self.name = written.module, written.name

    def _read(self) -> PrimFuncReader:
        return PrimFuncReader(self.op, self.module.scope(self.name))

    def read(self) -> tuple[PrimFuncReader, statements.Stmt]:
        """Parameters and body, which share variables."""
        with self.op.context:
            reader = self._read()
            return reader, reader.body()

    @property
    def params(self) -> list[Var]:
        """The pointer and scalar parameters, in order."""
        with self.op.context:
            return self._read().params

    @property
    def buffer_map(self) -> dict[Var, Buffer]:
        """The buffer of each pointer parameter."""
        with self.op.context:
            return self._read().buffer_map

    @property
    def body(self) -> statements.Stmt:
        """Its statement."""
        with self.op.context:
            found = self._read().body()
        set_statement_paths(found, ".body")
        return found

    @property
    def ret_type(self) -> str | None:
        """Type of its return value; None for none."""
        attributes = self.op.attributes
        if attribute_names.RETURN_TYPE not in attributes:
            return None
        return ir.StringAttr(attributes[attribute_names.RETURN_TYPE]).value

    @property
    def __name__(self) -> str:
        return self.name

    def struct_info_or_none(self) -> StructInfo:
        with self.op.context:
            reader = self._read()
        infos: list[StructInfo] = []
        for param in reader.params:
            buffer = reader.buffer_map.get(param)
            if buffer is not None:
                shape = [prim.cast("int64", size) for size in buffer.shape]
                infos.append(TensorStructInfo(shape, buffer.dtype))
            elif isinstance(param, Pointer):
                infos.append(ObjectStructInfo())
            else:
                infos.append(PrimStructInfo(param.dtype))
        result = self.ret_type
        returned = TupleStructInfo([]) if result is None else PrimStructInfo(result)
        is_pure = result is not None and not self._output_count()
        return FuncStructInfo(infos, returned, is_pure)

    def _output_count(self) -> int:
        return ir.IntegerAttr(self.op.attributes["tir.num_outputs"]).value

    @property
    def attrs(self) -> Attrs:
        """Its attributes; ``global_symbol`` is present if the function is public."""
        op = self.op
        values: dict[str, Any] = {}
        if not function_attributes.is_private(op):
            values["global_symbol"] = self.name
        if function_attributes.ATTRS in op.attributes:
            values.update(from_attribute(op.attributes[function_attributes.ATTRS]))
        return Attrs(values)

    def _set_attrs(self, attrs: Mapping[str, Any]) -> None:
        op = self.op
        kept = {k: v for k, v in attrs.items() if k != "global_symbol"}
        with op.context, ir.Location.unknown():
            for name in (function_attributes.ATTRS, "sym_visibility"):
                if name in op.attributes:
                    del op.attributes[name]
            if kept:
                op.attributes[function_attributes.ATTRS] = to_attribute(kept)
            if "global_symbol" not in attrs:
                op.attributes["sym_visibility"] = ir.StringAttr.get("private")

    def with_body(self, new_body: Any, span: object = None) -> PrimFunc:
        """The same PrimFunc with another body."""
        return PrimFunc(
            self.params, new_body, self.ret_type, self.buffer_map, self.attrs
        )

    def specialize(self, param_map: Mapping[Var, Any]) -> PrimFunc:
        """The PrimFunc specialized to given parameters.

        Args:
            param_map: a buffer for a pointer parameter, or a value for a scalar parameter.

        Raises:
            ValueError: a buffer does not match, or a key is not a parameter.
        """
        if not param_map:
            return self
        with self.op.context:
            sizes = _known_sizes(self._read(), param_map)
        given = {id(p): b for p, b in param_map.items() if isinstance(b, Buffer)}
        return self._with(sizes, {p: b.scope() for p, b in given.items()})

    def size_vars(self) -> list[Var]:
        """The symbolic-size variables, in the order of the calling convention."""
        with self.op.context:
            self._read()
        known = self.module.scope(self.name).arguments
        types = self.op.type.inputs
        return [
            known[number][0]
            for number, type_ in enumerate(types)
            if isinstance(type_, ir.IndexType)
        ]

    def with_sizes(self, sizes: Mapping[Var, Any]) -> PrimFunc:
        """The PrimFunc with values substituted for symbolic sizes."""
        return self._with(sizes, {})

    def _with(self, sizes: Mapping[Var, Any], scopes: Mapping[int, str]) -> PrimFunc:
        """Substitutes sizes and the memory scopes of parameters (by parameter id)."""
        reader, body = self.read()
        known = dict(sizes)  # plus the data pointers of replaced buffers
        replaced: dict[int, Buffer] = {}
        owned = [(b, b.scope()) for b in _allocated(body)]
        given = [
            (b, scopes.get(id(p), b.scope())) for p, b in reader.buffer_map.items()
        ]
        for old, scope in (*given, *owned):
            result = _specialized(old, known, scope)
            replaced[id(old)] = result
            if result.data is not old.data and old.owns_data:
                known[old.data] = result.data
        params = [p for p in reader.params if not any(p is var for var in sizes)]
        buffers = {
            handle: replaced[id(buffer)] for handle, buffer in reader.buffer_map.items()
        }
        new = substitute(body, known, replaced)
        result = PrimFunc(params, new, self.ret_type, buffers, self.attrs)
        outputs = self.op.attributes["tir.num_outputs"]
        with result.op.context, ir.Location.unknown():
            result.op.attributes["tir.num_outputs"] = ir.Attribute.parse(str(outputs))
        return result

    def encode_structure(self, encoder: StructuralEncoder) -> None:
        """Encodes its structure; see :mod:`relax_mlir.objects.compare.token_stream`."""
        encode_prim_func(encoder, self)


def _without_root(body: statements.Stmt, writer: PrimFuncWriter) -> statements.Stmt:
    """The body without its root block."""
    if not isinstance(body, statements.BlockRealize) or body.block.iter_vars:
        return body
    root = body.block
    if root.name_hint != "root" or root.init is not None or root.annotations:
        return body
    for buffer in root.alloc_buffers:
        writer.alloc(buffer)
    return root.body


def _known_sizes(
    reader: PrimFuncReader, param_map: Mapping[Var, Any]
) -> dict[Var, PrimExpr]:
    """The values of the symbolic sizes, given some parameters."""
    sizes: dict[Var, PrimExpr] = {}
    for param, value in param_map.items():
        if not any(param is p for p in reader.params):
            raise ValueError(f"`{param.name}` is not a parameter of the program")
        if not isinstance(value, Buffer):
            sizes[param] = prim.cast(param.dtype, value)
            continue
        buffer = reader.buffer_map[param]
        if (buffer.dtype, buffer.ndim) != (value.dtype, value.ndim):
            raise ValueError(
                f"buffer `{buffer.name}`: expected one like {buffer}, got {value}"
            )
        ours, theirs = ((*b.shape, *b.strides, b.elem_offset) for b in (buffer, value))
        pairs = zip(ours, theirs, strict=len(buffer.strides) == len(value.strides))
        sizes |= {a: b for a, b in pairs if isinstance(a, Var)}
    return sizes


def _specialized(buffer: Buffer, sizes: Mapping[Var, PrimExpr], scope: str) -> Buffer:
    old = (*buffer.shape, *buffer.strides, buffer.elem_offset)
    new = [prim.substitute(expr, sizes) for expr in old]
    is_same = all(a is b for a, b in zip(new, old, strict=True))
    data = prim.substitute(buffer.data, sizes)
    if is_same and data is buffer.data and scope == buffer.scope():
        return buffer
    return Buffer(
        new[: buffer.ndim],
        buffer.dtype,
        buffer.name,
        None if buffer.owns_data else data,  # pyright: ignore[reportArgumentType]
        new[buffer.ndim : -1],
        new[-1],
        scope,
        buffer.data_alignment,
        buffer.offset_factor,
        buffer.buffer_type,
        buffer.axis_separators,
    )


def _allocated(body: statements.Stmt) -> list[Buffer]:
    found: list[Buffer] = []
    if isinstance(body, statements.Block):
        found += [*body.alloc_buffers, *(m.buffer for m in body.match_buffers)]
    if isinstance(body, statements.DeclBuffer):
        found.append(body.buffer)
    for field in ("seq", "block", "init", "then_case", "else_case", "body"):
        inner = getattr(body, field, None)
        for part in inner if isinstance(inner, tuple) else (inner,):
            if isinstance(part, statements.Stmt):
                found += _allocated(part)
    return found
