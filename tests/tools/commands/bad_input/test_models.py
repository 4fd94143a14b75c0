"""Files that are not models are rejected with one clear message."""

import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser

import relax_mlir
from relax_mlir.errors import IRError
from relax_mlir.ir.constant_pool import save_pool
from tests.tools.commands.bad_input.calls import COMMANDS, MODEL, Call

BAD_AXIS = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = "relax.nn_softmax"(%x) {axis = 7 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
"""


CALL = """
func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32>
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = func.call @f(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
"""


_LISTS = ("inputs", "outputs", "symbols", "derived", "constraints", "constants")


_SIGNATURE = json.dumps({"arena": "0", **{name: [] for name in _LISTS}})


NO_KERNEL = """
module attributes {relax.signature = "SIGNATURE"} {
func.func private @f()
func.func @main() {
  func.call @f() : () -> ()
  return
}
}
""".replace("SIGNATURE", _SIGNATURE.replace('"', "\\22"))


def damaged(models: Path, folder: Path, kind: str, suffix: str) -> Path:
    """A file that is not a model."""
    path = folder / f"bad{suffix}"
    whole = (models / f"model{suffix}").read_bytes()
    contents = {
        "empty": b"",
        "random": np.random.default_rng(0).bytes(2000),
        "truncated": whole[: len(whole) // 2],
    }
    if kind == "directory":
        path.mkdir()
    elif kind in contents:
        path.write_bytes(contents[kind])
    return path


@pytest.mark.parametrize(
    "kind", ["missing", "directory", "empty", "random", "truncated"]
)
@pytest.mark.parametrize("suffix", [".onnx", ".mlir", ".rxm"])
@pytest.mark.parametrize("command", COMMANDS)
def test_files_that_are_not_models(
    command: str, suffix: str, kind: str, models: Path, tmp_path: Path, call: Call
) -> None:
    path = damaged(models, tmp_path, kind, suffix)

    run = call(*COMMANDS[command], path)

    run.failed("bad" if kind != "empty" else "bad|`main`")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("module {\n  func.func @main(", r"bad.mlir: malformed module: line 2"),
        ("{" * 100_000, "nested deeper than"),
        ("func.func private @main(tensor<4xf32>)", "bad.mlir: `main` is declared only"),
        (BAD_AXIS, "line 3, column 8: `relax.nn_softmax`: axis is out of range"),
        (CALL, "line 4, column 8: `func.call`: expected calls of tensor programs only"),
        (NO_KERNEL, "line 5, column 3: `main` calls `f`: expected a PrimFunc"),
        ("func.func @main(%x: i32) -> i32 { return %x : i32 }", "`main` of tensors"),
        (
            'module attributes {relax.signature = "{"} {}',
            "`relax.signature` is damaged",
        ),
        ("module attributes {relax.signature = 1} {}", "`relax.signature` is damaged"),
        (
            'module attributes {relax.signature = "{\\22constants\\22: []}"} {}',
            "`relax.signature` is damaged",
        ),
    ],
)
@pytest.mark.parametrize("command", ["compile", "run", "bench"])
def test_modules_that_are_not_models(
    command: str, text: str, problem: str, tmp_path: Path, call: Call
) -> None:
    (tmp_path / "bad.mlir").write_text(text)

    call(*COMMANDS[command], tmp_path / "bad.mlir").failed(problem)


@pytest.mark.parametrize("command", ["compile", "import", "run", "bench", "profile"])
def test_operators_without_a_rule(command: str, tmp_path: Path, call: Call) -> None:
    text = MODEL.replace("Relu", "Wobble")
    onnx.save(parser.parse_model(text), tmp_path / "m.onnx")

    run = call(*COMMANDS[command], tmp_path / "m.onnx")

    run.failed(r"no rule for 1 operator.*\n.*`Wobble`: 1 node, `second`")


@pytest.mark.parametrize(
    ("arrays", "problem"),
    [
        (None, "m.safetensors: no such file: expected the module's constants"),
        (b"", "m.safetensors: not a safetensors file, or damaged"),
        (b"\xff" * 100, "m.safetensors: not a safetensors file, or damaged"),
        ({}, "m.safetensors: no constant `shift`"),
        (
            {"shift": np.ones(19, np.float32)},
            r"expected float32\[20\], got float32\[19",
        ),
        ({"shift": np.ones(20)}, r"`shift`: expected float32\[20\], got float64\[20\]"),
    ],
    ids=["missing", "empty", "garbage", "other", "shape", "type"],
)
@pytest.mark.parametrize("command", ["compile", "run", "bench"])
def test_mismatched_constants(
    command: str,
    arrays: "bytes | dict[str, np.ndarray] | None",
    problem: str,
    models: Path,
    tmp_path: Path,
    call: Call,
) -> None:
    shutil.copy(models / "model.mlir", tmp_path / "m.mlir")
    if isinstance(arrays, bytes):
        (tmp_path / "m.safetensors").write_bytes(arrays)
    elif arrays is not None:
        save_pool(tmp_path / "m.safetensors", arrays)

    call(*COMMANDS[command], tmp_path / "m.mlir").failed(problem)


def test_truncated_constants(models: Path, tmp_path: Path) -> None:
    shutil.copy(models / "model.mlir", tmp_path)
    whole = (models / "model.safetensors").read_bytes()

    for size in range(0, len(whole), 11):
        (tmp_path / "model.safetensors").write_bytes(whole[:size])
        with pytest.raises(IRError, match="not a safetensors file, or damaged"):
            relax_mlir.IRModule.load(tmp_path / "model.mlir")


def test_text_output_cannot_overwrite_its_constants(
    models: Path, tmp_path: Path, call: Call
) -> None:
    out = tmp_path / "out" / "m.safetensors"

    call("import", models / "model.onnx", "-o", out).failed("expected another name")


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["--target", "gpu"], "unknown target `gpu`: expected cpu"),
        (["--target", "cpu:znver33"], "no such processor .*znver3"),
        (["--target", "cpu:"], None),
        (["--shape", "z=1,20"], "shapes: .*`z`"),
        (["--shape", "x=1,20,3"], "`x`: expected 2 sizes, got 3"),
        (["--shape", "x=1,19"], "19"),
        (["--shape", "x=n+,20"], "`x`"),
        (["--dump", "{model}"], "File exists"),
    ],
)
def test_compile_rejects(
    flags: list[str], problem: str | None, models: Path, call: Call
) -> None:
    path = models / "model.onnx"
    flags = [flag.replace("{model}", str(path)) for flag in flags]

    run = call("compile", path, "-o", "{out}", *flags)

    if problem is None:
        assert run.status == 0
    else:
        run.failed(problem)


def test_shapes_are_for_onnx_models(models: Path, call: Call) -> None:
    flags = ["-o", "{out}", "--shape", "x=1,20"]

    call("compile", models / "model.mlir", *flags).failed("`--shape` is for .onnx")
