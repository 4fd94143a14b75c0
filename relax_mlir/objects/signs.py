"""Signs of integer terms: MLIR's integers have none, its operations do."""

from __future__ import annotations

from relax_mlir.dialects import dtypes
from relax_mlir.objects import prim
from relax_mlir.objects.prim import PrimExpr
from relax_mlir.objects.prim.lanes import element_type, with_lanes

__all__ = ["as_signed", "as_unsigned", "low_bit", "of_one_sign", "wrapped"]


def wrapped(value: int, dtype: str) -> int:
    """The number of an integer type, or of bool, that has the low bits of another."""
    return int(prim.rounded(value, dtype))


def as_unsigned(term: PrimExpr) -> PrimExpr:
    """The unsigned integer of the same bits, of a signed one."""
    return _of_type(term, f"u{term.dtype}") if term.dtype.startswith("int") else term


def as_signed(term: PrimExpr) -> PrimExpr:
    """The signed integer of the same bits; of a truth value, -1 or 0."""
    if element_type(term.dtype) == "bool":
        sides = (prim.const(v, with_lanes("int8", term.dtype)) for v in (-1, 0))
        return prim.Select(term, *sides)
    if term.dtype.startswith("uint"):
        return _of_type(term, term.dtype.removeprefix("u"))
    return term


def _of_type(term: PrimExpr, dtype: str) -> PrimExpr:
    if isinstance(term, prim.IntImm):
        return prim.const(wrapped(term.value, dtype), dtype)
    if isinstance(term, prim.Cast) and term.value.dtype == dtype:
        return term.value
    return prim.Cast(dtype, term)


def of_one_sign(a: PrimExpr, b: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
    """Two terms of as many bits; a number beside a term takes the term's sign."""
    if a.dtype == b.dtype:
        return a, b
    if isinstance(b, prim.IntImm):
        return a, _of_type(b, a.dtype)
    if isinstance(a, prim.IntImm):
        return _of_type(a, b.dtype), b
    return a, b


def low_bit(term: PrimExpr) -> PrimExpr:
    """Whether an integer is odd: what one bit keeps of it."""
    if element_type(term.dtype) == "bool":
        return term
    bits = dtypes.dtype(term.dtype).element
    one = prim.const(1, with_lanes(bits.name, term.dtype))
    return prim.Cast(with_lanes("bool", term.dtype), term & one)
