"""Evaluator of Python expression trees, for scripts and index maps.

Text from files never reaches Python's ``eval``: subclasses decide which names, attributes and
calls are allowed.
"""

from __future__ import annotations

import ast
import inspect
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from relax_mlir.objects import prim
from relax_mlir.objects.prim import PrimExpr

__all__ = ["ExpressionEvaluator"]

# Any: the evaluated values have all types.

_Scope = tuple[
    dict[str, Any], ...
]  # lambda and comprehension variables, innermost first
_Lazy = Callable[[], Any]


class ExpressionEvaluator:
    """Evaluates expressions; subclasses define names, attributes and calls.

    ``and``, ``or``, ``not``, chained comparisons and ``a if c else b`` on scalar expressions
    result in scalar expressions; everything else has Python's semantics.
    """

    def __init__(self) -> None:
        self._failed: tuple[BaseException, ast.expr] | None = None

    def lookup(self, name: str) -> Any:
        """The value of a name that is not bound by a lambda or a comprehension.

        Raises:
            NameError: it is undefined.
        """
        raise NameError(f"name `{name}` is not defined", name=name)

    def attribute(self, value: Any, name: str) -> Any:
        """The value of an attribute."""
        return getattr(value, name)

    def callee(self, function: Any) -> Any:
        """The function to call for a called value."""
        return function

    def assign(self, name: str, value: Any) -> None:
        """Performs ``name := value`` outside of lambdas."""
        raise NameError(f"name `{name}` cannot be assigned", name=name)

    def binary(self, apply: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
        """Applies a binary operator."""
        return apply(left, right)

    def value(self, node: ast.expr, scope: _Scope = ()) -> Any:
        """Evaluates an expression.

        Raises:
            NameError: a name is undefined.
            SyntaxError: the kind of expression is not supported.
            Exception: an operator or a call raises it; see :meth:`place`.
        """
        try:
            evaluate = _KINDS.get(type(node))
            if evaluate is None:
                raise SyntaxError(
                    f"`{ast.unparse(node)}` is not supported in an expression"
                )
            return evaluate(self, node, scope)
        except Exception as error:
            if self._failed is None or self._failed[0] is not error:
                self._failed = (error, node)
            raise

    def place(self, error: BaseException) -> ast.expr | None:
        """The innermost expression whose evaluation raised an error, or None."""
        is_ours = self._failed is not None and self._failed[0] is error
        return self._failed[1] if self._failed is not None and is_ours else None

    def _name(self, node: ast.Name, scope: _Scope) -> Any:
        for names in scope:
            if node.id in names:
                return names[node.id]
        return self.lookup(node.id)

    def _attribute(self, node: ast.Attribute, scope: _Scope) -> Any:
        return self.attribute(self.value(node.value, scope), node.attr)

    def _elements(self, nodes: Sequence[ast.expr], scope: _Scope) -> list[Any]:
        """The values of a list, with ``*x`` unpacked."""
        values: list[Any] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                values += self.value(node.value, scope)
            else:
                values.append(self.value(node, scope))
        return values

    def _dict(self, node: ast.Dict, scope: _Scope) -> dict[Any, Any]:
        values: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                values |= self.value(value, scope)
            else:
                values[self.value(key, scope)] = self.value(value, scope)
        return values

    def _subscript(self, node: ast.Subscript, scope: _Scope) -> Any:
        return self.value(node.value, scope)[self.value(node.slice, scope)]

    def _slice(self, node: ast.Slice, scope: _Scope) -> slice:
        parts = (node.lower, node.upper, node.step)
        return slice(*(None if p is None else self.value(p, scope) for p in parts))

    def _call(self, node: ast.Call, scope: _Scope) -> Any:
        function = self.callee(self.value(node.func, scope))
        args = self._elements(node.args, scope)
        keywords: dict[str, Any] = {}
        for keyword in node.keywords:
            value = self.value(keyword.value, scope)
            added = value if keyword.arg is None else {keyword.arg: value}
            if not keywords.keys().isdisjoint(added):
                raise TypeError(
                    f"`{ast.unparse(node.func)}`: an argument is named twice"
                )
            keywords |= added
        return function(*args, **keywords)

    def _binary(self, node: ast.BinOp, scope: _Scope) -> Any:
        left, right = self.value(node.left, scope), self.value(node.right, scope)
        return self.binary(_BINARY[type(node.op)], left, right)

    def _unary(self, node: ast.UnaryOp, scope: _Scope) -> Any:
        return _UNARY[type(node.op)](self.value(node.operand, scope))

    def _bool(self, node: ast.BoolOp, scope: _Scope) -> Any:
        lazy = [partial(self.value, value, scope) for value in node.values]
        return _and(lazy) if isinstance(node.op, ast.And) else _or(lazy)

    def _choice(self, node: ast.IfExp, scope: _Scope) -> Any:
        chosen = self.value(node.test, scope)
        if not isinstance(chosen, PrimExpr) or isinstance(chosen, prim.IntImm):
            return self.value(node.body if chosen else node.orelse, scope)
        then, otherwise = (
            prim.convert(self.value(part, scope)) for part in (node.body, node.orelse)
        )
        return prim.Call(then.dtype, "if_then_else", [chosen, then, otherwise])

    def _compare(self, node: ast.Compare, scope: _Scope) -> Any:
        sides = [node.left, *node.comparators]
        operands = [self.value(node.left, scope)]

        def compare(number: int) -> Any:
            operands.append(self.value(sides[number + 1], scope))
            is_number = isinstance(sides[number], (ast.Constant, ast.UnaryOp))
            kind = type(node.ops[number])
            return _compared(kind, is_number, operands[number], operands[number + 1])

        return _and([partial(compare, number) for number in range(len(node.ops))])

    def _lambda(self, node: ast.Lambda, scope: _Scope) -> Callable[..., Any]:
        signature = self._signature(node.args, scope)

        def call(*args: Any, **keywords: Any) -> Any:
            bound = signature.bind(*args, **keywords)
            bound.apply_defaults()
            return self.value(node.body, (dict(bound.arguments), *scope))

        call.__name__ = call.__qualname__ = "<lambda>"
        call.__signature__ = signature
        return call

    def _signature(self, args: ast.arguments, scope: _Scope) -> inspect.Signature:
        kinds = inspect.Parameter
        plain = [*args.posonlyargs, *args.args]
        missing: list[ast.expr | None] = [None] * (len(plain) - len(args.defaults))
        listed: list[tuple[ast.arg, Any, ast.expr | None]] = []
        for number, (arg, default) in enumerate(
            zip(plain, [*missing, *args.defaults], strict=True)
        ):
            is_only = number < len(args.posonlyargs)
            kind = kinds.POSITIONAL_ONLY if is_only else kinds.POSITIONAL_OR_KEYWORD
            listed.append((arg, kind, default))
        if args.vararg:
            listed.append((args.vararg, kinds.VAR_POSITIONAL, None))
        for arg, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
            listed.append((arg, kinds.KEYWORD_ONLY, default))
        if args.kwarg:
            listed.append((args.kwarg, kinds.VAR_KEYWORD, None))
        return inspect.Signature(
            [
                kinds(
                    arg.arg,
                    kind,
                    default=kinds.empty
                    if default is None
                    else self.value(default, scope),
                )
                for arg, kind, default in listed
            ]
        )

    def _list(self, node: ast.ListComp, scope: _Scope) -> list[Any]:
        return [self.value(node.elt, s) for s in self._loops(node.generators, scope)]

    def _set(self, node: ast.SetComp, scope: _Scope) -> set[Any]:
        return {self.value(node.elt, s) for s in self._loops(node.generators, scope)}

    def _map(self, node: ast.DictComp, scope: _Scope) -> dict[Any, Any]:
        return {
            self.value(node.key, s): self.value(node.value, s)
            for s in self._loops(node.generators, scope)
        }

    def _generator(self, node: ast.GeneratorExp, scope: _Scope) -> Iterator[Any]:
        first = iter(self.value(node.generators[0].iter, scope))
        scopes = self._loops(node.generators, scope, first)
        return (self.value(node.elt, inner) for inner in scopes)

    def _loops(
        self,
        generators: Sequence[ast.comprehension],
        scope: _Scope,
        values: Iterator[Any] | None = None,
    ) -> Iterator[_Scope]:
        """The scopes of the iterations of a comprehension."""
        loop, *rest = generators
        if loop.is_async:
            raise SyntaxError("`async for` is not supported in an expression")
        for value in self.value(loop.iter, scope) if values is None else values:
            names: dict[str, Any] = {}
            self._bind(loop.target, value, names)
            inner = (names, *scope)
            if all(self.value(condition, inner) for condition in loop.ifs):
                if rest:
                    yield from self._loops(rest, inner)
                else:
                    yield inner

    def _bind(self, target: ast.expr, value: Any, names: dict[str, Any]) -> None:
        if isinstance(target, ast.Name):
            names[target.id] = value
            return
        if not isinstance(target, (ast.Tuple, ast.List)):
            raise SyntaxError(f"cannot assign to `{ast.unparse(target)}` here")
        values, stars = list(value), [isinstance(t, ast.Starred) for t in target.elts]
        if True in stars:
            start = stars.index(True)
            end = len(values) - (len(stars) - start - 1)
            values = [*values[:start], values[start:end], *values[end:]]
        for part, element in zip(target.elts, values, strict=True):
            inner = part.value if isinstance(part, ast.Starred) else part
            self._bind(inner, element, names)

    def _named(self, node: ast.NamedExpr, scope: _Scope) -> Any:
        value = self.value(node.value, scope)
        if scope:
            scope[-1][node.target.id] = value
        else:
            self.assign(node.target.id, value)
        return value

    def _text(self, node: ast.JoinedStr, scope: _Scope) -> str:
        return "".join(str(self.value(part, scope)) for part in node.values)

    def _formatted(self, node: ast.FormattedValue, scope: _Scope) -> str:
        value = self.value(node.value, scope)
        convert = {ord("s"): str, ord("r"): repr, ord("a"): ascii}.get(node.conversion)
        spec = "" if node.format_spec is None else self.value(node.format_spec, scope)
        return format(value if convert is None else convert(value), spec)


_KINDS: Mapping[type[ast.expr], Callable[[ExpressionEvaluator, Any, _Scope], Any]] = {
    ast.Constant: lambda evaluator, node, scope: node.value,
    ast.Name: ExpressionEvaluator._name,
    ast.Attribute: ExpressionEvaluator._attribute,
    ast.Tuple: lambda evaluator, node, scope: tuple(
        evaluator._elements(node.elts, scope)
    ),
    ast.List: lambda evaluator, node, scope: evaluator._elements(node.elts, scope),
    ast.Set: lambda evaluator, node, scope: set(evaluator._elements(node.elts, scope)),
    ast.Dict: ExpressionEvaluator._dict,
    ast.Subscript: ExpressionEvaluator._subscript,
    ast.Slice: ExpressionEvaluator._slice,
    ast.Call: ExpressionEvaluator._call,
    ast.BinOp: ExpressionEvaluator._binary,
    ast.UnaryOp: ExpressionEvaluator._unary,
    ast.BoolOp: ExpressionEvaluator._bool,
    ast.IfExp: ExpressionEvaluator._choice,
    ast.Compare: ExpressionEvaluator._compare,
    ast.Lambda: ExpressionEvaluator._lambda,
    ast.ListComp: ExpressionEvaluator._list,
    ast.SetComp: ExpressionEvaluator._set,
    ast.DictComp: ExpressionEvaluator._map,
    ast.GeneratorExp: ExpressionEvaluator._generator,
    ast.NamedExpr: ExpressionEvaluator._named,
    ast.JoinedStr: ExpressionEvaluator._text,
    ast.FormattedValue: ExpressionEvaluator._formatted,
}


def _and(values: Sequence[_Lazy]) -> Any:
    result = values[0]()
    for value in values[1:]:
        is_scalar = isinstance(result, PrimExpr)
        result = result & value() if is_scalar else result and value()
    return result


def _or(values: Sequence[_Lazy]) -> Any:
    result = values[0]()
    for value in values[1:]:
        is_scalar = isinstance(result, PrimExpr)
        result = result | value() if is_scalar else result or value()
    return result


def _not(value: Any) -> Any:
    if isinstance(value, PrimExpr) and not isinstance(value, prim.IntImm):
        return prim.Not(value)
    return not value


def _compared(kind: type[ast.cmpop], is_number: bool, left: Any, right: Any) -> Any:
    """A comparison; a constant on the left stays there (Python would reflect it)."""
    ordered = _ORDERED.get(kind)
    is_swapped = is_number and isinstance(left, (int, float))
    if ordered and is_swapped and isinstance(right, (PrimExpr, prim.IterVar)):
        return prim.binary(ordered, left, right)
    return _COMPARISONS[kind](left, right)


_ORDERED: Mapping[type[ast.cmpop], type[prim.BinaryExpr]] = {
    ast.Lt: prim.LT,
    ast.LtE: prim.LE,
    ast.Gt: prim.GT,
    ast.GtE: prim.GE,
}
_COMPARISONS: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
}
_BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.MatMult: operator.matmul,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}
_UNARY: Mapping[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.Not: _not,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
}
