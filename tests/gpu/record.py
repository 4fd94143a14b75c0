"""A pytest plugin that records emulated runs, to be replayed on a real GPU.

``pytest -p tests.gpu.record --record-gpu FOLDER tests/gpu`` writes a zip file per process:
every model that the emulator ran, its inputs and its outputs. ``tests/gpu/replay.py`` runs
them on a GPU and compares.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import relax_mlir
import tests.ptx_emulator
from relax_mlir import IRModule
from relax_mlir.runtime.cuda.archive import pack
from relax_mlir.runtime.cuda.executable import CudaExecutable
from tests.gpu.example import TEXT
from tests.gpu.stub import TARGET

__all__ = ["pytest_addoption", "pytest_configure"]

_MOST_BYTES = 1 << 22  # of inputs, outputs and weights of a case
_CALLED = ("test_onnx_suite", "test_staged_models", "test_runtime_models")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record-gpu", metavar="FOLDER", help="for tests/gpu/replay.py")


def pytest_configure(config: pytest.Config) -> None:
    """Hooks `emulate` and models on the stub driver."""
    folder = config.getoption("--record-gpu")
    if folder is None:
        return
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    Path(folder).mkdir(parents=True, exist_ok=True)
    if worker == "main":
        _write_models(Path(folder))
    recorder = _Recorder(Path(folder) / f"{worker}.zip")
    config.add_cleanup(recorder.close)
    emulate, call = tests.ptx_emulator.emulate, CudaExecutable.__call__

    def recorded_emulate(
        model: CudaExecutable, *arrays: np.ndarray, **options: Any
    ) -> tuple[np.ndarray, ...]:
        outputs = emulate(model, *arrays, **options)
        if options.get("max_blocks") is None:
            recorder.add(model, arrays, outputs)
        return outputs

    def recorded_call(model: CudaExecutable, *arrays: Any, **options: Any) -> Any:
        outputs = call(model, *arrays, **options)
        if not options and any(name in _test_name() for name in _CALLED):
            recorder.add(model, arrays, outputs)
        return outputs

    tests.ptx_emulator.emulate = recorded_emulate
    CudaExecutable.__call__ = recorded_call  # type: ignore[method-assign]


def _write_models(folder: Path) -> None:
    """Writes the models of ``device_checks.py``, one of which carries the runtime."""
    for name, columns in (("runtime", 8), ("wide", 1024)):
        text = TEXT.replace('"8"', f'"{columns}"').replace("?x8x", f"?x{columns}x")
        text = text.replace("8x8xf32", f"{columns}x{columns}xf32")
        relax_mlir.compile(IRModule.parse(text), target=TARGET).save(
            folder / f"{name}.rxm"
        )


def _test_name() -> str:
    return os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]


class _Recorder:
    """The file of one process."""

    def __init__(self, path: Path) -> None:
        self._archive = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
        self._seen: set[bytes] = set()
        self._index: list[dict[str, object]] = []

    def add(
        self, model: CudaExecutable, inputs: Sequence[Any], outputs: Sequence[Any]
    ) -> None:
        """Adds a case, unless it is a duplicate, is large, or has arrays other than numpy's."""
        weights = model.contents.constants.values()
        arrays = [*inputs, *outputs, *weights]
        is_numpy = all(isinstance(array, np.ndarray) for array in arrays)
        if not is_numpy or sum(array.nbytes for array in arrays) > _MOST_BYTES:
            return
        file = io.BytesIO()
        named: dict[str, Any] = {  # Any: `savez` has an option of another type
            **{f"input{n}": _bytes_of(array) for n, array in enumerate(inputs)},
            **{f"output{n}": _bytes_of(array) for n, array in enumerate(outputs)},
        }
        np.savez(file, **named)
        packed = pack(model.contents)
        digest = hashlib.sha256(packed + file.getvalue()).digest()
        if digest in self._seen:
            return
        self._seen.add(digest)
        number = len(self._index)
        self._archive.writestr(f"{number}.model", packed)
        self._archive.writestr(f"{number}.npz", file.getvalue())
        shapes = [[list(a.shape) for a in group] for group in (inputs, outputs)]
        self._index.append({"test": _test_name(), "shapes": shapes})

    def close(self) -> None:
        """Writes the index."""
        self._archive.writestr("index.json", json.dumps(self._index))
        self._archive.close()


def _bytes_of(array: np.ndarray) -> np.ndarray:
    """The bytes of an array in C order, without its element type."""
    return np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
