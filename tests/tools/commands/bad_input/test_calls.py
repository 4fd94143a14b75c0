"""Failing invocations print one clear message, and leave no partial files."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from relax_mlir.tools.cli import main
from tests.tools.commands.bad_input.calls import Call, X


@pytest.mark.parametrize(
    ("out", "problem"),
    [
        ("{folder}/none/file", "/none/file: No such file or directory"),
        ("{folder}", ": Is a directory"),
        ("{model}/file", "/file: Not a directory"),
        ("", ": Is a directory"),
    ],
)
@pytest.mark.parametrize("command", ["compile", "import"])
def test_unwritable_outputs(
    command: str, out: str, problem: str, models: Path, tmp_path: Path, call: Call
) -> None:
    path = models / "model.onnx"
    out = out.replace("{folder}", str(tmp_path / "out")).replace("{model}", str(path))

    call(command, path, "-o", out).failed(re.escape(problem))

    assert not list((tmp_path / "cache").rglob("*"))  # said before the work began


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        ("{model}", "File exists|Not a directory"),
        ("{model}/sub", "Not a directory"),
        ("y={folder}", "Is a directory"),
        ("z=z.npy", "no output `z`: expected one of `y`, `j`"),
    ],
)
def test_run_cannot_write(
    output: str, problem: str, models: Path, tmp_path: Path, call: Call
) -> None:
    path = models / "model.rxm"
    output = output.replace("{model}", str(path)).replace("{folder}", str(tmp_path))

    call("run", path, "--random-inputs", "--output", output).failed(problem)


def test_failed_run_keeps_the_old_output(models: Path, tmp_path: Path) -> None:
    out = tmp_path / "y.npy"
    out.write_text("old")
    np.save(tmp_path / "x.npy", X[:, :19])
    flags = ["--input", f"x={tmp_path / 'x.npy'}", "--input", f"i={models / 'i.npy'}"]

    status = main(["run", str(models / "model.rxm"), *flags, "--output", f"y={out}"])

    assert status == 1
    assert out.read_text() == "old"


def npy(array: np.ndarray) -> Callable[[Path], None]:
    return lambda path: np.save(path, array, allow_pickle=True)


def npz(path: Path) -> None:
    with path.open("wb") as file:
        np.savez(file, X)


def huge(path: Path) -> None:
    """The .npy header of an array larger than memory."""
    np.save(path, X)
    data = path.read_bytes().replace(b"(2, 20), }", b"(2, 20%s), }" % (b"0" * 10))
    path.write_bytes(data.replace(b" " * 10, b"", 1))


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda path: None, "input `x`: .*x.npy: no such file"),
        (lambda path: path.mkdir(), "input `x`: .*x.npy: not a regular file"),
        (lambda path: path.write_bytes(b""), "not a .npy file, or damaged"),
        (lambda path: path.write_bytes(b"x" * 500), "not a .npy file, or damaged"),
        (lambda path: path.write_bytes(b"\x93NUMPY\x01\x00"), "not a .npy file"),
        (npz, r"expected one array \(.npy\), got an archive"),
        (npy(np.array([None, {}])), "not a .npy file"),
        (npy(np.array(["a", "b"])), "element type float32, got <U1"),
        (npy(np.ones(2, [("a", "f4")])), "element type float32, got"),
        (huge, "not a .npy file, or damaged"),
        (
            npy(X.astype(np.float64)),
            "input `x`: .*expected element type float32, got float64",
        ),
        (npy(X.astype(np.uint8)), "expected element type float32, got uint8"),
        (npy(X.astype(np.complex64)), "expected element type float32, got complex64"),
        (npy(X[0]), "`x`: expected rank 2, got 1"),
        (npy(X[:, :19]), "`x`: dimension 1: expected 20, got 19"),
        (npy(X[:1]), r"`i`: dimension 0 \(`n`\): expected 1 .*, got 2"),
    ],
    ids=[
        *("missing", "directory", "empty", "garbage", "cut", "npz", "pickle", "text"),
        *("fields", "huge", "f64", "u8", "complex", "rank", "size", "symbol"),
    ],
)
def test_mismatched_inputs(
    make: Callable[[Path], None],
    problem: str,
    models: Path,
    tmp_path: Path,
    call: Call,
) -> None:
    make(tmp_path / "x.npy")
    flags = ["--input", f"x={tmp_path / 'x.npy'}", "--input", f"i={models / 'i.npy'}"]

    call("run", models / "model.rxm", *flags).failed(problem)


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        ([], "inputs without a value: `x`, `i`. Give them"),
        (["--input", "x={x}"], "inputs without a value: `i`"),
        (["--input", "z={x}"], "no input `z`: expected `x`, `i`"),
        (["--random-inputs", "--size", "m=2"], "no size `m`: expected `n`"),
        (["--random-inputs", "--size", f"n={2**40}"], "input `x`: cannot make"),
        (
            ["--random-inputs", "--input", "i={x}"],
            "expected element type int64, got float32",
        ),
    ],
)
def test_run_rejects(
    flags: Sequence[str], problem: str, models: Path, call: Call
) -> None:
    flags = [flag.replace("{x}", str(models / "x.npy")) for flag in flags]

    call("run", models / "model.rxm", *flags).failed(problem)


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["fly"],
        ["run"],
        ["check", "a", "b"],
        ["compile", "m.onnx"],
        ["compile", "m.onnx", "-o", "x", "--threads", "0"],
        ["compile", "m.onnx", "-o", "x", "--threads", "many"],
        ["compile", "m.onnx", "-o", "x", "--threads", "9" * 30],
        ["compile", "m.onnx", "-o", "x", "--shape", "x"],
        ["compile", "m.onnx", "-o", "x", "--shape", "x=1,,2"],
        ["run", "m.onnx", "--input", "x"],
        ["run", "m.onnx", "--size", "n=2"],
        ["run", "m.onnx", "--random-inputs", "--size", "n=-2"],
        ["run", "m.onnx", "--random-inputs", "--size", "n"],
        ["run", "m.onnx", "--input", "x=a", "--input", "x=b"],
        ["run", "m.onnx", "--random-inputs", "--seed", "-1"],
        ["bench", "m.onnx", "--rounds", "0"],
        ["profile", "m.onnx", "--calls", "0"],
        ["doctor", "--fix"],
    ],
    ids=" ".join,
)
def test_invalid_usage(argv: list[str], call: Call) -> None:
    call(*argv).failed(".", status=2)


def test_tracebacks_only_on_demand(call: Call, tmp_path: Path) -> None:
    run = call("check", tmp_path / "none.onnx", "--debug")

    assert run.status == 1
    assert "Traceback" in run.error
    assert "relax-mlir: error: " in run.error
