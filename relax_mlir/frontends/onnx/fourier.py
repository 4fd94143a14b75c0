"""Rules for Fourier transforms: DFT and STFT.

A transform of composite length is factored (Cooley-Tukey): for n = a * b it takes about
n * (a + b) multiplications instead of n * n, and recursively for a and b. Each factor is
a matmul with a DFT matrix computed in f64, at compile time if the length is static. A
transform of symbolic length is one matmul.

Source: Cooley and Tukey, An Algorithm for the Machine Calculation of Complex Fourier
Series, 1965.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from mlir import ir

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.op_interface import OnnxNode, ValueNotKnownError, onnx_rule
from relax_mlir.dialects.relax.arithmetic import (
    AddOp,
    DivideOp,
    FloorModOp,
    MultiplyOp,
    SubtractOp,
)
from relax_mlir.dialects.relax.cast import AstypeOp
from relax_mlir.dialects.relax.concat_split import ConcatOp, StackOp
from relax_mlir.dialects.relax.core import ShapeToTensorOp
from relax_mlir.dialects.relax.creation import ArangeOp
from relax_mlir.dialects.relax.elementwise import wide_type
from relax_mlir.dialects.relax.gather import TakeOp
from relax_mlir.dialects.relax.manipulate import FlipOp, PermuteDimsOp, ReshapeOp
from relax_mlir.dialects.relax.matmul import MatmulOp
from relax_mlir.dialects.relax.padding import PadOp
from relax_mlir.dialects.relax.trigonometry import CosOp, SinOp
from relax_mlir.dialects.shapes import Dim
from relax_mlir.frontends.onnx.node_form import input_shape
from relax_mlir.frontends.onnx.slicing import crop, slice_axis

_F64, _INT64 = dtypes.dtype("float64"), dtypes.dtype("int64")
_MAX_TABLE = 1 << 24  # elements of a constant DFT matrix
_MAX_DIRECT = 128  # up to this length one matmul is faster than a factored transform


@dataclass(frozen=True)
class _Complex:
    """A complex tensor; ``imag`` is None for a real one."""

    real: ir.Value
    imag: ir.Value | None = None

    def each(self, fn: Callable[[ir.Value], ir.Value]) -> "_Complex":
        """``fn`` applied to both parts; it must map 0 to 0."""
        return _Complex(fn(self.real), None if self.imag is None else fn(self.imag))

    @property
    def shape(self) -> tuple[Dim, ...]:
        return tensors.shape_of(self.real)


@dataclass(frozen=True)
class _Transform:
    """DFT along the last axis.

    Attributes:
        node: creates constants.
        sign: sign of the exponent: -1, or 1 for the inverse.
    """

    node: OnnxNode
    sign: int

    def __call__(self, x: _Complex, size: Dim) -> _Complex:
        """The transform of ``x``, which has ``size`` elements along its last axis."""
        if not isinstance(size, int) or size > _MAX_TABLE:
            return self._symbolic(x, size)
        first = 1 if size <= _MAX_DIRECT else _divisor(size)
        if first == 1:
            return (
                self._direct(x, size)
                if size**2 <= _MAX_TABLE
                else self._symbolic(x, size)
            )
        second = size // first
        *outer, _ = x.shape
        rank = len(outer)
        # Element a * second + b: for every b a transform over a and twiddle factors ...
        split = x.each(lambda v: ReshapeOp(v, shape=(*outer, first, second)).y)
        order = (*range(rank), rank + 1, rank)
        columns = split.each(lambda v: PermuteDimsOp(v, axes=order).y)
        twiddled = self._twiddle(self(columns, first), first, second)
        # ... then for every frequency a transform over b.
        rows = twiddled.each(lambda v: PermuteDimsOp(v, axes=order).y)
        found = self(rows, second).each(lambda v: PermuteDimsOp(v, axes=order).y)
        return found.each(lambda v: ReshapeOp(v, shape=(*outer, size)).y)

    def _direct(self, x: _Complex, size: int) -> _Complex:
        steps = np.outer(np.arange(size), np.arange(size)) % size
        return self._times_roots(x, steps, size, lambda a, m: MatmulOp(a, m).z)

    def _twiddle(self, x: _Complex, first: int, second: int) -> _Complex:
        steps = np.outer(np.arange(second), np.arange(first))
        return self._times_roots(
            x, steps, first * second, lambda a, m: MultiplyOp(a, m).z
        )

    def _times_roots(
        self,
        x: _Complex,
        steps: np.ndarray,
        size: int,
        times: Callable[[ir.Value, ir.Value], ir.Value],
    ) -> _Complex:
        """``x`` times the roots of unity e^(sign 2 pi i steps / size)."""
        angles = 2 * np.pi * steps / size
        kind = tensors.dtype_of(x.real).numpy
        cos = self.node.constant(np.cos(angles).astype(kind))
        sin = self.node.constant((self.sign * np.sin(angles)).astype(kind))
        return _complex_times(x, cos, sin, times)

    def _symbolic(self, x: _Complex, size: Dim) -> _Complex:
        numbers = ArangeOp(start=0, end=size, dtype=_INT64).y
        column = ReshapeOp(numbers, shape=(size, 1)).y
        count = ShapeToTensorOp(dims=(size,)).y
        steps = FloorModOp(MultiplyOp(column, numbers).z, count).z
        circle = self.node.constant(np.array(2 * np.pi * self.sign))
        wide, total = (AstypeOp(v, dtype=_F64).y for v in (steps, count))
        angles = DivideOp(MultiplyOp(wide, circle).z, total).z
        kind = tensors.dtype_of(x.real)
        cos, sin = (AstypeOp(f(angles).y, dtype=kind).y for f in (CosOp, SinOp))
        return _complex_times(x, cos, sin, lambda a, m: MatmulOp(a, m).z)


def _complex_times(
    x: _Complex,
    cos: ir.Value,
    sin: ir.Value,
    times: Callable[[ir.Value, ir.Value], ir.Value],
) -> _Complex:
    if x.imag is None:
        return _Complex(times(x.real, cos), times(x.real, sin))
    return _Complex(
        SubtractOp(times(x.real, cos), times(x.imag, sin)).z,
        AddOp(times(x.real, sin), times(x.imag, cos)).z,
    )


def _divisor(size: int) -> int:
    """The largest divisor not above the square root."""
    return next(n for n in range(math.isqrt(size), 0, -1) if size % n == 0)


@onnx_rule("DFT", since=17)
def dft_attribute(node: OnnxNode) -> ir.Value:
    """Discrete Fourier transform along an axis that is an attribute.

    Source: ONNX DFT-17.
    """
    return _dft(node, node.attr("axis", 1))


@onnx_rule("DFT", since=20)
def dft(node: OnnxNode) -> ir.Value:
    """Discrete Fourier transform along an axis that is an input.

    Source: ONNX DFT-20.
    """
    is_given = node.optional(2) is not None
    return _dft(node, int(node.scalar(2)) if is_given else -2)


def _dft(node: OnnxNode, axis: int) -> ir.Value:
    x = node.input(0)
    shape = tensors.shape_of(x)
    axis = shapes.check_axis(axis, len(shape))
    if axis == len(shape) - 1:
        raise ValueError(
            "axis: expected one before the last, which holds real and imaginary parts"
        )
    inverse, onesided = (node.flag(n, default=False) for n in ("inverse", "onesided"))
    whole = _length(node, shape[axis], is_half=inverse and onesided)
    signal = _moved(_parts(x), axis, len(shape) - 2)
    if onesided and not inverse and signal.imag is not None:
        raise ValueError("onesided: expected a real signal, got a complex one")
    if inverse and onesided:
        found = _inverse_of_half(node, signal, whole)
    else:
        found = _transformed(node, _resized(signal, whole), whole, inverse=inverse)
    if onesided and not inverse:
        found = found.each(lambda v: _cut(v, 0, _half(whole)))
    return _joined(_moved(found, len(shape) - 2, axis), x)


def _length(node: OnnxNode, size: Dim, *, is_half: bool) -> Dim:
    """The length of the transform."""
    if node.optional(1) is not None:
        length = node.dim(1)
    else:
        length = 2 * (size - 1) if is_half else size
    if isinstance(length, int) and length < 1:
        raise ValueError(f"dft_length: expected 1 or more, got {length}")
    return length


def _half(size: Dim) -> Dim:
    """The number of non-redundant frequencies of a real signal."""
    return shapes.floordiv(size, 2) + 1


def _transformed(node: OnnxNode, x: _Complex, size: Dim, *, inverse: bool) -> _Complex:
    found = _Transform(node, 1 if inverse else -1)(x, size)
    if not inverse:
        return found
    if isinstance(size, int):
        return found.each(lambda v: _scaled(node, v, 1 / size))
    count = ShapeToTensorOp(dims=(size,)).y
    total = AstypeOp(count, dtype=tensors.dtype_of(x.real)).y
    return found.each(lambda v: DivideOp(v, total).z)


def _inverse_of_half(node: OnnxNode, x: _Complex, size: Dim) -> _Complex:
    """The real signal with this one-sided spectrum."""
    half = _resized(x, _half(size))
    count = shapes.floordiv(size - 1, 2)
    real = ConcatOp(
        [half.real, FlipOp(_cut(half.real, 1, 1 + count), axis=-1).y], axis=-1
    ).y
    if half.imag is None:
        whole = _Complex(real)
    else:
        mirrored = FlipOp(_cut(half.imag, 1, 1 + count), axis=-1).y
        parts = [half.imag, _scaled(node, mirrored, -1.0)]
        whole = _Complex(real, ConcatOp(parts, axis=-1).y)
    return _Complex(_transformed(node, whole, size, inverse=True).real)


def _scaled(node: OnnxNode, x: ir.Value, scale: float) -> ir.Value:
    return MultiplyOp(
        x, node.constant(np.array(scale).astype(tensors.dtype_of(x).numpy))
    ).z


def _parts(x: ir.Value) -> _Complex:
    """Real and imaginary parts from the last axis of input 0; those of f16 and bf16 in f32.

    Raises:
        NotKnownError: the size of the last axis is symbolic.
    """
    x = AstypeOp(x, dtype=wide_type(tensors.dtype_of(x))).y
    *outer, count = tensors.shape_of(x)
    if not isinstance(count, int):
        raise ValueNotKnownError(
            0,
            f"expected 1 or 2 parts along the last axis, got {count}",
            needs_shape_only=True,
        )
    if count not in (1, 2):
        raise ValueError(f"expected 1 or 2 parts along the last axis, got {count}")
    if count == 1:
        return _Complex(ReshapeOp(x, shape=outer).y)
    columns = (slice_axis(x, len(outer), index, index + 1) for index in range(2))
    return _Complex(*(ReshapeOp(column, shape=outer).y for column in columns))


def _joined(x: _Complex, like: ir.Value) -> ir.Value:
    """Real and imaginary parts along a new last axis, in the element type of ``like``."""
    if x.imag is None:
        y = ReshapeOp(x.real, shape=(*x.shape, 1)).y
    else:
        y = StackOp([x.real, x.imag], axis=-1).y
    return AstypeOp(y, dtype=tensors.dtype_of(like)).y


def _moved(x: _Complex, source: int, target: int) -> _Complex:
    order = list(range(len(x.shape)))
    order.insert(target, order.pop(source))
    if source == target:
        return x
    return x.each(lambda v: PermuteDimsOp(v, axes=order).y)


def _cut(x: ir.Value, begin: Dim, end: Dim) -> ir.Value:
    *outer, size = tensors.shape_of(x)
    rest = [0] * len(outer)
    return crop(x, [*rest, -begin, *rest, end - size])


def _resized(x: _Complex, size: Dim) -> _Complex:
    """Truncated, or padded with zeros, along the last axis."""
    *outer, old = x.shape
    if old == size:
        return x
    pads: list[Dim] = [0] * (2 * len(outer) + 1) + [size - old]
    return x.each(lambda v: PadOp(v, pad_width=pads).y)


@onnx_rule("STFT", since=17)
def stft(node: OnnxNode) -> ir.Value:
    """Short-time Fourier transform.

    A signal of rank 2, [batch, length], is real; exporters write it, and other runtimes
    accept it. ``onesided`` truncates the spectrum of a complex signal, too, as in
    onnxruntime.

    Source: ONNX STFT-17.
    """
    signal, window = node.input(0), node.optional(2)
    if window is not None:
        input_shape(node, 2, "length")
    shape = tensors.shape_of(signal)
    if len(shape) == 2:
        signal = ReshapeOp(signal, shape=(*shape, 1)).y
    elif len(shape) != 3:
        raise ValueError(f"expected a signal of rank 2 or 3, got {len(shape)}")
    step = int(node.scalar(1))
    length = _frame_length(node, shape[1])
    if step < 1:
        raise ValueError(f"frame_step: expected 1 or more, got {step}")
    parts = _parts(signal)
    onesided = node.flag("onesided", default=True)
    count = shapes.floordiv(shape[1] - length, step) + 1
    frames = parts.each(lambda v: _frames(v, count, length, step))
    if window is not None:
        wide = AstypeOp(window, dtype=tensors.dtype_of(parts.real)).y
        frames = frames.each(lambda v: MultiplyOp(v, wide).z)
    found = _transformed(node, frames, length, inverse=False)
    if onesided:
        found = found.each(lambda v: _cut(v, 0, _half(length)))
    return _joined(found, signal)


def _frame_length(node: OnnxNode, size: Dim) -> Dim:
    window = node.optional(2)
    if node.optional(3) is not None:
        length = node.dim(3)
    else:
        length = size if window is None else tensors.shape_of(window)[0]
    if window is not None:
        length = shapes.unify(length, tensors.shape_of(window)[0])
    numbers = [n for n in (length, size) if isinstance(n, int)]
    if numbers[:1] == [0] or (len(numbers) == 2 and numbers[0] > numbers[1]):
        raise ValueError(f"frame_length: expected 1 to {size}, got {length}")
    return length


def _frames(x: ir.Value, count: Dim, length: Dim, step: int) -> ir.Value:
    """Overlapping frames, gathered by index: [batch, frames, length]."""
    starts = ArangeOp(start=0, end=count * step, step=step, dtype=_INT64).y
    offsets = ArangeOp(start=0, end=length, dtype=_INT64).y
    indices = AddOp(ReshapeOp(starts, shape=(count, 1)).y, offsets).z
    return TakeOp(x, indices, axis=1, mode="clip").y
