"""Reads tensor programs as statements and expressions."""

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
    attribute_names,
)
from relax_mlir.ir.traversal import own_operations
from relax_mlir.objects import prim
from relax_mlir.objects.overwritten_loads import OverwrittenLoads
from relax_mlir.objects.prim import PrimExpr, Var
from relax_mlir.objects.prim.lanes import element_type
from relax_mlir.objects.read.block import read_block, read_explicit_regions
from relax_mlir.objects.read.buffer import (
    read_alloc,
    read_allocate,
    read_declared,
    read_match,
)
from relax_mlir.objects.read.guard_patterns import occurrence_counts
from relax_mlir.objects.read.loop import read_for, read_while
from relax_mlir.objects.read.params import (
    PrimFuncArguments,
    annotations_of,
    string_attr,
    variable_of,
)
from relax_mlir.objects.read.prim_expr import PrimExprReader, value_dtype
from relax_mlir.objects.scope import FunctionScope
from relax_mlir.objects.stmt import statements as stmt
from relax_mlir.objects.stmt.buffer import Buffer

__all__ = ["PrimFuncReader"]

_LARGE = 24  # operations of an expression from which on sharing gets a variable
_ENDS = ("func.return", "gpu.yield", "scf.yield", "scf.condition")  # terminators
_NAMED = ("arith.", "math.", "memref.load", "scf.if", "tir.vector_load", "vector.")


