"""Tensor programs of tensor expressions: a nest of loops and a block per tensor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from relax_mlir.objects import prim
from relax_mlir.objects.buffer import Buffer, BufferLoad
from relax_mlir.objects.prim import IterVar, PrimExpr, Range, Reduce, Var
from relax_mlir.objects.prim_func import PrimFunc
from relax_mlir.objects.simplify import simplify
from relax_mlir.objects.stmt import (
    Block,
    BlockRealize,
    BufferStore,
    For,
    ForKind,
    LetStmt,
    Stmt,
    stmt_seq,
)
from relax_mlir.te.replace import rewrite, rewrite_stmt
from relax_mlir.te.tensor import (
    ComputeOp,
    ExternOp,
    Operation,
    PlaceholderOp,
    ProducerLoad,
    Tensor,
)

__all__ = ["create_prim_func"]

# What says how to compute a tensor, and nothing to those who read the program.
_HINTS = {
    "const_matrix",
    "auto_scheduler_simplify_const_tensor_indices",
    "workload",
}
_LAYOUT_FREE = "layout_free_placeholders"


def create_prim_func(ops: Any, index_dtype_override: str | None = None) -> PrimFunc:
    """The tensor program of tensors.

    Args:
        ops: its parameters: given tensors, results, and scalar variables.
        index_dtype_override: type of all indices; by default that of the sizes.

    Raises:
        ValueError: a tensor that is given is no parameter.
        TypeError: a tensor is computed by what is no block.
    """
    listed = list(ops) if isinstance(ops, (list, tuple)) else [ops]
    return _Program(listed, index_dtype_override).finish()


@dataclass
class _Level:
    """The loops of one depth of a nest, and the axes of the block inside them.

    Attributes:
        loops: variable and run of each.
        axes: of the block.
        values: what the axes are.
        remap: from the axes of the tensor to those of the block.
        places: where the element lies.
    """

    loops: list[tuple[Var, Range]] = field(default_factory=list)
    axes: list[IterVar] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    remap: dict[Var, PrimExpr] = field(default_factory=dict)
    places: list[PrimExpr] = field(default_factory=list)

    def add(self, origin: IterVar, run: Range, value: Any, dtype: str) -> None:
        """Add an axis for ``origin``."""
        var = Var(f"v_{origin.var.name}", dtype)
        self.axes.append(IterVar(run, var, origin.iter_type, origin.thread_tag))
        self.values.append(value)
        self.remap[origin.var] = var
        if origin.iter_type != IterVar.CommReduce:
            self.places.append(var)


class _Program:
    """One program that is being made.

    Args:
        parameters: tensors and scalar variables.
        index_dtype: type of all indices, or None.
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
        self._taken: dict[str, int] = {}
        self._held = {_identifier(tensor.name): 0 for tensor in self.tensors}

    def finish(self) -> PrimFunc:
        """The program."""
        ordered = _ordered([tensor.op for tensor in self.tensors])
        for op in ordered:
            if isinstance(op, ExternOp):
                pairs = zip(op.inputs, op.input_placeholders, strict=True)
                self.buffers |= {tensor: self._matched(one) for tensor, one in pairs}
        for op in ordered:
            self._stage(op)
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

    def _stage(self, op: Operation) -> None:
        if isinstance(op, PlaceholderOp):
            self._given(op)
        elif isinstance(op, ComputeOp):
            self.statements.append(self._computed(op))
        elif isinstance(op, ExternOp):
            self.statements.append(self._extern(op))
        else:
            raise TypeError(
                f"`{op.name}`: Unsupported Operation: {type(op).__name__}. Only "
                "placeholders, computed tensors and extern statements make a program"
            )

    def _given(self, op: PlaceholderOp) -> None:
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
            name = _unique(name, self._held)
        return self._hold(tensor, Buffer(shape, tensor.dtype, name))

    def _hold(self, tensor: Tensor, buffer: Buffer) -> Buffer:
        """Keep a tensor in a buffer."""
        self.buffers[tensor] = buffer
        if tensor not in self.tensors:
            self.allocated.append(buffer)
        return buffer

    def _typed(self, size: PrimExpr) -> PrimExpr:
        """A size whose variables have the type of the indices."""
        if self.index_dtype is None:
            return size
        for term in prim.post_order(size):
            if (
                isinstance(term, Var)
                and term.is_integer
                and term.dtype != self.index_dtype
            ):
                self._sizes.setdefault(term, Var(term.name, self.index_dtype))
        return prim.cast(self.index_dtype, prim.substitute(size, self._sizes))

    def _index(self, term: PrimExpr) -> PrimExpr:
        """An index: numbers that are made one take the type of the indices."""
        wanted = self.index_dtype
        if wanted is None:
            return term

        def widen(part: PrimExpr) -> PrimExpr | None:
            if isinstance(part, prim.Cast) and part.dtype == "int32":
                return prim.Cast(wanted, part.value)
            return None

        return rewrite(term, widen)

    def _fresh(self, wish: str) -> str:
        return _unique(_identifier(wish), self._taken)

    def _transform(self, remap: Mapping[Var, PrimExpr]) -> Callable[[Any], PrimExpr]:
        """What turns a term on tensors and axes into one on buffers and block axes."""
        variables = {**self._sizes, **remap}

        def replace(term: PrimExpr) -> PrimExpr | None:
            if isinstance(term, Var):
                return variables.get(term)
            if isinstance(term, ProducerLoad):
                indices = [self._index(i) for i in term.indices]
                return BufferLoad(self.buffers[term.producer], indices)
            return None

        return lambda term: rewrite(prim.convert(term), replace)

    def _computed(self, op: ComputeOp) -> Stmt:
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
                self._update(op.body[0], buffers, leaf, transform),
                self._start(op.body[0], buffers, levels, len(levels) - 1),
                annotations=annotations,
            )
            body: Stmt = BlockRealize(leaf.values, True, block)
        else:
            body = stmt_seq(
                *(
                    self._element(op, number, buffer, annotations, levels)
                    for number, buffer in enumerate(buffers)
                )
            )
        return self._nest(op, levels, body, buffers, annotations)

    def _element(
        self,
        op: ComputeOp,
        number: int,
        buffer: Buffer,
        annotations: Mapping[str, Any],
        levels: Sequence[_Level],
    ) -> Stmt:
        """The block that writes one of the results."""
        leaf = levels[-1] if number == 0 else _renewed(levels[-1])
        value = simplify(self._transform(leaf.remap)(op.body[number]))
        store = _store(buffer, value, leaf.places)
        name = self._fresh(buffer.name)
        block = Block(leaf.axes, None, None, name, store, annotations=annotations)
        return BlockRealize(leaf.values, True, block)

    def _nest(
        self,
        op: ComputeOp,
        levels: Sequence[_Level],
        body: Stmt,
        buffers: Sequence[Buffer],
        annotations: Mapping[str, Any],
    ) -> Stmt:
        """The loops, and the blocks between them, around the innermost block."""
        reduction = op.body[0] if isinstance(op.body[0], Reduce) else None
        for depth in range(len(levels), 0, -1):
            level = levels[depth - 1]
            if depth < len(levels):
                start = None
                if reduction is not None:
                    start = self._start(reduction, buffers, levels, depth - 1)
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

    def _start(
        self,
        reduction: Reduce,
        buffers: Sequence[Buffer],
        levels: Sequence[_Level],
        depth: int,
    ) -> Stmt | None:
        """What comes before the first point, in the outermost block that reduces."""
        level, outer = levels[depth], levels[:depth]
        is_last = depth == len(levels) - 1
        if any(map(_reduces, outer)) or not (is_last or _reduces(level)):
            return None
        transform = self._transform(level.remap)
        values = map(transform, self._identity(reduction))
        pairs = zip(buffers, values, strict=False)
        return stmt_seq(*(_store(b, v, level.places) for b, v in pairs))

    def _update(
        self,
        reduction: Reduce,
        buffers: Sequence[Buffer],
        leaf: _Level,
        transform: Callable[[Any], PrimExpr],
    ) -> Stmt:
        old = [BufferLoad(buffer, leaf.places) for buffer in buffers]
        new = [simplify(transform(s)) for s in _sources(reduction)]
        values = [transform(v) for v in reduction.combiner.combine(old, new)]
        if len(buffers) == 1:
            return _store(buffers[0], values[0], leaf.places)
        pairs = list(zip(buffers, values, strict=True))
        held = [Var(f"v_{b.name}", v.dtype) for b, v in pairs]
        body = stmt_seq(
            *(_store(b, v, leaf.places) for b, v in zip(buffers, held, strict=True))
        )
        for var, value in reversed(list(zip(held, values, strict=True))):
            body = LetStmt(var, value, body)
        return body

    def _annotations(self, op: ComputeOp) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in op.attrs.items():
            if name in _HINTS:
                continue
            if name == _LAYOUT_FREE:
                value = self._inner(value)
                if not value:
                    continue
            found[name] = value
        return found

    def _inner(self, tensors: Sequence[Tensor]) -> list[Buffer]:
        """The buffers of tensors that are no parameters; those that are, are noted."""
        inner = []
        for tensor in tensors:
            if tensor in self.tensors:
                self.layout_free.add(self.parameters.index(tensor))
            else:
                inner.append(self.buffers[tensor])
        return inner

    def _extern(self, op: ExternOp) -> Stmt:
        buffers: dict[Buffer, Buffer] = {}
        pairs = zip(op.inputs, op.input_placeholders, strict=True)
        for tensor, placeholder in pairs:
            buffers[placeholder] = self.buffers[tensor]
        for number, placeholder in enumerate(op.output_placeholders):
            tensor = op.output(number)
            given = self._matched(placeholder, is_inner=tensor not in self.tensors)
            buffers[placeholder] = self._hold(tensor, given)
        body = rewrite_stmt(op.body, buffers, self._transform({}))
        attrs = {k: v for k, v in op.attrs.items() if k not in _HINTS}
        block = Block([], [], [], self._fresh(op.name), body, annotations=attrs)
        return BlockRealize([], True, block)

    def _matched(self, placeholder: Buffer, *, is_inner: bool = False) -> Buffer:
        """The buffer that a placeholder says; one inside starts where its memory does."""
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
        """The loops of an operation, those first that the extents of others mention."""
        axes = (*op.axis, *op.reduce_axis)
        depths = _depths(axes, self.index_dtype)
        levels: list[_Level] = []
        for depth in range(max(depths.values(), default=0) + 1):
            level = _Level()
            outer = levels[-1].remap if levels else {}
            for axis in axes:
                dtype = self.index_dtype or _wider(axis.dom)
                if depths[axis.var] == depth:
                    run = self._run(axis.dom, outer)
                    loop = Var(axis.var.name, dtype)
                    level.loops.append((loop, run))
                    level.add(axis, run, loop, dtype)
                elif depths[axis.var] < depth:
                    value = outer[axis.var]
                    level.add(axis, Range.from_min_extent(value, 1), value, dtype)
            levels.append(level)
        if not levels[-1].axes:
            point = IterVar((0, 1), "vi", IterVar.DataPar)
            levels[-1].axes.append(point)
            levels[-1].values.append(0)
        return levels

    def _run(self, run: Range, outer: Mapping[Var, PrimExpr]) -> Range:
        terms = (prim.substitute(bound, outer) for bound in (run.min, run.extent))
        bounds = [simplify(self._transform({})(self._typed(term))) for term in terms]
        return Range.from_min_extent(*bounds)


