"""The one handle that users hold: a module, its context, its constants."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from mlir import ir
from mlir.dialects import func
from mlir.dialects.builtin import ModuleOp

from relax_mlir.context import new_context
from relax_mlir.errors import IRError

__all__ = ["IRModule"]

# The parser of MLIR recurses; deeper text would end the process.
MAX_NESTING = 500
# The stubs do not know the exception.
MLIRError: type[Exception] = vars(ir)["MLIRError"]
_BRACKETS = re.compile(r"->|[{}()\[\]<>]")


class IRModule:
    """An MLIR module at any level, with the arrays that its constants name.

    Attributes:
        mlir: the module itself, as an operation. It must outlive the handles to what is
            inside it, which in LLVM 22 do not keep it alive; those that :meth:`functions`
            gives do.
        constants: array per key; shared between clones, never written to in place.
    """

    def __init__(
        self, mlir: ModuleOp, constants: Mapping[str, np.ndarray] | None = None
    ) -> None:
        self.mlir = mlir
        self.constants: dict[str, np.ndarray] = dict(constants or {})

    @property
    def context(self) -> ir.Context:
        """The MLIR context that everything in the module belongs to."""
        return self.mlir.context

    @staticmethod
    def empty() -> "IRModule":
        """A module without functions, in a context of its own."""
        with new_context(), ir.Location.unknown():
            return IRModule(ModuleOp())

    @staticmethod
    def parse(
        text: str, constants: Mapping[str, np.ndarray] | None = None
    ) -> "IRModule":
        """Read a module from its text.

        Raises:
            IRError: the text is not valid MLIR, or is nested too deeply to parse.
        """
        _check_nesting(text)
        with new_context():
            try:
                return IRModule(_copy(ir.Module.parse(text).operation), constants)
            except MLIRError as error:
                raise IRError(
                    f"malformed module: {_first_diagnostic(error)}"
                ) from error

    def clone(self) -> "IRModule":
        """A copy in the same context; the arrays are shared."""
        return IRModule(_copy(self.mlir.operation), self.constants)

    def functions(self) -> list[func.FuncOp]:
        """All functions, in order."""
        found = [op for op in self.mlir.body.operations if isinstance(op, func.FuncOp)]
        for function in found:
            function.__dict__["module"] = self.mlir
        return found

    def function(self, name: str) -> func.FuncOp:
        """The function called ``name``.

        Raises:
            IRError: there is none.
        """
        for function in self.functions():
            if function.name.value == name:
                return function
        raise IRError(f"module has no function `{name}`")

    def verify(self) -> None:
        """Check what MLIR checks.

        Raises:
            IRError: the module breaks a rule of a dialect.
        """
        try:
            self.mlir.operation.verify()
        except MLIRError as error:
            raise IRError(f"invalid module: {_first_diagnostic(error)}") from error

    def __str__(self) -> str:
        return str(self.mlir)


def _copy(module: ir.Operation) -> ModuleOp:
    copy: Any = module.clone()  # Any: the stubs do not know that it is a ModuleOp
    return copy


def _check_nesting(text: str) -> None:
    depth = 0
    for bracket in _BRACKETS.finditer(text):
        kind = bracket.group()
        if kind in "{([<":
            depth += 1
        elif kind != "->":
            depth -= 1
        if depth > MAX_NESTING:
            raise IRError(f"malformed module: nested deeper than {MAX_NESTING} levels")


def _first_diagnostic(error: Any) -> str:
    parts = [f"{d.location}: {d.message}" for d in error.error_diagnostics]
    return "; ".join(parts) or str(error)
