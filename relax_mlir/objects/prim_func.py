"""Tensor programs of a module as Python objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mlir import ir

from relax_mlir.dialects.tir import marks
from relax_mlir.objects import names, prim, stmt
from relax_mlir.objects.argument_checks import instance_of, sequence_of
from relax_mlir.objects.attributes import from_attribute, to_attribute
from relax_mlir.objects.buffer import Buffer
from relax_mlir.objects.expr import Attrs
from relax_mlir.objects.function import BaseFunc
from relax_mlir.objects.pointers import Pointer
from relax_mlir.objects.prim import PrimExpr, Var
from relax_mlir.objects.stmt_functor import stamp_places, substitute
from relax_mlir.objects.stmt_spelling import spell_program
from relax_mlir.objects.stmt_writer import write_statement
from relax_mlir.objects.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from relax_mlir.objects.tir_reader import ProgramReader
from relax_mlir.objects.tir_writer import ProgramWriter

if TYPE_CHECKING:
    from relax_mlir.objects.structure import Spelling

__all__ = ["PrimFunc"]


class PrimFunc(BaseFunc):
    """A tensor program: a view of it in a module.

    Args:
        params: pointers, buffers and numbers.
        body: what it does.
        ret_type: type of what it returns; None for nothing.
        buffer_map: the buffer of each pointer.
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
        writer = ProgramWriter(str(found.get("global_symbol", "main")), is_open=True)
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
        write_statement(writer, _without_root(stmt.stmt_seq(body), writer))
        written = writer.finish(found, None if ret_type is None else str(ret_type))
        self.module, self.name = written.module, written.name

    def _read(self) -> ProgramReader:
        return ProgramReader(self.op, self.module.scope(self.name))

    def read(self) -> tuple[ProgramReader, stmt.Stmt]:
        """Parameters and body, which mention the same variables."""
        with self.op.context:
            reader = self._read()
            return reader, reader.body()

    @property
    def params(self) -> list[Var]:
        """Pointers and numbers, as a script lists them."""
        with self.op.context:
            return self._read().params

    @property
    def buffer_map(self) -> dict[Var, Buffer]:
        """The buffer of each pointer."""
        with self.op.context:
            return self._read().buffer_map

    @property
    def body(self) -> stmt.Stmt:
        """What it does."""
        with self.op.context:
            found = self._read().body()
        stamp_places(found, ".body")
        return found

    @property
    def ret_type(self) -> str | None:
        """Type of what it returns; None for nothing."""
        attributes = self.op.attributes
        if marks.RETURN_TYPE not in attributes:
            return None
        return ir.StringAttr(attributes[marks.RETURN_TYPE]).value

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
        """Its attributes, ``global_symbol`` among them if other modules see it."""
        op = self.op
        values: dict[str, Any] = {}
        if not names.is_private(op):
            values["global_symbol"] = self.name
        if names.ATTRS in op.attributes:
            values.update(from_attribute(op.attributes[names.ATTRS]))
        return Attrs(values)

    def _set_attrs(self, attrs: Mapping[str, Any]) -> None:
        op = self.op
        kept = {k: v for k, v in attrs.items() if k != "global_symbol"}
        with op.context, ir.Location.unknown():
            for name in (names.ATTRS, "sym_visibility"):
                if name in op.attributes:
                    del op.attributes[name]
            if kept:
                op.attributes[names.ATTRS] = to_attribute(kept)
            if "global_symbol" not in attrs:
                op.attributes["sym_visibility"] = ir.StringAttr.get("private")

    def with_body(self, new_body: Any, span: object = None) -> PrimFunc:
        """The same program with another body."""
        return PrimFunc(
            self.params, new_body, self.ret_type, self.buffer_map, self.attrs
        )

    def specialize(self, param_map: Mapping[Var, Any]) -> PrimFunc:
        """The program for known sizes.

        Args:
            param_map: a buffer per pointer, or a number per parameter that is one.

        Raises:
            ValueError: a buffer does not fit, or what is mapped is no parameter.
        """
        if not param_map:
            return self
        with self.op.context:
            sizes = _known_sizes(self._read(), param_map)
        given = {id(p): b for p, b in param_map.items() if isinstance(b, Buffer)}
        return self._with(sizes, {p: b.scope() for p, b in given.items()})

    def size_vars(self) -> list[Var]:
        """The variables that sizes are, in the order in which calls pass them."""
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
        """The program with these values of the variables that sizes are."""
        return self._with(sizes, {})

    def _with(self, sizes: Mapping[Var, Any], scopes: Mapping[int, str]) -> PrimFunc:
        """The program with sizes, and parameters in other memory, by their ids."""
        reader, body = self.read()
        known = dict(sizes)  # and the pointers to buffers that others replace
        replaced: dict[int, Buffer] = {}
        owned = [(b, b.scope()) for b in _allocated(body)]
        given = [
            (b, scopes.get(id(p), b.scope())) for p, b in reader.buffer_map.items()
        ]
        for old, scope in (*given, *owned):
            made = _specialized(old, known, scope)
            replaced[id(old)] = made
            if made.data is not old.data and old.owns_data:
                known[old.data] = made.data
        params = [p for p in reader.params if not any(p is var for var in sizes)]
        buffers = {
            handle: replaced[id(buffer)] for handle, buffer in reader.buffer_map.items()
        }
        new = substitute(body, known, replaced)
        made = PrimFunc(params, new, self.ret_type, buffers, self.attrs)
        outputs = self.op.attributes["tir.num_outputs"]
        with made.op.context, ir.Location.unknown():
            made.op.attributes["tir.num_outputs"] = ir.Attribute.parse(str(outputs))
        return made

    def spell(self, spelling: Spelling) -> None:
        """Its structure; see :mod:`.structure`."""
        spell_program(spelling, self)


def _without_root(body: stmt.Stmt, writer: ProgramWriter) -> stmt.Stmt:
    """The statements of a program without the block that all of it stands in."""
    if not isinstance(body, stmt.BlockRealize) or body.block.iter_vars:
        return body
    root = body.block
    if root.name_hint != "root" or root.init is not None or root.annotations:
        return body
    for buffer in root.alloc_buffers:
        writer.alloc(buffer)
    return root.body


def _known_sizes(
    reader: ProgramReader, param_map: Mapping[Var, Any]
) -> dict[Var, PrimExpr]:
    """What the variables of sizes are, given some parameters."""
    sizes: dict[Var, PrimExpr] = {}
    for param, value in param_map.items():
        if not any(param is p for p in reader.params):
            raise ValueError(f"`{param.name}` is no parameter of the program")
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
    new = [prim.substitute(term, sizes) for term in old]
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


def _allocated(body: stmt.Stmt) -> list[Buffer]:
    found: list[Buffer] = []
    if isinstance(body, stmt.Block):
        found += [*body.alloc_buffers, *(m.buffer for m in body.match_buffers)]
    if isinstance(body, stmt.DeclBuffer):
        found.append(body.buffer)
    for field in ("seq", "block", "init", "then_case", "else_case", "body"):
        inner = getattr(body, field, None)
        for part in inner if isinstance(inner, tuple) else (inner,):
            if isinstance(part, stmt.Stmt):
                found += _allocated(part)
    return found
