"""Functions and modules of a script while they are being written.

The parser fills these frames statement by statement; ``IRBuilder`` lets Python code do
the same with the names of :mod:`relax_mlir.script.relax`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, TypeVar

from relax_mlir.argument_types import check_exports
from relax_mlir.module import IRModule
from relax_mlir.objects.expr import (
    Binding,
    Call,
    Expr,
    ExternFunc,
    GlobalVar,
    SeqExpr,
    Var,
    VarBinding,
    convert,
)
from relax_mlir.objects.function import BaseFunc, Function
from relax_mlir.objects.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    StructInfo,
    VDevice,
)
from relax_mlir.relax.block_builder import BlockBuilder

__all__ = [
    "Frame",
    "FunctionFrame",
    "IRBuilder",
    "ModuleFrame",
    "current_frame",
    "define_attrs",
    "innermost_frame",
]

# How variables of tensor programs get their names; the module that writes those says it.
name_scalar: Callable[[str, Any], None] | None = None

_FRAMES: ContextVar[tuple[Frame, ...]] = ContextVar("_FRAMES", default=())


class Frame(AbstractContextManager[Any]):
    """A part of a script while it is being written; the innermost one is current."""

    _token: Token[tuple[Frame, ...]] | None = None

    def __enter__(self) -> Any:
        self._token = _FRAMES.set((*_FRAMES.get(), self))
        self.begin()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._token is not None
        try:
            if error is None:
                self.end()
            else:
                self.abandon()
        finally:
            _FRAMES.reset(self._token)

    def begin(self) -> None:
        """Start to collect what is written."""

    def end(self) -> None:
        """Make what was written."""

    def abandon(self) -> None:
        """Drop what was written: there was an error."""


_F = TypeVar("_F", bound=Frame)


def current_frame(kind: type[_F], what: str) -> _F:
    """The innermost frame of a kind.

    Raises:
        TypeError: it is no kind of frame.
        ValueError: there is none, so ``what`` stands where it must not.
    """
    if not issubclass(kind, Frame):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"current_frame: expected a kind of frame, got {kind.__name__}")
    found = innermost_frame(kind)
    if found is None:
        raise ValueError(f"{what} is used outside of {kind.where}")  # pyright: ignore[reportAttributeAccessIssue]
    return found


def innermost_frame(kind: type[_F]) -> _F | None:
    """The innermost frame of a kind, or None."""
    for frame in reversed(_FRAMES.get()):
        if isinstance(frame, kind):
            return frame
    return None


class IRBuilder(Frame):
    """Holds what is written inside, a function or a module."""

    where = "`with IRBuilder()`"

    def __init__(self) -> None:
        self._result: Any = None
        # Statements outside of a function: the program that holds them, how it ends.
        self.program: Any = None
        self.finish: Callable[[], Any] | None = None

    def end(self) -> None:
        if self.finish is not None:
            self.keep(self.finish())

    def get(self) -> Any:
        """The function or the module that was written.

        Raises:
            ValueError: nothing was.
        """
        if self._result is None:
            raise ValueError("nothing was built: expected a function or a module")
        return self._result

    def keep(self, result: Any) -> None:
        """Say what was written."""
        self._result = result

    @staticmethod
    def name(name: str, value: Any) -> Any:
        """Give a variable its name; returns it."""
        if isinstance(value, Var):
            value.vid.name_hint = name
        elif name_scalar is not None:
            name_scalar(name, value)
        return value

    @staticmethod
    def name_many(names: Sequence[str], values: Sequence[Any]) -> list[Any]:
        """Give variables their names; returns them."""
        pairs = zip(names, values, strict=True)
        return [IRBuilder.name(name, value) for name, value in pairs]

    @staticmethod
    def current() -> IRBuilder:
        """The builder whose ``with`` is open."""
        return current_frame(IRBuilder, "IRBuilder.current()")

    @staticmethod
    def is_in_scope() -> bool:
        """Whether a builder's ``with`` is open."""
        return innermost_frame(IRBuilder) is not None


