"""8-bit and sub-byte element types: conversions and file storage."""

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from relax_mlir import compile
from relax_mlir.errors import ModelError
from relax_mlir.frontends.onnx import import_onnx
from tests.frontends.onnx.differential import model_with, run_by_numpy

_SECOND = np.array([False, True])
_CAST = "y = Cast <to = {to}{extra}> (x)"


def test_cast_1_names_its_type() -> None:
    feeds = {"x": np.array([1.5, -2.5], np.float32)}
    model = model_with('y = Cast <to = "int8"> (x)', feeds, opset=5)

    (actual,) = run_by_numpy(model, feeds)

    assert actual.dtype == np.int8
    assert actual.tolist() == [1, -2]
    model = model_with('y = Cast <to = "INT9"> (x)', feeds, opset=5)
    with pytest.raises(ModelError, match="name of an element type, got `INT9`"):
        import_onnx(model)


_LARGE = {"x": np.array([1e6, -np.inf, np.nan, 448.0, 0.1], np.float32)}


@pytest.mark.parametrize("saturate", [0, 1])
@pytest.mark.parametrize("to", ["FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2"])
def test_float8_overflow_saturates_or_is_nan(to: str, saturate: int) -> None:
    number = TensorProto.DataType.Value(to)
    extra = f", saturate = {saturate}"
    model = model_with(_CAST.format(to=number, extra=extra), _LARGE)

    (actual,) = run_by_numpy(model, _LARGE)

    dtype = helper.tensor_dtype_to_np_dtype(number)
    top = float(ml_dtypes.finfo(dtype).max)
    x = np.clip(_LARGE["x"], -top, top) if saturate else _LARGE["x"]
    np.testing.assert_array_equal(actual.view(np.uint8), x.astype(dtype).view(np.uint8))


@pytest.mark.parametrize(
    ("mode", "exponents"), [("up", [0, 1, 2, -1]), ("down", [0, 0, 1, -2])]
)
def test_e8m0_rounding_modes(mode: str, exponents: list[int]) -> None:
    feeds = {"x": np.array([1.0, 1.1, 3.9, 0.3], np.float32)}
    number = TensorProto.FLOAT8E8M0
    extra = f', round_mode = "{mode}"'
    model = model_with(_CAST.format(to=number, extra=extra), feeds, opset=24)

    (actual,) = run_by_numpy(model, feeds)

    np.testing.assert_array_equal(actual.astype(np.float32), np.exp2(exponents))


@pytest.mark.slow  # compiles
@pytest.mark.parametrize(
    "dtype", [ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn, ml_dtypes.int4]
)
def test_gather_of_any_element_type(dtype: type) -> None:
    x = np.array([[0, 1], [1, 0]]).astype(dtype)

    (places,) = compile(model_with("y = NonZero(x)", {"x": x}))(x)
    (rows,) = compile(model_with("y = Compress(x, c)", {"x": x, "c": _SECOND}))(
        x, _SECOND
    )

    np.testing.assert_array_equal(places, np.nonzero(x))
    assert rows.dtype == x.dtype
    np.testing.assert_array_equal(rows, x.reshape(-1)[1:2])


@pytest.mark.parametrize("raw", [True, False])
@pytest.mark.parametrize(
    "name",
    [
        *("INT4", "UINT4", "INT2", "UINT2"),
        *("FLOAT4E2M1", "FLOAT6E2M3", "FLOAT6E3M2"),
    ],
)
def test_packed_elements_are_unpacked(name: str, raw: bool) -> None:
    number = TensorProto.DataType.Value(name)
    dtype = helper.tensor_dtype_to_np_dtype(number)
    array = np.arange(7).astype(dtype)
    tensor = numpy_helper.from_array(array, "w")
    if not raw:
        tensor = helper.make_tensor("w", number, [7], array)
        assert tensor.int32_data
    model = model_with("y = Identity (w)", {})
    model.graph.initializer.append(tensor)

    (actual,) = run_by_numpy(model, {})

    assert actual.dtype == dtype
    np.testing.assert_array_equal(actual, array)
