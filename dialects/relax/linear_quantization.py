"""Numbers as steps of a scale in a type of few bits, and back, as ONNX defines it.

A scale holds for a tensor, for a slice of it along an axis, or for a block of such slices.
"""

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
from mlir.ir import BoolAttr, IntegerAttr, RankedTensorType, TypeAttr

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.dtypes import DType
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.hooks import Case
from relax_mlir.dialects.relax.arguments import element_type
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.elementwise import wide_type
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = ["DequantizeLinearOp", "QuantizeLinearOp", "largest", "limits_of"]

_F32, _I32, _U8 = map(dtypes.dtype, ("float32", "int32", "uint8"))
_FLOATS = ("float16", "bfloat16", "float32")
_INTEGERS = ("int8", "uint8", "int16", "uint16", "int4", "uint4", "int2", "uint2")
_FLOATS8 = tuple(f"float8_{f}" for f in ("e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz"))
_FLOATS6 = ("float6_e2m3fn", "float6_e3m2fn")
_QUANTIZED = (*_INTEGERS, *_FLOATS8, *_FLOATS6, "float4_e2m1fn")
_SCALES = (*_FLOATS, "float8_e8m0fnu")


def limits_of(type_: DType) -> tuple[int, int]:
    """The least and the greatest integer of a type."""
    signed = type_.kind == "i"
    return -(1 << (type_.bits - 1)) if signed else 0, (1 << (type_.bits - signed)) - 1


def largest(type_: DType) -> float:
    """The greatest finite number of a type of floats."""
    return float(ml_dtypes.finfo(type_.numpy).max)


class QuantizeLinearOp(Relax.Operation, name="quantize_linear"):
    """x / scale to the nearest integer, ties to even, + zero_point; or as a small float.

    Beyond the last integers of the type it is the last, also for infinities.

    Attributes:
        axis: along which scale and zero_point differ; negative ones count from the end.
        block_size: so many slices along ``axis`` share a scale; 0 where each has its own.
        saturate: whether what is too large for a float of 8 bits becomes the largest one.
        precision: the type of floats of the quotient.
    Shapes:
        x, y: any. scale, zero_point: one element; or [k], where k is the size of
        ``axis``; or with blocks that of x, ``axis`` divided by ``block_size``, rounded
        up; or the rank of x, and sizes that broadcast to it. zero_point and y have one
        type, and floats of 8 bits no zero point but 0.
    Source: ONNX QuantizeLinear-25.
    """

    x: Operand[RankedTensorType]
    scale: Operand[RankedTensorType]
    zero_point: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    axis: IntegerAttr
    block_size: IntegerAttr
    saturate: BoolAttr
    precision: TypeAttr

    cases = (
        Case((3, 4), (4,), (4, "int8"), axis=1, low=1.0, high=90.0),
        Case((3, 4), (3,), (3, "int16"), axis=0, low=-9.0, high=9.0),
        Case((75,), (), ("uint8",), low=1.0, high=99.0),
        Case((35,), (1,), (1, "int4"), low=0.5, high=9.0),
        Case((3, 5), (2, 5), (2, 5, "uint4"), axis=0, block_size=2, low=1, high=9),
        Case(
            (2, 35, "float16"), (2, 5, "float16"), (2, 5, "int8"), block_size=8, low=1
        ),
        Case((35,), (), ("float8_e4m3fn",), low=-0.0, high=90.0),
        Case((2, 9), (2,), (2, "float8_e5m2"), axis=0, saturate=False, low=1, high=9),
        Case((35,), (), ("float4_e2m1fn",), low=0.5, high=9.0),
        Case((0, 2), (2,), (2, "uint16"), axis=1),
        Case((2, 3, 17), (2, 1, 17), (1, 3, 1, "int8"), low=1.0, high=9.0),
    )

    @staticmethod
    def normalize_arguments(**attrs: Any) -> dict[str, Any]:  # Any: see the base
        dtype = element_type(attrs.get("precision")) or _F32
        return {**attrs, "precision": dtype}

    @staticmethod
    def infer(
        x: RankedTensorType,
        scale: RankedTensorType,
        zero_point: RankedTensorType,
        axis: int = -1,
        block_size: int = 0,
        saturate: bool = True,
        precision: DType = _F32,
    ) -> RankedTensorType:
        _check("x", tensors.dtype_of(x), (*_FLOATS, "int32"))
        _check("scale", tensors.dtype_of(scale), (*_SCALES, "int32"))
        _check("zero_point", tensors.dtype_of(zero_point), _QUANTIZED)
        _check("precision", precision, _FLOATS)
        _check_shapes(x, scale, zero_point, axis, block_size)
        return tensors.tensor_type(tensors.shape_of(x), tensors.dtype_of(zero_point))

    @staticmethod
    def reference(
        x: np.ndarray,
        scale: np.ndarray,
        zero_point: np.ndarray,
        axis: int = -1,
        block_size: int = 0,
        saturate: bool = True,
        precision: DType = _F32,
    ) -> np.ndarray:
        out = dtypes.from_numpy(zero_point.dtype)
        scale, zero = (_spread(v, x, axis, block_size) for v in (scale, zero_point))
        with np.errstate(all="ignore"):
            quotient = x.astype(precision.numpy) / scale.astype(precision.numpy)
            wide = quotient.astype(np.float32)
            if out.is_integer:
                moved = np.rint(wide) + zero.astype(np.float32)
                clipped = np.clip(moved, *limits_of(out)).astype(np.int32)
                return np.asarray(clipped).astype(out.numpy)
            if out.bits < 8:
                wide = wide + zero.astype(np.float32)
            elif saturate:
                wide = np.clip(wide, -largest(out), largest(out))
            return np.asarray(wide).astype(out.numpy)

    def legalize(self, b: Builder) -> Buffer:
        x, scale, zero = b.buffers(self.x, self.scale, self.zero_point)
        shape, out = b.results[0]
        attrs = self.python_attrs()
        precision, saturate = attrs["precision"], attrs["saturate"]
        at = _Place(attrs["axis"], attrs["block_size"], len(shape))
        wide = wide_type(precision)

        def body(*point: Index) -> Scalar:
            step = b.cast(b.cast(at.read(scale, point), precision), wide)
            quotient = b.cast(b.cast(x[point], precision), wide) / step
            quotient = b.cast(b.cast(quotient, precision), _F32)
            if out.is_integer:
                steps = b.math("roundeven", quotient)
                moved = steps + b.cast(at.read(zero, point), _F32)
                return b.cast(_limited(moved, *limits_of(out)), out)
            if out.bits < 8:
                quotient = quotient + b.cast(at.read(zero, point), _F32)
            elif saturate:
                quotient = _limited(quotient, -largest(out), largest(out))
            return b.cast(quotient, out)

        return b.compute(shape, body, out, "quantize")


