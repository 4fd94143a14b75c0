"""Walks over statements and terms of tensor programs, and copies with parts replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from relax_mlir.errors import shown
from relax_mlir.objects import prim, stmt
from relax_mlir.objects.argument_checks import instance_of
from relax_mlir.objects.buffer import Buffer, BufferLoad, BufferRegion
from relax_mlir.objects.pointers import Pointer
from relax_mlir.objects.prim import IterVar, PrimExpr, Range, Var

__all__ = [
    "free_names",
    "ir_transform",
    "map_statement",
    "post_order_visit",
    "pre_order_visit",
    "renew_defs",
    "stamp_places",
    "substitute",
]

Node = stmt.Stmt | PrimExpr


def _terms_of(node: stmt.Stmt) -> list[PrimExpr]:
    """The terms that stand in a statement itself."""
    if isinstance(node, stmt.For):
        steps = [] if node.step is None else [node.step]
        return [node.min, node.extent, *steps]
    if isinstance(node, stmt.BufferStore):
        lanes = [] if node.predicate is None else [node.predicate]
        return [node.value, *node.indices, *lanes]
    if isinstance(node, (stmt.Allocate, stmt.AllocateConst)):
        return list(node.extents)
    if isinstance(node, stmt.AttrStmt):
        return [*_attribute_terms(node.node), node.value]
    if isinstance(node, stmt.BlockRealize):
        return [*node.iter_values, node.predicate]
    if isinstance(node, stmt.BufferRealize):
        ends = [end for run in node.bounds for end in (run.min, run.extent)]
        return [BufferLoad(node.buffer, [run.min for run in node.bounds]), *ends]
    if isinstance(node, stmt.Block):
        return [e for a in node.iter_vars for e in (a.dom.min, a.dom.extent)]
    found = [getattr(node, field, None) for field in ("condition", "value")]
    return [term for term in found if isinstance(term, PrimExpr)]


def _attribute_terms(node: Any) -> list[PrimExpr]:
    """The terms in what an attribute is about."""
    if isinstance(node, (list, tuple)):
        return [t for part in node for t in _attribute_terms(part)]
    if isinstance(node, IterVar):
        return [node.var]
    return [node] if isinstance(node, PrimExpr) else []


def _inner(node: stmt.Stmt) -> Iterator[stmt.Stmt]:
    """The statements that stand in a statement itself."""
    if isinstance(node, stmt.SeqStmt):
        yield from node.seq
    for field in ("block", "init", "then_case", "else_case", "body"):
        found = getattr(node, field, None)
        if isinstance(found, stmt.Stmt):
            yield found


def _term_parts(term: PrimExpr) -> Iterator[PrimExpr]:
    for child in term.children():
        yield from _term_parts(child)
    yield term


def _nodes(node: Node) -> Iterator[Node]:
    """Everything in a statement or a term, parts first."""
    if isinstance(node, PrimExpr):
        yield from _term_parts(node)
        return
    for term in _terms_of(node):
        yield from _term_parts(term)
    for inner in _inner(node):
        yield from _nodes(inner)
    yield node


def post_order_visit(node: Any, fvisit: Callable[[Any], None]) -> None:
    """Call ``fvisit`` with everything in a statement or a term, parts first."""
    seen: set[int] = set()
    for part in _nodes(node):
        if id(part) not in seen:
            seen.add(id(part))
            fvisit(part)


def pre_order_visit(node: Any, fvisit: Callable[[Any], bool]) -> None:
    """Call ``fvisit`` with everything in a statement or a term, wholes first.

    Args:
        fvisit: gives False where the parts are to be left out.
    """
    if not fvisit(node):
        return
    if isinstance(node, PrimExpr):
        parts: Sequence[Any] = node.children()
    else:
        parts = [*_terms_of(node), *_inner(node)]
    for part in parts:
        pre_order_visit(part, fvisit)


def free_names(node: Node) -> list[Var | Buffer]:
    """The variables and buffers that something uses and does not define, in order."""
    used: dict[int, Var | Buffer] = {}
    defined: set[int] = set()

    met: set[int] = set()

    def buffer(found: Buffer) -> None:
        if id(found) in met:
            return
        met.add(id(found))
        memory = () if found.owns_data else (found.data,)
        for term in (*found.shape, *found.strides, found.elem_offset, *memory):
            pre_order_visit(term, visit)
        used.setdefault(id(found), found)

    def visit(part: Any) -> bool:
        if isinstance(part, stmt.DeclBuffer):
            pre_order_visit(part.buffer.data, visit)
        if isinstance(part, Var) and _buffers_of(part) == []:
            used.setdefault(id(part), part)
        for found in _buffers_of(part):
            buffer(found)
        if isinstance(part, stmt.Stmt):
            defined.update(map(id, _defined(part)))
        return True

    pre_order_visit(node, visit)
    return [value for key, value in used.items() if key not in defined]


def _buffers_of(part: Any) -> list[Buffer]:
    """The buffers that a statement or a term itself names."""
    if isinstance(part, (BufferLoad, stmt.BufferStore)):
        return [part.buffer]
    if isinstance(part, Pointer) and part.buffer is not None:
        return [part.buffer]
    if isinstance(part, stmt.AttrStmt):
        listed = part.node if isinstance(part.node, (list, tuple)) else [part.node]
        return [b for b in listed if isinstance(b, Buffer)]
    is_block = isinstance(part, stmt.Block)
    return [m.source.buffer for m in part.match_buffers] if is_block else []


def _defined(node: stmt.Stmt) -> list[Var | Buffer]:
    """What a statement defines for those in it."""
    if isinstance(node, stmt.For):
        return [node.loop_var]
    if isinstance(node, stmt.LetStmt):
        return [node.var]
    if isinstance(node, (stmt.Allocate, stmt.AllocateConst)):
        return [node.buffer_var]
    if isinstance(node, stmt.DeclBuffer):
        return [node.buffer]
    if not isinstance(node, stmt.Block):
        return []
    matched = [m.buffer for m in node.match_buffers]
    offsets = [b.elem_offset for b in matched if b.has_own_offset]
    axes = [a.var for a in node.iter_vars]
    return [*axes, *node.alloc_buffers, *matched, *offsets]  # pyright: ignore[reportReturnType]


def ir_transform(
    node: stmt.Stmt,
    preorder: Callable[[Any], Any] | None,
    postorder: Callable[[Any], Any] | None,
    only_enable: Sequence[str] | None = None,
) -> stmt.Stmt:
    """A statement with parts replaced.

    Args:
        preorder: given a statement or a term before its parts, what to put in place of
            it (its parts are left alone then), or None.
        postorder: given it after its parts were replaced, likewise.
        only_enable: names of the classes that are asked for; all by default.
    """
    wanted = None if only_enable is None else {n.split(".")[-1] for n in only_enable}

    def is_wanted(part: Any) -> bool:
        return wanted is None or type(part).__name__ in wanted

    def change(part: Any) -> Any:
        if preorder is not None and is_wanted(part):
            found = preorder(part)
            if found is not None:
                return found
        new = _with_parts(part, change)
        if postorder is not None and is_wanted(part):
            found = postorder(new)
            if found is not None:
                return found
        return new

    return change(node)


def _with_parts(part: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(part, stmt.Stmt):
        return map_statement(part, change, change)
    children = part.children()
    if not children:
        return part
    return part.with_children([change(c) for c in children])


def map_statement(
    node: stmt.Stmt,
    on_term: Callable[[PrimExpr], PrimExpr],
    on_statement: Callable[[stmt.Stmt], stmt.Stmt],
    on_buffer: Callable[[Buffer], Buffer] = lambda buffer: buffer,
) -> stmt.Stmt:
    """The same statement with what stands in it replaced."""
    build = _REBUILD.get(type(node))
    if build is None:
        raise TypeError(f"expected a statement, got {shown(node)}")
    return build(node, _Parts(on_term, on_statement, on_buffer))


def renew_defs(func: Any) -> Any:
    """The same tensor program, with variables and buffers of its own.

    Args:
        func: the program.
    """
    from relax_mlir.objects.prim_func import PrimFunc
    from relax_mlir.objects.scope import FunctionScope
    from relax_mlir.objects.tir_reader import ProgramReader

    instance_of(func, PrimFunc, "renew_defs: `func`", "a tensor program")
    with func.op.context:
        reader = ProgramReader(func.op, FunctionScope())
        body = reader.body()
    return type(func)(reader.params, body, func.ret_type, reader.buffer_map, func.attrs)


def stamp_places(node: stmt.Stmt, place: str) -> None:
    """Note in a statement, and in those in it, where each stands in its program."""
    node.place = place
    for field in ("block", "init", "then_case", "else_case", "body"):
        inner = getattr(node, field, None)
        if isinstance(inner, stmt.Stmt):
            stamp_places(inner, f"{place}.{field}")
    for number, inner in enumerate(getattr(node, "seq", ())):
        stamp_places(inner, f"{place}.seq[{number}]")


class _Parts:
    """What takes the place of the parts of a statement."""

    def __init__(
        self,
        term: Callable[[PrimExpr], PrimExpr],
        statement: Callable[[stmt.Stmt], stmt.Stmt],
        buffer: Callable[[Buffer], Buffer],
    ) -> None:
        self.term, self.statement, self.buffer = term, statement, buffer

    def optional(self, node: stmt.Stmt | None) -> stmt.Stmt | None:
        return None if node is None else self.statement(node)

    def run(self, run: Range) -> Range:
        return Range.from_min_extent(self.term(run.min), self.term(run.extent))

    def region(self, region: BufferRegion) -> BufferRegion:
        return BufferRegion(
            self.buffer(region.buffer), [self.run(r) for r in region.region]
        )

    def axis(self, axis: IterVar) -> IterVar:
        return IterVar(self.run(axis.dom), axis.var, axis.iter_type, axis.thread_tag)


def _for(node: stmt.For, parts: _Parts) -> stmt.Stmt:
    return stmt.For(
        node.loop_var,
        parts.term(node.min),
        parts.term(node.extent),
        node.kind,
        parts.statement(node.body),
        node.thread_binding,
        node.annotations,
        None if node.step is None else parts.term(node.step),
    )


def _store(node: stmt.BufferStore, parts: _Parts) -> stmt.Stmt:
    return stmt.BufferStore(
        parts.buffer(node.buffer),
        parts.term(node.value),
        [parts.term(i) for i in node.indices],
        None if node.predicate is None else parts.term(node.predicate),
    )


def _allocate(node: stmt.Allocate, parts: _Parts) -> stmt.Stmt:
    return stmt.Allocate(
        node.buffer_var,
        node.dtype,
        [parts.term(e) for e in node.extents],
        parts.term(node.condition),
        parts.statement(node.body),
        node.annotations,
    )


def _realize_buffer(node: stmt.BufferRealize, parts: _Parts) -> stmt.Stmt:
    region, body = parts.region(node.region), parts.statement(node.body)
    return stmt.BufferRealize(
        region.buffer, region.region, parts.term(node.condition), body
    )


def _allocate_const(node: stmt.AllocateConst, parts: _Parts) -> stmt.Stmt:
    body = parts.statement(node.body)
    return stmt.AllocateConst(
        node.buffer_var, node.dtype, node.extents, node.data, body, node.annotations
    )


def _declare(node: stmt.DeclBuffer, parts: _Parts) -> stmt.Stmt:
    return stmt.DeclBuffer(parts.buffer(node.buffer), parts.statement(node.body))


def _block(node: stmt.Block, parts: _Parts) -> stmt.Stmt:
    says = node.says_regions
    return stmt.Block(
        [parts.axis(a) for a in node.iter_vars],
        [parts.region(r) for r in node.reads] if says else None,
        [parts.region(r) for r in node.writes] if says else None,
        node.name_hint,
        parts.statement(node.body),
        parts.optional(node.init),
        [parts.buffer(b) for b in node.alloc_buffers],
        [
            stmt.MatchBufferRegion(parts.buffer(m.buffer), parts.region(m.source))
            for m in node.match_buffers
        ],
        node.annotations,
    )


def _realize(node: stmt.BlockRealize, parts: _Parts) -> stmt.Stmt:
    block = parts.statement(node.block)
    values = [parts.term(v) for v in node.iter_values]
    return stmt.BlockRealize(values, parts.term(node.predicate), block)  # pyright: ignore[reportArgumentType]


def _choice(node: stmt.IfThenElse, parts: _Parts) -> stmt.Stmt:
    return stmt.IfThenElse(
        parts.term(node.condition),
        parts.statement(node.then_case),
        parts.optional(node.else_case),
    )


def _assert(node: stmt.AssertStmt, parts: _Parts) -> stmt.Stmt:
    body = parts.statement(node.body)
    return stmt.AssertStmt(parts.term(node.condition), node.message, body)


def _let(node: stmt.LetStmt, parts: _Parts) -> stmt.Stmt:
    return stmt.LetStmt(node.var, parts.term(node.value), parts.statement(node.body))


def _attr(node: stmt.AttrStmt, parts: _Parts) -> stmt.Stmt:
    value, body = parts.term(node.value), parts.statement(node.body)
    return stmt.AttrStmt(node.node, node.attr_key, value, body)


def _while(node: stmt.While, parts: _Parts) -> stmt.Stmt:
    return stmt.While(parts.term(node.condition), parts.statement(node.body))


_REBUILD: Mapping[type, Callable[[Any, _Parts], stmt.Stmt]] = {
    stmt.For: _for,
    stmt.BufferStore: _store,
    stmt.Block: _block,
    stmt.BlockRealize: _realize,
    stmt.BufferRealize: _realize_buffer,
    stmt.IfThenElse: _choice,
    stmt.AssertStmt: _assert,
    stmt.LetStmt: _let,
    stmt.AttrStmt: _attr,
    stmt.While: _while,
    stmt.Allocate: _allocate,
    stmt.AllocateConst: _allocate_const,
    stmt.DeclBuffer: _declare,
    stmt.Evaluate: lambda node, parts: stmt.Evaluate(parts.term(node.value)),
    stmt.SeqStmt: lambda node, parts: stmt.stmt_seq(*map(parts.statement, node.seq)),
}


def substitute(
    node: Any,
    vmap: Mapping[Var, Any],
    buffers: Mapping[int, Buffer] | None = None,
) -> Any:
    """A statement or a term with variables replaced.

    Args:
        vmap: what takes the place of each variable.
        buffers: the buffers that take the place of others, by the id of those.
    """
    table = {id(var): prim.convert(value) for var, value in vmap.items()}
    replaced = buffers or {}

    def buffer(old: Buffer) -> Buffer:
        return replaced.get(id(old), old)

    def term(old: PrimExpr) -> PrimExpr:
        if isinstance(old, Var):
            return table.get(id(old), old)
        if isinstance(old, BufferLoad):
            lanes = () if old.predicate is None else (term(old.predicate),)
            places = [term(i) for i in old.indices]
            return BufferLoad(buffer(old.buffer), places, *lanes)
        children = old.children()
        return old.with_children([term(c) for c in children]) if children else old

    def statement(old: stmt.Stmt) -> stmt.Stmt:
        return map_statement(old, term, statement, buffer)

    return statement(node) if isinstance(node, stmt.Stmt) else term(prim.convert(node))
