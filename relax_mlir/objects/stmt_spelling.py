"""The structure of tensor programs, for comparison; see :mod:`.structure`.

Names do not count. What blocks read and write counts where both programs say it. Integers
that indices are made of compare in canonical form and without their width.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from relax_mlir.dialects.dim_bounds import SIGNED
from relax_mlir.dialects.dim_limits import simplify, without_units
from relax_mlir.objects import prim, stmt
from relax_mlir.objects.buffer import Buffer, BufferLoad, BufferRegion
from relax_mlir.objects.prim import IterVar, PrimExpr, Range, Var
from relax_mlir.objects.prim.operations import rounded
from relax_mlir.objects.said_regions import own_regions
from relax_mlir.objects.sizes import Symbols

if TYPE_CHECKING:
    from relax_mlir.objects.structure import Spelling

__all__ = ["spell_program", "spell_statement", "spell_term"]

_WIDE = ("int32", "int64")


def spell_program(spelling: Spelling, program: Any) -> None:
    """Spell a tensor program."""
    spelling.put("PrimFunc")
    spelling.at(".attrs", spelling.attribute, program.attrs)
    spelling.put(str(program.ret_type))
    reader, body = program.read()
    params, buffers = reader.params, reader.buffer_map
    for number, param in enumerate(params):
        buffer = buffers.get(param)
        spelling.define(param)
        if buffer is None:
            spelling.at(f".params[{number}].dtype", spelling.put, param.dtype)
        else:
            step = f".buffer_map{{{number}}}"
            spelling.at(step, lambda b=buffer: define_buffer(spelling, b))
    spelling.end(f".params[{len(params)}]")
    spelling.at(".body", lambda: spell_statement(spelling, body))


def define_buffer(spelling: Spelling, buffer: Buffer) -> None:
    """Spell a buffer where it is defined."""
    spelling.define(buffer)
    spelling.define(buffer.data)
    spelling.put("Buffer", buffer.dtype, buffer.scope(), buffer.ndim)
    _placing(spelling, ".elem_offset", buffer.elem_offset)
    for field in ("shape", "strides"):
        for number, term in enumerate(getattr(buffer, field)):
            _placing(spelling, f".{field}[{number}]", term)
    spelling.put(buffer.data_alignment, buffer.offset_factor, buffer.buffer_type)
    spelling.put(*buffer.axis_separators)


def _used(spelling: Spelling, buffer: Buffer) -> object:
    """What stands for a buffer; one that nothing defines is defined where it is used."""
    if isinstance(spelling.number(buffer), tuple):
        define_buffer(spelling, buffer)
    return spelling.number(buffer)


def _placing(spelling: Spelling, step: str, term: PrimExpr) -> None:
    for part in prim.post_order(term):
        if isinstance(part, Var):
            spelling.define(part)
    spelling.at(step, spell_term, spelling, term)


def spell_term(spelling: Spelling, term: PrimExpr) -> None:
    """Spell a scalar."""
    if term.dtype in _WIDE and not isinstance(term, BufferLoad):
        canonical = _canonical(spelling, term)
        if canonical is not None:
            spelling.put(canonical)
            return
    if isinstance(term, Var):
        spelling.put("Var", spelling.number(term))
    elif isinstance(term, BufferLoad):
        spelling.put("BufferLoad", _used(spelling, term.buffer))
    elif isinstance(term, (prim.IntImm, prim.FloatImm)):
        spelling.put(term.dtype, repr(rounded(term.value, term.dtype)))
    else:
        if isinstance(term, prim.Let):
            spelling.define(term.var)
        spelling.put(type(term).__name__, *_marks(term))
    for child in term.children():
        spell_term(spelling, child)


def _marks(term: PrimExpr) -> tuple[object, ...]:
    if isinstance(term, prim.Cast):
        return (term.dtype,)
    if isinstance(term, prim.Call):
        return (term.op_name, term.dtype, len(term.args), term.is_subroutine)
    if isinstance(term, (prim.Ramp, prim.Broadcast, prim.Shuffle)):
        return (term.dtype,)
    return (term.value,) if isinstance(term, prim.StringImm) else ()


def _canonical(spelling: Spelling, term: PrimExpr) -> str | None:
    """The canonical form of an index, if it has one."""
    names, limits = Symbols(), spelling.limits
    for part in prim.post_order(term):
        if isinstance(part, Var):
            number = spelling.number(part)
            text = f"v{number}" if isinstance(number, int) else f"free{id(part)}"
            names.alias(part, text if text in limits else f"{text}{SIGNED}")
    try:
        return str(simplify(without_units(names.dim(term), limits), limits))
    except ValueError:
        return None


def _limit(spelling: Spelling, var: Var, run: Range) -> None:
    """Remember what values a variable takes, as far as those are numbers."""
    first, count = run.min, run.extent
    if not isinstance(first, prim.IntImm):
        return
    last = None
    if isinstance(count, prim.IntImm) and count.value > 0:
        last = first.value + count.value - 1
    name = f"v{spelling.number(var)}"
    name = name if first.value >= 0 else f"{name}{SIGNED}"
    spelling.limits[name] = (first.value, last)


def spell_statement(spelling: Spelling, node: stmt.Stmt) -> None:
    """Spell a statement, and those in it."""
    spelling.put(type(node).__name__)
    _STATEMENTS[type(node)](spelling, node)


def _at(spelling: Spelling, step: str, node: Any) -> None:
    spell = spell_term if isinstance(node, PrimExpr) else spell_statement
    spelling.at(step, spell, spelling, node)


def _spell_run(spelling: Spelling, run: Range) -> None:
    spell_term(spelling, run.min)
    spell_term(spelling, run.extent)


def _for(spelling: Spelling, node: stmt.For) -> None:
    binding = node.thread_binding
    tag = "" if binding is None else binding.thread_tag
    spelling.at(".kind", spelling.put, node.kind.name, tag)
    _at(spelling, ".min", node.min)
    _at(spelling, ".extent", node.extent)
    spelling.at(".annotations", spelling.attribute, node.annotations)
    if node.step is not None:
        _at(spelling, ".step", node.step)
    spelling.define(node.loop_var)
    _limit(spelling, node.loop_var, Range.from_min_extent(node.min, node.extent))
    _at(spelling, ".body", node.body)


def _while(spelling: Spelling, node: stmt.While) -> None:
    _at(spelling, ".condition", node.condition)
    _at(spelling, ".body", node.body)


def _choice(spelling: Spelling, node: stmt.IfThenElse) -> None:
    _at(spelling, ".condition", node.condition)
    _at(spelling, ".then_case", node.then_case)
    if node.else_case is not None:
        _at(spelling, ".else_case", node.else_case)


def _sequence(spelling: Spelling, node: stmt.SeqStmt) -> None:
    for number, inner in enumerate(node.seq):
        _at(spelling, f".seq[{number}]", inner)
    spelling.end(f".seq[{len(node.seq)}]")


def _store(spelling: Spelling, node: stmt.BufferStore) -> None:
    spelling.at(".buffer", spelling.put, _used(spelling, node.buffer))
    for number, index in enumerate(node.indices):
        _at(spelling, f".indices[{number}]", index)
    _at(spelling, ".value", node.value)
    if node.predicate is not None:
        _at(spelling, ".predicate", node.predicate)


def _let(spelling: Spelling, node: stmt.LetStmt) -> None:
    _at(spelling, ".value", node.value)
    spelling.put(node.var.dtype)
    spelling.define(node.var)
    _at(spelling, ".body", node.body)


def _assert(spelling: Spelling, node: stmt.AssertStmt) -> None:
    _at(spelling, ".condition", node.condition)
    spelling.put(str(getattr(node.message, "value", node.message)))
    _at(spelling, ".body", node.body)


def _attr(spelling: Spelling, node: stmt.AttrStmt) -> None:
    spelling.put(node.attr_key)
    spelling.at(".node", _attribute_node, spelling, node.node)
    _at(spelling, ".value", node.value)
    _at(spelling, ".body", node.body)


def _attribute_node(spelling: Spelling, node: Any) -> None:
    if isinstance(node, (list, tuple)):
        spelling.put(len(node))
        for part in node:
            _attribute_node(spelling, part)
    elif isinstance(node, Buffer):
        spelling.put("Buffer", _used(spelling, node))
    elif isinstance(node, prim.CommReducer):
        for var in (*node.lhs, *node.rhs):
            spelling.define(var)
        for term in (*node.identity_element, *node.result):
            spell_term(spelling, term)
    else:
        spell_term(spelling, prim.convert(node))


def _realize_buffer(spelling: Spelling, node: stmt.BufferRealize) -> None:
    spelling.at(".bounds", spell_region, spelling, node.region)
    _at(spelling, ".condition", node.condition)
    _at(spelling, ".body", node.body)


def _allocate(spelling: Spelling, node: stmt.Allocate) -> None:
    spelling.put(node.dtype, len(node.extents))
    for number, size in enumerate(node.extents):
        _at(spelling, f".extents[{number}]", size)
    spelling.at(".annotations", spelling.attribute, node.annotations)
    spelling.define(node.buffer_var)
    _at(spelling, ".body", node.body)


def _allocate_const(spelling: Spelling, node: stmt.AllocateConst) -> None:
    spelling.put(node.dtype, node.data.shape)
    spelling.at(".data", spelling.put, *node.data.ravel().tolist())
    spelling.at(".annotations", spelling.attribute, node.annotations)
    spelling.define(node.buffer_var)
    _at(spelling, ".body", node.body)


def _declare(spelling: Spelling, node: stmt.DeclBuffer) -> None:
    _at(spelling, ".buffer.data", node.buffer.data)
    spelling.at(".buffer", define_buffer, spelling, node.buffer)
    _at(spelling, ".body", node.body)


def _realize(spelling: Spelling, node: stmt.BlockRealize) -> None:
    for number, value in enumerate(node.iter_values):
        _at(spelling, f".iter_values[{number}]", value)
    _at(spelling, ".predicate", node.predicate)
    _at(spelling, ".block", node.block)


def _block(spelling: Spelling, node: stmt.Block) -> None:
    spelling.put(len(node.iter_vars))
    for number, axis in enumerate(node.iter_vars):
        spelling.define(axis.var)
        _limit(spelling, axis.var, axis.dom)
        spelling.at(f".iter_vars[{number}]", _axis, spelling, axis)
    spelling.put(len(node.alloc_buffers), len(node.match_buffers))
    for number, buffer in enumerate(node.alloc_buffers):
        spelling.at(f".alloc_buffers[{number}]", define_buffer, spelling, buffer)
    for number, match in enumerate(node.match_buffers):
        spelling.at(f".match_buffers[{number}]", _match, spelling, match)
    spelling.at(".annotations", spelling.attribute, node.annotations)
    _regions(spelling, node)
    spelling.put(node.init is not None)
    if node.init is not None:
        _at(spelling, ".init", node.init)
    _at(spelling, ".body", node.body)


def _regions(spelling: Spelling, node: stmt.Block) -> None:
    """What a block says that it reads and writes, if its body does not tell it."""
    said = own_regions(node) or (None, None)
    for step, regions in zip((".reads", ".writes"), said, strict=True):
        spelling.at(step, spelling.put_if_said, spell_region, regions)


def _axis(spelling: Spelling, axis: IterVar) -> None:
    spelling.put(axis.iter_type)
    _spell_run(spelling, axis.dom)


def _match(spelling: Spelling, match: stmt.MatchBufferRegion) -> None:
    spell_region(spelling, match.source)
    define_buffer(spelling, match.buffer)


def spell_region(spelling: Spelling, region: BufferRegion) -> None:
    """Spell a box of a buffer."""
    spelling.put("BufferRegion", _used(spelling, region.buffer))
    for run in region.region:
        _spell_run(spelling, run)


_STATEMENTS: Mapping[type, Callable[[Spelling, Any], None]] = {
    stmt.For: _for,
    stmt.While: _while,
    stmt.IfThenElse: _choice,
    stmt.SeqStmt: _sequence,
    stmt.BufferStore: _store,
    stmt.Evaluate: lambda spelling, node: _at(spelling, ".value", node.value),
    stmt.LetStmt: _let,
    stmt.AssertStmt: _assert,
    stmt.AttrStmt: _attr,
    stmt.Allocate: _allocate,
    stmt.AllocateConst: _allocate_const,
    stmt.DeclBuffer: _declare,
    stmt.BlockRealize: _realize,
    stmt.BufferRealize: _realize_buffer,
    stmt.Block: _block,
}
