"""Regular expressions with linear-time matching, by RE2."""

from __future__ import annotations

from typing import Any

from relax_mlir.compiler.host.node_interpreter import HostNode
from relax_mlir.errors import RunError, UnsupportedError

__all__ = ["compile_pattern"]


def compile_pattern(node: HostNode, name: str, text: str) -> Any:  # Any: RE2 is untyped
    """Compile a regular expression; the result has the interface of Python's ``re``.

    Args:
        node: for error messages; name: of its attribute.
        text: the expression, in RE2's syntax.

    Raises:
        UnsupportedError: RE2 is not installed.
        RunError: the expression is malformed.
    """
    try:
        import re2
    except ImportError as error:
        raise UnsupportedError(
            f"{node}: {name}: expected the package `google-re2` to match patterns, got "
            "none. Hint: `pip install relax_mlir[patterns]`"
        ) from error
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(text, options)
    except re2.error as error:
        (reason,) = error.args  # bytes
        shown = bytes(reason).decode(errors="replace")
        raise RunError(f"{node}: {name}: pattern {text!r}: {shown}") from error
