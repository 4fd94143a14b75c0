"""Whole compiled models on disk: a file that was compiled before is only loaded.

Kernels are kept one by one as well (:mod:`relax_mlir.runtime.object_cache`), but to find
out which ones a model needs takes all passes of its graph. Nothing here loads MLIR.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relax_mlir.errors import RelaxError
from relax_mlir.runtime import guard, objects
from relax_mlir.runtime.compiled_model import CompiledModel
from relax_mlir.runtime.executable import load_file
from relax_mlir.runtime.model_file import ModelFile
from relax_mlir.runtime.object_cache import ObjectCache
from relax_mlir.source_digest import source_digest

__all__ = ["CachedModel"]

_CHUNK_BYTES = 1 << 22
# A field of tensors whose numbers are in other files, which may change by themselves.
_ELSEWHERE = b"\n\x08location"  # the key of an entry, as protobuf writes it
_RULES = "relax_mlir.dialects.hooks"
_USERS = "relax_mlir.relax.user_operators"  # makes rules of what others write


@dataclass(frozen=True)
class CachedModel:
    """The place of one compiled model in a cache.

    Attributes:
        cache: that it is in; key: by which it is found there.
    """

    cache: ObjectCache
    key: str

    @staticmethod
    def of(
        source: str | os.PathLike[str] | bytes,
        folder: Path,
        options: Mapping[str, Any],  # Any: what repr tells all of
    ) -> CachedModel | None:
        """Where a model would be; None if more decides about it than can be told.

        Args:
            source: the ONNX file, or its bytes.
            folder: of the cache.
            options: how it is compiled.
        """
        if _has_foreign_rules():
            return None
        digest = hashlib.sha256()
        if not _hash(source, digest):
            return None
        sources = source_digest(("tools",), ("onnx", "numpy", "ml_dtypes"))
        given = (options, objects.host_cpu(), guard.is_requested(), sources)
        digest.update(repr(given).encode())
        return CachedModel(ObjectCache(folder), digest.hexdigest())

    def load(self, threads: int) -> CompiledModel | None:
        """The model, if it is there, undamaged, and for this machine.

        One for a GPU looks for it when it is called.
        """
        with self.cache.open_model(self.key) as file:
            if file is None:
                return None
            where = f"{self.cache.folder}: model {self.key}"
            try:
                found = load_file(ModelFile(where, file), threads)
            except RelaxError:
                return None
        is_whole = isinstance(found, CompiledModel) and found.size_bytes is not None
        return found if is_whole else None

    def store(self, model: CompiledModel) -> None:
        """Keep a model, if it is machine code as a whole."""
        if model.size_bytes is not None:
            self.cache.store_model(self.key, model.size_bytes, model.write_to)


def _hash(source: str | os.PathLike[str] | bytes, digest: Any) -> bool:
    """Hash a file; whether it can be read, and has all of the model."""
    if isinstance(source, bytes):
        digest.update(source)
        return _ELSEWHERE not in source
    try:
        if not os.path.isfile(source):  # a pipe may never end
            return False
        before = b""
        with open(source, "rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                digest.update(chunk)
                if _ELSEWHERE in before + chunk:
                    return False
                before = chunk[-len(_ELSEWHERE) :]
    except (OSError, ValueError):
        return False  # whoever reads it next says what is wrong
    return True


def _has_foreign_rules() -> bool:
    """Whether somebody has told the importer how to read operators of their own."""
    hooks = sys.modules.get(_RULES)
    if hooks is None:
        return False
    modules = hooks.rule_modules()
    return _USERS in modules or any(not m.startswith("relax_mlir.") for m in modules)
