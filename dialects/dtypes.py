"""Element types: numpy's name, and the MLIR type in tensors, buffers and registers.

Tensors keep the sign of an integer (``ui8``; signed ones are signless, ``i8``) and use
``i1`` for booleans. Buffers hold signless integers, and a byte for every type below 8 bits
(a vector of ``i1`` would be packed to bits).
"""

import re
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
from mlir import ir

__all__ = [
    "NAMES",
    "NARROW_FLOATS",
    "DType",
    "dtype",
    "element_of",
    "from_mlir",
    "from_numpy",
]


@dataclass(frozen=True)
class DType:
    """One element type.

    Attributes:
        name: numpy's (or ml_dtypes') name, such as ``float32`` or ``bool``.
        kind: ``f`` float, ``i`` signed, ``u`` unsigned, ``b`` boolean.
        bits: width of the value, 1 for a boolean.
        lanes: number of vector lanes, 1 for a scalar.
        is_scalable: whether the vector has ``vscale`` times ``lanes`` lanes.
    """

    name: str
    kind: str
    bits: int
    lanes: int = 1
    is_scalable: bool = False

    @property
    def is_vector(self) -> bool:
        return self.lanes > 1 or self.is_scalable

    @property
    def element(self) -> "DType":
        """The type of one lane."""
        return dtype(self.name.split("x", 1)[0]) if self.is_vector else self

    def with_lanes_of(self, other: "DType") -> "DType":
        """This type with the lanes of ``other``."""
        if not other.is_vector:
            return self
        return dtype(self.element.name + other.name[len(other.element.name) :])

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def is_integer(self) -> bool:
        return self.kind in "iu"

    @property
    def is_narrow(self) -> bool:
        """Whether it is emulated: a float of 8 bits or fewer, or an integer below 8 bits."""
        return self.element.name in _NARROW

    @property
    def is_padded(self) -> bool:
        """Whether an element in memory has padding bits, as it is narrower than a byte."""
        return self.bits < 8

    @property
    def size_bytes(self) -> int:
        """Size of one element in memory, in bytes."""
        return max(1, self.bits // 8)

    @property
    def numpy(self) -> np.dtype:
        """The numpy (or ml_dtypes) type."""
        return np.dtype(getattr(ml_dtypes, self.name, None) or self.name)

    @property
    def tensor_type(self) -> ir.Type:
        """Element type of a tensor, with signedness."""
        if self.is_float:
            return _FLOATS[self.name].get()
        if self.kind == "u":
            return ir.IntegerType.get_unsigned(self.bits)
        return ir.IntegerType.get_signless(self.bits)

    @property
    def scalar_type(self) -> ir.Type:
        """Type of an SSA scalar or vector: signless, ``i1`` for a boolean."""
        if self.is_vector:
            element = self.element.scalar_type
            return ir.VectorType.get([self.lanes], element, scalable=[self.is_scalable])
        if self.is_float:
            return _FLOATS[self.name].get()
        return ir.IntegerType.get_signless(self.bits)

    @property
    def bits_type(self) -> ir.Type:
        """Signless integer type of the same width and lanes."""
        bits = ir.IntegerType.get_signless(self.bits)
        if not self.is_vector:
            return bits
        return ir.VectorType.get([self.lanes], bits, scalable=[self.is_scalable])

    @property
    def unsigned(self) -> "DType":
        """Unsigned integer type of the same width and lanes.

        Raises:
            ValueError: no unsigned type has this width.
        """
        return dtype(f"uint{self.bits}").with_lanes_of(self)

    @property
    def buffer_type(self) -> ir.Type:
        """Element type of a memref: signless, ``i8`` for types below 8 bits."""
        return (
            dtype("int8").with_lanes_of(self).scalar_type
            if self.is_padded
            else (self.scalar_type)
        )

    @property
    def is_implied_by_memref(self) -> bool:
        """Whether a memref's element type determines this type.

        Unsigned integers, booleans and types below 8 bits need an attribute beside it.
        """
        return self.kind in "if" and not self.is_padded

    def __str__(self) -> str:
        return self.name


_FLOATS: dict[str, type[ir.FloatType]] = {
    "float16": ir.F16Type,
    "bfloat16": ir.BF16Type,
    "float32": ir.F32Type,
    "float64": ir.F64Type,
    "float8_e3m4": ir.Float8E3M4Type,
    "float8_e4m3": ir.Float8E4M3Type,
    "float8_e4m3b11fnuz": ir.Float8E4M3B11FNUZType,
    "float8_e4m3fn": ir.Float8E4M3FNType,
    "float8_e4m3fnuz": ir.Float8E4M3FNUZType,
    "float8_e5m2": ir.Float8E5M2Type,
    "float8_e5m2fnuz": ir.Float8E5M2FNUZType,
    "float8_e8m0fnu": ir.Float8E8M0FNUType,
    "float6_e2m3fn": ir.Float6E2M3FNType,
    "float6_e3m2fn": ir.Float6E3M2FNType,
    "float4_e2m1fn": ir.Float4E2M1FNType,
}
NARROW_FLOATS = tuple(name for name in _FLOATS if "_" in name)

_ALL = {
    t.name: t
    for t in (
        DType("bool", "b", 1),
        *(DType(f"int{bits}", "i", bits) for bits in (8, 16, 32, 64)),
        *(DType(f"uint{bits}", "u", bits) for bits in (8, 16, 32, 64)),
        DType("float16", "f", 16),
        DType("bfloat16", "f", 16),
        DType("float32", "f", 32),
        DType("float64", "f", 64),
    )
}
# Types without native arithmetic: computed in a wider type.
_NARROW = {
    t.name: t
    for t in (
        *(
            DType(f"{sign}int{bits}", sign or "i", bits)
            for sign in ("", "u")
            for bits in (2, 4)
        ),
        *(DType(name, "f", int(name[5])) for name in NARROW_FLOATS),
    )
}
NAMES = (*_ALL, *_NARROW)
_VECTOR = re.compile(r"(.+?)x(vscalex)?(\d+)")


@cache
def dtype(name: str) -> DType:
    """Looks up a type by name; ``float32x4`` and ``float32xvscalex4`` name vectors.

    Raises:
        TypeError: ``name`` is not a string.
        ValueError: no type has this name.
    """
    if not isinstance(name, str):
        raise TypeError(f"element type: expected a string, got {type(name).__name__}")
    found = _ALL.get(name) or _NARROW.get(name)
    if found is not None:
        return found
    vector = _VECTOR.fullmatch(name)
    if vector is None:
        raise ValueError(f"unknown element type `{name}`: expected {', '.join(_ALL)}")
    element, scale, lanes = vector.groups()
    return replace(
        dtype(element), name=name, lanes=int(lanes), is_scalable=scale is not None
    )


def from_numpy(value: np.dtype) -> DType:
    """Converts a numpy dtype."""
    return dtype(np.dtype(value).name)


def from_mlir(element: ir.Type) -> DType:
    """Converts an MLIR element type of a tensor, or a vector type.

    Raises:
        ValueError: the type is not supported.
    """
    if isinstance(element, ir.VectorType):
        scale = "vscalex" if element.scalable else ""
        (lanes,) = element.shape
        return dtype(f"{from_mlir(element.element_type).name}x{scale}{lanes}")
    name = _FLOAT_NAMES.get(type(element))
    if isinstance(element, ir.IntegerType) and not element.is_signed:
        sign = "u" if element.is_unsigned else ""
        name = "bool" if str(element) == "i1" else f"{sign}int{element.width}"
    if name not in _ALL and name not in _NARROW:
        raise ValueError(f"unsupported element type `{element}`")
    return dtype(name)


def element_of(type_: ir.Type) -> Any:  # Any: numbers have a width, an index has none
    """The element type of a vector type; other types are returned unchanged."""
    return type_.element_type if isinstance(type_, ir.VectorType) else type_


_FLOAT_NAMES = {kind: name for name, kind in _FLOATS.items()}
