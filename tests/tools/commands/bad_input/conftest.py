"""Fixtures of the tests of bad input."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser

import relax_mlir
from relax_mlir.tools.cli import main
from tests.tools.commands.bad_input.calls import MODEL, Call, Run, X


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one good model as model.onnx, model.mlir and model.rxm."""
    folder = tmp_path_factory.mktemp("models")
    onnx.save(parser.parse_model(MODEL), folder / "model.onnx")
    relax_mlir.import_onnx(folder / "model.onnx").save(folder / "model.mlir")
    model = relax_mlir.compile(folder / "model.onnx", cache=False)
    model.save(folder / "model.rxm")
    np.save(folder / "x.npy", X)
    np.save(folder / "i.npy", np.zeros(2, np.int64))
    return folder


@pytest.fixture
def call(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Call]:
    """Run the command in this process."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    out = tmp_path / "out" / "file"
    out.parent.mkdir()

    def run(*argv: object) -> Run:
        status = main([str(a).replace("{out}", str(out)) for a in argv])
        return Run(status, capsys.readouterr().err, out)

    yield run
    assert (tmp_path / "out").is_dir()
