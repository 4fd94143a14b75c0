"""Compiled kernels and models on disk, by the hash of everything they depend on."""

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from relax_mlir.errors import RelaxError
from relax_mlir.files import whole_file

__all__ = ["CacheSize", "ObjectCache", "cache_limit_bytes", "default_cache_dir"]

_MAGIC = b"relax_mlir object 2\n"
_LIMIT_VARIABLE = "RELAX_MLIR_CACHE_BYTES"
_LIMIT_BYTES = 1 << 32
_ENTRY_NAME = re.compile(r"[0-9a-f]{64}\.(o|rxm)")


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
    """How many kernels and models there are, and their bytes."""

    kernels: int
    models: int
    size_bytes: int


class _Entry(NamedTuple):
    """A file of the cache, and when it was last stored or loaded."""

    used_time_ns: int
    size_bytes: int
    path: str


class ObjectCache:
    """A folder of object files, and of compiled models.

    An entry carries a checksum of its key and content; a damaged one, or one that stands
    under the name of another, counts as absent. Entries are written whole or not at all,
    so processes may share the folder.

    Args:
        folder: where the entries are; made when the first is stored.
        limit_bytes: what they may take; :func:`cache_limit_bytes` by default. When they
            take more, those that were not used for the longest time go, a quarter at once.
            One store in 256 looks, and each of what is larger than that part of the
            limit: reading a folder of 40,000 takes a tenth of a second and more.
    """

    def __init__(self, folder: Path, limit_bytes: int | None = None) -> None:
        self.folder = folder
        self.limit_bytes = cache_limit_bytes() if limit_bytes is None else limit_bytes

    def load(self, key: str) -> bytes | None:
        """The object stored under ``key``, or None."""
        path = self._path(key)
        try:
            data = path.read_bytes()
        except OSError:
            return None
        body = data[_HEADER_BYTES:]
        if data[:_HEADER_BYTES] != _header(key, body):
            return None
        with suppress(OSError):  # somebody else's folder may be read too
            os.utime(path)
        return body

    def store(self, key: str, body: bytes) -> None:
        """Keep an object; a folder that cannot be written to keeps nothing."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with whole_file(self._path(key)) as path:
                path.write_bytes(_header(key, body) + body)
        except OSError:
            return
        self._trim_now_and_then(key, len(body))

    def model_path(self, key: str) -> Path:
        """Where a compiled model is, if there is one."""
        return self.folder / f"{key}.rxm"

    def store_model(
        self, key: str, size_bytes: int, write: Callable[[Path], None]
    ) -> None:
        """Keep a compiled model, if it takes less than a quarter of the limit.

        Args:
            size_bytes: of it; write: writes it to a file, whole or not at all.
        """
        if size_bytes > self.limit_bytes // 4:
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write(self.model_path(key))
        except OSError:
            return
        self._trim_now_and_then(key, size_bytes)

    def size(self) -> CacheSize:
        """What is in the folder."""
        return _size(self._entries())

    def clear(self) -> CacheSize:
        """Remove all entries, and nothing else from the folder; what they were.

        Raises:
            OSError: one cannot be removed.
        """
        entries = list(self._entries())
        for entry in entries:
            Path(entry.path).unlink(missing_ok=True)
        return _size(entries)

    def _trim_now_and_then(self, key: str, size_bytes: int) -> None:
        if key.endswith("00") or size_bytes > self.limit_bytes >> 8:
            self._trim()

    def _trim(self) -> None:
        """Remove the entries that were not used for the longest time, if it is too much."""
        entries = list(self._entries())
        total = _size(entries).size_bytes
        if total <= self.limit_bytes:
            return
        for entry in sorted(entries):
            with suppress(OSError):
                os.unlink(entry.path)
            total -= entry.size_bytes
            if total <= self.limit_bytes * 3 // 4:
                break

    def _entries(self) -> Iterator[_Entry]:
        """The files that have an entry's name; other processes may come and go."""
        try:
            found = list(os.scandir(self.folder))
        except OSError:
            return
        for file in found:
            if _ENTRY_NAME.fullmatch(file.name):
                with suppress(OSError):
                    status = file.stat()
                    yield _Entry(status.st_mtime_ns, status.st_size, file.path)

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.o"


def _size(entries: Iterable[_Entry]) -> CacheSize:
    found = list(entries)
    models = sum(entry.path.endswith(".rxm") for entry in found)
    return CacheSize(len(found) - models, models, sum(e.size_bytes for e in found))


def _header(key: str, body: bytes) -> bytes:
    """What says that an entry is whole, ours, and this one."""
    return _MAGIC + hashlib.sha256(key.encode() + b"\0" + body).digest()


_HEADER_BYTES = len(_header("", b""))
