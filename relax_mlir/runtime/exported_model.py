"""Models that were exported to a shared library, as compiled models."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, TypeGuard

import numpy as np

from relax_mlir.errors import (
    CompileError,
    IndexOutOfRangeError,
    ModelError,
    OutOfMemoryError,
    SignatureError,
    UnknownNameError,
    UnsupportedError,
)
from relax_mlir.runtime.compiled_model import CompiledModel
from relax_mlir.runtime.elf import as_file, check_segments
from relax_mlir.runtime.exported_library import ExportedLibrary
from relax_mlir.runtime.model_file import trusted_key
from relax_mlir.runtime.profile import Profile
from relax_mlir.runtime.signature import Parameter, Signature
from relax_mlir.runtime.signing import KeySource
from relax_mlir.support.files import atomic_file

__all__ = ["ExportedModel", "is_library", "load_library"]

_MAGIC = b"\x7fELF"


def is_library(source: object) -> TypeGuard[str | os.PathLike[str] | bytes]:
    """Whether this is the path of a shared library, or its bytes."""
    if isinstance(source, bytes):
        return source.startswith(_MAGIC)
    if not isinstance(source, (str, os.PathLike)):
        return False
    try:
        with Path(source).open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except (OSError, ValueError):  # reported where it is opened
        return False


def load_library(
    source: str | os.PathLike[str] | bytes,
    threads: int | None,
    trust: str | None,
    public_key: KeySource | None,
) -> ExportedModel:
    """Load a shared library; arguments as for :func:`relax_mlir.load`.

    Raises:
        SignatureError: signed files alone are trusted, and libraries cannot be signed.
        ModelError: it is damaged, or no exported model.
        CompileError: it is for another machine.
    """
    where = "model" if isinstance(source, bytes) else os.fspath(source)
    if trusted_key(trust, public_key) is not None:
        raise SignatureError(
            f"{where}: a shared library has no signature: expected a signed .rxm"
        )
    with ExitStack() as stack:
        path: str | os.PathLike[str]
        if isinstance(source, bytes):
            check, path = io.BytesIO(source), stack.enter_context(as_file(source))
        else:
            check, path = stack.enter_context(Path(source).open("rb")), source
        try:
            check_segments(check)
            library = ExportedLibrary(path)
        except OSError as error:
            raise CompileError(f"{where}: {error}") from error
        except ValueError as error:
            raise ModelError(f"{where}: {error}") from error
    return ExportedModel(library, source, 0 if threads is None else threads)


class ExportedModel(CompiledModel):
    """A model of a shared library; call it with arrays.

    Args:
        library: the loaded library.
        source: its file, or its bytes.
        threads: maximum number of threads per call; 0 for one per processor.
    """

    def __init__(
        self,
        library: ExportedLibrary,
        source: str | os.PathLike[str] | bytes,
        threads: int,
    ) -> None:
        self._library, self._source, self.threads = library, source, threads
        inputs, outputs = (
            tuple(
                Parameter(p["name"], p["dtype"], tuple(p["shape"])) for p in parameters
            )
            for parameters in (library.signature[r] for r in ("inputs", "outputs"))
        )
        self.signature = Signature(inputs, outputs, (), (), (), "0", ())

    def __call__(
        self, *arrays: Any, out: Sequence[Any] | None = None, **named: Any
    ) -> tuple[np.ndarray, ...]:  # Any: DLPack arrays
        arrays, out = self._bound(arrays, out, named)
        try:
            return tuple(self._library.run(_numpy(arrays), out, self.threads))
        except MemoryError as error:
            raise OutOfMemoryError(str(error)) from error
        except IndexError as error:
            raise IndexOutOfRangeError(str(error)) from error

    def __getitem__(self, name: str) -> Callable[..., Any]:
        if name != "main":
            raise UnknownNameError(f"executable has one function, `main`, got `{name}`")
        return lambda *arrays: list(
            self._library.run(_numpy(arrays), None, self.threads)
        )

    def profile(self, *arrays: Any, calls: int = 20, **named: Any) -> Profile:
        raise UnsupportedError(
            "profile: a shared library does not measure its kernels. Hint: compile the model"
        )

    def save(self, path: str | os.PathLike[str] | BinaryIO) -> None:
        """Copy the library."""
        source = self._source
        data = source if isinstance(source, bytes) else Path(source).read_bytes()
        if isinstance(path, (str, os.PathLike)):
            with atomic_file(path) as copy:
                copy.write_bytes(data)
        else:
            path.write(data)


def _numpy(arrays: Sequence[Any]) -> list[np.ndarray]:  # Any: DLPack arrays
    return [a if isinstance(a, np.ndarray) else _as_numpy(a) for a in arrays]


def _as_numpy(array: Any) -> np.ndarray:  # Any: a DLPack array
    is_exchanged = hasattr(array, "__dlpack__")
    return np.from_dlpack(array) if is_exchanged else np.asarray(array)
