"""Loading of compiled models, by what is in the file.

What a kind of file needs is imported when one is loaded: shared libraries do not need tvm-ffi.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any, BinaryIO

from relax_mlir.runtime.container import open_archive
from relax_mlir.runtime.exported_model import is_library, load_library
from relax_mlir.runtime.model_file import ModelFile
from relax_mlir.runtime.process_exit import awaited_at_exit
from relax_mlir.runtime.signing import KeySource

__all__ = ["load", "load_file"]


@awaited_at_exit
def load(
    path: str | os.PathLike[str] | bytes | BinaryIO,
    *,
    threads: int | None = None,
    trust: str | None = None,
    public_key: KeySource | None = None,
) -> Any:
    """Load a file that :meth:`Executable.save`, ``export_library`` or ``export`` wrote.

    A compiled model is a program: loading it may run code of the file, and calling it does,
    with the rights of this process. Checksums detect damage, not forgery. Load only files
    from a trusted source: your own, or signed with a trusted key (``relax-mlir sign``).
    ``relax-mlir inspect`` shows the contents of a file without running any of it.

    Args:
        path: of the file; or, of a ``.rxm``, its bytes, or an open file.
        threads: maximum number of threads per call; by default the saved value. Ignored
            for GPUs.
        trust: ``any`` loads any file; ``signed`` only one that is signed with
            ``public_key``. Defaults to the environment variable ``RELAX_MLIR_TRUST``,
            else ``any``.
        public_key: the Ed25519 key that must have signed the file, regardless of
            ``trust``: the path of a PEM file, or its bytes. If only signed files are
            trusted, it defaults to the file in ``RELAX_MLIR_PUBLIC_KEY``. Needs ``pip
            install relax-mlir-runtime[sign]``.

    Returns:
        The saved object.

    Raises:
        ModelError: the file is damaged, or of another version.
        SignatureError: the file is not signed with the key, or was changed since; or there
            is no key, or ``cryptography`` is missing.
        CompileError: the code is for another machine, or cannot be loaded.
        ValueError: ``trust`` is neither ``any`` nor ``signed``.
    """
    if is_library(path):
        return load_library(path, threads, trust, public_key)
    with ModelFile.open(path, trust, public_key) as file:
        return load_file(file, threads)


def load_file(file: ModelFile, threads: int | None = None) -> Any:
    """Load an open file, which the caller has checked for trust; see :func:`load`."""
    with open_archive(file) as archive:
        members = archive.namelist()
    if "cuda.json" in members:  # the manifest of a model for GPUs
        return import_module("relax_mlir.runtime.cuda.loading").load(file, threads)
    if "vm.json" in members:
        return import_module("relax_mlir.runtime.host.archive").load(file, threads)
    return import_module("relax_mlir.runtime.executable").load(file, threads)
