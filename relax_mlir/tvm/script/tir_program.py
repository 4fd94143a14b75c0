"""The PrimFunc under construction and its enclosing scopes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Any

from relax_mlir.objects.prim import Var
from relax_mlir.objects.stmt.buffer import Buffer
from relax_mlir.objects.write.block_frame import BlockFrame
from relax_mlir.objects.write.prim_func import PrimFuncWriter
from relax_mlir.tvm.script import builder

__all__ = [
    "BlockScope",
    "InitScope",
    "PrimFuncState",
    "Scope",
    "current_block",
    "current_prim_func",
    "current_prim_func_or_none",
]

_CURRENT: ContextVar[PrimFuncState | None] = ContextVar("_CURRENT", default=None)


class PrimFuncState:
    """The state of a PrimFunc under construction.

    Attributes:
        writer: builds the PrimFunc.
        attrs: its attributes so far.
        ret_type: its return type, if any.
        blocks: the enclosing blocks, outermost first.
        if_scopes: the open ``T.If`` scopes, outermost first.
        parse_size: parses the text of a symbolic size.
        returns: return types of the module's PrimFuncs, by name.
        unnamed: ids of variables and buffers that have no name yet.
    """

    def __init__(
        self, writer: PrimFuncWriter, parse_size: Callable[[str], Any]
    ) -> None:
        self.writer = writer
        self.attrs: dict[str, Any] = {}
        self.ret_type: str | None = None
        self.blocks: list[BlockScope] = []
        self.if_scopes: list[Any] = []
        self.parse_size = parse_size
        self.returns: Mapping[str, str] = {}
        self.unnamed: set[int] = set()
        self._keep_alive: list[object] = []  # ids are unique only among live objects

    @contextmanager
    def open(self) -> Iterator[PrimFuncState]:
        """Makes this the PrimFunc that functions of the namespace ``T`` write to."""
        token = _CURRENT.set(self)
        try:
            yield self
        finally:
            _CURRENT.reset(token)

    def add_unnamed(self, value: Any) -> Any:
        """Registers a variable or buffer as unnamed; returns it."""
        self.unnamed.add(id(value))
        self._keep_alive.append(value)
        return value

    def name(self, value: Any, name: str) -> None:
        """Names a variable or buffer, unless it has a name already."""
        if id(value) not in self.unnamed:
            return
        self.unnamed.discard(id(value))
        if isinstance(value, Buffer):
            self.writer.rename(value, name)
        elif isinstance(value, Var):
            self.writer.rename_variable(value, name)


def current_prim_func(user: str) -> PrimFuncState:
    """Returns the PrimFunc under construction.

    Args:
        user: the construct that needs it, for the error message.

    Raises:
        ValueError: there is none.
    """
    state = _CURRENT.get()
    if state is None:
        state = _implicit_prim_func()
    if state is None:
        raise ValueError(f"`{user}` is used outside of a PrimFunc")
    return state


def _implicit_prim_func() -> PrimFuncState | None:
    """Returns the implicit PrimFunc of the current ``IRBuilder``, for stand-alone statements."""
    owner = builder.innermost_frame(builder.IRBuilder)
    if owner is None:
        return None
    if owner.finish is None:
        writer = PrimFuncWriter("main", allows_free_vars=True)
        owner.state = PrimFuncState(writer, lambda text: Var(text, "int64"))
        owner.finish = writer.read_back
    return owner.state


def _name_value(name: str, value: Any) -> None:
    """Names a scope's value, a variable or a buffer; see ``IRBuilder.name``."""
    state = current_prim_func_or_none()
    if isinstance(value, Scope):
        value.name(name)
    elif state is not None:
        state.name(value, name)
    elif isinstance(value, (Var, Buffer)):
        value.name = name


builder.name_scalar = _name_value


def current_prim_func_or_none() -> PrimFuncState | None:
    """Returns the PrimFunc under construction, or None."""
    owner = builder.innermost_frame(builder.IRBuilder)
    return _CURRENT.get() or (None if owner is None else owner.state)


def current_block(user: str) -> BlockScope:
    """Returns the innermost enclosing block.

    Args:
        user: the construct that needs it, for the error message.

    Raises:
        ValueError: there is none.
    """
    blocks = current_prim_func(user).blocks
    if not blocks:
        raise ValueError(
            f"`{user}` is used outside of a block: expected `with T.block():`"
        )
    return blocks[-1]


class Scope(AbstractContextManager[Any]):
    """A scope of a PrimFunc, opened by ``with`` or until the end of the statement list.

    Attributes:
        value: the target of ``with ... as``.
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
        """Names the scope's value; called before it is opened."""


class BlockScope(Scope):
    """The scope of a TIR block; each of its properties can be set once.

    Args:
        name: the name of the block.

    Attributes:
        frame: builds the block.
        has_init: whether ``T.init`` has been opened.
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        self.state = current_prim_func("T.block")
        self.frame: BlockFrame = self.state.writer.block(name)
        self._properties: set[str] = set()
        self.has_init = False

    def _open(self, stack: ExitStack) -> None:
        stack.callback(self._check_regions)
        stack.enter_context(self.frame)
        self.state.blocks.append(self)
        stack.callback(self.state.blocks.pop)

    def _check_regions(self) -> None:
        """Checks that a block that takes addresses declares its regions."""
        if self.frame.takes_addresses() and "T.reads" not in self._properties:
            raise ValueError(
                f"block `{self.frame.name}` takes the address of a buffer, so its regions "
                "cannot be inferred: expected `T.reads` and `T.writes`"
            )

    def check_once(self, setter: str) -> None:
        """Records the use of a property's setter, such as ``T.reads``.

        Raises:
            ValueError: it was used before.
        """
        if setter in self._properties:
            raise ValueError(f"`{setter}` occurs twice in one block")
        self._properties.add(setter)

    def axis(self, kind: str, dom: Any, value: Any, dtype: Any) -> Var:
        """Adds an unnamed axis."""
        return self.state.add_unnamed(self.frame.axis(kind, dom, value, dtype=dtype))

    def annotate(self, attrs: Mapping[str, Any]) -> None:
        """Adds annotations to the block.

        Raises:
            ValueError: an annotation has another value already.
        """
        self.frame.annotate(_merged(self.frame.annotations, attrs))


def _merged(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Merges annotations, dictionaries recursively."""
    merged = dict(old)
    for key, value in new.items():
        previous = merged.get(key, value)
        if isinstance(previous, Mapping) and isinstance(value, Mapping):
            merged[key] = _merged(previous, value)
        elif previous == value:
            merged[key] = value
        else:
            raise ValueError(f"annotation `{key}` has two values in one block")
    return merged


class InitScope(Scope):
    """The scope of a reduction block's initialization."""

    def __init__(self, block: BlockScope) -> None:
        super().__init__()
        if block.has_init:
            raise ValueError("`T.init` occurs twice in one block")
        block.has_init = True
        self._block = block

    def _open(self, stack: ExitStack) -> None:
        stack.enter_context(self._block.frame.init())
