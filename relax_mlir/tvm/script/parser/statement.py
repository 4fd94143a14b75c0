"""Base class of the parsers of Relax functions and PrimFuncs."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from relax_mlir.errors import ScriptError
from relax_mlir.tvm.script.parser.evaluate import Evaluator, VarTable
from relax_mlir.tvm.script.parser.macro import PARSER

__all__ = ["StatementParser"]


class StatementParser:
    """Visitor of a function's statements: ``_visit_For`` parses an ``ast.For``.

    Args:
        evaluator: evaluates the expressions.
    """

    construct: ClassVar[str]  # what the class parses, for error messages

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator

    @property
    def _variables(self) -> VarTable:
        return self.evaluator.variables

    def inlined(self, evaluator: Evaluator, body: Sequence[ast.stmt]) -> Any:
        """Expands the body of a macro; returns the macro's value."""
        raise NotImplementedError

    def _error(self, node: ast.AST, message: str, hint: str = "") -> ScriptError:
        return self.evaluator.source.error(node, message, hint)

    def _guarded(self, node: ast.AST, action: Callable[[], Any]) -> Any:
        """Runs ``action``; an error becomes a ``ScriptError`` located at ``node``."""
        try:
            return action()
        except ScriptError:
            raise
        except Exception as error:
            raise self._error(node, str(error) or type(error).__name__) from error

    def _eval(self, node: ast.expr) -> Any:
        token = PARSER.set(self)
        try:
            return self.evaluator.eval(node)
        finally:
            PARSER.reset(token)

    def _visit(self, statement: ast.stmt) -> None:
        """Parses one statement."""
        kind = type(statement).__name__
        visit = getattr(self, f"_visit_{kind}", None)
        if visit is None:
            raise self._error(
                statement, f"`{kind}` is not supported in {self.construct}"
            )
        self._guarded(statement, lambda: visit(statement))

    def _visit_Pass(self, node: ast.Pass) -> None:  # noqa: N802
        pass

    def _plain_params(self, node: ast.FunctionDef) -> list[ast.arg]:
        """Returns the parameters of a function, which must be positional."""
        args = node.args
        if args.vararg or args.kwarg or args.kwonlyargs or args.defaults:
            raise self._error(
                node, f"{self.construct} takes positional parameters only"
            )
        return [*args.posonlyargs, *args.args]

    def _target(self, node: ast.Assign) -> ast.expr:
        """Returns the target of an assignment, which must be the only one."""
        if len(node.targets) != 1:
            raise self._error(node, "`a = b = c` is not allowed: use two statements")
        return node.targets[0]
