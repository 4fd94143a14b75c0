"""Loading of models from files: .onnx, .mlir or .rxm by suffix."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from relax_mlir.compiler.compile import compile
from relax_mlir.errors import ModelError, RelaxError
from relax_mlir.frontends.onnx import import_onnx
from relax_mlir.ir.module import IRModule
from relax_mlir.pipeline import Progress
from relax_mlir.runtime.executable import CompiledModel, load

__all__ = ["CallError", "call_model", "compile_model", "open_model", "read_module"]

Shapes = Mapping[str, Sequence[int | str]]


class CallError(RelaxError):
    """A model rejects its inputs."""


def read_module(path: str, shapes: Shapes, progress: Progress) -> IRModule:
    """Read an ONNX model, or the text of a module with its file of constants.

    Raises:
        RelaxError: it cannot be read, or ``shapes`` do not match it.
        OSError: the file cannot be read.
    """
    progress("import", 0, 1)
    if Path(path).suffix == ".rxm":
        raise ModelError(f"{path}: compiled already: expected .onnx or .mlir")
    if Path(path).suffix != ".mlir":
        return import_onnx(path, shapes=shapes)
    if shapes:
        raise ModelError(f"{path}: `--shape` is for .onnx; the module has its shapes")
    module = IRModule.load(path)
    if any(f.name.value == "main" and f.is_external for f in module.func_ops()):
        raise ModelError(f"{path}: `main` is declared only: expected its body")
    return module


def open_model(
    path: str,
    *,
    threads: int | None,
    progress: Progress,
    cache: bool | str | os.PathLike[str] = True,
    precision: str | None = None,
    winograd: str | None = None,
    checks: str | None = None,
    tuning: str | None = None,
    public_key: str | None = None,
) -> CompiledModel:
    """Compile a .onnx or .mlir file, or load a .rxm file.

    Args:
        path: the file; its suffix determines the format.
        threads: the number of threads per call; None for that of a .rxm, else 1.
        progress: the progress callback of the compilation.
        cache: whether to cache compiled kernels on disk, or the folder to use.
        precision: the precision of matmuls and convolutions; None for f32.
        winograd: the Winograd policy on CPUs; None for auto.
        checks: run-time checks; None for none.
        tuning: the tuning database.
        public_key: the key that must have signed a .rxm.

    Raises:
        RelaxError: it cannot be read, compiled or loaded.
        OSError: the file cannot be read.
    """
    if Path(path).suffix == ".rxm":
        given = {"precision": precision, "winograd": winograd, "tuning": tuning}
        given["check-indices"] = checks
        for option, value in given.items():
            if value is not None:
                raise ModelError(
                    f"{path}: compiled already: `--{option}` is for .onnx and .mlir"
                )
        return _checked(path, load(path, threads=threads, public_key=public_key))
    if public_key is not None:
        raise ModelError(f"{path}: not compiled yet: `--public-key` is for .rxm")
    is_module = Path(path).suffix == ".mlir"
    source = read_module(path, {}, progress) if is_module else path
    options: dict[str, Any] = {"threads": threads or 1, "cache": cache}
    options |= {"precision": precision or "f32", "winograd": winograd or "auto"}
    options |= {"checks": checks or "none", "tuning": tuning}
    options["progress"] = progress
    return compile_model(path, source, **options)


def compile_model(
    path: str,
    source: IRModule | str,
    **options: Any,  # Any: those of relax_mlir.compile
) -> CompiledModel:
    """Compile a module of :func:`read_module`, or an ONNX file.

    Raises:
        RelaxError: it cannot be compiled, or is not a model.
    """
    return _checked(path, compile(source, **options))


def _checked(path: str, value: object) -> CompiledModel:
    if not isinstance(value, CompiledModel):
        raise ModelError(
            f"{path}: expected a model, whose one public function is `main`, got {value!r}"
        )
    return value


def call_model(
    model: CompiledModel, inputs: Sequence[np.ndarray]
) -> tuple[np.ndarray, ...]:
    """Run a model.

    Raises:
        CallError: the inputs do not match the model's signature.
    """
    try:
        return model(*inputs)
    except (TypeError, ValueError) as error:
        raise CallError(str(error)) from error
