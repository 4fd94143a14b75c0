"""Lanes: vectors (or one scalar) of numbers, with Python's operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlir import ir

from relax_mlir.dialects.dtypes import element_of
from relax_mlir.schedules.emit import op

__all__ = [
    "Lanes",
    "any_lane",
    "fma",
    "horner",
    "if_any",
    "known_number",
    "on_lanes",
    "select",
    "sqrt",
]

# arith.cmpi (signed) and arith.cmpf (ordered) predicate numbers.
_CMPI = {"eq": 0, "lt": 2, "le": 3, "gt": 4, "ge": 5}
_CMPF = {"eq": 1, "gt": 2, "ge": 3, "lt": 4, "le": 5}


class Lanes:
    """Numbers of one type that are computed on together.

    A Python number takes the type of the other side. Integers wrap, ``>>`` keeps the
    sign, and comparisons with NaN are false.
    """

    def __init__(self, value: ir.Value) -> None:
        self.value = value

    @property
    def element(self) -> ir.Type:
        """The type of one lane."""
        return element_of(self.value.type)

    @property
    def is_float(self) -> bool:
        """Whether the lanes are floating-point numbers."""
        return isinstance(self.element, ir.FloatType)

    def of(self, element: ir.Type) -> ir.Type:
        """The type of as many lanes of another type."""
        type_ = self.value.type
        if isinstance(type_, ir.VectorType):
            scalable = type_.scalable_dims
            return ir.VectorType.get(type_.shape, element, scalable=scalable)
        return element

    def like(self, other: Lanes | float) -> Lanes:
        """A number in every lane; lanes are left as they are."""
        if isinstance(other, Lanes):
            return other
        make = ir.FloatAttr.get if self.is_float else ir.IntegerAttr.get
        attr = make(self.element, other)
        type_ = self.value.type
        if isinstance(type_, ir.VectorType):
            attr = ir.DenseElementsAttr.get_splat(type_, attr)
        return Lanes(op("arith.constant", type_, value=attr))

    def _binary(self, name: str, other: Lanes | float) -> Lanes:
        return self._same(name, self, self.like(other))

    def _same(self, name: str, *operands: Lanes) -> Lanes:
        return Lanes(op(name, self.value.type, *(o.value for o in operands)))

    def __add__(self, other: Lanes | float) -> Lanes:
        return self._binary("arith.addf" if self.is_float else "arith.addi", other)

    def __sub__(self, other: Lanes | float) -> Lanes:
        return self._binary("arith.subf" if self.is_float else "arith.subi", other)

    def __rsub__(self, other: float) -> Lanes:
        return self.like(other) - self

    def __mul__(self, other: Lanes | float) -> Lanes:
        return self._binary("arith.mulf" if self.is_float else "arith.muli", other)

    def __truediv__(self, other: Lanes | float) -> Lanes:
        return self._binary("arith.divf", other)

    def __rtruediv__(self, other: float) -> Lanes:
        return self.like(other) / self

    def __neg__(self) -> Lanes:
        return self._same("arith.negf", self)

    def __abs__(self) -> Lanes:
        return self._same("math.absf", self)

    def __and__(self, other: Lanes | int) -> Lanes:
        return self._binary("arith.andi", other)

    def __or__(self, other: Lanes | int) -> Lanes:
        return self._binary("arith.ori", other)

    def __xor__(self, other: Lanes | int) -> Lanes:
        return self._binary("arith.xori", other)

    def __lshift__(self, bits: Lanes | int) -> Lanes:
        return self._binary("arith.shli", bits)

    def __rshift__(self, bits: Lanes | int) -> Lanes:
        return self._binary("arith.shrsi", bits)

    def shift_down(self, bits: Lanes | int) -> Lanes:
        """Shift right and fill with zeros."""
        return self._binary("arith.shrui", bits)

    def _compare(self, predicate: str, other: Lanes | float) -> Lanes:
        name, numbers = (
            ("arith.cmpf", _CMPF) if self.is_float else ("arith.cmpi", _CMPI)
        )
        number = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), numbers[predicate])
        type_ = self.of(ir.IntegerType.get_signless(1))
        rhs = self.like(other)
        return Lanes(op(name, type_, self.value, rhs.value, predicate=number))

    def equal(self, other: Lanes | float) -> Lanes:
        """Which lanes are the same number."""
        return self._compare("eq", other)

    def __lt__(self, other: Lanes | float) -> Lanes:
        return self._compare("lt", other)

    def __le__(self, other: Lanes | float) -> Lanes:
        return self._compare("le", other)

    def __gt__(self, other: Lanes | float) -> Lanes:
        return self._compare("gt", other)

    def __ge__(self, other: Lanes | float) -> Lanes:
        return self._compare("ge", other)

    def bits(self) -> Lanes:
        """The bits of f32 as i32, of f64 as i64."""
        width = self.element.width
        return self._cast("arith.bitcast", ir.IntegerType.get_signless(width))

    def floats(self) -> Lanes:
        """The f32 (of i32) or f64 (of i64) with these bits."""
        is_wide = self.element.width == 64
        return self._cast(
            "arith.bitcast", ir.F64Type.get() if is_wide else ir.F32Type.get()
        )

    def to_f32(self) -> Lanes:
        """As f32, rounded to nearest; from f64 or a signed integer."""
        name = "arith.truncf" if self.is_float else "arith.sitofp"
        return self._cast(name, ir.F32Type.get())

    def to_f64(self) -> Lanes:
        """As f64; from f32 or a signed integer."""
        name = "arith.extf" if self.is_float else "arith.sitofp"
        return self._cast(name, ir.F64Type.get())

    def to_i32(self) -> Lanes:
        """The low 32 bits of an integer, or its value where it has fewer."""
        width = self.element.width
        if width == 32:
            return self
        name = "arith.trunci" if width > 32 else "arith.extsi"
        return self._cast(name, ir.IntegerType.get_signless(32))

    def to_i64(self) -> Lanes:
        """The unsigned value of i32."""
        return self._cast("arith.extui", ir.IntegerType.get_signless(64))

    def _cast(self, name: str, element: ir.Type) -> Lanes:
        return Lanes(op(name, self.of(element), self.value))

    def sign(self) -> Lanes:
        """The sign bits of f32, all other bits zero."""
        return self.bits() & -(1 << 31)

    def flip(self, sign: Lanes) -> Lanes:
        """Negated where the sign bit in ``sign`` is set."""
        return (self.bits() ^ sign).floats()

    def truncate(self) -> Lanes:
        """Rounded towards zero."""
        return self._same("math.trunc", self)

    def at_most(self, top: float) -> Lanes:
        """The smaller one; NaN stays (one instruction on x86)."""
        return select(self > top, self.like(top), self)

    def at_least(self, bottom: float) -> Lanes:
        """The larger one; NaN stays."""
        return select(self < bottom, self.like(bottom), self)


def fma(a: Lanes, b: Lanes | float, c: Lanes | float) -> Lanes:
    """a * b + c, rounded once."""
    operands = (a.value, a.like(b).value, a.like(c).value)
    return Lanes(op("math.fma", a.value.type, *operands))


def horner(x: Lanes, coefficients: Sequence[float]) -> Lanes:
    """The polynomial with these coefficients, that of the lowest power first."""
    *rest, top = coefficients
    total = x.like(top)
    for coefficient in reversed(rest):
        total = fma(total, x, coefficient)
    return total


def select(condition: Lanes, then: Lanes, otherwise: Lanes | float) -> Lanes:
    """``then`` in the lanes where ``condition`` holds, else ``otherwise``."""
    rhs = then.like(otherwise)
    type_ = then.value.type
    return Lanes(op("arith.select", type_, condition.value, then.value, rhs.value))


def sqrt(x: Lanes) -> Lanes:
    """The square root, rounded to nearest."""
    return Lanes(op("math.sqrt", x.value.type, x.value))


def known_number(value: ir.Value) -> float | None:
    """The number that all lanes of ``value`` surely hold, if it stands in the code."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        return None
    if owner.name == "vector.broadcast":
        return known_number(owner.operands[0])
    if owner.name != "arith.constant":
        return None
    attr = owner.attributes["value"]
    if isinstance(attr, ir.DenseElementsAttr):
        if not attr.is_splat:
            return None
        attr = attr.get_splat_value()
    return attr.value if isinstance(attr, (ir.FloatAttr, ir.IntegerAttr)) else None


