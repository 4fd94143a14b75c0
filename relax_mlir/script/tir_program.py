"""The tensor program that a script is writing, and the parts of it that are open."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from relax_mlir.objects import prim
from relax_mlir.objects.buffer import Buffer, BufferRegion, Pointer, PointerType
from relax_mlir.objects.prim import PrimExpr, Var
from relax_mlir.objects.tir_writer import BlockFrame, ProgramWriter
from relax_mlir.script import builder

__all__ = [
    "BlockScope",
    "LetFrame",
    "LoopFrame",
    "Program",
    "Scope",
    "current_block",
    "current_program",
]

_CURRENT: ContextVar[Program | None] = ContextVar("_CURRENT", default=None)


class Program:
    """One tensor program while it is being written.

    Attributes:
        writer: writes it.
        attrs: its attributes so far.
        blocks: the open blocks, outermost first.
        size_of: tells the size that a text spells.
    """

    def __init__(self, writer: ProgramWriter, size_of: Callable[[str], Any]) -> None:
        self.writer = writer
        self.attrs: dict[str, Any] = {}
        self.ret_type: str | None = None
        self.blocks: list[BlockScope] = []
        self.choices: list[IfScope] = []
        self.size_of = size_of
        self.returns: Mapping[str, str] = {}  # types of functions of the module
        self.fresh: set[int] = set()  # variables and buffers that have no name yet
        self._alive: list[object] = []

    @contextmanager
    def open(self) -> Iterator[Program]:
        """Functions of the namespace ``T`` write to this program inside."""
        token = _CURRENT.set(self)
        try:
            yield self
        finally:
            _CURRENT.reset(token)

    def new(self, value: Any) -> Any:
        """Remember that a variable or a buffer waits for its name."""
        self.fresh.add(id(value))
        self._alive.append(value)
        return value

    def name(self, value: Any, name: str) -> None:
        """Give what waits for a name this one."""
        if id(value) not in self.fresh:
            return
        self.fresh.discard(id(value))
        if isinstance(value, Buffer):
            self.writer.rename(value, name)
        elif isinstance(value, Var):
            self.writer.rename_variable(value, name)


def current_program(what: str) -> Program:
    """The program that is being written.

    Raises:
        ValueError: there is none.
    """
    program = _CURRENT.get()
    if program is None:
        program = _built_program()
    if program is None:
        raise ValueError(f"`{what}` stands in a tensor program only")
    return program


def _built_program() -> Program | None:
    """The statements that a builder collects outside of a program."""
    owner = builder.innermost_frame(builder.IRBuilder)
    if owner is None:
        return None
    if owner.finish is None:
        writer = ProgramWriter("main", is_open=True)
        owner.program = Program(writer, lambda text: Var(text, "int64"))
        owner.finish = writer.read_back
    return owner.program


def _name(name: str, value: Any) -> None:
    """Give what a builder made its name."""
    program = open_program()
    if isinstance(value, Scope):
        value.name(name)
    elif program is not None:
        program.name(value, name)
    elif isinstance(value, (Var, Buffer)):
        value.name = name


builder.name_scalar = _name


def open_program() -> Program | None:
    """The program that is being written, or None."""
    owner = builder.innermost_frame(builder.IRBuilder)
    return _CURRENT.get() or (None if owner is None else owner.program)


def current_block(what: str) -> BlockScope:
    """The innermost open block.

    Raises:
        ValueError: there is none.
    """
    blocks = current_program(what).blocks
    if not blocks:
        raise ValueError(f"`{what}` stands in a block only: expected `with T.block():`")
    return blocks[-1]


class Scope(AbstractContextManager[Any]):
    """A part of a program; what a script opens by ``with``, or for all that follows.

    Attributes:
        value: what the script gets for it.
    """

    value: Any = None

    def __init__(self) -> None:
        self._stack = ExitStack()

    def __enter__(self) -> Any:
        self._open(self._stack)
        return self.value

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, traceback)

    def _open(self, stack: ExitStack) -> None:
        raise NotImplementedError

    def name(self, name: str) -> None:
        """Tell what the script calls its value; before it is opened."""


class BlockScope(Scope):
    """A block of a script: each of its properties is said once.

    Args:
        frame: writes it.
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        self.program = current_program("T.block")
        self.frame: BlockFrame = self.program.writer.block(name)
        self._said: set[str] = set()
        self.has_init = False

    def _open(self, stack: ExitStack) -> None:
        stack.callback(self._check_regions)
        stack.enter_context(self.frame)
        self.program.blocks.append(self)
        stack.callback(self.program.blocks.pop)

    def _check_regions(self) -> None:
        """Refuse a block that hands out pointers, and does not say for what."""
        if self.frame.takes_addresses() and "T.reads" not in self._said:
            raise ValueError(
                f"block `{self.frame.name}` takes the address of a buffer, so what it "
                "touches is not known: expected `T.reads` and `T.writes`"
            )

    def once(self, what: str) -> None:
        """Refuse what is said twice.

        Raises:
            ValueError: it was said before.
        """
        if what in self._said:
            raise ValueError(f"`{what}` is said twice in one block")
        self._said.add(what)

    def axis(self, kind: str, dom: Any, value: Any, dtype: Any) -> Var:
        """A new axis, which waits for its name."""
        return self.program.new(self.frame.axis(kind, dom, value, dtype=dtype))

    def annotate(self, attrs: Mapping[str, Any]) -> None:
        """Say more of the block.

        Raises:
            ValueError: something else was said before.
        """
        for key, value in attrs.items():
            if key in self.frame.annotations and self.frame.annotations[key] != value:
                raise ValueError(f"annotation `{key}` is said twice in one block")
        self.frame.annotate(attrs)