class ModuleFrame(Frame):
    """A module.

    Attributes:
        variables: its functions by name, as far as they are declared.
        attrs: its attributes.
        global_infos: lists of what functions refer to by number: devices, ...
        pyfuncs: its Python functions.
    """

    where = "`with I.ir_module()`"

    def __init__(self) -> None:
        self.variables: dict[str, GlobalVar] = {}
        self.attrs: dict[str, Any] = {}
        self.global_infos: dict[str, list[Any]] = {}
        self.pyfuncs: dict[str, Any] = {}
        self._functions: dict[str, BaseFunc | ExternFunc] = {}
        self.builder = BlockBuilder(applies_normal_forms=False)
        self.module: IRModule | None = None

    def declare(self, name: str, info: StructInfo | None) -> GlobalVar:
        """Say that there will be a function ``name``.

        Raises:
            ValueError: there is one already.
        """
        if name in self.variables:
            raise ValueError(f"function `{name}` is defined twice")
        self.variables[name] = GlobalVar(name, info)
        return self.variables[name]

    def vdevice(self, named: str) -> VDevice:
        """The device that a name such as ``cuda:1:global`` or ``vdevice:2`` means.

        The number counts devices of the kind; the memory is a note for the reader.

        Raises:
            ValueError: the module has no such device.
        """
        kind, number, *_ = [*named.split(":", 2), ""]
        index = int(number or 0)
        devices = self.global_infos.get("vdevice", [])
        alike = [d for d in devices if kind in ("vdevice", str(d.target).split()[0])]
        if index >= len(alike):
            raise ValueError(f"the module has no device `{named}`")
        return alike[index]

    def define(self, name: str, function: BaseFunc | ExternFunc) -> GlobalVar:
        """Say what a function is."""
        if name not in self.variables:
            self.declare(name, None)
        self._functions[name] = function
        variable = self.variables[name]
        variable._struct_info = function.struct_info_or_none() or variable._struct_info
        return variable

    def end(self) -> None:
        made: dict[str, Any] = {
            name: self._functions[name]
            for name in self.variables
            if name in self._functions
        }
        for variable, function in self.builder.get().functions.items():
            made.setdefault(variable.name_hint, function)
        self.module = IRModule(made, attrs=self.attrs)
        self.module.pyfuncs.update(self.pyfuncs)
        for name, infos in self.global_infos.items():
            self.module.update_global_info(name, infos)
        owner = innermost_frame(IRBuilder)
        if owner is not None:
            owner.keep(self.module)


