"""On-disk cache of whole compiled models, keyed by the model file and compile options.

Kernels are cached individually, too (:mod:`relax_mlir.codegen.object_cache`), but their
keys are known only after all graph passes. Nothing here imports MLIR.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relax_mlir.codegen import object_code
from relax_mlir.codegen.object_cache import ObjectCache
from relax_mlir.compiler.source_digest import source_digest
from relax_mlir.errors import RelaxError
from relax_mlir.runtime import guard
from relax_mlir.runtime.compiled_model import CompiledModel
from relax_mlir.runtime.loading import load_file
from relax_mlir.runtime.model_file import ModelFile

__all__ = ["CachedModel"]

_CHUNK_BYTES = 1 << 22
# Marks tensors with external data, in files that may change independently: the protobuf
# encoding of the key `location`.
_EXTERNAL_DATA = b"\n\x08location"
_IMPORT_RULES = "relax_mlir.dialects.op_interface"
_USER_OPERATORS = "relax_mlir.compiler.user_operators"  # registers users' operators


@dataclass(frozen=True)
class CachedModel:
    """The cache entry of one compiled model.

    Attributes:
        cache: the cache of the entry; key: digest of all inputs of the compilation.
    """

    cache: ObjectCache
    key: str

    @staticmethod
    def of(
        source: str | os.PathLike[str] | bytes,
        folder: Path,
        options: Mapping[str, Any],  # Any: values with a faithful repr
    ) -> CachedModel | None:
        """The entry of a model; None if not all inputs of its compilation are hashable.

        Args:
            source: the ONNX file, or its bytes.
            folder: of the cache.
            options: compile options.
        """
        if _has_foreign_rules():
            return None
        digest = hashlib.sha256()
        if not _hash(source, digest):
            return None
        sources = source_digest(("tools",), ("onnx", "numpy", "ml_dtypes"))
        environment = (options, object_code.host_cpu(), guard.is_requested(), sources)
        digest.update(repr(environment).encode())
        return CachedModel(ObjectCache(folder), digest.hexdigest())

    def load(self, threads: int) -> CompiledModel | None:
        """Load the model; None if it is missing, damaged, or for another machine.

        A model for GPUs checks its device at the first call.
        """
        with self.cache.open_model(self.key) as file:
            if file is None:
                return None
            where = f"{self.cache.folder}: model {self.key}"
            try:
                model = load_file(ModelFile(where, file), threads)
            except RelaxError:
                return None
        is_whole = isinstance(model, CompiledModel) and model.size_bytes is not None
        return model if is_whole else None

    def store(self, model: CompiledModel) -> None:
        """Store a model, if it is compiled ahead of time as a whole."""
        if model.size_bytes is not None:
            self.cache.store_model(self.key, model.size_bytes, model.save)


def _hash(source: str | os.PathLike[str] | bytes, digest: Any) -> bool:
    """Hash a file; returns whether it is readable, and has no external data."""
    if isinstance(source, bytes):
        digest.update(source)
        return _EXTERNAL_DATA not in source
    try:
        if not os.path.isfile(source):  # a pipe can be read only once
            return False
        tail = b""
        with open(source, "rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                digest.update(chunk)
                if _EXTERNAL_DATA in tail + chunk:
                    return False
                tail = chunk[-len(_EXTERNAL_DATA) :]
    except (OSError, ValueError):
        return False  # the importer reads it again, and reports the error
    return True


def _has_foreign_rules() -> bool:
    """Whether import rules from outside this package are registered."""
    hooks = sys.modules.get(_IMPORT_RULES)
    if hooks is None:
        return False
    modules = hooks.rule_modules()
    return _USER_OPERATORS in modules or any(
        not m.startswith("relax_mlir.") for m in modules
    )
