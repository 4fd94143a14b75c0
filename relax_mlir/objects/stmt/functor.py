"""Visitors and mutators of TIR statements and scalar expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from relax_mlir.errors import short_repr
from relax_mlir.objects import prim
from relax_mlir.objects.argument_checks import instance_of
from relax_mlir.objects.prim import IterVar, PrimExpr, Range, Var
from relax_mlir.objects.prim.pointers import Pointer
from relax_mlir.objects.stmt import statements
from relax_mlir.objects.stmt.buffer import Buffer, BufferLoad, BufferRegion

__all__ = [
    "free_names",
    "ir_transform",
    "map_statement",
    "post_order_visit",
    "pre_order_visit",
    "renew_defs",
    "set_statement_paths",
    "substitute",
]

Node = statements.Stmt | PrimExpr


def _own_exprs(node: statements.Stmt) -> list[PrimExpr]:
    """The scalar expressions of a statement, without those of nested statements."""
    if isinstance(node, statements.For):
        steps = [] if node.step is None else [node.step]
        return [node.min, node.extent, *steps]
    if isinstance(node, statements.BufferStore):
        lanes = [] if node.predicate is None else [node.predicate]
        return [node.value, *node.indices, *lanes]
    if isinstance(node, (statements.Allocate, statements.AllocateConst)):
        return list(node.extents)
    if isinstance(node, statements.AttrStmt):
        return [*_attribute_exprs(node.node), node.value]
    if isinstance(node, statements.BlockRealize):
        return [*node.iter_values, node.predicate]
    if isinstance(node, statements.BufferRealize):
        ends = [end for range_ in node.bounds for end in (range_.min, range_.extent)]
        return [BufferLoad(node.buffer, [range_.min for range_ in node.bounds]), *ends]
    if isinstance(node, statements.Block):
        return [e for a in node.iter_vars for e in (a.dom.min, a.dom.extent)]
    candidate = [getattr(node, field, None) for field in ("condition", "value")]
    return [expr for expr in candidate if isinstance(expr, PrimExpr)]


def _attribute_exprs(node: Any) -> list[PrimExpr]:
    """The scalar expressions of an attribute's node."""
    if isinstance(node, (list, tuple)):
        return [t for part in node for t in _attribute_exprs(part)]
    if isinstance(node, IterVar):
        return [node.var]
    return [node] if isinstance(node, PrimExpr) else []


def _substatements(node: statements.Stmt) -> Iterator[statements.Stmt]:
    """The direct substatements of a statement."""
    if isinstance(node, statements.SeqStmt):
        yield from node.seq
    for field in ("block", "init", "then_case", "else_case", "body"):
        candidate = getattr(node, field, None)
        if isinstance(candidate, statements.Stmt):
            yield candidate


def _subexpressions(expr: PrimExpr) -> Iterator[PrimExpr]:
    for child in expr.children():
        yield from _subexpressions(child)
    yield expr


def _nodes(node: Node) -> Iterator[Node]:
    """All nodes of a statement or an expression in post-order."""
    if isinstance(node, PrimExpr):
        yield from _subexpressions(node)
        return
    for expr in _own_exprs(node):
        yield from _subexpressions(expr)
    for inner in _substatements(node):
        yield from _nodes(inner)
    yield node


def post_order_visit(node: Any, fvisit: Callable[[Any], None]) -> None:
    """Calls ``fvisit`` on all nodes in post-order, once per object."""
    seen: set[int] = set()
    for part in _nodes(node):
        if id(part) not in seen:
            seen.add(id(part))
            fvisit(part)


def pre_order_visit(node: Any, fvisit: Callable[[Any], bool]) -> None:
    """Calls ``fvisit`` on all nodes in pre-order.

    Args:
        fvisit: returns False to skip the children of a node.
    """
    if not fvisit(node):
        return
    if isinstance(node, PrimExpr):
        mapper: Sequence[Any] = node.children()
    else:
        mapper = [*_own_exprs(node), *_substatements(node)]
    for part in mapper:
        pre_order_visit(part, fvisit)


