"""Conversion between MLIR index arithmetic and symbolic expressions.

A value of type ``index`` computed from loop variables, iter vars and sizes becomes a
:data:`~relax_mlir.symbolic.dims.Dim`; any other value it depends on becomes a symbol.
Expressions are compared, bounded and simplified there, and emitted where they are used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from mlir import ir

from relax_mlir.analysis.index_maps import constant_of, selected_divisor
from relax_mlir.dialects.tir import attribute_names
from relax_mlir.dialects.tir.scalars import Index, emit, nonzero_divisor
from relax_mlir.errors import ScheduleError
from relax_mlir.symbolic import bounds, dims
from relax_mlir.symbolic.dims import Dim, Expr
from relax_mlir.symbolic.limits import (
    Limits,
    fold_single_values,
    simplify,
    substitute_and_simplify,
)
from relax_mlir.symbolic.monomials import Atom, Monomial, terms_of
from relax_mlir.symbolic.symbols import symbols_of
from relax_mlir.tvm.tir.schedule import tree

__all__ = [
    "Call",
    "IndexSymbols",
    "Limits",
    "contains_symbol",
    "emit_constant",
    "fold_single_values",
    "simplify",
    "substitute_and_simplify",
    "summands",
]


class IndexSymbols:
    """The symbols of the SSA values of one function.

    Attributes:
        values: the value of each symbol.
    """

    def __init__(self) -> None:
        self.values: dict[str, ir.Value] = {}
        self._names: dict[ir.Value, str] = {}

    def symbol(self, value: ir.Value) -> str:
        """The symbol of a value; the same for every call.

        Names sort by the nesting depth of the definition, so that sums have the outer loops first.
        Names of values that may be negative carry a suffix.
        """
        name = self._names.get(value)
        if name is None:
            sign = "" if self._is_never_negative(value) else bounds.SIGNED
            name = f"x{_depth(value):02}_{len(self._names):04}{sign}"
            name = _size_name(value) or name
            self._names[value] = name
            self.values[name] = value
        return name

    def _is_never_negative(self, value: ir.Value) -> bool:
        """Whether a value is a size, or a variable with a nonnegative lower bound."""
        if not isinstance(value.owner, ir.Block):
            return False
        around = value.owner.owner.operation
        if tree.is_loop(around):
            start = self.of(around.operands[0])
        elif tree.is_block(around):
            start = tree.iter_var_mins(around)[ir.BlockArgument(value).arg_number]
        else:
            return _size_name(value) is not None
        low, _ = bounds.bounds(start)
        return low is not None and low >= 0

    def of(self, value: ir.Value) -> Dim:
        """The expression of a value of type ``index``."""
        number = constant_of(value)
        if number is not None:
            return number
        owner = value.owner
        if isinstance(owner, ir.Block) or owner.name not in _EXPRESSION_OF_OP:
            return dims.symbol(self.symbol(value))
        lhs, rhs = owner.operands
        read_rhs = self._divisor if owner.name in _DIVISIONS else self.of
        return _EXPRESSION_OF_OP[owner.name](self.of(lhs), read_rhs(rhs))

    def _divisor(self, value: ir.Value) -> Dim:
        """The expression of a divisor without its guard against 0."""
        owner = value.owner
        if isinstance(owner, ir.Block):
            return self.of(value)
        if owner.name == "arith.maxsi" and constant_of(owner.operands[1]) == 1:
            size = self.of(owner.operands[0])
            return size if bounds.is_known_le(0, size) else self.of(value)
        selected = selected_divisor(value)
        return self.of(value if selected is None else selected)

    def is_size(self, dim: Dim) -> bool:
        """Whether an expression depends only on symbolic sizes of the PrimFunc."""
        return all(_size_name(self.values[name]) for name in symbols_of(dim))

    def emit(self, dim: Dim) -> ir.Value:
        """Emits an expression at the insertion point."""
        return _Emitter(self.values).value(dim)

    def add_size_symbols(self, function: ir.Operation) -> None:
        """Register the symbolic sizes in the shapes of buffers."""
        for argument in function.regions[0].blocks[0].arguments:
            if isinstance(argument.type, ir.IndexType):
                self.symbol(argument)

    def bind(self, name: str, value: ir.Value) -> None:
        """Rebind ``name`` to ``value``."""
        self.values[name] = value
        self._names[value] = name


def _depth(value: ir.Value) -> int:
    """The nesting depth of the definition of a value."""
    owner = value.owner
    op = owner.owner if isinstance(owner, ir.Block) else owner.parent
    depth = 0
    while op is not None and op.operation.name != "func.func":
        op, depth = op.operation.parent, depth + 1
    return depth


def _size_name(value: ir.Value) -> str | None:
    """The name of a symbolic-size parameter of a PrimFunc, or None."""
    owner = value.owner
    if not isinstance(owner, ir.Block) or owner.owner.operation.name != "func.func":
        return None
    attributes = owner.owner.operation.attributes
    if "arg_attrs" not in attributes:
        return None
    number = ir.BlockArgument(value).arg_number
    attrs = ir.DictAttr(ir.ArrayAttr(attributes["arg_attrs"])[number])
    return (
        ir.StringAttr(attrs[attribute_names.SYMBOL]).value
        if attribute_names.SYMBOL in attrs
        else None
    )


_EXPRESSION_OF_OP: Mapping[str, Callable[[Dim, Dim], Dim]] = {
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
    """Emits an ``index`` constant at the insertion point.

    Raises:
        ScheduleError: it does not fit 64 bits.
    """
    if not -(1 << 63) <= number < 1 << 63:
        raise ScheduleError(f"index {number}: expected one of 64 bits")
    index = ir.IndexType.get()
    return emit("arith.constant", index, value=ir.IntegerAttr.get(index, number))


class _Emitter:
    """Emits expressions as arith operations."""

    def __init__(self, values: Mapping[str, ir.Value]) -> None:
        self._values = values

    def value(self, dim: Dim) -> ir.Value:
        """Emits an expression."""
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

    def _product(self, by: int, part: Summand) -> ir.Value:
        atoms = part if isinstance(part, tuple) else (part,)
        if not atoms:
            return emit_constant(by)
        total: ir.Value | None = None
        for atom in atoms:
            value = self._atom(atom)
            total = value if total is None else self._op("arith.muli", total, value)
        assert total is not None
        return total if by == 1 else self._op("arith.muli", total, emit_constant(by))

    def _atom(self, atom: Atom | Call) -> ir.Value:
        if isinstance(atom, Atom) and atom.op == "symbol":
            return self._values[atom.text]
        call = Call.of(atom) if isinstance(atom, Atom) else atom
        lhs, *rest = map(self.value, call.args)
        for rhs, arg in zip(rest, call.args[1:], strict=True):
            if call.name in _DIVISIONS and isinstance(arg, Expr):
                is_size = bounds.is_known_le(0, arg)
                rhs = nonzero_divisor(Index(rhs), is_size=is_size).value
            lhs = self._op(call.name, lhs, rhs)
        return lhs


class Call:
    """A division, remainder or minimum within an expression."""

    def __init__(self, name: str, *args: Dim) -> None:
        self.name, self.args = name, args

    @staticmethod
    def of(atom: Atom) -> Call:
        """The call of an atom."""
        name = "arith.floordivsi" if atom.op == "floordiv" else "arith.minsi"
        return Call(name, *atom.args)


Summand = Monomial | Call


def summands(dim: Dim) -> list[tuple[int, Summand]]:
    """The summands of an expression as (coefficient, term), with remainders recovered."""
    found: list[tuple[int, Summand]] = []
    rest = dim
    for monomial, factor in terms_of(dim):
        if len(monomial) != 1:
            continue
        for match in _MATCHERS:
            matched = match(rest, monomial, factor)
            if matched is not None:
                by, call, covered = matched
                rest = rest - covered
                found.append((by, call))
                break
    plain: list[tuple[int, Summand]] = [(by, m) for m, by in terms_of(rest) if by and m]
    number = [(by, m) for m, by in terms_of(rest) if by and not m]
    return [*plain, *found, *number]


def _remainder_in(
    dim: Dim, monomial: Monomial, factor: int
) -> tuple[int, Call, Dim] | None:
    """Matches ``by * (x % k)`` in ``by * x - by * k * (x // k)``."""
    atom = monomial[0]
    if atom.op != "floordiv" or factor >= 0:
        return None
    x, k = atom.args
    if not isinstance(k, int) or factor % k or not bounds.is_known_le(0, x):
        return None
    by = -factor // k
    covered = by * dims.mod(x, k)
    if len(terms_of(dim - covered)) + len(terms_of(covered)) > len(terms_of(dim)) + 1:
        return None
    return by, Call("arith.remui", x, k), covered


def _split_in(
    dim: Dim, monomial: Monomial, factor: int
) -> tuple[int, Call, Dim] | None:
    """Matches ``by * (x % k // y)`` in the difference of two quotients."""
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
        if factor * lower == -by * k and bounds.is_known_le(0, x):
            covered = Expr.of({other: by, monomial: factor})
            return by, Call("arith.floordivsi", dims.mod(x, k), lower), covered
    return None


def _mirrored_remainder(
    dim: Dim, monomial: Monomial, factor: int
) -> tuple[int, Call, Dim] | None:
    """Matches ``by * (z % k)`` stored through the complement ``x = k - 1 - z``."""
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
    """Matches ``by * (z // k)`` stored through the quotient of the complement of ``z``."""
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


_MATCHERS = (
    _remainder_in,
    _split_in,
    _mirrored_remainder,
    _mirrored_quotient,
)


def contains_symbol(dim: Dim, names: Sequence[str]) -> bool:
    """Whether an expression contains one of the symbols."""
    return any(name in names for name in symbols_of(dim))
