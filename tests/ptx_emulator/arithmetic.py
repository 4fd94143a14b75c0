"""Arithmetic PTX instructions: integers, floating point, comparisons.

Source: NVIDIA, PTX ISA: integer and floating point arithmetic, comparison and selection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from relax_mlir.errors import EmulationError
from tests.ptx_emulator.machine import Effect, Machine, Mask
from tests.ptx_emulator.operands import DTYPES, PAIRS, Operand, unsigned
from tests.ptx_emulator.program import Instruction
from tests.ptx_emulator.rounding import (
    MODES,
    exact_product,
    exact_sum,
    rounded,
    rounded_sum,
)

__all__ = ["ARITHMETIC", "flushed", "typed", "write_typed"]


def typed(machine: Machine, operand: Operand, type_: str) -> np.ndarray:
    """Reads an operand: ``[lanes]``, or ``[lanes, 2]`` for packed types of two elements."""
    if type_ not in PAIRS:
        return machine.read(operand, DTYPES[type_])
    element = PAIRS[type_]
    bits = machine.read(operand, unsigned(2 * element.itemsize))
    return np.ascontiguousarray(bits).view(element).reshape(-1, 2)


def write_typed(
    machine: Machine, operand: Operand, values: np.ndarray, type_: str, mask: Mask
) -> None:
    """Writes a register, in the form that :func:`typed` reads."""
    if type_ in PAIRS:
        values = np.ascontiguousarray(values)
        values = values.view(unsigned(2 * values.dtype.itemsize))[:, 0]
    machine.write(operand, values, mask)


def flushed(values: np.ndarray) -> np.ndarray:
    """Flushes subnormals to zero."""
    tiny = np.abs(values) < np.finfo(values.dtype).tiny
    return np.where(tiny, np.copysign(values.dtype.type(0), values), values)


def _flushes(instruction: Instruction) -> bool:
    return "ftz" in instruction.modifiers and instruction.type in ("f16", "f32")


def _mode(instruction: Instruction) -> str:
    """The rounding mode of an instruction."""
    return next((m for m in instruction.modifiers if m in MODES), "rn")


def _exact(*values: np.ndarray, name: str) -> tuple[np.ndarray, np.ndarray]:
    """A sum, difference or product in f64, with its rounding error."""
    if name == "mul":
        return exact_product(*values)
    a, b = values
    return exact_sum(a, -b if name == "sub" else b)


def _rounded_as_asked(machine: Machine, instruction: Instruction, mask: Mask) -> None:
    """``add``, ``sub`` and ``mul`` of floats, with correct rounding."""
    mode, name = _mode(instruction), instruction.name
    if mode == "rn":
        plain = {"add": np.add, "sub": np.subtract, "mul": np.multiply}
        _of(plain[name])(machine, instruction, mask)
        return

    def function(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        wide = (x.astype(np.float64) for x in (a, b))
        return rounded(*_exact(*wide, name=name), a.dtype, mode)

    _of(function)(machine, instruction, mask)


def _of(function: Callable[..., np.ndarray]) -> Effect:
    """The effect of an instruction that is a function of its operands."""

    def effect(machine: Machine, instruction: Instruction, mask: Mask) -> None:
        type_ = instruction.type
        target, *operands = instruction.operands
        values = [typed(machine, operand, type_) for operand in operands]
        if _flushes(instruction):
            values = [flushed(value) for value in values]
        result = function(*values).astype(values[0].dtype, copy=False)
        if "sat" in instruction.modifiers:
            result = _saturated(result)
        if "relu" in instruction.modifiers:
            result = np.where(result < 0, result.dtype.type(0), result)
        result = flushed(result) if _flushes(instruction) else result
        write_typed(machine, target, result, type_, mask)

    return effect


def _nearest(function: Callable[..., np.ndarray]) -> Effect:
    """The same, rounded to nearest or approximate."""

    def effect(machine: Machine, instruction: Instruction, mask: Mask) -> None:
        if _mode(instruction) != "rn":
            raise EmulationError("unsupported rounding mode")
        _of(function)(machine, instruction, mask)

    return effect


def _saturated(values: np.ndarray) -> np.ndarray:
    """Saturation to [0, 1]; NaN becomes 0."""
    return np.nan_to_num(np.clip(values, 0, 1), nan=0).astype(values.dtype)


# Integers


def _divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.dtype.kind not in "iu":
        return a / b
    nonzero = np.where(b == 0, b.dtype.type(1), b)
    quotient = a // nonzero
    if a.dtype.kind == "i":  # towards zero
        quotient += (a % nonzero != 0) & ((a < 0) != (nonzero < 0))
    return np.where(b == 0, ~a.dtype.type(0), quotient)


def _remainder(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    nonzero = np.where(b == 0, b.dtype.type(1), b)
    return np.where(b == 0, a, np.fmod(a, nonzero))


def _product(machine: Machine, instruction: Instruction) -> tuple[np.ndarray, str]:
    """The product of the first two operands, with its type."""
    type_ = instruction.type
    a, b = (typed(machine, o, type_) for o in instruction.operands[1:3])
    if "wide" in instruction.modifiers:
        wide = f"{type_[0]}{16 * a.dtype.itemsize}"
        return a.astype(DTYPES[wide]) * b.astype(DTYPES[wide]), wide
    if "hi" in instruction.modifiers:
        return _high(a, b), type_
    return a * b, type_


def _high(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The upper half of a product."""
    bits = 8 * a.dtype.itemsize
    if bits < 64:
        wide = np.dtype(f"{a.dtype.kind}{2 * a.dtype.itemsize}")
        return (a.astype(wide) * b.astype(wide) >> bits).astype(a.dtype)
    x, y = a.view(np.uint64), b.view(np.uint64)
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    cross = (x >> half) * (y & low) + ((x & low) * (y & low) >> half)
    other = (x & low) * (y >> half) + (cross & low)
    high = (x >> half) * (y >> half) + (cross >> half) + (other >> half)
    if a.dtype.kind == "i":  # of two's complements
        zero = np.uint64(0)
        high = high - np.where(a < 0, y, zero) - np.where(b < 0, x, zero)
    return high.view(a.dtype)