def _unique(wish: str, taken: dict[str, int]) -> str:
    """``wish``, with a number if that is taken; from now on it is."""
    name = wish
    while name in taken:
        taken[wish] += 1
        name = f"{wish}_{taken[wish]}"
    taken[name] = 0
    return name


def _reduces(level: _Level) -> bool:
    return any(axis.iter_type == IterVar.CommReduce for axis in level.axes)


def _sources(reduction: Reduce) -> list[PrimExpr]:
    """What is combined: neutral elements where the condition does not hold."""
    if reduction.condition is None:
        return list(reduction.source)
    neutral = reduction.combiner.identity([s.dtype for s in reduction.source])
    return [
        prim.Select(reduction.condition, s, n)
        for s, n in zip(reduction.source, neutral, strict=True)
    ]


def _depths(axes: Sequence[IterVar], index_dtype: str | None) -> dict[Var, int]:
    """How many axes deep the extent of every axis depends on others."""
    typed = {a.var: Var(a.var.name, index_dtype or a.var.dtype) for a in axes}
    by_var = {typed[axis.var]: axis for axis in axes}
    found: dict[Var, int] = {}

    def depth(axis: IterVar) -> int:
        if axis.var not in found:
            bounds = (axis.dom.min, axis.dom.extent)
            terms = [simplify(prim.substitute(bound, typed)) for bound in bounds]
            mentioned = [t for term in terms for t in prim.post_order(term)]
            inner = [by_var[t] for t in mentioned if isinstance(t, Var) and t in by_var]
            found[axis.var] = max((depth(i) + 1 for i in inner), default=0)
        return found[axis.var]

    for axis in axes:
        depth(axis)
    return found


def _store(buffer: Buffer, value: PrimExpr, places: Sequence[PrimExpr]) -> Stmt:
    """The statement that writes an element; an index takes the buffer's type."""
    return BufferStore(buffer, prim.cast(buffer.dtype, value), places)


def _renewed(level: _Level) -> _Level:
    """The same level with axes of its own."""
    made = _Level(loops=level.loops, values=level.values)
    fresh = {axis.var: Var(axis.var.name, axis.var.dtype) for axis in level.axes}
    made.axes = [
        IterVar(a.dom, fresh[a.var], a.iter_type, a.thread_tag) for a in level.axes
    ]
    made.remap = {origin: fresh[var] for origin, var in level.remap.items()}
    made.places = [fresh[var] for var in level.places]
    return made


def _wider(run: Range) -> str:
    types = {run.min.dtype, run.extent.dtype}
    return "int64" if "int64" in types else "int32"


def _identifier(name: str) -> str:
    return name.replace(".", "_")


def _ordered(ops: Sequence[Operation]) -> list[Operation]:
    """All operations that ``ops`` need, inputs first."""
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
