"""Winograd's convolution of 3x3 kernels by tiles of 4x4 results, F(4x4, 3x3).

A tile of 6x6 numbers and a kernel are turned into 36 numbers each, whose products, summed
over channels, turn into 4x4 results: 36 multiplications take the place of 144. The
transforms evaluate polynomials at the points 0, p, -p, q, -q and infinity. With
p = 11/16 and q = 3/2 results differ from the exact ones about twice as much, in the mean,
as those of plain sums in f32 do; with the usual points 1 and 2 it is 4.5 times. Both
numbers and their squares are exact in f32.

The rounding error of a result scales with all inputs of its tile, not only with the nine
per channel that it depends on. `input_limits` says for which tiles it is small all the
same; others are computed directly.

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

from relax_mlir.schedules.emit import broadcast, constant, op

__all__ = [
    "KERNEL",
    "LARGEST_SHARE",
    "LIMITS",
    "READ",
    "WINOGRAD_POLICIES",
    "WRITTEN",
    "InputLimits",
    "input_limits",
    "input_matrix",
    "output_matrix",
    "transform_input",
    "transform_output",
    "transformed_kernel",
]

WINOGRAD_POLICIES = ("auto", "never")
KERNEL, WRITTEN = 3, 4  # numbers along an axis of a kernel, and of a tile's results
READ = KERNEL + WRITTEN - 1  # and of what a tile reads

_P, _Q = Fraction(11, 16), Fraction(3, 2)
_POINTS = (Fraction(0), _P, -_P, _Q, -_Q)


def output_matrix() -> np.ndarray:
    """[WRITTEN, READ]: from products at the points to results along an axis."""
    rows = [[x**i for x in _POINTS] for i in range(WRITTEN)]
    ends = [1 if i == WRITTEN - 1 else 0 for i in range(WRITTEN)]
    return np.array(
        [[*map(float, row), end] for row, end in zip(rows, ends, strict=True)],
        np.float64,
    )


def input_matrix() -> np.ndarray:
    """[READ, READ]: from numbers along an axis to values at the points."""
    rows = [_polynomial([y for y in _POINTS if y != x]) for x in _POINTS]
    rows.append(_polynomial(_POINTS))
    padded = [[*row, *[Fraction(0)] * (READ - len(row))] for row in rows]
    return np.array([[float(c) for c in row] for row in padded], np.float64)


@dataclass(frozen=True)
class InputLimits:
    """The tiles of inputs that a kernel may convolve at the points.

    A tile of 6x6 pixels is described by sums over channels: ``peak``, of the largest |x|
    of each channel; ``pixel``, of |x| at each pixel; and by ``largest``, the largest |x| of
    all. The rounding error of each result is a small multiple of ``eps * peak`` times the
    size of its weights. With these limits that is a small multiple of
    ``eps * sum |w| |x|`` over the receptive field of the result.

    Attributes:
        least, most: of ``peak``, so that nothing underflows or overflows; 0 is in the
            range.
        taps: [KERNEL, KERNEL]; ``peak`` is at most the sum of ``taps * pixel`` over the
            receptive field of each result. `LARGEST_SHARE` limits ``largest``.
    """

    least: float
    most: float
    taps: np.ndarray

    @property
    def array(self) -> np.ndarray:
        """Least, most, smallest tap, and the taps: f32, as kernels take them."""
        found = [self.least, self.most, self.taps.min(), *self.taps.flat]
        return np.array(found, np.float32)


LARGEST_SHARE = (
    0.25  # of the sum of `pixel` over a receptive field: of `largest`, the most
)
LIMITS = 3 + KERNEL * KERNEL  # elements of `InputLimits.array`

_AMPLIFICATION = 24.0  # of rounding: of `peak` by the weighted pixels, the most
_USUAL = 8.0  # of `peak` by the mean pixel: what ordinary images reach
_LEAST_CHANNELS = 8  # that a result depends on, in effect
_LARGEST_F32 = float(np.finfo(np.float32).max)
_SMALLEST_F32 = float(np.finfo(np.float32).smallest_normal)


def input_limits(kernel: np.ndarray) -> InputLimits | None:
    """The limits of a kernel; None if it should convolve no tile at the points.

    That is so if an output channel depends on few input channels, has next to no weight
    where others have theirs, or its weights are near the end of the range.

    Args:
        kernel: [KERNEL, KERNEL, input channels, output channels].
    """
    size = np.abs(kernel.astype(np.float64))
    if not np.isfinite(size).all():
        return None
    by_channel = size.max((0, 1))
    total = by_channel.sum(0)
    # Below, results are mostly subnormal: their error is an absolute one.
    known = total > 2.0**-100
    size, by_channel, total = size[..., known], by_channel[:, known], total[known]
    if not total.size:
        return None
    channels = total**2 / (by_channel**2).sum(0)
    taps = _AMPLIFICATION * (size.sum(2) / total).min(-1)
    into, out = (np.abs(m).sum(1).max() ** 2 for m in (input_matrix(), output_matrix()))
    weight = float(np.abs(transformed_kernel(kernel)).max())
    most = _LARGEST_F32 / (2 * into * max(1.0, out * weight))
    # Numbers on the way keep 24 bits, and products with all but the smallest weights.
    smallest = max(2.0**-50, min(1.0, float(by_channel.max(0).min())))
    least = _SMALLEST_F32 * 2.0**30 / smallest
    if channels.min() < _LEAST_CHANNELS or taps.sum() < _USUAL or most < 2.0**20:
        return None
    return InputLimits(least, most, taps)


def transformed_kernel(kernel: np.ndarray) -> np.ndarray:
    """Kernels at the points.

    Args:
        kernel: [KERNEL, KERNEL, ...].

    Returns:
        [READ, READ, ...], f64.
    """
    matrix = _kernel_matrix()
    return np.einsum("ai,ij...,bj->ab...", matrix, kernel.astype(np.float64), matrix)


def _kernel_matrix() -> np.ndarray:
    rows = []
    for x in _POINTS:
        scale = Fraction(1)
        for y in _POINTS:
            scale *= x - y if y != x else 1
        rows.append([float(x**k / scale) for k in range(KERNEL)])
    rows.append([0.0] * (KERNEL - 1) + [1.0])
    return np.array(rows, np.float64)


def _polynomial(roots: Sequence[Fraction]) -> list[Fraction]:
    """The coefficients of the product of x - root, the constant one first."""
    found = [Fraction(1)]
    for root in roots:
        shifted = [Fraction(0), *found]
        scaled = [-root * c for c in found] + [Fraction(0)]
        found = [a + b for a, b in zip(shifted, scaled, strict=True)]
    return found


def transform_input(d: Sequence[ir.Value]) -> list[ir.Value]:
    """READ vectors along an axis as values at the points: a row of `input_matrix` each."""
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
    """READ vectors of products along an axis as WRITTEN results."""
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


def _fma(factor: Fraction, x: ir.Value, y: ir.Value) -> ir.Value:
    return op("vector.fma", x.type, _splat(factor, x.type), x, y)


def _multiply(factor: Fraction, x: ir.Value) -> ir.Value:
    return op("arith.mulf", x.type, _splat(factor, x.type), x)


def _add(x: ir.Value, y: ir.Value) -> ir.Value:
    return op("arith.addf", x.type, x, y)


def _subtract(x: ir.Value, y: ir.Value) -> ir.Value:
    return op("arith.subf", x.type, x, y)
