"""Compiled kernels and models on disk, by the hash of everything they depend on."""

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
_PROBE = "0" * 64 + ".o"  # an entry like others, so that a leftover of it is removed


class CacheWarning(UserWarning):
    """A cache is not used, because others could change what is in it."""


def default_cache_dir() -> Path:
    """``relax_mlir`` in the user's cache folder (``XDG_CACHE_HOME``, else ``~/.cache``)."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "relax_mlir"


def cache_limit_bytes() -> int:
    """What a cache may grow to: ``RELAX_MLIR_CACHE_BYTES``, else 4 GiB.

    Raises:
        RelaxError: the variable is no number of bytes.
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
    """Contents of a cache.

    Attributes:
        kernels, models: number of entries of each kind.
        size_bytes: of all entries and leftovers.
        leftovers: number of files that killed processes did not finish.
    """

    kernels: int
    models: int
    size_bytes: int
    leftovers: int = 0


class ObjectCache:
    """A folder of object files, and of compiled models.

    Entries are called without another look, so only what this user wrote is used: the
    folder and its files must be the user's, and nobody else's to write to
    (:class:`~relax_mlir.runtime.private_folder.PrivateFolder`). A folder that is not draws
    one :class:`CacheWarning`, and is neither read nor written.

    An entry begins with its key and a digest of key and content; a damaged one, or one
    that stands under the name of another, counts as absent. Entries are written whole or
    not at all, so processes may share the folder.

    Args:
        folder: where the entries are; made when the first is stored.
        limit_bytes: what they may take; :func:`cache_limit_bytes` by default. When they
            take more, those that were not used for the longest time go, a quarter at once.
            One store in 256 looks, and each of what is larger than that part of the
            limit: reading a folder of 40,000 takes a tenth of a second and more. What
            killed processes left goes then, too, and before a model is stored.
    """

    def __init__(self, folder: Path, limit_bytes: int | None = None) -> None:
        self.folder = folder
        self.limit_bytes = cache_limit_bytes() if limit_bytes is None else limit_bytes
        self._private = PrivateFolder(folder)

    def load(self, key: str) -> bytes | None:
        """The object stored under ``key``, or None."""
        with self._whole_entry(f"{key}.o", key) as file:
            return None if file is None else file.read()

    @contextmanager
    def open_model(self, key: str) -> Iterator[BinaryIO | None]:
        """The file of the model stored under ``key``, behind the header; or None."""
        with self._whole_entry(f"{key}.rxm", key) as file:
            yield file

    @contextmanager
    def _whole_entry(self, name: str, key: str) -> Iterator[BinaryIO | None]:
        """An entry that was found whole, behind its header; or None."""
        file = None
        with self._unless_unusable():
            file = self._private.open(name)
        if file is None:
            yield None
            return
        with file:
            is_whole = False
            with self._unless_unusable():
                is_whole = _is_whole(key, file)
                file.seek(_body_offset(key))
            if not is_whole:
                yield None
                return
            with suppress(OSError):  # a file system that is read-only
                os.utime(file.fileno())
            yield file

    def store(self, key: str, body: bytes) -> None:
        """Keep an object; a folder that cannot be written to keeps nothing."""
        self._store(f"{key}.o", key, len(body), lambda file: file.write(body))

    def store_model(
        self, key: str, size_bytes: int, write: Callable[[BinaryIO], object]
    ) -> None:
        """Keep a compiled model, if it takes less than a quarter of the limit.

        Args:
            size_bytes: of the model.
            write: writes the model to a file, from the current position on.
        """
        if size_bytes > self.limit_bytes // 4:
            return
        with self._unless_unusable():
            self._private.leftovers(remove=True)  # those of models are large
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
        """What is in the folder."""
        with self._unless_unusable():
            return _size(self._entries(), self._private.leftovers())
        return _size((), ())

    def check(self) -> None:
        """Raise what keeps the cache from being used, if anything.

        Raises:
            ForeignFolderError: others could change what is in it.
            PermissionError: it is no directory, or nothing can be stored in it.
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
        """Remove all entries and leftovers, and nothing else; what they were.

        Raises:
            ForeignFolderError: others could change what is in the folder.
            OSError: an entry cannot be removed.
        """
        with suppress(FileNotFoundError):
            entries = self._entries()
            for entry in entries:
                self._private.remove(entry.name)
            return _size(entries, self._private.leftovers(remove=True))
        return _size((), ())

    def _trim(self) -> None:
        """Remove leftovers, and the entries unused for longest if it is too much."""
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
        """The files that have an entry's name; other processes may come and go."""
        return [f for f in self._private.files() if _ENTRY_NAME.fullmatch(f.name)]

    @contextmanager
    def _unless_unusable(self) -> Iterator[None]:
        """Give up where the folder cannot be used; with a warning if others can."""
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
    """The beginning of an entry; the digest follows, then the content."""
    return _MAGIC + key.encode() + b"\n"


def _body_offset(key: str) -> int:
    return len(_header(key)) + _DIGEST().digest_size


def _is_whole(key: str, file: BinaryIO) -> bool:
    """Whether a file is the entry of a key, as it was written."""
    if file.read(len(_header(key))) != _header(key):
        return False
    return file.read(_DIGEST().digest_size) == _digest(key, file)


def _digest(key: str, body: BinaryIO) -> bytes:
    """Of the key and the rest of a file."""
    digest = _DIGEST(_header(key))
    while chunk := body.read(_CHUNK_BYTES):
        digest.update(chunk)
    return digest.digest()
