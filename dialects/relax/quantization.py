"""Numbers as small integers, each for a step of a scale, and back."""

from typing import Any

import numpy as np
from mlir.ir import IntegerAttr, RankedTensorType, TypeAttr

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.dtypes import DType
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.hooks import Case
from relax_mlir.dialects.relax.arguments import element_type
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = ["DequantizeOp", "QuantizeOp"]

_F32, _INT8, _INT32 = map(dtypes.dtype, ("float32", "int8", "int32"))
_FLOATS = ("float16", "float32")
_ZERO_POINTS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "float16")
_QUANTIZED = ("int8", "uint8", "int16", "uint16")
_STORED = (*_QUANTIZED, "int32", *_FLOATS)


class QuantizeOp(Relax.Operation, name="quantize"):
    """data / scale + zero_point as the nearest integer; beyond the last ones, the last.

    Attributes:
        axis: along which scale and zero_point differ; negative ones count from the end.
        out_dtype: an integer type of 8 or 16 bits.
    Shapes:
        data, y: any, floats of 16 or 32 bits; scale, zero_point: [k], where k is the
        size of ``axis``, or a single number.
    Source: ONNX QuantizeLinear-13.
    """

    data: Operand[RankedTensorType]
    scale: Operand[RankedTensorType]
    zero_point: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    axis: IntegerAttr
    out_dtype: TypeAttr

    cases = (
        Case((3, 4), (4,), (4, "int8"), low=1.0, high=90.0),
        Case((3, 4), (3,), (3, "int8"), axis=0, low=-9.0, high=9.0),
        Case((5,), (), ("uint8",), out_dtype=dtypes.dtype("uint8"), low=1.0, high=99.0),
        Case(
            (2, 3, 1),
            (1, 1),
            (1, "int16"),
            axis=1,
            out_dtype=dtypes.dtype("int16"),
            low=0.5,
            high=999.0,
        ),
        Case((0, 2), (2,), (2, "int32")),
    )

    @staticmethod
    def normalize_arguments(**attrs: Any) -> dict[str, Any]:  # Any: see the base
        dtype = element_type(attrs.get("out_dtype")) or _INT8
        return {**attrs, "out_dtype": dtype}

    @staticmethod
    def infer(
        data: RankedTensorType,
        scale: RankedTensorType,
        zero_point: RankedTensorType,
        axis: int = -1,
        out_dtype: DType = _INT8,
    ) -> RankedTensorType:
        _check_types(data, scale, zero_point, _FLOATS)
        if out_dtype.name not in _QUANTIZED:
            _refuse("out_dtype", out_dtype, _QUANTIZED)
        _check_sizes(data, scale, zero_point, axis)
        return tensors.tensor_type(tensors.shape_of(data), out_dtype)

    @staticmethod
    def reference(
        data: np.ndarray,
        scale: np.ndarray,
        zero_point: np.ndarray,
        axis: int = -1,
        out_dtype: DType = _INT8,
    ) -> np.ndarray:
        info = np.iinfo(out_dtype.numpy)
        scale, zero_point = (_along(v, data, axis) for v in (scale, zero_point))
        with np.errstate(all="ignore"):
            moved = np.rint(data / scale).astype(np.float32) + zero_point
            return np.clip(moved, info.min, info.max).astype(out_dtype.numpy)

    def legalize(self, b: Builder) -> Buffer:
        data, scale, zero_point = b.inputs
        shape, out = b.results[0]
        axis = self.axis.value % max(len(shape), 1)
        info = np.iinfo(out.numpy)

        def body(*point: Index) -> Scalar:
            step = b.cast(_at(scale, point, axis), _F32)
            steps = b.math("roundeven", b.cast(data[point], _F32) / step)
            moved = steps + b.cast(_at(zero_point, point, axis), _F32)
            low, high = (b.constant(v, _F32) for v in (info.min, info.max))
            return b.cast(moved.minimum(high).maximum(low), out)

        return b.compute(shape, body, out, "quantize")