class DequantizeLinearOp(Relax.Operation, name="dequantize_linear"):
    """(x - zero_point) * scale; of floats, x * scale.

    Attributes:
        axis, block_size: as for ``quantize_linear``.
        out_dtype: the type of floats of y.
    Shapes:
        as for ``quantize_linear``; x and zero_point have one type.
    Source: ONNX DequantizeLinear-25.
    """

    x: Operand[RankedTensorType]
    scale: Operand[RankedTensorType]
    zero_point: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    axis: IntegerAttr
    block_size: IntegerAttr
    out_dtype: TypeAttr

    cases = (
        Case((3, 4, "int8"), (4,), (4, "int8"), axis=1, low=-90, high=90),
        Case((3, 4, "uint8"), (3,), (3, "uint8"), axis=0, low=0, high=200),
        Case((35, "int32"), (), ("int32",), low=-9, high=9),
        Case((3, 35, "int4"), (3, 5), (3, 5, "int4"), block_size=8, low=-8, high=7),
        Case((5, 9, "uint2"), (2, 9), (2, 9, "uint2"), axis=0, block_size=3, high=3),
        Case(
            (2, 3, "int16"),
            ("float16",),
            ("int16",),
            out_dtype=dtypes.dtype("float16"),
            low=-9,
            high=9,
        ),
        Case((2, 35, "float8_e4m3fn"), (2,), (2, "float8_e4m3fn"), axis=0),
        Case((35, "float4_e2m1fn"), (1, "float8_e8m0fnu"), (1, "float4_e2m1fn")),
        Case((2, 3, 17, "uint4"), (2, 3, 1), (2, 3, 1, "uint4"), low=0, high=15),
    )

    @staticmethod
    def normalize_arguments(**attrs: Any) -> dict[str, Any]:  # Any: see the base
        return {**attrs, "out_dtype": element_type(attrs.get("out_dtype")) or _F32}

    @staticmethod
    def infer(
        x: RankedTensorType,
        scale: RankedTensorType,
        zero_point: RankedTensorType,
        axis: int = -1,
        block_size: int = 0,
        out_dtype: DType = _F32,
    ) -> RankedTensorType:
        found, zero = tensors.dtype_of(x), tensors.dtype_of(zero_point)
        _check("x", found, (*_QUANTIZED, "int32"))
        _check("scale", tensors.dtype_of(scale), _SCALES)
        _check("zero_point", zero, (found.name,))
        _check("out_dtype", out_dtype, _FLOATS)
        _check_shapes(x, scale, zero_point, axis, block_size)
        return tensors.tensor_type(tensors.shape_of(x), out_dtype)

    @staticmethod
    def reference(
        x: np.ndarray,
        scale: np.ndarray,
        zero_point: np.ndarray,
        axis: int = -1,
        block_size: int = 0,
        out_dtype: DType = _F32,
    ) -> np.ndarray:
        scale, zero = (_spread(v, x, axis, block_size) for v in (scale, zero_point))
        if dtypes.from_numpy(x.dtype).is_float:
            steps = x.astype(np.float32)
        else:
            steps = (x.astype(np.int32) - zero.astype(np.int32)).astype(np.float32)
        return np.asarray(steps * scale.astype(np.float32)).astype(out_dtype.numpy)

    def legalize(self, b: Builder) -> Buffer:
        x, scale, zero = b.buffers(self.x, self.scale, self.zero_point)
        shape, out = b.results[0]
        attrs = self.python_attrs()
        at = _Place(attrs["axis"], attrs["block_size"], len(shape))

        def body(*point: Index) -> Scalar:
            steps = x[point]
            if not x.dtype.is_float:
                steps = b.cast(steps, _I32) - b.cast(at.read(zero, point), _I32)
            step = b.cast(at.read(scale, point), _F32)
            return b.cast(b.cast(steps, _F32) * step, out)

        return b.compute(shape, body, out, "dequantize")


