"""Exponentials, logarithms, roots, and the error function."""

from math import erf

import numpy as np

from relax_mlir.dialects.hooks import Case
from relax_mlir.dialects.relax.elementwise import (
    EdgeCase,
    FloatUnaryOp,
    MathOp,
    computed_wide,
)
from relax_mlir.dialects.tir import Builder, Scalar

_POSITIVE = (
    Case((), low=0.1),
    Case((5,), low=0.1),
    Case((0, 4)),
    Case((3, 71), low=1e-6, high=1e6),
    Case((9, "float64"), low=0.1),
    Case((11, "float16"), low=0.1, high=100.0),
    Case((11, "bfloat16"), low=0.1, high=100.0),
    EdgeCase((41,), low=-2.0, high=9.0),
)


class ExpOp(MathOp, name="exp", onnx=("Exp", 6)):
    """e to the power of x."""

    cases = (*MathOp.cases, EdgeCase((41,), low=-200.0, high=80.0))
    reference = staticmethod(computed_wide(np.exp))
    function = "exp"


class LogOp(MathOp, name="log", onnx=("Log", 6)):
    """Natural logarithm; -inf of 0, NaN below."""

    cases = _POSITIVE
    reference = staticmethod(computed_wide(np.log))
    function = "log"


class SqrtOp(MathOp, name="sqrt", onnx=("Sqrt", 6)):
    """Square root; NaN below zero."""

    cases = _POSITIVE
    reference = staticmethod(computed_wide(np.sqrt))
    function = "sqrt"


class RsqrtOp(FloatUnaryOp, name="rsqrt"):
    """1 / square root; inf of 0, NaN below."""

    cases = tuple(case for case in _POSITIVE if case.high < 1e6)

    @staticmethod
    @computed_wide
    def reference(x: np.ndarray) -> np.ndarray:
        return 1 / np.sqrt(x)

    def scalar(self, b: Builder, v: Scalar) -> Scalar:
        return 1.0 / b.math("sqrt", v)


class ErfOp(MathOp, name="erf", onnx=("Erf", 9)):
    """The error function, 2/sqrt(pi) times the integral of e^-t^2 from 0 to x."""

    @staticmethod
    @computed_wide
    def reference(x: np.ndarray) -> np.ndarray:
        flat = [erf(v) for v in x.astype(np.float64).reshape(-1)]
        return np.array(flat, x.dtype).reshape(x.shape)

    function = "erf"
