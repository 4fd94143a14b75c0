"""Compiler of the GPU benchmark cases: ``python -m benchmarks.gpu FOLDER``."""

from __future__ import annotations

import argparse
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

import relax_mlir
from benchmarks.gpu.cases import CASES, Case
from relax_mlir.runtime.cuda.archive import Contents, write_archive
from relax_mlir.runtime.cuda.executable import CudaExecutable

__all__ = ["compile_case", "main"]

_TARGET = "cuda:sm_90"
_LARGE_BYTES = 1 << 16  # larger weights are generated on the GPU machine


def main(arguments: Sequence[str] | None = None) -> None:
    """Compile all cases, or those named on the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu")
    parser.add_argument("folder", type=Path)
    parser.add_argument("cases", nargs="*", metavar="CASE")
    chosen = parser.parse_args(arguments)
    chosen.folder.mkdir(parents=True, exist_ok=True)
    for case in CASES:
        if not chosen.cases or case.name in chosen.cases:
            path = compile_case(case, chosen.folder)
            print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")


def compile_case(case: Case, folder: Path) -> Path:
    """Write the compiled model of a case, compressed, with zeros for large weights."""
    executable = relax_mlir.compile(
        relax_mlir.import_onnx(case.build()), target=_TARGET
    )
    assert isinstance(executable, CudaExecutable)
    model = folder / f"{case.name}.rxm"
    write_archive(model, _without_weights(executable.contents))
    path = model.with_suffix(".zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(model, model.name)
    model.unlink()
    return path


def _without_weights(contents: Contents) -> Contents:
    constants = {
        key: np.zeros_like(array) if _is_large_weight(array) else array
        for key, array in contents.constants.items()
    }
    return replace(contents, constants=constants)


def _is_large_weight(array: np.ndarray) -> bool:
    """Whether a constant is large and may be random: floats, not indices."""
    return array.nbytes >= _LARGE_BYTES and array.dtype.kind not in "iu"


if __name__ == "__main__":
    main()
