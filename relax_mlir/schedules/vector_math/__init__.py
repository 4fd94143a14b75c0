"""Polynomial expansions of math functions on f32 vectors, in arith and math operations.

The expansions are independent of the target and of the number of lanes. All use
``math.fma``: on targets without an FMA instruction this is a library call per lane, which is
correct but slower than libm.
"""

from relax_mlir.schedules.vector_math.activation import (
    gelu,
    gelu_tanh,
    sigmoid,
    silu,
)
from relax_mlir.schedules.vector_math.error_function import erf
from relax_mlir.schedules.vector_math.exponential import (
    cosh,
    exp,
    exp2,
    exp_not_positive,
    expm1,
    sinh,
    tanh,
)
from relax_mlir.schedules.vector_math.integer_power import ipowi
from relax_mlir.schedules.vector_math.inverse_trigonometric import acos, asin, atan
from relax_mlir.schedules.vector_math.logarithm import (
    acosh,
    asinh,
    atanh,
    log,
    log1p,
    log2,
    log10,
)
from relax_mlir.schedules.vector_math.narrow_floats import (
    extend_narrow,
    is_narrow,
    truncate_narrow,
)
from relax_mlir.schedules.vector_math.power import fpowi, pow, rsqrt
from relax_mlir.schedules.vector_math.trigonometric import cos, sin, tan

__all__ = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cos",
    "cosh",
    "erf",
    "exp",
    "exp2",
    "exp_not_positive",
    "expm1",
    "extend_narrow",
    "fpowi",
    "gelu",
    "gelu_tanh",
    "ipowi",
    "is_narrow",
    "log",
    "log1p",
    "log2",
    "log10",
    "pow",
    "rsqrt",
    "sigmoid",
    "silu",
    "sin",
    "sinh",
    "tan",
    "tanh",
    "truncate_narrow",
]
