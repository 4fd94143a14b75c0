"""Printing of TIR statements."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from relax_mlir.objects import prim
from relax_mlir.objects.prim import IntImm, IterVar, Range, Var
from relax_mlir.objects.prim.pointers import Pointer
from relax_mlir.objects.prim.simplify import simplify
from relax_mlir.objects.stmt import statements
from relax_mlir.objects.stmt.buffer import Buffer, BufferLoad, BufferRegion
from relax_mlir.objects.stmt.functor import free_names, pre_order_visit
from relax_mlir.tvm.script.printer.block import print_allocs, print_block, print_realize
from relax_mlir.tvm.script.printer.names import NameTable
from relax_mlir.tvm.script.printer.pointers import Highlights, mark_underlined
from relax_mlir.tvm.script.printer.term import PrimExprPrinter
from relax_mlir.tvm.script.printer.values import attribute_text

__all__ = ["PrimFuncPrinter", "variable_type"]

_LOOPS: Mapping[statements.ForKind, str] = {
    statements.ForKind.SERIAL: "serial",
    statements.ForKind.PARALLEL: "parallel",
    statements.ForKind.VECTORIZED: "vectorized",
    statements.ForKind.UNROLLED: "unroll",
    statements.ForKind.THREAD_BINDING: "thread_binding",
}


class PrimFuncPrinter:
    """Prints one PrimFunc, or a fragment of one.

    Args:
        names: names of variables and buffers.
        module_name: the name of the module.
        highlights: nodes to underline, and comments on nodes.

    Attributes:
        lines: the output.
        names: names of variables and buffers.
        exprs: prints scalar expressions.
        loops: domains of the enclosing loops, by the id of their variable.
        uses_with: whether the next statement is the root of a fragment or has a comment;
            its scope is then printed as a ``with`` statement.
    """

    def __init__(
        self,
        names: NameTable,
        module_name: str = "Module",
        highlights: Highlights | None = None,
    ) -> None:
        self.lines: list[str] = []
        self.names = names
        self.exprs = PrimExprPrinter(self.name, module_name, highlights)
        self.loops: dict[int, Range] = {}
        self.uses_with = False
        self._indent = 0

    def name(self, value: Any) -> str:
        """Returns the name of a variable or buffer."""
        return self.names.get(value) or self.define(value)

    def define(self, value: Any) -> str:
        """Names a variable or buffer."""
        name = self.names.define(value, value.name)
        if isinstance(value, Buffer) and value.has_own_offset:
            self.names.alias(value.elem_offset, f"{name}.elem_offset")
        return name

    def declare(self, node: Any) -> None:
        """Declares the free variables and buffers of a node."""
        for value in _free(node):
            if self.names.get(value) is not None:
                continue
            if isinstance(value, Buffer):
                self._declare_data(value)
                name = self.define(value)
                self.put(f"{name} = {self.buffer(value)}")
            else:
                self._declare_variable(value)

    def _declare_data(self, buffer: Buffer) -> None:
        """Declares the data pointer of a buffer, which a statement below defines."""
        data = buffer.data
        is_own = isinstance(data, Pointer) and data.buffer is not None
        if not is_own and self.names.get(data) is None:
            self._declare_variable(data)

    def _declare_variable(self, var: Var) -> None:
        name = self.names.define(var, var.name)
        self.put(f"{name} = {self._variable(var)}")

    def _variable(self, var: Var) -> str:
        """Prints the call that creates a variable."""
        kind = variable_type(var)
        return kind if kind.endswith(")") else f"{kind}()"

    def put(self, line: str) -> None:
        """Appends a line."""
        self.lines.append("    " * self._indent + line)

    @contextmanager
    def indented(self) -> Iterator[None]:
        """Indents the lines printed inside by one level."""
        uses_with, self.uses_with = self.uses_with, False
        self._indent += 1
        yield
        self._indent -= 1
        self.uses_with = uses_with

    def _put_scope(
        self, call: str, node: statements.Stmt, name: str | None = None
    ) -> None:
        """Prints a scope opened by ``call``, and the statements in it."""
        if self.uses_with:
            self.put(f"with {call}{f' as {name}' if name else ''}:")
            self.body(node)
            return
        self.put(f"{name} = {call}")
        self.statement(node)

    def attributes(self, attrs: Any) -> str:
        """Prints attributes or annotations as a dictionary."""
        return attribute_text(attrs, self.exprs.text)

    def buffer(self, buffer: Buffer) -> str:
        """Prints the type of a buffer parameter."""
        parts = [self.exprs.tuple(buffer.shape), f'"{buffer.dtype}"']
        options = self.memory(buffer) + self.exprs.buffer_options(buffer)
        return f"T.Buffer({', '.join(parts + options)})"

    def memory(self, buffer: Buffer) -> list[str]:
        """Prints the ``data`` argument of a buffer that aliases other memory."""
        return [] if buffer.owns_data else [f"data={self.exprs.text(buffer.data)}"]

    def shape_and_type(self, buffer: Buffer) -> list[str]:
        """Prints the arguments of a buffer's declaration."""
        parts = [self.exprs.tuple(buffer.shape)]
        if buffer.dtype != "float32":
            parts.append(f'"{buffer.dtype}"')
        return parts + self.exprs.buffer_options(buffer)

    # statements

    def statement(self, node: statements.Stmt, *, is_root: bool = False) -> None:
        """Prints a statement and its children."""
        first, highlights = len(self.lines), self.exprs.highlights
        comment = highlights.comment(node)
        uses_with, self.uses_with = (
            self.uses_with,
            self.uses_with or comment is not None,
        )
        self._statement(node, is_root=is_root)
        self.uses_with = uses_with
        if highlights.has(node):
            self.lines[first:] = map(mark_underlined, self.lines[first:])
        if comment is not None:
            self._comment(first, comment)

    def _comment(self, first: int, comment: str) -> None:
        """Adds a comment: at the end of a single line, else above the statement."""
        if len(self.lines) == first + 1:
            self.lines[first] += f"  # {comment}"
        else:
            self.lines.insert(first, "    " * self._indent + f"# {comment}")

    def _statement(self, node: statements.Stmt, *, is_root: bool) -> None:
        if (
            is_root
            and isinstance(node, statements.BlockRealize)
            and _is_plain_root(node)
        ):
            self.put(f'# with T.block("{node.block.name_hint}"):')
            print_allocs(self, node.block)
            self.statement(node.block.body)
            return
        _STATEMENTS[type(node)](self, node)

    def body(self, node: statements.Stmt) -> None:
        """Prints the indented body of a statement."""
        with self.indented(), self.names.frame():
            self.statement(node)

    def _sequence(self, node: statements.SeqStmt) -> None:
        for inner in node.seq:
            self.statement(inner)

    def _for(self, node: statements.For) -> None:
        with self.names.frame():
            self._loop(node)

    def _loop(self, node: statements.For) -> None:
        nest = _grid(node)
        if len(nest) > 1:
            extents = self.exprs.list([loop.extent for loop in nest])
            names = ", ".join(self._loop_name(loop) for loop in nest)
            self.put(f"for {names} in T.grid({extents}):")
        else:
            extent = self._loop_text(node)
            self.put(f"for {self._loop_name(node)} in {extent}:")
        self.body(nest[-1].body)

    def _loop_name(self, loop: statements.For) -> str:
        self.loops[id(loop.loop_var)] = Range.from_min_extent(loop.min, loop.extent)
        return self.names.define(loop.loop_var, loop.loop_var.name)

    def _loop_text(self, loop: statements.For) -> str:
        steps = [loop.extent]
        if not (isinstance(loop.min, IntImm) and loop.min.value == 0):
            steps = [loop.min, simplify(loop.min + loop.extent)]
        parts = list(map(self.exprs.text, steps))
        step = [] if loop.step is None else [self.exprs.text(loop.step)]
        if step and len(parts) == 1:
            parts = ["0", *parts]
        if loop.kind == statements.ForKind.SERIAL and not loop.annotations:
            return f"range({', '.join(parts + step)})"
        parts += [f"step={s}" for s in step]
        if loop.thread_binding is not None:
            parts.append(f'thread="{loop.thread_binding.thread_tag}"')
        if loop.annotations:
            parts.append(f"annotations={self.attributes(loop.annotations)}")
        return f"T.{_LOOPS[loop.kind]}({', '.join(parts)})"

    def _while(self, node: statements.While) -> None:
        self.put(f"while {self.exprs.text(node.condition)}:")
        self.body(node.body)

    def _if(self, node: statements.IfThenElse) -> None:
        self.put(f"if {self.exprs.text(node.condition)}:")
        self.body(node.then_case)
        if node.else_case is not None:
            self.put("else:")
            self.body(node.else_case)

    def _store(self, node: statements.BufferStore) -> None:
        element = self.exprs.element(node.buffer, node.indices)
        value = self.exprs.text(node.value)
        if node.predicate is None:
            self.put(f"{element} = {value}")
            return
        indices = f"[{self.exprs.list(node.indices)}]"
        mask = f"predicate={self.exprs.text(node.predicate)}"
        self.put(f"{self.name(node.buffer)}.vstore({indices}, {value}, {mask})")

    def _evaluate(self, node: statements.Evaluate) -> None:
        text = self.exprs.text(node.value)
        if getattr(node.value, "op_name", "") == "ret":
            self.put(f"return {self.exprs.text(node.value.args[0])}")
            return
        is_call = isinstance(node.value, prim.Call) and text.endswith(")")
        self.put(text if is_call else f"T.evaluate({text})")

    def _let(self, node: statements.LetStmt) -> None:
        value = self.exprs.text(node.value)
        declared_name = self.names.get(node.var)
        if declared_name is not None:
            self.put(f"with T.LetStmt({value}, var={declared_name}):")
            self.body(node.body)
            return
        name = self.names.define(node.var, node.var.name)
        if self.uses_with:
            self._put_scope(f"T.LetStmt({value})", node.body, name)
            return
        self.put(f"{name}: {variable_type(node.var)} = {value}")
        self.statement(node.body)

    def _assert(self, node: statements.AssertStmt) -> None:
        message = json.dumps(str(getattr(node.message, "value", node.message)))
        if self.uses_with:
            condition = self.exprs.text(node.condition)
            self._put_scope(f"T.Assert({condition}, {message})", node.body)
            return
        self.put(f"assert {self.exprs.text(node.condition)}, {message}")
        if not _is_no_op(node.body):
            self.statement(node.body)

    def _realize_buffer(
        self, node: statements.BufferRealize, scope: str = '""'
    ) -> None:
        parts = [self.exprs.region(node.region), scope]
        is_always = isinstance(node.condition, IntImm) and node.condition.value
        parts += [] if is_always else [self.exprs.text(node.condition)]
        self.put(f"with T.realize({', '.join(parts)}):")
        self.body(node.body)

    def _attr(self, node: statements.AttrStmt) -> None:
        inner = node.body
        is_scope = node.attr_key == "realize_scope"
        if is_scope and isinstance(inner, statements.BufferRealize):
            self._realize_buffer(inner, self.exprs.text(node.value))
            return
        key, value = json.dumps(node.attr_key), self.exprs.text(node.value)
        self.put(f"with T.attr({self._attribute_node(node.node)}, {key}, {value}):")
        self.body(node.body)

    def _attribute_node(self, node: Any) -> str:
        if isinstance(node, (list, tuple)):
            return f"[{', '.join(map(self._attribute_node, node))}]"
        if isinstance(node, Buffer):
            return self.name(node)
        if isinstance(node, prim.CommReducer):
            return self.reducer(node)
        return self.exprs.text(node.var if isinstance(node, IterVar) else node)

    def reducer(self, reducer: prim.CommReducer) -> str:
        """Prints the call that makes a reducer."""
        variables = (*reducer.lhs, *reducer.rhs)
        names = ", ".join(self.names.define(v, v.name) for v in variables)  # pyright: ignore[reportAttributeAccessIssue]
        parts = list(map(self.exprs.text, reducer.result))
        result = f"({', '.join(parts)})" if len(parts) > 1 else parts[0]
        identity = self.exprs.list(reducer.identity_element)
        return f"T.comm_reducer(lambda {names}: {result}, [{identity}])"

    def _allocate(self, node: statements.Allocate) -> None:
        pointer = node.buffer_var
        kind = pointer.type_annotation if isinstance(pointer, Pointer) else None
        scope = "global" if kind is None else kind.storage_scope
        sizes = self.exprs.list(node.extents)
        parts = [f"[{sizes}]", f'"{node.dtype}"', f'"{scope}"']
        if node.annotations:
            parts.append(f"annotations={self.attributes(node.annotations)}")
        name = self.names.define(pointer, pointer.name)
        self._put_scope(f"T.allocate({', '.join(parts)})", node.body, name)

    def _allocate_const(self, node: statements.AllocateConst) -> None:
        values = ", ".join(map(repr, node.data.ravel().tolist()))
        parts = [f"[{values}]", f'"{node.dtype}"', f"[{self.exprs.list(node.extents)}]"]
        if node.annotations:
            parts.append(f"annotations={self.attributes(node.annotations)}")
        name = self.names.define(node.buffer_var, node.buffer_var.name)
        self._put_scope(f"T.allocate_const({', '.join(parts)})", node.body, name)

    def _declare_buffer(self, node: statements.DeclBuffer) -> None:
        parts = self.shape_and_type(node.buffer)
        parts += self.memory(node.buffer)
        name = self.define(node.buffer)
        self._put_scope(f"T.decl_buffer({', '.join(parts)})", node.body, name)


