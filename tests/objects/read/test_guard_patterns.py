"""Guards of the program itself are not mistaken for those of divisions and casts."""

import numpy as np
import pytest

import relax_mlir
from relax_mlir import IRModule
from relax_mlir.tvm.script import from_source

_X = np.array([-5, -1, 0, 3, 20, 1e10], np.float32)
_A = np.array([-7, -1, 0, 1, 3, 9], np.int32)
_CLAMPED = np.where(_X < 2**31, _X, 2**31 - 128).astype(np.int64)
_TRUNCATED = np.where(_X < 2**31, _CLAMPED, 2**31 - 1)

_TERMS = {
    'T.Cast("int32", v)': _TRUNCATED,
    'T.Cast("int32", T.Select(v > T.float32(0.0), v, T.float32(0.0)))': np.maximum(
        _TRUNCATED, 0
    ),
    'T.Cast("int32", T.Select(v < T.float32(9.0), v, T.float32(9.0)))': np.minimum(
        _TRUNCATED, 9
    ),
    "T.Div(100, T.Select(A[i] == 0, 1, A[i]))": [-14, -100, 100, 100, 33, 11],
    "T.Div(100, T.max(A[i], 1))": [100, 100, 100, 100, 33, 11],
    "T.Div(100, A[i])": [-14, -100, 0, 100, 33, 11],
    "T.truncmod(100, T.Select(A[i] == -1, 3, A[i]))": [2, 1, 0, 0, 1, 1],
    "100 // T.max(A[i], 1)": [100, 100, 100, 100, 33, 11],
    "100 // T.Select(A[i] == 0, 1, A[i])": [-15, -100, 100, 100, 33, 11],
    "100 % A[i]": [-5, 0, 0, 0, 1, 1],
    "100 - 100 // A[i] * A[i]": [-5, 0, 100, 0, 1, 1],
    "100 % T.Select(A[i] == 0, 7, A[i])": [-5, 0, 2, 0, 1, 1],
}


def _module(term: str) -> IRModule:
    return from_source(f"""
from relax_mlir.tvm.script import ir as I, relax as R, tir as T

@I.ir_module
class Module:
    @T.prim_func(private=True)
    def work(X: T.Buffer((6,), "float32"), A: T.Buffer((6,), "int32"),
             O: T.Buffer((6,), "int32")):
        for axis in range(6):
            with T.block("work"):
                i = T.axis.spatial(6, axis)
                v: T.float32 = X[i]
                O[i] = {term}

    @R.function
    def main(x: R.Tensor((6,), "float32"), a: R.Tensor((6,), "int32")):
        return R.call_tir(Module.work, (x, a), out_sinfo=R.Tensor((6,), "int32"))
""")


@pytest.mark.parametrize("term", _TERMS)
def test_a_script_keeps_the_selects_of_a_program(term: str) -> None:
    text = _module(term).script()
    (actual,) = relax_mlir.compile(from_source(text), cache=False)(_X, _A)

    assert term in text
    np.testing.assert_array_equal(actual, _TERMS[term])
