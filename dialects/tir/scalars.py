"""Scalar and index SSA values with Python's operators, for building tensor programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlir import ir

from relax_mlir.dialects.dtypes import DType, dtype
from relax_mlir.dialects.shapes import Dim, Expr
from relax_mlir.symbolic.bounds import is_known_le

__all__ = [
    "Index",
    "Scalar",
    "bitcast",
    "cast",
    "constant",
    "emit_dim",
    "emit_same_type",
    "exact_integer_limits",
    "from_memory",
    "nonzero_divisor",
    "select",
    "to_memory",
]

# Predicates of arith.cmpi (signed, unsigned) and arith.cmpf.
_CMPI = {
    "eq": (0, 0),
    "ne": (1, 1),
    "lt": (2, 6),
    "le": (3, 7),
    "gt": (4, 8),
    "ge": (5, 9),
}
_CMPF = {"eq": 1, "gt": 2, "ge": 3, "lt": 4, "le": 5, "ne": 13}


def emit(
    name: str, type_: ir.Type, *operands: ir.Value, **attributes: ir.Attribute
) -> ir.Value:
    """Builds an operation with one result at the insertion point."""
    op = ir.Operation.create(
        name, results=[type_], operands=list(operands), attributes=attributes
    )
    return op.results[0]


def _int_attr(value: int, type_: ir.Type) -> ir.IntegerAttr:
    return ir.IntegerAttr.get(type_, value)


class Scalar:
    """A scalar or vector SSA value with its element type.

    Both operands of an operator have one type; a Python number takes the type of the
    other operand. Integer division truncates and never traps: x / 0 is 0.
    """

    def __init__(self, value: ir.Value, dtype: DType) -> None:
        self.value = value
        self.dtype = dtype

    def _same(self, other: Scalar | float) -> Scalar:
        return other if isinstance(other, Scalar) else constant(other, self.dtype)

    def _binary(
        self, suffix: dict[str, str], other: Scalar | float, swap: bool = False
    ) -> Scalar:
        lhs, rhs = (self._same(other), self) if swap else (self, self._same(other))
        kind = "u" if self.dtype.kind == "b" else self.dtype.kind
        return Scalar(
            emit(suffix[kind], lhs.value.type, lhs.value, rhs.value), self.dtype
        )

    def __add__(self, other: Scalar | float) -> Scalar:
        return self._binary(
            {"f": "arith.addf", "i": "arith.addi", "u": "arith.addi"}, other
        )

    def __sub__(self, other: Scalar | float) -> Scalar:
        return self._binary(
            {"f": "arith.subf", "i": "arith.subi", "u": "arith.subi"}, other
        )

    def __mul__(self, other: Scalar | float) -> Scalar:
        return self._binary(
            {"f": "arith.mulf", "i": "arith.muli", "u": "arith.muli"}, other
        )

    def __radd__(self, other: float) -> Scalar:
        return self._same(other) + self

    def __rsub__(self, other: float) -> Scalar:
        return self._same(other) - self

    def __rmul__(self, other: float) -> Scalar:
        return self._same(other) * self

    def __rtruediv__(self, other: float) -> Scalar:
        return self._same(other) / self

    def __truediv__(self, other: Scalar | float) -> Scalar:
        rhs = self._same(other)
        if self.dtype.is_float:
            return Scalar(
                emit("arith.divf", self.value.type, self.value, rhs.value), self.dtype
            )
        return self._divide_integers(rhs, "arith.divsi", "arith.divui")

    def __mod__(self, other: Scalar | float) -> Scalar:
        """The remainder with the sign of the dividend, as C's ``fmod`` and ``%``."""
        rhs = self._same(other)
        if self.dtype.is_float:
            return Scalar(
                emit("arith.remf", self.value.type, self.value, rhs.value), self.dtype
            )
        return self._divide_integers(rhs, "arith.remsi", "arith.remui")

    def _divide_integers(self, rhs: Scalar, signed: str, unsigned: str) -> Scalar:
        """Integer division without traps: x/0 is 0, and INT_MIN/-1 wraps."""
        is_zero = rhs.equal(0)
        divisor = select(is_zero, constant(1, self.dtype), rhs)
        if self.dtype.kind != "i":
            quotient = Scalar(
                emit(unsigned, self.value.type, self.value, divisor.value), self.dtype
            )
            return select(is_zero, constant(0, self.dtype), quotient)
        is_minus_one = rhs.equal(-1)
        divisor = select(is_minus_one, constant(1, self.dtype), divisor)
        quotient = Scalar(
            emit(signed, self.value.type, self.value, divisor.value), self.dtype
        )
        negated = 0 - self if signed == "arith.divsi" else constant(0, self.dtype)
        quotient = select(is_minus_one, negated, quotient)
        return select(is_zero, constant(0, self.dtype), quotient)

    def __neg__(self) -> Scalar:
        if self.dtype.is_float:
            return Scalar(emit("arith.negf", self.value.type, self.value), self.dtype)
        return constant(0, self.dtype) - self

    def __and__(self, other: Scalar | float) -> Scalar:
        return self._bitwise("arith.andi", other)

    def __or__(self, other: Scalar | float) -> Scalar:
        return self._bitwise("arith.ori", other)

    def __xor__(self, other: Scalar | float) -> Scalar:
        return self._bitwise("arith.xori", other)

    def __invert__(self) -> Scalar:
        return self ^ (1 if self.dtype.kind == "b" else -1)

    def __lshift__(self, other: Scalar | float) -> Scalar:
        """Left shift; 0 if the amount is negative or at least the bit width."""
        return self._shift("arith.shli", other, constant(0, self.dtype))

    def __rshift__(self, other: Scalar | float) -> Scalar:
        """Arithmetic (unsigned: logical) right shift, defined for all amounts.

        Amounts that are negative or at least the bit width give the sign (or 0) in all
        bits.
        """
        if self.dtype.kind != "i":
            return self._shift("arith.shrui", other, constant(0, self.dtype))
        top = constant(self.dtype.bits - 1, self.dtype)
        sign = Scalar(
            emit("arith.shrsi", self.value.type, self.value, top.value), self.dtype
        )
        return self._shift("arith.shrsi", other, sign)

    def _shift(self, name: str, other: Scalar | float, overflow: Scalar) -> Scalar:
        """A shift defined for all amounts; MLIR's is poison from the bit width on."""
        amount = self._same(other)
        bits = constant(self.dtype.bits, self.dtype)
        unsigned = self.dtype.unsigned
        is_in_range = Scalar(amount.value, unsigned) < Scalar(bits.value, unsigned)
        safe = select(is_in_range, amount, constant(0, self.dtype))
        value = emit(name, self.value.type, self.value, safe.value)
        return select(is_in_range, Scalar(value, self.dtype), overflow)

    def _bitwise(self, name: str, other: Scalar | float) -> Scalar:
        rhs = self._same(other)
        return Scalar(emit(name, self.value.type, self.value, rhs.value), self.dtype)

    def _compare(self, predicate: str, other: Scalar | float) -> Scalar:
        rhs = self._same(other)
        i64 = ir.IntegerType.get_signless(64)
        if self.dtype.is_float:
            name, number = "arith.cmpf", _CMPF[predicate]
        else:
            name, number = (
                "arith.cmpi",
                _CMPI[predicate][0 if self.dtype.kind == "i" else 1],
            )
        boolean = dtype("bool").with_lanes_of(self.dtype)
        attr = _int_attr(number, i64)
        value = emit(name, boolean.scalar_type, self.value, rhs.value, predicate=attr)
        return Scalar(value, boolean)

    def equal(self, other: Scalar | float) -> Scalar:
        return self._compare("eq", other)

    def not_equal(self, other: Scalar | float) -> Scalar:
        return self._compare("ne", other)

    def __lt__(self, other: Scalar | float) -> Scalar:
        return self._compare("lt", other)

    def __le__(self, other: Scalar | float) -> Scalar:
        return self._compare("le", other)

    def __gt__(self, other: Scalar | float) -> Scalar:
        return self._compare("gt", other)

    def __ge__(self, other: Scalar | float) -> Scalar:
        return self._compare("ge", other)

    def maximum(self, other: Scalar | float) -> Scalar:
        """The larger operand; NaN if either is NaN; the sign of zero is unspecified."""
        if self.dtype.is_float:
            return self._extreme("arith.maximumf", other)
        return self._binary({"i": "arith.maxsi", "u": "arith.maxui"}, other)

    def minimum(self, other: Scalar | float) -> Scalar:
        """The smaller operand; NaN if either is NaN; the sign of zero is unspecified."""
        if self.dtype.is_float:
            return self._extreme("arith.minimumf", other)
        return self._binary({"i": "arith.minsi", "u": "arith.minui"}, other)

    def _extreme(self, name: str, other: Scalar | float) -> Scalar:
        """Ignores the sign of zero (``nsz``), which costs most of the work on x86."""
        flags = ir.Attribute.parse("#arith.fastmath<nsz>")
        rhs = self._same(other)
        value = emit(name, self.value.type, self.value, rhs.value, fastmath=flags)
        return Scalar(value, self.dtype)