def _free(node: Any) -> list[Any]:
    """Returns the free variables and buffers of a node."""
    if isinstance(node, Buffer):
        return free_names(BufferLoad(node, [0] * node.ndim))
    if isinstance(node, BufferRegion):
        return free_names(BufferLoad(node.buffer, [r.min for r in node.region]))
    if isinstance(node, IterVar):
        return [node.var]
    return [] if isinstance(node, (Range, prim.CommReducer)) else free_names(node)


def _is_plain_root(node: statements.BlockRealize) -> bool:
    """Whether the parser adds this root block implicitly."""
    block = node.block
    if block.annotations or block.init is not None:
        return False
    inner = block.body
    if isinstance(inner, statements.BlockRealize) and not inner.block.iter_vars:
        return bool(block.alloc_buffers)  # else the parser would take it for the root
    return bool(block.alloc_buffers) or _contains_block(block.body)


def _contains_block(node: statements.Stmt) -> bool:
    blocks: list[statements.Stmt] = []

    def visit(part: object) -> bool:
        if isinstance(part, statements.BlockRealize):
            blocks.append(part)
        return not blocks and isinstance(part, statements.Stmt)

    pre_order_visit(node, visit)
    return bool(blocks)


def _is_no_op(node: statements.Stmt) -> bool:
    """Whether a statement evaluates the constant 0, TIR's no-op."""
    if not isinstance(node, statements.Evaluate):
        return False
    return isinstance(node.value, IntImm) and node.value.value == 0


