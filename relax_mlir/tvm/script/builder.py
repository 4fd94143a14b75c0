"""Builder frames of functions and modules.

The parser fills these frames statement by statement; under ``IRBuilder``, Python code
does the same by calling the functions of :mod:`relax_mlir.tvm.script.relax`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, TypeVar

from relax_mlir.ir.module import IRModule
from relax_mlir.objects.block_builder import BlockBuilder
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
from relax_mlir.objects.expr.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    StructInfo,
    VDevice,
)
from relax_mlir.objects.function import BaseFunc, Function
from relax_mlir.support.argument_types import check_exports

__all__ = [
    "Frame",
    "FunctionFrame",
    "IRBuilder",
    "ModuleFrame",
    "current_frame",
    "define_attrs",
    "innermost_frame",
]

# Names TIR variables; set by the module of the PrimFunc builder, which imports this one.
name_scalar: Callable[[str, Any], None] | None = None

_FRAMES: ContextVar[tuple[Frame, ...]] = ContextVar("_FRAMES", default=())


class Frame(AbstractContextManager[Any]):
    """A construct of a script under construction; frames form a stack."""

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
        """Starts the construct, on entry."""

    def end(self) -> None:
        """Finishes the construct, on exit without an error."""

    def abandon(self) -> None:
        """Discards the construct, on exit with an error."""


_F = TypeVar("_F", bound=Frame)


def current_frame(kind: type[_F], user: str) -> _F:
    """Returns the innermost frame of a class.

    Args:
        kind: the frame class.
        user: the construct that needs the frame, for the error message.

    Raises:
        TypeError: ``kind`` is not a frame class.
        ValueError: there is no such frame.
    """
    if not issubclass(kind, Frame):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"current_frame: expected a frame class, got {kind.__name__}")
    frame = innermost_frame(kind)
    if frame is None:
        raise ValueError(f"{user} is used outside of {kind.where}")  # pyright: ignore[reportAttributeAccessIssue]
    return frame


def innermost_frame(kind: type[_F]) -> _F | None:
    """Returns the innermost frame of a class, or None."""
    for frame in reversed(_FRAMES.get()):
        if isinstance(frame, kind):
            return frame
    return None


class IRBuilder(Frame):
    """Builds the function or module that the code in its ``with`` defines."""

    where = "`with IRBuilder()`"

    def __init__(self) -> None:
        self._result: Any = None
        # For statements outside of a function: their PrimFunc state, and its finisher.
        self.state: Any = None
        self.finish: Callable[[], Any] | None = None

    def end(self) -> None:
        if self.finish is not None:
            self.set_result(self.finish())

    def get(self) -> Any:
        """Returns the function or module.

        Raises:
            ValueError: nothing was built.
        """
        if self._result is None:
            raise ValueError("nothing was built: expected a function or a module")
        return self._result

    def set_result(self, result: Any) -> None:
        """Sets the function or module that ``get`` returns."""
        self._result = result

    @staticmethod
    def name(name: str, value: Any) -> Any:
        """Names a variable; returns it."""
        if isinstance(value, Var):
            value.vid.name_hint = name
        elif name_scalar is not None:
            name_scalar(name, value)
        return value

    @staticmethod
    def name_many(names: Sequence[str], values: Sequence[Any]) -> list[Any]:
        """Names variables; returns them."""
        pairs = zip(names, values, strict=True)
        return [IRBuilder.name(name, value) for name, value in pairs]

    @staticmethod
    def current() -> IRBuilder:
        """Returns the innermost open builder."""
        return current_frame(IRBuilder, "IRBuilder.current()")

    @staticmethod
    def is_in_scope() -> bool:
        """Whether a builder is open."""
        return innermost_frame(IRBuilder) is not None


class ModuleFrame(Frame):
    """Frame of a module.

    Attributes:
        variables: global variables of the functions declared so far, by name.
        attrs: its attributes.
        global_infos: its global infos, by kind: virtual devices, ...
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
        """Declares a function.

        Raises:
            ValueError: it is declared already.
        """
        if name in self.variables:
            raise ValueError(f"function `{name}` is defined twice")
        self.variables[name] = GlobalVar(name, info)
        return self.variables[name]

    def vdevice(self, named: str) -> VDevice:
        """Looks up a virtual device by a name such as ``cuda:1:global`` or ``vdevice:2``.

        The number is the index among the devices of the kind; the memory scope is ignored.

        Raises:
            ValueError: the module has no such device.
        """
        kind, number, *_ = [*named.split(":", 2), ""]
        index = int(number or 0)
        devices = self.global_infos.get("vdevice", [])
        of_kind = [d for d in devices if kind in ("vdevice", str(d.target).split()[0])]
        if index >= len(of_kind):
            raise ValueError(f"the module has no device `{named}`")
        return of_kind[index]

    def define(self, name: str, function: BaseFunc | ExternFunc) -> GlobalVar:
        """Defines a function, which is declared if necessary."""
        if name not in self.variables:
            self.declare(name, None)
        self._functions[name] = function
        variable = self.variables[name]
        variable._struct_info = function.struct_info_or_none() or variable._struct_info
        return variable

    def end(self) -> None:
        functions: dict[str, Any] = {
            name: self._functions[name]
            for name in self.variables
            if name in self._functions
        }
        for variable, function in self.builder.get().functions.items():
            functions.setdefault(variable.name_hint, function)
        self.module = IRModule(functions, attrs=self.attrs)
        self.module.pyfuncs.update(self.pyfuncs)
        for name, infos in self.global_infos.items():
            self.module.update_global_info(name, infos)
        owner = innermost_frame(IRBuilder)
        if owner is not None:
            owner.set_result(self.module)


