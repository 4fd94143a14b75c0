"""Saving of what is compiled: to files, to bytes, and by pickle.

Does not import the compiler: model files for GPUs bundle this module.
"""

from __future__ import annotations

import io
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from importlib import import_module
from typing import Any, BinaryIO

__all__ = ["Serializable"]


class Serializable(ABC):
    """What :func:`relax_mlir.load` loads: a model, kernels, or functions of a module."""

    @abstractmethod
    def save(self, path: str | os.PathLike[str] | BinaryIO) -> None:
        """Write code and weights to one file, for :func:`relax_mlir.load`.

        Args:
            path: of the file, which is written atomically; or an open file, which is
                written at its position.

        Raises:
            OSError: the file cannot be written.
        """

    def export_library(
        self, path: str | os.PathLike[str] | BinaryIO, **options: Any
    ) -> None:
        """The same as :meth:`save`, by TVM's name.

        Args:
            path: as for :meth:`save`.
            options: TVM's linker options; ignored.

        Raises:
            OSError: the file cannot be written.
        """
        self.save(path)

    def to_bytes(self) -> bytes:
        """The bytes that :meth:`save` writes."""
        file = io.BytesIO()
        self.save(file)
        return file.getvalue()

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Pickle and copy it by the file that it would be saved to."""
        return _from_bytes, (self.to_bytes(),)


def _from_bytes(data: bytes) -> Any:
    """Unpickle; subject to the trust policy of loading."""
    return import_module("relax_mlir.runtime.loading").load(data)
