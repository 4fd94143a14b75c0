"""Values inside a tensor program: scalars and indices with Python's operators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlir import ir

from relax_mlir.dialects.dim_bounds import is_known_le
from relax_mlir.dialects.dtypes import DType, dtype
from relax_mlir.dialects.shapes import Dim, Expr

__all__ = [
    "Index",
    "Scalar",
    "bitcast",
    "cast",
    "constant",
    "emit_dim",
    "from_memory",
    "function",
    "limits_of",
    "nonzero_divisor",
    "select",
    "to_memory",
]

# arith.cmpi and arith.cmpf predicate numbers.
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
    """Build one operation with one result at the insertion point."""
    op = ir.Operation.create(
        name, results=[type_], operands=list(operands), attributes=attributes
    )
    return op.results[0]


def _int_attr(value: int, type_: ir.Type) -> ir.IntegerAttr:
    return ir.IntegerAttr.get(type_, value)


class Scalar:
    """A value of one element type.

    Arithmetic needs equal types; a Python number takes the type of the other side.
    Integer division truncates, never traps: dividing by zero gives zero.
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
        """The remainder with the sign of the dividend (C's ``fmod`` and ``%``)."""
        rhs = self._same(other)
        if self.dtype.is_float:
            return Scalar(
                emit("arith.remf", self.value.type, self.value, rhs.value), self.dtype
            )
        return self._divide_integers(rhs, "arith.remsi", "arith.remui")

    def _divide_integers(self, rhs: Scalar, signed: str, unsigned: str) -> Scalar:
        """Division that cannot trap: x/0 is 0, and INT_MIN/-1 wraps."""
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
        """Bits moved up; 0 where the distance is negative, or the width and more."""
        return self._shift("arith.shli", other, constant(0, self.dtype))

    def __rshift__(self, other: Scalar | float) -> Scalar:
        """Bits moved down, behind copies of the sign; as if the width were unbounded."""
        if self.dtype.kind != "i":
            return self._shift("arith.shrui", other, constant(0, self.dtype))
        top = constant(self.dtype.bits - 1, self.dtype)
        signs = Scalar(
            emit("arith.shrsi", self.value.type, self.value, top.value), self.dtype
        )
        return self._shift("arith.shrsi", other, signs)

    def _shift(self, name: str, other: Scalar | float, beyond: Scalar) -> Scalar:
        """A shift that is defined for all distances; MLIR's is not from the width on."""
        distance = self._same(other)
        bits = constant(self.dtype.bits, self.dtype)
        unsigned = self.dtype.unsigned
        is_short = Scalar(distance.value, unsigned) < Scalar(bits.value, unsigned)
        safe = select(is_short, distance, constant(0, self.dtype))
        value = emit(name, self.value.type, self.value, safe.value)
        return select(is_short, Scalar(value, self.dtype), beyond)

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
        truth = dtype("bool").with_lanes_of(self.dtype)
        attr = _int_attr(number, i64)
        value = emit(name, truth.scalar_type, self.value, rhs.value, predicate=attr)
        return Scalar(value, truth)

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
        """The larger one; NaN if either is; of two zeros any."""
        if self.dtype.is_float:
            return self._extreme("arith.maximumf", other)
        return self._binary({"i": "arith.maxsi", "u": "arith.maxui"}, other)

    def minimum(self, other: Scalar | float) -> Scalar:
        """The smaller one; NaN if either is; of two zeros any."""
        if self.dtype.is_float:
            return self._extreme("arith.minimumf", other)
        return self._binary({"i": "arith.minsi", "u": "arith.minui"}, other)

    def _extreme(self, name: str, other: Scalar | float) -> Scalar:
        """Without the order of zeros, which takes x86 more work than the rest."""
        flags = ir.Attribute.parse("#arith.fastmath<nsz>")
        rhs = self._same(other)
        value = emit(name, self.value.type, self.value, rhs.value, fastmath=flags)
        return Scalar(value, self.dtype)


def constant(value: float, type_: DType) -> Scalar:
    """A number of an element type; of a vector type, in every lane."""
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
    """``then`` where ``condition`` holds, else ``otherwise``."""
    value = emit(
        "arith.select", then.value.type, condition.value, then.value, otherwise.value
    )
    return Scalar(value, then.dtype)


def function(name: str, *operands: Scalar) -> Scalar:
    """A function whose result has the type of its operands, such as ``math.exp``."""
    first = operands[0]
    value = emit(name, first.value.type, *(o.value for o in operands))
    return Scalar(value, first.dtype)