def constant(value: float, type_: DType) -> Scalar:
    """A constant of an element type; a splat for vector types."""
    attr = _number_attribute(value, type_.element)
    if type_.is_vector:
        attr = ir.DenseElementsAttr.get_splat(type_.scalar_type, attr)
    return Scalar(emit("arith.constant", type_.scalar_type, value=attr), type_)


def _number_attribute(value: float, type_: DType) -> ir.Attribute:
    if type_.is_float:
        return ir.FloatAttr.get(type_.scalar_type, float(value))
    wrapped = int(value) % (1 << type_.bits)
    if type_.bits > 1 and wrapped >= 1 << (type_.bits - 1):
        wrapped -= 1 << type_.bits
    return ir.IntegerAttr.get(type_.scalar_type, wrapped)


def select(condition: Scalar, then: Scalar, otherwise: Scalar) -> Scalar:
    """``then`` if ``condition`` holds, else ``otherwise``, lane by lane."""
    value = emit(
        "arith.select", then.value.type, condition.value, then.value, otherwise.value
    )
    return Scalar(value, then.dtype)


def emit_same_type(name: str, *operands: Scalar) -> Scalar:
    """An operation whose result has the type of its operands, such as ``math.exp``."""
    first = operands[0]
    value = emit(name, first.value.type, *(o.value for o in operands))
    return Scalar(value, first.dtype)


