"""What the parsers of functions of Relax and of tensor programs have in common."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from relax_mlir.errors import ScriptError
from relax_mlir.script.parser.evaluate import Evaluator, Variables
from relax_mlir.script.parser.macro import PARSER

__all__ = ["StatementParser"]


class StatementParser:
    """Parses a function of a script; ``_visit_For`` takes an ``ast.For``, and so on.

    Args:
        evaluator: of its expressions.
    """

    what: ClassVar[str]  # it parses

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator

    @property
    def _variables(self) -> Variables:
        return self.evaluator.variables

    def inlined(self, evaluator: Evaluator, body: Sequence[ast.stmt]) -> Any:
        """Parse the body of a macro here; gives what it returns."""
        raise NotImplementedError

    def _error(self, node: ast.AST, message: str, hint: str = "") -> ScriptError:
        return self.evaluator.source.error(node, message, hint)

    def _guarded(self, node: ast.AST, do: Callable[[], Any]) -> Any:
        """Run ``do``; its errors point at ``node``."""
        try:
            return do()
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
        """Parse one statement."""
        kind = type(statement).__name__
        visit = getattr(self, f"_visit_{kind}", None)
        if visit is None:
            raise self._error(statement, f"`{kind}` is no statement of {self.what}")
        self._guarded(statement, lambda: visit(statement))

    def _visit_Pass(self, node: ast.Pass) -> None:  # noqa: N802
        pass

    def _plain_params(self, node: ast.FunctionDef) -> list[ast.arg]:
        """The parameters of a function, which are named one by one."""
        args = node.args
        if args.vararg or args.kwarg or args.kwonlyargs or args.defaults:
            raise self._error(node, f"{self.what} takes plain parameters only")
        return [*args.posonlyargs, *args.args]

    def _target(self, node: ast.Assign) -> ast.expr:
        """What an assignment assigns to."""
        if len(node.targets) != 1:
            raise self._error(node, "`a = b = c` is not allowed: use two statements")
        return node.targets[0]
