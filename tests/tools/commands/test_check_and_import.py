"""`relax-mlir check` and `relax-mlir import`."""

import json
import os
from pathlib import Path

import numpy as np
import onnx
import pytest
import safetensors.numpy

import relax_mlir
from relax_mlir.tools.cli import main
from tests.tools.commands.examples import SHIFT, shift_model


def test_check_reports_full_coverage(
    compiled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(compiled / "model.onnx")]) == 0

    printed = capsys.readouterr().out
    assert "Relu      1  ok" in printed
    assert "covered: all 2 nodes" in printed


def test_check_lists_every_node_without_a_rule(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(shift_model("Wobble", "Relu", "Wobble"), path)

    status = main(["check", str(path)])

    printed = capsys.readouterr().out
    assert status == 1
    for node in ("Wobble_0", "Wobble_2"):
        line = f"node `{node}` (Wobble, opset 17): no rule: opset 17 has no such"
        assert line in printed
    assert "not covered: 2 of 4 nodes (1 operators without a rule)" in printed


def test_check_prints_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(shift_model("Wobble", "Relu"), path)

    status = main(["check", str(path), "--json"])

    found = json.loads(capsys.readouterr().out)
    assert status == 1
    assert found["covered"] is False
    assert found["opsets"] == {"ai.onnx": 17}
    assert {"operator": "Add", "nodes": ["add"], "covered": True} in found["operators"]
    (missing,) = found["uncovered"]
    assert missing["node"] == "Wobble_0"
    assert (missing["operator"], missing["opset"]) == ("Wobble", 17)


def test_import_prints_the_text(
    compiled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", str(compiled / "model.onnx")]) == 0

    printed = capsys.readouterr().out
    assert 'value = #relax.const<"shift">' in printed
    assert "loc(" not in printed


def test_import_writes_node_names_on_demand(
    compiled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", str(compiled / "model.onnx"), "--locations"]) == 0

    assert 'loc("Relu_0"' in capsys.readouterr().out


def test_import_writes_text_and_arrays(compiled: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.mlir"

    assert main(["import", str(compiled / "model.onnx"), "-o", str(out)]) == 0

    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.mlir", "out.safetensors"]
    # The library itself reads what we wrote.
    arrays = safetensors.numpy.load_file(tmp_path / "out.safetensors")
    np.testing.assert_array_equal(arrays["shift"], SHIFT)
    assert out.read_text() == str(relax_mlir.import_onnx(compiled / "model.onnx"))
    assert oct(out.stat().st_mode) == oct((tmp_path / "out.safetensors").stat().st_mode)


@pytest.mark.parametrize("command", ["import", "compile"])
def test_device_files_are_written_and_not_replaced(
    command: str, compiled: Path, tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe.mlir"
    os.mkfifo(pipe)
    end = os.open(pipe, os.O_RDWR)

    try:
        status = main([command, str(compiled / "model.onnx"), "-o", str(pipe)])
        written = os.read(end, 10)
    finally:
        os.close(end)

    assert status == 0
    assert written.startswith(b"module" if command == "import" else b"PK")
    assert list(tmp_path.iterdir()) == [pipe]
    assert pipe.is_fifo()


def test_import_takes_shapes(
    compiled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [str(compiled / "model.onnx"), "--shape", "x=rows,20"]

    assert main(["import", *arguments]) == 0

    assert '#relax.shape<["rows", "20"]>' in capsys.readouterr().out
