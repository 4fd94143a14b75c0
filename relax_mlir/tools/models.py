"""Models on disk: what they are by their names, and the way to something that runs."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from relax_mlir.compilation import compile
from relax_mlir.errors import ModelError, RelaxError
from relax_mlir.frontends.onnx import import_onnx
from relax_mlir.module import IRModule
from relax_mlir.pipeline import Progress
from relax_mlir.runtime.executable import CompiledModel, load

__all__ = ["CallError", "call", "compiled", "open_model", "read_module"]

Shapes = Mapping[str, Sequence[int | str]]


class CallError(RelaxError):
    """Inputs do not fit a model, or it fails on them."""


def read_module(path: str, shapes: Shapes, progress: Progress) -> IRModule:
    """Read an ONNX model, or the text of a module with the constants beside it.

    Raises:
        RelaxError: it cannot be read, or ``shapes`` do not fit it.
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
    """Make a model run, whatever it is: .onnx, .mlir or .rxm.

    Args:
        path: of the file; the end of its name says what it is.
        threads: how many may work on one call; None for what a .rxm was compiled with,
            or 1.
        progress: is told of every stage of a compilation.
        cache: keep compiled kernels on disk; True for the user's cache folder.
        precision: in which products are computed; f32 if it is None.
        winograd: whether CPUs compute convolutions by Winograd; auto if it is None.
        checks: what the model checks when it runs; nothing if it is None.
        tuning: the database to compile with.
        public_key: the key that has to have signed a .rxm.

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
    return compiled(path, source, **options)


def compiled(
    path: str,
    source: IRModule | str,
    **options: Any,  # Any: those of relax_mlir.compile
) -> CompiledModel:
    """Compile what :func:`read_module` read, or an ONNX file.

    Raises:
        RelaxError: it cannot be compiled, or is no model.
    """
    return _checked(path, compile(source, **options))


def _checked(path: str, made: object) -> CompiledModel:
    if not isinstance(made, CompiledModel):
        raise ModelError(
            f"{path}: expected a model, whose one public function is `main`, got {made!r}"
        )
    return made


def call(model: CompiledModel, inputs: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    """Run a model.

    Raises:
        CallError: the inputs do not fit.
    """
    try:
        return model(*inputs)
    except (TypeError, ValueError) as error:
        raise CallError(str(error)) from error