def free_names(node: Node) -> list[Var | Buffer]:
    """The free variables and buffers of a node, in order of first use."""
    used: dict[int, Var | Buffer] = {}
    defined: set[int] = set()

    met: set[int] = set()

    def buffer(candidate: Buffer) -> None:
        if id(candidate) in met:
            return
        met.add(id(candidate))
        memory = () if candidate.owns_data else (candidate.data,)
        for expr in (
            *candidate.shape,
            *candidate.strides,
            candidate.elem_offset,
            *memory,
        ):
            pre_order_visit(expr, visit)
        used.setdefault(id(candidate), candidate)

    def visit(part: Any) -> bool:
        if isinstance(part, statements.DeclBuffer):
            pre_order_visit(part.buffer.data, visit)
        if isinstance(part, Var) and _buffers_of(part) == []:
            used.setdefault(id(part), part)
        for candidate in _buffers_of(part):
            buffer(candidate)
        if isinstance(part, statements.Stmt):
            defined.update(map(id, _defined(part)))
        return True

    pre_order_visit(node, visit)
    return [value for key, value in used.items() if key not in defined]


def _buffers_of(part: Any) -> list[Buffer]:
    """The buffers that a node refers to directly."""
    if isinstance(part, (BufferLoad, statements.BufferStore)):
        return [part.buffer]
    if isinstance(part, Pointer) and part.buffer is not None:
        return [part.buffer]
    if isinstance(part, statements.AttrStmt):
        listed = part.node if isinstance(part.node, (list, tuple)) else [part.node]
        return [b for b in listed if isinstance(b, Buffer)]
    is_block = isinstance(part, statements.Block)
    return [m.source.buffer for m in part.match_buffers] if is_block else []


def _defined(node: statements.Stmt) -> list[Var | Buffer]:
    """The variables and buffers that a statement defines for its body."""
    if isinstance(node, statements.For):
        return [node.loop_var]
    if isinstance(node, statements.LetStmt):
        return [node.var]
    if isinstance(node, (statements.Allocate, statements.AllocateConst)):
        return [node.buffer_var]
    if isinstance(node, statements.DeclBuffer):
        return [node.buffer]
    if not isinstance(node, statements.Block):
        return []
    matched = [m.buffer for m in node.match_buffers]
    offsets = [b.elem_offset for b in matched if b.has_own_offset]
    axes = [a.var for a in node.iter_vars]
    return [*axes, *node.alloc_buffers, *matched, *offsets]  # pyright: ignore[reportReturnType]


def ir_transform(
    node: statements.Stmt,
    preorder: Callable[[Any], Any] | None,
    postorder: Callable[[Any], Any] | None,
    only_enable: Sequence[str] | None = None,
) -> statements.Stmt:
    """A statement rewritten by callbacks.

    Args:
        preorder: called with a node before its children; returns a replacement, whose
            children are not visited, or None.
        postorder: called with a node after its children were rewritten; likewise.
        only_enable: names of the node classes to pass to the callbacks; all by default.
    """
    enabled = None if only_enable is None else {n.split(".")[-1] for n in only_enable}

    def is_enabled(part: Any) -> bool:
        return enabled is None or type(part).__name__ in enabled

    def change(part: Any) -> Any:
        if preorder is not None and is_enabled(part):
            candidate = preorder(part)
            if candidate is not None:
                return candidate
        new = _with_parts(part, change)
        if postorder is not None and is_enabled(part):
            candidate = postorder(new)
            if candidate is not None:
                return candidate
        return new

    return change(node)


