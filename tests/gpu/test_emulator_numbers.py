"""Arithmetic instructions of the emulator against the PTX ISA."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.ptx_emulator.launch import launch
from tests.ptx_emulator.memory import DeviceMemory
from tests.ptx_emulator.operands import DTYPES
from tests.ptx_emulator.text import parse

_HEAD = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d)
{
	.reg .pred %p<4>; .reg .b16 %h<8>; .reg .b32 %w<8>; .reg .b64 %l<8>; .reg .b64 %rd<9>;
	.reg .b32 %t; .reg .b64 %o;
	mov.u32 %t, %tid.x;
"""
_LETTERS = {1: "h", 2: "h", 4: "w", 8: "l"}  # of registers, by bytes


def compute(text: str, *values: np.ndarray, result: np.dtype | str) -> np.ndarray:
    """Applies an instruction to arrays of operands, an element per thread.

    Args:
        text: with ``{0}``, ``{1}``, ... for operands and ``{d}`` for the result.
    """
    made = np.zeros(len(values[0]), result)
    lines, names = [], dict[str, str]()
    for number, array in enumerate([*values, made]):
        letter = "abcd"[number] if number < len(values) else "d"
        size = array.itemsize
        where = f"%rd{number}"
        lines.append(f"ld.param.b64 {where}, [{letter}]; mul.wide.u32 %o, %t, {size};")
        lines.append(f"add.s64 {where}, {where}, %o;")
        register = f"%{_LETTERS[size]}{number}"
        if number < len(values):
            lines.append(f"ld.global.b{8 * size} {register}, [{where}];")
            names[str(number)] = register
    register = f"%{_LETTERS[made.itemsize]}7"
    body = text.format(*names.values(), d=register)
    lines += [body, f"st.global.b{8 * made.itemsize} [%rd{len(values)}], {register};"]
    program = parse(_HEAD + "\n".join(lines) + "\nret; }")
    device = DeviceMemory()
    arrays = [np.ascontiguousarray(array) for array in values]
    places = [device.place(array) for array in arrays]
    places += [0] * (3 - len(places)) + [device.place(made)]
    parameters = b"".join(place.to_bytes(8, "little") for place in places)
    launch(program, "k", (1, 1, 1), (len(made), 1, 1), 0, parameters, device)
    return made


def integers(name: str, seed: int = 0, count: int = 96) -> np.ndarray:
    """Some that are hostile, and others."""
    dtype = DTYPES[name]
    limits = np.iinfo(dtype)
    hostile = [0, 1, limits.max, limits.min, limits.max - 1, limits.min + 1, 2, 3]
    if limits.min < 0:
        hostile += [-1, -2]
    rng = np.random.default_rng(seed)
    drawn = rng.integers(limits.min, limits.max, count - len(hostile), dtype)
    drawn >>= rng.integers(0, limits.bits, len(drawn)).astype(dtype)
    mixed = np.concatenate([np.array(hostile, dtype), drawn])
    return rng.permutation(mixed)


def wrapped(value: int, name: str) -> int:
    """An integer wrapped to a width."""
    bits = 8 * DTYPES[name].itemsize
    value &= (1 << bits) - 1
    is_negative = name[0] == "s" and value >> (bits - 1)
    return value - (1 << bits) if is_negative else value


def _quotient(a: int, b: int) -> int:
    return -1 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _bits(name: str) -> int:
    return 8 * DTYPES[name].itemsize


_INTEGER: dict[str, tuple[str, Callable[[int, int, str], int]]] = {
    "add": ("add.{t}", lambda a, b, t: a + b),
    "sub": ("sub.{t}", lambda a, b, t: a - b),
    "mul.lo": ("mul.lo.{t}", lambda a, b, t: a * b),
    "mul.hi": ("mul.hi.{t}", lambda a, b, t: a * b >> _bits(t)),
    "div": ("div.{t}", lambda a, b, t: _quotient(a, b)),
    "rem": ("rem.{t}", lambda a, b, t: a - b * _quotient(a, b) if b else a),
    "min": ("min.{t}", lambda a, b, t: min(a, b)),
    "max": ("max.{t}", lambda a, b, t: max(a, b)),
}


