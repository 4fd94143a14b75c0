"""Which operators of a dataflow block may write over one of their arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from relax_mlir.dialects import dim_bounds
from relax_mlir.dialects.dims import Dim
from relax_mlir.objects.expr import (
    Call,
    DataflowBlock,
    DataflowVar,
    Expr,
    Op,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
)
from relax_mlir.objects.function import Function
from relax_mlir.objects.sizes import Symbols
from relax_mlir.objects.struct_info import (
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from relax_mlir.relax.analysis.variables import all_vars, free_vars

__all__ = [
    "UNKNOWN",
    "Aliases",
    "InplaceOpportunity",
    "LiveRanges",
    "find_inplace_opportunities",
    "live_ranges",
]

UNKNOWN = -1  # a value from elsewhere
# From which binding to which; -1 is in front of the block, their number behind it.
LiveRanges: TypeAlias = dict[Var, tuple[int, int]]
Places: TypeAlias = set[int]

_SUPPORTED = frozenset(
    f"relax.{name}"
    for name in ("add", "subtract", "multiply", "divide", "nn.silu", "nn.relu")
)
# Operators that may give the memory of their first argument in another shape.
_VIEWS = frozenset(
    f"relax.{name}"
    for name in (
        *("expand_dims", "squeeze", "reshape", "permute_dims", "flatten"),
        *("nn.batch_flatten", "memory.view", "memory.ensure_zero_offset"),
    )
)


@dataclass(frozen=True)
class InplaceOpportunity:
    """A binding whose value may be written over an argument.

    Attributes:
        binding_idx: its number in the block.
        arg_idxs: the numbers of the arguments.
    """

    binding_idx: int
    arg_idxs: tuple[int, ...]


def live_ranges(block: DataflowBlock) -> LiveRanges:
    """From where to where each variable of a block is needed.

    An element of a tuple is no use of the tuple: its memory has other names.
    """
    found: LiveRanges = {}
    end = len(block.bindings)
    for number in reversed(range(end)):
        binding = block.bindings[number]
        for var in _used(binding.value):
            is_inner = isinstance(var, DataflowVar)
            found.setdefault(var, (-1, number if is_inner else end))
        var = binding.var
        last = number if isinstance(var, DataflowVar) else end
        found[var] = (number, found.get(var, (-1, last))[1])
    return found


def _used(value: Expr) -> list[Var]:
    if isinstance(value, TupleGetItem):
        return []
    return free_vars(value) if isinstance(value, Function) else all_vars(value)


class Aliases:
    """Which pieces of memory the values of a block may lie in.

    Args:
        block: the block.
        inputs: variables from in front of it that share no memory.

    Attributes:
        places: numbers of pieces, by variable; ``UNKNOWN`` among them for any other.
        tuples: of the pieces that are tuples, those of their elements.
    """

    def __init__(self, block: DataflowBlock, inputs: Sequence[Var]) -> None:
        self.places: dict[Var, Places] = {}
        self.tuples: dict[int, list[Places]] = {}
        self._count = 0
        for var in inputs:
            self.places[var] = self._fresh(var.struct_info_or_none())
        for binding in block.bindings:
            self.places[binding.var] = self._of(binding.value, binding.var)

    def of(self, expr: Expr) -> Places:
        """The pieces of an argument."""
        unknown = {UNKNOWN}
        return self.places.get(expr, unknown) if isinstance(expr, Var) else unknown

    def _fresh(self, info: StructInfo | None) -> Places:
        """A piece that nothing else lies in; so are the elements of a tuple."""
        number = self._count
        self._count += 1
        if isinstance(info, TupleStructInfo):
            self.tuples[number] = [self._fresh(field) for field in info.fields]
        return {number}

    def _of(self, value: Expr, var: Var) -> Places:
        if isinstance(value, Var):
            return set(self.of(value))
        if isinstance(value, Tuple):
            whole = self._fresh(None)
            fields = [self._of(field, var) for field in value.fields]
            self.tuples.update(dict.fromkeys(whole, fields))
            return whole
        if isinstance(value, TupleGetItem):
            return self._element(value)
        if isinstance(value, Call):
            return self._of_call(value, var)
        return self._fresh(None)

    def _element(self, item: TupleGetItem) -> Places:
        whole = self.of(item.tuple_value)
        if UNKNOWN in whole:
            return {UNKNOWN}
        tuples = [self.tuples[n] for n in whole if n in self.tuples]
        return {n for t in tuples if item.index < len(t) for n in t[item.index]}

    def _of_call(self, call: Call, var: Var) -> Places:
        name = call.op.name if isinstance(call.op, Op) else None
        if name is None:
            return self._of_unknown(call.args, var)
        if name == "relax.call_pure_packed":
            return self._of_unknown(call.args[1:], var)
        if name in _VIEWS and call.args:
            return self._of(call.args[0], var)
        return self._fresh(var.struct_info_or_none())

    def _of_unknown(self, args: Sequence[Expr], var: Var) -> Places:
        """What a function gives: new memory, or that of any argument."""
        (new,) = self._fresh(var.struct_info_or_none())
        given = [n for arg in args for n in self._of(arg, var)]
        found = {n for place in (new, *given) for n in self._reached(place)}
        self._widen(new, found)
        return found

    def _reached(self, place: int) -> Iterator[int]:
        yield place
        for field in self.tuples.get(place, ()):
            for inner in field:
                yield from self._reached(inner)

    def _widen(self, place: int, more: Places) -> None:
        """Let the elements of a tuple lie in more pieces."""
        for field in self.tuples.get(place, ()):
            for inner in field:
                self._widen(inner, more)
            field |= more

    def all_of(self, expr: Expr) -> Places:
        """The pieces of an argument and of what it is made of."""
        return {n for place in self.of(expr) for n in self._reached(place)}


def find_inplace_opportunities(
    block: DataflowBlock, inputs: Sequence[Var]
) -> tuple[list[InplaceOpportunity], list[InplaceOpportunity]]:
    """The bindings whose value may be written over an argument that nothing needs later.

    Args:
        block: the block.
        inputs: variables from in front of it that share no memory, and may be written to.

    Returns:
        Those with arguments that are large enough; and those with arguments of the very
        shape.
    """
    found = _Finding(block, inputs)
    large, exact = found.all(_is_large_enough), found.all(_has_same_shape)
    return large, exact


Fits: TypeAlias = Callable[[TensorStructInfo, TensorStructInfo], bool]


class _Finding:
    def __init__(self, block: DataflowBlock, inputs: Sequence[Var]) -> None:
        self.block = block
        self.ranges: Mapping[Var, tuple[int, int]] = live_ranges(block)
        self.aliases = Aliases(block, inputs)

    def all(self, fits: Fits) -> list[InplaceOpportunity]:
        """The bindings with an argument that fits and may be written over."""
        listed: list[InplaceOpportunity] = []
        for number, binding in enumerate(self.block.bindings):
            call, info = binding.value, binding.var.struct_info_or_none()
            if not isinstance(call, Call) or not isinstance(call.op, Op):
                continue
            if call.op.name not in _SUPPORTED or not isinstance(info, TensorStructInfo):
                continue
            args = [
                n
                for n, arg in enumerate(call.args)
                if _fits(info, arg.struct_info_or_none(), fits)
                and self._is_free(arg, number)
                and self._is_alone(call, n)
            ]
            if args:
                listed.append(InplaceOpportunity(number, tuple(args)))
        return listed

    def _is_free(self, arg: Expr, number: int) -> bool:
        """Whether nothing behind a binding needs the memory of an argument."""
        if not isinstance(arg, Var):
            return False
        places = self.aliases.all_of(arg)
        if UNKNOWN in places or self._end(arg) > number:
            return False
        return not any(
            start <= number < end and places & self.aliases.of(other)
            for other, (start, end) in self.ranges.items()
        )

    def _end(self, var: Var) -> int:
        return self.ranges.get(var, (-1, -1))[1]

    def _is_alone(self, call: Call, number: int) -> bool:
        """Whether no other value that a call reads shares memory with an argument."""
        arg = call.args[number]
        others = [other for other in call.args if other is not arg]
        places = self.aliases.of(arg)
        return not any(places & self.aliases.of(other) for other in others)


def _fits(info: TensorStructInfo, arg: StructInfo | None, fits: Fits) -> bool:
    if not isinstance(arg, TensorStructInfo) or arg.dtype != info.dtype:
        return False
    known = isinstance(arg.shape, ShapeExpr) and isinstance(info.shape, ShapeExpr)
    return known and info.dtype not in ("", "void") and fits(info, arg)


def _both_sizes(
    info: TensorStructInfo, arg: TensorStructInfo
) -> tuple[tuple[Dim, ...], tuple[Dim, ...]]:
    symbols = Symbols()
    assert isinstance(info.shape, ShapeExpr)
    assert isinstance(arg.shape, ShapeExpr)
    return tuple(symbols.dims(info.shape.values)), tuple(symbols.dims(arg.shape.values))


def _has_same_shape(info: TensorStructInfo, arg: TensorStructInfo) -> bool:
    sizes, given = _both_sizes(info, arg)
    return sizes == given


def _is_large_enough(info: TensorStructInfo, arg: TensorStructInfo) -> bool:
    sizes, given = _both_sizes(info, arg)
    return dim_bounds.is_known_le(prod(sizes), prod(given))
