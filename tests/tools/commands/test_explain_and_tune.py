"""`relax-mlir explain` and `relax-mlir tune`."""

import json
from pathlib import Path

import pytest

from relax_mlir import TuningDatabase
from relax_mlir.compiler.tuning import search
from relax_mlir.tools.cli import main


def test_explain_lists_rules_and_reasons(
    compiled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", str(compiled / "model.onnx")]) == 0

    head, nodes, written, *refused = capsys.readouterr().out.splitlines()
    assert head == "fused_add_relu"
    assert nodes == "  nodes: add, Relu_0"
    assert written.startswith("  written by RowWise{vectors=1, chunk=")
    assert "  not Gemm: its first statement is not a sum reduction" in refused


def test_explain_lists_configurations(
    compiled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["explain", str(compiled / "model.mlir"), "--target", "cpu:znver3"]

    assert main([*command, "--all"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert main([*command, "--json"]) == 0
    (kernel,) = json.loads(capsys.readouterr().out)

    ways = kernel["choice"]["configurations"]
    assert len(ways) > 1
    assert [line.strip() for line in lines[-len(ways) :]] == ways
    assert kernel["choice"]["configuration"] == ways[0]
    assert {"rule", "reason"} == kernel["choice"]["refused"][0].keys()


def test_explain_rejects_compiled_models(
    compiled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", str(compiled / "model.rxm")]) == 1

    assert "model.rxm: compiled already" in capsys.readouterr().err


def test_tune_writes_a_database_that_other_commands_use(
    compiled: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(search, "_SAMPLE_NS", 1)
    source, database = str(compiled / "model.onnx"), str(tmp_path / "db.json")

    command = ["tune", source, "-o", database, "--trials", "2", "--size", "n=3"]
    assert main(command) == 0

    titles, kernel = capsys.readouterr().out.splitlines()
    assert titles.split()[:3] == ["kernel", "configuration", "trials"]
    assert kernel.startswith("fused_add_relu  RowWise{vectors=")
    (record,) = TuningDatabase.read(database).records.values()
    assert record.trials == 2
    out = ["-o", str(tmp_path / "o.rxm")]
    assert main(["compile", source, *out, "--tuning", database]) == 0
    assert main(["profile", source, "--tuning", database, "--calls", "1"]) == 0
    assert main(["explain", source, "--tuning", database]) == 0


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["tune", "model.onnx"], 2, "the following arguments are required: -o"),
        (["tune", "model.rxm", "-o", "db.json"], 1, "compiled already"),
        (
            ["tune", "model.onnx", "-o", "db.json", "--size", "k=1"],
            1,
            "no symbolic size `k`",
        ),
        (["profile", "model.rxm", "--tuning", "db.json"], 1, "compiled already"),
        (["explain", "model.onnx", "--tuning", "none.json"], 1, "No such file"),
        (["explain", "model.onnx", "--tuning", "x.npy"], 1, "not a tuning database"),
    ],
)
def test_invalid_usage(
    arguments: list[str],
    status: int,
    message: str,
    compiled: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(compiled)

    assert main(arguments) == status

    assert message in capsys.readouterr().err
