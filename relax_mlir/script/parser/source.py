"""The text of a script: where it stands, its syntax tree, and errors that point into it."""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

from relax_mlir.errors import ScriptError, shown

__all__ = ["Source", "is_in_script_class"]

_NO_SOURCE = (
    "its source is not in a file: put it into one, or give its text to "
    "`script.from_source`"
)
_Definition = ast.ClassDef | ast.FunctionDef


@lru_cache(maxsize=32)
def _parsed(text: str, name: str) -> ast.Module:
    return ast.parse(text, filename=name)


@dataclass(frozen=True)
class Source:
    """One file, or one text that stands in none.

    Positions of nodes are those in the file.

    Attributes:
        name: the file.
        text: all of it.
    """

    name: str
    text: str

    @staticmethod
    def of_text(text: str, name: str = "<str>") -> Source:
        """The source that a text is."""
        return Source(name, text)

    @staticmethod
    def of_file(name: str) -> Source:
        """The source that a file is.

        Raises:
            ScriptError: its text is not known.
        """
        text = "".join(linecache.getlines(name))
        if not text:
            raise ScriptError(f"{name}: no source: {_NO_SOURCE}")
        return Source(name, text)

    @staticmethod
    def of_function(function: Callable[..., Any]) -> tuple[Source, ast.FunctionDef]:
        """A function's source, and its definition there.

        Raises:
            ScriptError: there is no source.
        """
        code: CodeType | None = getattr(inspect.unwrap(function), "__code__", None)
        if code is None:
            raise ScriptError(f"{shown(function)}: no source: {_NO_SOURCE}")
        source = Source.of_file(code.co_filename)
        for node in source._definitions(ast.FunctionDef):
            if node.name == code.co_name and _first_line(node) == code.co_firstlineno:
                return source, node
        raise ScriptError(f"`{code.co_name}`: no source: {_NO_SOURCE}")

    @staticmethod
    def of_class(kind: Any, frame: FrameType) -> tuple[Source, ast.ClassDef]:
        """A class's source, and its definition there; ``kind`` is what was decorated.

        Args:
            frame: the one that the class is defined in, and that runs its decorator. It
                tells which of several classes with the same name is meant.

        Raises:
            ScriptError: there is no source.
        """
        if not isinstance(kind, type):
            raise ScriptError(f"{shown(kind)}: expected a class")
        source = Source.of_file(frame.f_code.co_filename)
        lines = [frame.f_lineno]
        for member in vars(kind).values():
            code = getattr(inspect.unwrap(member), "__code__", None)
            if code is not None and code.co_filename == source.name:
                lines = [code.co_firstlineno]
                break
        found = [
            node
            for node in source._definitions(ast.ClassDef)
            if node.name == kind.__name__
            and any(_first_line(node) <= n <= (node.end_lineno or 0) for n in lines)
        ]
        if not found:
            raise ScriptError(f"`{kind.__name__}`: no source: {_NO_SOURCE}")
        return source, max(found, key=_first_line)

    def tree(self) -> ast.Module:
        """The syntax tree.

        Raises:
            ScriptError: the text is no Python.
        """
        try:
            return _parsed(self.text, self.name)
        except SyntaxError as error:
            node = ast.Constant(None)
            node.lineno = error.lineno or 1
            node.col_offset = max((error.offset or 1) - 1, 0)
            raise self.error(node, f"no Python: {error.msg}") from error

    def _definitions(self, kind: type[Any]) -> Iterator[Any]:
        return (node for node in ast.walk(self.tree()) if isinstance(node, kind))

    def error(self, node: ast.AST, message: str, hint: str = "") -> ScriptError:
        """An error that points at ``node``."""
        line = getattr(node, "lineno", 1)
        offset = getattr(node, "col_offset", 0)
        return self.error_at(line, offset, message, hint)

    def error_at(
        self, line: int, offset: int, message: str, hint: str = ""
    ) -> ScriptError:
        """An error that points at a place.

        Args:
            line: from 1.
            offset: of the column, in bytes, from 0.
        """
        lines = self.text.splitlines()
        shown = lines[line - 1] if 0 < line <= len(lines) else ""
        column = len(shown.encode()[:offset].decode(errors="replace"))
        caret = "".join("\t" if c == "\t" else " " for c in shown[:column]) + "^"
        text = f"{self.name}:{line}:{column + 1}: {message}\n{shown}\n{caret}"
        return ScriptError(f"{text}\n{hint}" if hint else text)


def _first_line(node: _Definition) -> int:
    """The line of the first decorator, or of the definition."""
    return min([node.lineno, *(d.lineno for d in node.decorator_list)])


def is_in_script_class(frame: FrameType) -> bool:
    """Whether a frame runs the body of a class that will be parsed as a whole.

    Then its functions are left as they are.
    """
    if "__qualname__" not in frame.f_locals or "__module__" not in frame.f_locals:
        return False
    source = Source.of_file(frame.f_code.co_filename)
    line = frame.f_lineno
    around = [
        node
        for node in source._definitions(ast.ClassDef)
        if _first_line(node) <= line <= (node.end_lineno or 0)
    ]
    innermost = max(around, key=lambda node: node.lineno, default=None)
    decorators = [] if innermost is None else innermost.decorator_list
    text = " ".join(ast.unparse(decorator) for decorator in decorators)
    return "ir_module" in text or "rewriter" in text