class FunctionFrame(Frame):
    """Frame of a Relax function.

    Args:
        is_pure: whether it has no side effects.
        is_private: whether it has no global symbol.

    Attributes:
        name: its name.
        params: its parameters.
        attrs: its attributes.
        ret_info: the declared struct info of its result, if any.
        result: the returned expression.
        function: the function, set at the end.
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
        """Whether the function is nested in another one."""
        frames = _FRAMES.get()
        enclosing = frames[: frames.index(self)] if self in frames else frames
        return any(isinstance(frame, FunctionFrame) for frame in enclosing)

    def begin(self) -> None:
        self._open.enter_context(self.builder.testing_scope())

    def abandon(self) -> None:
        self._open.close()

    def add_param(self, name: str, info: StructInfo) -> Var:
        """Adds a parameter."""
        self.params.append(Var(name, info))
        return self.params[-1]

    def returns(self, value: Any) -> None:
        """Sets the result of the function.

        Raises:
            ValueError: it has been set already.
        """
        if self.result is not None:
            raise ValueError("a function must return once, at its end")
        self.result = self.as_argument(convert(value))

    def as_argument(self, value: Expr) -> Expr:
        """Normalizes an operand: an expression that is not a leaf is bound to a variable."""
        return self.builder.normalize_argument(self.builder.normalize(value))

    def end(self) -> None:
        if self.result is None:
            self.abandon()
            raise ValueError("the function has no result: expected a `return`")
        is_inner, blocks = self.is_inner, self.builder.end_scope()
        self._open.close()
        if self.is_private and "global_symbol" in self.attrs:
            raise ValueError(
                "a private function cannot have a `global_symbol`: drop `private=True` or "
                "the attribute"
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
            self._register(self.function)

    def _register(self, function: Function) -> None:
        """Adds the function to the module under construction, or makes it the result of the builder."""
        module, owner = innermost_frame(ModuleFrame), innermost_frame(IRBuilder)
        if module is not None:
            module.define(self.name, function)
        elif owner is not None:
            owner.set_result(function)

    def signature(self) -> FuncStructInfo:
        """Returns the struct info of the function, from its header."""
        params = [p.struct_info for p in self.params]
        return FuncStructInfo(params, self.ret_info or ObjectStructInfo(), self.is_pure)

    def emit(self, value: Any, info: StructInfo | None = None) -> Var:
        """Binds an expression to a new variable.

        Args:
            value: the expression.
            info: the annotation of the variable.

        Raises:
            ValueError: the annotation contradicts the struct info of the value.
        """
        expr = convert(value)
        inferred = expr.struct_info_or_none()
        if info is None:
            return self.builder.emit(expr)
        if inferred is None:
            if isinstance(expr, Call):
                expr = expr.with_struct_info(info)
        elif not _are_compatible(info, inferred):
            raise ValueError(f"the value is {inferred}, but the annotation is {info}")
        return self.builder.emit(expr)

    def emit_match_cast(self, value: Expr, info: StructInfo) -> Var:
        """Binds a value to a new variable with refined struct info."""
        return self.builder.match_cast(value, info)

    def emit_binding(self, binding: Binding) -> Var:
        """Appends a binding."""
        if (
            isinstance(binding, VarBinding)
            and binding.var.struct_info_or_none() is None
        ):
            value = self.builder.normalize(binding.value)
            binding.var._struct_info = value.struct_info
        self.builder.emit_normalized(binding)
        return binding.var


def _are_compatible(a: StructInfo, b: StructInfo) -> bool:
    """Whether a value can have both struct infos."""
    if isinstance(a, ObjectStructInfo) or isinstance(b, ObjectStructInfo):
        return True
    if type(a) is not type(b):
        return False
    for name, unknown in (("dtype", "void"), ("ndim", -1)):
        lhs, rhs = getattr(a, name, unknown), getattr(b, name, unknown)
        if lhs != rhs and unknown not in (lhs, rhs):
            return False
    lhs, rhs = getattr(a, "fields", ()), getattr(b, "fields", ())
    if len(lhs) != len(rhs):
        return False
    return all(_are_compatible(x, y) for x, y in zip(lhs, rhs, strict=True))


def define_attrs(attrs: Mapping[str, Any]) -> None:
    """Adds attributes to the function under construction."""
    current_frame(FunctionFrame, "R.func_attr").attrs.update(attrs)


check_exports(globals())