def any_lane(mask: Lanes) -> ir.Value:
    """One bit: whether ``mask`` holds in any lane."""
    if not isinstance(mask.value.type, ir.VectorType):
        return mask.value
    kind = ir.Attribute.parse("#vector.kind<or>")
    return op("vector.reduction", mask.element, mask.value, kind=kind)


def if_any(
    mask: Lanes, then: Callable[[], Sequence[Lanes]], otherwise: Sequence[Lanes]
) -> list[Lanes]:
    """``then()`` if ``mask`` holds in any lane, else ``otherwise``: a branch."""
    branch = ir.Operation.create(
        "scf.if",
        results=[lanes.value.type for lanes in otherwise],
        operands=[any_lane(mask)],
        regions=2,
    )
    for region, make in zip(branch.regions, (then, lambda: otherwise), strict=True):
        with ir.InsertionPoint(ir.Block.create_at_start(region, [])):
            values = [lanes.value for lanes in make()]
            ir.Operation.create("scf.yield", operands=values)
    return [Lanes(result) for result in branch.results]


def on_lanes(function: Callable[..., Lanes]) -> Callable[..., ir.Value]:
    """Make a function of lanes one of values, which other modules call."""

    def emit(*operands: ir.Value) -> ir.Value:
        return function(*(Lanes(operand) for operand in operands)).value

    emit.__doc__, emit.__name__ = function.__doc__, function.__name__
    return emit
