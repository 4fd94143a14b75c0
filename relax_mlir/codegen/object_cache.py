"""On-disk cache of compiled kernels and models, keyed by a hash of all their inputs."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from relax_mlir.errors import RelaxError
from relax_mlir.runtime.private_folder import (
    FolderFile,
    ForeignFolderError,
    PrivateFolder,
)

__all__ = [
    "CacheSize",
    "CacheWarning",
    "ObjectCache",
    "cache_limit_bytes",
    "default_cache_dir",
]

_MAGIC = b"relax_mlir cache entry 3\n"
_DIGEST = hashlib.sha256
_CHUNK_BYTES = 1 << 20
_LIMIT_VARIABLE = "RELAX_MLIR_CACHE_BYTES"
_LIMIT_BYTES = 1 << 32
_ENTRY_NAME = re.compile(r"[0-9a-f]{64}\.(o|rxm)")
_PROBE = "0" * 64 + ".o"  # named like an entry, so that a leftover is removed


class CacheWarning(UserWarning):
    """The cache is disabled, because other users could change its contents."""


def default_cache_dir() -> Path:
    """``relax_mlir`` in the user's cache folder: ``XDG_CACHE_HOME``, else ``~/.cache``."""
    # Loaded late, since runs of compiled models need no cache.
    from platformdirs import user_cache_path

    return user_cache_path("relax_mlir")


def cache_limit_bytes() -> int:
    """Size limit of a cache: ``RELAX_MLIR_CACHE_BYTES``, else 4 GiB.

    Raises:
        RelaxError: the variable is not a number of bytes.
    """
    text = os.environ.get(_LIMIT_VARIABLE, "").strip()
    if not text:
        return _LIMIT_BYTES
    if not text.isdecimal():
        raise RelaxError(
            f"environment variable `{_LIMIT_VARIABLE}`: expected a number of bytes such "
            f"as {_LIMIT_BYTES}, got `{text}`"
        )
    return int(text)


@dataclass(frozen=True)
class CacheSize:
    """Number and size of the entries of a cache.

    Attributes:
        kernels, models: number of entries of each kind.
        size_bytes: total size of entries and leftovers.
        leftovers: number of incomplete files of killed processes.
    """

    kernels: int
    models: int
    size_bytes: int
    leftovers: int = 0


