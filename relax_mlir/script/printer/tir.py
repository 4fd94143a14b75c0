"""Tensor programs as scripts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from relax_mlir.objects import prim, stmt
from relax_mlir.objects.buffer import Buffer, BufferLoad, BufferRegion, Pointer
from relax_mlir.objects.prim import IntImm, IterVar, PrimExpr, Range, Var
from relax_mlir.objects.prim.scripted import register_printer
from relax_mlir.objects.prim_func import PrimFunc
from relax_mlir.objects.simplify import simplify
from relax_mlir.objects.stmt_functor import free_names, pre_order_visit
from relax_mlir.script.printer.display import show
from relax_mlir.script.printer.names import Names
from relax_mlir.script.printer.term import TermText
from relax_mlir.script.printer.values import attribute_text

__all__ = ["prim_func_lines", "statement_script"]

_AXES: Mapping[int, str] = {
    IterVar.DataPar: "spatial",
    IterVar.CommReduce: "reduce",
    IterVar.Ordered: "scan",
    IterVar.Opaque: "opaque",
}
_ITER_TYPES: Mapping[int, str] = {
    IterVar.DataPar: "DataPar",
    IterVar.ThreadIndex: "ThreadIndex",
    IterVar.CommReduce: "CommReduce",
    IterVar.Ordered: "Ordered",
    IterVar.Opaque: "Opaque",
}
_LOOPS: Mapping[stmt.ForKind, str] = {
    stmt.ForKind.SERIAL: "serial",
    stmt.ForKind.PARALLEL: "parallel",
    stmt.ForKind.VECTORIZED: "vectorized",
    stmt.ForKind.UNROLLED: "unroll",
    stmt.ForKind.THREAD_BINDING: "thread_binding",
}


def prim_func_lines(
    function: PrimFunc, name: str, module_name: str = "Module"
) -> list[str]:
    """A tensor program called ``name``, line by line."""
    printer = _Printer(Names([module_name]), module_name)
    printer.function(function, name)
    return printer.lines


def statement_script(node: Any, **options: Any) -> str:
    """A part of a program alone, after the variables and buffers in it.

    Args:
        node: a statement, a term, a buffer or a box of one, an axis, a reducer, a range.
        options: those of whole programs, of no effect.
    """
    printer = _Printer(Names())
    printer.declare(node)
    printer.alone(node)
    return "\n".join(printer.lines)


class _Printer:
    """Prints one program.

    Args:
        names: of variables and buffers.
        module_name: what the module is called.
    """

    def __init__(self, names: Names, module_name: str = "Module") -> None:
        self.lines: list[str] = []
        self._names = names
        self._indent = 0
        self._terms = TermText(self._name, module_name)
        self._loops: dict[int, Range] = {}

    def _name(self, value: Any) -> str:
        return self._names.get(value) or self._names.define(value, value.name)

    def alone(self, node: Any) -> None:
        """A part of a program that stands by itself."""
        if isinstance(node, stmt.Stmt):
            self.statement(node)
        elif isinstance(node, Buffer):
            self._put(self._name(node))
        elif isinstance(node, BufferRegion):
            self._put(self._terms.region(node))
        elif isinstance(node, prim.CommReducer):
            self._put(self._reducer(node))
        elif isinstance(node, Range):
            ends = self._terms.list([node.min, node.min + node.extent])
            self._put(f"I.Range({ends})")
        elif isinstance(node, IterVar):
            self._put(self._iter_var(node))
        else:
            self._put(self._terms.alone(node))

    def _iter_var(self, axis: IterVar) -> str:
        run = "None"
        if axis.dom is not None:
            ends = self._terms.list([axis.dom.min, axis.dom.min + axis.dom.extent])
            run = f"T.Range({ends})"
        kind = _ITER_TYPES[axis.iter_type]
        return (
            f'T.iter_var({self._name(axis.var)}, {run}, "{kind}", "{axis.thread_tag}")'
        )

    def declare(self, node: Any) -> None:
        """Say what the variables and buffers are that nothing defines."""
        for value in _free(node):
            if self._names.get(value) is not None:
                continue
            name = self._names.define(value, value.name)
            if isinstance(value, Buffer):
                self._put(f"{name} = {self._buffer(value)}")
            else:
                self._put(f"{name} = {self._variable(value)}")

    def _variable(self, var: Var) -> str:
        """What makes a variable."""
        kind = _kind(var)
        return kind if kind.endswith(")") else f"{kind}()"

    def _put(self, line: str) -> None:
        self.lines.append("    " * self._indent + line)

    @contextmanager
    def _indented(self) -> Iterator[None]:
        self._indent += 1
        yield
        self._indent -= 1

    def _attributes(self, attrs: Any) -> str:
        return attribute_text(attrs, self._terms.text)

    # functions

    def function(self, function: PrimFunc, name: str) -> None:
        """A program called ``name``."""
        attrs = function.attrs
        symbol = attrs.get("global_symbol")
        is_private = symbol is None
        kept = {k: v for k, v in attrs.items() if k != "global_symbol" or v != name}
        reader, body = function.read()
        pairs = [
            (p, reader.buffer_map[p]) for p in reader.params if p in reader.buffer_map
        ]
        matched = [(p, b) for p, b in pairs if _is_symbolic(b)]
        params = [self._param(p, reader.buffer_map.get(p)) for p in reader.params]
        returned = function.ret_type
        arrow = "" if returned is None else f" -> T.{returned}"
        self._put("@T.prim_func(private=True)" if is_private else "@T.prim_func")
        self._put(f"def {name}({', '.join(params)}){arrow}:")
        with self._indented():
            if kept:
                self._put(f"T.func_attr({self._attributes(kept)})")
            self._match(matched)
            self.declare(body)
            self.statement(body, is_root=True)

    def _param(self, param: Var, buffer: Buffer | None) -> str:
        if buffer is None:
            return f"{self._names.define(param, param.name)}: {_kind(param)}"
        if _is_symbolic(buffer):
            return f"{self._names.define(param, param.name)}: T.handle"
        name = self._names.define(buffer, buffer.name)
        return f"{name}: {self._buffer(buffer)}"

    def _buffer(self, buffer: Buffer) -> str:
        parts = [self._terms.tuple(buffer.shape), f'"{buffer.dtype}"']
        options = self._memory(buffer) + self._terms.buffer_options(buffer)
        return f"T.Buffer({', '.join(parts + options)})"

    def _memory(self, buffer: Buffer) -> list[str]:
        """Where a buffer lies, if it is no memory of its own."""
        data = buffer.data
        is_own = isinstance(data, Pointer) and data.buffer is buffer
        return [] if is_own else [f"data={self._terms.text(data)}"]

    def _match(self, matched: Sequence[tuple[Var, Buffer]]) -> None:
        """The sizes of a program that only its buffers mention, and the buffers."""
        for _, buffer in matched:
            terms = (*buffer.shape, *buffer.strides, buffer.elem_offset)
            for term in terms:
                for part in prim.post_order(term):
                    if isinstance(part, Var) and self._names.get(part) is None:
                        name = self._names.define(part, part.name)
                        self._put(f"{name} = T.{part.dtype}()")
        for param, buffer in matched:
            name = self._names.define(buffer, buffer.name)
            parts = [self._name(param), *self._shape_and_type(buffer)]
            self._put(f"{name} = T.match_buffer({', '.join(parts)})")

    def _shape_and_type(self, buffer: Buffer) -> list[str]:
        parts = [self._terms.tuple(buffer.shape)]
        if buffer.dtype != "float32":
            parts.append(f'"{buffer.dtype}"')
        return parts + self._terms.buffer_options(buffer)

    # statements

    def statement(self, node: stmt.Stmt, *, is_root: bool = False) -> None:
        """A statement, and those in it."""
        if is_root and isinstance(node, stmt.BlockRealize) and _is_plain_root(node):
            self._put(f'# with T.block("{node.block.name_hint}"):')
            self._allocs(node.block)
            self.statement(node.block.body)
            return
        _STATEMENTS[type(node)](self, node)

    def _body(self, node: stmt.Stmt) -> None:
        with self._indented(), self._names.frame():
            self.statement(node)

    def _sequence(self, node: stmt.SeqStmt) -> None:
        for inner in node.seq:
            self.statement(inner)

    def _for(self, node: stmt.For) -> None:
        with self._names.frame():
            self._loop(node)

    def _loop(self, node: stmt.For) -> None:
        nest = _grid(node)
        if len(nest) > 1:
            extents = self._terms.list([loop.extent for loop in nest])
            names = ", ".join(self._loop_name(loop) for loop in nest)
            self._put(f"for {names} in T.grid({extents}):")
        else:
            extent = self._loop_text(node)
            self._put(f"for {self._loop_name(node)} in {extent}:")
        self._body(nest[-1].body)

    def _loop_name(self, loop: stmt.For) -> str:
        self._loops[id(loop.loop_var)] = Range.from_min_extent(loop.min, loop.extent)
        return self._names.define(loop.loop_var, loop.loop_var.name)

    def _loop_text(self, loop: stmt.For) -> str:
        steps = [loop.extent]
        if not (isinstance(loop.min, IntImm) and loop.min.value == 0):
            steps = [loop.min, simplify(loop.min + loop.extent)]
        parts = list(map(self._terms.text, steps))
        step = [] if loop.step is None else [self._terms.text(loop.step)]
        if step and len(parts) == 1:
            parts = ["0", *parts]
        if loop.kind == stmt.ForKind.SERIAL and not loop.annotations:
            return f"range({', '.join(parts + step)})"
        parts += [f"step={s}" for s in step]
        if loop.thread_binding is not None:
            parts.append(f'thread="{loop.thread_binding.thread_tag}"')
        if loop.annotations:
            parts.append(f"annotations={self._attributes(loop.annotations)}")
        return f"T.{_LOOPS[loop.kind]}({', '.join(parts)})"

    def _while(self, node: stmt.While) -> None:
        self._put(f"while {self._terms.text(node.condition)}:")
        self._body(node.body)

    def _choice(self, node: stmt.IfThenElse) -> None:
        self._put(f"if {self._terms.text(node.condition)}:")
        self._body(node.then_case)
        if node.else_case is not None:
            self._put("else:")
            self._body(node.else_case)

    def _store(self, node: stmt.BufferStore) -> None:
        place = f"{self._name(node.buffer)}[{self._terms.list(node.indices) or '()'}]"
        value = self._terms.text(node.value)
        if node.predicate is None:
            self._put(f"{place} = {value}")
            return
        indices = f"[{self._terms.list(node.indices)}]"
        mask = f"predicate={self._terms.text(node.predicate)}"
        self._put(f"{self._name(node.buffer)}.vstore({indices}, {value}, {mask})")

    def _evaluate(self, node: stmt.Evaluate) -> None:
        text = self._terms.text(node.value)
        jump = _JUMPS.get(getattr(node.value, "op_name", ""))
        if jump is not None:
            self._put(jump)
            return
        is_call = isinstance(node.value, prim.Call) and text.endswith(")")
        self._put(text if is_call else f"T.evaluate({text})")

    def _let(self, node: stmt.LetStmt) -> None:
        value = self._terms.text(node.value)
        name = self._names.define(node.var, node.var.name)
        self._put(f"{name}: {_kind(node.var)} = {value}")
        self.statement(node.body)

    def _assert(self, node: stmt.AssertStmt) -> None:
        message = json.dumps(str(getattr(node.message, "value", node.message)))
        self._put(f"assert {self._terms.text(node.condition)}, {message}")
        if not _is_nothing(node.body):
            self.statement(node.body)

    def _attr(self, node: stmt.AttrStmt) -> None:
        key, value = json.dumps(node.attr_key), self._terms.text(node.value)
        self._put(f"with T.attr({self._attribute_node(node.node)}, {key}, {value}):")
        self._body(node.body)

    def _attribute_node(self, node: Any) -> str:
        if isinstance(node, (list, tuple)):
            return f"[{', '.join(map(self._attribute_node, node))}]"
        if isinstance(node, Buffer):
            return self._name(node)
        if isinstance(node, prim.CommReducer):
            return self._reducer(node)
        return self._terms.text(node.var if isinstance(node, IterVar) else node)

    def _reducer(self, reducer: prim.CommReducer) -> str:
        variables = (*reducer.lhs, *reducer.rhs)
        names = ", ".join(self._names.define(v, v.name) for v in variables)  # pyright: ignore[reportAttributeAccessIssue]
        parts = list(map(self._terms.text, reducer.result))
        result = f"({', '.join(parts)})" if len(parts) > 1 else parts[0]
        starts = self._terms.list(reducer.identity_element)
        return f"T.comm_reducer(lambda {names}: {result}, [{starts}])"

    def _allocate(self, node: stmt.Allocate) -> None:
        pointer = node.buffer_var
        kind = pointer.type_annotation if isinstance(pointer, Pointer) else None
        scope = "global" if kind is None else kind.storage_scope
        sizes = self._terms.list(node.extents)
        parts = [f"[{sizes}]", f'"{node.dtype}"', f'"{scope}"']
        if node.annotations:
            parts.append(f"annotations={self._attributes(node.annotations)}")
        name = self._names.define(pointer, pointer.name)
        self._put(f"{name} = T.allocate({', '.join(parts)})")
        self.statement(node.body)

    def _declare_buffer(self, node: stmt.DeclBuffer) -> None:
        parts = self._shape_and_type(node.buffer)
        parts += self._memory(node.buffer)
        name = self._names.define(node.buffer, node.buffer.name)
        self._put(f"{name} = T.decl_buffer({', '.join(parts)})")
        self.statement(node.body)

    # blocks

    def _realize(self, node: stmt.BlockRealize) -> None:
        block = node.block
        self._put(f'with T.block("{block.name_hint}"):')
        with self._indented(), self._names.frame():
            self._axes(block.iter_vars, node.iter_values)
            if not isinstance(node.predicate, IntImm):
                self._put(f"T.where({self._terms.text(node.predicate)})")
            self._inside(block)

    def _block(self, block: stmt.Block) -> None:
        self._put(f'with T.block("{block.name_hint}", no_realize=True):')
        with self._indented(), self._names.frame():
            for axis in block.iter_vars:
                name = self._names.define(axis.var, axis.var.name)
                self._put(
                    f"{name} = T.axis.{_AXES[axis.iter_type]}({self._domain(axis)})"
                )
            self._inside(block)

    def _inside(self, block: stmt.Block) -> None:
        """What a block says after its axes."""
        for what, regions in (("reads", block.reads), ("writes", block.writes)):
            listed = ", ".join(map(self._terms.region, regions))
            self._put(f"T.{what}({listed})")
        if block.annotations:
            self._put(f"T.block_attr({self._attributes(block.annotations)})")
        self._allocs(block)
        if block.init is not None:
            self._put("with T.init():")
            self._body(block.init)
        self.statement(block.body)

    def _allocs(self, block: stmt.Block) -> None:
        for buffer in block.alloc_buffers:
            parts = self._shape_and_type(buffer)
            name = self._names.define(buffer, buffer.name)
            self._put(f"{name} = T.alloc_buffer({', '.join(parts)})")
        for match in block.match_buffers:
            buffer = match.buffer
            source = self._terms.region(match.source)
            parts = [source, *self._shape_and_type(buffer)]
            name = self._names.define(buffer, buffer.name)
            self._put(f"{name} = T.match_buffer({', '.join(parts)})")

    def _axes(self, axes: Sequence[IterVar], values: Sequence[PrimExpr]) -> None:
        """The axes; runs of those that are loops as they are, at once."""
        pending: list[tuple[IterVar, PrimExpr]] = []
        for axis, value in zip(axes, values, strict=True):
            if self._is_loop(axis, value):
                pending.append((axis, value))
                continue
            self._remap(pending)
            pending = []
            self._axis(axis, value)
        self._remap(pending)

    def _is_loop(self, axis: IterVar, value: PrimExpr) -> bool:
        """Whether an axis is a loop, over the same run."""
        run = self._loops.get(id(value))
        if run is None or axis.iter_type not in (IterVar.DataPar, IterVar.CommReduce):
            return False
        return run == axis.dom and axis.var.dtype == value.dtype

    def _remap(self, axes: Sequence[tuple[IterVar, PrimExpr]]) -> None:
        if len(axes) < 2:
            for axis, value in axes:
                self._axis(axis, value)
            return
        letters = {IterVar.DataPar: "S", IterVar.CommReduce: "R"}
        kinds = "".join(letters[a.iter_type] for a, _ in axes)
        loops = self._terms.list([value for _, value in axes])
        names = ", ".join(self._names.define(a.var, a.var.name) for a, _ in axes)
        self._put(f'{names} = T.axis.remap("{kinds}", [{loops}])')

    def _axis(self, axis: IterVar, value: PrimExpr) -> None:
        text = self._terms.text(value)
        name = self._names.define(axis.var, axis.var.name)
        kind = _AXES[axis.iter_type]
        self._put(f"{name} = T.axis.{kind}({self._domain(axis)}, {text})")

    def _domain(self, axis: IterVar) -> str:
        run = axis.dom
        if isinstance(run.min, IntImm) and run.min.value == 0:
            return self._terms.text(run.extent)
        return self._terms.tuple([run.min, run.min + run.extent])


def _free(node: Any) -> list[Any]:
    """The variables and buffers in a part of a program that it does not define."""
    if isinstance(node, Buffer):
        return free_names(BufferLoad(node, [0] * node.ndim))
    if isinstance(node, BufferRegion):
        return free_names(BufferLoad(node.buffer, [r.min for r in node.region]))
    if isinstance(node, IterVar):
        return [node.var]
    return [] if isinstance(node, (Range, prim.CommReducer)) else free_names(node)


def _is_symbolic(buffer: Buffer) -> bool:
    terms = (*buffer.shape, *buffer.strides, buffer.elem_offset)
    return any(not isinstance(t, IntImm) for t in terms)


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


# Calls that scripts spell as statements of Python.
_JUMPS: Mapping[str, str] = {"break_loop": "break", "continue_loop": "continue"}


def _kind(var: Var) -> str:
    """The type of a variable."""
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


_STATEMENTS: Mapping[type, Callable[[_Printer, Any], None]] = {
    stmt.SeqStmt: _Printer._sequence,
    stmt.For: _Printer._for,
    stmt.While: _Printer._while,
    stmt.IfThenElse: _Printer._choice,
    stmt.BufferStore: _Printer._store,
    stmt.Evaluate: _Printer._evaluate,
    stmt.LetStmt: _Printer._let,
    stmt.AssertStmt: _Printer._assert,
    stmt.AttrStmt: _Printer._attr,
    stmt.Allocate: _Printer._allocate,
    stmt.DeclBuffer: _Printer._declare_buffer,
    stmt.BlockRealize: _Printer._realize,
    stmt.Block: _Printer._block,
}

register_printer("script", statement_script)
register_printer("show", lambda node, **_: show(statement_script(node)))