class FunctionFrame(Frame):
    """A function of Relax.

    Args:
        is_pure: whether it does nothing but compute its result.
        is_private: whether only its module sees it.

    Attributes:
        name: what it is called.
        params: its parameters.
        attrs: its attributes.
        ret_info: what its result is said to be.
        result: what it returns.
        function: the function, at the end.
    """

    where = "a function"

    def __init__(self, *, is_pure: bool = True, is_private: bool = False) -> None:
        self.name: str = ""
        self.is_pure = is_pure
        self.is_private = is_private
        self.params: list[Var] = []
        self.attrs: dict[str, Any] = {}
        self.ret_info: StructInfo | None = None
        self.result: Expr | None = None
        self.function: Function | None = None
        self._open = ExitStack()
        self.builder = self._builder()

    def _builder(self) -> BlockBuilder:
        for frame in reversed(_FRAMES.get()):
            if isinstance(frame, (FunctionFrame, ModuleFrame)):
                return frame.builder
        return BlockBuilder(applies_normal_forms=False)

    @property
    def is_inner(self) -> bool:
        """Whether it stands in another function."""
        frames = _FRAMES.get()
        around = frames[: frames.index(self)] if self in frames else frames
        return any(isinstance(frame, FunctionFrame) for frame in around)

    def begin(self) -> None:
        self._open.enter_context(self.builder.testing_scope())

    def abandon(self) -> None:
        self._open.close()

    def add_param(self, name: str, info: StructInfo) -> Var:
        """Add a parameter."""
        self.params.append(Var(name, info))
        return self.params[-1]

    def returns(self, value: Any) -> None:
        """Say what the function gives.

        Raises:
            ValueError: that was said before.
        """
        if self.result is not None:
            raise ValueError("a function returns once, at its end")
        self.result = self.as_argument(convert(value))

    def as_argument(self, value: Expr) -> Expr:
        """An expression as an argument: bound to a variable if it is no leaf."""
        return self.builder.normalize_argument(self.builder.normalize(value))

    def end(self) -> None:
        if self.result is None:
            self.abandon()
            raise ValueError("the function returns nothing: expected a `return`")
        is_inner, blocks = self.is_inner, self.builder.end_scope()
        self._open.close()
        if self.is_private and "global_symbol" in self.attrs:
            raise ValueError(
                "a private function has no `global_symbol`: drop `private=True` or the "
                "attribute"
            )
        if not self.is_private and not is_inner and self.name:
            self.attrs.setdefault("global_symbol", self.name)
        self.function = Function(
            self.params,
            SeqExpr(blocks, self.result),
            self.ret_info,
            is_pure=self.is_pure,
            attrs=self.attrs,
        )
        if not is_inner:
            self._keep(self.function)

    def _keep(self, function: Function) -> None:
        module, owner = innermost_frame(ModuleFrame), innermost_frame(IRBuilder)
        if module is not None:
            module.define(self.name, function)
        elif owner is not None:
            owner.keep(function)

    def signature(self) -> FuncStructInfo:
        """What is known of the function before its body is."""
        params = [p.struct_info for p in self.params]
        return FuncStructInfo(params, self.ret_info or ObjectStructInfo(), self.is_pure)

    def emit(self, value: Any, info: StructInfo | None = None) -> Var:
        """Bind an expression to a new variable.

        Args:
            info: what a script says of the value.

        Raises:
            ValueError: nothing can be both what the script says and what the value is.
        """
        expr = convert(value)
        known = expr.struct_info_or_none()
        if info is None:
            return self.builder.emit(expr)
        if known is None:
            if isinstance(expr, Call):
                expr = expr.with_struct_info(info)
        elif not _may_be(info, known):
            raise ValueError(f"the value is {known}, but the annotation says {info}")
        return self.builder.emit(expr)

    def emit_match_cast(self, value: Expr, info: StructInfo) -> Var:
        """Bind a value of which more is known from here on."""
        return self.builder.match_cast(value, info)

    def emit_binding(self, binding: Binding) -> Var:
        """Add a binding as it is."""
        if (
            isinstance(binding, VarBinding)
            and binding.var.struct_info_or_none() is None
        ):
            value = self.builder.normalize(binding.value)
            binding.var._struct_info = value.struct_info
        self.builder.emit_normalized(binding)
        return binding.var


def _may_be(a: StructInfo, b: StructInfo) -> bool:
    """Whether a value can be both."""
    if isinstance(a, ObjectStructInfo) or isinstance(b, ObjectStructInfo):
        return True
    if type(a) is not type(b):
        return False
    for name, unknown in (("dtype", "void"), ("ndim", -1)):
        mine, theirs = getattr(a, name, unknown), getattr(b, name, unknown)
        if mine != theirs and unknown not in (mine, theirs):
            return False
    mine, theirs = getattr(a, "fields", ()), getattr(b, "fields", ())
    if len(mine) != len(theirs):
        return False
    return all(_may_be(x, y) for x, y in zip(mine, theirs, strict=True))


def define_attrs(attrs: Mapping[str, Any]) -> None:
    """Add attributes to the open function."""
    current_frame(FunctionFrame, "R.func_attr").attrs.update(attrs)


check_exports(globals())
