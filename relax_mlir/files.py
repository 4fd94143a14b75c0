"""Files that are written whole or not at all."""

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["check_writable", "whole_file"]


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A path to write to, which takes the place of ``path`` when all went well.

    A pipe or a device cannot be replaced and is written to directly.

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


def check_writable(path: str | os.PathLike[str]) -> None:
    """Find out whether a file can be written before long work for it begins.

    Raises:
        OSError: it cannot; names ``path``.
    """
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