class PrimFuncReader:
    """Reads one PrimFunc.

    Args:
        function: the PrimFunc in MLIR.
        scope: the objects of its arguments, completed with those that are read first.

    Attributes:
        params: pointer and scalar parameters, in the order of the script.
        buffer_map: the buffer of each pointer parameter.
        exprs: reads scalars and holds the buffers of memrefs.
        arguments: reads the arguments.
        allocs: the allocations of the enclosing blocks, outermost first.
        matches: the matched buffers of the enclosing blocks.
        carried: the number of buffers for loop-carried values.
        blocks: the statement of each block, with derived regions.
    """

    def __init__(self, function: func.FuncOp, scope: FunctionScope) -> None:
        self._function = function
        self.exprs = PrimExprReader()
        self.arguments = PrimFuncArguments(function, scope, self.exprs)
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
    def _occurrences(self) -> Counter[ir.Value]:
        return occurrence_counts(self._function, self.exprs.indices)

    def body(self) -> stmt.Stmt:
        """The body, in a root block if there are blocks."""
        block = self._function.entry_block
        self.allocs.append([])
        self.matches.append([])
        inner = self.region(block)
        allocs = self.allocs.pop()
        self.matches.pop()
        if not self._has_root(block, allocs):
            return inner
        attributes = self._function.attributes
        name = string_attr(attributes, attribute_names.ROOT, "root")
        annotations = annotations_of(attributes)
        is_explicit = attribute_names.ROOT in attributes
        touched = None if is_explicit else []
        root = stmt.Block(
            [], touched, touched, name, inner, None, allocs, None, annotations
        )
        root.has_explicit_regions = False
        read_explicit_regions(self, self._function.operation, root)
        return stmt.BlockRealize([], True, root)

    def statements(
        self, variables: Mapping[ir.Value, Var], buffers: Mapping[ir.Value, Buffer]
    ) -> stmt.Stmt:
        """The body, given the variables and buffers of its free values."""
        self.exprs.leaves.update(variables)
        self.exprs.buffers.update(buffers)
        self.allocs.append([])
        self.matches.append([])
        return self.region(self._function.entry_block)

    def _has_root(self, block: ir.Block, allocs: Sequence[Buffer]) -> bool:
        if allocs or attribute_names.ROOT in self._function.attributes:
            return True
        return _holds_block(self._function.operation)

    def region(self, block: ir.Block) -> stmt.Stmt:
        """The statements of a region's block."""
        return self.sequence([o.operation.opview for o in own_operations(block)])

    def sequence(self, operations: Sequence[ir.OpView]) -> stmt.Stmt:
        """A sequence of statements; a binding contains the statements after it."""
        statements: list[stmt.Stmt] = []
        for number, op in enumerate(operations):
            enclosing = self._enclosing_statement(op, operations[number + 1 :])
            if enclosing is not None:
                statements.append(enclosing)
                break
            statement = self._statement(op)
            if statement is not None:
                statements.append(statement)
        return stmt.stmt_seq(*statements) if statements else stmt.Evaluate(0)

    def _enclosing_statement(
        self, op: ir.OpView, rest: Sequence[ir.OpView]
    ) -> stmt.Stmt | None:
        """A statement that contains the rest; None for other operations."""
        if op.operation.name == "tir.let":
            return self._let(op, rest)
        if op.operation.name == "tir.assert":
            condition = self.exprs.read(op.operands[0])
            message = ir.StringAttr(op.attributes["message"]).value
            return stmt.AssertStmt(condition, message, self.sequence(rest))
        if isinstance(op, AllocBufferOp) and attribute_names.ALLOCATE in op.attributes:
            return read_allocate(self, op, rest)
        if isinstance(op, DeclBufferOp):
            buffer = read_declared(self, op)
            is_explicit = attribute_names.IMPLICIT not in op.attributes
            return stmt.DeclBuffer(buffer, self.sequence(rest)) if is_explicit else None
        is_named = self._is_large_and_shared(op) or self._overwritten.is_overwritten(op)
        return self._let_results(op, rest) if is_named else None

    def _let(self, op: ir.OpView, rest: Sequence[ir.OpView]) -> stmt.Stmt:
        value = self.exprs.number(op.operands[0])
        name = ir.StringAttr(op.attributes["name"]).value
        var = variable_of(name, value.dtype, op.attributes)
        self.exprs.leaves[op.operation.results[0]] = var
        return stmt.LetStmt(var, value, self.sequence(rest))

    def _let_results(self, op: ir.OpView, rest: Sequence[ir.OpView]) -> stmt.Stmt:
        """Let statements for the results of an operation."""
        results = list(op.operation.results)
        values = list(map(self.exprs.number, results))
        variables = []
        for result, value in zip(results, values, strict=True):
            variables.append(Var(f"v{len(self.exprs.leaves)}", value.dtype))
            self.exprs.leaves[result] = variables[-1]
        statement = self.sequence(rest)
        for var, value in reversed(list(zip(variables, values, strict=True))):
            statement = stmt.LetStmt(var, value, statement)
        return statement

    def _is_large_and_shared(self, op: ir.OpView) -> bool:
        """Whether a large expression is used more than once.

        Such results get a variable: values of passes have no names, and their expansion to a
        tree would be exponentially large.
        """
        results = list(op.operation.results)
        if not results or not op.operation.name.startswith(_NAMED):
            return False
        shared = [r for r in results if self._occurrences[r] > 1]
        sizes = (self.exprs.size(self.exprs.number(r)) for r in shared)
        return any(size > _LARGE for size in sizes)

    def _statement(self, op: ir.OpView) -> stmt.Stmt | None:
        """The statement of an operation; None for arithmetic, which is read at its uses."""
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
            raise ValueError(f"{op.location}: `{name}`: TVMScript cannot express it")
        return None

    def _store(self, op: ir.OpView) -> stmt.Stmt:
        value, target, *indices = op.operands
        buffer = self.exprs.buffer(target)
        expr = self._stored(value, buffer)
        return stmt.BufferStore(buffer, expr, [self.exprs.read(i) for i in indices])

    def _vector_store(self, op: VectorStoreOp) -> stmt.Stmt:
        buffer = self.exprs.buffer(op.buffer)
        dtype = prim.with_lanes(element_type(buffer.dtype), value_dtype(op.value))
        places = [self.exprs.read(i) for i in (*op.indices, op.places)]
        masks = [self.exprs.read(v) for v in op.mask]
        expr = self._stored(op.value, buffer, dtype)
        return stmt.BufferStore(buffer, expr, places, *masks)

    def _stored(
        self, value: ir.Value, buffer: Buffer, dtype: str | None = None
    ) -> PrimExpr:
        name = dtype or buffer.dtype
        element = dtypes.dtype(name)
        owner = value.owner
        is_result = not isinstance(owner, ir.Block)
        if element.is_padded and is_result and owner.name == "arith.extui":
            bits = owner.operands[0]
            if element_of(bits.type) == element.element.bits_type:
                return self.exprs.reinterpret(bits, name)
        expr = self.exprs.read(value)
        if expr.dtype == name:
            return expr
        expr = self.exprs.integer(value)
        if not element.is_float or not element.is_padded:
            return _of_type(expr, name)
        return prim.Call(name, "reinterpret", [_of_type(expr, element.unsigned.name)])

    def _undefined(self, op: ir.OpView) -> None:
        result = op.operation.results[0]
        if result in self.exprs.leaves:
            return
        attributes = op.attributes
        name = ir.StringAttr(attributes["name"]).value
        dtype = string_attr(attributes, attribute_names.DTYPE, "int32")
        known = self.arguments.layout_variable(name)
        statement = variable_of(name, dtype, attributes) if known is None else known
        self.exprs.leaves[result] = statement

    def _attr(self, op: AttrOp) -> stmt.Stmt:
        *nodes, value = self.exprs.arguments(op)
        node: Any = nodes
        if op.form.value == "one":
            (node,) = nodes
        elif op.form.value == "reducer":
            node = self._reducer(nodes, op.combiner.blocks[0])
        body = self.region(op.body.blocks[0])
        if op.form.value == "region":
            buffer, *ends = nodes
            pairs = zip(ends[::2], ends[1::2], strict=True)
            ranges = [prim.Range.from_min_extent(*pair) for pair in pairs]
            return stmt.BufferRealize(buffer, ranges, value, body)
        return stmt.AttrStmt(node, op.key.value, value, body)

    def _reducer(self, starts: Sequence[Any], block: ir.Block) -> prim.CommReducer:
        names = [f"{side}{n}" for side in "xy" for n in range(len(starts))]
        if len(starts) == 1:
            names = ["x", "y"]
        variables = []
        for name, argument in zip(names, block.arguments, strict=True):
            var = Var(name, value_dtype(argument))
            self.exprs.leaves[argument] = var
            variables.append(var)
        *_, end = own_operations(block)
        results = [self.exprs.read(v) for v in end.operands]

        def combine(lhs: Sequence[PrimExpr], rhs: Sequence[PrimExpr]) -> list[PrimExpr]:
            table = dict(zip(variables, (*lhs, *rhs), strict=True))
            return [prim.substitute(r, table) for r in results]

        return prim.CommReducer("reduce", combine, lambda dtypes: list(starts))

    def _choice(self, op: ir.OpView) -> stmt.Stmt:
        condition = self.exprs.read(op.operands[0])
        then, *other = [r.blocks[0] for r in op.operation.regions if len(r.blocks)]
        if attribute_names.WHERE in op.operation.attributes:
            for inner in own_operations(then):
                if isinstance(inner, BlockOp):
                    return read_block(self, inner, condition)
        if other and len(own_operations(other[0])) > 1:
            return stmt.IfThenElse(condition, self.region(then), self.region(other[0]))
        return stmt.IfThenElse(condition, self.region(then))

    def _evaluate(self, op: ir.OpView) -> stmt.Stmt:
        return stmt.Evaluate(self.exprs.read(op.operands[0]))

    def _call(self, op: ir.OpView) -> stmt.Stmt | None:
        """A call without a result; other calls are read at the uses of their results."""
        has_result = len(op.operation.results)
        return None if has_result else stmt.Evaluate(self.exprs.call(op))

    def _packed(self, op: ir.OpView) -> stmt.Stmt:
        buffers = [self.exprs.buffer(v) for v in tensors.tuple_elements(op.operands[0])]
        callee = prim.StringImm(ir.StringAttr(op.attributes["callee"]).value)
        args = [callee, *(b.data for b in buffers)]
        return stmt.Evaluate(prim.Call("int32", "tvm_call_packed", args))


