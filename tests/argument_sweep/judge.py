"""Tells refusals from accidents: what a call raises that no one meant for its caller."""

from __future__ import annotations

import linecache
import re
import traceback
from pathlib import Path

import relax_mlir
from relax_mlir.errors import ArgumentTypeError, ArgumentValueError, RelaxError
from relax_mlir.onnxruntime import errors as of_sessions
from relax_mlir.support import argument_types
from tests.argument_sweep import values

__all__ = ["accident"]

_PACKAGE = Path(relax_mlir.__file__).parent
_OWN = (str(_PACKAGE), str(_PACKAGE.parent / "dialects"))
_BY_RUNTIME = re.compile(r"`[\w.]+`: ")  # what compiled code says of its arguments
_PLACE = re.compile(r"[\w.<>]+: ")
_RAISED = (TypeError, ValueError, OSError, ModuleNotFoundError, RuntimeError)
_BY_SESSIONS = tuple(
    getattr(of_sessions, name) for name in of_sessions.__all__ if name[0].isupper()
)
_BY_PYTHON = re.compile(r"([\w.<>]+)\(\) (?:takes|missing|got)")


def accident(error: Exception, name: str) -> str:
    """Where an exception was raised that tells the caller nothing; empty if it does.

    Allowed are errors of ours, the exceptions of Python and of onnxruntime that a ``raise`` of
    the package raises, errors of the system that name a file, what Python says of a call with a
    wrong number of arguments, what a function of the caller raises, and what has no frame of
    the package. Errors about arguments begin with the name of a function.

    Args:
        name: what was called.
    """
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename != argument_types.__file__ or _raises(frame)
    ]
    if frames[-1].filename == values.__file__ and frames[-1].name != "__repr__":
        return ""
    ours = [frame for frame in frames if frame.filename.startswith(_OWN)]
    if not ours or (isinstance(error, OSError) and error.filename is not None):
        return ""
    told = _BY_PYTHON.match(str(error)) if isinstance(error, TypeError) else None
    if told and told[1].split(".")[-1] in (name.split(".")[-1], "__init__"):
        return ""
    is_said = frames[-1] is ours[-1] and _raises(frames[-1])
    is_said |= _BY_RUNTIME.match(str(error)) is not None
    is_ours = isinstance(error, RelaxError) or (
        is_said and type(error) in (*_RAISED, *_BY_SESSIONS)
    )
    is_abstract = is_said and type(error) is NotImplementedError
    if is_abstract or (is_ours and _says_where(error)):
        return ""
    place = ours[-1].filename.removeprefix(str(_PACKAGE.parent))
    return f"{place}:{ours[-1].lineno}: {type(error).__name__}: {error}"


def _says_where(error: Exception) -> bool:
    """Whether a message says something, and those on arguments begin with a name."""
    text = str(error).strip()
    is_on_argument = isinstance(error, (ArgumentTypeError, ArgumentValueError))
    return bool(_PLACE.match(text) if is_on_argument else text)


def _raises(frame: traceback.FrameSummary) -> bool:
    line = linecache.getline(frame.filename, frame.lineno or 0)
    return line.strip().startswith("raise")
