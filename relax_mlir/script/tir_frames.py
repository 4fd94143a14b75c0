"""What scripts of tensor programs open: loops, names, choices, memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any

from relax_mlir.objects import prim
from relax_mlir.objects.buffer import Buffer, BufferRegion
from relax_mlir.objects.pointers import Pointer, PointerType
from relax_mlir.objects.prim import PrimExpr, Var
from relax_mlir.objects.tir_writer import ProgramWriter
from relax_mlir.script import builder
from relax_mlir.script.tir_program import Program, Scope, current_program

__all__ = [
    "AllocateFrame",
    "AssertFrame",
    "AttrFrame",
    "BranchScope",
    "DeclareFrame",
    "IfScope",
    "LetFrame",
    "LoopFrame",
    "ProgramFrame",
    "RealizeFrame",
    "Run",
    "WriterScope",
]


@dataclass(frozen=True)
class Run:
    """The steps of one loop."""

    begin: PrimExpr
    extent: PrimExpr

    @property
    def dtype(self) -> str:
        """Type of the variable."""
        wide = "int64" in (self.begin.dtype, self.extent.dtype)
        return "int64" if wide else self.extent.dtype


class LoopFrame(Scope):
    """Loops of a script, one inside the other; gives their variables.

    Args:
        runs: the steps of each.
        kind: how they run.
        thread: the thread axis that they are bound to.
        annotations: what schedules say of them.
        step: how far a step goes; None for 1.
        variables: those of the loops; new ones if left out.
        dtype: type of new variables; that of the steps if left out.
    """

    def __init__(
        self,
        runs: Sequence[Run],
        kind: str = "serial",
        thread: str | None = None,
        annotations: Mapping[str, Any] | None = None,
        step: Any = None,
        *,
        variables: Sequence[Var] | None = None,
        dtype: str | None = None,
    ) -> None:
        super().__init__()
        self._program = current_program("T.serial")
        self._runs, self._kind, self._thread = runs, kind, thread
        self._annotations, self._step = annotations, step
        self._vars = list(variables or ()) or [
            self._program.new(Var("v", dtype or run.dtype)) for run in runs
        ]
        self.value = list(self._vars) if len(self._vars) > 1 else self._vars[0]

    def name(self, name: str) -> None:
        """Tell what the script calls the variable; of several, each gets a number."""
        if len(self._vars) == 1:
            self._program.name(self._vars[0], name)
            return
        for number, var in enumerate(self._vars):
            self._program.name(var, f"{name}_{number}")

    def _open(self, stack: ExitStack) -> None:
        for var, run in zip(self._vars, self._runs, strict=True):
            stack.enter_context(
                self._program.writer.loop(
                    var,
                    run.extent,
                    run.begin,
                    kind=self._kind,
                    thread=self._thread,
                    annotations=self._annotations,
                    step=self._step,
                )
            )


class LetFrame(Scope):
    """A name for a scalar, for what follows.

    Args:
        value: the scalar.
        var: the variable; a new one if left out.
    """

    def __init__(self, value: Any, var: Var | None = None) -> None:
        super().__init__()
        term = prim.convert(value)
        self._term = term
        self._program = current_program("T.LetStmt")
        is_new = var is None
        self.value = self._program.new(Var("v", term.dtype)) if is_new else var

    def _open(self, stack: ExitStack) -> None:
        self._program.writer.let(self.value, self._term)

    def name(self, name: str) -> None:
        self._program.name(self.value, name)


class ProgramFrame(Scope):
    """A tensor program that Python code writes, statement by statement.

    Args:
        private: whether only its module sees it.
    """

    def __init__(self, private: bool) -> None:
        super().__init__()
        self._is_private = private

    def _open(self, stack: ExitStack) -> None:
        writer = ProgramWriter("main", is_open=True)
        program = Program(writer, lambda text: Var(text, "int64"))
        stack.push(lambda kind, *_: self._finish(program) if kind is None else None)
        stack.enter_context(program.open())
        self.value = program

    def _finish(self, program: Program) -> None:
        attrs = dict(program.attrs)
        name = attrs.get("global_symbol", "main")
        if self._is_private:
            attrs.pop("global_symbol", None)
        owner = builder.innermost_frame(builder.IRBuilder)
        function = program.writer.finish(attrs, program.ret_type)
        if attrs.get("global_symbol", function.name) != function.name:
            function = function.with_only_attrs(attrs)
        module = builder.innermost_frame(builder.ModuleFrame)
        if module is not None:
            module.define(name, function)
        elif owner is not None:
            owner.keep(function)


class IfScope(Scope):
    """A choice, whose branches ``T.Then`` and ``T.Else`` open."""

    def __init__(self, condition: Any) -> None:
        super().__init__()
        self.condition = condition
        self.choice: Any = None
        self._program = current_program("T.If")

    def _open(self, stack: ExitStack) -> None:
        self._program.choices.append(self)
        stack.callback(self._program.choices.pop)


class BranchScope(Scope):
    """One branch of the innermost ``T.If``."""

    def __init__(self, which: str) -> None:
        super().__init__()
        self._program = current_program(f"T.{which}")
        if not self._program.choices:
            raise ValueError(f"`T.{which}` stands in `with T.If(...)` only")
        self._which = which

    def _open(self, stack: ExitStack) -> None:
        owner = self._program.choices[-1]
        if self._which == "Then":
            opened = self._program.writer.if_(owner.condition)
            owner.choice = stack.enter_context(opened)
        elif owner.choice is None:
            raise ValueError("`T.Else` comes after `T.Then`")
        else:
            stack.enter_context(owner.choice.otherwise())


class DeclareFrame(Scope):
    """A buffer in memory that is there already, for what follows."""

    def __init__(self, buffer: Buffer) -> None:
        super().__init__()
        self._program = current_program("T.decl_buffer")
        self.value = self._program.new(buffer)

    def _open(self, stack: ExitStack) -> None:
        self._program.writer.decl_buffer(self.value)

    def name(self, name: str) -> None:
        self._program.name(self.value, name)


class AllocateFrame(Scope):
    """Memory, for what follows; a script gets a pointer to it.

    Args:
        memory: what it is like.
        annotations: more that is said of it.
        contents: its elements, where they are constants.
    """

    def __init__(
        self,
        memory: Buffer,
        annotations: Mapping[str, Any],
        contents: Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        self._program = current_program("T.allocate")
        kind = PointerType(memory.dtype, memory.scope())
        self._memory, self._annotations = memory, annotations
        self._contents = contents
        self.value = self._program.new(Pointer("v", kind))

    def _open(self, stack: ExitStack) -> None:
        writer = self._program.writer
        writer.allocate(self.value, self._memory, self._annotations, self._contents)

    def name(self, name: str) -> None:
        self._program.name(self.value, name)


class AssertFrame(Scope):
    """What holds for what follows."""

    def __init__(self, condition: Any, message: str) -> None:
        super().__init__()
        self._condition, self._message = condition, message

    def _open(self, stack: ExitStack) -> None:
        writer = current_program("T.Assert").writer
        writer.assertion(self._condition, self._message)


class WriterScope(Scope):
    """A part that the writer itself opens: ``T.If``, ``T.While``."""

    def __init__(self, opened: Callable[[], AbstractContextManager[Any]]) -> None:
        super().__init__()
        self._opened = opened

    def _open(self, stack: ExitStack) -> None:
        self.value = stack.enter_context(self._opened())


class RealizeFrame(Scope):
    """A box of a buffer that is memory, for what follows."""

    def __init__(self, region: BufferRegion, scope: str, condition: Any) -> None:
        super().__init__()
        self._region, self._scope, self._condition = region, scope, condition

    def _open(self, stack: ExitStack) -> None:
        writer = current_program("T.realize").writer
        buffer = self._region.buffer
        stack.enter_context(writer.attr(buffer, "realize_scope", self._scope))
        stack.enter_context(writer.attr(self._region, "realize", self._condition))


class AttrFrame(WriterScope):
    """What is said of what follows."""

    def __init__(self, node: Any, key: str, value: Any) -> None:
        writer = current_program("T.attr").writer
        super().__init__(lambda: writer.attr(node, key, value))