class DequantizeOp(Relax.Operation, name="dequantize"):
    """(data - zero_point) * scale.

    Attributes:
        axis: along which scale and zero_point differ; negative ones count from the end.
        out_dtype: the type of floats that y has, of 16 or 32 bits.
    Shapes:
        data, y: any; scale, zero_point: [k], where k is the size of ``axis``, or a
        single number.
    Source: ONNX DequantizeLinear-13.
    """

    data: Operand[RankedTensorType]
    scale: Operand[RankedTensorType]
    zero_point: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    axis: IntegerAttr
    out_dtype: TypeAttr

    cases = (
        Case((3, 4, "int8"), (4,), (4, "int8"), low=-90, high=90),
        Case((3, 4, "uint8"), (3,), (3, "uint8"), axis=0, low=0, high=200),
        Case((5, "int32"), (), ("int32",), low=-9, high=9),
        Case(
            (2, 3, "int16"),
            ("float16",),
            (1, "int8"),
            out_dtype=dtypes.dtype("float16"),
            low=-9,
            high=9,
        ),
        Case((2, 3), (3,), (3, "float16")),
    )

    @staticmethod
    def normalize_arguments(**attrs: Any) -> dict[str, Any]:  # Any: see the base
        return {**attrs, "out_dtype": element_type(attrs.get("out_dtype")) or _F32}

    @staticmethod
    def infer(
        data: RankedTensorType,
        scale: RankedTensorType,
        zero_point: RankedTensorType,
        axis: int = -1,
        out_dtype: DType = _F32,
    ) -> RankedTensorType:
        _check_types(data, scale, zero_point, _STORED)
        if out_dtype.name not in _FLOATS:
            _refuse("out_dtype", out_dtype, _FLOATS)
        _check_sizes(data, scale, zero_point, axis)
        return tensors.tensor_type(tensors.shape_of(data), out_dtype)

    @staticmethod
    def reference(
        data: np.ndarray,
        scale: np.ndarray,
        zero_point: np.ndarray,
        axis: int = -1,
        out_dtype: DType = _F32,
    ) -> np.ndarray:
        wide = np.float32 if data.dtype.kind == "f" else np.int32
        scale, zero_point = (_along(v, data, axis) for v in (scale, zero_point))
        steps = data.astype(wide) - zero_point.astype(wide)
        scaled = steps.astype(np.float32) * scale.astype(np.float32)
        return scaled.astype(out_dtype.numpy)

    def legalize(self, b: Builder) -> Buffer:
        data, scale, zero_point = b.inputs
        shape, out = b.results[0]
        axis = self.axis.value % max(len(shape), 1)
        wide = _F32 if data.dtype.is_float else _INT32

        def body(*point: Index) -> Scalar:
            zero = b.cast(_at(zero_point, point, axis), wide)
            steps = b.cast(b.cast(data[point], wide) - zero, _F32)
            return b.cast(steps * b.cast(_at(scale, point, axis), _F32), out)

        return b.compute(shape, body, out, "dequantize")


def _refuse(what: str, got: DType, allowed: tuple[str, ...]) -> None:
    raise ValueError(f"{what}: expected one of {', '.join(allowed)}, got {got}")


def _check_types(
    data: RankedTensorType,
    scale: RankedTensorType,
    zero_point: RankedTensorType,
    taken: tuple[str, ...],
) -> None:
    """Whether data is of a type that is taken, and the others are of theirs."""
    expected = {"data": taken, "scale": _FLOATS, "zero_point": _ZERO_POINTS}
    for (what, allowed), operand in zip(
        expected.items(), (data, scale, zero_point), strict=True
    ):
        found = tensors.dtype_of(operand)
        if found.name not in allowed:
            _refuse(what, found, allowed)


def _check_sizes(
    data: RankedTensorType,
    scale: RankedTensorType,
    zero_point: RankedTensorType,
    axis: int,
) -> None:
    """Whether there is one scale and one zero point, or one of them per slice."""
    if data.rank:
        axis = shapes.check_axis(axis, data.rank)
    for what, operand in (("scale", scale), ("zero_point", zero_point)):
        sizes = tensors.shape_of(operand)
        if all(size == 1 for size in sizes):
            continue
        expected = tensors.shape_of(data)[axis] if data.rank else 1
        if sizes != (expected,):
            raise ValueError(
                f"{what}: expected a number, or {expected} of them, the size of axis "
                f"{axis}, got shape {list(sizes)}"
            )


def _along(values: np.ndarray, data: np.ndarray, axis: int) -> np.ndarray:
    """One value per slice, or one for all, in a shape that broadcasts to that of data."""
    if values.size == 1:
        return values.reshape(())
    sizes = [1] * data.ndim
    sizes[axis] = -1
    return values.reshape(sizes)


def _at(values: Buffer, point: tuple[Index, ...], axis: int) -> Scalar:
    """The value for an element of data."""
    if all(size == 1 for size in values.shape):
        return values[(0,) * values.rank]
    return values[point[axis]]