def _is_integer(instruction: Instruction) -> bool:
    return instruction.type[0] in "su" and instruction.type not in PAIRS


def _multiply(machine: Machine, instruction: Instruction, mask: Mask) -> None:
    if not _is_integer(instruction):
        _rounded_as_asked(machine, instruction, mask)
        return
    result, _ = _product(machine, instruction)
    machine.write(instruction.operands[0], result, mask)


def _multiply_add(machine: Machine, instruction: Instruction, mask: Mask) -> None:
    if not _is_integer(instruction):
        _fuse(machine, instruction, mask)
        return
    result, type_ = _product(machine, instruction)
    added = typed(machine, instruction.operands[3], type_)
    _add_parts(machine, instruction, result, added, mask)


def _add(machine: Machine, instruction: Instruction, mask: Mask) -> None:
    """``add`` and ``sub``, with or without a carry."""
    if not _is_integer(instruction):
        _rounded_as_asked(machine, instruction, mask)
        return
    a, b = (typed(machine, o, instruction.type) for o in instruction.operands[1:])
    if instruction.name in ("sub", "subc"):
        _subtract_parts(machine, instruction, a, b, mask)
    else:
        _add_parts(machine, instruction, a, b, mask)


@dataclass
class _Carry:
    """The carry flag of multi-word integer arithmetic."""

    flag: np.ndarray = field(default_factory=lambda: np.zeros(1, bool))

    def keep(self, instruction: Instruction, carry: np.ndarray, mask: Mask) -> None:
        """Stores the flag if the instruction has ``.cc``."""
        if "cc" in instruction.modifiers:
            self.flag = carry if mask is None else np.where(mask, carry, self.flag)


def _add_parts(
    machine: Machine, instruction: Instruction, a: np.ndarray, b: np.ndarray, mask: Mask
) -> None:
    """Integer addition, with carry-in (``addc``) and carry-out (``.cc``)."""
    dtype, state = unsigned(a.dtype.itemsize), machine.state(_Carry)
    total = (a + b).view(dtype)
    carry = total < a.view(dtype)
    if instruction.name in ("addc", "madc"):
        before = total
        total = before + state.flag.astype(dtype)
        carry = carry | (total < before)
    state.keep(instruction, carry, mask)
    machine.write(instruction.operands[0], total.view(a.dtype), mask)


def _subtract_parts(
    machine: Machine, instruction: Instruction, a: np.ndarray, b: np.ndarray, mask: Mask
) -> None:
    """Integer subtraction, with borrow-in (``subc``) and borrow-out (``.cc``)."""
    dtype, state = unsigned(a.dtype.itemsize), machine.state(_Carry)
    x, y = a.view(dtype), b.view(dtype)
    left, borrow = x - y, x < y
    if instruction.name == "subc":
        before = left
        left = before - state.flag.astype(dtype)
        borrow = borrow | (before < left)
    state.keep(instruction, borrow, mask)
    machine.write(instruction.operands[0], left.view(a.dtype), mask)


# Floats


