"""Modules, parsed from scripts."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

from relax_mlir.errors import near_misses
from relax_mlir.objects.expr import ExternFunc, GlobalVar
from relax_mlir.script import annotations
from relax_mlir.script.builder import FunctionFrame, ModuleFrame
from relax_mlir.script.parser.evaluate import Evaluator
from relax_mlir.script.parser.function import (
    FunctionParser,
    decorator_option,
    signature,
)

__all__ = ["ModuleParser", "level_of"]


def level_of(evaluator: Evaluator, node: ast.FunctionDef) -> str:
    """What a function of a module is: ``relax``, ``tir`` or ``pyfunc``.

    Raises:
        ScriptError: its decorator says nothing of the kind.
    """
    if node.decorator_list:
        decorator = evaluator.eval(node.decorator_list[-1])
        token = getattr(decorator, "dispatch_token", "")
        if token in ("relax", "tir", "pyfunc"):
            return token
    raise evaluator.source.error(
        node,
        f"function `{node.name}` has no decorator that says what it is",
        "expected `@R.function` or `@T.prim_func`",
    )


class ModuleView:
    """The module that is being parsed, as its own functions see it."""

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
    """Parses one class.

    Args:
        evaluator: of its expressions.
        members: of the class, if there is one beside its text.
        check: whether what nothing defines in a tensor program is an error.
    """

    def __init__(
        self, evaluator: Evaluator, members: Mapping[str, Any], *, check: bool = True
    ) -> None:
        self.evaluator = evaluator
        self._check = check
        self._members = members

    def parse(self, node: ast.ClassDef) -> Any:
        """The module.

        Raises:
            ScriptError: the class is none.
        """
        frame = ModuleFrame()
        annotations.find_vdevice.append(frame.vdevice)
        try:
            with self.evaluator.variables.frame(), frame:
                self._parse(node, frame)
        finally:
            annotations.find_vdevice.pop()
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
        levels = {f.name: level_of(self.evaluator, f) for f in functions}
        for function in functions:
            self._declare(function, levels[function.name], frame)
        for level in ("tir", "relax", "pyfunc"):
            for function in functions:
                if levels[function.name] == level:
                    self._define(function, level, frame)

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
                node, f"`{kind}` is no statement of a module"
            )

    def _declare(self, node: ast.FunctionDef, level: str, frame: ModuleFrame) -> None:
        info = None
        if level == "relax":
            info = signature(self.evaluator, node)
        elif level == "tir" and node.returns is not None:
            returned = self.evaluator.eval_annotation(node.returns)
            if returned is not None:
                name = str(getattr(returned, "dtype", returned))
                self.evaluator.variables.returns[node.name] = name
        variable = self._guarded(node, lambda: frame.declare(node.name, info))
        self.evaluator.variables.define(node.name, variable)

    def _define(self, node: ast.FunctionDef, level: str, frame: ModuleFrame) -> None:
        if level == "tir":
            from relax_mlir.script.parser.program import parse_prim_func

            frame.define(
                node.name, parse_prim_func(node, self.evaluator, check=self._check)
            )
        elif level == "relax":
            self._guarded(node, lambda: self._relax(node))
        else:
            frame.pyfuncs[node.name] = self._members.get(node.name)

    def _relax(self, node: ast.FunctionDef) -> None:
        written = FunctionFrame(
            is_pure=decorator_option(node, "pure", True),
            is_private=decorator_option(node, "private", False),
        )
        with written:
            FunctionParser(self.evaluator, written).parse(node)

    def _guarded(self, node: ast.AST, do: Callable[[], Any]) -> Any:
        source = self.evaluator.source
        try:
            return do()
        except Exception as error:
            if hasattr(error, "add_note") and type(error).__name__ == "ScriptError":
                raise
            raise source.error(node, str(error) or type(error).__name__) from error
