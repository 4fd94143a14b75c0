"""Tensor programs read as statements and terms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import dtypes, tensors
from relax_mlir.dialects.dtypes import element_of
from relax_mlir.dialects.tir import (
    AllocBufferOp,
    AttrOp,
    BlockOp,
    DeclBufferOp,
    VectorStoreOp,
    marks,
)
from relax_mlir.objects import prim, stmt
from relax_mlir.objects.block_reader import read_block, say_regions_of
from relax_mlir.objects.buffer import Buffer
from relax_mlir.objects.buffer_reader import (
    read_alloc,
    read_allocate,
    read_declared,
    read_match,
)
from relax_mlir.objects.guards import spelled_counts
from relax_mlir.objects.loop_reader import read_for, read_while
from relax_mlir.objects.overwritten_loads import OverwrittenLoads
from relax_mlir.objects.prim import PrimExpr, Var
from relax_mlir.objects.prim.lanes import element_type
from relax_mlir.objects.program_arguments import (
    Arguments,
    annotations_of,
    text_of,
    variable_of,
)
from relax_mlir.objects.scope import FunctionScope
from relax_mlir.objects.term_reader import TermReader, dtype_of
from relax_mlir.traversal import own_operations

__all__ = ["ProgramReader"]

_LARGE = 24  # operations
_ENDS = ("func.return", "gpu.yield", "scf.yield", "scf.condition")  # of blocks
_NAMED = ("arith.", "math.", "memref.load", "scf.if", "tir.vector_load", "vector.")


class ProgramReader:
    """Reads one tensor program.

    Args:
        function: the program.
        scope: which objects its arguments are; what is read first is remembered there.

    Attributes:
        params: pointers and numbers, as a script lists them.
        buffer_map: the buffer of each pointer.
        terms: reads scalars, and knows what buffers are.
        arguments: reads what the program takes.
        allocs: the buffers of the blocks around, outermost first.
        matches: the names that they give to boxes of buffers.
        carried: how many buffers there are for values that loops hand on.
        blocks: what each block was read as, by what its body tells.
    """

    def __init__(self, function: func.FuncOp, scope: FunctionScope) -> None:
        self._function = function
        self.terms = TermReader()
        self.arguments = Arguments(function, scope, self.terms)
        self.params = self.arguments.params
        self.buffer_map = self.arguments.buffer_map
        self.allocs: list[list[Buffer]] = []
        self.matches: list[list[stmt.MatchBufferRegion]] = []
        self.carried = 0
        self.blocks: dict[ir.Operation, stmt.Block] = {}

    @cached_property
    def _overwritten(self) -> OverwrittenLoads:
        return OverwrittenLoads(self._function)

    @cached_property
    def _spelled(self) -> Counter[ir.Value]:
        return spelled_counts(self._function, self.terms.indices)

    def body(self) -> stmt.Stmt:
        """All of the program."""
        block = self._function.entry_block
        self.allocs.append([])
        self.matches.append([])
        inner = self.region(block)
        allocs = self.allocs.pop()
        self.matches.pop()
        if not self._has_root(block, allocs):
            return inner
        attributes = self._function.attributes
        name = text_of(attributes, marks.ROOT, "root")
        annotations = annotations_of(attributes)
        is_said = marks.ROOT in attributes
        touched = None if is_said else []
        root = stmt.Block(
            [], touched, touched, name, inner, None, allocs, None, annotations
        )
        root.says_regions = False
        say_regions_of(self, self._function.operation, root)
        return stmt.BlockRealize([], True, root)

    def statements(
        self, variables: Mapping[ir.Value, Var], buffers: Mapping[ir.Value, Buffer]
    ) -> stmt.Stmt:
        """What stands in the program, in terms of variables and buffers that are known."""
        self.terms.terms.update(variables)
        self.terms.buffers.update(buffers)
        self.allocs.append([])
        self.matches.append([])
        return self.region(self._function.entry_block)

    def _has_root(self, block: ir.Block, allocs: Sequence[Buffer]) -> bool:
        if allocs or marks.ROOT in self._function.attributes:
            return True
        return _holds_block(self._function.operation)

    def region(self, block: ir.Block) -> stmt.Stmt:
        """The statements of a block of a region."""
        return self.sequence([o.operation.opview for o in own_operations(block)])

    def sequence(self, operations: Sequence[ir.OpView]) -> stmt.Stmt:
        """Statements one after the other; a name stands for the rest of them."""
        found: list[stmt.Stmt] = []
        for number, op in enumerate(operations):
            opened = self._open(op, operations[number + 1 :])
            if opened is not None:
                found.append(opened)
                break
            made = self._statement(op)
            if made is not None:
                found.append(made)
        return stmt.stmt_seq(*found) if found else stmt.Evaluate(0)

    def _open(self, op: ir.OpView, rest: Sequence[ir.OpView]) -> stmt.Stmt | None:
        """A statement that holds the rest; None for an operation that makes none."""
        if op.operation.name == "tir.let":
            return self._let(op, rest)
        if op.operation.name == "tir.assert":
            condition = self.terms.read(op.operands[0])
            message = ir.StringAttr(op.attributes["message"]).value
            return stmt.AssertStmt(condition, message, self.sequence(rest))
        if isinstance(op, AllocBufferOp) and marks.ALLOCATE in op.attributes:
            return read_allocate(self, op, rest)
        if isinstance(op, DeclBufferOp):
            buffer = read_declared(self, op)
            is_said = marks.IMPLICIT not in op.attributes
            return stmt.DeclBuffer(buffer, self.sequence(rest)) if is_said else None
        is_named = self._is_shared(op) or self._overwritten.holds(op)
        return self._named(op, rest) if is_named else None

    def _let(self, op: ir.OpView, rest: Sequence[ir.OpView]) -> stmt.Stmt:
        value = self.terms.number(op.operands[0])
        name = ir.StringAttr(op.attributes["name"]).value
        var = variable_of(name, value.dtype, op.attributes)
        self.terms.terms[op.operation.results[0]] = var
        return stmt.LetStmt(var, value, self.sequence(rest))

    def _named(self, op: ir.OpView, rest: Sequence[ir.OpView]) -> stmt.Stmt:
        """Variables for the results of an operation, where it stands."""
        results = list(op.operation.results)
        values = list(map(self.terms.number, results))
        variables = []
        for result, value in zip(results, values, strict=True):
            variables.append(Var(f"v{len(self.terms.terms)}", value.dtype))
            self.terms.terms[result] = variables[-1]
        made = self.sequence(rest)
        for var, value in reversed(list(zip(variables, values, strict=True))):
            made = stmt.LetStmt(var, value, made)
        return made

    def _is_shared(self, op: ir.OpView) -> bool:
        """Whether a large result is spelled twice.

        Scripts name such; what passes make has no names, and is a tree only if spelled
        again and again.
        """
        results = list(op.operation.results)
        if not results or not op.operation.name.startswith(_NAMED):
            return False
        shared = [r for r in results if self._spelled[r] > 1]
        sizes = (self.terms.size(self.terms.number(r)) for r in shared)
        return any(size > _LARGE for size in sizes)

    def _statement(self, op: ir.OpView) -> stmt.Stmt | None:
        """What an operation does; None for arithmetic, which is read where it is used."""
        name = op.operation.name
        read = _STATEMENTS.get(name)
        if read is not None:
            return read(self, op)
        if name == "scf.if":
            return None if len(op.operation.results) else self._choice(op)
        if isinstance(op, BlockOp):
            return read_block(self, op, prim.const(True))
        is_act = not len(op.operation.results) and name not in _ENDS
        if len(op.operation.regions) or is_act:
            raise ValueError(
                f"{op.location}: `{name}`: a script has no spelling for it"
            )
        return None

    def _store(self, op: ir.OpView) -> stmt.Stmt:
        value, target, *indices = op.operands
        buffer = self.terms.buffer(target)
        term = self._stored(value, buffer)
        return stmt.BufferStore(buffer, term, [self.terms.read(i) for i in indices])

    def _vector_store(self, op: VectorStoreOp) -> stmt.Stmt:
        buffer = self.terms.buffer(op.buffer)
        dtype = prim.with_lanes(element_type(buffer.dtype), dtype_of(op.value))
        places = [self.terms.read(i) for i in (*op.indices, op.places)]
        masks = [self.terms.read(v) for v in op.mask]
        term = self._stored(op.value, buffer, dtype)
        return stmt.BufferStore(buffer, term, places, *masks)

    def _stored(
        self, value: ir.Value, buffer: Buffer, dtype: str | None = None
    ) -> PrimExpr:
        name = dtype or buffer.dtype
        element = dtypes.dtype(name)
        owner = value.owner
        is_made = not isinstance(owner, ir.Block)
        if element.is_padded and is_made and owner.name == "arith.extui":
            bits = owner.operands[0]
            if element_of(bits.type) == element.element.bits_type:
                return self.terms.of_bits(bits, name)
        term = self.terms.read(value)
        if term.dtype == name:
            return term
        term = self.terms.integer(value)
        if not element.is_float or not element.is_padded:
            return _of_type(term, name)
        return prim.Call(name, "reinterpret", [_of_type(term, element.unsigned.name)])

    def _undefined(self, op: ir.OpView) -> None:
        result = op.operation.results[0]
        if result in self.terms.terms:
            return
        attributes = op.attributes
        name = ir.StringAttr(attributes["name"]).value
        dtype = text_of(attributes, marks.DTYPE, "int32")
        known = self.arguments.placing(name)
        made = variable_of(name, dtype, attributes) if known is None else known
        self.terms.terms[result] = made

    def _attr(self, op: AttrOp) -> stmt.Stmt:
        *nodes, value = self.terms.arguments(op)
        node: Any = nodes
        if op.form.value == "one":
            (node,) = nodes
        elif op.form.value == "reducer":
            node = self._reducer(nodes, op.combiner.blocks[0])
        body = self.region(op.body.blocks[0])
        if op.form.value == "region":
            buffer, *ends = nodes
            pairs = zip(ends[::2], ends[1::2], strict=True)
            runs = [prim.Range.from_min_extent(*pair) for pair in pairs]
            return stmt.BufferRealize(buffer, runs, value, body)
        return stmt.AttrStmt(node, op.key.value, value, body)

    def _reducer(self, starts: Sequence[Any], block: ir.Block) -> prim.CommReducer:
        names = [f"{side}{n}" for side in "xy" for n in range(len(starts))]
        if len(starts) == 1:
            names = ["x", "y"]
        variables = []
        for name, argument in zip(names, block.arguments, strict=True):
            var = Var(name, dtype_of(argument))
            self.terms.terms[argument] = var
            variables.append(var)
        *_, end = own_operations(block)
        results = [self.terms.read(v) for v in end.operands]

        def combine(lhs: Sequence[PrimExpr], rhs: Sequence[PrimExpr]) -> list[PrimExpr]:
            table = dict(zip(variables, (*lhs, *rhs), strict=True))
            return [prim.substitute(r, table) for r in results]

        return prim.CommReducer("reduce", combine, lambda dtypes: list(starts))

    def _choice(self, op: ir.OpView) -> stmt.Stmt:
        condition = self.terms.read(op.operands[0])
        then, *other = [r.blocks[0] for r in op.operation.regions if len(r.blocks)]
        if marks.WHERE in op.operation.attributes:
            for inner in own_operations(then):
                if isinstance(inner, BlockOp):
                    return read_block(self, inner, condition)
        if other and len(own_operations(other[0])) > 1:
            return stmt.IfThenElse(condition, self.region(then), self.region(other[0]))
        return stmt.IfThenElse(condition, self.region(then))

    def _evaluate(self, op: ir.OpView) -> stmt.Stmt:
        return stmt.Evaluate(self.terms.read(op.operands[0]))

    def _call(self, op: ir.OpView) -> stmt.Stmt | None:
        """A call that makes nothing; others are read where their result is used."""
        has_result = len(op.operation.results)
        return None if has_result else stmt.Evaluate(self.terms.call(op))

    def _packed(self, op: ir.OpView) -> stmt.Stmt:
        buffers = [self.terms.buffer(v) for v in tensors.elements(op.operands[0])]
        callee = prim.StringImm(ir.StringAttr(op.attributes["callee"]).value)
        args = [callee, *(b.data for b in buffers)]
        return stmt.Evaluate(prim.Call("int32", "tvm_call_packed", args))


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
        inner = term.value
        return inner if inner.dtype == dtype else prim.Cast(dtype, inner)
    return prim.Cast(dtype, term)


def _holds_block(root: ir.Operation) -> bool:
    """Whether there is a block somewhere in a program."""
    for region in root.regions:
        for block in region.blocks:
            for op in own_operations(block):
                if isinstance(op, BlockOp) or _holds_block(op.operation):
                    return True
    return False


_STATEMENTS: Mapping[str, Any] = {
    "memref.store": ProgramReader._store,
    "scf.for": read_for,
    "scf.while": read_while,
    "tir.evaluate": ProgramReader._evaluate,
    "tir.vector_store": ProgramReader._vector_store,
    "tir.attr": ProgramReader._attr,
    "tir.alloc_buffer": read_alloc,
    "tir.undefined": ProgramReader._undefined,
    "memref.subview": read_match,
    "tir.call": ProgramReader._call,
    "tir.call_packed": ProgramReader._packed,
}
