"""Index arithmetic as exact expressions, and back.

A value of type ``index`` that is made of loop variables, axes of blocks and sizes is read
as a :data:`~relax_mlir.dialects.dims.Dim`: whatever else it depends on is one more symbol.
Expressions are compared, bounded and simplified there, and written where they are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from mlir import ir

from relax_mlir.dialects import dim_bounds, dims
from relax_mlir.dialects.dim_limits import Limits, replaced, simplify, without_units
from relax_mlir.dialects.dims import Dim, Expr
from relax_mlir.dialects.monomials import Atom, Monomial, terms_of
from relax_mlir.dialects.symbols import symbols_of
from relax_mlir.dialects.tir import marks
from relax_mlir.dialects.tir.scalars import Index, emit, nonzero_divisor
from relax_mlir.indexing import constant_of, selected_divisor
from relax_mlir.tir.schedule import tree

__all__ = [
    "Call",
    "Indices",
    "Limits",
    "emit_constant",
    "mentions",
    "replaced",
    "simplify",
    "summands",
    "without_units",
]


class Indices:
    """The symbols that stand for the values of one function.

    Attributes:
        values: what each symbol stands for.
    """

    def __init__(self) -> None:
        self.values: dict[str, ir.Value] = {}
        self._names: dict[ir.Value, str] = {}

    def symbol(self, value: ir.Value) -> str:
        """The name that stands for a value, the same each time.

        Names sort by the depth at which values are defined, so that sums are written with
        the outer loops first. Those of values that may be negative say so.
        """
        name = self._names.get(value)
        if name is None:
            sign = "" if self._is_never_negative(value) else dim_bounds.SIGNED
            name = f"x{_depth(value):02}_{len(self._names):04}{sign}"
            name = _size_name(value) or name
            self._names[value] = name
            self.values[name] = value
        return name

    def _is_never_negative(self, value: ir.Value) -> bool:
        """Whether a value is a size, or counts from 0 or more on."""
        if not isinstance(value.owner, ir.Block):
            return False
        around = value.owner.owner.operation
        if tree.is_loop(around):
            start = self.of(around.operands[0])
        elif tree.is_block(around):
            start = tree.axis_starts(around)[ir.BlockArgument(value).arg_number]
        else:
            return _size_name(value) is not None
        low, _ = dim_bounds.bounds(start)
        return low is not None and low >= 0

    def of(self, value: ir.Value) -> Dim:
        """A value of type ``index`` as an expression."""
        number = constant_of(value)
        if number is not None:
            return number
        owner = value.owner
        if isinstance(owner, ir.Block) or owner.name not in _READERS:
            return dims.symbol(self.symbol(value))
        lhs, rhs = owner.operands
        read = self._divisor if owner.name in _DIVISIONS else self.of
        return _READERS[owner.name](self.of(lhs), read(rhs))

    def _divisor(self, value: ir.Value) -> Dim:
        """A divisor without what keeps it from being 0."""
        owner = value.owner
        if isinstance(owner, ir.Block):
            return self.of(value)
        if owner.name == "arith.maxsi" and constant_of(owner.operands[1]) == 1:
            size = self.of(owner.operands[0])
            return size if dim_bounds.is_known_le(0, size) else self.of(value)
        selected = selected_divisor(value)
        return self.of(value if selected is None else selected)

    def is_size(self, dim: Dim) -> bool:
        """Whether an expression depends on sizes of the program alone."""
        return all(_size_name(self.values[name]) for name in symbols_of(dim))

    def emit(self, dim: Dim) -> ir.Value:
        """The operations that compute an expression, at the insertion point."""
        return _Emitter(self.values).value(dim)

    def add_sizes(self, function: ir.Operation) -> None:
        """Learn what the sizes are that shapes of buffers mention."""
        for argument in function.regions[0].blocks[0].arguments:
            if isinstance(argument.type, ir.IndexType):
                self.symbol(argument)

    def refer(self, name: str, value: ir.Value) -> None:
        """From now on ``name`` stands for ``value``."""
        self.values[name] = value
        self._names[value] = name


def _depth(value: ir.Value) -> int:
    """How many operations are around a value."""
    owner = value.owner
    op = owner.owner if isinstance(owner, ir.Block) else owner.parent
    depth = 0
    while op is not None and op.operation.name != "func.func":
        op, depth = op.operation.parent, depth + 1
    return depth


def _size_name(value: ir.Value) -> str | None:
    """What an argument of a program is called that is a size."""
    owner = value.owner
    if not isinstance(owner, ir.Block) or owner.owner.operation.name != "func.func":
        return None
    attributes = owner.owner.operation.attributes
    if "arg_attrs" not in attributes:
        return None
    number = ir.BlockArgument(value).arg_number
    said = ir.DictAttr(ir.ArrayAttr(attributes["arg_attrs"])[number])
    return ir.StringAttr(said[marks.SYMBOL]).value if marks.SYMBOL in said else None


_READERS: Mapping[str, Callable[[Dim, Dim], Dim]] = {
    "arith.addi": lambda a, b: a + b,
    "arith.subi": lambda a, b: a - b,
    "arith.muli": lambda a, b: a * b,
    "arith.floordivsi": dims.floordiv,
    "arith.divui": dims.floordiv,
    "arith.remui": dims.mod,
    "arith.minsi": dims.minimum,
    "arith.maxsi": dims.maximum,
}
_DIVISIONS = ("arith.floordivsi", "arith.divui", "arith.remui")


def emit_constant(number: int) -> ir.Value:
    """A number of type ``index``, at the insertion point."""
    index = ir.IndexType.get()
    return emit("arith.constant", index, value=ir.IntegerAttr.get(index, number))


class _Emitter:
    """Writes expressions."""

    def __init__(self, values: Mapping[str, ir.Value]) -> None:
        self._values = values

    def value(self, dim: Dim) -> ir.Value:
        """An expression as a value."""
        parts = summands(dim)
        positive = [(by, part) for by, part in parts if by > 0]
        negative = [(-by, part) for by, part in parts if by < 0]
        total: ir.Value | None = None
        for by, part in positive:
            term = self._product(by, part)
            total = term if total is None else self._op("arith.addi", total, term)
        if total is None:
            total = emit_constant(0 if negative or not parts else parts[0][0])
        for by, part in negative:
            total = self._op("arith.subi", total, self._product(by, part))
        return total

    def _op(self, name: str, lhs: ir.Value, rhs: ir.Value) -> ir.Value:
        return emit(name, ir.IndexType.get(), lhs, rhs)

    def _product(self, by: int, part: Part) -> ir.Value:
        factors = part if isinstance(part, tuple) else (part,)
        if not factors:
            return emit_constant(by)
        total: ir.Value | None = None
        for factor in factors:
            value = self._factor(factor)
            total = value if total is None else self._op("arith.muli", total, value)
        assert total is not None
        return total if by == 1 else self._op("arith.muli", total, emit_constant(by))

    def _factor(self, factor: Atom | Call) -> ir.Value:
        if isinstance(factor, Atom) and factor.op == "symbol":
            return self._values[factor.text]
        call = Call.of(factor) if isinstance(factor, Atom) else factor
        lhs, *rest = map(self.value, call.args)
        for rhs, arg in zip(rest, call.args[1:], strict=True):
            if call.name in _DIVISIONS and isinstance(arg, Expr):
                is_size = dim_bounds.is_known_le(0, arg)
                rhs = nonzero_divisor(Index(rhs), is_size=is_size).value
            lhs = self._op(call.name, lhs, rhs)
        return lhs


class Call:
    """An operation that is not a sum or a product."""

    def __init__(self, name: str, *args: Dim) -> None:
        self.name, self.args = name, args

    @staticmethod
    def of(atom: Atom) -> Call:
        """The call that an atom is."""
        name = "arith.floordivsi" if atom.op == "floordiv" else "arith.minsi"
        return Call(name, *atom.args)


Part = Monomial | Call


def summands(dim: Dim) -> list[tuple[int, Part]]:
    """A sum in which remainders are seen again, as factors and parts."""
    found: list[tuple[int, Part]] = []
    rest = dim
    for monomial, factor in terms_of(dim):
        if len(monomial) != 1:
            continue
        for recognise in _RECOGNISED:
            taken = recognise(rest, monomial, factor)
            if taken is not None:
                by, call, covered = taken
                rest = rest - covered
                found.append((by, call))
                break
    plain: list[tuple[int, Part]] = [(by, m) for m, by in terms_of(rest) if by and m]
    number = [(by, m) for m, by in terms_of(rest) if by and not m]
    return [*plain, *found, *number]


def _remainder_in(
    dim: Dim, monomial: Monomial, factor: int
) -> tuple[int, Call, Dim] | None:
    """``by * (x % k)`` where ``dim`` holds ``by * x - by * k * (x // k)``."""
    atom = monomial[0]
    if atom.op != "floordiv" or factor >= 0:
        return None
    x, k = atom.args
    if not isinstance(k, int) or factor % k or not dim_bounds.is_known_le(0, x):
        return None
    by = -factor // k
    covered = by * dims.mod(x, k)
    if len(terms_of(dim - covered)) + len(terms_of(covered)) > len(terms_of(dim)) + 1:
        return None
    return by, Call("arith.remui", x, k), covered


def _digit_in(
    dim: Dim, monomial: Monomial, factor: int
) -> tuple[int, Call, Dim] | None:
    """``by * (x % k // y)`` where ``dim`` holds the two quotients that it is made of."""
    atom = monomial[0]
    if atom.op != "floordiv" or not isinstance(atom.args[1], int) or factor >= 0:
        return None
    x, k = atom.args
    for other, by in terms_of(dim):
        if len(other) != 1 or by <= 0 or other[0].op != "floordiv":
            continue
        lower = other[0].args[1]
        if other[0].args[0] != x or not isinstance(lower, int) or k % lower:
            continue
        if factor * lower == -by * k and dim_bounds.is_known_le(0, x):
            covered = Expr.of({other: by, monomial: factor})
            return by, Call("arith.floordivsi", dims.mod(x, k), lower), covered
    return None


def _mirrored_remainder(
    dim: Dim, monomial: Monomial, factor: int
) -> tuple[int, Call, Dim] | None:
    """``by * (z % k)`` that is kept by what ``z`` lacks to a multiple of ``k``."""
    atom = monomial[0]
    if atom.op != "floordiv" or factor <= 0:
        return None
    x, k = atom.args
    if not isinstance(k, int) or factor % k:
        return None
    by = factor // k
    covered = by * (k * dims.floordiv(x, k) - x + (k - 1))
    if len(terms_of(dim - covered)) + len(terms_of(covered)) > len(terms_of(dim)) + 1:
        return None
    rest = Expr.of({m: c % k for m, c in terms_of(k - 1 - x)})
    return by, Call("arith.remui", rest, k), covered


def _mirrored_quotient(
    dim: Dim, monomial: Monomial, factor: int
) -> tuple[int, Call, Dim] | None:
    """``by * (z // k)`` that is kept as a sum less the quotient of its complement."""
    atom = monomial[0]
    if atom.op != "floordiv" or factor >= 0 or not isinstance(atom.args[1], int):
        return None
    x, k = atom.args
    by, known = -factor, dict(terms_of(dim))
    taken = {m: by for m, c in terms_of(x) if m and c > 0}
    if not taken or any(known.get(m, 0) < count for m, count in taken.items()):
        return None
    ones = Expr.of(dict.fromkeys(taken, 1))
    covered = by * ones + Expr.of({monomial: factor})
    return by, Call("arith.floordivsi", k - 1 - x + k * ones, k), covered


_RECOGNISED = (
    _remainder_in,
    _digit_in,
    _mirrored_remainder,
    _mirrored_quotient,
)


def mentions(dim: Dim, names: Sequence[str]) -> bool:
    """Whether an expression depends on one of these symbols."""
    return any(name in names for name in symbols_of(dim))
