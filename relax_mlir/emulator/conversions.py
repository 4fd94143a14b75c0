"""``cvt``: numbers of one type as those of another.

Source: NVIDIA, PTX ISA, cvt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from relax_mlir.emulator.arithmetic import typed, write_typed
from relax_mlir.emulator.machine import Effect, Machine, Mask
from relax_mlir.emulator.operands import DTYPES, PAIRS, Operand
from relax_mlir.emulator.program import Instruction
from relax_mlir.errors import EmulationError

__all__ = ["CONVERSIONS", "tf32_bits"]

_INTEGRAL: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "rni": np.rint,
    "rzi": np.trunc,
    "rmi": np.floor,
    "rpi": np.ceil,
}
_KNOWN = {*_INTEGRAL, "rn", "rna", "ftz", "sat", "satfinite", "relu"}


def _convert(machine: Machine, instruction: Instruction, mask: Mask) -> None:
    *modes, to, from_ = instruction.modifiers
    unknown = set(modes) - _KNOWN
    if unknown:
        raise EmulationError(f"the emulator does not know `.{unknown.pop()}`")
    target, *operands = instruction.operands
    if to == "tf32":
        result = tf32_bits(typed(machine, operands[0], from_))
    elif to in PAIRS:
        result = _pair(machine, operands, to, from_)
        result = _limited(result, modes)
    else:
        result = _converted(typed(machine, operands[0], from_), DTYPES[to], modes)
    write_typed(machine, target, result, to, mask)


def _pair(
    machine: Machine, operands: Sequence[Operand], to: str, from_: str
) -> np.ndarray:
    """Two numbers in a register: of two operands, the last of which is the lower one."""
    dtype = PAIRS[to]
    if from_ in PAIRS:
        return typed(machine, operands[0], from_).astype(np.float32).astype(dtype)
    high, low = (typed(machine, operand, from_) for operand in operands)
    both = np.stack(np.broadcast_arrays(low, high), axis=1)
    if dtype.itemsize == 1:  # finite ones stay so
        most = np.float32(_MOST[to])
        both = np.where(np.isnan(both), both, np.clip(both, -most, most))
    return both.astype(dtype)


def tf32_bits(values: np.ndarray) -> np.ndarray:
    """Numbers rounded to 11 bits, away from zero where two are as near, as bits."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    rounded = bits + np.uint32(0x1000) & np.uint32(0xFFFFE000)
    return np.where(np.isfinite(values), rounded, bits)


_MOST = {"e4m3x2": 448, "e5m2x2": 57344}


def _converted(values: np.ndarray, to: np.dtype, modes: Sequence[str]) -> np.ndarray:
    is_float, becomes_float = values.dtype.kind not in "iu", to.kind not in "iu"
    if not is_float:
        if "sat" in modes and not becomes_float:
            values = _clipped(values, to)
        return values.astype(to)
    rounding = [_INTEGRAL[mode] for mode in modes if mode in _INTEGRAL]
    if values.dtype.itemsize == 2:
        values = values.astype(np.float32)
    for function in rounding:
        values = function(values)
    if becomes_float:
        return _limited(values.astype(to), modes)
    return _integer(values, to)


def _limited(values: np.ndarray, modes: Sequence[str]) -> np.ndarray:
    """Values of which some are not kept."""
    zero = values.dtype.type(0)
    if "sat" in modes:
        one = values.dtype.type(1)
        values = np.where(values > zero, np.where(values < one, values, one), zero)
    if "relu" in modes:
        values = np.where(values > zero, values, zero)
    return values


def _clipped(values: np.ndarray, to: np.dtype) -> np.ndarray:
    """Integers that fit a type."""
    own, limits = np.iinfo(values.dtype), np.iinfo(to)
    return np.clip(values, max(own.min, limits.min), min(own.max, limits.max))


def _integer(values: np.ndarray, to: np.dtype) -> np.ndarray:
    """Whole numbers as integers: the nearest that there is, and 0 of what is none."""
    limits = np.iinfo(to)
    wide = np.nan_to_num(values.astype(np.float64), nan=0.0)
    is_large, is_small = wide >= float(limits.max), wide <= float(limits.min)
    made = np.where(is_large | is_small, 0.0, wide).astype(to)
    made = np.where(is_large, to.type(limits.max), made)
    return np.where(is_small, to.type(limits.min), made)


CONVERSIONS: Mapping[str, Effect] = {"cvt": _convert}