def cast(operand: Scalar, type_: DType) -> Scalar:
    """Converts to another element type.

    Floats to integers truncate and saturate; NaN becomes the lowest integer. Integers
    below 8 bits keep the low bits of the conversion to int32. To bool, nonzero is true.
    Floats of 8 bits or fewer are converted from and to float32.
    """
    source = operand.dtype
    if source == type_:
        return operand
    if source.is_float and source.is_narrow:
        return cast(_resize_float(operand, _float32_like(operand)), type_)
    if type_.kind == "b":
        return operand.not_equal(0)
    if type_.is_float and type_.is_narrow:
        return _resize_float(cast(operand, _float32_like(operand)), type_)
    if source.is_float:
        return _cast_float(operand, type_)
    if type_.is_float:
        name = "arith.sitofp" if source.kind == "i" else "arith.uitofp"
        return Scalar(emit(name, type_.scalar_type, operand.value), type_)
    if source.bits == type_.bits:
        return Scalar(operand.value, type_)
    name = "arith.trunci"
    if source.bits < type_.bits:
        name = "arith.extsi" if source.kind == "i" else "arith.extui"
    return Scalar(emit(name, type_.scalar_type, operand.value), type_)


def _cast_float(operand: Scalar, type_: DType) -> Scalar:
    """Converts a float to another float type or to an integer type."""
    if type_.is_float:
        return _resize_float(operand, type_)
    if type_.is_padded:
        return cast(_truncate(operand, _INT32.with_lanes_of(type_)), type_)
    return _truncate(operand, type_)


def from_memory(loaded: ir.Value, type_: DType) -> Scalar:
    """Converts an element loaded from a buffer to its scalar value."""
    if not type_.is_padded:
        return Scalar(loaded, type_)
    if type_.kind == "b":
        # Callers may pass any bytes: nonzero is true, as in numpy.
        return Scalar(loaded, dtype("int8").with_lanes_of(type_)).not_equal(0)
    bits = emit("arith.trunci", type_.bits_type, loaded)
    return bitcast(Scalar(bits, type_), type_)


def to_memory(value: ir.Value, type_: DType) -> ir.Value:
    """Converts a scalar value to the element that a buffer stores."""
    if not type_.is_padded:
        return value
    if type_.is_float:
        value = emit("arith.bitcast", type_.bits_type, value)
    return emit("arith.extui", type_.buffer_type, value)


def bitcast(operand: Scalar, type_: DType) -> Scalar:
    """Reinterprets the bits as another type of the same width."""
    if operand.value.type == type_.scalar_type:
        return Scalar(operand.value, type_)
    return Scalar(emit("arith.bitcast", type_.scalar_type, operand.value), type_)


def _truncate(operand: Scalar, type_: DType) -> Scalar:
    """Converts a float to an integer: truncates, saturates; NaN gives the lowest integer.

    ``arith.fptosi`` is poison out of range, so its operand is clamped to the integers
    that the float type represents. If the largest of these is below the limit of the
    integer type, as 2^31 - 128 (f32) for i32, a select inserts the limit. The clamp uses
    comparisons that are false for NaN, which x86 executes as two instructions.
    """
    if operand.dtype.bits < 32:
        operand = _resize_float(operand, _float32_like(operand))
    low, high = (
        constant(v, operand.dtype) for v in exact_integer_limits(operand.dtype, type_)
    )
    clamped = select(operand > low, operand, low)
    clamped = select(clamped < high, clamped, high)
    name = "arith.fptosi" if type_.kind == "i" else "arith.fptoui"
    truncated = Scalar(emit(name, type_.scalar_type, clamped.value), type_)
    if _value_bits(type_) <= _DIGITS[operand.dtype.bits]:
        return truncated
    greatest = constant(2 ** _value_bits(type_) - 1, type_)
    return select(operand > high, greatest, truncated)


def exact_integer_limits(source: DType, target: DType) -> tuple[float, float]:
    """The lowest and highest integers of ``target`` that are exact in ``source``."""
    bits = _value_bits(target)
    high = 2**bits - 2 ** max(0, bits - _DIGITS[source.bits])
    return -(2.0**bits) if target.kind == "i" else 0.0, float(high)


_DIGITS = {32: 24, 64: 53}  # significand bits of f32 and f64


def _value_bits(type_: DType) -> int:
    """Bits of an integer type without the sign bit."""
    return type_.bits - (type_.kind == "i")


def _resize_float(operand: Scalar, type_: DType) -> Scalar:
    """Converts between float types; of equal width (f16 and bf16) through f32."""
    if operand.dtype.bits == type_.bits:
        return _resize_float(cast(operand, _float32_like(operand)), type_)
    name = "arith.truncf" if operand.dtype.bits > type_.bits else "arith.extf"
    return Scalar(emit(name, type_.scalar_type, operand.value), type_)


def _float32_like(operand: Scalar) -> DType:
    return dtype("float32").with_lanes_of(operand.dtype)


_INT32 = dtype("int32")


class Index:
    """An ``index`` SSA value with Python's operators.

    ``//`` and ``%`` are unsigned: both operands must not be negative.
    """

    def __init__(self, value: ir.Value) -> None:
        self.value = value

    @staticmethod
    def value_of(index: Any) -> ir.Value:
        """The SSA value of an index or an int."""
        if isinstance(index, Index):
            return index.value
        type_ = ir.IndexType.get()
        return emit("arith.constant", type_, value=_int_attr(int(index), type_))

    def _op(self, name: str, lhs: Any, rhs: Any) -> Index:
        return Index(
            emit(name, ir.IndexType.get(), Index.value_of(lhs), Index.value_of(rhs))
        )

    def __add__(self, other: Index | int) -> Index:
        return self if other == 0 else self._op("arith.addi", self, other)

    def __radd__(self, other: int) -> Index:
        return self + other

    def __sub__(self, other: Index | int) -> Index:
        return self if other == 0 else self._op("arith.subi", self, other)

    def __rsub__(self, other: int) -> Index:
        return self._op("arith.subi", other, self)

    def __mul__(self, other: Index | int) -> Index | int:
        if isinstance(other, int) and other in (0, 1):
            return self if other else 0
        return self._op("arith.muli", self, other)

    def __rmul__(self, other: int) -> Index | int:
        return self * other

    def __floordiv__(self, other: Index | int) -> Index:
        return self if other == 1 else self._op("arith.divui", self, other)

    def __rfloordiv__(self, other: int) -> Index:
        return self._op("arith.divui", other, self)

    def __mod__(self, other: Index | int) -> Index | int:
        return 0 if other == 1 else self._op("arith.remui", self, other)

    def __rmod__(self, other: int) -> Index:
        return self._op("arith.remui", other, self)

    def minimum(self, other: Index | int) -> Index:
        return self._op("arith.minsi", self, other)

    def maximum(self, other: Index | int) -> Index:
        return self._op("arith.maxsi", self, other)

    def _compare(self, predicate: str, other: Index | int) -> Scalar:
        i1, i64 = (ir.IntegerType.get_signless(n) for n in (1, 64))
        number = _int_attr(_CMPI[predicate][0], i64)
        rhs = Index.value_of(other)
        return Scalar(
            emit("arith.cmpi", i1, self.value, rhs, predicate=number), dtype("bool")
        )

    def __lt__(self, other: Index | int) -> Scalar:
        return self._compare("lt", other)

    def __le__(self, other: Index | int) -> Scalar:
        return self._compare("le", other)

    def __gt__(self, other: Index | int) -> Scalar:
        return self._compare("gt", other)

    def __ge__(self, other: Index | int) -> Scalar:
        return self._compare("ge", other)

    def equal(self, other: Index | int) -> Scalar:
        return self._compare("eq", other)

    def to_scalar(self, type_: DType) -> Scalar:
        """Converts the index to an element type."""
        i64 = dtype("int64")
        value = emit("arith.index_cast", i64.scalar_type, self.value)
        return cast(Scalar(value, i64), type_)

    @staticmethod
    def from_scalar(scalar: Scalar) -> Index:
        """Converts a signed integer to an index."""
        wide = cast(scalar, dtype("int64"))
        return Index(emit("arith.index_cast", ir.IndexType.get(), wide.value))


def nonzero_divisor(divisor: Index, *, is_size: bool) -> Index:
    """Replaces a divisor of 0 by 1, since division by zero would trap and end the process.

    Args:
        divisor: an index of either sign.
        is_size: whether it is known not to be negative.
    """
    if is_size:
        return divisor.maximum(1)
    one, value = Index.value_of(1), divisor.value
    is_zero = divisor.equal(0).value
    return Index(emit("arith.select", value.type, is_zero, one, value))


def emit_dim(dim: Dim, sizes: Mapping[str, Index]) -> Index | int:
    """Emits a symbolic size as an index, given the values of its symbols."""
    if not isinstance(dim, Expr):
        return dim
    total: Index | int = 0
    for monomial, coefficient in dim.terms:
        term: Index | int = coefficient
        for atom in monomial:
            term = _emit_atom(atom, sizes) * term
        total = term + total
    return total


def _emit_atom(atom: Any, sizes: Mapping[str, Index]) -> Index:
    if atom.op == "symbol":
        return sizes[atom.text]
    args = [Index(Index.value_of(emit_dim(arg, sizes))) for arg in atom.args]
    if atom.op == "floordiv":
        lhs, rhs = args
        if not isinstance(atom.args[1], int):
            rhs = nonzero_divisor(rhs, is_size=is_known_le(0, atom.args[1]))
        return Index(emit("arith.floordivsi", ir.IndexType.get(), lhs.value, rhs.value))
    least = args[0]
    for arg in args[1:]:
        least = least.minimum(arg)
    return least