class InitScope(Scope):
    """What comes before the first point of a block."""

    def __init__(self, block: BlockScope) -> None:
        super().__init__()
        if block.has_init:
            raise ValueError("`T.init` stands twice in one block")
        block.has_init = True
        self._block = block

    def _open(self, stack: ExitStack) -> None:
        stack.enter_context(self._block.frame.init())


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


@dataclass
class LoopFrame(AbstractContextManager[Any]):
    """Loops of a script, one inside the other.

    Attributes:
        runs: the steps of each.
        kind: how they run.
        thread: the thread axis that they are bound to.
        step: how far a step goes; None for 1.
    """

    runs: Sequence[Run]
    kind: str = "serial"
    thread: str | None = None
    annotations: Mapping[str, Any] = field(default_factory=dict)
    dtype: str | None = None
    step: Any = None
    vars: list[Var] = field(default_factory=list)
    _stack: ExitStack = field(default_factory=ExitStack)

    def variables(self) -> list[Var]:
        """The variables, which wait for their names."""
        program = current_program("T.serial")
        names = ["v"] * len(self.runs)
        self.vars = [
            program.new(Var(name, self.dtype or run.dtype))
            for name, run in zip(names, self.runs, strict=True)
        ]
        return self.vars

    @property
    def value(self) -> Any:
        """What a script gets: the variable, or all of them."""
        return list(self.vars) if len(self.vars) > 1 else self.vars[0]

    def name(self, name: str) -> None:
        """Tell what the script calls the variable."""
        program = current_program("T.serial")
        if len(self.vars) == 1:
            program.name(self.vars[0], name)
            return
        for number, var in enumerate(self.vars):
            program.name(var, f"{name}_{number}")

    def __enter__(self) -> Any:
        writer = current_program("T.serial").writer
        if not self.vars:
            self.variables()
        for var, run in zip(self.vars, self.runs, strict=True):
            self._stack.enter_context(
                writer.loop(
                    var,
                    run.extent,
                    run.begin,
                    kind=self.kind,
                    thread=self.thread,
                    annotations=self.annotations,
                    step=self.step,
                )
            )
        return self.value

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, traceback)


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
        owner = builder.innermost_frame(builder.IRBuilder)
        function = program.writer.finish(attrs, program.ret_type)
        if attrs.get("global_symbol", function.name) != function.name:
            function = function.with_attrs(attrs)
        module = builder.innermost_frame(builder.ModuleFrame)
        if module is not None:
            module.define(function.name, function)
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
    """

    def __init__(self, memory: Buffer, annotations: Mapping[str, Any]) -> None:
        super().__init__()
        self._program = current_program("T.allocate")
        kind = PointerType(memory.dtype, memory.scope())
        self._memory, self._annotations = memory, annotations
        self.value = self._program.new(Pointer("v", kind))

    def _open(self, stack: ExitStack) -> None:
        writer = self._program.writer
        writer.allocate(self.value, self._memory, self._annotations)

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


class AttrFrame(WriterScope):
    """What is said of what follows."""

    def __init__(self, node: Any, key: str, value: Any) -> None:
        writer = current_program("T.attr").writer
        super().__init__(lambda: writer.attr(node, key, value))


def check_regions(regions: Sequence[Any]) -> list[BufferRegion]:
    """The boxes that ``T.reads`` and ``T.writes`` list.

    Raises:
        TypeError: something there is none.
    """
    flat: list[Any] = []
    for region in regions:
        flat += region if isinstance(region, (list, tuple)) else [region]
    found = []
    for region in flat:
        if isinstance(region, Buffer):
            whole = [prim.Range(0, size) for size in region.shape]
            found.append(BufferRegion(region, whole))
        elif isinstance(region, BufferRegion):
            found.append(region)
        else:
            buffer = getattr(region, "buffer", None)
            if buffer is None:
                raise TypeError(f"expected a part of a buffer, got {region!r}")
            found.append(
                BufferRegion(
                    buffer, [prim.Range.from_min_extent(i, 1) for i in region.indices]
                )
            )
    return found


def message_text(message: Any) -> str:
    """The text of an assertion, which may come with a kind of error."""
    if isinstance(message, (tuple, list)):
        *_, last = message
        return "".join(last) if isinstance(last, (list, tuple)) else str(last)
    return str(message)
