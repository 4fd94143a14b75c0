"""What ``relax_mlir.compile`` takes."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import relax_mlir
from relax_mlir.errors import ArgumentTypeError, ModelError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]> '
        "g (float[n, 4] x, int64[2] s) => (float[a, b] y) { y = Reshape(x, s) }"
    )
    onnx.save(model, tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def test_shapes_and_values_of_an_onnx_model(path: Path, tmp_path: Path) -> None:
    """They are a part of the cache's key: each compilation is another model."""
    for rows, columns in ((3, 6), (5, 10), (3, 6)):
        model = relax_mlir.compile(
            path, shapes={"x": [rows, 4]}, values={"s": [2, -1]}, cache=tmp_path
        )
        assert model.signature is not None
        printed = f"(x: float32[{rows}, 4]) -> (y: float32[2, {columns}])"
        assert str(model.signature) == printed
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    for shape in ((4, 3), (6, 2), (12, 1)):
        given = np.array(shape)
        model = relax_mlir.compile(path, values={"s": given}, cache=tmp_path)
        np.testing.assert_array_equal(model(x)[0], x.reshape(shape))
    module = relax_mlir.import_onnx(path, values={"s": [2, 6]})
    np.testing.assert_array_equal(relax_mlir.compile(module)(x)[0], x.reshape(2, 6))


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ({"shapes": {"x": [1, 4]}}, "`shapes`: expected an ONNX model, got IRModule"),
        ({"values": {"s": [1]}}, "`values`: expected an ONNX model, got IRModule"),
        (
            {"example_inputs": [1]},
            "`example_inputs`: expected a model of torch, got IRModule",
        ),
    ],
)
def test_arguments_of_other_kinds_of_models(
    argument: dict[str, Any], expected: str, path: Path
) -> None:
    module = relax_mlir.import_onnx(path)
    with pytest.raises(ArgumentTypeError, match=expected):
        relax_mlir.compile(module, **argument)


def test_what_is_compiled_already_is_to_be_loaded(tmp_path: Path) -> None:
    for name, start in (("m.rxm", b"PK\x03\x04"), ("m.so", b"\x7fELF")):
        (tmp_path / name).write_bytes(start + bytes(64))
        with pytest.raises(ModelError, match=r"`relax_mlir\.load`"):
            relax_mlir.compile(tmp_path / name)