@pytest.mark.parametrize("name", ["s16", "u16", "s32", "u32", "s64", "u64"])
@pytest.mark.parametrize("operation", _INTEGER)
def test_integers(operation: str, name: str) -> None:
    template, wanted = _INTEGER[operation]
    a, b = integers(name), integers(name, seed=1)
    text = template.format(t=name) + " {d}, {0}, {1};"

    found = compute(text, a, b, result=DTYPES[name])

    pairs = zip(a.tolist(), b.tolist(), strict=True)
    assert found.tolist() == [wrapped(wanted(x, y, name), name) for x, y in pairs]


@pytest.mark.parametrize("name", ["s16", "u16", "s32", "u32"])
def test_wide_multiplication(name: str) -> None:
    wide = name[0] + str(2 * _bits(name))
    a, b, c = integers(name), integers(name, seed=1), integers(wide, seed=2)

    product = compute(
        f"mul.wide.{name} {{d}}, {{0}}, {{1}};", a, b, result=DTYPES[wide]
    )
    text = f"mad.wide.{name} {{d}}, {{0}}, {{1}}, {{2}};"
    total = compute(text, a, b, c, result=DTYPES[wide])

    for n, (x, y, z) in enumerate(zip(*(v.tolist() for v in (a, b, c)), strict=True)):
        assert int(product[n]) == x * y
        assert int(total[n]) == wrapped(x * y + z, wide)


def test_addition_with_carry() -> None:
    """Two words, with carry."""
    a, b = integers("u64"), integers("u64", seed=1)
    text = """mov.b64 {{%w1, %w2}}, {0}; mov.b64 {{%w3, %w4}}, {1};
    {first} {second} mov.b64 {d}, {{%w5, %w6}};"""

    added = text.replace("{first}", "add.cc.u32 %w5, %w1, %w3;")
    added = added.replace("{second}", "addc.u32 %w6, %w2, %w4;")
    np.testing.assert_array_equal(compute(added, a, b, result="u8"), a + b)

    scaled = text.replace("{first}", "mad.lo.cc.u32 %w5, %w1, %w3, %w2;")
    scaled = scaled.replace("{second}", "madc.hi.u32 %w6, %w1, %w3, 0;")
    low = np.uint64(0xFFFFFFFF)
    expected = (a & low) * (b & low) + (a >> np.uint64(32))
    np.testing.assert_array_equal(compute(scaled, a, b, result="u8"), expected)


def test_subtraction_with_borrow() -> None:
    a, b = integers("u64"), integers("u64", seed=1)
    text = """mov.b64 {{%w1, %w2}}, {0}; mov.b64 {{%w3, %w4}}, {1};
    sub.cc.u32 %w5, %w1, %w3; subc.u32 %w6, %w2, %w4; mov.b64 {d}, {{%w5, %w6}};"""
    np.testing.assert_array_equal(compute(text, a, b, result="u8"), a - b)


@pytest.mark.parametrize("name", ["b16", "b32", "b64", "s16", "s32", "s64"])
def test_shifts_by_any_distance(name: str) -> None:
    kind = name.replace("b", "u")
    values, bits = integers(kind), _bits(name)
    far = np.arange(len(values), dtype=np.uint32)
    right = name.replace("b", "u")

    up = compute(f"shl.b{bits} {{d}}, {{0}}, {{1}};", values, far, result=DTYPES[kind])
    down = compute(
        f"shr.{right} {{d}}, {{0}}, {{1}};", values, far, result=DTYPES[kind]
    )

    for n, value in enumerate(values.tolist()):
        assert int(up[n]) == wrapped(value << n, kind)
        assert int(down[n]) == value >> n


def test_funnel_shifts() -> None:
    low, high = integers("u32"), integers("u32", seed=1)
    far = np.arange(96, dtype=np.uint32)
    for mode in ("wrap", "clamp"):
        for side in "lr":
            text = f"shf.{side}.{mode}.b32 {{d}}, {{0}}, {{1}}, {{2}};"
            found = compute(text, low, high, far, result="u4")
            for n in range(96):
                steps = n & 31 if mode == "wrap" else min(n, 32)
                both = int(high[n]) << 32 | int(low[n])
                whole = both << steps >> 32 if side == "l" else both >> steps
                assert int(found[n]) == whole & 0xFFFFFFFF


