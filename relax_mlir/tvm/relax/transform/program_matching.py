"""Structural matching of a tensor program's loop nests against pattern programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from relax_mlir.objects import prim
from relax_mlir.objects.prim import PrimExpr, Var
from relax_mlir.objects.stmt import statements
from relax_mlir.objects.stmt.buffer import Buffer, BufferLoad
from relax_mlir.objects.stmt.prim_func import PrimFunc

__all__ = ["MatchResult", "match_loops", "top_level_statements"]


@dataclass(frozen=True)
class MatchResult:
    """A loop nest of a program that a pattern matches.

    Attributes:
        pattern: the pattern.
        symbol_values: the values of the pattern's scalar parameters.
        matched_buffers: the buffers of the program that the pattern's buffers match.
    """

    pattern: PrimFunc
    symbol_values: tuple[PrimExpr, ...]
    matched_buffers: tuple[Buffer, ...]


def top_level_statements(body: statements.Stmt) -> list[statements.Stmt]:
    """Returns the statements of a program, in order."""
    inside = body.block.body if isinstance(body, statements.BlockRealize) else body
    return list(inside.seq) if isinstance(inside, statements.SeqStmt) else [inside]


def match_loops(
    loops: statements.Stmt, patterns: Sequence[PrimFunc]
) -> MatchResult | None:
    """Matches a loop nest around one block against patterns; returns the first match."""
    for pattern in patterns:
        reader, body = pattern.read()
        buffers = list(reader.buffer_map.values())
        scalars = [p for p in reader.params if p not in reader.buffer_map]
        expected = top_level_statements(body)
        match = _Matcher(scalars)
        if len(expected) == 1 and match.statement(loops, expected[0]):
            matched = [match.buffers.get(id(buffer)) for buffer in buffers]
            symbol_values = tuple(
                match.values.get(id(s), prim.const(0)) for s in scalars
            )
            if all(buffer is not None for buffer in matched):
                matched_buffers = tuple(
                    buffer for buffer in matched if buffer is not None
                )
                return MatchResult(pattern, symbol_values, matched_buffers)
    return None


class _Matcher:
    """The bindings of a pattern's variables and buffers to those of a program.

    Args:
        scalars: scalar parameters of the pattern; ``scalar * x`` and ``scalar + x`` also
            match ``x`` alone, with the neutral element as the scalar.
    """

    def __init__(self, scalars: Sequence[Var]) -> None:
        self._scalars = {id(var) for var in scalars}
        self.values: dict[int, PrimExpr] = {}
        self.buffers: dict[int, Buffer] = {}

    def statement(self, actual: statements.Stmt, pattern: statements.Stmt) -> bool:
        """Returns whether a statement matches one of the pattern."""
        if type(actual) is not type(pattern):
            return False
        compare = _COMPARE.get(type(actual))
        return compare is not None and compare(self, actual, pattern)

    def _loop(self, actual: statements.For, pattern: statements.For) -> bool:
        plain = all(
            loop.kind == statements.ForKind.SERIAL and not loop.annotations
            for loop in (actual, pattern)
        )
        ends = self._expr(actual.min, pattern.min) and self._expr(
            actual.extent, pattern.extent
        )
        self.values[id(pattern.loop_var)] = actual.loop_var
        return plain and ends and self.statement(actual.body, pattern.body)

    def _realize(
        self, actual: statements.BlockRealize, pattern: statements.BlockRealize
    ) -> bool:
        pairs = zip(actual.iter_values, pattern.iter_values, strict=False)
        return (
            len(actual.iter_values) == len(pattern.iter_values)
            and all(isinstance(a, Var) and self._expr(a, b) for a, b in pairs)
            and all(each.always_runs for each in (actual, pattern))
            and self.statement(actual.block, pattern.block)
        )

    def _block(self, actual: statements.Block, pattern: statements.Block) -> bool:
        if [a.iter_type for a in actual.iter_vars] != [
            a.iter_type for a in pattern.iter_vars
        ]:
            return False
        for axis, pattern_axis in zip(actual.iter_vars, pattern.iter_vars, strict=True):
            if not self._expr(axis.dom.extent, pattern_axis.dom.extent):
                return False
            self.values[id(pattern_axis.var)] = axis.var
        if actual.alloc_buffers or (actual.init is None) != (pattern.init is None):
            return False
        pairs = [(actual.body, pattern.body)]
        if actual.init is not None and pattern.init is not None:
            pairs.insert(0, (actual.init, pattern.init))
        return all(self.statement(a, b) for a, b in pairs)

    def _store(
        self, actual: statements.BufferStore, pattern: statements.BufferStore
    ) -> bool:
        return self._access(actual, pattern) and self._expr(actual.value, pattern.value)

    def _access(self, actual: Any, pattern: Any) -> bool:
        """Returns whether a load or a store accesses the same element."""
        pairs = zip(actual.indices, pattern.indices, strict=False)
        return self._buffer(actual.buffer, pattern.buffer) and all(
            self._expr(a, b) for a, b in pairs
        )

    def _buffer(self, actual: Buffer, pattern: Buffer) -> bool:
        previous = self.buffers.setdefault(id(pattern), actual)
        pairs = zip(actual.shape, pattern.shape, strict=False)
        return (
            previous is actual
            and (actual.dtype, actual.scope()) == (pattern.dtype, pattern.scope())
            and actual.ndim == pattern.ndim
            and all(self._expr(a, b) for a, b in pairs)
        )

    def _expr(self, actual: PrimExpr, pattern: PrimExpr) -> bool:
        if isinstance(pattern, Var):
            return self._variable(actual, pattern)
        if isinstance(pattern, (prim.Add, prim.Mul)):
            return self._commutative(actual, pattern)
        if isinstance(actual, BufferLoad) and isinstance(pattern, BufferLoad):
            return self._access(actual, pattern)
        operands, expected = actual.children(), pattern.children()
        if type(actual) is not type(pattern) or len(operands) != len(expected):
            return False
        if not expected or isinstance(actual, BufferLoad):
            return prim.structurally_equal(actual, pattern) or _same_number(
                actual, pattern
            )
        return _same_operation(actual, pattern) and all(
            map(self._expr, operands, expected)
        )

    def _variable(self, actual: PrimExpr, pattern: Var) -> bool:
        is_number = isinstance(actual, (prim.IntImm, prim.FloatImm))
        if id(pattern) in self._scalars and not is_number:
            return False
        previous = self.values.setdefault(id(pattern), actual)
        return previous is actual or prim.structurally_equal(previous, actual)

    def _commutative(self, actual: PrimExpr, pattern: prim.Add | prim.Mul) -> bool:
        """Matches a sum or a product, with its operands in either order."""
        tries: list[Callable[[], bool]] = []
        for scalar, other in ((pattern.a, pattern.b), (pattern.b, pattern.a)):
            if isinstance(scalar, Var) and id(scalar) in self._scalars:
                neutral = prim.const(int(isinstance(pattern, prim.Mul)), pattern.dtype)
                tries.append(
                    lambda s=scalar, o=other, n=neutral: (
                        self._expr(actual, o) and self._variable(n, s)
                    )
                )
        if type(actual) is type(pattern):
            a, b = actual.children()
            tries += [
                lambda: self._expr(a, pattern.a) and self._expr(b, pattern.b),
                lambda: self._expr(a, pattern.b) and self._expr(b, pattern.a),
            ]
        return any(map(self._try, tries))

    def _try(self, attempt: Callable[[], bool]) -> bool:
        """Returns whether an attempt succeeds; undoes its bindings if not."""
        values, buffers = dict(self.values), dict(self.buffers)
        if attempt():
            return True
        self.values, self.buffers = values, buffers
        return False


_COMPARE: dict[type, Callable[[_Matcher, Any, Any], bool]] = {
    statements.For: _Matcher._loop,
    statements.BlockRealize: _Matcher._realize,
    statements.Block: _Matcher._block,
    statements.BufferStore: _Matcher._store,
}


def _same_number(actual: PrimExpr, pattern: PrimExpr) -> bool:
    """Returns whether two integers are equal, regardless of their types."""
    if isinstance(actual, prim.IntImm) and isinstance(pattern, prim.IntImm):
        return actual.value == pattern.value
    return False


def _same_operation(actual: PrimExpr, pattern: PrimExpr) -> bool:
    """Returns whether two calls have one callee, and two casts one type."""
    if isinstance(actual, prim.Call) and isinstance(pattern, prim.Call):
        return str(actual.op) == str(pattern.op)
    return not isinstance(actual, prim.Cast) or actual.dtype == pattern.dtype
