"""Compiled kernels on disk, by the hash of everything they depend on."""

import hashlib
import os
import tempfile
from pathlib import Path

__all__ = ["ObjectCache", "default_cache_dir"]

_MAGIC = b"relax_mlir object 1\n"
_DIGEST_BYTES = 32


def default_cache_dir() -> Path:
    """``relax_mlir`` in the user's cache folder (``XDG_CACHE_HOME``, else ``~/.cache``)."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "relax_mlir"


class ObjectCache:
    """A folder of object files.

    An entry carries a checksum; a damaged or foreign one counts as absent. Entries are
    written whole or not at all, so processes may share the folder.

    Args:
        folder: where the entries are; made when the first is stored.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def load(self, key: str) -> bytes | None:
        """The object stored under ``key``, or None."""
        try:
            data = (self.folder / f"{key}.o").read_bytes()
        except OSError:
            return None
        body = data[len(_MAGIC) + _DIGEST_BYTES :]
        digest = data[len(_MAGIC) : len(_MAGIC) + _DIGEST_BYTES]
        is_whole = data.startswith(_MAGIC) and hashlib.sha256(body).digest() == digest
        return body if is_whole else None

    def store(self, key: str, body: bytes) -> None:
        """Keep an object; a folder that cannot be written to keeps nothing."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self.folder, delete=False) as file:
                file.write(_MAGIC + hashlib.sha256(body).digest() + body)
            os.replace(file.name, self.folder / f"{key}.o")
        except OSError:
            return