@pytest.mark.parametrize("name", ["u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("length", [0, 1, 7, 32, 70])
def test_bit_fields(name: str, length: int) -> None:
    bits, dtype = _bits(name), DTYPES[name]
    values = integers(name)
    begin = np.arange(len(values), dtype=np.uint32)

    found = compute(
        f"bfe.{name} {{d}}, {{0}}, {{1}}, {length};", values, begin, result=dtype
    )
    into = integers(name, seed=1)
    text = f"bfi.b{bits} {{d}}, {{0}}, {{2}}, {{1}}, {length};"
    put = compute(text, values, begin, into, result=dtype)

    for n, (value, other) in enumerate(
        zip(values.tolist(), into.tolist(), strict=True)
    ):
        kept = max(0, min(length, bits - n))
        ones = (1 << kept) - 1
        field = value >> n & ones if n < bits else 0
        if name[0] == "s" and length:
            # The sign is that of the last bit that there is.
            last = min(n + length - 1, bits - 1)
            field |= -(value >> last & 1) & ~ones
        assert int(found[n]) == wrapped(field, name), n
        whole = other if n >= bits else other & ~(ones << n) | (value & ones) << n
        assert int(put[n]) == wrapped(whole, name), n


def test_byte_permutation() -> None:
    low, high, choice = (integers("u32", seed=n) for n in range(3))

    found = compute("prmt.b32 {d}, {0}, {1}, {2};", low, high, choice, result="u4")

    for n in range(len(low)):
        bytes_ = int(low[n]).to_bytes(4, "little") + int(high[n]).to_bytes(4, "little")
        made = 0
        for place in range(4):
            pick = int(choice[n]) >> 4 * place & 15
            byte = bytes_[pick & 7]
            made |= (0xFF * (byte >> 7) if pick & 8 else byte) << 8 * place
        assert int(found[n]) == made


def test_lop3() -> None:
    a, b, c = (integers("u32", seed=n) for n in range(3))
    for table, wanted in ((0x96, a ^ b ^ c), (0xEA, a & b | c), (0xFE, a | b | c)):
        text = f"lop3.b32 {{d}}, {{0}}, {{1}}, {{2}}, {table};"
        np.testing.assert_array_equal(compute(text, a, b, c, result="u4"), wanted)


def test_popc_and_clz() -> None:
    values = integers("u64")
    ones = compute("popc.b64 {d}, {0};", values, result="u4")
    zeros = compute("clz.b64 {d}, {0};", values, result="u4")
    assert ones.tolist() == [v.bit_count() for v in values.tolist()]
    assert zeros.tolist() == [64 - v.bit_length() for v in values.tolist()]


# Floats


def floats(dtype: type, seed: int = 0, count: int = 120) -> np.ndarray:
    """Some that are hostile, and others."""
    rng = np.random.default_rng(seed)
    limits = ml_dtypes.finfo(dtype)
    hostile = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, limits.max, limits.tiny]
    hostile += [float(limits.smallest_subnormal), 0.5, 1.5, 2.5, -0.5]
    drawn = rng.standard_normal(count - len(hostile)) * np.exp2(
        rng.integers(-12, 12, count - len(hostile))
    )
    with np.errstate(over="ignore"):
        return rng.permutation(np.concatenate([hostile, drawn])).astype(dtype)


def _neighbours(value: Fraction, dtype: Any) -> tuple[Fraction, Fraction]:
    """The floats of a type next to a value: round down and round up."""
    near = np.array([float(value)]).astype(dtype)[0]
    while Fraction(float(near)) > value:
        near = np.nextafter(near, dtype(-np.inf))
    while Fraction(float(np.nextafter(near, dtype(np.inf)))) <= value:
        near = np.nextafter(near, dtype(np.inf))
    low = Fraction(float(near))
    if low == value:
        return low, low
    return low, Fraction(float(np.nextafter(near, dtype(np.inf))))


def _wanted(value: Fraction, dtype: Any, mode: str) -> set[Fraction]:
    """The admissible roundings of a number; two for ties."""
    low, high = _neighbours(value, dtype)
    if mode == "rz":
        mode = "rm" if value > 0 else "rp"
    if mode == "rm":
        return {low}
    if mode == "rp":
        return {high}
    return {n for n in (low, high) if abs(n - value) == min(value - low, high - value)}


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        *(("f32", mode) for mode in ("rn", "rz", "rm", "rp")),
        *(("f64", mode) for mode in ("rn", "rz", "rm", "rp")),
        *(("f16", "rn"), ("bf16", "rn")),
    ],
)
@pytest.mark.parametrize("operation", ["add", "sub", "mul", "fma"])
def test_correct_rounding(operation: str, name: str, mode: str) -> None:
    dtype = DTYPES[name].type
    a, b = floats(dtype), floats(dtype, seed=1)
    with np.errstate(all="ignore"):
        c = (-(a * b)).astype(dtype)  # of which little is left
    c[::3] = floats(dtype, seed=2)[::3]
    operands = "{0}, {1}, {2}" if operation == "fma" else "{0}, {1}"

    text = f"{operation}.{mode}.{name} {{d}}, {operands};"
    found = compute(text, a, b, c, result=dtype)

    limits = ml_dtypes.finfo(dtype)
    for x, y, z, got in zip(*(v.astype(float) for v in (a, b, c, found)), strict=True):
        if not all(map(math.isfinite, (x, y, z))):
            continue
        x, y, z = map(Fraction, (x, y, z))
        exact = {"add": x + y, "sub": x - y, "mul": x * y, "fma": x * y + z}[operation]
        if not Fraction(float(limits.tiny)) <= abs(exact) < Fraction(float(limits.max)):
            continue
        assert Fraction(got) in _wanted(exact, dtype, mode), (x, y, z)


