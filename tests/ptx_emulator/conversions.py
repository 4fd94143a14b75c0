"""Type conversion: ``cvt``.

Source: NVIDIA, PTX ISA, cvt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from relax_mlir.errors import EmulationError
from tests.ptx_emulator.arithmetic import flushed, typed, write_typed
from tests.ptx_emulator.machine import Effect, Machine, Mask
from tests.ptx_emulator.operands import DTYPES, PAIRS, Operand
from tests.ptx_emulator.program import Instruction
from tests.ptx_emulator.rounding import MODES, exact_sum, rounded

__all__ = ["CONVERSIONS", "tf32_bits"]

_INTEGRAL: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "rni": np.rint,
    "rzi": np.trunc,
    "rmi": np.floor,
    "rpi": np.ceil,
}


def _convert(machine: Machine, instruction: Instruction, mask: Mask) -> None:
    *modes, to, from_ = instruction.modifiers
    if (to == "tf32") != ("rna" in modes):
        raise EmulationError("unsupported conversion")
    if "satfinite" in modes and to not in _MOST:
        raise EmulationError("`.satfinite` of this type is unsupported")
    target, *operands = instruction.operands
    if to in PAIRS:
        result = _limited(_pair(machine, operands, to, from_), modes)
    else:
        value = typed(machine, operands[0], from_)
        if "ftz" in modes and from_ == "f32":
            value = flushed(value)
        if to == "tf32":
            result = tf32_bits(value)
        else:
            result = _converted(value, DTYPES[to], modes)
        if "ftz" in modes and to == "f32":
            result = flushed(result)
    write_typed(machine, target, result, to, mask)


def _pair(
    machine: Machine, operands: Sequence[Operand], to: str, from_: str
) -> np.ndarray:
    """Packs two converted operands into a register; the second is the low half."""
    if from_ in PAIRS:
        both = typed(machine, operands[0], from_).astype(np.float32)
    else:
        high, low = (typed(machine, operand, from_) for operand in operands)
        both = np.stack(np.broadcast_arrays(low, high), axis=1)
    if to in _MOST:  # finite ones stay so
        most = np.float32(_MOST[to])
        both = np.where(np.isnan(both), both, np.clip(both, -most, most))
    return both.astype(PAIRS[to])


def tf32_bits(values: np.ndarray) -> np.ndarray:
    """f32 rounded to TF32 (11 significant bits), ties away from zero, as bits."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    nearest = bits + np.uint32(0x1000) & np.uint32(0xFFFFE000)
    return np.where(np.isfinite(values), nearest, bits)


_MOST = {"e4m3x2": 448, "e5m2x2": 57344}


def _converted(values: np.ndarray, to: np.dtype, modes: Sequence[str]) -> np.ndarray:
    is_float, becomes_float = values.dtype.kind not in "iu", to.kind not in "iu"
    if not becomes_float:
        if is_float:
            return _integer(_whole(values, modes), to)
        return (_clipped(values, to) if "sat" in modes else values).astype(to)
    mode = next((mode for mode in modes if mode in MODES), "rn")
    wide = _whole(values, modes) if is_float else values
    exact, rest = _double(wide)
    return _limited(rounded(exact, rest, to, mode), modes)


def _whole(values: np.ndarray, modes: Sequence[str]) -> np.ndarray:
    """Floats, rounded to integral values if the mode asks for it."""
    if values.dtype.itemsize == 2:
        values = values.astype(np.float32)
    for mode in modes:
        if mode in _INTEGRAL:
            values = _INTEGRAL[mode](values)
    return values


def _double(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Numbers as f64, with the rounding error of 64-bit integers."""
    near = values.astype(np.float64)
    if values.dtype.kind not in "iu" or values.dtype.itemsize < 8:
        return near, np.zeros(1)
    high = (values >> 32).astype(np.float64) * 2.0**32
    low = (values & np.array(0xFFFFFFFF, values.dtype)).astype(np.float64)
    return exact_sum(high, low)


def _limited(values: np.ndarray, modes: Sequence[str]) -> np.ndarray:
    """Applies saturation and flushing of subnormals."""
    zero = values.dtype.type(0)
    if "sat" in modes:
        one = values.dtype.type(1)
        values = np.where(values > zero, np.where(values < one, values, one), zero)
    if "relu" in modes:
        values = np.where(values < zero, zero, values)
    return values


def _clipped(values: np.ndarray, to: np.dtype) -> np.ndarray:
    """Integers clamped to the range of a type."""
    own, limits = np.iinfo(values.dtype), np.iinfo(to)
    return np.clip(values, max(own.min, limits.min), min(own.max, limits.max))


def _integer(values: np.ndarray, to: np.dtype) -> np.ndarray:
    """Integral floats as integers, clamped to the range.

    NaN is 0, or the sign bit alone if either type has 64 bits.
    """
    limits = np.iinfo(to)
    is_none = np.isnan(values)
    wide = np.where(is_none, 0.0, values.astype(np.float64))
    is_large, is_small = wide >= float(limits.max), wide <= float(limits.min)
    made = np.where(is_large | is_small, 0.0, wide).astype(to)
    made = np.where(is_large, to.type(limits.max), made)
    made = np.where(is_small, to.type(limits.min), made)
    if values.dtype.itemsize < 8 and to.itemsize < 8:
        return made
    first_bit = np.array([1 << limits.bits - 1], f"u{to.itemsize}").view(to)
    return np.where(is_none, first_bit, made)


CONVERSIONS: Mapping[str, Effect] = {"cvt": _convert}
