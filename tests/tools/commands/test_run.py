"""`relax-mlir run`: inputs from files, outputs to files."""

from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import relax_mlir
from relax_mlir.tools.cli import main
from tests.tools.commands.examples import X, relu


@pytest.mark.parametrize("source", ["model.onnx", "model.mlir", "model.rxm"])
def test_run_shows_outputs(
    source: str, compiled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = main(["run", str(compiled / source), "--input", f"x={compiled / 'x.npy'}"])

    captured = capsys.readouterr()
    assert (status, captured.err) == (0, "")
    first, row, _ = captured.out.splitlines()
    y = relu(X)
    assert first == f"y/out: float32[2, 20], 0 to {y.max():.6g}, mean {y.mean():.6g}"
    assert row == (
        f"  row 0: 19 ({y[0, 19]:.4g}), 18 ({y[0, 18]:.4g}), 17 ({y[0, 17]:.4g}), "
        f"16 ({y[0, 16]:.4g}), 15 ({y[0, 15]:.4g})"
    )


def test_run_writes_outputs_to_a_folder(compiled: Path, tmp_path: Path) -> None:
    arguments = [str(compiled / "model.rxm"), "--input", f"x={compiled / 'x.npy'}"]

    assert main(["run", *arguments, "--output", str(tmp_path / "new/out")]) == 0

    found = np.load(tmp_path / "new/out/y_out.npy")
    np.testing.assert_allclose(found, relu(X), rtol=1e-6)


def test_run_writes_an_output_to_a_file(compiled: Path, tmp_path: Path) -> None:
    arguments = [str(compiled / "model.rxm"), "--input", f"x={compiled / 'x.npy'}"]

    assert main(["run", *arguments, "--output", f"y/out={tmp_path / 'y.npy'}"]) == 0

    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), relu(X), rtol=1e-6)


def test_run_makes_clashing_file_names_unique(tmp_path: Path) -> None:
    text = """
    func.func @main(%x: tensor<5xf32>) -> (tensor<5xf32>, tensor<5xf32>)
        attributes {relax.input_names = ["x"], relax.output_names = ["y/1", "y_1"]} {
      %0 = "relax.nn_relu"(%x) : (tensor<5xf32>) -> tensor<5xf32>
      %1 = "relax.exp"(%x) : (tensor<5xf32>) -> tensor<5xf32>
      return %0, %1 : tensor<5xf32>, tensor<5xf32>
    }"""
    (tmp_path / "m.mlir").write_text(text)
    np.save(tmp_path / "x.npy", -np.ones(5, np.float32))
    flags = ["--input", f"x={tmp_path / 'x.npy'}", "--output", str(tmp_path / "out")]

    assert main(["run", str(tmp_path / "m.mlir"), *flags]) == 0

    np.testing.assert_array_equal(np.load(tmp_path / "out/y_1.npy"), np.zeros(5))
    found = np.load(tmp_path / "out/1_y_1.npy")
    np.testing.assert_allclose(found, np.full(5, np.exp(-1)), rtol=1e-6)


def test_run_makes_random_inputs(
    compiled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["run", str(compiled / "model.rxm"), "--random-inputs"]

    shown: list[str] = []
    for flags in (["--size", "n=3"], ["--size", "n=3"], ["--seed", "1"], []):
        assert main([*arguments, *flags]) == 0
        shown.append(capsys.readouterr().out)

    assert shown[0].startswith("y/out: float32[3, 20], ")
    assert shown[0] == shown[1]
    assert shown[2].startswith("y/out: float32[1, 20], ")
    assert shown[2] != shown[3]


@pytest.mark.parametrize("change", ["big-endian", "fortran", "strided"])
def test_run_accepts_all_numpy_layouts(
    change: str, compiled: Path, tmp_path: Path
) -> None:
    changes: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "big-endian": lambda x: x.astype(">f4"),
        "fortran": np.asfortranarray,
        "strided": lambda x: np.repeat(x, 2, axis=0)[::2],
    }
    np.save(tmp_path / "x.npy", changes[change](X))
    flags = ["--input", f"x={tmp_path / 'x.npy'}", "--output", str(tmp_path)]

    assert main(["run", str(compiled / "model.rxm"), *flags]) == 0

    np.testing.assert_allclose(np.load(tmp_path / "y_out.npy"), relu(X), rtol=1e-6)


def test_run_reads_the_bfloat16_it_writes(tmp_path: Path) -> None:
    text = """
    func.func @main(%x: tensor<5xbf16>) -> tensor<5xbf16> {
      %y = "relax.nn_relu"(%x) : (tensor<5xbf16>) -> tensor<5xbf16>
      return %y : tensor<5xbf16>
    }"""
    (tmp_path / "m.mlir").write_text(text)
    source, out = str(tmp_path / "m.mlir"), tmp_path / "out"
    model = relax_mlir.compile(relax_mlir.IRModule.load(source))
    (output,) = model.output_names
    (name,) = model.input_names
    x = np.array([-1, 0.5, 2, -3, 4], ml_dtypes.bfloat16)
    np.save(tmp_path / "x.npy", x)

    flags = ["--input", f"{name}={tmp_path / 'x.npy'}", "--output", str(out)]
    assert main(["run", source, *flags]) == 0

    found = np.load(out / f"{output}.npy").view(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(found, np.maximum(x, 0))


@pytest.mark.parametrize("is_compiled", [False, True])
def test_run_checks_indices(
    is_compiled: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = """
    func.func @main(%x: tensor<5xf32>, %i: tensor<1xi64>) -> tensor<1xf32>
        attributes {relax.input_names = ["x", "i"]} {
      %y = "relax.take"(%x, %i) {axis = 0 : i64, mode = "fast"} : (tensor<5xf32>, tensor<1xi64>) -> tensor<1xf32>
      return %y : tensor<1xf32>
    }"""
    source, checks = tmp_path / "m.mlir", ["--check-indices"]
    source.write_text(text)
    np.save(tmp_path / "x.npy", np.arange(5, dtype=np.float32))
    np.save(tmp_path / "i.npy", np.array([5]))
    if is_compiled:
        file = str(tmp_path / "m.rxm")
        assert main(["compile", str(source), "-o", file, *checks]) == 0
        source, checks = Path(file), []
    inputs = [f"--input={name}={tmp_path / name}.npy" for name in "xi"]
    capsys.readouterr()

    assert main(["run", str(source), *inputs, *checks]) == 1

    error = capsys.readouterr().err
    assert "operand `indices`: index out of range at [0]: expected -5 to 4" in error


def test_run_rejects_index_checks_for_compiled_models(
    compiled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--input", f"x={compiled / 'x.npy'}", "--check-indices"]

    assert main(["run", str(compiled / "model.rxm"), *flags]) == 1

    assert "`--check-indices` is for .onnx and .mlir" in capsys.readouterr().err