def _grid(node: statements.For) -> list[statements.For]:
    """Returns the loops of a nest that one ``T.grid`` prints."""
    nest: list[statements.For] = []
    variables: set[int] = set()
    inner: statements.Stmt = node
    while isinstance(inner, statements.For) and _is_simple(inner):
        if any(id(t) in variables for t in prim.post_order(inner.extent)):
            break
        nest.append(inner)
        variables.add(id(inner.loop_var))
        inner = inner.body
    return nest or [node]


def variable_type(var: Var) -> str:
    """Prints the type of a scalar or handle parameter."""
    if var.dtype != "handle":
        suffix = "(is_size_var=True)" if isinstance(var, prim.SizeVar) else ""
        return f"T.{var.dtype}{suffix}"
    kind = var.type_annotation if isinstance(var, Pointer) else None
    return "T.handle" if kind is None else str(kind)


def _is_simple(loop: statements.For) -> bool:
    if loop.step is not None:
        return False
    is_from_0 = isinstance(loop.min, IntImm) and loop.min.value == 0
    return is_from_0 and loop.kind == statements.ForKind.SERIAL and not loop.annotations


_STATEMENTS: Mapping[type, Callable[[PrimFuncPrinter, Any], None]] = {
    statements.SeqStmt: PrimFuncPrinter._sequence,
    statements.For: PrimFuncPrinter._for,
    statements.While: PrimFuncPrinter._while,
    statements.IfThenElse: PrimFuncPrinter._if,
    statements.BufferStore: PrimFuncPrinter._store,
    statements.Evaluate: PrimFuncPrinter._evaluate,
    statements.LetStmt: PrimFuncPrinter._let,
    statements.AssertStmt: PrimFuncPrinter._assert,
    statements.AttrStmt: PrimFuncPrinter._attr,
    statements.Allocate: PrimFuncPrinter._allocate,
    statements.AllocateConst: PrimFuncPrinter._allocate_const,
    statements.DeclBuffer: PrimFuncPrinter._declare_buffer,
    statements.BlockRealize: print_realize,
    statements.BufferRealize: PrimFuncPrinter._realize_buffer,
    statements.Block: print_block,
}