def _with_parts(part: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(part, statements.Stmt):
        return map_statement(part, change, change)
    children = part.children()
    if not children:
        return part
    return part.with_children([change(c) for c in children])


def map_statement(
    node: statements.Stmt,
    on_expr: Callable[[PrimExpr], PrimExpr],
    on_statement: Callable[[statements.Stmt], statements.Stmt],
    on_buffer: Callable[[Buffer], Buffer] = lambda buffer: buffer,
) -> statements.Stmt:
    """A copy of a statement with its direct children mapped."""
    build = _REBUILD.get(type(node))
    if build is None:
        raise TypeError(f"expected a statement, got {short_repr(node)}")
    return build(node, _Mapper(on_expr, on_statement, on_buffer))


def renew_defs(func: Any) -> Any:
    """A copy of a PrimFunc with fresh variables and buffers.

    Args:
        func: the PrimFunc.
    """
    from relax_mlir.objects.read.prim_func import PrimFuncReader
    from relax_mlir.objects.scope import FunctionScope
    from relax_mlir.objects.stmt.prim_func import PrimFunc

    instance_of(func, PrimFunc, "renew_defs: `func`", "a tensor program")
    with func.op.context:
        reader = PrimFuncReader(func.op, FunctionScope())
        body = reader.body()
    return type(func)(reader.params, body, func.ret_type, reader.buffer_map, func.attrs)


def set_statement_paths(node: statements.Stmt, path: str) -> None:
    """Records the path of each nested statement from the root of its PrimFunc."""
    node.access_path = path
    for field in ("block", "init", "then_case", "else_case", "body"):
        inner = getattr(node, field, None)
        if isinstance(inner, statements.Stmt):
            set_statement_paths(inner, f"{path}.{field}")
    for number, inner in enumerate(getattr(node, "seq", ())):
        set_statement_paths(inner, f"{path}.seq[{number}]")


class _Mapper:
    """The mappings that :func:`map_statement` applies to the parts of a statement."""

    def __init__(
        self,
        expr: Callable[[PrimExpr], PrimExpr],
        statement: Callable[[statements.Stmt], statements.Stmt],
        buffer: Callable[[Buffer], Buffer],
    ) -> None:
        self.expr, self.statement, self.buffer = expr, statement, buffer

    def optional(self, node: statements.Stmt | None) -> statements.Stmt | None:
        return None if node is None else self.statement(node)

    def run(self, range_: Range) -> Range:
        return Range.from_min_extent(self.expr(range_.min), self.expr(range_.extent))

    def region(self, region: BufferRegion) -> BufferRegion:
        return BufferRegion(
            self.buffer(region.buffer), [self.run(r) for r in region.region]
        )

    def axis(self, axis: IterVar) -> IterVar:
        return IterVar(self.run(axis.dom), axis.var, axis.iter_type, axis.thread_tag)


def _for(node: statements.For, mapper: _Mapper) -> statements.Stmt:
    return statements.For(
        node.loop_var,
        mapper.expr(node.min),
        mapper.expr(node.extent),
        node.kind,
        mapper.statement(node.body),
        node.thread_binding,
        node.annotations,
        None if node.step is None else mapper.expr(node.step),
    )


def _store(node: statements.BufferStore, mapper: _Mapper) -> statements.Stmt:
    return statements.BufferStore(
        mapper.buffer(node.buffer),
        mapper.expr(node.value),
        [mapper.expr(i) for i in node.indices],
        None if node.predicate is None else mapper.expr(node.predicate),
    )


def _allocate(node: statements.Allocate, mapper: _Mapper) -> statements.Stmt:
    return statements.Allocate(
        node.buffer_var,
        node.dtype,
        [mapper.expr(e) for e in node.extents],
        mapper.expr(node.condition),
        mapper.statement(node.body),
        node.annotations,
    )


def _realize_buffer(node: statements.BufferRealize, mapper: _Mapper) -> statements.Stmt:
    region, body = mapper.region(node.region), mapper.statement(node.body)
    return statements.BufferRealize(
        region.buffer, region.region, mapper.expr(node.condition), body
    )


def _allocate_const(node: statements.AllocateConst, mapper: _Mapper) -> statements.Stmt:
    body = mapper.statement(node.body)
    return statements.AllocateConst(
        node.buffer_var, node.dtype, node.extents, node.data, body, node.annotations
    )


def _declare(node: statements.DeclBuffer, mapper: _Mapper) -> statements.Stmt:
    return statements.DeclBuffer(
        mapper.buffer(node.buffer), mapper.statement(node.body)
    )


def _block(node: statements.Block, mapper: _Mapper) -> statements.Stmt:
    says = node.has_explicit_regions
    return statements.Block(
        [mapper.axis(a) for a in node.iter_vars],
        [mapper.region(r) for r in node.reads] if says else None,
        [mapper.region(r) for r in node.writes] if says else None,
        node.name_hint,
        mapper.statement(node.body),
        mapper.optional(node.init),
        [mapper.buffer(b) for b in node.alloc_buffers],
        [
            statements.MatchBufferRegion(
                mapper.buffer(m.buffer), mapper.region(m.source)
            )
            for m in node.match_buffers
        ],
        node.annotations,
    )


def _realize(node: statements.BlockRealize, mapper: _Mapper) -> statements.Stmt:
    block = mapper.statement(node.block)
    values = [mapper.expr(v) for v in node.iter_values]
    return statements.BlockRealize(values, mapper.expr(node.predicate), block)  # pyright: ignore[reportArgumentType]


def _choice(node: statements.IfThenElse, mapper: _Mapper) -> statements.Stmt:
    return statements.IfThenElse(
        mapper.expr(node.condition),
        mapper.statement(node.then_case),
        mapper.optional(node.else_case),
    )


def _assert(node: statements.AssertStmt, mapper: _Mapper) -> statements.Stmt:
    body = mapper.statement(node.body)
    return statements.AssertStmt(mapper.expr(node.condition), node.message, body)


def _let(node: statements.LetStmt, mapper: _Mapper) -> statements.Stmt:
    return statements.LetStmt(
        node.var, mapper.expr(node.value), mapper.statement(node.body)
    )


def _attr(node: statements.AttrStmt, mapper: _Mapper) -> statements.Stmt:
    value, body = mapper.expr(node.value), mapper.statement(node.body)
    return statements.AttrStmt(node.node, node.attr_key, value, body)


def _while(node: statements.While, mapper: _Mapper) -> statements.Stmt:
    return statements.While(mapper.expr(node.condition), mapper.statement(node.body))


_REBUILD: Mapping[type, Callable[[Any, _Mapper], statements.Stmt]] = {
    statements.For: _for,
    statements.BufferStore: _store,
    statements.Block: _block,
    statements.BlockRealize: _realize,
    statements.BufferRealize: _realize_buffer,
    statements.IfThenElse: _choice,
    statements.AssertStmt: _assert,
    statements.LetStmt: _let,
    statements.AttrStmt: _attr,
    statements.While: _while,
    statements.Allocate: _allocate,
    statements.AllocateConst: _allocate_const,
    statements.DeclBuffer: _declare,
    statements.Evaluate: lambda node, mapper: statements.Evaluate(
        mapper.expr(node.value)
    ),
    statements.SeqStmt: lambda node, mapper: statements.stmt_seq(
        *map(mapper.statement, node.seq)
    ),
}


def substitute(
    node: Any,
    vmap: Mapping[Var, Any],
    buffers: Mapping[int, Buffer] | None = None,
) -> Any:
    """A statement or an expression with variables and buffers replaced.

    Args:
        vmap: the replacement of each variable.
        buffers: the replacement of each buffer, by the id of the original.
    """
    table = {id(var): prim.convert(value) for var, value in vmap.items()}
    replaced = buffers or {}

    def buffer(old: Buffer) -> Buffer:
        return replaced.get(id(old), old)

    def expr(old: PrimExpr) -> PrimExpr:
        if isinstance(old, Var):
            return table.get(id(old), old)
        if isinstance(old, BufferLoad):
            lanes = () if old.predicate is None else (expr(old.predicate),)
            places = [expr(i) for i in old.indices]
            return BufferLoad(buffer(old.buffer), places, *lanes)
        children = old.children()
        return old.with_children([expr(c) for c in children]) if children else old

    def statement(old: statements.Stmt) -> statements.Stmt:
        return map_statement(old, expr, statement, buffer)

    return (
        statement(node)
        if isinstance(node, statements.Stmt)
        else expr(prim.convert(node))
    )
