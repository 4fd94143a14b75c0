"""ONNX linear quantization and dequantization: per tensor, per axis or blocked."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from mlir.ir import BoolAttr, IntegerAttr, RankedTensorType, TypeAttr

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.dtypes import DType
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.op_interface import Case
from relax_mlir.dialects.relax.attribute_arguments import element_type
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.elementwise import wide_type
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = [
    "DequantizeLinearOp",
    "QuantizationScales",
    "QuantizeLinearOp",
    "check_element_type",
    "integer_limits",
    "largest_finite",
]

_F32, _I32, _U8 = map(dtypes.dtype, ("float32", "int32", "uint8"))
_FLOATS = ("float16", "bfloat16", "float32")
_INTEGERS = ("int8", "uint8", "int16", "uint16", "int4", "uint4", "int2", "uint2")
_FLOATS8 = tuple(f"float8_{f}" for f in ("e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz"))
_FLOATS6 = ("float6_e2m3fn", "float6_e3m2fn")
_QUANTIZED = (*_INTEGERS, *_FLOATS8, *_FLOATS6, "float4_e2m1fn")
_SCALES = (*_FLOATS, "float8_e8m0fnu")


def integer_limits(type_: DType) -> tuple[int, int]:
    """The lowest and highest numbers of an integer type."""
    signed = type_.kind == "i"
    return -(1 << (type_.bits - 1)) if signed else 0, (1 << (type_.bits - signed)) - 1


def largest_finite(type_: DType) -> float:
    """The largest finite number of a float type."""
    return float(ml_dtypes.finfo(type_.numpy).max)


class QuantizeLinearOp(Relax.Operation, name="quantize_linear"):
    """Linear quantization: round(x / scale) + zero_point, or a cast to a narrow float.

    Rounding is to nearest, ties to even. Integers saturate, also for infinities. For narrow
    floats, x / scale is cast to the type of y; below 8 bits, zero_point is added before the
    cast.

    Attributes:
        axis: the axis of scale and zero_point; negative ones count from the end.
        block_size: elements along ``axis`` that share a scale; 0 for per-axis scales.
        saturate: whether float8 results saturate at the largest finite number.
        precision: the float type of the quotient x / scale.
    Shapes:
        x, y: any; scale, zero_point: one element (per tensor); [k], where k is the size of
        ``axis`` (per axis); for blocks, the shape of x with ceil(k / block_size) along
        ``axis``; or any shape of the rank of x that broadcasts to it. The type of y is that
        of zero_point, which is 0 for float8.
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
        check_element_type("x", tensors.dtype_of(x), (*_FLOATS, "int32"))
        check_element_type("scale", tensors.dtype_of(scale), (*_SCALES, "int32"))
        check_element_type("zero_point", tensors.dtype_of(zero_point), _QUANTIZED)
        check_element_type("precision", precision, _FLOATS)
        QuantizationScales(axis, block_size).check(x, scale, zero_point)
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
        return QuantizationScales(axis, block_size).quantized(
            *(x, scale, zero_point),
            dtypes.from_numpy(zero_point.dtype),
            precision,
            saturate=saturate,
        )

    def legalize(self, b: Builder) -> Buffer:
        attrs = self.python_attrs()
        return QuantizationScales(attrs["axis"], attrs["block_size"]).quantize(
            b,
            b.buffers(self.x, self.scale, self.zero_point),
            attrs["precision"],
            saturate=attrs["saturate"],
        )


