"""Source text of a script: its syntax tree, and errors with source locations."""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

from relax_mlir.errors import ScriptError, short_repr

__all__ = ["Source", "is_in_script_class"]

_NO_SOURCE = (
    "the source is not in a file: save it to one, or pass its text to "
    "`script.from_source`"
)
_Definition = ast.ClassDef | ast.FunctionDef


@lru_cache(maxsize=32)
def _parsed(text: str, name: str) -> ast.Module:
    return ast.parse(text, filename=name)


@dataclass(frozen=True)
class Source:
    """A source file, or a source text without a file.

    Locations of nodes are relative to the whole file.

    Attributes:
        name: the file name.
        text: its contents.
    """

    name: str
    text: str

    @staticmethod
    def of_text(text: str, name: str = "<str>") -> Source:
        """Wraps a source text."""
        return Source(name, text)

    @staticmethod
    def of_file(name: str) -> Source:
        """Reads a source file.

        Raises:
            ScriptError: the file cannot be read.
        """
        text = "".join(linecache.getlines(name))
        if not text:
            raise ScriptError(f"{name}: no source: {_NO_SOURCE}")
        return Source(name, text)

    @staticmethod
    def of_function(function: Callable[..., Any]) -> tuple[Source, ast.FunctionDef]:
        """Returns a function's source file and its definition in it.

        Raises:
            ScriptError: the source is not available.
        """
        code: CodeType | None = getattr(inspect.unwrap(function), "__code__", None)
        if code is None:
            raise ScriptError(f"{short_repr(function)}: no source: {_NO_SOURCE}")
        source = Source.of_file(code.co_filename)
        for node in source._definitions(ast.FunctionDef):
            if node.name == code.co_name and _first_line(node) == code.co_firstlineno:
                return source, node
        raise ScriptError(f"`{code.co_name}`: no source: {_NO_SOURCE}")

    @staticmethod
    def of_class(kind: Any, frame: FrameType) -> tuple[Source, ast.ClassDef]:
        """Returns a class's source file and its definition in it.

        Args:
            kind: the decorated class.
            frame: the Python frame that defines the class and runs its decorator; its
                line distinguishes classes of the same name.

        Raises:
            ScriptError: the source is not available.
        """
        if not isinstance(kind, type):
            raise ScriptError(f"{short_repr(kind)}: expected a class")
        source = Source.of_file(frame.f_code.co_filename)
        lines = [frame.f_lineno]
        for member in vars(kind).values():
            code = getattr(inspect.unwrap(member), "__code__", None)
            if code is not None and code.co_filename == source.name:
                lines = [code.co_firstlineno]
                break
        candidates = [
            node
            for node in source._definitions(ast.ClassDef)
            if node.name == kind.__name__
            and any(_first_line(node) <= n <= (node.end_lineno or 0) for n in lines)
        ]
        if not candidates:
            raise ScriptError(f"`{kind.__name__}`: no source: {_NO_SOURCE}")
        return source, max(candidates, key=_first_line)

    def tree(self) -> ast.Module:
        """Parses the text as Python.

        Raises:
            ScriptError: the text has a syntax error.
        """
        try:
            return _parsed(self.text, self.name)
        except SyntaxError as error:
            node = ast.Constant(None)
            node.lineno = error.lineno or 1
            node.col_offset = max((error.offset or 1) - 1, 0)
            raise self.error(node, f"invalid Python syntax: {error.msg}") from error
        except UnicodeEncodeError as error:
            problem = f"not UTF-8: {error.reason}"
            raise self.error(ast.Constant(None), problem) from error

    def _definitions(self, kind: type[Any]) -> Iterator[Any]:
        return (node for node in ast.walk(self.tree()) if isinstance(node, kind))

    def error(self, node: ast.AST, message: str, hint: str = "") -> ScriptError:
        """Makes an error located at ``node``."""
        line = getattr(node, "lineno", 1)
        offset = getattr(node, "col_offset", 0)
        return self.error_at(line, offset, message, hint)

    def error_at(
        self, line: int, offset: int, message: str, hint: str = ""
    ) -> ScriptError:
        """Makes an error located at a line and column.

        Args:
            line: the line number, from 1.
            offset: the column, in bytes, from 0.
        """
        lines = self.text.splitlines()
        source_line = lines[line - 1] if 0 < line <= len(lines) else ""
        encoded = source_line.encode(errors="replace")
        column = len(encoded[:offset].decode(errors="replace"))
        indent = "".join("\t" if c == "\t" else " " for c in source_line[:column])
        text = f"{self.name}:{line}:{column + 1}: {message}\n{source_line}\n{indent}^"
        return ScriptError(f"{text}\n{hint}" if hint else text)


def _first_line(node: _Definition) -> int:
    """Returns the line of the first decorator, or else of the definition."""
    return min([node.lineno, *(d.lineno for d in node.decorator_list)])


def is_in_script_class(frame: FrameType) -> bool:
    """Whether a frame runs the body of a class that is parsed as a module.

    The decorators of its functions then do nothing.
    """
    if "__qualname__" not in frame.f_locals or "__module__" not in frame.f_locals:
        return False
    source = Source.of_file(frame.f_code.co_filename)
    line = frame.f_lineno
    enclosing = [
        node
        for node in source._definitions(ast.ClassDef)
        if _first_line(node) <= line <= (node.end_lineno or 0)
    ]
    innermost = max(enclosing, key=lambda node: node.lineno, default=None)
    decorators = [] if innermost is None else innermost.decorator_list
    text = " ".join(ast.unparse(decorator) for decorator in decorators)
    return "ir_module" in text or "rewriter" in text