def _of_type(expr: PrimExpr, dtype: str) -> PrimExpr:
    """A stored value in the buffer's element type, which determines signedness."""
    if expr.dtype == dtype:
        return expr
    if isinstance(expr, prim.IntImm):
        width = dtype.removeprefix("uint")
        is_unsigned = dtype.startswith("uint")
        value = expr.value % (1 << int(width)) if is_unsigned else expr.value
        return prim.const(value, dtype)
    is_sign = expr.dtype.removeprefix("u") == dtype.removeprefix("u")
    if isinstance(expr, prim.Cast) and is_sign:
        inner = expr.value
        return inner if inner.dtype == dtype else prim.Cast(dtype, inner)
    return prim.Cast(dtype, expr)


def _holds_block(root: ir.Operation) -> bool:
    """Whether an operation contains a TIR block."""
    for region in root.regions:
        for block in region.blocks:
            for op in own_operations(block):
                if isinstance(op, BlockOp) or _holds_block(op.operation):
                    return True
    return False


_STATEMENTS: Mapping[str, Any] = {
    "memref.store": PrimFuncReader._store,
    "scf.for": read_for,
    "scf.while": read_while,
    "tir.evaluate": PrimFuncReader._evaluate,
    "tir.vector_store": PrimFuncReader._vector_store,
    "tir.attr": PrimFuncReader._attr,
    "tir.alloc_buffer": read_alloc,
    "tir.undefined": PrimFuncReader._undefined,
    "memref.subview": read_match,
    "tir.call": PrimFuncReader._call,
    "tir.call_packed": PrimFuncReader._packed,
}
