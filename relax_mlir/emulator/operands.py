"""What the instructions of PTX take: registers, numbers, addresses, groups of them."""

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
    """Bits of some size."""
    return np.dtype(f"u{size_bytes}")


@dataclass(frozen=True)
class Register:
    """A value of each thread.

    Attributes:
        slot: its number in the kernel; bits: 1 of a predicate.
    """

    slot: int
    bits: int


@dataclass(frozen=True)
class Inverted:
    """What a predicate is not."""

    register: Register


@dataclass(frozen=True)
class Pair:
    """Two results, such as a predicate and its opposite."""

    first: Operand
    second: Operand


@dataclass(frozen=True)
class Sink:
    """A result that nobody asks for."""


@dataclass(frozen=True)
class Number:
    """Bits of a number, as many as its type has."""

    bits: int

    def of(self, dtype: np.dtype) -> np.ndarray:
        """The number of a type."""
        return _number(self.bits, dtype)


@lru_cache(maxsize=1 << 14)
def _number(bits: int, dtype: np.dtype) -> np.ndarray:
    own = bits & ((1 << 8 * dtype.itemsize) - 1)
    made = np.array([own], unsigned(dtype.itemsize)).view(dtype)
    made.flags.writeable = False
    return made


@dataclass(frozen=True)
class Special:
    """A register that the GPU sets, such as ``%tid.x``."""

    name: str


@dataclass(frozen=True)
class Variable:
    """Memory with a name.

    Attributes:
        space: ``shared``, ``local``, ``param`` or ``global``; address: in it.
    """

    space: str
    address: int


@dataclass(frozen=True)
class Address:
    """A place in memory: what a register or variable tells, and so many bytes behind."""

    base: Register | Variable | Number
    offset_bytes: int = 0


@dataclass(frozen=True)
class TensorAddress:
    """A box of a tensor: its descriptor, and where it begins, innermost first."""

    map: Operand
    first: tuple[Operand, ...]


@dataclass(frozen=True)
class Group:
    """Several operands that are one."""

    members: tuple[Operand, ...]


@dataclass(frozen=True)
class Label:
    """An instruction, by number."""

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
    """The operands of a group; one by itself."""
    return operand.members if isinstance(operand, Group) else (operand,)
