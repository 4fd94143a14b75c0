"""Macros: Python functions whose bodies are written where they are called."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from types import FrameType
from typing import TYPE_CHECKING, Any

from relax_mlir.script.parser.evaluate import Evaluator, Variables, captured
from relax_mlir.script.parser.source import Source

if TYPE_CHECKING:
    from relax_mlir.script.parser.statement import StatementParser

__all__ = ["PARSER", "Macro"]

# Who evaluates the expression that calls a macro.
PARSER: ContextVar[StatementParser] = ContextVar("PARSER")


class Macro:
    """A macro of Relax.

    Args:
        function: the Python function.
        frame: the one that it is defined in.
        hygienic: whether names in its body mean what they mean where it is defined; else
            what they mean where it is called.
    """

    def __init__(
        self, function: Callable[..., Any], frame: FrameType, *, hygienic: bool
    ) -> None:
        self.hygienic = hygienic
        self.source, self.node = Source.of_function(function)
        self._signature = inspect.signature(function)
        self._captured = captured(function, frame)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Write the body where the macro is called; gives what it returns.

        Raises:
            ScriptError: it is called outside of a script, or does not end in ``return``.
        """
        parser = PARSER.get(None)
        if parser is None:
            raise self.source.error(self.node, "a macro is called in a script only")
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        caller = parser.evaluator.variables
        variables = Variables(self._captured) if self.hygienic else caller
        with variables.frame():
            for name, value in bound.arguments.items():
                variables.define(name, value)
            return parser.inlined(Evaluator(self.source, variables), self.node.body)

    def __repr__(self) -> str:
        return ast.unparse(self.node)
