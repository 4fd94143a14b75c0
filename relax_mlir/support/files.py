"""Atomic file writes, path checks and temporary directories."""

import errno
import json
import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from relax_mlir.errors import ModelError

__all__ = [
    "TempDirectory",
    "atomic_file",
    "check_path_name",
    "check_writable",
    "read_json_object",
    "utf8_problem",
]


def utf8_problem(error: UnicodeDecodeError) -> str:
    """The message for bytes that are not UTF-8."""
    return (
        f"expected text in UTF-8, got the byte {error.object[error.start]:#x} at "
        f"{error.start}"
    )


def read_json_object(text: str | bytes, where: str) -> dict[str, Any]:
    """Parses a JSON object.

    Raises:
        ModelError: the text is not one.
    """
    try:
        found = json.loads(text)
    except UnicodeDecodeError as error:
        raise ModelError(f"{where}: expected JSON: {utf8_problem(error)}") from error
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{where}: expected JSON, got other text: {error}") from error
    if not isinstance(found, dict):
        raise ModelError(f"{where}: expected a JSON object, got {type(found).__name__}")
    return found


@contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path to write to, which atomically replaces ``path`` on success.

    Pipes and devices cannot be replaced and are written directly.

    Raises:
        OSError: ``path`` cannot be written; names ``path``.
    """
    check_writable(path)
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        yield target
        return
    temporary = target.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        yield temporary
        os.replace(temporary, target)
    except OSError as error:
        if error.filename == str(temporary):
            raise type(error)(error.errno, error.strerror, str(path)) from error
        raise
    finally:
        with suppress(OSError):
            temporary.unlink()


def check_path_name(path: str | os.PathLike[str]) -> None:
    """Checks that a path is representable by the system, which Python's functions do not.

    Raises:
        OSError: it is not; names ``path``.
    """
    try:
        is_name = b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        is_name = False
    if not is_name:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), str(path))


def check_writable(path: str | os.PathLike[str]) -> None:
    """Checks that a file can be written, before long computations.

    Raises:
        OSError: it cannot; names ``path``.
    """
    check_path_name(path)
    target = Path(os.path.realpath(path))
    problem = 0
    if target.is_dir():
        problem = errno.EISDIR
    elif not target.parent.exists():
        problem = errno.ENOENT
    elif not target.parent.is_dir():
        problem = errno.ENOTDIR
    elif not os.access(target.parent, os.W_OK):
        problem = errno.EACCES
    if problem:
        raise OSError(problem, os.strerror(problem), str(path))


class TempDirectory:
    """A temporary directory with the lifetime of this object, or of its ``with`` block.

    Attributes:
        temp_dir: its path.
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.temp_dir = self._folder.name

    @property
    def path(self) -> str:
        """Its path."""
        return self.temp_dir

    def __enter__(self) -> "TempDirectory":  # noqa: PYI034  Self is newer than Python 3.10
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Removes it with its contents."""
        self._folder.cleanup()

    def relpath(self, name: str) -> str:
        """The path of a file in it."""
        return os.path.join(self.temp_dir, name)

    def listdir(self) -> list[str]:
        """The names of its files."""
        return os.listdir(self.temp_dir)
