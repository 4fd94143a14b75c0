"""Conversion of element types."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from mlir import ir
from mlir.ir import RankedTensorType, TypeAttr

from relax_mlir.dialects import dtypes, tensors
from relax_mlir.dialects.dtypes import DType
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.hooks import Case, EdgeCase, OnnxNode, onnx_rule
from relax_mlir.dialects.relax.arguments import element_type
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.elementwise import widened
from relax_mlir.dialects.tir import Buffer, Builder, Scalar

_BYTE = dtypes.dtype("uint8")

# Numbers of onnx.TensorProto.DataType, which may not be imported here.
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
    """Every type to every type, with numbers that both have."""
    for source in _ONNX_TYPES.values():
        for target in _ONNX_TYPES.values():
            low = 0 if target.startswith("u") else -100
            yield Case((19, source), low=low, high=100, dtype=dtypes.dtype(target))


def _narrow_pairs() -> Iterator[Case]:
    """Types of a byte and less from and to f32, some of them from and to others."""
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
    """Every float type to every integer type, with numbers beyond what that has."""
    for source in ("float32", "float64", "float16", "bfloat16"):
        for target in _ONNX_TYPES.values():
            kind = dtypes.dtype(target)
            if kind.is_integer:
                far = min(2.0 ** (kind.bits + 1), 6e4 if source == "float16" else 1e20)
                yield EdgeCase((75, source), dtype=kind, low=-far, high=far)


class AstypeOp(Relax.Operation, name="astype"):
    """The same numbers in another element type.

    A float is rounded to a narrower one, to nearest, ties to even. To an integer it is
    truncated; out of range it saturates at the limits of the type, and NaN becomes the
    lowest. Integers keep their low bits, and those of less than a byte are low bits
    of int32. To bool, all but 0 is true. Too large for a float of a byte is infinity, or
    NaN where the type has none, or the largest where it has neither.

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
        if source.is_narrow:  # ml_dtypes has no way from each of them to the others
            x = x.astype(np.float32 if source.is_float else np.int32)
        if source.is_float and dtype.is_integer:
            wide = np.dtype(np.int32) if dtype.is_padded else dtype.numpy
            return _truncated(widened(x), wide).astype(dtype.numpy)
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
    """The same bits as numbers of another element type.

    A bool is a byte that is 0 or 1; of other bytes all but 0 become true.

    Attributes:
        dtype: the element type of y, as wide in memory as that of x.
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
    """The element type with a number of ``onnx.TensorProto.DataType``.

    Raises:
        NotImplementedError: it is not supported.
    """
    name = _ONNX_TYPES.get(number) or _NARROW_TYPES.get(number)
    if name is None:
        raise NotImplementedError(f"element type {number} of ONNX is not supported")
    return dtypes.dtype(name)


def _memory_bits(type_: DType) -> int:
    """Bits of an element, of which a bool has eight in memory."""
    return 8 if type_.kind == "b" else type_.bits


def _truncated(x: np.ndarray, type_: np.dtype) -> np.ndarray:
    """Floats as integers, saturated; NaN, of which comparisons are false, as the lowest."""
    info = np.iinfo(type_)
    above, low = (x.dtype.type(limit) for limit in (info.max + 1, info.min))
    made = np.where((x > low) & (x < above), x, low).astype(type_)
    return np.where(x >= above, type_.type(info.max), made)
