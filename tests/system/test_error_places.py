"""Whatever goes wrong on any way in is an error of ours that says where."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import relax_mlir
from relax_mlir import IRModule
from relax_mlir.errors import RelaxError
from relax_mlir.frontends.onnx import import_onnx
from relax_mlir.tools import cli
from tests.frontends.onnx.differential import model_with, random

_X = {"x": random(2, 3, 4)}

# Nodes of which each made Python raise something by accident.
_NODES = (
    'y = Resize<mode = "nonsense">(x, , s)',
    'y = Resize<coordinate_transformation_mode = "nonsense">(x, , s)',
    'y = Pad<mode = "nonsense">(x, p)',
    "y = Split<num_outputs = 0>(x)",
    "y = ReduceSum<keepdims = 7>(x)",
    "y = Cast<to = 99>(x)",
    "y = Transpose<perm = [0, 0, 1]>(x)",
    "y = Flatten<axis = 9>(x)",
    "y = Concat<axis = 5>(x, x)",
    "y = Gemm(x, x)",
    "y = Conv<kernel_shape = [2]>(x, x)",
    "y = DepthToSpace<blocksize = 0>(x)",
    "y = LRN<size = 0>(x)",
    "y = MaxPool<kernel_shape = [0]>(x)",
    "y = MaxPool<kernel_shape = [2], strides = [0]>(x)",
    "y = MaxPool<kernel_shape = [2], dilations = [0]>(x)",
    "y = Hardmax<axis = 3>(x)",
    "y = GroupNormalization<num_groups = 0>(x, x, x)",
    'y = Einsum<equation = "ij->">(x)',
    "y = Scan<num_scan_inputs = 1>(x)",
)


@pytest.mark.parametrize("body", _NODES)
def test_a_wrong_node_is_named(body: str) -> None:
    feeds = {**_X, "s": np.ones(3, np.float32), "p": np.ones(6, np.int64)}
    opset = 20 if "Group" in body else 18

    with pytest.raises(RelaxError, match=r"node `\w+` \(\w+\): ") as caught:
        import_onnx(model_with(body, feeds, ["s", "p"], opset=opset))

    assert "Error: " not in str(caught.value)


def _model() -> onnx.ModelProto:
    return model_with("y = Relu(x)", _X)


def _file(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("use", "place"),
    [
        (lambda folder: import_onnx(folder / "none.onnx"), "none.onnx"),
        (lambda folder: import_onnx(_file(folder, "a.onnx", b"\x08\xff")), "a.onnx"),
        (lambda folder: import_onnx(b""), "model"),
        (lambda folder: import_onnx(_model(), shapes={"z": [1]}), "`z`"),
        (lambda folder: import_onnx(_model(), shapes={"x": [1]}), "`x`"),
        (lambda folder: import_onnx(_model(), values={"x": [1.0]}), "`x`"),
        (lambda folder: IRModule.parse("func.func @main("), "1:"),
        (lambda folder: relax_mlir.compile(_model(), "cpu:nonsense"), "nonsense"),
        (lambda folder: relax_mlir.compile(_model(), "nonsense"), "nonsense"),
        (lambda folder: relax_mlir.compile(_model(), precision="f7"), "f7"),
        (lambda folder: relax_mlir.load(folder / "none.rxm"), "none.rxm"),
        (lambda folder: relax_mlir.load(_file(folder, "a.rxm", b"PK")), "a.rxm"),
    ],
)
def test_what_is_wrong_has_a_place(
    use: Callable[[Path], object], place: str, tmp_path: Path
) -> None:
    with pytest.raises(RelaxError) as caught:
        use(tmp_path)

    assert place in str(caught.value)


@pytest.mark.slow  # compiles
@pytest.mark.parametrize(
    ("arrays", "named"),
    [
        ([], {}),
        ([random(2, 3, 4)] * 3, {}),
        ([random(2, 3)], {}),
        ([random(2, 3, 5)], {}),
        ([random(*[1] * 40)], {}),
        ([random(2, 3, 4).astype(np.int8)], {}),
        ([random(2, 3, 4)], {"x": random(2, 3, 4)}),
        ([], {"z": random(2, 3, 4)}),
    ],
)
def test_wrong_arguments_are_told_by_the_function(
    arrays: list[np.ndarray],
    named: dict[str, Any],  # Any: as the call takes them
) -> None:
    compiled = relax_mlir.compile(_model())

    with pytest.raises((TypeError, ValueError), match="`main`: "):
        compiled(*arrays, **named)


@pytest.mark.parametrize(
    "arguments",
    [
        ["import", "none.onnx"],
        ["compile", "none.onnx", "-o", "none.rxm"],
        ["run", "none.onnx"],
    ],
)
def test_commands_say_what_is_wrong_in_a_line(
    arguments: list[str],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)

    code = cli.main(arguments)

    told = capsys.readouterr().err
    assert code != 0
    assert told.startswith("relax-mlir: error: ")
    assert "none.onnx" in told
    assert "Traceback" not in told
