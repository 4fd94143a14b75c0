"""Script macros: Python functions whose bodies are expanded at their calls."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from types import FrameType
from typing import TYPE_CHECKING, Any

from relax_mlir.tvm.script.parser.evaluate import (
    Evaluator,
    VarTable,
    captured_variables,
)
from relax_mlir.tvm.script.parser.source import Source

if TYPE_CHECKING:
    from relax_mlir.tvm.script.parser.statement import StatementParser

__all__ = ["PARSER", "Macro"]

# The parser that evaluates the current expression, for the macros that it calls.
PARSER: ContextVar[StatementParser] = ContextVar("PARSER")


class Macro:
    """A macro of Relax functions.

    Args:
        function: the Python function.
        frame: the Python frame that defines it.
        hygienic: whether names in its body are resolved at its definition rather than at
            its calls.
    """

    def __init__(
        self, function: Callable[..., Any], frame: FrameType, *, hygienic: bool
    ) -> None:
        self.hygienic = hygienic
        self.source, self.node = Source.of_function(function)
        self._signature = inspect.signature(function)
        self._captured = captured_variables(function, frame)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Expands the body at the call; returns the macro's value.

        Raises:
            ScriptError: the call is outside of a script, or the body lacks ``return``.
        """
        parser = PARSER.get(None)
        if parser is None:
            raise self.source.error(self.node, "a macro can only be called in a script")
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        caller = parser.evaluator.variables
        variables = VarTable(self._captured) if self.hygienic else caller
        with variables.frame():
            for name, value in bound.arguments.items():
                variables.define(name, value)
            return parser.inlined(Evaluator(self.source, variables), self.node.body)

    def __repr__(self) -> str:
        return ast.unparse(self.node)