class ObjectCache:
    """A folder of cached object files and compiled models.

    Entries are executed without further checks, so the folder and its files must be owned
    and writable by this user only
    (:class:`~relax_mlir.runtime.private_folder.PrivateFolder`). Other folders cause one
    :class:`CacheWarning`, and are neither read nor written.

    An entry starts with its key and a digest of key and content; corrupt or renamed entries
    are ignored. Entries are written atomically, so processes may share the folder.

    Args:
        folder: of the entries; created by the first store.
        limit_bytes: size limit; :func:`cache_limit_bytes` by default. Above it, the least
            recently used entries are evicted, down to three quarters of the limit. The
            size is checked by one store in 256, and by each store of more than 1/256 of
            the limit: listing a folder of 40,000 entries takes 0.1 s and more. Leftovers of
            killed processes are removed at the same time, and before a model is stored.
    """

    def __init__(self, folder: Path, limit_bytes: int | None = None) -> None:
        self.folder = folder
        self.limit_bytes = cache_limit_bytes() if limit_bytes is None else limit_bytes
        self._private = PrivateFolder(folder)

    def load(self, key: str) -> bytes | None:
        """Load the object of ``key``; None if there is none."""
        with self._valid_entry(f"{key}.o", key) as file:
            return None if file is None else file.read()

    @contextmanager
    def open_model(self, key: str) -> Iterator[BinaryIO | None]:
        """Open the model of ``key``, positioned after the header; None if there is none."""
        with self._valid_entry(f"{key}.rxm", key) as file:
            yield file

    @contextmanager
    def _valid_entry(self, name: str, key: str) -> Iterator[BinaryIO | None]:
        """Open a valid entry, positioned after its header; None if there is none."""
        file = None
        with self._unless_unusable():
            file = self._private.open(name)
        if file is None:
            yield None
            return
        with file:
            is_valid = False
            with self._unless_unusable():
                is_valid = _is_valid(key, file)
                file.seek(_body_offset(key))
            if not is_valid:
                yield None
                return
            with suppress(OSError):  # read-only file system
                os.utime(file.fileno())
            yield file

    def store(self, key: str, body: bytes) -> None:
        """Store an object; does nothing if the folder is not writable."""
        self._store(f"{key}.o", key, len(body), lambda file: file.write(body))

    def store_model(
        self, key: str, size_bytes: int, write: Callable[[BinaryIO], object]
    ) -> None:
        """Store a compiled model, if it takes at most a quarter of the limit.

        Args:
            size_bytes: size of the model.
            write: writes the model to a file, from the current position on.
        """
        if size_bytes > self.limit_bytes // 4:
            return
        with self._unless_unusable():
            self._private.leftovers(remove=True)  # leftovers of models are large
        self._store(f"{key}.rxm", key, size_bytes, write)

    def _store(
        self, name: str, key: str, size_bytes: int, write: Callable[[BinaryIO], object]
    ) -> None:
        with self._unless_unusable():
            with self._private.writing(name) as file:
                file.seek(_body_offset(key))
                write(file)
                file.seek(_body_offset(key))
                digest = _digest(key, file)
                file.seek(0)
                file.write(_header(key) + digest)
            if key.endswith("00") or size_bytes > self.limit_bytes >> 8:
                self._trim()

    def size(self) -> CacheSize:
        """Number and size of the entries."""
        with self._unless_unusable():
            return _size(self._entries(), self._private.leftovers())
        return _size((), ())

    def check(self) -> None:
        """Check that the cache is usable.

        Raises:
            ForeignFolderError: other users could change the contents of the folder.
            PermissionError: it is not a directory, or not writable.
        """
        try:
            with self._private.writing(_PROBE) as file:
                file.write(_MAGIC)
            self._private.remove(_PROBE)
        except ForeignFolderError:
            raise
        except OSError as error:
            raise PermissionError(
                f"{self.folder}: cannot be written: {error.strerror}"
            ) from error

    def clear(self) -> CacheSize:
        """Remove all entries and leftovers, but no other files; returns what was removed.

        Raises:
            ForeignFolderError: other users could change the contents of the folder.
            OSError: an entry cannot be removed.
        """
        with suppress(FileNotFoundError):
            entries = self._entries()
            for entry in entries:
                self._private.remove(entry.name)
            return _size(entries, self._private.leftovers(remove=True))
        return _size((), ())

    def _trim(self) -> None:
        """Remove leftovers, and evict least recently used entries above the limit."""
        self._private.leftovers(remove=True)
        entries = self._entries()
        total = _size(entries, ()).size_bytes
        if total <= self.limit_bytes:
            return
        for entry in sorted(entries):
            with suppress(OSError):
                self._private.remove(entry.name)
            total -= entry.size_bytes
            if total <= self.limit_bytes * 3 // 4:
                break

    def _entries(self) -> list[FolderFile]:
        """The files that are named like entries."""
        return [f for f in self._private.files() if _ENTRY_NAME.fullmatch(f.name)]

    @contextmanager
    def _unless_unusable(self) -> Iterator[None]:
        """Suppress errors of an unusable folder; warn if other users could write to it."""
        try:
            yield
        except ForeignFolderError as error:
            _warn_once(f"no cache is used: {error}")
        except OSError:
            pass


@functools.cache
def _warn_once(message: str) -> None:
    warnings.warn(message, CacheWarning, stacklevel=2)


def _size(entries: Iterable[FolderFile], leftovers: Iterable[FolderFile]) -> CacheSize:
    entries, leftovers = list(entries), list(leftovers)
    models = sum(entry.name.endswith(".rxm") for entry in entries)
    size_bytes = sum(file.size_bytes for file in (*entries, *leftovers))
    return CacheSize(len(entries) - models, models, size_bytes, len(leftovers))


def _header(key: str) -> bytes:
    """Header of an entry, followed by the digest and the content."""
    return _MAGIC + key.encode() + b"\n"


def _body_offset(key: str) -> int:
    return len(_header(key)) + _DIGEST().digest_size


def _is_valid(key: str, file: BinaryIO) -> bool:
    """Whether a file is an intact entry of a key."""
    if file.read(len(_header(key))) != _header(key):
        return False
    return file.read(_DIGEST().digest_size) == _digest(key, file)


def _digest(key: str, body: BinaryIO) -> bytes:
    """Digest of the header of a key and the rest of a file."""
    digest = _DIGEST(_header(key))
    while chunk := body.read(_CHUNK_BYTES):
        digest.update(chunk)
    return digest.digest()
