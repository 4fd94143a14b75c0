"""Casts of floats to integers: truncation, saturation, and NaN to the lowest integer."""

import math
from itertools import product

import ml_dtypes
import numpy as np
import pytest

import relax_mlir
from relax_mlir.dialects import dtypes
from relax_mlir.dialects.relax.cast import AstypeOp
from relax_mlir.frontends.onnx import import_onnx
from relax_mlir.objects import prim
from relax_mlir.objects.prim import PrimExpr
from relax_mlir.tvm import te
from tests.frontends.onnx.differential import model_with

_FLOATS = (np.float32, np.float64, np.float16, ml_dtypes.bfloat16)
_INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
_NUMBERS = {7: "int64", 2: "uint8", 3: "int8", 6: "int32", 12: "uint32"}  # of ONNX
_VALUES = (
    *(math.nan, math.inf, -math.inf, 3e9, -3e9, 1e20, -1e20, 2.7, -2.7, -0.5, 127.9),
    *(2.0**31 - 128, 2.0**31 - 1, 2.0**31, -(2.0**31), 2.0**32, 2.0**63, 2.0**64),
)


def _saturated(x: np.ndarray, name: str) -> np.ndarray:
    """The expected results, by Python's integers."""
    info = np.iinfo(name)

    def one(v: float) -> int:
        if math.isnan(v) or v < info.min:
            return int(info.min)
        return int(info.max) if v > info.max else int(v)

    return np.array([one(float(v)) for v in x], name)


def _floats(kind: np.dtype | type) -> np.ndarray:
    """Repeats values to full vectors and a remainder."""
    with np.errstate(over="ignore"):
        return np.array(_VALUES * 2, np.float64)[:35].astype(kind)


@pytest.mark.parametrize(("kind", "name"), list(product(_FLOATS, _INTEGERS)))
def test_reference_saturates(kind: type, name: str) -> None:
    x = _floats(kind)

    y = AstypeOp.reference(x, dtypes.dtype(name))

    np.testing.assert_array_equal(y, _saturated(x, name))


@pytest.mark.slow
@pytest.mark.parametrize("is_constant", [False, True], ids=["computed", "folded"])
def test_compiled_and_folded_casts_saturate(is_constant: bool) -> None:
    x = _floats(np.float32)
    body = " ".join(f"y{n} = Cast<to={n}>(x)" for n in _NUMBERS)
    names = [f"y{n}" for n in _NUMBERS]
    model = model_with(body, {"x": x}, ["x"] if is_constant else [], names)

    found = relax_mlir.compile(import_onnx(model))(*([] if is_constant else [x]))

    for y, name in zip(found, _NUMBERS.values(), strict=True):
        np.testing.assert_array_equal(y, _saturated(x, name), err_msg=name)


def _number(term: PrimExpr) -> int:
    assert isinstance(term, prim.IntImm)
    return term.value


@pytest.mark.parametrize("name", _INTEGERS)
def test_prim_expr_constants_saturate(name: str) -> None:
    x = _floats(np.float32)

    folded = [prim.cast(name, prim.FloatImm("float32", v)) for v in x.tolist()]

    assert list(map(_number, folded)) == _saturated(x, name).tolist()


def test_prim_expr_integer_casts_keep_low_bits() -> None:
    assert _number(prim.cast("int8", prim.IntImm("int32", 300))) == 44
    assert _number(prim.cast("uint8", prim.IntImm("int32", -1))) == 255
    assert _number(prim.cast("int4", prim.FloatImm("float32", 9.0))) == -7


def test_tensor_expression_reads_back_as_a_cast_and_saturates() -> None:
    a = te.placeholder((35,), "float32", name="a")
    b = te.compute((35,), lambda i: a[i].astype("int32") + 0 * a.shape[0], name="b")
    function = te.create_prim_func([a, b])
    x, y = _floats(np.float32), np.zeros(35, np.int32)

    text = function.script()
    relax_mlir.compile(relax_mlir.IRModule({"main": function}))["main"](x, y)

    assert 'T.Cast("int32"' in text
    assert "Select" not in text
    np.testing.assert_array_equal(y, _saturated(x, "int32"))
