"""Parser of modules."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

from relax_mlir.errors import near_misses
from relax_mlir.objects.expr import ExternFunc, GlobalVar
from relax_mlir.tvm.script import annotations
from relax_mlir.tvm.script.builder import FunctionFrame, ModuleFrame
from relax_mlir.tvm.script.parser.evaluate import Evaluator
from relax_mlir.tvm.script.parser.function import (
    FunctionParser,
    decorator_option,
    function_signature,
)

__all__ = ["ModuleParser", "function_kind"]


def function_kind(evaluator: Evaluator, node: ast.FunctionDef) -> str:
    """Returns the kind of a function: ``relax``, ``tir`` or ``pyfunc``.

    Raises:
        ScriptError: it has no decorator of a known kind.
    """
    if node.decorator_list:
        decorator = evaluator.eval(node.decorator_list[-1])
        token = getattr(decorator, "dispatch_token", "")
        if token in ("relax", "tir", "pyfunc"):
            return token
    raise evaluator.source.error(
        node,
        f"function `{node.name}` has no script decorator",
        "expected `@R.function` or `@T.prim_func`",
    )


class ModuleView:
    """The module under construction, as its functions refer to it by its class name."""

    def __init__(self, variables: Mapping[str, GlobalVar]) -> None:
        self.__variables = variables

    def __getattr__(self, name: str) -> GlobalVar:
        if name not in self.__variables:
            raise AttributeError(
                f"the module has no function `{name}`."
                f"{near_misses(name, self.__variables)}"
            )
        return self.__variables[name]


class ModuleParser:
    """Parses a class as a module.

    Args:
        evaluator: evaluates its expressions.
        members: members of the Python class; empty if there is only source text.
        check: whether undefined variables in PrimFuncs are errors.
    """

    def __init__(
        self, evaluator: Evaluator, members: Mapping[str, Any], *, check: bool = True
    ) -> None:
        self.evaluator = evaluator
        self._check = check
        self._members = members

    def parse(self, node: ast.ClassDef) -> Any:
        """Parses the module.

        Raises:
            ScriptError: the class is not a valid module.
        """
        frame = ModuleFrame()
        annotations.vdevice_lookups.append(frame.vdevice)
        try:
            with self.evaluator.variables.frame(), frame:
                self._parse(node, frame)
        finally:
            annotations.vdevice_lookups.pop()
        module: Any = frame.module
        module.__name__ = node.name
        return module

    def _parse(self, node: ast.ClassDef, frame: ModuleFrame) -> None:
        variables = self.evaluator.variables
        variables.define(node.name, ModuleView(frame.variables))
        functions: list[ast.FunctionDef] = []
        for statement in node.body:
            if isinstance(statement, ast.FunctionDef):
                functions.append(statement)
            else:
                self._statement(statement, frame)
        kinds = {f.name: function_kind(self.evaluator, f) for f in functions}
        for function in functions:
            self._declare(function, kinds[function.name], frame)
        for kind in ("tir", "relax", "pyfunc"):
            for function in functions:
                if kinds[function.name] == kind:
                    self._define(function, kind, frame)

    def _statement(self, node: ast.stmt, frame: ModuleFrame) -> None:
        if isinstance(node, ast.Expr):
            self.evaluator.eval(node.value)
        elif isinstance(node, ast.Assign):
            value = self.evaluator.eval(node.value)
            for _, name, part in self.evaluator.assigned(node.targets[0], value):
                if isinstance(part, ExternFunc):
                    frame.declare(name, part.struct_info)
                    frame.define(name, part)
                self.evaluator.variables.define(name, part)
        elif not isinstance(node, ast.Pass):
            kind = type(node).__name__
            raise self.evaluator.source.error(
                node, f"`{kind}` is not supported in a module"
            )

    def _declare(self, node: ast.FunctionDef, kind: str, frame: ModuleFrame) -> None:
        info = None
        if kind == "relax":
            info = function_signature(self.evaluator, node)
        elif kind == "tir" and node.returns is not None:
            returned = self.evaluator.eval_annotation(node.returns)
            if returned is not None:
                name = str(getattr(returned, "dtype", returned))
                self.evaluator.variables.returns[node.name] = name
        variable = self._guarded(node, lambda: frame.declare(node.name, info))
        self.evaluator.variables.define(node.name, variable)

    def _define(self, node: ast.FunctionDef, kind: str, frame: ModuleFrame) -> None:
        if kind == "tir":
            from relax_mlir.tvm.script.parser.program import parse_prim_func_def

            frame.define(
                node.name, parse_prim_func_def(node, self.evaluator, check=self._check)
            )
        elif kind == "relax":
            self._guarded(node, lambda: self._relax_function(node))
        else:
            frame.pyfuncs[node.name] = self._members.get(node.name)

    def _relax_function(self, node: ast.FunctionDef) -> None:
        builder = FunctionFrame(
            is_pure=decorator_option(node, "pure", True),
            is_private=decorator_option(node, "private", False),
        )
        with builder:
            FunctionParser(self.evaluator, builder).parse(node)

    def _guarded(self, node: ast.AST, action: Callable[[], Any]) -> Any:
        """Runs ``action``; an error becomes a ``ScriptError`` located at ``node``."""
        source = self.evaluator.source
        try:
            return action()
        except Exception as error:
            if hasattr(error, "add_note") and type(error).__name__ == "ScriptError":
                raise
            raise source.error(node, str(error) or type(error).__name__) from error