def _fuse(machine: Machine, instruction: Instruction, mask: Mask) -> None:
    """``a * b + c``, rounded once."""
    mode = _mode(instruction)

    def function(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        wide = [x.astype(np.float64) for x in (a, b, c)]
        if a.dtype == np.float64:
            return _fused(wide[0], wide[1], wide[2], mode)
        product = wide[0] * wide[1]  # exact: narrow numbers have few enough bits
        return rounded_sum(product, wide[2], a.dtype, mode)

    _of(function)(machine, instruction, mask)


def _fused(a: np.ndarray, b: np.ndarray, c: np.ndarray, mode: str) -> np.ndarray:
    """Fused multiply-add in f64."""
    product, lost = exact_product(a, b)
    total, lost_too = exact_sum(product, c)
    made, rest = exact_sum(total, lost + lost_too)
    exact = rounded(made, rest, a.dtype, mode)
    plain = np.where(np.isinf(c) & np.isfinite(a) & np.isfinite(b), c, a * b + c)
    # The product may overflow while the sum does not.
    half = 0.5 * a * (0.5 * b) + 0.25 * c
    plain = np.where(np.isfinite(half) & ~np.isfinite(plain), 4 * half, plain)
    return np.where(np.isfinite(exact), exact, plain)


def _extreme(ignoring: np.ufunc, propagating: np.ufunc, plain: np.ufunc) -> Effect:
    """``min`` and ``max``; NaN is ignored, or propagates with ``.NaN``."""

    def effect(machine: Machine, instruction: Instruction, mask: Mask) -> None:
        is_float = "f" in instruction.type
        best = plain
        if is_float:
            best = propagating if "NaN" in instruction.modifiers else ignoring

        def function(*values: np.ndarray) -> np.ndarray:
            result = values[0]
            for value in values[1:]:
                result = best(result, value)
            return result

        _of(function)(machine, instruction, mask)

    return effect


def _copy_sign(machine: Machine, instruction: Instruction, mask: Mask) -> None:
    """``copysign``: the sign of the first operand on the second."""

    def function(sign: np.ndarray, value: np.ndarray) -> np.ndarray:
        return np.copysign(value, sign)

    _of(function)(machine, instruction, mask)


_TESTS: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "finite": np.isfinite,
    "infinite": np.isinf,
    "notanumber": np.isnan,
    "number": lambda values: ~np.isnan(values),
}


def _test(machine: Machine, instruction: Instruction, mask: Mask) -> None:
    test, type_ = instruction.modifiers
    target, value = instruction.operands
    machine.write(target, _TESTS[test](typed(machine, value, type_)), mask)


# Comparison and selection

_COMPARED = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
_UNSIGNED_NAMES = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}


def _comparison(test: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.dtype.kind in "iu":
        return _COMPARED[_UNSIGNED_NAMES.get(test, test)](a, b)
    is_none = np.isnan(a) | np.isnan(b)
    if test in ("num", "nan"):
        return is_none if test == "nan" else ~is_none
    if test in _COMPARED:
        return _COMPARED[test](a, b) & ~is_none
    return _COMPARED[test[:-1]](a, b) | is_none  # such as `ltu`


_COMBINED = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


def _compare(machine: Machine, instruction: Instruction, mask: Mask) -> None:
    target, *operands = instruction.operands
    test, *more = instruction.modifiers[:-1]
    type_ = instruction.type
    a, b = (typed(machine, operand, type_) for operand in operands[:2])
    if _flushes(instruction):
        a, b = flushed(a), flushed(b)
    found = _comparison(test, a, b)
    if type_ in PAIRS:
        if len(operands) > 2:
            raise EmulationError("unsupported comparison")
        machine.write_pair(target, found[:, 0], found[:, 1], mask)
        return
    opposite = ~found
    for combined in more:
        if combined in _COMBINED:
            other = machine.predicate(operands[2])
            found = _COMBINED[combined](found, other)
            opposite = _COMBINED[combined](opposite, other)
    machine.write_pair(target, found, opposite, mask)


def _select(machine: Machine, instruction: Instruction, mask: Mask) -> None:
    target, first, second, which = instruction.operands
    a, b = (typed(machine, operand, instruction.type) for operand in (first, second))
    machine.write(target, np.where(machine.predicate(which), a, b), mask)


ARITHMETIC: Mapping[str, Effect] = {
    "abs": _of(np.abs),
    "add": _add,
    "addc": _add,
    "copysign": _copy_sign,
    "cos": _nearest(np.cos),
    "div": _nearest(_divide),
    "ex2": _nearest(np.exp2),
    "fma": _fuse,
    "lg2": _nearest(np.log2),
    "mad": _multiply_add,
    "madc": _multiply_add,
    "max": _extreme(np.fmax, np.maximum, np.maximum),
    "min": _extreme(np.fmin, np.minimum, np.minimum),
    "mul": _multiply,
    "neg": _of(np.negative),
    "rcp": _nearest(np.reciprocal),
    "rem": _of(_remainder),
    "rsqrt": _nearest(lambda values: 1 / np.sqrt(values)),
    "selp": _select,
    "setp": _compare,
    "sin": _nearest(np.sin),
    "sqrt": _nearest(np.sqrt),
    "sub": _add,
    "subc": _add,
    "tanh": _nearest(np.tanh),
    "testp": _test,
}
