"""Quantization and dequantization with scales per tensor or per axis."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from mlir.ir import IntegerAttr, RankedTensorType, TypeAttr

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.dtypes import DType
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.op_interface import Case
from relax_mlir.dialects.relax.attribute_arguments import element_type
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.quantize_linear import (
    QuantizationScales,
    check_element_type,
)
from relax_mlir.dialects.tir import Buffer, Builder

__all__ = ["DequantizeOp", "QuantizeOp"]

_F32, _INT8 = map(dtypes.dtype, ("float32", "int8"))
_FLOATS = ("float16", "float32")
_ZERO_POINTS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "float16")
_QUANTIZED = ("int8", "uint8", "int16", "uint16")
_STORED = (*_QUANTIZED, "int32", *_FLOATS)


class QuantizeOp(Relax.Operation, name="quantize"):
    """Linear quantization: round(data / scale) + zero_point, ties to even, saturated.

    Quotient and sum are rounded to float16 if ``data`` and ``scale`` are, as in TVM.

    Attributes:
        axis: the axis of per-axis scales; negative ones count from the end.
        out_dtype: an integer type of 8 or 16 bits.
    Shapes:
        data, y: any, floats of 16 or 32 bits; scale, zero_point: [k], where k is the
        size of ``axis``, or a scalar.
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
        Case((75, "float16"), ("float16",), (1, "float16"), low=0.5, high=9.0),
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
        check_element_type("out_dtype", out_dtype, _QUANTIZED)
        _check(data, scale, zero_point, axis, _FLOATS)
        return tensors.tensor_type(tensors.shape_of(data), out_dtype)

    @staticmethod
    def reference(
        data: np.ndarray,
        scale: np.ndarray,
        zero_point: np.ndarray,
        axis: int = -1,
        out_dtype: DType = _INT8,
    ) -> np.ndarray:
        precision = _common_type(
            dtypes.from_numpy(data.dtype), dtypes.from_numpy(scale.dtype)
        )
        return QuantizationScales(axis).quantized(
            data, scale, zero_point, out_dtype, precision, sum_precision=precision
        )

    def legalize(self, b: Builder) -> Buffer:
        data, scale, _ = b.inputs
        precision = _common_type(data.dtype, scale.dtype)
        return QuantizationScales(self.axis.value).quantize(
            b, b.inputs, precision, sum_precision=precision
        )


class DequantizeOp(Relax.Operation, name="dequantize"):
    """Linear dequantization: (data - zero_point) * scale, saturated if float16.

    Attributes:
        axis: the axis of per-axis scales; negative ones count from the end.
        out_dtype: the float type of y, of 16 or 32 bits.
    Shapes:
        data, y: any; scale, zero_point: [k], where k is the size of ``axis``, or a
        scalar.
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
        check_element_type("out_dtype", out_dtype, _FLOATS)
        _check(data, scale, zero_point, axis, _STORED)
        return tensors.tensor_type(tensors.shape_of(data), out_dtype)

    @staticmethod
    def reference(
        data: np.ndarray,
        scale: np.ndarray,
        zero_point: np.ndarray,
        axis: int = -1,
        out_dtype: DType = _F32,
    ) -> np.ndarray:
        return QuantizationScales(axis).dequantized(
            data, scale, zero_point, out_dtype, saturate=out_dtype != _F32
        )

    def legalize(self, b: Builder) -> Buffer:
        _, out = b.results[0]
        return QuantizationScales(self.axis.value).dequantize(
            b, *b.inputs, saturate=out != _F32
        )


def _common_type(data: DType, scale: DType) -> DType:
    return data if data == scale else _F32


def _check(
    data: RankedTensorType,
    scale: RankedTensorType,
    zero_point: RankedTensorType,
    axis: int,
    supported: Sequence[str],
) -> None:
    """Checks the types of the operands and the shapes of scale and zero_point."""
    for what, operand, allowed in (
        ("data", data, supported),
        ("scale", scale, _FLOATS),
        ("zero_point", zero_point, _ZERO_POINTS),
    ):
        check_element_type(what, tensors.dtype_of(operand), allowed)
    if data.rank:
        shapes.check_axis(axis, data.rank)
    QuantizationScales(axis).check(data, scale, zero_point, may_broadcast=False)
