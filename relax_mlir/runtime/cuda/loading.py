"""Loading of compiled models for NVIDIA GPUs."""

import os

from relax_mlir.runtime.cuda.archive import read_archive
from relax_mlir.runtime.cuda.executable import CudaExecutable
from relax_mlir.runtime.model_file import ModelFile
from relax_mlir.runtime.signing import KeySource

__all__ = ["load"]


def load(
    path: str | os.PathLike[str],
    threads: int | None = None,
    *,
    trust: str | None = None,
    public_key: KeySource | None = None,
) -> CudaExecutable:
    """Load a file that :meth:`CudaExecutable.save` wrote.

    Args:
        path: of the file.
        threads: ignored.
        trust, public_key: trust policy; see :func:`relax_mlir.load`.

    Raises:
        ModelError: the file is damaged, or of another version.
        SignatureError: the required signature is missing or invalid.
    """
    if isinstance(path, ModelFile):
        return CudaExecutable(read_archive(path))
    with ModelFile.open(path, trust, public_key) as file:
        return CudaExecutable(read_archive(file))
