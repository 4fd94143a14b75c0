"""Operands of PTX instructions: registers, immediates, addresses, vectors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import ml_dtypes
import numpy as np

__all__ = [
    "DTYPES",
    "PAIRS",
    "WORD",
    "Address",
    "Group",
    "Inverted",
    "Label",
    "Number",
    "Operand",
    "Pair",
    "Register",
    "Sink",
    "Special",
    "TensorAddress",
    "Variable",
    "members",
    "unsigned",
]

_SIZES = (1, 2, 4, 8)  # bytes

DTYPES = {
    **{f"{kind}{8 * size}": np.dtype(f"u{size}") for kind in "bu" for size in _SIZES},
    **{f"s{8 * size}": np.dtype(f"i{size}") for size in _SIZES},
    **{f"f{8 * size}": np.dtype(f"f{size}") for size in _SIZES[1:]},
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "tf32": np.dtype("u4"),
}
"""Types of PTX, by name."""

WORD = DTYPES["u32"]

PAIRS = {f"{name}x2": DTYPES[name] for name in ("f16", "bf16", "u16", "s16")} | {
    "e4m3x2": np.dtype(ml_dtypes.float8_e4m3fn),
    "e5m2x2": np.dtype(ml_dtypes.float8_e5m2),
}
"""Types of two elements in a register, by name: that of one."""


@lru_cache
def unsigned(size_bytes: int) -> np.dtype:
    """The unsigned numpy type of a width."""
    return np.dtype(f"u{size_bytes}")


@dataclass(frozen=True)
class Register:
    """A register.

    Attributes:
        slot: its number in the kernel; bits: its width, 1 for a predicate.
    """

    slot: int
    bits: int


@dataclass(frozen=True)
class Inverted:
    """A negated predicate."""

    register: Register


@dataclass(frozen=True)
class Pair:
    """Two destinations, such as a predicate and its complement."""

    first: Operand
    second: Operand


@dataclass(frozen=True)
class Sink:
    """The sink destination ``_``."""


@dataclass(frozen=True)
class Number:
    """An immediate, as bits of its type."""

    bits: int

    def of(self, dtype: np.dtype) -> np.ndarray:
        """The immediate as a value of a type."""
        return _number(self.bits, dtype)


@lru_cache(maxsize=1 << 14)
def _number(bits: int, dtype: np.dtype) -> np.ndarray:
    own = bits & ((1 << 8 * dtype.itemsize) - 1)
    made = np.array([own], unsigned(dtype.itemsize)).view(dtype)
    made.flags.writeable = False
    return made


@dataclass(frozen=True)
class Special:
    """A special register, such as ``%tid.x``."""

    name: str


@dataclass(frozen=True)
class Variable:
    """A named variable.

    Attributes:
        space: ``shared``, ``local``, ``param`` or ``global``; address: in it.
    """

    space: str
    address: int


@dataclass(frozen=True)
class Address:
    """An address: a register or variable, plus an offset in bytes."""

    base: Register | Variable | Number
    offset_bytes: int = 0


@dataclass(frozen=True)
class TensorAddress:
    """A TMA operand: the tensor map, and the coordinates of the box, innermost first."""

    map: Operand
    first: tuple[Operand, ...]


@dataclass(frozen=True)
class Group:
    """A vector operand ``{a, b, ...}``."""

    members: tuple[Operand, ...]


@dataclass(frozen=True)
class Label:
    """A branch target: the index of an instruction."""

    target: int


Operand: TypeAlias = (
    Register
    | Inverted
    | Pair
    | Sink
    | Number
    | Special
    | Variable
    | Address
    | TensorAddress
    | Group
    | Label
)


def members(operand: Operand) -> tuple[Operand, ...]:
    """The elements of a vector operand, or the operand itself."""
    return operand.members if isinstance(operand, Group) else (operand,)
