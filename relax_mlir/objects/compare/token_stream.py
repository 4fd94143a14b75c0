"""Structural encoding of tensor programs; see :mod:`.structural_equal`.

Names do not matter. Read and write regions count only if both programs give explicit ones.
Index arithmetic is encoded in canonical form and without bit widths.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from relax_mlir.objects import prim
from relax_mlir.objects.prim import IterVar, PrimExpr, Range, Var
from relax_mlir.objects.prim.operations import rounded
from relax_mlir.objects.prim.symbolic_sizes import Symbols
from relax_mlir.objects.stmt import statements
from relax_mlir.objects.stmt.buffer import Buffer, BufferLoad, BufferRegion
from relax_mlir.objects.stmt.explicit_regions import overriding_regions
from relax_mlir.symbolic.bounds import SIGNED
from relax_mlir.symbolic.limits import fold_single_values, simplify

if TYPE_CHECKING:
    from relax_mlir.objects.compare.structural_equal import StructuralEncoder

__all__ = ["encode_expr", "encode_prim_func", "encode_statement"]

_WIDE = ("int32", "int64")


def encode_prim_func(encoder: StructuralEncoder, program: Any) -> None:
    """Encodes a PrimFunc."""
    encoder.put("PrimFunc")
    encoder.at(".attrs", encoder.attribute, program.attrs)
    encoder.put(str(program.ret_type))
    reader, body = program.read()
    params, buffers = reader.params, reader.buffer_map
    for number, param in enumerate(params):
        buffer = buffers.get(param)
        encoder.define(param)
        if buffer is None:
            encoder.at(f".params[{number}].dtype", encoder.put, param.dtype)
        else:
            step = f".buffer_map{{{number}}}"
            encoder.at(step, lambda b=buffer: encode_buffer_definition(encoder, b))
    encoder.end(f".params[{len(params)}]")
    encoder.at(".body", lambda: encode_statement(encoder, body))


def encode_buffer_definition(encoder: StructuralEncoder, buffer: Buffer) -> None:
    """Encodes a buffer at its definition."""
    encoder.define(buffer)
    encoder.define(buffer.data)
    encoder.put("Buffer", buffer.dtype, buffer.scope(), buffer.ndim)
    _define_size(encoder, ".elem_offset", buffer.elem_offset)
    for field in ("shape", "strides"):
        for number, expr in enumerate(getattr(buffer, field)):
            _define_size(encoder, f".{field}[{number}]", expr)
    encoder.put(buffer.data_alignment, buffer.offset_factor, buffer.buffer_type)
    encoder.put(*buffer.axis_separators)


def _used(encoder: StructuralEncoder, buffer: Buffer) -> object:
    """The token value of a buffer; a free buffer is encoded at its first use."""
    if isinstance(encoder.number(buffer), tuple):
        encode_buffer_definition(encoder, buffer)
    return encoder.number(buffer)


def _define_size(encoder: StructuralEncoder, step: str, expr: PrimExpr) -> None:
    for part in prim.post_order(expr):
        if isinstance(part, Var):
            encoder.define(part)
    encoder.at(step, encode_expr, encoder, expr)


def encode_expr(encoder: StructuralEncoder, expr: PrimExpr) -> None:
    """Encodes a scalar expression."""
    if expr.dtype in _WIDE and not isinstance(expr, BufferLoad):
        canonical = _canonical(encoder, expr)
        if canonical is not None:
            encoder.put(canonical)
            return
    if isinstance(expr, Var):
        encoder.put("Var", encoder.number(expr))
    elif isinstance(expr, BufferLoad):
        encoder.put("BufferLoad", _used(encoder, expr.buffer))
    elif isinstance(expr, (prim.IntImm, prim.FloatImm)):
        encoder.put(expr.dtype, repr(rounded(expr.value, expr.dtype)))
    else:
        if isinstance(expr, prim.Let):
            encoder.define(expr.var)
        encoder.put(type(expr).__name__, *_distinguishing_fields(expr))
    for child in expr.children():
        encode_expr(encoder, child)


def _distinguishing_fields(expr: PrimExpr) -> tuple[object, ...]:
    if isinstance(expr, prim.Cast):
        return (expr.dtype,)
    if isinstance(expr, prim.Call):
        return (expr.op_name, expr.dtype, len(expr.args), expr.is_subroutine)
    if isinstance(expr, (prim.Ramp, prim.Broadcast, prim.Shuffle)):
        return (expr.dtype,)
    return (expr.value,) if isinstance(expr, prim.StringImm) else ()


def _canonical(encoder: StructuralEncoder, expr: PrimExpr) -> str | None:
    """The canonical form of an index expression, or None."""
    symbols, limits = Symbols(), encoder.limits
    for part in prim.post_order(expr):
        if isinstance(part, Var):
            number = encoder.number(part)
            text = f"v{number}" if isinstance(number, int) else f"free{id(part)}"
            symbols.alias(part, text if text in limits else f"{text}{SIGNED}")
    try:
        return str(simplify(fold_single_values(symbols.dim(expr), limits), limits))
    except ValueError:
        return None


def _limit(encoder: StructuralEncoder, var: Var, range_: Range) -> None:
    """Records the constant range of a variable, if known."""
    first, count = range_.min, range_.extent
    if not isinstance(first, prim.IntImm):
        return
    last = None
    if isinstance(count, prim.IntImm) and count.value > 0:
        last = first.value + count.value - 1
    name = f"v{encoder.number(var)}"
    name = name if first.value >= 0 else f"{name}{SIGNED}"
    encoder.limits[name] = (first.value, last)


def encode_statement(encoder: StructuralEncoder, node: statements.Stmt) -> None:
    """Encodes a statement and its nested statements."""
    encoder.put(type(node).__name__)
    _STATEMENTS[type(node)](encoder, node)


def _at(encoder: StructuralEncoder, step: str, node: Any) -> None:
    encode = encode_expr if isinstance(node, PrimExpr) else encode_statement
    encoder.at(step, encode, encoder, node)


def _encode_range(encoder: StructuralEncoder, range_: Range) -> None:
    encode_expr(encoder, range_.min)
    encode_expr(encoder, range_.extent)


def _for(encoder: StructuralEncoder, node: statements.For) -> None:
    binding = node.thread_binding
    tag = "" if binding is None else binding.thread_tag
    encoder.at(".kind", encoder.put, node.kind.name, tag)
    _at(encoder, ".min", node.min)
    _at(encoder, ".extent", node.extent)
    encoder.at(".annotations", encoder.attribute, node.annotations)
    if node.step is not None:
        _at(encoder, ".step", node.step)
    encoder.define(node.loop_var)
    _limit(encoder, node.loop_var, Range.from_min_extent(node.min, node.extent))
    _at(encoder, ".body", node.body)


def _while(encoder: StructuralEncoder, node: statements.While) -> None:
    _at(encoder, ".condition", node.condition)
    _at(encoder, ".body", node.body)


def _choice(encoder: StructuralEncoder, node: statements.IfThenElse) -> None:
    _at(encoder, ".condition", node.condition)
    _at(encoder, ".then_case", node.then_case)
    if node.else_case is not None:
        _at(encoder, ".else_case", node.else_case)


def _sequence(encoder: StructuralEncoder, node: statements.SeqStmt) -> None:
    for number, inner in enumerate(node.seq):
        _at(encoder, f".seq[{number}]", inner)
    encoder.end(f".seq[{len(node.seq)}]")


def _store(encoder: StructuralEncoder, node: statements.BufferStore) -> None:
    encoder.at(".buffer", encoder.put, _used(encoder, node.buffer))
    for number, index in enumerate(node.indices):
        _at(encoder, f".indices[{number}]", index)
    _at(encoder, ".value", node.value)
    if node.predicate is not None:
        _at(encoder, ".predicate", node.predicate)


def _let(encoder: StructuralEncoder, node: statements.LetStmt) -> None:
    _at(encoder, ".value", node.value)
    encoder.put(node.var.dtype)
    encoder.define(node.var)
    _at(encoder, ".body", node.body)


def _assert(encoder: StructuralEncoder, node: statements.AssertStmt) -> None:
    _at(encoder, ".condition", node.condition)
    encoder.put(str(getattr(node.message, "value", node.message)))
    _at(encoder, ".body", node.body)


def _attr(encoder: StructuralEncoder, node: statements.AttrStmt) -> None:
    encoder.put(node.attr_key)
    encoder.at(".node", _attribute_node, encoder, node.node)
    _at(encoder, ".value", node.value)
    _at(encoder, ".body", node.body)


def _attribute_node(encoder: StructuralEncoder, node: Any) -> None:
    if isinstance(node, (list, tuple)):
        encoder.put(len(node))
        for part in node:
            _attribute_node(encoder, part)
    elif isinstance(node, Buffer):
        encoder.put("Buffer", _used(encoder, node))
    elif isinstance(node, prim.CommReducer):
        for var in (*node.lhs, *node.rhs):
            encoder.define(var)
        for expr in (*node.identity_element, *node.result):
            encode_expr(encoder, expr)
    else:
        encode_expr(encoder, prim.convert(node))


def _realize_buffer(encoder: StructuralEncoder, node: statements.BufferRealize) -> None:
    encoder.at(".bounds", encode_region, encoder, node.region)
    _at(encoder, ".condition", node.condition)
    _at(encoder, ".body", node.body)


def _allocate(encoder: StructuralEncoder, node: statements.Allocate) -> None:
    encoder.put(node.dtype, len(node.extents))
    for number, size in enumerate(node.extents):
        _at(encoder, f".extents[{number}]", size)
    encoder.at(".annotations", encoder.attribute, node.annotations)
    encoder.define(node.buffer_var)
    _at(encoder, ".body", node.body)


def _allocate_const(encoder: StructuralEncoder, node: statements.AllocateConst) -> None:
    encoder.put(node.dtype, node.data.shape)
    encoder.at(".data", encoder.put, *node.data.ravel().tolist())
    encoder.at(".annotations", encoder.attribute, node.annotations)
    encoder.define(node.buffer_var)
    _at(encoder, ".body", node.body)


def _declare(encoder: StructuralEncoder, node: statements.DeclBuffer) -> None:
    _at(encoder, ".buffer.data", node.buffer.data)
    encoder.at(".buffer", encode_buffer_definition, encoder, node.buffer)
    _at(encoder, ".body", node.body)


def _realize(encoder: StructuralEncoder, node: statements.BlockRealize) -> None:
    for number, value in enumerate(node.iter_values):
        _at(encoder, f".iter_values[{number}]", value)
    _at(encoder, ".predicate", node.predicate)
    _at(encoder, ".block", node.block)


def _block(encoder: StructuralEncoder, node: statements.Block) -> None:
    encoder.put(len(node.iter_vars))
    for number, axis in enumerate(node.iter_vars):
        encoder.define(axis.var)
        _limit(encoder, axis.var, axis.dom)
        encoder.at(f".iter_vars[{number}]", _axis, encoder, axis)
    encoder.put(len(node.alloc_buffers), len(node.match_buffers))
    for number, buffer in enumerate(node.alloc_buffers):
        encoder.at(
            f".alloc_buffers[{number}]", encode_buffer_definition, encoder, buffer
        )
    for number, match in enumerate(node.match_buffers):
        encoder.at(f".match_buffers[{number}]", _match, encoder, match)
    encoder.at(".annotations", encoder.attribute, node.annotations)
    _regions(encoder, node)
    encoder.put(node.init is not None)
    if node.init is not None:
        _at(encoder, ".init", node.init)
    _at(encoder, ".body", node.body)


def _regions(encoder: StructuralEncoder, node: statements.Block) -> None:
    """Encodes the explicit regions of a block that differ from the derived ones."""
    explicit = overriding_regions(node) or (None, None)
    for step, regions in zip((".reads", ".writes"), explicit, strict=True):
        encoder.at(step, encoder.put_optional, encode_region, regions)


def _axis(encoder: StructuralEncoder, axis: IterVar) -> None:
    encoder.put(axis.iter_type)
    _encode_range(encoder, axis.dom)


def _match(encoder: StructuralEncoder, match: statements.MatchBufferRegion) -> None:
    encode_region(encoder, match.source)
    encode_buffer_definition(encoder, match.buffer)


def encode_region(encoder: StructuralEncoder, region: BufferRegion) -> None:
    """Encodes a buffer region."""
    encoder.put("BufferRegion", _used(encoder, region.buffer))
    for range_ in region.region:
        _encode_range(encoder, range_)


_STATEMENTS: Mapping[type, Callable[[StructuralEncoder, Any], None]] = {
    statements.For: _for,
    statements.While: _while,
    statements.IfThenElse: _choice,
    statements.SeqStmt: _sequence,
    statements.BufferStore: _store,
    statements.Evaluate: lambda encoder, node: _at(encoder, ".value", node.value),
    statements.LetStmt: _let,
    statements.AssertStmt: _assert,
    statements.AttrStmt: _attr,
    statements.Allocate: _allocate,
    statements.AllocateConst: _allocate_const,
    statements.DeclBuffer: _declare,
    statements.BlockRealize: _realize,
    statements.BufferRealize: _realize_buffer,
    statements.Block: _block,
}
