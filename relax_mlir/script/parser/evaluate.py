"""Expressions of a script, evaluated by Python over the script's variables."""

from __future__ import annotations

import ast
import builtins
import operator
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import CodeType, FrameType, TracebackType
from typing import Any, TypeVar

from relax_mlir.errors import ScriptError, near_misses
from relax_mlir.objects import prim
from relax_mlir.objects.expr import Call, GlobalVar
from relax_mlir.objects.prim import PrimExpr
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
        # One dictionary, as Python's eval and the functions that it makes want; frames
        # remember what they hide.
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


class Evaluator:
    """Evaluates the expressions of one source.

    ``and``, ``or``, ``not``, chained comparisons and ``a if c else b`` of scalar terms
    give terms; all else is what Python makes of it.

    Args:
        source: where the expressions stand.
        variables: what they see.
    """

    def __init__(self, source: Source, variables: Variables) -> None:
        self.source = source
        self.variables = variables

    def eval(self, node: ast.expr) -> Any:
        """The value of an expression.

        Raises:
            ScriptError: it has none.
        """
        tree = ast.Expression(_Terms().visit(_copied(node)))
        ast.fix_missing_locations(tree)
        code = compile(tree, self.source.name, "eval")
        try:
            return eval(code, self._globals())
        except ScriptError:
            raise
        except NameError as error:
            raise self._undefined(node, error) from error
        except Exception as error:
            raise self._failed(node, error, code) from error

    def _globals(self) -> dict[str, Any]:
        values = self.variables.values
        values.setdefault("__builtins__", builtins)
        values.update(_HELPERS)
        return values

    def _undefined(self, node: ast.expr, error: NameError) -> ScriptError:
        name = error.name
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and part.id == name:
                node = part
        hint = near_misses(name or "", self.variables.values)
        return self.source.error(node, f"undefined variable `{name}`", hint.strip())

    def _failed(self, node: ast.expr, error: Exception, code: CodeType) -> ScriptError:
        message = f"{type(error).__name__}: {error}"
        if isinstance(error, (ValueError, TypeError)):
            message = str(error)
        place = _place(error.__traceback__, code)
        if place is not None and None not in place:
            return self.source.error_at(place[0], place[1], message)
        return self.source.error(node, message)

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


def _copied(node: ast.expr) -> ast.expr:
    """The same tree, to be changed; ``copy.deepcopy`` takes five times as long."""
    fields: dict[str, Any] = {}
    for name, value in ast.iter_fields(node):
        if isinstance(value, ast.AST):
            value = _copied(value)  # pyright: ignore[reportArgumentType]
        elif isinstance(value, list):
            value = [_copied(v) if isinstance(v, ast.AST) else v for v in value]  # pyright: ignore[reportArgumentType]
        fields[name] = value
    return ast.copy_location(type(node)(**fields), node)


