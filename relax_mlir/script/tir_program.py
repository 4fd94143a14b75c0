"""The tensor program that a script is writing, and the parts of it that are open."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Any

from relax_mlir.objects.block_frame import BlockFrame
from relax_mlir.objects.buffer import Buffer
from relax_mlir.objects.prim import Var
from relax_mlir.objects.tir_writer import ProgramWriter
from relax_mlir.script import builder

__all__ = [
    "BlockScope",
    "InitScope",
    "Program",
    "Scope",
    "current_block",
    "current_program",
    "open_program",
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
        self.choices: list[Any] = []  # the open `T.If`, outermost first
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
        self.frame.annotate(_merged(self.frame.annotations, attrs))


def _merged(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Annotations that were said one after the other; dictionaries are joined."""
    found = dict(old)
    for key, value in new.items():
        known = found.get(key, value)
        if isinstance(known, Mapping) and isinstance(value, Mapping):
            found[key] = _merged(known, value)
        elif known == value:
            found[key] = value
        else:
            raise ValueError(f"annotation `{key}` is said twice in one block")
    return found


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
