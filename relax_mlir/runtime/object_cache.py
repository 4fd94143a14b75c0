"""Compiled kernels on disk, by the hash of everything they depend on."""

import hashlib
import os
from pathlib import Path

from relax_mlir.files import whole_file

__all__ = ["ObjectCache", "default_cache_dir"]

_MAGIC = b"relax_mlir object 2\n"


def default_cache_dir() -> Path:
    """``relax_mlir`` in the user's cache folder (``XDG_CACHE_HOME``, else ``~/.cache``)."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "relax_mlir"


class ObjectCache:
    """A folder of object files.

    An entry carries a checksum of its key and content; a damaged one, or one that stands
    under the name of another, counts as absent. Entries are
    written whole or not at all, so processes may share the folder.

    Args:
        folder: where the entries are; made when the first is stored.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def load(self, key: str) -> bytes | None:
        """The object stored under ``key``, or None."""
        try:
            data = self._path(key).read_bytes()
        except OSError:
            return None
        body = data[_HEADER_BYTES:]
        return body if data[:_HEADER_BYTES] == _header(key, body) else None

    def store(self, key: str, body: bytes) -> None:
        """Keep an object; a folder that cannot be written to keeps nothing."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with whole_file(self._path(key)) as path:
                path.write_bytes(_header(key, body) + body)
        except OSError:
            return

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.o"


def _header(key: str, body: bytes) -> bytes:
    """What says that an entry is whole, ours, and this one."""
    return _MAGIC + hashlib.sha256(key.encode() + b"\0" + body).digest()


_HEADER_BYTES = len(_header("", b""))
