"""Comparing the loops of a tensor program with those of a pattern."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from relax_mlir.objects import prim, stmt
from relax_mlir.objects.buffer import Buffer, BufferLoad
from relax_mlir.objects.prim import PrimExpr, Var
from relax_mlir.objects.prim_func import PrimFunc

__all__ = ["MatchResult", "match_loops", "statements_of"]


@dataclass(frozen=True)
class MatchResult:
    """Loops of a program that a pattern describes.

    Attributes:
        pattern: the pattern.
        symbol_values: the numbers that its parameters are that are no buffers.
        matched_buffers: the buffers of the program that its buffers are.
    """

    pattern: PrimFunc
    symbol_values: tuple[PrimExpr, ...]
    matched_buffers: tuple[Buffer, ...]


def statements_of(body: stmt.Stmt) -> list[stmt.Stmt]:
    """The statements of a program, one after the other."""
    inside = body.block.body if isinstance(body, stmt.BlockRealize) else body
    return list(inside.seq) if isinstance(inside, stmt.SeqStmt) else [inside]


def match_loops(loops: stmt.Stmt, patterns: Sequence[PrimFunc]) -> MatchResult | None:
    """The first of the patterns that describes a nest of loops around one block."""
    for pattern in patterns:
        reader, body = pattern.read()
        buffers = list(reader.buffer_map.values())
        scalars = [p for p in reader.params if p not in reader.buffer_map]
        wanted = statements_of(body)
        match = _Match(scalars)
        if len(wanted) == 1 and match.statement(loops, wanted[0]):
            found = [match.buffers.get(id(buffer)) for buffer in buffers]
            numbers = tuple(match.values.get(id(s), prim.const(0)) for s in scalars)
            if all(buffer is not None for buffer in found):
                kept = tuple(buffer for buffer in found if buffer is not None)
                return MatchResult(pattern, numbers, kept)
    return None


class _Match:
    """What the variables and buffers of a pattern are in a program.

    Args:
        scalars: variables of the pattern that are numbers; a product or a sum of one and
            something else is also something else alone.
    """

    def __init__(self, scalars: Sequence[Var]) -> None:
        self._scalars = {id(var) for var in scalars}
        self.values: dict[int, PrimExpr] = {}
        self.buffers: dict[int, Buffer] = {}

    def statement(self, mine: stmt.Stmt, theirs: stmt.Stmt) -> bool:
        """Whether a statement is what the pattern says."""
        if type(mine) is not type(theirs):
            return False
        compare = _COMPARE.get(type(mine))
        return compare is not None and compare(self, mine, theirs)

    def _loop(self, mine: stmt.For, theirs: stmt.For) -> bool:
        plain = all(
            loop.kind == stmt.ForKind.SERIAL and not loop.annotations
            for loop in (mine, theirs)
        )
        ends = self._term(mine.min, theirs.min) and self._term(
            mine.extent, theirs.extent
        )
        self.values[id(theirs.loop_var)] = mine.loop_var
        return plain and ends and self.statement(mine.body, theirs.body)

    def _realize(self, mine: stmt.BlockRealize, theirs: stmt.BlockRealize) -> bool:
        pairs = zip(mine.iter_values, theirs.iter_values, strict=False)
        return (
            len(mine.iter_values) == len(theirs.iter_values)
            and all(isinstance(a, Var) and self._term(a, b) for a, b in pairs)
            and all(each.always_runs for each in (mine, theirs))
            and self.statement(mine.block, theirs.block)
        )

    def _block(self, mine: stmt.Block, theirs: stmt.Block) -> bool:
        if [a.iter_type for a in mine.iter_vars] != [
            a.iter_type for a in theirs.iter_vars
        ]:
            return False
        for axis, their in zip(mine.iter_vars, theirs.iter_vars, strict=True):
            if not self._term(axis.dom.extent, their.dom.extent):
                return False
            self.values[id(their.var)] = axis.var
        if mine.alloc_buffers or (mine.init is None) != (theirs.init is None):
            return False
        pairs = [(mine.body, theirs.body)]
        if mine.init is not None and theirs.init is not None:
            pairs.insert(0, (mine.init, theirs.init))
        return all(self.statement(ours, wanted) for ours, wanted in pairs)

    def _store(self, mine: stmt.BufferStore, theirs: stmt.BufferStore) -> bool:
        return self._access(mine, theirs) and self._term(mine.value, theirs.value)

    def _access(self, mine: Any, theirs: Any) -> bool:
        """Whether a load or a store is of the same element."""
        pairs = zip(mine.indices, theirs.indices, strict=False)
        return self._buffer(mine.buffer, theirs.buffer) and all(
            self._term(a, b) for a, b in pairs
        )

    def _buffer(self, mine: Buffer, theirs: Buffer) -> bool:
        known = self.buffers.setdefault(id(theirs), mine)
        pairs = zip(mine.shape, theirs.shape, strict=False)
        return (
            known is mine
            and (mine.dtype, mine.scope()) == (theirs.dtype, theirs.scope())
            and mine.ndim == theirs.ndim
            and all(self._term(a, b) for a, b in pairs)
        )

    def _term(self, mine: PrimExpr, theirs: PrimExpr) -> bool:
        if isinstance(theirs, Var):
            return self._variable(mine, theirs)
        if isinstance(theirs, (prim.Add, prim.Mul)):
            return self._commutative(mine, theirs)
        if isinstance(mine, BufferLoad) and isinstance(theirs, BufferLoad):
            return self._access(mine, theirs)
        inner, wanted = mine.children(), theirs.children()
        if type(mine) is not type(theirs) or len(inner) != len(wanted):
            return False
        if not wanted or isinstance(mine, BufferLoad):
            return prim.structurally_equal(mine, theirs) or _same_number(mine, theirs)
        return _same_kind(mine, theirs) and all(map(self._term, inner, wanted))

    def _variable(self, mine: PrimExpr, theirs: Var) -> bool:
        is_number = isinstance(mine, (prim.IntImm, prim.FloatImm))
        if id(theirs) in self._scalars and not is_number:
            return False
        known = self.values.setdefault(id(theirs), mine)
        return known is mine or prim.structurally_equal(known, mine)

    def _commutative(self, mine: PrimExpr, theirs: prim.Add | prim.Mul) -> bool:
        """A sum or a product; the operands may stand the other way round."""
        tries: list[Callable[[], bool]] = []
        for scalar, other in ((theirs.a, theirs.b), (theirs.b, theirs.a)):
            if isinstance(scalar, Var) and id(scalar) in self._scalars:
                neutral = prim.const(int(isinstance(theirs, prim.Mul)), theirs.dtype)
                tries.append(
                    lambda s=scalar, o=other, n=neutral: (
                        self._term(mine, o) and self._variable(n, s)
                    )
                )
        if type(mine) is type(theirs):
            a, b = mine.children()
            tries += [
                lambda: self._term(a, theirs.a) and self._term(b, theirs.b),
                lambda: self._term(a, theirs.b) and self._term(b, theirs.a),
            ]
        return any(map(self._tried, tries))

    def _tried(self, attempt: Callable[[], bool]) -> bool:
        """Whether an attempt succeeds; what it learned is forgotten if it does not."""
        values, buffers = dict(self.values), dict(self.buffers)
        if attempt():
            return True
        self.values, self.buffers = values, buffers
        return False


_COMPARE: dict[type, Callable[[_Match, Any, Any], bool]] = {
    stmt.For: _Match._loop,
    stmt.BlockRealize: _Match._realize,
    stmt.Block: _Match._block,
    stmt.BufferStore: _Match._store,
}


def _same_number(mine: PrimExpr, theirs: PrimExpr) -> bool:
    """Whether two numbers are the same, of whatever integer type."""
    if isinstance(mine, prim.IntImm) and isinstance(theirs, prim.IntImm):
        return mine.value == theirs.value
    return False


def _same_kind(mine: PrimExpr, theirs: PrimExpr) -> bool:
    """Whether two calls are of one function, and two casts to one type."""
    if isinstance(mine, prim.Call) and isinstance(theirs, prim.Call):
        return str(mine.op) == str(theirs.op)
    return not isinstance(mine, prim.Cast) or mine.dtype == theirs.dtype
