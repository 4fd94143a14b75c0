"""Fixtures of the command line tests."""

from pathlib import Path

import numpy as np
import onnx
import pytest

import relax_mlir
from tests.tools.commands.examples import X, shift_model


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one model as model.onnx, model.mlir and model.rxm."""
    folder = tmp_path_factory.mktemp("models")
    onnx.save(shift_model("Relu"), folder / "model.onnx")
    relax_mlir.import_onnx(folder / "model.onnx").save(folder / "model.mlir")
    model = relax_mlir.compile(folder / "model.onnx", cache=folder / "cache")
    model.save(folder / "model.rxm")
    np.save(folder / "x.npy", X)
    return folder


@pytest.fixture(autouse=True)
def cache(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A cache folder shared by all tests, which have few kernels."""
    folder = tmp_path_factory.getbasetemp() / "xdg"
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder
