"""Operator overloading for vector and scalar SSA values."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlir import ir

from relax_mlir.dialects.dtypes import element_of
from relax_mlir.schedules.builder import op

__all__ = [
    "Lanes",
    "any_lane",
    "constant_lanes",
    "fma",
    "horner",
    "if_any",
    "on_lanes",
    "select",
    "sqrt",
]

# arith.cmpi (signed) and arith.cmpf (ordered) predicate numbers.
_CMPI = {"eq": 0, "lt": 2, "le": 3, "gt": 4, "ge": 5}
_CMPF = {"eq": 1, "gt": 2, "ge": 3, "lt": 4, "le": 5}


class Lanes:
    """A vector or scalar SSA value with Python's operators.

    Python numbers take the type of the other operand. Integers wrap, ``>>`` is arithmetic,
    and comparisons are ordered (false for NaN).
    """

    def __init__(self, value: ir.Value) -> None:
        self.value = value

    @property
    def element(self) -> ir.Type:
        """Element type."""
        return element_of(self.value.type)

    @property
    def is_float(self) -> bool:
        """Whether the element type is a float."""
        return isinstance(self.element, ir.FloatType)

    def of(self, element: ir.Type) -> ir.Type:
        """The same shape with another element type."""
        type_ = self.value.type
        if isinstance(type_, ir.VectorType):
            scalable = type_.scalable_dims
            return ir.VectorType.get(type_.shape, element, scalable=scalable)
        return element

    def like(self, other: Lanes | float) -> Lanes:
        """A splat of a number with the type of this value; lanes are returned as they are."""
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
        """Logical shift right."""
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
        """Lanewise equality."""
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
        """Bitcast to integers of the same width."""
        width = self.element.width
        return self._cast("arith.bitcast", ir.IntegerType.get_signless(width))

    def floats(self) -> Lanes:
        """Bitcast i32 to f32, i64 to f64."""
        is_wide = self.element.width == 64
        return self._cast(
            "arith.bitcast", ir.F64Type.get() if is_wide else ir.F32Type.get()
        )

    def to_f32(self) -> Lanes:
        """Convert f64 or signed integers to f32, rounded to nearest."""
        name = "arith.truncf" if self.is_float else "arith.sitofp"
        return self._cast(name, ir.F32Type.get())

    def to_f64(self) -> Lanes:
        """Convert f32 or signed integers to f64."""
        name = "arith.extf" if self.is_float else "arith.sitofp"
        return self._cast(name, ir.F64Type.get())

    def to_i32(self) -> Lanes:
        """Truncate or sign-extend integers to i32."""
        width = self.element.width
        if width == 32:
            return self
        name = "arith.trunci" if width > 32 else "arith.extsi"
        return self._cast(name, ir.IntegerType.get_signless(32))

    def to_i64(self) -> Lanes:
        """Zero-extend i32 to i64."""
        return self._cast("arith.extui", ir.IntegerType.get_signless(64))

    def _cast(self, name: str, element: ir.Type) -> Lanes:
        return Lanes(op(name, self.of(element), self.value))

    def sign(self) -> Lanes:
        """The sign bits of f32 as i32, all other bits zero."""
        return self.bits() & -(1 << 31)

    def flip(self, sign: Lanes) -> Lanes:
        """Negate where the sign bit of ``sign`` is set."""
        return (self.bits() ^ sign).floats()

    def truncate(self) -> Lanes:
        """Round towards zero."""
        return self._same("math.trunc", self)

    def at_most(self, top: float) -> Lanes:
        """Clamp from above; NaN is propagated (one instruction on x86)."""
        return select(self > top, self.like(top), self)

    def at_least(self, bottom: float) -> Lanes:
        """Clamp from below; NaN is propagated."""
        return select(self < bottom, self.like(bottom), self)


def fma(a: Lanes, b: Lanes | float, c: Lanes | float) -> Lanes:
    """a * b + c, rounded once."""
    operands = (a.value, a.like(b).value, a.like(c).value)
    return Lanes(op("math.fma", a.value.type, *operands))


def horner(x: Lanes, coefficients: Sequence[float]) -> Lanes:
    """Horner evaluation of a polynomial, with the coefficients in ascending order."""
    *rest, top = coefficients
    total = x.like(top)
    for coefficient in reversed(rest):
        total = fma(total, x, coefficient)
    return total


def select(condition: Lanes, then: Lanes, otherwise: Lanes | float) -> Lanes:
    """Lanewise select."""
    rhs = then.like(otherwise)
    type_ = then.value.type
    return Lanes(op("arith.select", type_, condition.value, then.value, rhs.value))


def sqrt(x: Lanes) -> Lanes:
    """The square root, rounded to nearest."""
    return Lanes(op("math.sqrt", x.value.type, x.value))


def constant_lanes(value: ir.Value) -> float | None:
    """The constant in all lanes of ``value``; None if it is not a splat constant."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        return None
    if owner.name == "vector.broadcast":
        return constant_lanes(owner.operands[0])
    if owner.name != "arith.constant":
        return None
    attr = owner.attributes["value"]
    if isinstance(attr, ir.DenseElementsAttr):
        if not attr.is_splat:
            return None
        attr = attr.get_splat_value()
    return attr.value if isinstance(attr, (ir.FloatAttr, ir.IntegerAttr)) else None


def any_lane(mask: Lanes) -> ir.Value:
    """An i1: whether ``mask`` holds in any lane."""
    if not isinstance(mask.value.type, ir.VectorType):
        return mask.value
    kind = ir.Attribute.parse("#vector.kind<or>")
    return op("vector.reduction", mask.element, mask.value, kind=kind)


def if_any(
    mask: Lanes, then: Callable[[], Sequence[Lanes]], otherwise: Sequence[Lanes]
) -> list[Lanes]:
    """Branch (``scf.if``): ``then()`` if ``mask`` holds in any lane, else ``otherwise``."""
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
    """Decorator: wrap a function of `Lanes` as a function of SSA values."""

    def emit(*operands: ir.Value) -> ir.Value:
        return function(*(Lanes(operand) for operand in operands)).value

    emit.__doc__, emit.__name__ = function.__doc__, function.__name__
    return emit