def test_fma_without_intermediate_overflow() -> None:
    a, b = np.array([2.0, 1e200]), np.array([2.0**1023, 1e200])
    c = np.array([-(2.0**1023), -np.inf])
    found = compute("fma.rn.f64 {d}, {0}, {1}, {2};", a, b, c, result="f8")
    np.testing.assert_array_equal(found, [2.0**1023, -np.inf])


@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f64"])
def test_comparisons_with_nan(name: str) -> None:
    dtype = DTYPES[name].type
    a, b = floats(dtype), floats(dtype, seed=1)
    b[::4] = a[::4]
    is_none = np.isnan(a.astype(float)) | np.isnan(b.astype(float))
    for test, compare in (
        ("eq", np.equal),
        ("ne", np.not_equal),
        ("lt", np.less),
        ("ge", np.greater_equal),
    ):
        with np.errstate(invalid="ignore"):
            plain = compare(a, b)
        for suffix, wanted in (("", plain & ~is_none), ("u", plain | is_none)):
            text = f"setp.{test}{suffix}.{name} %p1, {{0}}, {{1}}; selp.b32 {{d}}, 1, 0, %p1;"
            found = compute(text, a, b, result="u4")
            np.testing.assert_array_equal(found.astype(bool), wanted)
    for test, wanted in (("num", ~is_none), ("nan", is_none)):
        text = f"setp.{test}.{name} %p1, {{0}}, {{1}}; selp.b32 {{d}}, 1, 0, %p1;"
        np.testing.assert_array_equal(compute(text, a, b, result="u4"), wanted)


@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f64"])
def test_extremes(name: str) -> None:
    dtype = DTYPES[name].type
    a, b = floats(dtype), floats(dtype, seed=1)
    wide = a.astype(float), b.astype(float)
    for test, ignoring, propagating in (
        ("min", np.fmin, np.minimum),
        ("max", np.fmax, np.maximum),
    ):
        for suffix, function in (("", ignoring), (".NaN", propagating)):
            if suffix and name == "f64":
                continue  # which has no such instruction
            text = f"{test}{suffix}.{name} {{d}}, {{0}}, {{1}};"
            found = compute(text, a, b, result=dtype).astype(float)
            np.testing.assert_array_equal(found, function(*wide))


