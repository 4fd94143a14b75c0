"""Conversions of element types: cast and bitcast."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from mlir import ir
from mlir.ir import RankedTensorType, TypeAttr

from relax_mlir.dialects import dtypes, tensors
from relax_mlir.dialects.dtypes import DType
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.op_interface import Case, EdgeCase, OnnxNode, onnx_rule
from relax_mlir.dialects.relax.attribute_arguments import element_type
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.elementwise import widen_array
from relax_mlir.dialects.tir import Buffer, Builder, Scalar

_BYTE = dtypes.dtype("uint8")

# Values of onnx.TensorProto.DataType; the dialects do not import onnx.
_ONNX_TYPES: Mapping[int, str] = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
    16: "bfloat16",
}
_NARROW_TYPES: Mapping[int, str] = {
    17: "float8_e4m3fn",
    18: "float8_e4m3fnuz",
    19: "float8_e5m2",
    20: "float8_e5m2fnuz",
    21: "uint4",
    22: "int4",
    23: "float4_e2m1fn",
    24: "float8_e8m0fnu",
    25: "uint2",
    26: "int2",
    27: "float6_e2m3fn",
    28: "float6_e3m2fn",
}


def _pairs() -> Iterator[Case]:
    """Casts from every type to every type, with numbers that both represent."""
    for source in _ONNX_TYPES.values():
        for target in _ONNX_TYPES.values():
            low = 0 if target.startswith("u") else -100
            yield Case((19, source), low=low, high=100, dtype=dtypes.dtype(target))


def _narrow_pairs() -> Iterator[Case]:
    """Casts between narrow types and f32, and for some of them other types."""
    for name in _NARROW_TYPES.values():
        narrow = dtypes.dtype(name)
        is_typical = name in ("float8_e4m3fn", "float4_e2m1fn", "int4", "uint2")
        for other in ("float32", "float16", "int32", "bool")[
            : None if is_typical else 1
        ]:
            yield Case((35, name), dtype=dtypes.dtype(other), low=-8, high=7)
            yield Case((35, other), dtype=narrow, low=-8, high=7)
        if narrow.is_float:
            yield EdgeCase((75,), dtype=narrow, low=-70000.0, high=70000.0)
    yield Case((35, "float4_e2m1fn"), dtype=dtypes.dtype("float8_e5m2"))
    yield Case((35, "int4"), dtype=dtypes.dtype("uint2"), low=-8, high=7)


def _saturating_pairs() -> Iterator[Case]:
    """Casts from every float type to every integer type, with numbers out of range."""
    for source in ("float32", "float64", "float16", "bfloat16"):
        for target in _ONNX_TYPES.values():
            kind = dtypes.dtype(target)
            if kind.is_integer:
                far = min(2.0 ** (kind.bits + 1), 6e4 if source == "float16" else 1e20)
                yield EdgeCase((75, source), dtype=kind, low=-far, high=far)


class AstypeOp(Relax.Operation, name="astype"):
    """Converts to another element type.

    Floats round to nearest, ties to even. Floats to integers truncate and saturate, and NaN
    gives the lowest integer; integers below 8 bits keep the low bits of the conversion to
    int32. Integers to integers keep the low bits. To bool, nonzero is true. A number too
    large for a float of 8 bits or fewer becomes infinity, or NaN if the type has no
    infinity, or the largest number if it has neither.

    Attributes:
        dtype: the element type of y.
    Shapes:
        x, y: any shape.
    Source: ONNX Cast-13, which leaves floats beyond the range of integers undefined.
    """

    x: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    dtype: TypeAttr

    cases = (
        *_pairs(),
        *_narrow_pairs(),
        Case((), dtype=dtypes.dtype("int32"), low=-9.0, high=9.0),
        Case((0, 4), dtype=dtypes.dtype("int64")),
        Case((3, 71), dtype=dtypes.dtype("bfloat16"), low=-1e6, high=1e6),
        Case((75, "int32"), dtype=dtypes.dtype("int8"), low=-9999, high=9999),
        Case((75, "int32"), dtype=dtypes.dtype("uint64"), low=-9, high=9),
        Case((75, "int32"), dtype=dtypes.dtype("bfloat16"), low=-9999, high=9999),
        Case((75, "int32"), dtype=dtypes.dtype("float16"), low=-99999, high=99999),
        *(
            EdgeCase((75, source), dtype=dtypes.dtype(target), low=-1e10, high=1e10)
            for source in ("float32", "float64")
            for target in ("bool", "float16")
        ),
        *_saturating_pairs(),
    )

    @staticmethod
    def infer(x: RankedTensorType, dtype: DType) -> RankedTensorType:
        return tensors.tensor_type(tensors.shape_of(x), dtype)

    @staticmethod
    def reference(x: np.ndarray, dtype: DType) -> np.ndarray:
        source = dtypes.from_numpy(x.dtype)
        if source.is_narrow:  # ml_dtypes does not convert between all narrow types
            x = x.astype(np.float32 if source.is_float else np.int32)
        if source.is_float and dtype.is_integer:
            wide = np.dtype(np.int32) if dtype.is_padded else dtype.numpy
            return _truncated(widen_array(x), wide).astype(dtype.numpy)
        with np.errstate(all="ignore"):
            return np.asarray(x).astype(dtype.numpy)

    @staticmethod
    def normalize_arguments(**attrs: Any) -> dict[str, Any]:  # Any: see the base
        if "dtype" in attrs:
            attrs["dtype"] = element_type(attrs["dtype"])
        return attrs

    @classmethod
    def program_name(cls) -> str:
        return "cast"

    def legalize(self, b: Builder) -> Buffer:
        out = tensors.dtype_of(self.y)
        return b.map(lambda v: b.cast(v, out), self.x, dtype=out, name="cast")


class BitcastOp(Relax.Operation, name="bitcast"):
    """Reinterprets the bits of elements as another type of the same width.

    A bool is a byte of 0 or 1; a nonzero byte becomes true.

    Attributes:
        dtype: the element type of y, of the width in memory of that of x.
    Shapes:
        x, y: any shape.
    Source: ONNX BitCast-26.
    """

    x: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    dtype: TypeAttr

    cases = (
        Case((), dtype=dtypes.dtype("int32")),
        Case((0, 4), dtype=dtypes.dtype("int32")),
        EdgeCase((3, 71), dtype=dtypes.dtype("uint32")),
        Case((75, "uint32"), dtype=dtypes.dtype("float32"), high=2**30),
        Case((75, "float64"), dtype=dtypes.dtype("int64")),
        Case((75, "float16"), dtype=dtypes.dtype("bfloat16")),
        Case((75, "int8"), dtype=dtypes.dtype("uint8"), low=-128, high=127),
        Case((75, "bool"), dtype=dtypes.dtype("uint8")),
        Case((75, "int8"), dtype=dtypes.dtype("bool"), low=0, high=1),
        Case((75, "float8_e5m2"), dtype=dtypes.dtype("int8")),
        Case((75, "int4"), dtype=dtypes.dtype("uint4"), low=-8, high=7),
        Case((75, "uint4"), dtype=dtypes.dtype("float4_e2m1fn"), low=0, high=15),
    )

    @staticmethod
    def infer(x: RankedTensorType, dtype: DType) -> RankedTensorType:
        bits = _memory_bits(tensors.dtype_of(x))
        if bits != _memory_bits(dtype):
            raise ValueError(f"expected an element type of {bits} bits, got {dtype}")
        return tensors.tensor_type(tensors.shape_of(x), dtype)

    @staticmethod
    def reference(x: np.ndarray, dtype: DType) -> np.ndarray:
        array = np.asarray(x)
        return array.astype(bool) if dtype.kind == "b" else array.view(dtype.numpy)

    def legalize(self, b: Builder) -> Buffer:
        out = tensors.dtype_of(self.y)

        def element(v: Scalar) -> Scalar:
            if v.dtype.kind == "b":
                v = b.cast(v, _BYTE)
            if out.kind == "b":
                return b.cast(b.bitcast(v, _BYTE), out)
            return b.bitcast(v, out)

        return b.map(element, self.x, dtype=out, name="bitcast")

    @staticmethod
    @onnx_rule("BitCast", since=26)
    def from_onnx(node: OnnxNode) -> ir.Value:
        return BitcastOp(node.input(0), dtype=onnx_type(node.attr("to"))).y


def onnx_type(number: int) -> DType:
    """The element type of a value of ``onnx.TensorProto.DataType``.

    Raises:
        NotImplementedError: the type is not supported.
    """
    name = _ONNX_TYPES.get(number) or _NARROW_TYPES.get(number)
    if name is None:
        raise NotImplementedError(f"element type {number} of ONNX is not supported")
    return dtypes.dtype(name)


def _memory_bits(type_: DType) -> int:
    """Bits of an element; a bool has 8 in memory."""
    return 8 if type_.kind == "b" else type_.bits


def _truncated(x: np.ndarray, type_: np.dtype) -> np.ndarray:
    """Truncates floats to integers with saturation; NaN gives the lowest integer."""
    info = np.iinfo(type_)
    above, low = (x.dtype.type(limit) for limit in (info.max + 1, info.min))
    result = np.where((x > low) & (x < above), x, low).astype(type_)
    return np.where(x >= above, type_.type(info.max), result)
