"""Tensor programs read as statements and terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import dtypes, tensors
from relax_mlir.dialects.tir import (
    AllocBufferOp,
    AttrOp,
    BlockOp,
    DeclBufferOp,
    VectorStoreOp,
    marks,
)
from relax_mlir.indexing import constant_of
from relax_mlir.objects import prim, stmt
from relax_mlir.objects.attributes import from_attribute
from relax_mlir.objects.buffer import Buffer, BufferRegion, Pointer, PointerType
from relax_mlir.objects.prim import IterVar, PrimExpr, Range, Var
from relax_mlir.objects.prim.lanes import element_type
from relax_mlir.objects.program_arguments import Arguments, pointee_of, text_of
from relax_mlir.objects.said_regions import with_said_regions
from relax_mlir.objects.scope import FunctionScope
from relax_mlir.objects.term_reader import (
    TermReader,
    dtype_of,
    is_guard,
    spelled_uses,
)

__all__ = ["ProgramReader"]

_LARGE = 24  # operations
_DYNAMIC = ir.ShapedType.get_dynamic_size()
_KINDS: Mapping[str, stmt.ForKind] = {
    "serial": stmt.ForKind.SERIAL,
    "parallel": stmt.ForKind.PARALLEL,
    "vectorized": stmt.ForKind.VECTORIZED,
    "unrolled": stmt.ForKind.UNROLLED,
    "thread_binding": stmt.ForKind.THREAD_BINDING,
}
_AXIS_TYPES: Mapping[str, int] = {
    "S": IterVar.DataPar,
    "R": IterVar.CommReduce,
    "O": IterVar.Opaque,
    "C": IterVar.Ordered,
}


class ProgramReader:
    """Reads one tensor program.

    Args:
        function: the program.
        scope: which objects its arguments are; what is read first is remembered there.

    Attributes:
        params: pointers and numbers, as a script lists them.
        buffer_map: the buffer of each pointer.
    """

    def __init__(self, function: func.FuncOp, scope: FunctionScope) -> None:
        self._function = function
        self._terms = TermReader()
        self._arguments = Arguments(function, scope, self._terms)
        self.params = self._arguments.params
        self.buffer_map = self._arguments.buffer_map
        self._allocs: list[list[Buffer]] = []
        self._matches: list[list[stmt.MatchBufferRegion]] = []
        self._carried = 0

    # statements

    def body(self) -> stmt.Stmt:
        """All of the program."""
        block = self._function.entry_block
        self._allocs.append([])
        self._matches.append([])
        inner = self._region(block)
        allocs = self._allocs.pop()
        self._matches.pop()
        if not self._has_root(block, allocs):
            return inner
        attributes = self._function.attributes
        name = text_of(attributes, marks.ROOT, "root")
        annotations = _annotations(attributes)
        is_said = marks.ROOT in attributes
        touched = None if is_said else []
        root = stmt.Block(
            [], touched, touched, name, inner, None, allocs, None, annotations
        )
        return stmt.BlockRealize([], True, root)

    def statements(
        self, variables: Mapping[ir.Value, Var], buffers: Mapping[ir.Value, Buffer]
    ) -> stmt.Stmt:
        """What stands in the program, in terms of variables and buffers that are known."""
        self._terms.terms.update(variables)
        self._terms.buffers.update(buffers)
        self._allocs.append([])
        self._matches.append([])
        return self._region(self._function.entry_block)

    def _has_root(self, block: ir.Block, allocs: Sequence[Buffer]) -> bool:
        if allocs or marks.ROOT in self._function.attributes:
            return True
        return _holds_block(self._function.operation)

    def _region(self, block: ir.Block) -> stmt.Stmt:
        return self._sequence(
            [op.opview for op in (o.operation for o in block.operations)]
        )

    def _sequence(self, operations: Sequence[ir.OpView]) -> stmt.Stmt:
        """Statements one after the other; a name stands for the rest of them."""
        found: list[stmt.Stmt] = []
        for number, op in enumerate(operations):
            rest = operations[number + 1 :]
            name = op.operation.name
            if name == "tir.let":
                value = self._terms.read(op.operands[0])
                var = self._let(op, value)
                found.append(stmt.LetStmt(var, value, self._sequence(rest)))
                break
            if name == "tir.assert":
                condition = self._terms.read(op.operands[0])
                message = ir.StringAttr(op.attributes["message"]).value
                found.append(stmt.AssertStmt(condition, message, self._sequence(rest)))
                break
            if isinstance(op, AllocBufferOp) and marks.ALLOCATE in op.attributes:
                found.append(self._allocate(op, rest))
                break
            if isinstance(op, DeclBufferOp):
                buffer = self._declared(op)
                if marks.IMPLICIT in op.attributes:
                    continue
                found.append(stmt.DeclBuffer(buffer, self._sequence(rest)))
                break
            if self._is_shared(op):
                result = op.operation.results[0]
                value = self._terms.read(result)
                var = Var(f"v{len(self._terms.terms)}", value.dtype)
                self._terms.terms[result] = var
                found.append(stmt.LetStmt(var, value, self._sequence(rest)))
                break
            made = self._statement(op)
            if made is not None:
                found.append(made)
        return stmt.stmt_seq(*found) if found else stmt.Evaluate(0)

    def _is_shared(self, op: ir.OpView) -> bool:
        """Whether arithmetic has a large result that is used twice.

        Scripts name such; what passes make has no names, and is a tree only if spelled
        again and again.
        """
        if not op.operation.name.startswith(("arith.", "math.")):
            return False
        result = op.operation.results[0]
        if spelled_uses(result) < 2 or constant_of(result) is not None or is_guard(op):
            return False
        return self._terms.size(self._terms.read(result)) > _LARGE

    def _let(self, op: ir.OpView, value: PrimExpr) -> Var:
        name = ir.StringAttr(op.attributes["name"]).value
        var = _variable(name, value.dtype, op.attributes)
        self._terms.terms[op.operation.results[0]] = var
        return var

    def _statement(self, op: ir.OpView) -> stmt.Stmt | None:
        """What an operation does; None for arithmetic, which is read where it is used."""
        name = op.operation.name
        read = _STATEMENTS.get(name)
        if read is not None:
            return read(self, op)
        if name == "scf.if":
            return None if len(op.operation.results) else self._choice(op)
        if isinstance(op, BlockOp):
            return self._block(op, prim.const(True))
        if len(op.operation.regions):
            raise ValueError(
                f"{op.location}: `{name}`: a script has no spelling for it"
            )
        return None

    def _store(self, op: ir.OpView) -> stmt.Stmt:
        value, target, *indices = op.operands
        buffer = self._terms.buffer(target)
        term = self._stored(value, buffer)
        return stmt.BufferStore(buffer, term, [self._terms.read(i) for i in indices])

    def _vector_store(self, op: VectorStoreOp) -> stmt.Stmt:
        buffer = self._terms.buffer(op.buffer)
        dtype = prim.with_lanes(element_type(buffer.dtype), dtype_of(op.value))
        places = [self._terms.read(i) for i in (*op.indices, op.places)]
        masks = [self._terms.read(v) for v in op.mask]
        term = self._stored(op.value, buffer, dtype)
        return stmt.BufferStore(buffer, term, places, *masks)

    def _stored(
        self, value: ir.Value, buffer: Buffer, dtype: str | None = None
    ) -> PrimExpr:
        owner = value.owner
        is_made = not isinstance(owner, ir.Block)
        element = dtypes.dtype(buffer.dtype)
        if element.is_padded and is_made and owner.name == "arith.extui":
            stored = owner.operands[0]
            is_cast = element.is_float and not isinstance(stored.owner, ir.Block)
            return self._terms.read(stored.owner.operands[0] if is_cast else stored)
        return _of_type(self._terms.read(value), dtype or buffer.dtype)

    def _undefined(self, op: ir.OpView) -> None:
        result = op.operation.results[0]
        if result in self._terms.terms:
            return
        attributes = op.attributes
        name = ir.StringAttr(attributes["name"]).value
        dtype = text_of(attributes, marks.DTYPE, "int32")
        self._terms.terms[result] = _variable(name, dtype, attributes)

    def _attr(self, op: AttrOp) -> stmt.Stmt:
        *nodes, value = self._terms.arguments(op)
        node: Any = nodes
        if op.form.value == "one":
            (node,) = nodes
        elif op.form.value == "reducer":
            node = self._reducer(nodes, op.combiner.blocks[0])
        body = self._region(op.body.blocks[0])
        return stmt.AttrStmt(node, op.key.value, value, body)

    def _reducer(self, starts: Sequence[Any], block: ir.Block) -> prim.CommReducer:
        names = [f"{side}{n}" for side in "xy" for n in range(len(starts))]
        if len(starts) == 1:
            names = ["x", "y"]
        variables = []
        for name, argument in zip(names, block.arguments, strict=True):
            var = Var(name, dtype_of(argument))
            self._terms.terms[argument] = var
            variables.append(var)
        *_, end = block.operations
        results = [self._terms.read(v) for v in end.operands]

        def combine(lhs: Sequence[PrimExpr], rhs: Sequence[PrimExpr]) -> list[PrimExpr]:
            table = dict(zip(variables, (*lhs, *rhs), strict=True))
            return [prim.substitute(r, table) for r in results]

        return prim.CommReducer("reduce", combine, lambda dtypes: list(starts))

    def _allocate(self, op: AllocBufferOp, rest: Sequence[ir.OpView]) -> stmt.Stmt:
        self._alloc(op)
        memory = self._allocs[-1].pop()
        kind = PointerType(memory.dtype, memory.scope())
        pointer = Pointer(memory.name, kind)
        memory.data = pointer
        said = from_attribute(op.attributes[marks.ALLOCATE])
        body = self._sequence(rest)
        return stmt.Allocate(pointer, memory.dtype, memory.shape, True, body, said)

    def _declared(self, op: DeclBufferOp) -> Buffer:
        attributes = op.operation.attributes
        known = self._terms.buffers.get(op.buffer)
        if known is not None:
            return known
        buffer = self._arguments.buffer(
            text_of(attributes, marks.NAME, "buf"),
            ir.MemRefType(op.buffer.type),
            tensors.python_value(attributes["shape"]),
            attributes,
            data=self._terms.read(op.pointer),
        )
        sizes = iter(map(self._terms.read, op.sizes))
        size_dtype = text_of(attributes, marks.SIZE_DTYPE, "int32")
        buffer.shape = tuple(
            s if isinstance(s, prim.IntImm) else prim.cast(size_dtype, next(sizes))
            for s in buffer.shape
        )
        self._terms.buffers[op.buffer] = buffer
        return buffer

    def _for(self, op: ir.OpView) -> stmt.Stmt:
        attributes = op.operation.attributes
        low, high, step, *starts = map(self._terms.read, op.operands)
        body = op.operation.regions[0].blocks[0]
        variable, *carried = body.arguments
        dtype = text_of(attributes, marks.DTYPE, "int32")
        var = Var(text_of(attributes, marks.NAME, "i"), dtype)
        self._terms.terms[variable] = var
        kept = [self._kept(v, r) for v, r in zip(carried, op.results, strict=True)]
        inner = self._region(body)
        if kept:
            inner = stmt.stmt_seq(inner, self._next(body, kept))
        loop = stmt.For(
            var,
            low,
            high - low,
            _KINDS[text_of(attributes, marks.KIND, "serial")],
            inner,
            _thread(attributes, dtype),
            _annotations(attributes),
            None if isinstance(step, prim.IntImm) and step.value == 1 else step,
        )
        pairs = zip(kept, starts, strict=True)
        return stmt.stmt_seq(*(stmt.BufferStore(b, v, [0]) for b, v in pairs), loop)

    def _kept(self, inside: ir.Value, after: ir.Value) -> Buffer:
        """A buffer for a value that steps of a loop hand on, as scripts have none."""
        self._carried += 1
        buffer = Buffer(
            [1], dtype_of(inside), f"carried_{self._carried}", scope="local"
        )
        self._allocs[-1].append(buffer)
        for value in (inside, after):
            self._terms.terms[value] = buffer[0]
        return buffer

    def _next(self, body: ir.Block, kept: Sequence[Buffer]) -> stmt.Stmt:
        """Hand on the values of one step, all at once."""
        *_, end = body.operations
        values = [self._terms.read(v) for v in end.operands]
        if len(kept) == 1:
            return stmt.BufferStore(kept[0], values[0], [0])
        names = [Var(f"next_{n}", v.dtype) for n, v in enumerate(values)]
        pairs = zip(kept, names, strict=True)
        made = stmt.stmt_seq(*(stmt.BufferStore(b, v, [0]) for b, v in pairs))
        for name, value in reversed(list(zip(names, values, strict=True))):
            made = stmt.LetStmt(name, value, made)
        return made

    def _while(self, op: ir.OpView) -> stmt.Stmt:
        before, after = (r.blocks[0] for r in op.operation.regions)
        *_, end = before.operations
        return stmt.While(self._terms.read(end.operands[0]), self._region(after))

    def _choice(self, op: ir.OpView) -> stmt.Stmt:
        condition = self._terms.read(op.operands[0])
        then, *other = [r.blocks[0] for r in op.operation.regions if len(r.blocks)]
        if marks.WHERE in op.operation.attributes:
            for inner in then.operations:
                if isinstance(inner, BlockOp):
                    return self._block(inner, condition)
        if other and len(other[0].operations) > 1:
            return stmt.IfThenElse(
                condition, self._region(then), self._region(other[0])
            )
        return stmt.IfThenElse(condition, self._region(then))

    def _evaluate(self, op: ir.OpView) -> stmt.Stmt:
        return stmt.Evaluate(self._terms.read(op.operands[0]))

    def _call(self, op: ir.OpView) -> stmt.Stmt | None:
        """A call that makes nothing; others are read where their result is used."""
        return (
            None if len(op.operation.results) else stmt.Evaluate(self._terms.call(op))
        )

    def _packed(self, op: ir.OpView) -> stmt.Stmt:
        buffers = [self._terms.buffer(v) for v in tensors.elements(op.operands[0])]
        callee = prim.StringImm(ir.StringAttr(op.attributes["callee"]).value)
        args = [callee, *(b.data for b in buffers)]
        return stmt.Evaluate(prim.Call("int32", "tvm_call_packed", args))

    def _alloc(self, op: AllocBufferOp) -> None:
        attributes = op.operation.attributes
        type_ = ir.MemRefType(op.buffer.type)
        dims = tensors.python_value(attributes["shape"])
        name = text_of(attributes, marks.NAME, "buf")
        buffer = self._arguments.buffer(name, type_, dims, attributes)
        self._terms.buffers[op.buffer] = buffer
        self._allocs[-1].append(buffer)

    def _match(self, op: ir.OpView) -> None:
        attributes = op.operation.attributes
        result = op.operation.results[0]
        source = self._terms.buffer(op.operands[0])
        operands = iter(list(op.operands)[1:])
        offsets, sizes = (
            [
                self._terms.read(next(operands))
                if value == _DYNAMIC
                else prim.const(value)
                for value in ir.DenseI64ArrayAttr(attributes[f"static_{kind}"])
            ]
            for kind in ("offsets", "sizes")
        )
        runs = [Range.from_min_extent(*p) for p in zip(offsets, sizes, strict=True)]
        type_ = ir.MemRefType(result.type)
        kept = iter(type_.shape)
        shape = _dropped(sizes, list(kept))
        name = text_of(attributes, marks.NAME, f"{source.name}_1")
        buffer = self._arguments.buffer(name, type_, [], attributes)
        size_dtype = text_of(attributes, marks.SIZE_DTYPE, "int32")
        buffer.shape = tuple(prim.cast(size_dtype, s) for s in shape)
        self._terms.buffers[result] = buffer
        region = BufferRegion(source, runs)
        self._matches[-1].append(stmt.MatchBufferRegion(buffer, region))

    # blocks

    def _block(self, op: BlockOp, predicate: PrimExpr) -> stmt.Stmt:
        axes = self._axes(op)
        self._name_arguments(op, axes)
        self._allocs.append([])
        self._matches.append([])
        body = self._region(op.body.blocks[0])
        init = self._region(op.init.blocks[0]) if op.has_init else None
        made = stmt.Block(
            axes,
            None,
            None,
            op.name.value,
            body,
            init,
            self._allocs.pop(),
            self._matches.pop(),
            _annotations(op.operation.attributes),
        )
        if marks.TOUCHED in op.operation.attributes:
            said = from_attribute(op.operation.attributes[marks.TOUCHED])
            made = with_said_regions(made, said)
        if len(op.bindings) or not axes:
            values = [self._terms.read(v) for v in op.bindings]
            return stmt.BlockRealize(values, predicate, made)
        return _looped(made, predicate)

    def _axes(self, op: BlockOp) -> list[IterVar]:
        attributes = op.operation.attributes
        kinds = op.kinds.value
        called = [f"v{i}" for i in range(len(kinds))]
        if marks.AXIS_NAMES in attributes:
            called = from_attribute(attributes[marks.AXIS_NAMES])
        types = ["int32"] * len(kinds)
        if marks.AXIS_DTYPES in attributes:
            types = from_attribute(attributes[marks.AXIS_DTYPES])
        starts: Sequence[Any] = [0] * len(kinds)
        if marks.AXIS_STARTS in attributes:
            starts = tensors.python_value(attributes[marks.AXIS_STARTS])
        axes = []
        for kind, name, dtype, start, extent in zip(
            kinds, called, types, starts, op.axis_extents(), strict=True
        ):
            size = self._terms.read(extent) if isinstance(extent, ir.Value) else extent
            run = Range.from_min_extent(
                self._start(start, dtype), prim.cast(dtype, size)
            )
            axes.append(IterVar(run, Var(name, dtype), _AXIS_TYPES[kind]))
        return axes

    def _start(self, dim: Any, dtype: str) -> PrimExpr:
        """Where an axis starts: a size, or an axis of a block around by its name."""
        term = self._arguments.size(dim, dtype)
        around = {v.name: v for v in self._terms.terms.values() if isinstance(v, Var)}
        free = [v for v in prim.post_order(term) if isinstance(v, Var)]
        named = {v: around[v.name] for v in free if v.name in around}
        return prim.substitute(term, named) if named else term

    def _name_arguments(self, op: BlockOp, axes: Sequence[IterVar]) -> None:
        for region in op.operation.regions:
            for block in region.blocks:
                for argument, axis in zip(block.arguments, axes, strict=True):
                    self._terms.terms[argument] = axis.var


def _variable(name: str, dtype: str, attrs: Any) -> Var:
    """A variable; a pointer if it is one."""
    return Pointer(name, pointee_of(attrs)) if dtype == "handle" else Var(name, dtype)


def _of_type(term: PrimExpr, dtype: str) -> PrimExpr:
    """A term as an element of a buffer, whose type tells the sign of an integer."""
    if term.dtype == dtype:
        return term
    if isinstance(term, prim.IntImm):
        width = dtype.removeprefix("uint")
        is_unsigned = dtype.startswith("uint")
        value = term.value % (1 << int(width)) if is_unsigned else term.value
        return prim.const(value, dtype)
    is_sign = term.dtype.removeprefix("u") == dtype.removeprefix("u")
    if isinstance(term, prim.Cast) and is_sign:
        return prim.Cast(dtype, term.value)
    return prim.Cast(dtype, term)


def _annotations(attrs: Any) -> Mapping[str, Any]:
    if marks.ANNOTATIONS not in attrs:
        return {}
    return from_attribute(attrs[marks.ANNOTATIONS])


def _thread(attrs: Any, dtype: str) -> IterVar | None:
    if marks.THREAD not in attrs:
        return None
    tag = ir.StringAttr(attrs[marks.THREAD]).value
    return IterVar(None, Var("", dtype), IterVar.ThreadIndex, tag)


def _holds_block(root: ir.Operation) -> bool:
    """Whether there is a block somewhere in a program."""
    for region in root.regions:
        for block in region.blocks:
            for op in block.operations:
                if isinstance(op, BlockOp) or _holds_block(op.operation):
                    return True
    return False


def _dropped(sizes: Sequence[PrimExpr], kept: Sequence[int]) -> list[PrimExpr]:
    """The sizes of a box without those that its buffer does not have."""
    excess = len(sizes) - len(kept)
    found: list[PrimExpr] = []
    for size in sizes:
        if excess and isinstance(size, prim.IntImm) and size.value == 1:
            excess -= 1
        else:
            found.append(size)
    return found


def _looped(block: stmt.Block, predicate: PrimExpr) -> stmt.Stmt:
    """A block that stands for its whole grid, in loops."""
    loops = [Var(f"i{n}", a.var.dtype) for n, a in enumerate(block.iter_vars)]
    made: stmt.Stmt = stmt.BlockRealize(loops, predicate, block)
    for var, axis in reversed(list(zip(loops, block.iter_vars, strict=True))):
        made = stmt.For(var, axis.dom.min, axis.dom.extent, stmt.ForKind.SERIAL, made)
    return made


_STATEMENTS: Mapping[str, Any] = {
    "memref.store": ProgramReader._store,
    "scf.for": ProgramReader._for,
    "scf.while": ProgramReader._while,
    "tir.evaluate": ProgramReader._evaluate,
    "tir.vector_store": ProgramReader._vector_store,
    "tir.attr": ProgramReader._attr,
    "tir.alloc_buffer": ProgramReader._alloc,
    "tir.undefined": ProgramReader._undefined,
    "memref.subview": ProgramReader._match,
    "tir.call": ProgramReader._call,
    "tir.call_packed": ProgramReader._packed,
}