def _place(traceback: TracebackType | None, code: CodeType) -> Any:  # Any: see below
    """Line and offset of the part of ``code`` that failed; None before Python 3.11."""
    found = None
    while traceback is not None:
        if traceback.tb_frame.f_code is code and hasattr(code, "co_positions"):
            positions = list(code.co_positions())  # pyright: ignore[reportAttributeAccessIssue]
            line, _, offset, _ = positions[traceback.tb_lasti // 2]
            found = (line, offset)
        traceback = traceback.tb_next
    return found


class _Terms(ast.NodeTransformer):
    """Calls in place of what Python gives no operator for."""

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        name = "__script_and__" if isinstance(node.op, ast.And) else "__script_or__"
        return self._call(node, name, [self.visit(v) for v in node.values])

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        parts = [self.visit(v) for v in (node.test, node.body, node.orelse)]
        return self._call(node, "__script_if__", parts)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        function = ast.copy_location(ast.Name("__script_callee__", ast.Load()), node)
        callee = ast.copy_location(ast.Call(function, [node.func], []), node.func)
        made = ast.Call(callee, node.args, node.keywords)
        return ast.copy_location(made, node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.Not):
            return self._call(node, "__script_not__", [node.operand])
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if len(node.ops) == 1:
            name = _COMPARISONS.get(type(node.ops[0]))
            is_number = isinstance(node.left, (ast.Constant, ast.UnaryOp))
            if name is None or not is_number:
                return node
            return self._call(node, name, [node.left, node.comparators[0]])
        sides = [node.left, *node.comparators]
        pairs = [
            self.visit_Compare(ast.copy_location(ast.Compare(a, [op], [b]), node))
            for a, op, b in zip(sides, node.ops, sides[1:], strict=False)
        ]
        return self._call(node, "__script_and__", pairs)

    @staticmethod
    def _call(node: ast.expr, name: str, values: list[Any]) -> ast.AST:
        """A call of ``name`` with the values unevaluated."""
        empty = ast.arguments(
            posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[]
        )
        lazy: list[ast.expr] = [
            ast.copy_location(ast.Lambda(empty, v), node) for v in values
        ]
        function = ast.copy_location(ast.Name(name, ast.Load()), node)
        return ast.copy_location(ast.Call(function, lazy, []), node)


_Lazy = Callable[[], Any]


def _and(*values: _Lazy) -> Any:
    result = values[0]()
    for value in values[1:]:
        is_term = isinstance(result, PrimExpr)
        result = result & value() if is_term else result and value()
    return result


def _or(*values: _Lazy) -> Any:
    result = values[0]()
    for value in values[1:]:
        is_term = isinstance(result, PrimExpr)
        result = result | value() if is_term else result or value()
    return result


def _callee(function: Any) -> Any:
    """What a call calls; a function of the module is no function of Python."""
    program = open_program()
    if isinstance(function, GlobalVar) and program is not None:
        dtype = program.returns.get(function.name_hint, "void")
        return lambda *args: prim.Call(dtype, function, args)
    if isinstance(function, GlobalVar):
        return lambda *args, attrs=None: Call(function, args, attrs)
    return function


def _not(value: _Lazy) -> Any:
    result = value()
    if isinstance(result, PrimExpr) and not isinstance(result, prim.IntImm):
        return prim.Not(result)
    return not result


def _if(condition: _Lazy, then: _Lazy, other: _Lazy) -> Any:
    chosen = condition()
    if not isinstance(chosen, PrimExpr) or isinstance(chosen, prim.IntImm):
        return then() if chosen else other()
    values = (prim.convert(then()), prim.convert(other()))
    return prim.Call(values[0].dtype, "if_then_else", [chosen, *values])


def _comparison(
    kind: type[prim.BinaryExpr], compare: Callable[[Any, Any], Any]
) -> Callable[[_Lazy, _Lazy], Any]:
    """A comparison whose sides stay where they are; Python swaps those of numbers."""

    def apply(left: _Lazy, right: _Lazy) -> Any:
        a, b = left(), right()
        if isinstance(a, (int, float)) and isinstance(b, (PrimExpr, prim.IterVar)):
            return prim.binary(kind, a, b)
        return compare(a, b)

    return apply


# Comparisons that may have a number on the left.
_COMPARISONS: Mapping[type[ast.cmpop], str] = {
    ast.Lt: "__script_lt__",
    ast.LtE: "__script_le__",
    ast.Gt: "__script_gt__",
    ast.GtE: "__script_ge__",
}
_HELPERS: Mapping[str, Any] = {
    "__script_and__": _and,
    "__script_or__": _or,
    "__script_callee__": _callee,
    "__script_not__": _not,
    "__script_if__": _if,
    "__script_lt__": _comparison(prim.LT, operator.lt),
    "__script_le__": _comparison(prim.LE, operator.le),
    "__script_gt__": _comparison(prim.GT, operator.gt),
    "__script_ge__": _comparison(prim.GE, operator.ge),
}
