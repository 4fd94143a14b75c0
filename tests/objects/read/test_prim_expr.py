"""Reading float arithmetic that TVM's constructors would fold."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

import relax_mlir
from relax_mlir import IRModule
from relax_mlir.objects import prim
from relax_mlir.objects.stmt.buffer import Buffer
from relax_mlir.objects.write.prim_func import PrimFuncWriter
from relax_mlir.tvm.script import from_source
from relax_mlir.tvm.script import tir as T  # noqa: N812

_INF, _NAN = np.inf, np.nan
_X = np.array([_NAN, _INF, -_INF, -0.0, 0.0, -1.5, 3], np.float32)

_TIMES_ZERO = [_NAN, _NAN, _NAN, -0.0, 0.0, -0.0, 0.0]
_PLUS_ZERO = [_NAN, _INF, -_INF, 0.0, 0.0, -1.5, 3]
_ARITHMETIC = {
    "arith.mulf %v, %zero : f32": _TIMES_ZERO,
    "arith.mulf %zero, %v : f32": _TIMES_ZERO,
    "arith.addf %v, %zero : f32": _PLUS_ZERO,
    "arith.addf %zero, %v : f32": _PLUS_ZERO,
    "arith.subf %v, %negative_zero : f32": _PLUS_ZERO,
    "arith.subf %v, %v : f32": [_NAN, _NAN, _NAN, 0.0, 0.0, 0.0, 0.0],
    "arith.divf %v, %v : f32": [_NAN, _NAN, _NAN, _NAN, _NAN, 1.0, 1.0],
    "arith.divf %zero, %v : f32": [_NAN, 0.0, -0.0, _NAN, _NAN, -0.0, 0.0],
    "arith.maximumf %one, %nan : f32": [_NAN] * 7,
    "arith.minimumf %nan, %one : f32": [_NAN] * 7,
    "arith.maxnumf %v, %one : f32": [1.0, _INF, 1.0, 1.0, 1.0, 1.0, 3.0],
    "arith.minnumf %one, %v : f32": [1.0, 1.0, -_INF, -0.0, 0.0, -1.5, 1.0],
    "arith.divf %one, %zero : f32": [_INF] * 7,
    "arith.remf %one, %zero : f32": [_NAN] * 7,
}
_IS_NAN = np.isnan(_X)
_COMPARISONS = {
    "oeq": _X == 0,
    "ogt": _X > 0,
    "oge": _X >= 0,
    "olt": _X < 0,
    "ole": _X <= 0,
    "one": (_X != 0) & ~_IS_NAN,
    "ord": ~_IS_NAN,
    "ueq": (_X == 0) | _IS_NAN,
    "ugt": (_X > 0) | _IS_NAN,
    "uge": (_X >= 0) | _IS_NAN,
    "ult": (_X < 0) | _IS_NAN,
    "ule": (_X <= 0) | _IS_NAN,
    "une": _X != 0,
    "uno": _IS_NAN,
    "false": np.zeros(7, bool),
    "true": np.ones(7, bool),
}


def _module(rows: Sequence[str]) -> IRModule:
    """A PrimFunc that stores ``%r<number>`` into the rows of its output."""
    shape = f"{len(rows)}x7xf32"
    stores = "".join(
        f"""{row}
    %n{number} = arith.constant {number} : index
    memref.store %r{number}, %o[%n{number}, %i] : memref<{shape}>
    """
        for number, row in enumerate(rows)
    )
    return IRModule.parse(f"""
