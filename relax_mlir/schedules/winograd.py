"""Winograd convolution F(4x4, 3x3): transforms, and the input range in which it is accurate.

The input transform maps a tile of 6x6 pixels, the kernel transform a 3x3 kernel to 36
values each. Their elementwise products, accumulated over channels, are mapped to 4x4
results by the output transform: 36 multiplications instead of 144. The transforms
evaluate polynomials at the interpolation points 0, p, -p, q, -q and infinity. With
p = 11/16 and q = 3/2 the mean error is about twice that of direct summation in f32; with
the usual points 1 and 2 it is 4.5 times. Both points and their squares are exact in f32.

The rounding error of a result scales with all pixels of its tile, not only with the nine
per channel in its receptive field. `input_limits` bounds the tiles for which it is small
nevertheless; other tiles are convolved directly.

Sources: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, CVPR 2016;
Barabasz et al., Error Analysis and Improving the Accuracy of Winograd Convolution for Deep
Neural Networks, ACM TOMS 46(4), 2020, for the choice of points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from mlir import ir

from relax_mlir.runtime.derived_constants import Transform, derive
from relax_mlir.schedules.builder import broadcast, constant, op

__all__ = [
    "INPUT_TILE",
    "KERNEL_SIZE",
    "LIMIT_COUNT",
    "MAX_SHARE",
    "OUTPUT_TILE",
    "InputLimits",
    "input_limits",
    "input_matrix",
    "kernel_transform",
    "output_matrix",
    "transform_input",
    "transform_output",
]

KERNEL_SIZE, OUTPUT_TILE = 3, 4  # kernel size and output tile size per axis
INPUT_TILE = KERNEL_SIZE + OUTPUT_TILE - 1  # input tile size per axis

_P, _Q = Fraction(11, 16), Fraction(3, 2)
_POINTS = (Fraction(0), _P, -_P, _Q, -_Q)


def output_matrix() -> np.ndarray:
    """Output transform A^T along one axis, [WRITTEN, READ]."""
    rows = [[x**i for x in _POINTS] for i in range(OUTPUT_TILE)]
    ends = [1 if i == OUTPUT_TILE - 1 else 0 for i in range(OUTPUT_TILE)]
    return np.array(
        [[*map(float, row), end] for row, end in zip(rows, ends, strict=True)],
        np.float64,
    )


def input_matrix() -> np.ndarray:
    """Input transform B^T along one axis, [READ, READ]."""
    rows = [_polynomial([y for y in _POINTS if y != x]) for x in _POINTS]
    rows.append(_polynomial(_POINTS))
    padded = [[*row, *[Fraction(0)] * (INPUT_TILE - len(row))] for row in rows]
    return np.array([[float(c) for c in row] for row in padded], np.float64)


@dataclass(frozen=True)
class InputLimits:
    """Range of the input tiles for which a kernel may use Winograd.

    A tile of 6x6 pixels is summarized by ``peak``, the sum over channels of each
    channel's largest |x|; by ``pixel``, the sum over channels of |x| at each pixel; and by
    ``largest``, the largest |x| of all. The rounding error of a result is a small multiple
    of ``eps * peak`` times the magnitude of its weights. Within these limits this is a
    small multiple of ``eps * sum |w| |x|`` over the receptive field of the result.

    Attributes:
        least, most: range of ``peak`` without underflow or overflow; 0 is allowed too.
        taps: [KERNEL, KERNEL]; the sum of ``taps * pixel`` over the receptive field of
            each result must be at least ``peak``. `MAX_SHARE` bounds ``largest``.
    """

    least: float
    most: float
    taps: np.ndarray

    @property
    def array(self) -> np.ndarray:
        """The operand of kernels: least, most, the smallest tap and all taps, as f32."""
        limits = [self.least, self.most, self.taps.min(), *self.taps.flat]
        return np.array(limits, np.float32)


MAX_SHARE = 0.25  # `largest` over the sum of `pixel` in a receptive field, at most
LIMIT_COUNT = 3 + KERNEL_SIZE * KERNEL_SIZE  # elements of `InputLimits.array`

_AMPLIFICATION = (
    24.0  # maximum amplification of rounding errors: `peak` over the weighted pixels
)
_USUAL = 8.0  # `peak` over the mean of `pixel` in natural images
_MIN_CHANNELS = 8  # minimum effective number of input channels of a result
_LARGEST_F32 = float(np.finfo(np.float32).max)
_SMALLEST_F32 = float(np.finfo(np.float32).smallest_normal)


def input_limits(kernel: np.ndarray) -> InputLimits | None:
    """The input limits of a kernel; None if it should not use Winograd at all.

    This is the case if an output channel depends on few input channels, has almost no
    weight at taps where others have theirs, or has weights close to overflow.

    Args:
        kernel: [KERNEL, KERNEL, input channels, output channels].
    """
    size = np.abs(kernel.astype(np.float64))
    if not np.isfinite(size).all():
        return None
    by_channel = size.max((0, 1))
    total = by_channel.sum(0)
    # Below, results are mostly subnormal, with an absolute error.
    known = total > 2.0**-100
    size, by_channel, total = size[..., known], by_channel[:, known], total[known]
    if not total.size:
        return None
    channels = total**2 / (by_channel**2).sum(0)
    taps = _AMPLIFICATION * (size.sum(2) / total).min(-1)
    into, out = (np.abs(m).sum(1).max() ** 2 for m in (input_matrix(), output_matrix()))
    transform = kernel_transform("", kernel.shape)
    weight = float(np.abs(derive(transform, kernel.astype(np.float32))).max())
    most = _LARGEST_F32 / (2 * into * max(1.0, out * weight))
    # Transformed inputs, and their products with all but the smallest weights, stay normal.
    smallest = max(2.0**-50, min(1.0, float(by_channel.max(0).min())))
    least = _SMALLEST_F32 * 2.0**30 / smallest
    if channels.min() < _MIN_CHANNELS or taps.sum() < _USUAL or most < 2.0**20:
        return None
    return InputLimits(least, most, taps)


def kernel_transform(kernel: str, shape: Sequence[int]) -> Transform:
    """The kernel transform, G g G^T.

    Args:
        kernel: the key of the kernel.
        shape: of the kernel, [KERNEL, KERNEL, ...].
    """
    rows: list[list[float]] = []
    for x in _POINTS:
        scale = Fraction(1)
        for y in _POINTS:
            scale *= x - y if y != x else 1
        rows.append([float(x**k / scale) for k in range(KERNEL_SIZE)])
    rows.append([0.0] * (KERNEL_SIZE - 1) + [1.0])
    return Transform(kernel, tuple(map(tuple, rows)), tuple(shape[2:]))


def _polynomial(roots: Sequence[Fraction]) -> list[Fraction]:
    """Coefficients of the monic polynomial with given roots, the constant term first."""
    coefficients = [Fraction(1)]
    for root in roots:
        shifted = [Fraction(0), *coefficients]
        scaled = [-root * c for c in coefficients] + [Fraction(0)]
        coefficients = [a + b for a, b in zip(shifted, scaled, strict=True)]
    return coefficients


def transform_input(d: Sequence[ir.Value]) -> list[ir.Value]:
    """Apply the input transform to READ vectors along one axis."""
    pp, qq = _P * _P, _Q * _Q
    by_p = _fma(-qq, d[2], d[4]), _fma(-qq, d[1], d[3])
    by_q = _fma(-pp, d[2], d[4]), _fma(-pp, d[1], d[3])
    return [
        _fma(pp * qq, d[0], _fma(-(pp + qq), d[2], d[4])),
        _fma(_P, by_p[1], by_p[0]),
        _fma(-_P, by_p[1], by_p[0]),
        _fma(_Q, by_q[1], by_q[0]),
        _fma(-_Q, by_q[1], by_q[0]),
        _fma(pp * qq, d[1], _fma(-(pp + qq), d[3], d[5])),
    ]


def transform_output(m: Sequence[ir.Value]) -> list[ir.Value]:
    """Apply the output transform to READ vectors along one axis; WRITTEN results."""
    even_p, odd_p = _add(m[1], m[2]), _subtract(m[1], m[2])
    even_q, odd_q = _add(m[3], m[4]), _subtract(m[3], m[4])
    return [
        _add(_add(m[0], even_p), even_q),
        _fma(_P, odd_p, _multiply(_Q, odd_q)),
        _fma(_P**2, even_p, _multiply(_Q**2, even_q)),
        _fma(_P**3, odd_p, _fma(_Q**3, odd_q, m[5])),
    ]


def _splat(number: Fraction, type_: ir.Type) -> ir.Value:
    vector = ir.VectorType(type_)
    return broadcast(constant(float(number), vector.element_type), vector.shape[0])


def _fma(coefficient: Fraction, x: ir.Value, y: ir.Value) -> ir.Value:
    return op("vector.fma", x.type, _splat(coefficient, x.type), x, y)


def _multiply(coefficient: Fraction, x: ir.Value) -> ir.Value:
    return op("arith.mulf", x.type, _splat(coefficient, x.type), x)


def _add(x: ir.Value, y: ir.Value) -> ir.Value:
    return op("arith.addf", x.type, x, y)


def _subtract(x: ir.Value, y: ir.Value) -> ir.Value:
    return op("arith.subf", x.type, x, y)
