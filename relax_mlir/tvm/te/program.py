"""Lowering of tensor expressions to PrimFuncs: a loop nest and a block per tensor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from relax_mlir.objects import prim
from relax_mlir.objects.prim import IterVar, PrimExpr, Range, Reduce, Var
from relax_mlir.objects.prim.simplify import simplify
from relax_mlir.objects.stmt.buffer import Buffer, BufferLoad
from relax_mlir.objects.stmt.prim_func import PrimFunc
from relax_mlir.objects.stmt.statements import (
    Block,
    BlockRealize,
    BufferStore,
    For,
    ForKind,
    LetStmt,
    Stmt,
    stmt_seq,
)
from relax_mlir.tvm.te.replace import rewrite_expr, rewrite_stmt
from relax_mlir.tvm.te.tensor import (
    ComputeOp,
    ExternOp,
    Operation,
    PlaceholderOp,
    ProducerLoad,
    Tensor,
)

__all__ = ["create_prim_func"]

# Attributes that hint how to schedule a tensor; dropped from the PrimFunc.
_HINTS = {
    "const_matrix",
    "auto_scheduler_simplify_const_tensor_indices",
    "workload",
}
_LAYOUT_FREE = "layout_free_placeholders"


def create_prim_func(ops: Any, index_dtype_override: str | None = None) -> PrimFunc:
    """Lowers tensors to a PrimFunc.

    Args:
        ops: its parameters: input tensors, results, and scalar variables.
        index_dtype_override: the dtype of all indices; by default that of the shapes.

    Raises:
        ValueError: an input tensor is not a parameter.
        TypeError: a tensor is computed by an unsupported operation.
    """
    listed = list(ops) if isinstance(ops, (list, tuple)) else [ops]
    return _PrimFuncBuilder(listed, index_dtype_override).finish()


@dataclass
class _Level:
    """The loops of one depth of a nest, and the iter vars of the block inside them.

    Attributes:
        loops: the variable and range of each loop.
        axes: the iter vars of the block.
        values: their bindings.
        remap: from the axes of the tensor to the iter vars.
        indices: the indices of the element.
    """

    loops: list[tuple[Var, Range]] = field(default_factory=list)
    axes: list[IterVar] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    remap: dict[Var, PrimExpr] = field(default_factory=dict)
    indices: list[PrimExpr] = field(default_factory=list)

    def add(self, origin: IterVar, range_: Range, value: Any, dtype: str) -> None:
        """Add an iter var for ``origin``."""
        var = Var(f"v_{origin.var.name}", dtype)
        self.axes.append(IterVar(range_, var, origin.iter_type, origin.thread_tag))
        self.values.append(value)
        self.remap[origin.var] = var
        if origin.iter_type != IterVar.CommReduce:
            self.indices.append(var)


class _PrimFuncBuilder:
    """A PrimFunc under construction.

    Args:
        parameters: tensors and scalar variables.
        index_dtype: the dtype of all indices, or None.
    """

    def __init__(self, parameters: Sequence[Any], index_dtype: str | None) -> None:
        self.parameters = parameters
        self.index_dtype = index_dtype
        self.tensors = [p for p in parameters if isinstance(p, Tensor)]
        self.buffers: dict[Tensor, Buffer] = {}
        self.allocated: list[Buffer] = []
        self.statements: list[Stmt] = []
        self.layout_free: set[int] = set()
        self._sizes: dict[Var, Var] = {}
        self._block_names: dict[str, int] = {}
        self._buffer_names = {_identifier(tensor.name): 0 for tensor in self.tensors}

    def finish(self) -> PrimFunc:
        """The PrimFunc."""
        ordered = _topological_order([tensor.op for tensor in self.tensors])
        for op in ordered:
            if isinstance(op, ExternOp):
                pairs = zip(op.inputs, op.input_placeholders, strict=True)
                self.buffers |= {
                    tensor: self._declared_buffer(one) for tensor, one in pairs
                }
        for op in ordered:
            self._lower_operation(op)
        body = stmt_seq(*self.statements) if self.statements else None
        root = Block([], [], [], "root", body, None, self.allocated)  # pyright: ignore[reportArgumentType]
        params, buffer_map = [], {}
        for parameter in self.parameters:
            if not isinstance(parameter, Tensor):
                params.append(self._sizes.get(parameter, parameter))
                continue
            param = Var(f"var_{_identifier(parameter.name)}", "handle")
            params.append(param)
            buffer_map[param] = self.buffers[parameter]
        attrs: dict[str, Any] = {"global_symbol": "main", "tir.noalias": True}
        if self.layout_free:
            attrs["layout_free_buffers"] = sorted(self.layout_free)
        return PrimFunc(params, BlockRealize([], True, root), None, buffer_map, attrs)

    def _lower_operation(self, op: Operation) -> None:
        if isinstance(op, PlaceholderOp):
            self._lower_placeholder(op)
        elif isinstance(op, ComputeOp):
            self.statements.append(self._lower_compute(op))
        elif isinstance(op, ExternOp):
            self.statements.append(self._lower_extern(op))
        else:
            raise TypeError(
                f"`{op.name}`: Unsupported Operation: {type(op).__name__}. Expected a "
                "placeholder, a computed tensor or an extern statement"
            )

    def _lower_placeholder(self, op: PlaceholderOp) -> None:
        tensor = op.output(0)
        if tensor not in self.tensors:
            names = ", ".join(t.name for t in self.tensors)
            raise ValueError(
                f"tensor `{op.name}`: expected it among the parameters, got {names}"
            )
        if tensor not in self.buffers:
            self._declare(tensor)

    def _declare(self, tensor: Tensor) -> Buffer:
        shape = [self._typed(size) for size in tensor.shape]
        name = _identifier(tensor.name)
        if tensor not in self.tensors:
            name = _unique(name, self._buffer_names)
        return self._bind_buffer(tensor, Buffer(shape, tensor.dtype, name))

    def _bind_buffer(self, tensor: Tensor, buffer: Buffer) -> Buffer:
        """Bind a tensor to a buffer."""
        self.buffers[tensor] = buffer
        if tensor not in self.tensors:
            self.allocated.append(buffer)
        return buffer

    def _typed(self, size: PrimExpr) -> PrimExpr:
        """A size with its variables in the index dtype."""
        if self.index_dtype is None:
            return size
        for expr in prim.post_order(size):
            if (
                isinstance(expr, Var)
                and expr.is_integer
                and expr.dtype != self.index_dtype
            ):
                self._sizes.setdefault(expr, Var(expr.name, self.index_dtype))
        return prim.cast(self.index_dtype, prim.substitute(size, self._sizes))

    def _index(self, expr: PrimExpr) -> PrimExpr:
        """An index with casts to int32 changed to the index dtype."""
        wanted = self.index_dtype
        if wanted is None:
            return expr

        def widen(part: PrimExpr) -> PrimExpr | None:
            if isinstance(part, prim.Cast) and part.dtype == "int32":
                return prim.Cast(wanted, part.value)
            return None

        return rewrite_expr(expr, widen)

    def _fresh(self, wish: str) -> str:
        return _unique(_identifier(wish), self._block_names)

    def _transform(self, remap: Mapping[Var, PrimExpr]) -> Callable[[Any], PrimExpr]:
        """A function that lowers expressions on tensors to expressions on buffers and iter vars."""
        variables = {**self._sizes, **remap}

        def replace(expr: PrimExpr) -> PrimExpr | None:
            if isinstance(expr, Var):
                return variables.get(expr)
            if isinstance(expr, ProducerLoad):
                indices = [self._index(i) for i in expr.indices]
                return BufferLoad(self.buffers[expr.producer], indices)
            return None

        return lambda expr: rewrite_expr(prim.convert(expr), replace)

    def _lower_compute(self, op: ComputeOp) -> Stmt:
        levels = self._levels(op)
        buffers = [self._declare(op.output(i)) for i in range(op.num_outputs)]
        annotations = self._annotations(op)
        leaf = levels[-1]
        if isinstance(op.body[0], Reduce):
            transform = self._transform(leaf.remap)
            block = Block(
                leaf.axes,
                None,
                None,
                self._fresh(op.name),
                self._update_statement(op.body[0], buffers, leaf, transform),
                self._init_statement(op.body[0], buffers, levels, len(levels) - 1),
                annotations=annotations,
            )
            body: Stmt = BlockRealize(leaf.values, True, block)
        else:
            body = stmt_seq(
                *(
                    self._element_block(op, number, buffer, annotations, levels)
                    for number, buffer in enumerate(buffers)
                )
            )
        return self._wrap_in_loops(op, levels, body, buffers, annotations)

    def _element_block(
        self,
        op: ComputeOp,
        number: int,
        buffer: Buffer,
        annotations: Mapping[str, Any],
        levels: Sequence[_Level],
    ) -> Stmt:
        """The block that writes one of several results."""
        leaf = levels[-1] if number == 0 else _with_new_iters(levels[-1])
        value = simplify(self._transform(leaf.remap)(op.body[number]))
        store = _store(buffer, value, leaf.indices)
        name = self._fresh(buffer.name)
        block = Block(leaf.axes, None, None, name, store, annotations=annotations)
        return BlockRealize(leaf.values, True, block)

    def _wrap_in_loops(
        self,
        op: ComputeOp,
        levels: Sequence[_Level],
        body: Stmt,
        buffers: Sequence[Buffer],
        annotations: Mapping[str, Any],
    ) -> Stmt:
        """Wraps the innermost block in loops and the blocks between them."""
        reduction = op.body[0] if isinstance(op.body[0], Reduce) else None
        for depth in range(len(levels), 0, -1):
            level = levels[depth - 1]
            if depth < len(levels):
                start = None
                if reduction is not None:
                    start = self._init_statement(reduction, buffers, levels, depth - 1)
                name = self._fresh(f"{op.name}_l{depth}")
                block = Block(
                    level.axes, None, None, name, body, start, annotations=annotations
                )
                body = BlockRealize(level.values, True, block)
            for var, run in reversed(level.loops):
                body = For(var, run.min, run.extent, ForKind.SERIAL, body)
        return body

    def _identity(self, reduction: Reduce) -> list[PrimExpr]:
        return list(reduction.init) or reduction.combiner.identity(
            [s.dtype for s in reduction.source]
        )

    def _init_statement(
        self,
        reduction: Reduce,
        buffers: Sequence[Buffer],
        levels: Sequence[_Level],
        depth: int,
    ) -> Stmt | None:
        """The init statement, in the outermost block that reduces."""
        level, outer = levels[depth], levels[:depth]
        is_last = depth == len(levels) - 1
        if any(map(_reduces, outer)) or not (is_last or _reduces(level)):
            return None
        transform = self._transform(level.remap)
        values = map(transform, self._identity(reduction))
        pairs = zip(buffers, values, strict=False)
        return stmt_seq(*(_store(b, v, level.indices) for b, v in pairs))

    def _update_statement(
        self,
        reduction: Reduce,
        buffers: Sequence[Buffer],
        leaf: _Level,
        transform: Callable[[Any], PrimExpr],
    ) -> Stmt:
        old = [BufferLoad(buffer, leaf.indices) for buffer in buffers]
        new = [simplify(transform(s)) for s in _guarded_sources(reduction)]
        values = [transform(v) for v in reduction.combiner.combine(old, new)]
        if len(buffers) == 1:
            return _store(buffers[0], values[0], leaf.indices)
        pairs = list(zip(buffers, values, strict=True))
        let_vars = [Var(f"v_{b.name}", v.dtype) for b, v in pairs]
        body = stmt_seq(
            *(
                _store(b, v, leaf.indices)
                for b, v in zip(buffers, let_vars, strict=True)
            )
        )
        for var, value in reversed(list(zip(let_vars, values, strict=True))):
            body = LetStmt(var, value, body)
        return body

    def _annotations(self, op: ComputeOp) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in op.attrs.items():
            if name in _HINTS:
                continue
            if name == _LAYOUT_FREE:
                value = self._buffers_of_intermediates(value)
                if not value:
                    continue
            found[name] = value
        return found

    def _buffers_of_intermediates(self, tensors: Sequence[Tensor]) -> list[Buffer]:
        """The buffers of tensors that are not parameters; parameters are recorded."""
        inner = []
        for tensor in tensors:
            if tensor in self.tensors:
                self.layout_free.add(self.parameters.index(tensor))
            else:
                inner.append(self.buffers[tensor])
        return inner

    def _lower_extern(self, op: ExternOp) -> Stmt:
        buffers: dict[Buffer, Buffer] = {}
        pairs = zip(op.inputs, op.input_placeholders, strict=True)
        for tensor, placeholder in pairs:
            buffers[placeholder] = self.buffers[tensor]
        for number, placeholder in enumerate(op.output_placeholders):
            tensor = op.output(number)
            given = self._declared_buffer(
                placeholder, is_inner=tensor not in self.tensors
            )
            buffers[placeholder] = self._bind_buffer(tensor, given)
        body = rewrite_stmt(op.body, buffers, self._transform({}))
        attrs = {k: v for k, v in op.attrs.items() if k not in _HINTS}
        block = Block([], [], [], self._fresh(op.name), body, annotations=attrs)
        return BlockRealize([], True, block)

    def _declared_buffer(
        self, placeholder: Buffer, *, is_inner: bool = False
    ) -> Buffer:
        """The buffer declared by a placeholder; intermediate ones have offset 0."""
        return Buffer(
            [self._typed(size) for size in placeholder.shape],
            placeholder.dtype,
            placeholder.name,
            elem_offset=0 if is_inner else placeholder.elem_offset,
            scope=placeholder.scope(),
            data_alignment=placeholder.data_alignment,
            offset_factor=placeholder.offset_factor,
        )

    def _levels(self, op: ComputeOp) -> list[_Level]:
        """The loop levels of an operation; loops come after those their extents depend on."""
        axes = (*op.axis, *op.reduce_axis)
        depths = _depths(axes, self.index_dtype)
        levels: list[_Level] = []
        for depth in range(max(depths.values(), default=0) + 1):
            level = _Level()
            outer = levels[-1].remap if levels else {}
            for axis in axes:
                dtype = self.index_dtype or _index_dtype_of(axis.dom)
                if depths[axis.var] == depth:
                    run = self._loop_range(axis.dom, outer)
                    loop = Var(axis.var.name, dtype)
                    level.loops.append((loop, run))
                    level.add(axis, run, loop, dtype)
                elif depths[axis.var] < depth:
                    value = outer[axis.var]
                    level.add(axis, Range.from_min_extent(value, 1), value, dtype)
            levels.append(level)
        if not levels[-1].axes:
            unit_iter = IterVar((0, 1), "vi", IterVar.DataPar)
            levels[-1].axes.append(unit_iter)
            levels[-1].values.append(0)
        return levels

    def _loop_range(self, run: Range, outer: Mapping[Var, PrimExpr]) -> Range:
        exprs = (prim.substitute(bound, outer) for bound in (run.min, run.extent))
        bounds = [simplify(self._transform({})(self._typed(expr))) for expr in exprs]
        return Range.from_min_extent(*bounds)


def _unique(wish: str, taken: dict[str, int]) -> str:
    """``wish``, with a numeric suffix if taken; registers the result."""
    name = wish
    while name in taken:
        taken[wish] += 1
        name = f"{wish}_{taken[wish]}"
    taken[name] = 0
    return name


def _reduces(level: _Level) -> bool:
    return any(axis.iter_type == IterVar.CommReduce for axis in level.axes)


def _guarded_sources(reduction: Reduce) -> list[PrimExpr]:
    """The combined values; the identity element where the condition does not hold."""
    if reduction.condition is None:
        return list(reduction.source)
    identity = reduction.combiner.identity([s.dtype for s in reduction.source])
    return [
        prim.Select(reduction.condition, s, n)
        for s, n in zip(reduction.source, identity, strict=True)
    ]


def _depths(axes: Sequence[IterVar], index_dtype: str | None) -> dict[Var, int]:
    """The depth of every axis in the dependence order of their extents."""
    typed = {a.var: Var(a.var.name, index_dtype or a.var.dtype) for a in axes}
    by_var = {typed[axis.var]: axis for axis in axes}
    found: dict[Var, int] = {}

    def depth(axis: IterVar) -> int:
        if axis.var not in found:
            bounds = (axis.dom.min, axis.dom.extent)
            exprs = [simplify(prim.substitute(bound, typed)) for bound in bounds]
            mentioned = [t for expr in exprs for t in prim.post_order(expr)]
            inner = [by_var[t] for t in mentioned if isinstance(t, Var) and t in by_var]
            found[axis.var] = max((depth(i) + 1 for i in inner), default=0)
        return found[axis.var]

    for axis in axes:
        depth(axis)
    return found


def _store(buffer: Buffer, value: PrimExpr, indices: Sequence[PrimExpr]) -> Stmt:
    """A store of an element, converted to the buffer's dtype."""
    return BufferStore(buffer, prim.cast(buffer.dtype, value), indices)


def _with_new_iters(level: _Level) -> _Level:
    """A copy of a level with new iter vars."""
    made = _Level(loops=level.loops, values=level.values)
    fresh = {axis.var: Var(axis.var.name, axis.var.dtype) for axis in level.axes}
    made.axes = [
        IterVar(a.dom, fresh[a.var], a.iter_type, a.thread_tag) for a in level.axes
    ]
    made.remap = {origin: fresh[var] for origin, var in level.remap.items()}
    made.indices = [fresh[var] for var in level.indices]
    return made


def _index_dtype_of(run: Range) -> str:
    types = {run.min.dtype, run.extent.dtype}
    return "int64" if "int64" in types else "int32"


def _identifier(name: str) -> str:
    return name.replace(".", "_")


def _topological_order(ops: Sequence[Operation]) -> list[Operation]:
    """All operations that ``ops`` depend on, in topological order."""
    found: dict[int, Operation] = {}

    def visit(op: Operation) -> None:
        if id(op) in found:
            return
        for tensor in op.input_tensors:
            visit(tensor.op)
        found[id(op)] = op

    for op in ops:
        visit(op)
    return list(found.values())
