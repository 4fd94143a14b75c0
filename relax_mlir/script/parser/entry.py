"""Where scripts are parsed from: decorated functions and classes, and text."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any, TypeVar

from relax_mlir.errors import IRError, ScriptError
from relax_mlir.relax.analysis.well_formed import check_script
from relax_mlir.script import annotations
from relax_mlir.script.builder import FunctionFrame
from relax_mlir.script.parser.evaluate import Evaluator, Variables, captured
from relax_mlir.script.parser.function import FunctionParser, decorator_option
from relax_mlir.script.parser.module import ModuleParser
from relax_mlir.script.parser.source import Source

__all__ = ["parse_class", "parse_function", "parse_text"]


# Names that scripts of TVM 0.9 use without a namespace.
_BARE = {"Tensor": annotations.Tensor, "Shape": annotations.Shape}


def parse_function(
    function: Callable[..., Any], frame: FrameType, *, check_well_formed: bool = True
) -> Any:
    """The function of Relax that a Python function is a script of.

    Args:
        function: the Python function.
        frame: the one that it is defined in.
        check_well_formed: whether to check what it computes.

    Raises:
        ScriptError: it is no such script.
    """
    source, node = Source.of_function(function)
    evaluator = Evaluator(source, Variables(_BARE | captured(function, frame)))
    return _parsed_function(evaluator, node, check=check_well_formed)


def _parsed_function(
    evaluator: Evaluator, node: ast.FunctionDef, *, check: bool
) -> Any:
    written = FunctionFrame(
        is_pure=decorator_option(node, "pure", True),
        is_private=decorator_option(node, "private", False),
    )
    _guarded(evaluator.source, node, lambda: _write(written, evaluator, node))
    assert written.function is not None
    if check:
        _check(evaluator.source, node, written.function)
    return written.function


def _write(written: FunctionFrame, evaluator: Evaluator, node: ast.FunctionDef) -> None:
    with written:
        FunctionParser(evaluator, written).parse(node)


def _guarded(source: Source, node: ast.AST, do: Callable[[], Any]) -> Any:
    try:
        return do()
    except ScriptError:
        raise
    except Exception as error:
        raise source.error(node, str(error) or type(error).__name__) from error


def _check(source: Source, node: ast.AST, parsed: Any) -> None:
    try:
        check_script(parsed)
    except IRError as error:
        hint = "If that is meant, say so with `check_well_formed=False`."
        raise source.error(node, str(error), hint) from error


def parse_class(kind: type, frame: FrameType, *, check_well_formed: bool = True) -> Any:
    """The module that a Python class is a script of.

    Args:
        kind: the class.
        frame: the one that it is defined in.
        check_well_formed: whether to check what its functions compute.

    Raises:
        ScriptError: it is no such script.
    """
    source, node = Source.of_class(kind, frame)
    evaluator = Evaluator(source, Variables(_BARE | captured(kind, frame)))
    return _parsed_class(evaluator, node, vars(kind), check=check_well_formed)


def _parsed_class(
    evaluator: Evaluator,
    node: ast.ClassDef,
    members: Mapping[str, Any],
    *,
    check: bool,
) -> Any:
    parser = ModuleParser(evaluator, members, check=check)
    module = _guarded(evaluator.source, node, lambda: parser.parse(node))
    if check:
        _check(evaluator.source, node, module)
    return module


def parse_text(
    text: str,
    extra_vars: Mapping[str, Any] | None = None,
    *,
    check_well_formed: bool = True,
) -> Any:
    """The function or the module that a text is a script of.

    Args:
        text: Python with one class or one decorated function; assignments may stand
            before it.
        extra_vars: what it sees beside the namespaces ``I``, ``R`` and ``T``.
        check_well_formed: whether to check what it computes.

    Raises:
        ScriptError: it is no such script.
    """
    source = Source.of_text(text)
    values = {**_namespaces(), **(extra_vars or {})}
    evaluator = Evaluator(source, Variables(values))
    for statement in source.tree().body:
        if isinstance(statement, ast.Assign):
            _define(evaluator, statement)
        elif isinstance(statement, ast.ClassDef):
            return _parsed_class(evaluator, statement, {}, check=check_well_formed)
        elif isinstance(statement, ast.FunctionDef):
            return _of_either_level(evaluator, statement, check=check_well_formed)
    raise source.error(ast.Constant(None), "no script: expected a class or a function")


def _of_either_level(
    evaluator: Evaluator, node: ast.FunctionDef, *, check: bool
) -> Any:
    from relax_mlir.script.parser.module import level_of
    from relax_mlir.script.parser.program import parse_prim_func

    if level_of(evaluator, node) == "tir":
        return parse_prim_func(node, evaluator, check=check)
    return _parsed_function(evaluator, node, check=check)


def _define(evaluator: Evaluator, node: ast.Assign) -> None:
    value = evaluator.eval(node.value)
    for _, name, part in evaluator.assigned(node.targets[0], value):
        if isinstance(part, TypeVar):
            evaluator.variables.sizes.append(name)
        evaluator.variables.define(name, part)


def _namespaces() -> dict[str, Any]:
    """What a text sees without imports."""
    import importlib

    spaces = {
        name: importlib.import_module(f"relax_mlir.script.{module}")
        for name, module in (("I", "ir"), ("R", "relax"), ("T", "tir"))
    }
    return {
        **spaces,
        "TypeVar": TypeVar,
        "ir": spaces["I"],
        "relax": spaces["R"],
        "tir": spaces["T"],
    }
