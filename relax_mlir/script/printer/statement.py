"""Statements of tensor programs as scripts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from relax_mlir.objects import prim, stmt
from relax_mlir.objects.buffer import Buffer, BufferLoad, BufferRegion
from relax_mlir.objects.pointers import Pointer
from relax_mlir.objects.prim import IntImm, IterVar, Range, Var
from relax_mlir.objects.simplify import simplify
from relax_mlir.objects.stmt_functor import free_names, pre_order_visit
from relax_mlir.script.printer.block import print_allocs, print_block, print_realize
from relax_mlir.script.printer.names import Names
from relax_mlir.script.printer.pointers import Pointers, underlined
from relax_mlir.script.printer.term import TermText
from relax_mlir.script.printer.values import attribute_text

__all__ = ["ProgramPrinter", "variable_type"]

_LOOPS: Mapping[stmt.ForKind, str] = {
    stmt.ForKind.SERIAL: "serial",
    stmt.ForKind.PARALLEL: "parallel",
    stmt.ForKind.VECTORIZED: "vectorized",
    stmt.ForKind.UNROLLED: "unroll",
    stmt.ForKind.THREAD_BINDING: "thread_binding",
}


class ProgramPrinter:
    """Prints one program.

    Args:
        names: of variables and buffers.
        module_name: what the module is called.
        pointers: what is underlined, and what has remarks.

    Attributes:
        lines: what it printed.
        names: of variables and buffers.
        terms: prints scalars.
        loops: the runs of the loops around, by the id of their variable.
        is_alone: whether the next statement stands in no function and in no other
            statement, or has a remark: what it opens for those that follow is a
            ``with`` then.
    """

    def __init__(
        self,
        names: Names,
        module_name: str = "Module",
        pointers: Pointers | None = None,
    ) -> None:
        self.lines: list[str] = []
        self.names = names
        self.terms = TermText(self.name, module_name, pointers)
        self.loops: dict[int, Range] = {}
        self.is_alone = False
        self._indent = 0

    def name(self, value: Any) -> str:
        """The name of a variable or a buffer."""
        return self.names.get(value) or self.define(value)

    def define(self, value: Any) -> str:
        """Name a variable or a buffer."""
        name = self.names.define(value, value.name)
        if isinstance(value, Buffer) and value.has_own_offset:
            self.names.alias(value.elem_offset, f"{name}.elem_offset")
        return name

    def declare(self, node: Any) -> None:
        """Say what the variables and buffers are that nothing defines."""
        for value in _free(node):
            if self.names.get(value) is not None:
                continue
            if isinstance(value, Buffer):
                self._declare_memory(value)
                name = self.define(value)
                self.put(f"{name} = {self.buffer(value)}")
            else:
                self._declare_variable(value)

    def _declare_memory(self, buffer: Buffer) -> None:
        """The pointer to a buffer, where a statement further down gives it its value."""
        data = buffer.data
        is_own = isinstance(data, Pointer) and data.buffer is not None
        if not is_own and self.names.get(data) is None:
            self._declare_variable(data)

    def _declare_variable(self, var: Var) -> None:
        name = self.names.define(var, var.name)
        self.put(f"{name} = {self._variable(var)}")

    def _variable(self, var: Var) -> str:
        """What makes a variable."""
        kind = variable_type(var)
        return kind if kind.endswith(")") else f"{kind}()"

    def put(self, line: str) -> None:
        """One more line."""
        self.lines.append("    " * self._indent + line)

    @contextmanager
    def indented(self) -> Iterator[None]:
        """Lines are one level deeper inside."""
        is_alone, self.is_alone = self.is_alone, False
        self._indent += 1
        yield
        self._indent -= 1
        self.is_alone = is_alone

    def _opened(self, call: str, node: stmt.Stmt, name: str | None = None) -> None:
        """What a call opens, and the statements that it is for."""
        if self.is_alone:
            self.put(f"with {call}{f' as {name}' if name else ''}:")
            self.body(node)
            return
        self.put(f"{name} = {call}")
        self.statement(node)

    def attributes(self, attrs: Any) -> str:
        """Attributes or annotations as a dictionary."""
        return attribute_text(attrs, self.terms.text)

    def buffer(self, buffer: Buffer) -> str:
        """The type of a buffer, as a parameter has it."""
        parts = [self.terms.tuple(buffer.shape), f'"{buffer.dtype}"']
        options = self.memory(buffer) + self.terms.buffer_options(buffer)
        return f"T.Buffer({', '.join(parts + options)})"

    def memory(self, buffer: Buffer) -> list[str]:
        """Where a buffer lies, if it is no memory of its own."""
        return [] if buffer.owns_data else [f"data={self.terms.text(buffer.data)}"]

    def shape_and_type(self, buffer: Buffer) -> list[str]:
        """The arguments of what makes a buffer."""
        parts = [self.terms.tuple(buffer.shape)]
        if buffer.dtype != "float32":
            parts.append(f'"{buffer.dtype}"')
        return parts + self.terms.buffer_options(buffer)

    # statements

    def statement(self, node: stmt.Stmt, *, is_root: bool = False) -> None:
        """A statement, and those in it."""
        first, pointers = len(self.lines), self.terms.pointers
        remark = pointers.remark(node)
        is_alone, self.is_alone = self.is_alone, self.is_alone or remark is not None
        self._statement(node, is_root=is_root)
        self.is_alone = is_alone
        if pointers.has(node):
            self.lines[first:] = map(underlined, self.lines[first:])
        if remark is not None:
            self._remark(node, first, remark)

    def _remark(self, node: stmt.Stmt, first: int, remark: str) -> None:
        """A remark, beside a line, or in front of several."""
        if len(self.lines) == first + 1:
            self.lines[first] += f"  # {remark}"
        else:
            self.lines.insert(first, "    " * self._indent + f"# {remark}")

    def _statement(self, node: stmt.Stmt, *, is_root: bool) -> None:
        if is_root and isinstance(node, stmt.BlockRealize) and _is_plain_root(node):
            self.put(f'# with T.block("{node.block.name_hint}"):')
            print_allocs(self, node.block)
            self.statement(node.block.body)
            return
        _STATEMENTS[type(node)](self, node)

    def body(self, node: stmt.Stmt) -> None:
        """The statements in another one."""
        with self.indented(), self.names.frame():
            self.statement(node)

    def _sequence(self, node: stmt.SeqStmt) -> None:
        for inner in node.seq:
            self.statement(inner)

    def _for(self, node: stmt.For) -> None:
        with self.names.frame():
            self._loop(node)

    def _loop(self, node: stmt.For) -> None:
        nest = _grid(node)
        if len(nest) > 1:
            extents = self.terms.list([loop.extent for loop in nest])
            names = ", ".join(self._loop_name(loop) for loop in nest)
            self.put(f"for {names} in T.grid({extents}):")
        else:
            extent = self._loop_text(node)
            self.put(f"for {self._loop_name(node)} in {extent}:")
        self.body(nest[-1].body)

    def _loop_name(self, loop: stmt.For) -> str:
        self.loops[id(loop.loop_var)] = Range.from_min_extent(loop.min, loop.extent)
        return self.names.define(loop.loop_var, loop.loop_var.name)

    def _loop_text(self, loop: stmt.For) -> str:
        steps = [loop.extent]
        if not (isinstance(loop.min, IntImm) and loop.min.value == 0):
            steps = [loop.min, simplify(loop.min + loop.extent)]
        parts = list(map(self.terms.text, steps))
        step = [] if loop.step is None else [self.terms.text(loop.step)]
        if step and len(parts) == 1:
            parts = ["0", *parts]
        if loop.kind == stmt.ForKind.SERIAL and not loop.annotations:
            return f"range({', '.join(parts + step)})"
        parts += [f"step={s}" for s in step]
        if loop.thread_binding is not None:
            parts.append(f'thread="{loop.thread_binding.thread_tag}"')
        if loop.annotations:
            parts.append(f"annotations={self.attributes(loop.annotations)}")
        return f"T.{_LOOPS[loop.kind]}({', '.join(parts)})"

    def _while(self, node: stmt.While) -> None:
        self.put(f"while {self.terms.text(node.condition)}:")
        self.body(node.body)

    def _choice(self, node: stmt.IfThenElse) -> None:
        self.put(f"if {self.terms.text(node.condition)}:")
        self.body(node.then_case)
        if node.else_case is not None:
            self.put("else:")
            self.body(node.else_case)

    def _store(self, node: stmt.BufferStore) -> None:
        place = self.terms.element(node.buffer, node.indices)
        value = self.terms.text(node.value)
        if node.predicate is None:
            self.put(f"{place} = {value}")
            return
        indices = f"[{self.terms.list(node.indices)}]"
        mask = f"predicate={self.terms.text(node.predicate)}"
        self.put(f"{self.name(node.buffer)}.vstore({indices}, {value}, {mask})")

    def _evaluate(self, node: stmt.Evaluate) -> None:
        text = self.terms.text(node.value)
        if getattr(node.value, "op_name", "") == "ret":
            self.put(f"return {self.terms.text(node.value.args[0])}")
            return
        is_call = isinstance(node.value, prim.Call) and text.endswith(")")
        self.put(text if is_call else f"T.evaluate({text})")

    def _let(self, node: stmt.LetStmt) -> None:
        value = self.terms.text(node.value)
        declared = self.names.get(node.var)
        if declared is not None:
            self.put(f"with T.LetStmt({value}, var={declared}):")
            self.body(node.body)
            return
        name = self.names.define(node.var, node.var.name)
        if self.is_alone:
            self._opened(f"T.LetStmt({value})", node.body, name)
            return
        self.put(f"{name}: {variable_type(node.var)} = {value}")
        self.statement(node.body)

    def _assert(self, node: stmt.AssertStmt) -> None:
        message = json.dumps(str(getattr(node.message, "value", node.message)))
        if self.is_alone:
            condition = self.terms.text(node.condition)
            self._opened(f"T.Assert({condition}, {message})", node.body)
            return
        self.put(f"assert {self.terms.text(node.condition)}, {message}")
        if not _is_nothing(node.body):
            self.statement(node.body)

    def _realize_buffer(self, node: stmt.BufferRealize, scope: str = '""') -> None:
        parts = [self.terms.region(node.region), scope]
        is_plain = isinstance(node.condition, IntImm) and node.condition.value
        parts += [] if is_plain else [self.terms.text(node.condition)]
        self.put(f"with T.realize({', '.join(parts)}):")
        self.body(node.body)

    def _attr(self, node: stmt.AttrStmt) -> None:
        inner = node.body
        is_scope = node.attr_key == "realize_scope"
        if is_scope and isinstance(inner, stmt.BufferRealize):
            self._realize_buffer(inner, self.terms.text(node.value))
            return
        key, value = json.dumps(node.attr_key), self.terms.text(node.value)
        self.put(f"with T.attr({self._attribute_node(node.node)}, {key}, {value}):")
        self.body(node.body)

    def _attribute_node(self, node: Any) -> str:
        if isinstance(node, (list, tuple)):
            return f"[{', '.join(map(self._attribute_node, node))}]"
        if isinstance(node, Buffer):
            return self.name(node)
        if isinstance(node, prim.CommReducer):
            return self.reducer(node)
        return self.terms.text(node.var if isinstance(node, IterVar) else node)

    def reducer(self, reducer: prim.CommReducer) -> str:
        """What makes a reducer."""
        variables = (*reducer.lhs, *reducer.rhs)
        names = ", ".join(self.names.define(v, v.name) for v in variables)  # pyright: ignore[reportAttributeAccessIssue]
        parts = list(map(self.terms.text, reducer.result))
        result = f"({', '.join(parts)})" if len(parts) > 1 else parts[0]
        starts = self.terms.list(reducer.identity_element)
        return f"T.comm_reducer(lambda {names}: {result}, [{starts}])"

    def _allocate(self, node: stmt.Allocate) -> None:
        pointer = node.buffer_var
        kind = pointer.type_annotation if isinstance(pointer, Pointer) else None
        scope = "global" if kind is None else kind.storage_scope
        sizes = self.terms.list(node.extents)
        parts = [f"[{sizes}]", f'"{node.dtype}"', f'"{scope}"']
        if node.annotations:
            parts.append(f"annotations={self.attributes(node.annotations)}")
        name = self.names.define(pointer, pointer.name)
        self._opened(f"T.allocate({', '.join(parts)})", node.body, name)

    def _allocate_const(self, node: stmt.AllocateConst) -> None:
        values = ", ".join(map(repr, node.data.ravel().tolist()))
        parts = [f"[{values}]", f'"{node.dtype}"', f"[{self.terms.list(node.extents)}]"]
        if node.annotations:
            parts.append(f"annotations={self.attributes(node.annotations)}")
        name = self.names.define(node.buffer_var, node.buffer_var.name)
        self._opened(f"T.allocate_const({', '.join(parts)})", node.body, name)

    def _declare_buffer(self, node: stmt.DeclBuffer) -> None:
        parts = self.shape_and_type(node.buffer)
        parts += self.memory(node.buffer)
        name = self.define(node.buffer)
        self._opened(f"T.decl_buffer({', '.join(parts)})", node.body, name)


def _free(node: Any) -> list[Any]:
    """The variables and buffers in a part of a program that it does not define."""
    if isinstance(node, Buffer):
        return free_names(BufferLoad(node, [0] * node.ndim))
    if isinstance(node, BufferRegion):
        return free_names(BufferLoad(node.buffer, [r.min for r in node.region]))
    if isinstance(node, IterVar):
        return [node.var]
    return [] if isinstance(node, (Range, prim.CommReducer)) else free_names(node)


def _is_plain_root(node: stmt.BlockRealize) -> bool:
    """Whether a parser adds the block by itself."""
    block = node.block
    if block.annotations or block.init is not None:
        return False
    inner = block.body
    if isinstance(inner, stmt.BlockRealize) and not inner.block.iter_vars:
        return bool(block.alloc_buffers)  # it would be taken for the block around all
    return bool(block.alloc_buffers) or _holds_block(block.body)


def _holds_block(node: stmt.Stmt) -> bool:
    found: list[stmt.Stmt] = []

    def visit(part: object) -> bool:
        if isinstance(part, stmt.BlockRealize):
            found.append(part)
        return not found and isinstance(part, stmt.Stmt)

    pre_order_visit(node, visit)
    return bool(found)


def _is_nothing(node: stmt.Stmt) -> bool:
    """Whether a statement stands for none."""
    if not isinstance(node, stmt.Evaluate):
        return False
    return isinstance(node.value, IntImm) and node.value.value == 0


def _grid(node: stmt.For) -> list[stmt.For]:
    """The loops that one ``T.grid`` spells."""
    found: list[stmt.For] = []
    variables: set[int] = set()
    inner: stmt.Stmt = node
    while isinstance(inner, stmt.For) and _is_simple(inner):
        if any(id(t) in variables for t in prim.post_order(inner.extent)):
            break
        found.append(inner)
        variables.add(id(inner.loop_var))
        inner = inner.body
    return found or [node]


def variable_type(var: Var) -> str:
    """The type of a variable, as a parameter has it."""
    if var.dtype != "handle":
        suffix = "(is_size_var=True)" if isinstance(var, prim.SizeVar) else ""
        return f"T.{var.dtype}{suffix}"
    kind = var.type_annotation if isinstance(var, Pointer) else None
    return "T.handle" if kind is None else str(kind)


def _is_simple(loop: stmt.For) -> bool:
    if loop.step is not None:
        return False
    is_from_0 = isinstance(loop.min, IntImm) and loop.min.value == 0
    return is_from_0 and loop.kind == stmt.ForKind.SERIAL and not loop.annotations


_STATEMENTS: Mapping[type, Callable[[ProgramPrinter, Any], None]] = {
    stmt.SeqStmt: ProgramPrinter._sequence,
    stmt.For: ProgramPrinter._for,
    stmt.While: ProgramPrinter._while,
    stmt.IfThenElse: ProgramPrinter._choice,
    stmt.BufferStore: ProgramPrinter._store,
    stmt.Evaluate: ProgramPrinter._evaluate,
    stmt.LetStmt: ProgramPrinter._let,
    stmt.AssertStmt: ProgramPrinter._assert,
    stmt.AttrStmt: ProgramPrinter._attr,
    stmt.Allocate: ProgramPrinter._allocate,
    stmt.AllocateConst: ProgramPrinter._allocate_const,
    stmt.DeclBuffer: ProgramPrinter._declare_buffer,
    stmt.BlockRealize: print_realize,
    stmt.BufferRealize: ProgramPrinter._realize_buffer,
    stmt.Block: print_block,
}
