"""Read and write regions of blocks as symbolic boxes, relaxed over enclosing loops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.dialects.tir import attribute_names
from relax_mlir.symbolic import dims
from relax_mlir.symbolic.dims import Dim
from relax_mlir.symbolic.limits import is_le
from relax_mlir.symbolic.monomials import Atom, Monomial
from relax_mlir.symbolic.symbols import substitute, symbols_of
from relax_mlir.tvm.tir.schedule import accesses, tree
from relax_mlir.tvm.tir.schedule.indices import (
    Call,
    IndexSymbols,
    Limits,
    simplify,
    summands,
)
from relax_mlir.tvm.tir.schedule.state import limits_at, loop_bounds, loop_var

__all__ = [
    "Interval",
    "accessed_box",
    "block_box",
    "bounding_box",
    "box_over_domain",
    "evaluate_interval",
]


@dataclass(frozen=True)
class Interval:
    """The closed integer interval from ``low`` to ``high``."""

    low: Dim
    high: Dim

    @property
    def extent(self) -> Dim:
        """The number of integers in the interval."""
        return self.high - self.low + 1

    def map_ends(self, change: Callable[[Dim], Dim]) -> Interval:
        """The interval with a function applied to both ends."""
        return Interval(change(self.low), change(self.high))


def evaluate_interval(
    dim: Dim, domains: Mapping[str, Interval], limits: Limits
) -> Interval:
    """Interval evaluation of an expression over the domains of symbols."""
    low: Dim = 0
    high: Dim = 0
    for by, part in summands(simplify(dim, limits)):
        interval = _part_interval(part, domains, limits)
        ends = (
            (interval.low, interval.high) if by > 0 else (interval.high, interval.low)
        )
        low, high = low + by * ends[0], high + by * ends[1]
    return Interval(simplify(low, limits), simplify(high, limits))


def _part_interval(
    part: Monomial | Call, domains: Mapping[str, Interval], limits: Limits
) -> Interval:
    if isinstance(part, Call):
        return _call_interval(part, domains, limits)
    total = Interval(1, 1)
    for atom in part:
        total = _multiply(total, _atom_interval(atom, domains, limits), limits)
    return total


def _multiply(a: Interval, b: Interval, limits: Limits) -> Interval:
    if is_le(0, a.low, limits) and is_le(0, b.low, limits):
        return Interval(a.low * b.low, a.high * b.high)
    ends = [x * y for x in _ends_of(a) for y in _ends_of(b)]
    return Interval(dims.minimum(*ends), dims.maximum(*ends))


def _atom_interval(
    atom: Atom, domains: Mapping[str, Interval], limits: Limits
) -> Interval:
    if atom.op == "symbol":
        point = dims.symbol(atom.text)
        return domains.get(atom.text, Interval(point, point))
    return _call_interval(Call.of(atom), domains, limits)


def _call_interval(
    call: Call, domains: Mapping[str, Interval], limits: Limits
) -> Interval:
    intervals = [evaluate_interval(arg, domains, limits) for arg in call.args]
    if call.name == "arith.remui":
        return _remainder(intervals[0], intervals[1], limits)
    if call.name == "arith.floordivsi":
        return _divide(intervals[0], intervals[1], limits)
    return Interval(
        dims.minimum(*(r.low for r in intervals)),
        dims.minimum(*(r.high for r in intervals)),
    )


def _divide(interval: Interval, divisor: Interval, limits: Limits) -> Interval:
    """The floor quotients by nonzero divisors of either sign."""
    if is_le(divisor.high, 0, limits):
        interval, divisor = _negate(interval), _negate(divisor)
    ends = [1 if end == 0 else end for end in _ends_of(divisor)]
    lows, highs = [interval.low], [interval.high]
    if not is_le(0, divisor.low, limits):
        lows = highs = list(_ends_of(interval))
        ends += [-1, 1] if divisor.low != divisor.high else []
    return Interval(
        dims.minimum(*(dims.floordiv(x, y) for x in lows for y in ends)),
        dims.maximum(*(dims.floordiv(x, y) for x in highs for y in ends)),
    )


def _negate(interval: Interval) -> Interval:
    return Interval(-interval.high, -interval.low)


def _remainder(interval: Interval, divisor: Interval, limits: Limits) -> Interval:
    if divisor.low == divisor.high:
        quotients = [
            simplify(dims.floordiv(end, divisor.low), limits)
            for end in _ends_of(interval)
        ]
        if quotients[0] == quotients[1]:
            return interval.map_ends(lambda end: end - divisor.low * quotients[0])
    return Interval(0, divisor.high - 1)


def _ends_of(interval: Interval) -> tuple[Dim, Dim]:
    return interval.low, interval.high


def box_over_domain(
    box: Sequence[Interval], domain: Mapping[str, Interval], limits: Limits
) -> list[Interval]:
    """The bounding box of a box whose symbols range over intervals."""
    return [
        Interval(
            evaluate_interval(interval.low, domain, limits).low,
            evaluate_interval(interval.high, domain, limits).high,
        )
        for interval in box
    ]


def accessed_box(
    access: accesses.Access,
    indices: IndexSymbols,
    is_inside: Callable[[ir.Operation], bool],
    *,
    relaxes: Callable[[ir.Operation], bool] = lambda loop: False,
) -> list[Interval]:
    """The box of a buffer that an access covers over the loops around it.

    Args:
        is_inside: whether to relax a loop, or to substitute the iter vars of a block, around
            the access.
        relaxes: whether to relax a loop that is not inside, too.
    """
    shape = accesses.buffer_shape(access.buffer)
    op, intervals = _point_box(access, indices)
    intervals = [
        Interval(0, size - 1)
        if _is_from_memory(interval.low, indices)
        or _is_from_memory(interval.high, indices)
        else interval
        for interval, size in zip(intervals, shape, strict=True)
    ]
    for around in tree.ancestors(op):
        inside = is_inside(around)
        if tree.is_loop(around) and (inside or relaxes(around)):
            low, extent = loop_bounds(indices, around)
            name = indices.symbol(loop_var(around))
            domain = {name: Interval(low, low + extent - 1)}
            limits = limits_at(indices, around)
            intervals = box_over_domain(intervals, domain, limits)
        elif tree.is_block(around) and inside:
            values = binding_values(around, indices)
            intervals = [
                r.map_ends(lambda end, v=values: substitute(end, v)) for r in intervals
            ]
    return intervals


def _point_box(
    access: accesses.Access, indices: IndexSymbols
) -> tuple[ir.Operation, list[Interval]]:
    """The box of a single access, and the operation that defines it."""
    if not access.is_opaque:
        return access.op, [Interval(dim, dim) for dim in access.indices(indices)]
    view = next(
        (
            v.owner.operation
            for v in access.op.operands
            if not isinstance(v.owner, ir.Block) and v.owner.name == "memref.subview"
        ),
        None,
    )
    if view is None or view.operands[0] != access.buffer:
        shape = accesses.buffer_shape(access.buffer)
        return access.op, [Interval(0, size - 1) for size in shape]
    return view, subview_box(view, indices)


def subview_box(view: ir.Operation, indices: IndexSymbols) -> list[Interval]:
    """The box of its source that a ``memref.subview`` covers."""
    dynamic = ir.ShapedType.get_dynamic_size()
    operands = iter(list(view.operands)[1:])
    offsets, sizes = (
        [
            indices.of(next(operands)) if number == dynamic else number
            for number in ir.DenseI64ArrayAttr(view.attributes[name])
        ]
        for name in ("static_offsets", "static_sizes")
    )
    return [
        Interval(low, low + size - 1) for low, size in zip(offsets, sizes, strict=True)
    ]


def _is_from_memory(dim: Dim, indices: IndexSymbols) -> bool:
    """Whether an index depends on loaded values, which are unknown at compile time."""
    return any(
        not isinstance(indices.values[name].owner, ir.Block) for name in symbols_of(dim)
    )


def binding_values(block: ir.Operation, indices: IndexSymbols) -> dict[str, Dim]:
    """The bindings of a block, by the symbols of the iter vars of both regions."""
    found: dict[str, Dim] = {}
    values = [indices.of(v) for v in tree.bindings(block)]
    for region in block.regions:
        for inner in region.blocks:
            names = map(indices.symbol, inner.arguments)
            found.update(zip(names, values, strict=True))
    return found


def bounding_box(
    boxes: Iterable[Sequence[Interval]], limits: Limits
) -> list[Interval] | None:
    """The bounding box of boxes, or None if there are none."""
    listed = list(boxes)
    if not listed:
        return None
    return [
        Interval(
            simplify(dims.minimum(*(r.low for r in intervals)), limits),
            simplify(dims.maximum(*(r.high for r in intervals)), limits),
        )
        for intervals in zip(*listed, strict=True)
    ]


def block_box(
    block: ir.Operation,
    buffer: ir.Value,
    indices: IndexSymbols,
    *,
    is_write: bool,
) -> list[Interval] | None:
    """The box of a buffer that a block instance reads or writes, in terms of its iter vars."""
    found = [
        a
        for a in accesses.accesses_in(block)
        if a.buffer == buffer and a.is_write == is_write
    ]
    inside = set(tree.subtree(block)) - {block}
    boxes = [accessed_box(a, indices, lambda op: op in inside) for a in found]
    boxes = [_init_iters_as_body(box, block, indices) for box in boxes]
    return bounding_box(boxes, limits_at(indices, block))


def _init_iters_as_body(
    box: Sequence[Interval], block: ir.Operation, indices: IndexSymbols
) -> list[Interval]:
    """A box in terms of the iter vars of the body instead of those of the init block."""
    start = tree.init_block_of(block) if tree.is_block(block) else None
    if start is None:
        return list(box)
    same = {
        indices.symbol(a): dims.symbol(indices.symbol(b))
        for a, b in zip(start.arguments, tree.body(block).arguments, strict=True)
    }
    known: dict[str, Dim] = dict(same)
    return [r.map_ends(lambda end: substitute(end, known)) for r in box]


def relaxed_thread_loops(buffer: ir.Value) -> Callable[[ir.Operation], bool]:
    """The thread loops over which a region is relaxed: those whose threads share the buffer.

    Returns:
        Whether to relax a loop.
    """
    scope = accesses.storage_scope(buffer)
    is_shared = scope.split(".")[0] == "shared"

    def relaxes(loop: ir.Operation) -> bool:
        thread = tree.string_attr(loop, attribute_names.THREAD)
        if scope == "warp":
            return thread == "threadIdx.x"
        return is_shared and thread != "" and not thread.startswith("blockIdx")

    return relaxes
