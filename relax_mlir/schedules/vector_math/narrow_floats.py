"""Floats of a byte and less, which CPUs do not have: to f32 and back, by their bits.

What a format is, its MLIR type says; a value of it crosses as an integer of its width.

Source: OCP 8-bit Floating Point Specification 1.0 (E4M3FN, E5M2), OCP Microscaling
Formats 1.0 (E8M0, E3M2, E2M3, E2M1), and Noune and others, 8-bit Numerical Formats for Deep Neural
Networks, 2022 (the FNUZ variants).
"""

from dataclasses import dataclass

from mlir import ir

from relax_mlir.schedules.emit import op
from relax_mlir.schedules.vector_math.lanes import Lanes, select

__all__ = ["extend_narrow", "is_narrow", "truncate_narrow"]

_F32_BIAS, _F32_DIGITS, _F32_INFINITY = 127, 23, 0x7F800000
_F32_NAN = 0x7FC00000


@dataclass(frozen=True)
class _Format:
    """A format of sign, exponent and digits.

    Attributes:
        digits: bits behind the point.
        bias: of the exponent.
        largest: the bits of the largest finite number.
        beyond: the bits of what is larger, infinities included.
        nan: the bits that NaN is written as, without its sign; what is larger than
            ``beyond``, or ``beyond`` itself if it is the same, reads as NaN.
        is_unsigned_zero: whether a lone sign bit is NaN, in place of minus zero.
        has_nan: whether there is any.
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
    """Whether an element type is a float that is converted here."""
    return type(element) in _FORMATS or isinstance(element, ir.Float8E8M0FNUType)


def truncate_narrow(x: ir.Value, element: ir.Type) -> ir.Value:
    """f32 in a narrow format: to nearest, ties to even; too large is infinity or NaN.

    Of E3M2, E2M3 and E2M1, which have neither, too large is the largest, and NaN is minus
    zero. E8M0 has powers of two alone: ties go up, and what is not above zero is NaN.
    """
    lanes = Lanes(x)
    form = _FORMATS.get(type(element))
    wide = _truncated_power(lanes) if form is None else _truncated(lanes, form)
    width = ir.IntegerType.get_signless(8 if form is None else form.bits)
    narrow = op("arith.trunci", lanes.of(width), wide.value)
    return op("arith.bitcast", lanes.of(element), narrow)


def extend_narrow(x: ir.Value) -> ir.Value:
    """A narrow float as f32, exactly."""
    lanes = Lanes(x)
    form = _FORMATS.get(type(lanes.element))
    width = ir.IntegerType.get_signless(8 if form is None else form.bits)
    bits = op("arith.bitcast", lanes.of(width), x)
    wide = Lanes(op("arith.extui", lanes.of(ir.IntegerType.get_signless(32)), bits))
    return (_power(wide) if form is None else _extended(wide, form)).value


def _truncated(x: Lanes, form: _Format) -> Lanes:
    """The bits in the low ones of i32."""
    bits = x.bits()
    sign = bits.shift_down(31) << (form.bits - 1)
    size = bits & 0x7FFFFFFF
    dropped = _F32_DIGITS - form.digits
    odd = size.shift_down(dropped) & 1
    rounded = (size + odd + ((1 << (dropped - 1)) - 1)).shift_down(dropped)
    normal = rounded - ((_F32_BIAS - form.bias) << form.digits)
    # A number whose last digit is worth as much as the format's least: adding rounds.
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
    """The f32 that the low bits of i32 mean."""
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
    """The exponent of the nearest power of two."""
    bits = x.bits()
    code = (bits + (1 << (_F32_DIGITS - 1))).shift_down(_F32_DIGITS)
    # Half of the least normal number is a power of two; three quarters of it are between.
    code = select(bits < 3 << (_F32_DIGITS - 2), code.like(0), code)
    is_number = (bits > 0) & (bits < _F32_INFINITY)
    return select(is_number, code, 0xFF)


def _power(code: Lanes) -> Lanes:
    """Two to the power of an exponent; the first one is below the normal numbers."""
    bits = select(code.equal(0), code.like(1 << (_F32_DIGITS - 1)), code << _F32_DIGITS)
    return select(code.equal(0xFF), code.like(_F32_NAN), bits).floats()
