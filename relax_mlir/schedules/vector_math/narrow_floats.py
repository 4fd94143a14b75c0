"""Conversions between f32 and floats of 8 bits or fewer, by integer arithmetic.

The MLIR element type selects the format; values are bitcast to integers of its width.

Source: OCP 8-bit Floating Point Specification 1.0 (E4M3FN, E5M2), OCP Microscaling
Formats 1.0 (E8M0, E3M2, E2M3, E2M1), and Noune and others, 8-bit Numerical Formats for Deep Neural
Networks, 2022 (the FNUZ variants).
"""

from dataclasses import dataclass

from mlir import ir

from relax_mlir.schedules.builder import op
from relax_mlir.schedules.vector_math.lanes import Lanes, select

__all__ = ["extend_narrow", "is_narrow", "truncate_narrow"]

_F32_BIAS, _F32_DIGITS, _F32_INFINITY = 127, 23, 0x7F800000
_F32_NAN = 0x7FC00000


@dataclass(frozen=True)
class _Format:
    """A floating-point format of sign, exponent and mantissa.

    Attributes:
        bits: total width; digits: mantissa width.
        bias: exponent bias.
        largest: code of the largest finite number.
        beyond: code for overflow and infinity.
        nan: code of NaN, without the sign. Codes above ``beyond`` are NaN too, and
            ``beyond`` itself if it equals ``nan``.
        is_unsigned_zero: whether the code of -0 is NaN (FNUZ formats).
        has_nan: whether the format has NaN.
    """

    bits: int
    digits: int
    bias: int
    largest: int
    beyond: int
    nan: int
    is_unsigned_zero: bool = False
    has_nan: bool = True


_FORMATS: dict[type[ir.Type], _Format] = {
    ir.Float8E4M3FNType: _Format(8, 3, 7, 0x7E, 0x7F, 0x7F),
    ir.Float8E5M2Type: _Format(8, 2, 15, 0x7B, 0x7C, 0x7E),
    ir.Float8E4M3FNUZType: _Format(8, 3, 8, 0x7F, 0x80, 0x80, is_unsigned_zero=True),
    ir.Float8E5M2FNUZType: _Format(8, 2, 16, 0x7F, 0x80, 0x80, is_unsigned_zero=True),
    ir.Float6E2M3FNType: _Format(6, 3, 1, 0x1F, 0x1F, 0x20, has_nan=False),
    ir.Float6E3M2FNType: _Format(6, 2, 3, 0x1F, 0x1F, 0x20, has_nan=False),
    ir.Float4E2M1FNType: _Format(4, 1, 1, 0x7, 0x7, 0x8, has_nan=False),
}


def is_narrow(element: ir.Type) -> bool:
    """Whether an element type is a float of 8 bits or fewer."""
    return type(element) in _FORMATS or isinstance(element, ir.Float8E8M0FNUType)


def truncate_narrow(x: ir.Value, element: ir.Type) -> ir.Value:
    """Truncate f32 to a narrow format, to nearest even; overflow gives infinity or NaN.

    E3M2, E2M3 and E2M1 have neither: overflow saturates, and NaN becomes -0. E8M0 has only
    powers of two: ties round up, and zero and negative numbers give NaN.
    """
    lanes = Lanes(x)
    form = _FORMATS.get(type(element))
    wide = _truncated_power(lanes) if form is None else _truncated(lanes, form)
    width = ir.IntegerType.get_signless(8 if form is None else form.bits)
    narrow = op("arith.trunci", lanes.of(width), wide.value)
    return op("arith.bitcast", lanes.of(element), narrow)


def extend_narrow(x: ir.Value) -> ir.Value:
    """Extend a narrow float to f32; exact."""
    lanes = Lanes(x)
    form = _FORMATS.get(type(lanes.element))
    width = ir.IntegerType.get_signless(8 if form is None else form.bits)
    bits = op("arith.bitcast", lanes.of(width), x)
    wide = Lanes(op("arith.extui", lanes.of(ir.IntegerType.get_signless(32)), bits))
    return (_power(wide) if form is None else _extended(wide, form)).value


def _truncated(x: Lanes, form: _Format) -> Lanes:
    """The code of f32 in a format, in the low bits of i32."""
    bits = x.bits()
    sign = bits.shift_down(31) << (form.bits - 1)
    size = bits & 0x7FFFFFFF
    dropped = _F32_DIGITS - form.digits
    odd = size.shift_down(dropped) & 1
    rounded = (size + odd + ((1 << (dropped - 1)) - 1)).shift_down(dropped)
    normal = rounded - ((_F32_BIAS - form.bias) << form.digits)
    # The last digit of this number is the format's smallest subnormal: adding it rounds.
    step = 1 - form.bias - form.digits
    anchor = (_F32_BIAS + _F32_DIGITS + step) << _F32_DIGITS
    small = (size.floats() + size.like(anchor).floats()).bits() - anchor
    first_normal = (_F32_BIAS + 1 - form.bias) << _F32_DIGITS
    code = select(size < first_normal, small, normal)
    code = select(code > form.largest, code.like(form.beyond), code)
    if form.is_unsigned_zero:
        signed = select(code.equal(0), code, code | sign)
    else:
        signed = code | sign
    nan = signed.like(form.nan) if not form.has_nan else sign | form.nan
    return select(size > _F32_INFINITY, nan, signed)


def _extended(code: Lanes, form: _Format) -> Lanes:
    """The f32 of a code in the low bits of i32."""
    top = 1 << (form.bits - 1)
    sign, size = (code & top) << (32 - form.bits), code & (top - 1)
    shift = _F32_DIGITS - form.digits
    normal = (size << shift) + ((_F32_BIAS - form.bias) << _F32_DIGITS)
    least = size.like((_F32_BIAS + 1 - form.bias - form.digits) << _F32_DIGITS)
    small = size.to_f32() * least.floats()
    bits = select(size < (1 << form.digits), small.bits(), normal)
    if form.has_nan and not form.is_unsigned_zero:
        infinity = _F32_INFINITY if form.nan > form.beyond else _F32_NAN
        bits = select(size.equal(form.beyond), size.like(infinity), bits)
        bits = select(size > form.beyond, size.like(_F32_NAN), bits)
    signed = bits | sign
    if form.is_unsigned_zero:
        signed = select(code.equal(top), code.like(_F32_NAN), signed)
    return signed.floats()


def _truncated_power(x: Lanes) -> Lanes:
    """The E8M0 code of the nearest power of two."""
    bits = x.bits()
    code = (bits + (1 << (_F32_DIGITS - 1))).shift_down(_F32_DIGITS)
    # 0.75 * 2**-126 is the midpoint of codes 0 and 1; f32 of code 0 is subnormal.
    code = select(bits < 3 << (_F32_DIGITS - 2), code.like(0), code)
    is_number = (bits > 0) & (bits < _F32_INFINITY)
    return select(is_number, code, 0xFF)


def _power(code: Lanes) -> Lanes:
    """The f32 of an E8M0 code; that of code 0 is subnormal."""
    bits = select(code.equal(0), code.like(1 << (_F32_DIGITS - 1)), code << _F32_DIGITS)
    return select(code.equal(0xFF), code.like(_F32_NAN), bits).floats()
