"""Files that each release wrote, read by this version."""

import json
import platform
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import relax_mlir
from relax_mlir.compiler.tuning.database import TuningDatabase
from relax_mlir.errors import CompileError, ModelError, SignatureError

RELEASES = sorted(p for p in Path(__file__).parent.iterdir() if p.name[0].isdigit())

pytestmark = [
    pytest.mark.skipif(
        platform.machine() != "x86_64", reason="the files are for x86-64"
    ),
    pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name),
]


def check_results(release: Path, model: Any) -> None:
    with np.load(release / "data.npz") as data:
        np.testing.assert_allclose(model(data["x"])[0], data["y"], rtol=1e-5, atol=1e-5)


def load_or_explain(release: Path, name: str, **options: Any) -> None:
    """Load a model file, which is of this version's format, or says what to do."""
    problem = None
    try:
        check_results(release, relax_mlir.load(release / name, **options))
    except ModelError as error:
        problem = str(error)
    if release.name == relax_mlir.__version__:
        assert problem is None, f"{problem}. Run `python -m tests.releases`"
    elif problem is not None:
        again = "Compile it again: `relax-mlir compile MODEL.onnx -o MODEL.rxm`"
        pattern = r"expected format \d+, got \d+\. " + re.escape(again)
        assert re.search(pattern, problem)


def test_every_version_has_its_files(release: Path) -> None:
    assert Path(__file__).with_name(relax_mlir.__version__) in RELEASES
    check_results(release, relax_mlir.compile(release / "small.onnx", cache=False))


def test_model_files(release: Path) -> None:
    load_or_explain(release, "small.rxm")


def test_signed_model_files(release: Path) -> None:
    pytest.importorskip("cryptography")
    key = release / "key.pub.pem"
    load_or_explain(release, "signed.rxm", public_key=key)
    data = bytearray((release / "signed.rxm").read_bytes())
    data[len(data) // 2] ^= 1
    with pytest.raises(SignatureError):
        relax_mlir.load(bytes(data), public_key=key)


def test_exported_libraries(release: Path) -> None:
    try:
        model = relax_mlir.load(release / "small.so")
    except CompileError as error:
        if "GLIBC_" not in str(error):
            raise
        pytest.skip(f"it was linked on a newer system: {error}")
    check_results(release, model)


def test_tuning_databases(release: Path) -> None:
    path = release / "tuning.json"
    records = TuningDatabase.read(path).records
    assert len(records) == json.loads((release / "facts.json").read_text())["records"]
    model = relax_mlir.compile(release / "small.onnx", tuning=path, cache=False)
    check_results(release, model)
