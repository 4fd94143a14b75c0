"""Element types: one name (numpy's), its MLIR type in tensors and in buffers.

Tensors keep the sign of an integer (``ui8``, and ``i8`` for signed) and ``i1`` for
booleans. Buffers hold what the machine sees: signless integers, and a byte for a
boolean (a vector of ``i1`` would be packed to bits).
"""

from collections.abc import Callable
from dataclasses import dataclass

import ml_dtypes
import numpy as np
from mlir import ir

__all__ = ["DType", "dtype", "from_mlir", "from_numpy"]


@dataclass(frozen=True)
class DType:
    """One element type.

    Attributes:
        name: numpy's (or ml_dtypes') name, such as ``float32`` or ``bool``.
        kind: ``f`` float, ``i`` signed, ``u`` unsigned, ``b`` boolean.
        bits: width of the value, 1 for a boolean.
    """

    name: str
    kind: str
    bits: int

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def is_integer(self) -> bool:
        return self.kind in "iu"

    @property
    def size_bytes(self) -> int:
        """Bytes of one element in memory."""
        return max(1, self.bits // 8)

    @property
    def numpy(self) -> np.dtype:
        """The numpy type that holds it."""
        return np.dtype(getattr(ml_dtypes, self.name, None) or self.name)

    @property
    def tensor_type(self) -> ir.Type:
        """Element type in a tensor, sign included."""
        if self.is_float:
            return _FLOATS[self.name]()
        if self.kind == "u":
            return ir.IntegerType.get_unsigned(self.bits)
        return ir.IntegerType.get_signless(self.bits)

    @property
    def scalar_type(self) -> ir.Type:
        """Type of a value in registers: signless, ``i1`` for a boolean."""
        if self.is_float:
            return _FLOATS[self.name]()
        return ir.IntegerType.get_signless(self.bits)

    @property
    def buffer_type(self) -> ir.Type:
        """Element type of a memref: signless, ``i8`` for a boolean."""
        return ir.IntegerType.get_signless(8) if self.kind == "b" else self.scalar_type

    def __str__(self) -> str:
        return self.name


_FLOATS: dict[str, Callable[[], ir.Type]] = {
    "float16": ir.F16Type.get,
    "bfloat16": ir.BF16Type.get,
    "float32": ir.F32Type.get,
    "float64": ir.F64Type.get,
}

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


def dtype(name: str) -> DType:
    """The element type called ``name``.

    Raises:
        ValueError: there is none.
    """
    found = _ALL.get(name)
    if found is None:
        raise ValueError(f"unknown element type `{name}`: expected {', '.join(_ALL)}")
    return found


def from_numpy(value: np.dtype) -> DType:
    """The element type of a numpy array."""
    return dtype(np.dtype(value).name)


def from_mlir(element: ir.Type) -> DType:
    """The element type of a tensor, by its MLIR type.

    Raises:
        ValueError: there is none for it.
    """
    name = _FLOAT_NAMES.get(type(element))
    if isinstance(element, ir.IntegerType) and not element.is_signed:
        sign = "u" if element.is_unsigned else ""
        name = "bool" if str(element) == "i1" else f"{sign}int{element.width}"
    if name not in _ALL:
        raise ValueError(f"unsupported element type `{element}`")
    return _ALL[name]


_FLOAT_NAMES = {
    ir.F16Type: "float16",
    ir.BF16Type: "bfloat16",
    ir.F32Type: "float32",
    ir.F64Type: "float64",
}