class DequantizeLinearOp(Relax.Operation, name="dequantize_linear"):
    """Linear dequantization: (x - zero_point) * scale; x * scale for float x.

    Attributes:
        axis, block_size: as for ``quantize_linear``.
        out_dtype: the float type of y.
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
        check_element_type("x", found, (*_QUANTIZED, "int32"))
        check_element_type("scale", tensors.dtype_of(scale), _SCALES)
        check_element_type("zero_point", zero, (found.name,))
        check_element_type("out_dtype", out_dtype, _FLOATS)
        QuantizationScales(axis, block_size).check(x, scale, zero_point)
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
        zero = None if dtypes.from_numpy(x.dtype).is_float else zero_point
        return QuantizationScales(axis, block_size).dequantized(
            x, scale, zero, out_dtype
        )

    def legalize(self, b: Builder) -> Buffer:
        x, scale, zero = b.buffers(self.x, self.scale, self.zero_point)
        attrs = self.python_attrs()
        return QuantizationScales(attrs["axis"], attrs["block_size"]).dequantize(
            b, x, scale, None if x.dtype.is_float else zero
        )


def check_element_type(what: str, got: DType, allowed: Sequence[str]) -> None:
    """Checks that an element type is among the allowed ones.

    Raises:
        ValueError: the type is not allowed.
    """
    if got.name not in allowed:
        listed = ", ".join(allowed)
        raise ValueError(f"{what}: expected element type {listed}, got {got}")


@dataclass(frozen=True)
class QuantizationScales:
    """The granularity of scales and zero points, and (de)quantization by them.

    Attributes:
        axis: the axis of scales; negative ones count from the end.
        block_size: elements along ``axis`` that share a scale; 0 for per-axis scales.
    """

    axis: int
    block_size: int = 0

    def check(
        self,
        x: RankedTensorType,
        scale: RankedTensorType,
        zero_point: RankedTensorType,
        *,
        may_broadcast: bool = True,
    ) -> None:
        """Checks the shapes of scale and zero_point: per tensor, per axis or blocked.

        Args:
            x, scale, zero_point: the operands.
            may_broadcast: whether any shape of the rank of ``x`` that broadcasts is valid.

        Raises:
            ValueError: a shape is invalid.
        """
        sizes = tensors.shape_of(x)
        for what, operand in (("scale", scale), ("zero_point", zero_point)):
            shape = tensors.shape_of(operand)
            if all(size == 1 for size in shape):
                continue
            axis = shapes.check_axis(self.axis, len(sizes))
            is_full_rank = len(shape) == len(sizes) > 1 and not self.block_size
            if is_full_rank and may_broadcast:
                shapes.broadcast_into(sizes, shape)
                continue
            expected = self._shape(sizes, axis)
            if len(shape) != len(expected):
                raise ValueError(_wrong_shape(what, expected, shape, axis))
            for wanted, actual in zip(expected, shape, strict=True):
                if shapes.is_known_unequal(wanted, actual):
                    raise ValueError(_wrong_shape(what, expected, shape, axis))
                shapes.require_equal(wanted, actual)

    def _shape(self, sizes: Sequence[Dim], axis: int) -> list[Dim]:
        if not self.block_size:
            return [sizes[axis]]
        blocks = shapes.ceildiv(sizes[axis], self.block_size)
        return [*sizes[:axis], blocks, *sizes[axis + 1 :]]

    def quantized(
        self,
        x: np.ndarray,
        scale: np.ndarray,
        zero: np.ndarray,
        out: DType,
        precision: DType = _F32,
        *,
        sum_precision: DType = _F32,
        saturate: bool = True,
    ) -> np.ndarray:
        """The numpy reference of quantization.

        Args:
            x: the numbers.
            scale, zero: the scale and the zero point.
            out: the quantized type.
            precision: the float type of the quotient.
            sum_precision: the float type of its sum with the zero point, of an integer type.
            saturate: whether float8 results saturate at the largest finite number.
        """
        scale, zero = (self._broadcastable(v, x) for v in (scale, zero))
        with np.errstate(all="ignore"):
            quotient = x.astype(precision.numpy) / scale.astype(precision.numpy)
            wide = quotient.astype(np.float32)
            if out.is_integer:
                type_ = sum_precision.numpy
                shifted = np.rint(wide).astype(type_) + zero.astype(type_)
                shifted = shifted.astype(np.float32)
                low, high = integer_limits(out)
                clipped = np.fmin(np.fmax(shifted, low), high)  # NaN becomes the lowest
                return np.asarray(clipped.astype(np.int32)).astype(out.numpy)
            if out.bits < 8:
                wide = wide + zero.astype(np.float32)
            elif saturate:
                wide = np.clip(wide, -largest_finite(out), largest_finite(out))
            return np.asarray(wide).astype(out.numpy)

    def quantize(
        self,
        b: Builder,
        operands: Sequence[Buffer],
        precision: DType = _F32,
        *,
        sum_precision: DType = _F32,
        saturate: bool = True,
    ) -> Buffer:
        """The tensor program of :meth:`quantized`, to the type of the builder's result."""
        x, scale, zero = operands
        shape, out = b.results[0]
        wide = wide_type(precision)

        def body(*point: Index) -> Scalar:
            divisor = b.cast(b.cast(self._read(scale, point), precision), wide)
            quotient = b.cast(b.cast(x[point], precision), wide) / divisor
            quotient = b.cast(b.cast(quotient, precision), _F32)
            if out.is_integer:
                rounded = b.math("roundeven", quotient)
                offset = b.cast(self._read(zero, point), sum_precision)
                shifted = rounded + b.cast(offset, _F32)
                shifted = b.cast(b.cast(shifted, sum_precision), _F32)
                return b.cast(_clipped(shifted, *integer_limits(out)), out)
            if out.bits < 8:
                quotient = quotient + b.cast(self._read(zero, point), _F32)
            elif saturate:
                quotient = _clipped(quotient, -largest_finite(out), largest_finite(out))
            return b.cast(quotient, out)

        return b.compute(shape, body, out, "quantize")

    def dequantized(
        self,
        x: np.ndarray,
        scale: np.ndarray,
        zero: np.ndarray | None,
        out: DType,
        *,
        saturate: bool = False,
    ) -> np.ndarray:
        """The numpy reference of dequantization.

        Args:
            x: the quantized numbers.
            scale: the scale.
            zero: the zero point; None for 0.
            out: the float type of the result.
            saturate: whether results saturate at the largest finite number.
        """
        wide = np.float32 if dtypes.from_numpy(x.dtype).is_float else np.int32
        shifted = x.astype(wide)
        if zero is not None:
            shifted = shifted - self._broadcastable(zero, x).astype(wide)
        factor = self._broadcastable(scale, x).astype(np.float32)
        product = np.asarray(shifted.astype(np.float32) * factor)
        if saturate:
            product = np.clip(product, -largest_finite(out), largest_finite(out))
        return product.astype(out.numpy)

    def dequantize(
        self,
        b: Builder,
        x: Buffer,
        scale: Buffer,
        zero: Buffer | None,
        *,
        saturate: bool = False,
    ) -> Buffer:
        """The tensor program of :meth:`dequantized`."""
        shape, out = b.results[0]
        wide = _F32 if x.dtype.is_float else _I32

        def body(*point: Index) -> Scalar:
            shifted = b.cast(x[point], wide)
            if zero is not None:
                shifted = shifted - b.cast(self._read(zero, point), wide)
            factor = b.cast(self._read(scale, point), _F32)
            product = b.cast(shifted, _F32) * factor
            if saturate:
                product = _clipped(product, -largest_finite(out), largest_finite(out))
            return b.cast(product, out)

        return b.compute(shape, body, out, "dequantize")

    def _broadcastable(self, values: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Reshapes or repeats scales so that they broadcast to the shape of ``x``."""
        if values.size == 1:
            return values.reshape(())
        if values.ndim == x.ndim > 1 and not self.block_size:
            return values
        if self.block_size:
            numbers = np.arange(x.shape[self.axis]) // self.block_size
            return values.take(numbers, self.axis)
        sizes = [1] * x.ndim
        sizes[self.axis] = -1
        return values.reshape(sizes)

    def _read(self, values: Buffer, point: tuple[Index, ...]) -> Scalar:
        """Reads the scale or zero point of an element."""
        if all(size == 1 for size in values.shape):
            return values[(0,) * values.rank]
        axis = self.axis % len(point)
        if self.block_size:
            before, after = point[:axis], point[axis + 1 :]
            return values[(*before, point[axis] // self.block_size, *after)]
        if values.rank == 1:
            return values[point[axis]]
        pairs = zip(values.shape, point, strict=True)
        return values[tuple(0 if size == 1 else index for size, index in pairs)]


def _wrong_shape(
    what: str, expected: Sequence[Dim], got: Sequence[Dim], axis: int
) -> str:
    per_axis, shape = map(shapes.format_shape, (expected, got))
    return (
        f"{what}: expected a scalar, or shape {per_axis} for axis {axis}, got {shape}"
    )


def _clipped(value: Scalar, low: float, high: float) -> Scalar:
    return value.minimum(high).maximum(low)
