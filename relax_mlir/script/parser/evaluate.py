"""Expressions of a script, evaluated over the script's variables."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, TypeVar

from relax_mlir.errors import ScriptError, near_misses
from relax_mlir.objects import prim
from relax_mlir.objects.expr import Call, GlobalVar
from relax_mlir.objects.expression_evaluator import ExpressionEvaluator
from relax_mlir.script.parser.source import Source
from relax_mlir.script.tir_program import open_program

__all__ = ["Evaluator", "Variables", "captured"]

_MISSING = object()


class Variables:
    """The variables of a script by name, in nested frames.

    Args:
        outer: what the script sees of the Python around it.

    Attributes:
        sizes: names that are a new size in each function.
        returns: the types that tensor programs of the module return, by name.
    """

    def __init__(self, outer: Mapping[str, Any]) -> None:
        # One dictionary, which the functions of the script look into when they are
        # called; frames remember what they hide.
        self.values: dict[str, Any] = {**outer}
        self.sizes = [n for n, v in outer.items() if isinstance(v, TypeVar)]
        self.returns: dict[str, str] = {}
        self._hidden: list[dict[str, Any]] = []

    @contextmanager
    def frame(self) -> Iterator[None]:
        """What is defined inside is forgotten at the end."""
        self._hidden.append({})
        try:
            yield
        finally:
            for name, value in self._hidden.pop().items():
                if value is _MISSING:
                    del self.values[name]
                else:
                    self.values[name] = value

    def define(self, name: str, value: Any) -> None:
        """Give a variable of the innermost frame its value."""
        if self._hidden:
            old = self.values.get(name, _MISSING)
            self._hidden[-1].setdefault(name, old)
        self.values[name] = value

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a variable, or ``default``."""
        return self.values.get(name, default)

    def is_in_frame(self, name: str) -> bool:
        """Whether the innermost frame defines a variable."""
        return bool(self._hidden) and name in self._hidden[-1]


def captured(function: Callable[..., Any] | type, frame: FrameType) -> dict[str, Any]:
    """What the code of a function or a class sees of the Python around it.

    Args:
        function: the function or the class.
        frame: the one that it is defined in. Names that only annotations mention are
            looked up there, and in the frames of the functions around it.
    """
    scopes = set(getattr(function, "__qualname__", "").split(".")[:-1])
    found: list[Mapping[str, Any]] = [frame.f_globals]
    enclosing: list[Mapping[str, Any]] = []
    at: FrameType | None = frame
    while at is not None:
        is_around = at.f_code.co_name in scopes
        if at.f_code.co_filename == frame.f_code.co_filename and is_around:
            enclosing.append(at.f_locals)
        at = at.f_back
    found += reversed(enclosing)
    members = vars(function).values() if isinstance(function, type) else [function]
    for member in members:
        found.append(_closure(member))
    merged: dict[str, Any] = {}
    for names in found:
        merged.update(names)
    return merged


def _closure(function: Any) -> dict[str, Any]:
    code = getattr(function, "__code__", None)
    cells = getattr(function, "__closure__", None) or ()
    names = {}
    for name, cell in zip(getattr(code, "co_freevars", ()), cells, strict=True):
        with suppress(ValueError):  # it is defined later than the script
            names[name] = cell.cell_contents
    return names


class Evaluator(ExpressionEvaluator):
    """Evaluates the expressions of one source.

    Args:
        source: where the expressions stand.
        variables: what they see.
    """

    def __init__(self, source: Source, variables: Variables) -> None:
        super().__init__()
        self.source = source
        self.variables = variables

    def lookup(self, name: str) -> Any:
        values = self.variables.values
        if name in values:
            return values[name]
        if hasattr(builtins, name):
            return getattr(builtins, name)
        raise NameError(f"name `{name}` is not defined", name=name)

    def assign(self, name: str, value: Any) -> None:
        self.variables.values[name] = value

    def callee(self, function: Any) -> Any:
        """What a call calls; a function of the module is no function of Python."""
        program = open_program()
        if isinstance(function, GlobalVar) and program is not None:
            dtype = program.returns.get(function.name_hint, "void")
            return lambda *args: prim.Call(dtype, function, args)
        if isinstance(function, GlobalVar):
            return lambda *args, attrs=None: Call(function, args, attrs)
        return function

    def eval(self, node: ast.expr) -> Any:
        """The value of an expression.

        Raises:
            ScriptError: it has none.
        """
        try:
            return self.value(node)
        except ScriptError:
            raise
        except NameError as error:
            raise self._undefined(node, error) from error
        except Exception as error:
            raise self._failure(node, error) from error

    def _undefined(self, node: ast.expr, error: NameError) -> ScriptError:
        name = error.name
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and part.id == name:
                node = part
        hint = near_misses(name or "", self.variables.values)
        return self.source.error(node, f"undefined variable `{name}`", hint.strip())

    def _failure(self, node: ast.expr, error: Exception) -> ScriptError:
        message = f"{type(error).__name__}: {error}"
        if isinstance(error, (ValueError, TypeError, SyntaxError)):
            message = str(error)
        return self.source.error(self.place(error) or node, message)

    def eval_annotation(self, node: ast.expr) -> Any:
        """The value of an annotation, which may be written as a string."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                inner = ast.parse(node.value, mode="eval").body
            except SyntaxError as error:
                raise self.source.error(node, f"no annotation: {error.msg}") from error
            for part in ast.walk(inner):
                ast.copy_location(part, node)
            node = inner
        return self.eval(node)

    def assigned(
        self, target: ast.expr, value: Any
    ) -> Iterator[tuple[ast.expr, str, Any]]:
        """The variables that an assignment gives values: node, name and value of each.

        Raises:
            ScriptError: the value has not as many elements as the target.
        """
        names = [n.id for n in ast.walk(target) if isinstance(n, ast.Name)]
        if isinstance(target, (ast.Tuple, ast.List)) and len(set(names)) < len(names):
            raise self.source.error(target, "a variable is assigned twice at once")
        yield from self._assigned(target, value)

    def _assigned(
        self, target: ast.expr, value: Any
    ) -> Iterator[tuple[ast.expr, str, Any]]:
        if isinstance(target, ast.Name):
            yield target, target.id, value
            return
        if isinstance(target, ast.Starred):
            yield from self._assigned(target.value, value)
            return
        if not isinstance(target, (ast.Tuple, ast.List)):
            raise self.source.error(
                target, f"expected a variable, got `{ast.unparse(target)}`"
            )
        for part, element in zip(
            target.elts, self._unpacked(target, value), strict=True
        ):
            yield from self._assigned(part, element)

    def _unpacked(self, target: ast.Tuple | ast.List, value: Any) -> list[Any]:
        try:
            elements = list(value)
        except Exception as error:
            raise self.source.error(target, f"cannot unpack: {error}") from error
        stars = [isinstance(part, ast.Starred) for part in target.elts]
        missing = len(target.elts) - len(elements)
        if True in stars and missing <= 1:
            at = stars.index(True)
            end = at + 1 - missing
            return [*elements[:at], elements[at:end], *elements[end:]]
        if missing:
            raise self.source.error(
                target,
                f"expected {len(target.elts)} values to unpack, got {len(elements)}",
            )
        return elements
