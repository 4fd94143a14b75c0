"""Cache directories that only the current user can modify.

A file in such a directory may be machine code that is called without further checks, so the
directory and its files must belong to this user, and nobody else may have write access. All
operations use names relative to a checked directory descriptor: symbolic links are not
followed, and concurrent changes of the path have no effect.

A file is written under a temporary name and then renamed, so readers see a complete file or
none. The writer holds a lock on the temporary file, which the system releases whenever the
process ends: a temporary file without a lock is a leftover, which any process may remove.

Source: rename(2), flock(2) and open(2) of Linux; on NFS, locks need version 4 or a lock
daemon, without which nothing is written.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from relax_mlir.errors import RelaxError

__all__ = ["FolderFile", "ForeignFolderError", "PrivateFolder"]

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_TEMPORARY = re.compile(r"\.[0-9a-f]{16}\.tmp")
_SYMLINK_ERRORS = (errno.ELOOP, errno.ENOTDIR, errno.EMLINK)


class ForeignFolderError(RelaxError, PermissionError):
    """A directory, or its would-be parent, can be modified by another user."""


class FolderFile(NamedTuple):
    """A regular file of a directory.

    Attributes:
        modified_ns: time of the last modification.
        size_bytes: of its content.
        name: in the directory.
    """

    modified_ns: int
    size_bytes: int
    name: str


class PrivateFolder:
    """A directory of the current user with mode 0700, and its files of mode 0600.

    Args:
        path: of the directory, which may contain symbolic links except in its last
            component.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def make(self) -> None:
        """Create the directory and its parents if missing.

        Raises:
            ForeignFolderError: see :meth:`descriptor`.
            OSError: a directory cannot be created.
        """
        with self.descriptor(make=True):
            pass

    @contextmanager
    def descriptor(self, *, make: bool = False) -> Iterator[int]:
        """A checked descriptor of the directory.

        Args:
            make: create the directory if missing.

        Raises:
            ForeignFolderError: the directory is a symbolic link, belongs to another user,
                or is writable by others; or this is root, and its parent belongs to
                another user.
            OSError: the directory is missing, or cannot be opened or created.
        """
        if make:
            self._make()
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            folder = os.open(self.path, flags)
        except OSError as error:
            if error.errno in _SYMLINK_ERRORS and self.path.is_symlink():
                raise ForeignFolderError(
                    f"{self.path}: a symbolic link: expected a directory. "
                    "Hint: name the directory that it leads to"
                ) from error
            raise
        try:
            self._check(os.fstat(folder))
            yield folder
        finally:
            os.close(folder)

    def open(self, name: str) -> BinaryIO | None:
        """Open a file for reading; None if it is missing, or writable by others.

        Raises:
            ForeignFolderError: see :meth:`descriptor`.
            OSError: the file cannot be opened.
        """
        try:
            with self.descriptor() as folder:
                file = os.open(name, _READ, dir_fd=folder)
        except FileNotFoundError:
            return None
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or not _is_ours(status):
            os.close(file)
            return None
        return os.fdopen(file, "rb")

    @contextmanager
    def writing(self, name: str) -> Iterator[BinaryIO]:
        """A temporary file for writing and reading, renamed to ``name`` on success.

        Data are not synchronised with the disk: after a power failure the file may be
        damaged, which readers have to detect.

        Raises:
            ForeignFolderError: see :meth:`descriptor`.
            OSError: the file cannot be written; the temporary file is removed.
        """
        temporary = f".{secrets.token_hex(8)}.tmp"
        with self.descriptor(make=True) as folder:
            number = os.open(temporary, _CREATE, 0o600, dir_fd=folder)
            with os.fdopen(number, "w+b") as file:
                try:
                    # Blocks while another process probes the new file for a lock. If that
                    # process removes it as a leftover, the rename below fails.
                    fcntl.flock(number, fcntl.LOCK_EX)
                    os.fchmod(number, 0o600)  # the umask may have cleared bits
                    yield file
                    file.flush()
                    os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
                except BaseException:
                    with suppress(OSError):
                        os.unlink(temporary, dir_fd=folder)
                    raise

    def remove(self, name: str) -> None:
        """Remove a file, if it exists.

        Raises:
            ForeignFolderError: see :meth:`descriptor`.
            OSError: the file cannot be removed.
        """
        with self.descriptor() as folder, suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)

    def files(self) -> list[FolderFile]:
        """The regular files without temporary ones; other processes may add files.

        Raises:
            ForeignFolderError: see :meth:`descriptor`.
            OSError: the directory cannot be read.
        """
        with self.descriptor() as folder:
            return list(_scan(folder, temporary=False))

    def leftovers(self, *, remove: bool = False) -> list[FolderFile]:
        """Temporary files of writers that were killed.

        Args:
            remove: whether to remove them.

        Raises:
            ForeignFolderError: see :meth:`descriptor`.
            OSError: the directory cannot be read.
        """
        with self.descriptor() as folder:
            files = list(_scan(folder, temporary=True))
            return [f for f in files if _is_abandoned(folder, f.name, remove)]

    def _check(self, status: os.stat_result) -> None:
        if status.st_uid != os.geteuid():
            raise ForeignFolderError(
                f"{self.path}: belongs to user {status.st_uid}: expected a directory of "
                f"user {os.geteuid()}. Hint: name one in XDG_CACHE_HOME"
            )
        if status.st_mode & _OTHERS_WRITE:
            mode = stat.S_IMODE(status.st_mode)
            raise ForeignFolderError(
                f"{self.path}: others may write to it: expected mode 700, got {mode:o}. "
                "Hint: inspect its files, then `chmod 700`, or remove it"
            )

    def _make(self) -> None:
        missing: list[Path] = []
        path = Path(os.path.abspath(self.path))
        while not os.path.lexists(path):
            missing.append(path)
            path = path.parent
        if missing and os.geteuid() == 0 and (owner := path.stat().st_uid) != 0:
            # As with `sudo`, which may keep HOME: the user could neither use nor remove
            # root's directory there, and could replace it by another one.
            raise ForeignFolderError(
                f"{self.path}: would be created by root in {path}, which belongs to user "
                f"{owner}. Hint: set HOME, or name a directory of root's in XDG_CACHE_HOME"
            )
        for folder in reversed(missing):
            with suppress(FileExistsError):  # another process was faster
                os.mkdir(folder, 0o700)


_READ = (
    os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
)  # non-blocking for pipes
_CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def _is_ours(status: os.stat_result) -> bool:
    return status.st_uid == os.geteuid() and not status.st_mode & _OTHERS_WRITE


def _scan(folder: int, *, temporary: bool) -> Iterator[FolderFile]:
    with os.scandir(folder) as entries:
        for file in entries:
            if bool(_TEMPORARY.fullmatch(file.name)) != temporary:
                continue
            with suppress(OSError):  # another process has removed it
                status = file.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode):
                    yield FolderFile(status.st_mtime_ns, status.st_size, file.name)


def _is_abandoned(folder: int, name: str, remove: bool) -> bool:
    """Whether no process holds the lock of a temporary file."""
    try:
        file = os.open(name, _READ, dir_fd=folder)
    except OSError:  # finished meanwhile
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if remove:
            os.unlink(name, dir_fd=folder)
    except OSError:  # a writer holds the lock, or another process removed the file
        return False
    finally:
        os.close(file)
    return True
