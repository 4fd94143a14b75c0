"""`relax-mlir profile`: a line for each kernel, and one for the rest."""

import json
from pathlib import Path

import onnx
import pytest

import relax_mlir
from relax_mlir.tools.cli import main


@pytest.mark.parametrize("name", ["model.onnx", "model.mlir", "model.rxm"])
def test_profile_shows_kernels_and_the_rest(
    name: str, compiled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(compiled / name)

    assert main(["profile", path, "--size", "n=2", "--calls", "3"]) == 0

    head, *table = capsys.readouterr().out.splitlines()
    titles, kernel, rest, whole = (line.split() for line in table)
    assert head == f"{path}: x [2, 20], threads: 1"
    assert titles == ["kernel", "rule", "runs", "ms", "share", "GFLOP/s", "nodes"]
    called, _, runs, time_ms, share, *nodes = kernel
    assert (called, runs) == ("fused_add_relu", "1")
    # The text of a module has no names of nodes.
    assert nodes == ([] if name.endswith(".mlir") else ["add", "+1"])
    assert rest[:3] == ["main", "and", "rest"]
    assert (whole[:2], whole[3]) == (["whole", "call"], "100.0%")
    assert 0 <= float(time_ms) <= float(whole[2])
    assert 0 <= float(share.removesuffix("%")) <= 100


def test_profile_as_json(compiled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [str(compiled / "model.rxm"), "--json", "--calls", "2"]

    assert main(["profile", *arguments, "--threads", "2"]) == 0

    found = json.loads(capsys.readouterr().out)
    assert (found["shapes"], found["threads"]) == ({"x": [1, 20]}, 2)
    assert found["calls"] == 2
    (kernel,) = found["kernels"]
    assert (kernel["name"], kernel["nodes"]) == ("fused_add_relu", ["add", "Relu_0"])
    (loaded,) = relax_mlir.load(compiled / "model.rxm").kernels
    assert kernel["rule"] == loaded.rule
    assert 0 < kernel["time_ms"] < found["total_ms"]
    assert 0 < found["rest_ms"] < found["total_ms"]


def test_runs_are_summed_or_listed_in_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["" : 21]>
        g (float[4, 4] x) => (float[4, 4] z) { y = MatMul (x, x) z = MatMul (y, y) }
    """)
    onnx.save(model, tmp_path / "twice.onnx")
    command = ["profile", str(tmp_path / "twice.onnx"), "--calls", "1", "--json"]

    assert main(command) == 0
    (both,) = json.loads(capsys.readouterr().out)["kernels"]
    assert main([*command, "--in-order"]) == 0
    first, second = json.loads(capsys.readouterr().out)["kernels"]

    assert (both["runs"], first["runs"], second["runs"]) == (2, 1, 1)
    assert both["nodes"] == first["nodes"] + second["nodes"]
    assert both["name"] == first["name"] == second["name"]
    assert first["rate_gflop_s"] == pytest.approx(2 * 4**3 / first["time_ms"] / 1e6)


def test_staged_model_is_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["" : 21]>
        g (float[4] x) => (int64[1, m] i) { i = NonZero (x) }
    """)
    onnx.save(model, tmp_path / "model.onnx")

    assert main(["profile", str(tmp_path / "model.onnx")]) == 1

    captured = capsys.readouterr()
    assert captured.out == ""
    assert "JIT-compiled" in captured.err


def test_mismatched_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["" : 21]>
        g (float[n] x) => (float[2, m] y)
            <int64[2] shape = {2, -1}> { y = Reshape (x, shape) }
    """)
    onnx.save(model, tmp_path / "model.onnx")

    assert main(["profile", str(tmp_path / "model.onnx"), "--size", "n=3"]) == 1

    error = capsys.readouterr().err
    assert "ValueError" not in error
    assert "expected" in error
