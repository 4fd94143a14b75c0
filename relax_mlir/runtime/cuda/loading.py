"""Reading compiled models for NVIDIA GPUs."""

import os

from relax_mlir.runtime.cuda.archive import read_archive
from relax_mlir.runtime.cuda.executable import CudaExecutable

__all__ = ["load"]


def load(path: str | os.PathLike[str], threads: int | None = None) -> CudaExecutable:
    """Read what :meth:`CudaExecutable.save` wrote.

    Args:
        path: of the file.
        threads: for models that run on CPUs.

    Raises:
        ModelError: the file is damaged, or of another version.
    """
    return CudaExecutable(read_archive(path))
