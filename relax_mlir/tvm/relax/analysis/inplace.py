"""In-place analysis of dataflow blocks: liveness, aliases, operands that may be overwritten."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

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
from relax_mlir.objects.expr.struct_info import (
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from relax_mlir.objects.free_variables import all_vars, free_vars
from relax_mlir.objects.function import Function
from relax_mlir.objects.prim.symbolic_sizes import Symbols
from relax_mlir.symbolic import bounds
from relax_mlir.symbolic.dims import Dim

__all__ = [
    "UNKNOWN_LOCATION",
    "AliasAnalysis",
    "InplaceOpportunity",
    "LiveRanges",
    "find_inplace_opportunities",
    "live_ranges",
]

UNKNOWN_LOCATION = -1  # location of a value that is defined outside of the block
# First and last binding index; -1 is before the block, the number of bindings after it.
LiveRanges: TypeAlias = dict[Var, tuple[int, int]]
Locations: TypeAlias = set[int]

_SUPPORTED = frozenset(
    f"relax.{name}"
    for name in ("add", "subtract", "multiply", "divide", "nn.silu", "nn.relu")
)
# Operators whose result may alias their first argument.
_VIEWS = frozenset(
    f"relax.{name}"
    for name in (
        *("expand_dims", "squeeze", "reshape", "permute_dims", "flatten"),
        *("nn.batch_flatten", "memory.view", "memory.ensure_zero_offset"),
    )
)


@dataclass(frozen=True)
class InplaceOpportunity:
    """Binding whose value may be computed in place of an argument.

    Attributes:
        binding_idx: index of the binding in the block.
        arg_idxs: indices of the arguments that may be overwritten.
    """

    binding_idx: int
    arg_idxs: tuple[int, ...]


def live_ranges(block: DataflowBlock) -> LiveRanges:
    """Live ranges of the variables of a block.

    ``TupleGetItem`` is not a use of the tuple: the alias analysis covers its elements.
    """
    ranges: LiveRanges = {}
    end = len(block.bindings)
    for index in reversed(range(end)):
        binding = block.bindings[index]
        for var in _used(binding.value):
            is_local = isinstance(var, DataflowVar)
            ranges.setdefault(var, (-1, index if is_local else end))
        var = binding.var
        last = index if isinstance(var, DataflowVar) else end
        ranges[var] = (index, ranges.get(var, (-1, last))[1])
    return ranges


def _used(value: Expr) -> list[Var]:
    if isinstance(value, TupleGetItem):
        return []
    return free_vars(value) if isinstance(value, Function) else all_vars(value)


class AliasAnalysis:
    """May-alias analysis of a block: the abstract memory locations of each variable.

    Args:
        block: the block.
        inputs: variables defined before the block that do not alias each other.

    Attributes:
        locations: set of location ids by variable; ``UNKNOWN_LOCATION`` stands for any other.
        tuples: for each location that is a tuple, the locations of its elements.
    """

    def __init__(self, block: DataflowBlock, inputs: Sequence[Var]) -> None:
        self.locations: dict[Var, Locations] = {}
        self.tuples: dict[int, list[Locations]] = {}
        self._count = 0
        for var in inputs:
            self.locations[var] = self._fresh(var.struct_info_or_none())
        for binding in block.bindings:
            self.locations[binding.var] = self._of(binding.value, binding.var)

    def of(self, expr: Expr) -> Locations:
        """The locations of an argument."""
        unknown = {UNKNOWN_LOCATION}
        return self.locations.get(expr, unknown) if isinstance(expr, Var) else unknown

    def _fresh(self, info: StructInfo | None) -> Locations:
        """A new location; the elements of a tuple get new locations, too."""
        location = self._count
        self._count += 1
        if isinstance(info, TupleStructInfo):
            self.tuples[location] = [self._fresh(field) for field in info.fields]
        return {location}

    def _of(self, value: Expr, var: Var) -> Locations:
        if isinstance(value, Var):
            return set(self.of(value))
        if isinstance(value, Tuple):
            locations = self._fresh(None)
            fields = [self._of(field, var) for field in value.fields]
            self.tuples.update(dict.fromkeys(locations, fields))
            return locations
        if isinstance(value, TupleGetItem):
            return self._element(value)
        if isinstance(value, Call):
            return self._of_call(value, var)
        return self._fresh(None)

    def _element(self, item: TupleGetItem) -> Locations:
        locations = self.of(item.tuple_value)
        if UNKNOWN_LOCATION in locations:
            return {UNKNOWN_LOCATION}
        tuples = [self.tuples[n] for n in locations if n in self.tuples]
        return {n for t in tuples if item.index < len(t) for n in t[item.index]}

    def _of_call(self, call: Call, var: Var) -> Locations:
        name = call.op.name if isinstance(call.op, Op) else None
        if name is None:
            return self._of_unknown(call.args, var)
        if name == "relax.call_pure_packed":
            return self._of_unknown(call.args[1:], var)
        if name in _VIEWS and call.args:
            return self._of(call.args[0], var)
        return self._fresh(var.struct_info_or_none())

    def _of_unknown(self, args: Sequence[Expr], var: Var) -> Locations:
        """Locations of an unknown function's result: new memory, or any argument's."""
        (new,) = self._fresh(var.struct_info_or_none())
        of_args = [n for arg in args for n in self._of(arg, var)]
        reachable = {n for start in (new, *of_args) for n in self._reached(start)}
        self._widen(new, reachable)
        return reachable

    def _reached(self, location: int) -> Iterator[int]:
        """A location and those of its elements, recursively."""
        yield location
        for field in self.tuples.get(location, ()):
            for inner in field:
                yield from self._reached(inner)

    def _widen(self, location: int, more: Locations) -> None:
        """Adds locations to the elements of a tuple, recursively."""
        for field in self.tuples.get(location, ()):
            for inner in field:
                self._widen(inner, more)
            field |= more

    def all_of(self, expr: Expr) -> Locations:
        """The locations of an argument and of its elements, recursively."""
        return {n for location in self.of(expr) for n in self._reached(location)}


def find_inplace_opportunities(
    block: DataflowBlock, inputs: Sequence[Var]
) -> tuple[list[InplaceOpportunity], list[InplaceOpportunity]]:
    """Find the bindings whose value may be computed in place of a dead argument.

    Args:
        block: the block.
        inputs: variables defined before the block that do not alias each other and may be
            overwritten.

    Returns:
        The opportunities with arguments that are large enough; and those with arguments of
        the same shape.
    """
    finder = _InplaceFinder(block, inputs)
    large, exact = finder.find(_is_large_enough), finder.find(_has_same_shape)
    return large, exact


# Whether the first tensor fits in the memory of the second.
FitTest: TypeAlias = Callable[[TensorStructInfo, TensorStructInfo], bool]


class _InplaceFinder:
    def __init__(self, block: DataflowBlock, inputs: Sequence[Var]) -> None:
        self.block = block
        self.ranges: Mapping[Var, tuple[int, int]] = live_ranges(block)
        self.aliases = AliasAnalysis(block, inputs)

    def find(self, fits: FitTest) -> list[InplaceOpportunity]:
        """The bindings with an argument that fits and may be overwritten."""
        opportunities: list[InplaceOpportunity] = []
        for index, binding in enumerate(self.block.bindings):
            call, info = binding.value, binding.var.struct_info_or_none()
            if not isinstance(call, Call) or not isinstance(call.op, Op):
                continue
            if call.op.name not in _SUPPORTED or not isinstance(info, TensorStructInfo):
                continue
            args = [
                n
                for n, arg in enumerate(call.args)
                if _fits(info, arg.struct_info_or_none(), fits)
                and self._is_dead_after(arg, index)
                and self._is_unaliased(call, n)
            ]
            if args:
                opportunities.append(InplaceOpportunity(index, tuple(args)))
        return opportunities

    def _is_dead_after(self, arg: Expr, index: int) -> bool:
        """Whether neither an argument nor an alias of it is live after a binding."""
        if not isinstance(arg, Var):
            return False
        locations = self.aliases.all_of(arg)
        if UNKNOWN_LOCATION in locations or self._end(arg) > index:
            return False
        return not any(
            start <= index < end and locations & self.aliases.of(other)
            for other, (start, end) in self.ranges.items()
        )

    def _end(self, var: Var) -> int:
        return self.ranges.get(var, (-1, -1))[1]

    def _is_unaliased(self, call: Call, arg_index: int) -> bool:
        """Whether no other argument of a call aliases an argument."""
        arg = call.args[arg_index]
        others = [other for other in call.args if other is not arg]
        locations = self.aliases.of(arg)
        return not any(locations & self.aliases.of(other) for other in others)


def _fits(info: TensorStructInfo, arg: StructInfo | None, fits: FitTest) -> bool:
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
    sizes, arg_sizes = _both_sizes(info, arg)
    return sizes == arg_sizes


def _is_large_enough(info: TensorStructInfo, arg: TensorStructInfo) -> bool:
    sizes, arg_sizes = _both_sizes(info, arg)
    return bounds.is_known_le(prod(sizes), prod(arg_sizes))
