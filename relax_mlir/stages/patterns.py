"""Regular expressions, matched by RE2 in time linear in the text."""

from __future__ import annotations

from typing import Any

from relax_mlir.errors import RunError, UnsupportedError
from relax_mlir.stages.host_node import HostNode

__all__ = ["pattern"]


def pattern(node: HostNode, name: str, text: str) -> Any:  # Any: RE2 has no types
    """A compiled regular expression, with methods as those of Python's ``re``.

    Args:
        node: whose attribute it is; name: of the attribute.
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
