"""Evaluation of a script's expressions, and its variable table."""

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
from relax_mlir.tvm.script.parser.source import Source
from relax_mlir.tvm.script.tir_program import current_prim_func_or_none

__all__ = ["Evaluator", "VarTable", "captured_variables"]

_MISSING = object()


class VarTable:
    """The variables of a script by name, in nested scopes.

    Args:
        outer: the variables of the enclosing Python code.

    Attributes:
        sizes: names bound to a ``TypeVar``, which denote a new symbolic size in each
            function.
        returns: return types of the module's PrimFuncs, by name.
    """

    def __init__(self, outer: Mapping[str, Any]) -> None:
        # A single dictionary, because nested Python functions of the script look names
        # up when they are called; each scope keeps the values that it shadows.
        self.values: dict[str, Any] = {**outer}
        self.sizes = [n for n, v in outer.items() if isinstance(v, TypeVar)]
        self.returns: dict[str, str] = {}
        self._shadowed: list[dict[str, Any]] = []

    @contextmanager
    def frame(self) -> Iterator[None]:
        """Opens a scope; its definitions are removed at the end."""
        self._shadowed.append({})
        try:
            yield
        finally:
            for name, value in self._shadowed.pop().items():
                if value is _MISSING:
                    del self.values[name]
                else:
                    self.values[name] = value

    def define(self, name: str, value: Any) -> None:
        """Defines a variable in the innermost scope."""
        if self._shadowed:
            old = self.values.get(name, _MISSING)
            self._shadowed[-1].setdefault(name, old)
        self.values[name] = value

    def get(self, name: str, default: Any = None) -> Any:
        """Returns the value of a variable, or ``default``."""
        return self.values.get(name, default)

    def is_in_frame(self, name: str) -> bool:
        """Whether the innermost scope defines a variable."""
        return bool(self._shadowed) and name in self._shadowed[-1]


def captured_variables(
    function: Callable[..., Any] | type, frame: FrameType
) -> dict[str, Any]:
    """Collects the Python variables visible to a function or class.

    Args:
        function: the function or the class.
        frame: the Python frame that defines it. Names that occur only in annotations are
            not closure variables; they are looked up in this frame and in the frames of
            the enclosing functions.
    """
    scopes = set(getattr(function, "__qualname__", "").split(".")[:-1])
    namespaces: list[Mapping[str, Any]] = [frame.f_globals]
    enclosing: list[Mapping[str, Any]] = []
    outer: FrameType | None = frame
    while outer is not None:
        is_enclosing = outer.f_code.co_name in scopes
        if outer.f_code.co_filename == frame.f_code.co_filename and is_enclosing:
            enclosing.append(outer.f_locals)
        outer = outer.f_back
    namespaces += reversed(enclosing)
    members = vars(function).values() if isinstance(function, type) else [function]
    for member in members:
        namespaces.append(_closure(member))
    merged: dict[str, Any] = {}
    for names in namespaces:
        merged.update(names)
    return merged


def _closure(function: Any) -> dict[str, Any]:
    code = getattr(function, "__code__", None)
    cells = getattr(function, "__closure__", None) or ()
    names = {}
    for name, cell in zip(getattr(code, "co_freevars", ()), cells, strict=True):
        with suppress(ValueError):  # an empty cell: the variable is assigned later
            names[name] = cell.cell_contents
    return names


class Evaluator(ExpressionEvaluator):
    """Evaluates the expressions of one source file.

    Args:
        source: the source, for locations in errors.
        variables: the variables in scope.
    """

    def __init__(self, source: Source, variables: VarTable) -> None:
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
        """Maps the callee of a call expression to a Python callable.

        A ``GlobalVar`` becomes a function that makes a TIR or Relax call.
        """
        state = current_prim_func_or_none()
        if isinstance(function, GlobalVar) and state is not None:
            dtype = state.returns.get(function.name_hint, "void")
            return lambda *args: prim.Call(dtype, function, args)
        if isinstance(function, GlobalVar):
            return lambda *args, attrs=None: Call(function, args, attrs)
        return function

    def eval(self, node: ast.expr) -> Any:
        """Evaluates an expression.

        Raises:
            ScriptError: the evaluation fails.
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
        """Evaluates an annotation, which may be a string."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                inner = ast.parse(node.value, mode="eval").body
            except SyntaxError as error:
                raise self.source.error(
                    node, f"invalid annotation: {error.msg}"
                ) from error
            for part in ast.walk(inner):
                ast.copy_location(part, node)
            node = inner
        return self.eval(node)

    def assigned(
        self, target: ast.expr, value: Any
    ) -> Iterator[tuple[ast.expr, str, Any]]:
        """Unpacks an assignment into node, name and value of each assigned variable.

        Raises:
            ScriptError: target and value differ in their number of elements.
        """
        names = [n.id for n in ast.walk(target) if isinstance(n, ast.Name)]
        if isinstance(target, (ast.Tuple, ast.List)) and len(set(names)) < len(names):
            raise self.source.error(target, "a variable occurs twice in one assignment")
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
            start = stars.index(True)
            end = start + 1 - missing
            return [*elements[:start], elements[start:end], *elements[end:]]
        if missing:
            raise self.source.error(
                target,
                f"expected {len(target.elts)} values to unpack, got {len(elements)}",
            )
        return elements