def test_subnormals_are_flushed() -> None:
    values = floats(np.float32)
    doubled = compute("add.ftz.f32 {d}, {0}, {0};", values, result="f4")
    is_small = np.abs(values) < np.finfo(np.float32).tiny
    with np.errstate(over="ignore"):
        wanted = np.where(is_small, np.copysign(np.float32(0), values), 2 * values)
    np.testing.assert_array_equal(doubled, wanted)


# Conversions


@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("to", ["s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"])
@pytest.mark.parametrize(
    ("mode", "rounded"),
    [("rzi", math.trunc), ("rni", round), ("rmi", math.floor), ("rpi", math.ceil)],
)
def test_integers_of_floats(
    mode: str, rounded: Callable[[float], int], to: str, name: str
) -> None:
    """Clamped to the range; NaN is 0, or the sign bit alone."""
    values = floats(DTYPES[name].type)
    result = DTYPES[to] if DTYPES[to].itemsize > 1 else np.dtype(np.int16)

    found = compute(f"cvt.{mode}.{to}.{name} {{d}}, {{0}};", values, result=result)

    limits = np.iinfo(DTYPES[to])
    for value, got in zip(values.astype(float).tolist(), found.tolist(), strict=True):
        is_long = "64" in to + name
        wanted = wrapped(1 << limits.bits - 1, to) if is_long else 0
        if not math.isnan(value):
            whole = rounded(value) if math.isfinite(value) else value * math.inf
            wanted = int(min(max(whole, limits.min), limits.max))
        assert got == wanted, value


@pytest.mark.parametrize("name", ["s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"])
def test_floats_of_integers(name: str) -> None:
    values = integers(name)
    held = values.astype(np.int16) if values.itemsize == 1 else values
    for to in ("f16", "f32", "f64"):
        found = compute(f"cvt.rn.{to}.{name} {{d}}, {{0}};", held, result=DTYPES[to])
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(found, values.astype(DTYPES[to]))


def test_integers_of_fewer_bits() -> None:
    values = integers("s32")
    cut = compute("cvt.s32.s8 {d}, {0};", values, result="i4")
    np.testing.assert_array_equal(cut, values.astype(np.int8))
    kept = compute("cvt.sat.s8.s32 %h7, {0}; cvt.s32.s8 {d}, %h7;", values, result="i4")
    np.testing.assert_array_equal(kept, np.clip(values, -128, 127))
    kept = compute("cvt.sat.u8.s32 %h7, {0}; cvt.u32.u8 {d}, %h7;", values, result="u4")
    np.testing.assert_array_equal(kept, np.clip(values, 0, 255))


def test_narrow_floats() -> None:
    values, other = floats(np.float32), floats(np.float32, seed=1)
    kinds: dict[str, Any] = {
        "f16x2": np.float16,
        "bf16x2": ml_dtypes.bfloat16,
        "e4m3x2": ml_dtypes.float8_e4m3fn,
        "e5m2x2": ml_dtypes.float8_e5m2,
    }
    for name, dtype in kinds.items():
        size = 2 * np.dtype(dtype).itemsize
        mode = "rn.satfinite" if size == 2 else "rn"
        text = f"cvt.{mode}.{name}.f32 {{d}}, {{0}}, {{1}};"
        found = compute(text, values, other, result=f"u{size}")
        pairs = found.view(dtype).reshape(-1, 2)
        most = np.float32(ml_dtypes.finfo(dtype).max)
        with np.errstate(all="ignore"):
            for place, wanted in ((1, values), (0, other)):
                limited = np.clip(wanted, -most, most) if size == 2 else wanted
                np.testing.assert_array_equal(
                    pairs[:, place].astype(np.float32),
                    limited.astype(dtype).astype(np.float32),
                )


def test_tf32_rounding() -> None:
    values = floats(np.float32)
    found = compute("cvt.rna.tf32.f32 {d}, {0};", values, result="f4")
    finite = np.isfinite(values) & (np.abs(values) < 1e38)
    assert not (found.view(np.uint32)[finite] & 0x1FFF).any()
    np.testing.assert_allclose(found[finite], values[finite], rtol=2**-11, atol=1e-44)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(values))