func.func @main(%x: tensor<7xf32>) -> tensor<{shape}> {{
  %0 = builtin.unrealized_conversion_cast %x : tensor<7xf32> to tuple<tensor<7xf32>>
  %1 = "relax.call_tir"(%0) {{callee = @work, sizes = #relax.shape<[]>}}
    : (tuple<tensor<7xf32>>) -> tensor<{shape}>
  return %1 : tensor<{shape}>
}}
func.func private @work(%x: memref<7xf32>, %o: memref<{shape}>)
    attributes {{tir.prim_func, tir.num_outputs = 1 : i64}} {{
  "tir.block"() ({{}}, {{
  ^bb0(%i: index):
    %zero = arith.constant 0.0 : f32
    %negative_zero = arith.constant -0.0 : f32
    %one = arith.constant 1.0 : f32
    %nan = arith.constant 0x7FC00000 : f32
    %v = memref.load %x[%i] : memref<7xf32>
    {stores}
    gpu.yield
  }}) {{name = "work", kinds = "S", static_extents = array<i64: 7>,
      operandSegmentSizes = array<i32: 0, 0>}} : () -> ()
  return
}}""")


@cache
def _computed(rows: Sequence[str]) -> np.ndarray:
    """The output of the PrimFunc that its script describes."""
    again = from_source(_module(rows).script())
    (actual,) = relax_mlir.compile(again, cache=False)(_X)
    return np.asarray(actual)


@pytest.mark.parametrize("operation", _ARITHMETIC)
def test_a_script_keeps_arithmetic_of_floats(operation: str) -> None:
    rows = tuple(f"%r{n} = {text}" for n, text in enumerate(_ARITHMETIC))
    expected = np.array(_ARITHMETIC[operation], np.float32)

    actual = _computed(rows)[list(_ARITHMETIC).index(operation)]

    np.testing.assert_array_equal(actual, expected)
    signs = np.signbit(expected) != np.signbit(actual)
    assert not signs[~np.isnan(expected)].any()


@pytest.mark.parametrize("predicate", _COMPARISONS)
def test_a_script_compares_nan_as_the_program_does(predicate: str) -> None:
    rows = tuple(
        f"""%t{n} = arith.cmpf {name}, %v, %zero : f32
    %r{n} = arith.uitofp %t{n} : i1 to f32"""
        for n, name in enumerate(_COMPARISONS)
    )

    actual = _computed(rows)[list(_COMPARISONS).index(predicate)]

    np.testing.assert_array_equal(actual, _COMPARISONS[predicate])


def test_a_sum_that_python_would_fold_is_printed_as_a_call() -> None:
    x = prim.Var("x", "float32")
    folded = prim.Add(x, prim.const(0.0, "float32"))
    kept = prim.Add(x, prim.const(2.0, "float32"))

    assert "T.Add(x, T.float32(0.0))" in folded.script()
    assert "x + T.float32(2.0)" in kept.script()


def test_variables_are_replaced_without_folding_floats() -> None:
    x, y = (prim.Var(name, "float32") for name in "xy")
    product = prim.substitute(x * y, {y: prim.const(0.0, "float32")})

    assert isinstance(product, prim.Mul)
    assert prim.Mul(x, prim.const(0.0, "float32")).same_as(product)


@pytest.mark.parametrize("function", [T.ceil, T.round, T.trunc])
def test_numbers_that_are_rounded_to_0_keep_their_sign(function: Any) -> None:
    rounded = function(T.float32(-0.25))

    assert np.signbit(rounded.value)
    assert not np.signbit(function(T.float32(0.0)).value)


def test_a_script_keeps_a_clamp_before_a_cast() -> None:
    row = """%c0 = arith.cmpf ogt, %v, %zero : f32
    %s0 = arith.select %c0, %v, %zero : f32
    %i0 = arith.fptosi %s0 : f32 to i32
    %r0 = arith.sitofp %i0 : i32 to f32"""

    (actual,) = _computed((row,))

    np.testing.assert_array_equal(actual, [0, 2.0**31, 0, 0, 0, 0, 3])


_FOLDS = T.Call("float32", "ceil", [T.float32(-0.25)])


@pytest.mark.parametrize(
    "operation",
    [
        lambda x: prim.Div(T.float32(1.0), _FOLDS),
        lambda x: prim.Div(T.float32(1.0), prim.Mul(_FOLDS, x)),
        lambda x: prim.Add(x, prim.Mul(_FOLDS, x)),
        lambda x: prim.Mul(x, prim.Add(_FOLDS, _FOLDS)),
    ],
)
def test_operations_on_folding_operands_are_printed_unchanged(operation: Any) -> None:
    """Parsing the script folds ``T.ceil`` of a constant, and then the expression around it."""
    buffer = Buffer((1,), "float32", "A")
    writer = PrimFuncWriter("folds")
    writer.buffer_param(buffer)
    writer.store(buffer, operation(buffer[0]), [0])
    text = writer.finish({}).script()

    again = from_source(text)

    assert again.script() == text.replace("T.ceil(T.float32(-0.25))", "T.float32(-0.0)")


@pytest.mark.parametrize(
    ("function", "expected"), [(T.min, -0.0), (T.max, 0.0)], ids=["min", "max"]
)
def test_minima_and_maxima_of_zeros_have_the_sign_that_mlir_gives(
    function: Any, expected: float
) -> None:
    for a, b in ((0.0, -0.0), (-0.0, 0.0)):
        found = function(T.float32(a), T.float32(b))
        assert str(found.value) == str(expected)