def _check(what: str, got: DType, allowed: Sequence[str]) -> None:
    if got.name not in allowed:
        listed = ", ".join(allowed)
        raise ValueError(f"{what}: expected element type {listed}, got {got}")


def _check_shapes(
    x: RankedTensorType,
    scale: RankedTensorType,
    zero_point: RankedTensorType,
    axis: int,
    block_size: int,
) -> None:
    """Whether there is one scale for all, or for each slice or block."""
    sizes = tensors.shape_of(x)
    for what, operand in (("scale", scale), ("zero_point", zero_point)):
        found = tensors.shape_of(operand)
        if all(size == 1 for size in found):
            continue
        axis = shapes.check_axis(axis, len(sizes))
        if len(found) == len(sizes) > 1 and not block_size:
            shapes.broadcast_into(sizes, found)
            continue
        expected = _scale_shape(sizes, axis, block_size)
        if len(found) != len(expected):
            raise ValueError(_wrong_shape(what, expected, found, axis))
        for ours, theirs in zip(expected, found, strict=True):
            if shapes.is_known_unequal(ours, theirs):
                raise ValueError(_wrong_shape(what, expected, found, axis))
            shapes.require_equal(ours, theirs)


def _wrong_shape(
    what: str, expected: Sequence[Dim], found: Sequence[Dim], axis: int
) -> str:
    ours, theirs = map(shapes.format_shape, (expected, found))
    return f"{what}: expected a number, or shape {ours} for axis {axis}, got {theirs}"


def _scale_shape(sizes: Sequence[Dim], axis: int, block_size: int) -> list[Dim]:
    if not block_size:
        return [sizes[axis]]
    blocks = shapes.ceildiv(sizes[axis], block_size)
    return [*sizes[:axis], blocks, *sizes[axis + 1 :]]


def _spread(
    values: np.ndarray, x: np.ndarray, axis: int, block_size: int
) -> np.ndarray:
    """Values of slices or blocks in a shape that broadcasts to that of ``x``."""
    if values.size == 1:
        return values.reshape(())
    if values.ndim == x.ndim > 1 and not block_size:
        return values
    if block_size:
        numbers = np.arange(x.shape[axis]) // block_size
        return values.take(numbers, axis)
    sizes = [1] * x.ndim
    sizes[axis] = -1
    return values.reshape(sizes)


class _Place:
    """Where the scale of an element stands."""

    def __init__(self, axis: int, block_size: int, rank: int) -> None:
        self._axis, self._block_size = axis % max(rank, 1), block_size

    def read(self, values: Buffer, point: tuple[Index, ...]) -> Scalar:
        """The value for an element."""
        if all(size == 1 for size in values.shape):
            return values[(0,) * values.rank]
        along = point[self._axis]
        if self._block_size:
            before, after = point[: self._axis], point[self._axis + 1 :]
            return values[(*before, along // self._block_size, *after)]
        if values.rank == 1:
            return values[along]
        pairs = zip(values.shape, point, strict=True)
        return values[tuple(0 if size == 1 else axis for size, axis in pairs)]


def _limited(value: Scalar, low: float, high: float) -> Scalar:
    return value.minimum(high).maximum(low)