def cast(operand: Scalar, type_: DType) -> Scalar:
    """Convert to another type.

    Floats to integers truncate; out of range they saturate at the limits of the type, and
    NaN becomes the lowest. To integers of less than a byte they go by way of int32, of
    which the low bits remain. Anything to bool tests for zero. Floats of a byte and less
    are converted from and to float32.
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
    """A float as another one, or as an integer."""
    if type_.is_float:
        return _resize_float(operand, type_)
    if type_.is_padded:
        return cast(_truncate(operand, _INT32.with_lanes_of(type_)), type_)
    return _truncate(operand, type_)


def from_memory(loaded: ir.Value, type_: DType) -> Scalar:
    """What a load from a buffer of a type gives."""
    if not type_.is_padded:
        return Scalar(loaded, type_)
    if type_.kind == "b":
        # Callers bring any bytes: whatever is not 0 is true, as for numpy.
        return Scalar(loaded, dtype("int8").with_lanes_of(type_)).not_equal(0)
    bits = emit("arith.trunci", type_.bits_type, loaded)
    return bitcast(Scalar(bits, type_), type_)


def to_memory(value: ir.Value, type_: DType) -> ir.Value:
    """What a buffer of a type stores for a value."""
    if not type_.is_padded:
        return value
    if type_.is_float:
        value = emit("arith.bitcast", type_.bits_type, value)
    return emit("arith.extui", type_.buffer_type, value)


def bitcast(operand: Scalar, type_: DType) -> Scalar:
    """The same bits as a number of another type of that width."""
    if operand.value.type == type_.scalar_type:
        return Scalar(operand.value, type_)
    return Scalar(emit("arith.bitcast", type_.scalar_type, operand.value), type_)


def _truncate(operand: Scalar, type_: DType) -> Scalar:
    """A float as an integer: truncated, saturated at the limits of the type; NaN the lowest.

    ``arith.fptosi`` is undefined out of range, so its operand is clamped to the integers
    that the float type has. Where these end below the limit of the type, as 2^31 - 128 of
    f32 for i32, a select puts in the limit. Comparisons that are false for NaN make two
    instructions of a clamp on x86.
    """
    if operand.dtype.bits < 32:
        operand = _resize_float(operand, _float32_like(operand))
    low, high = (constant(v, operand.dtype) for v in limits_of(operand.dtype, type_))
    clamped = select(operand > low, operand, low)
    clamped = select(clamped < high, clamped, high)
    name = "arith.fptosi" if type_.kind == "i" else "arith.fptoui"
    truncated = Scalar(emit(name, type_.scalar_type, clamped.value), type_)
    if _value_bits(type_) <= _DIGITS[operand.dtype.bits]:
        return truncated
    greatest = constant(2 ** _value_bits(type_) - 1, type_)
    return select(operand > high, greatest, truncated)


def limits_of(source: DType, target: DType) -> tuple[float, float]:
    """The least and the greatest integer of ``target`` that ``source`` has too."""
    bits = _value_bits(target)
    high = 2**bits - 2 ** max(0, bits - _DIGITS[source.bits])
    return -(2.0**bits) if target.kind == "i" else 0.0, float(high)


_DIGITS = {32: 24, 64: 53}  # of the significands of f32 and f64


def _value_bits(type_: DType) -> int:
    """Bits of an integer type without the sign."""
    return type_.bits - (type_.kind == "i")


def _resize_float(operand: Scalar, type_: DType) -> Scalar:
    """Between float types; f16 and bf16 meet in f32."""
    if operand.dtype.bits == type_.bits:
        return _resize_float(cast(operand, _float32_like(operand)), type_)
    name = "arith.truncf" if operand.dtype.bits > type_.bits else "arith.extf"
    return Scalar(emit(name, type_.scalar_type, operand.value), type_)


def _float32_like(operand: Scalar) -> DType:
    return dtype("float32").with_lanes_of(operand.dtype)


_INT32 = dtype("int32")


class Index:
    """An ``index`` value with Python's operators; combinations of ints stay ints.

    ``//`` and ``%`` are for values that are never negative.
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
        """The index as a number of an element type."""
        i64 = dtype("int64")
        value = emit("arith.index_cast", i64.scalar_type, self.value)
        return cast(Scalar(value, i64), type_)

    @staticmethod
    def from_scalar(scalar: Scalar) -> Index:
        """A signed integer as an index."""
        wide = cast(scalar, dtype("int64"))
        return Index(emit("arith.index_cast", ir.IndexType.get(), wide.value))


def nonzero_divisor(divisor: Index, *, is_size: bool) -> Index:
    """A divisor, or 1 in place of 0: to divide by 0 would end the process.

    Args:
        divisor: an index of either sign.
        is_size: whether it is surely not negative.
    """
    if is_size:
        return divisor.maximum(1)
    one, value = Index.value_of(1), divisor.value
    is_zero = divisor.equal(0).value
    return Index(emit("arith.select", value.type, is_zero, one, value))


def emit_dim(dim: Dim, sizes: Mapping[str, Index]) -> Index | int:
    """A symbolic size as an index, from the values of its symbols."""
    if not isinstance(dim, Expr):
        return dim
    total: Index | int = 0
    for monomial, factor in dim.terms:
        term: Index | int = factor
        for atom in monomial:
            term = _emit_atom(atom, sizes) * term
        total = term + total
    return total


def _emit_atom(atom: Any, sizes: Mapping[str, Index]) -> Index:
    if atom.op == "symbol":
        return sizes[atom.text]
    parts = [Index(Index.value_of(emit_dim(arg, sizes))) for arg in atom.args]
    if atom.op == "floordiv":
        lhs, rhs = parts
        if not isinstance(atom.args[1], int):
            rhs = nonzero_divisor(rhs, is_size=is_known_le(0, atom.args[1]))
        return Index(emit("arith.floordivsi", ir.IndexType.get(), lhs.value, rhs.value))
    least = parts[0]
    for part in parts[1:]:
        least = least.minimum(part)
    return least
