"""Entry points of the TVMScript parser: decorated functions and classes, and text."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any, TypeVar

from relax_mlir.errors import IRError, ScriptError
from relax_mlir.tvm.relax.analysis.well_formed import check_parsed_script
from relax_mlir.tvm.script import annotations
from relax_mlir.tvm.script.builder import FunctionFrame
from relax_mlir.tvm.script.parser.evaluate import (
    Evaluator,
    VarTable,
    captured_variables,
)
from relax_mlir.tvm.script.parser.function import FunctionParser, decorator_option
from relax_mlir.tvm.script.parser.module import ModuleParser
from relax_mlir.tvm.script.parser.source import Source

__all__ = ["parse_class", "parse_function", "parse_text"]


# Names that TVM 0.9 scripts use without a namespace.
_UNQUALIFIED = {"Tensor": annotations.Tensor, "Shape": annotations.Shape}


def parse_function(
    function: Callable[..., Any], frame: FrameType, *, check_well_formed: bool = True
) -> Any:
    """Parses a Python function as a Relax function.

    Args:
        function: the Python function.
        frame: the Python frame that defines it.
        check_well_formed: whether to verify the result.

    Raises:
        ScriptError: the function is not a valid script.
    """
    source, node = Source.of_function(function)
    evaluator = Evaluator(
        source, VarTable(_UNQUALIFIED | captured_variables(function, frame))
    )
    return _parse_function_def(evaluator, node, check=check_well_formed)


def _parse_function_def(
    evaluator: Evaluator, node: ast.FunctionDef, *, check: bool
) -> Any:
    builder = FunctionFrame(
        is_pure=decorator_option(node, "pure", True),
        is_private=decorator_option(node, "private", False),
    )
    _with_location(evaluator.source, node, lambda: _parse(builder, evaluator, node))
    assert builder.function is not None
    if check:
        _verify(evaluator.source, node, builder.function)
    return builder.function


def _parse(builder: FunctionFrame, evaluator: Evaluator, node: ast.FunctionDef) -> None:
    with builder:
        FunctionParser(evaluator, builder).parse(node)


def _with_location(source: Source, node: ast.AST, action: Callable[[], Any]) -> Any:
    """Runs ``action``; an error becomes a ``ScriptError`` located at ``node``."""
    try:
        return action()
    except ScriptError:
        raise
    except Exception as error:
        raise source.error(node, str(error) or type(error).__name__) from error


def _verify(source: Source, node: ast.AST, parsed: Any) -> None:
    try:
        check_parsed_script(parsed)
    except IRError as error:
        hint = "To skip this check, pass `check_well_formed=False`."
        raise source.error(node, str(error), hint) from error


def parse_class(kind: type, frame: FrameType, *, check_well_formed: bool = True) -> Any:
    """Parses a Python class as a module.

    Args:
        kind: the class.
        frame: the Python frame that defines it.
        check_well_formed: whether to verify the result.

    Raises:
        ScriptError: the class is not a valid script.
    """
    source, node = Source.of_class(kind, frame)
    evaluator = Evaluator(
        source, VarTable(_UNQUALIFIED | captured_variables(kind, frame))
    )
    return _parse_class_def(evaluator, node, vars(kind), check=check_well_formed)


def _parse_class_def(
    evaluator: Evaluator,
    node: ast.ClassDef,
    members: Mapping[str, Any],
    *,
    check: bool,
) -> Any:
    parser = ModuleParser(evaluator, members, check=check)
    module = _with_location(evaluator.source, node, lambda: parser.parse(node))
    if check:
        _verify(evaluator.source, node, module)
    return module


def parse_text(
    text: str,
    extra_vars: Mapping[str, Any] | None = None,
    *,
    check_well_formed: bool = True,
) -> Any:
    """Parses the text of a script.

    Args:
        text: Python source with one class or one decorated function, which assignments
            may precede.
        extra_vars: variables of the script beside the namespaces ``I``, ``R`` and ``T``.
        check_well_formed: whether to verify the result.

    Returns:
        The module, Relax function or PrimFunc.

    Raises:
        ScriptError: the text is not a valid script.
    """
    source = Source.of_text(text)
    values = {**_namespaces(), **(extra_vars or {})}
    evaluator = Evaluator(source, VarTable(values))
    for statement in source.tree().body:
        if isinstance(statement, ast.Assign):
            _define(evaluator, statement)
        elif isinstance(statement, ast.ClassDef):
            return _parse_class_def(evaluator, statement, {}, check=check_well_formed)
        elif isinstance(statement, ast.FunctionDef):
            return _parse_any_function(evaluator, statement, check=check_well_formed)
    raise source.error(
        ast.Constant(None), "empty script: expected a class or a function"
    )


def _parse_any_function(
    evaluator: Evaluator, node: ast.FunctionDef, *, check: bool
) -> Any:
    from relax_mlir.tvm.script.parser.module import function_kind
    from relax_mlir.tvm.script.parser.program import parse_prim_func_def

    if function_kind(evaluator, node) == "tir":
        return parse_prim_func_def(node, evaluator, check=check)
    return _parse_function_def(evaluator, node, check=check)


def _define(evaluator: Evaluator, node: ast.Assign) -> None:
    value = evaluator.eval(node.value)
    for _, name, part in evaluator.assigned(node.targets[0], value):
        if isinstance(part, TypeVar):
            evaluator.variables.sizes.append(name)
        evaluator.variables.define(name, part)


def _namespaces() -> dict[str, Any]:
    """Returns the names that a script in text form uses without imports."""
    import importlib

    spaces = {
        name: importlib.import_module(f"relax_mlir.tvm.script.{module}")
        for name, module in (("I", "ir"), ("R", "relax"), ("T", "tir"))
    }
    return {
        **spaces,
        "TypeVar": TypeVar,
        "ir": spaces["I"],
        "relax": spaces["R"],
        "tir": spaces["T"],
    }
