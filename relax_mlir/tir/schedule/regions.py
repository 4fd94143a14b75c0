"""The boxes of buffers that blocks touch, as seen from loops around them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.dialects import dims
from relax_mlir.dialects.dim_limits import is_le
from relax_mlir.dialects.dims import Dim
from relax_mlir.dialects.monomials import Atom, Monomial
from relax_mlir.dialects.symbols import substitute, symbols_of
from relax_mlir.dialects.tir import marks
from relax_mlir.tir.schedule import accesses, tree
from relax_mlir.tir.schedule.indices import Call, Indices, Limits, simplify, summands
from relax_mlir.tir.schedule.state import limits_at, loop_bounds, loop_var

__all__ = ["Run", "hull", "interval", "over_domain", "region_of", "regions_in"]


@dataclass(frozen=True)
class Run:
    """All integers from ``low`` to ``high``, both included."""

    low: Dim
    high: Dim

    @property
    def extent(self) -> Dim:
        """How many they are."""
        return self.high - self.low + 1

    def mapped(self, change: Callable[[Dim], Dim]) -> Run:
        """Both ends changed."""
        return Run(change(self.low), change(self.high))


def interval(dim: Dim, domains: Mapping[str, Run], limits: Limits) -> Run:
    """The least and the greatest value of an expression over the domains of symbols."""
    low: Dim = 0
    high: Dim = 0
    for by, part in summands(simplify(dim, limits)):
        run = _part_interval(part, domains, limits)
        ends = (run.low, run.high) if by > 0 else (run.high, run.low)
        low, high = low + by * ends[0], high + by * ends[1]
    return Run(simplify(low, limits), simplify(high, limits))


def _part_interval(
    part: Monomial | Call, domains: Mapping[str, Run], limits: Limits
) -> Run:
    if isinstance(part, Call):
        return _call_interval(part, domains, limits)
    total = Run(1, 1)
    for atom in part:
        total = _product(total, _atom_interval(atom, domains, limits), limits)
    return total


def _product(a: Run, b: Run, limits: Limits) -> Run:
    if is_le(0, a.low, limits) and is_le(0, b.low, limits):
        return Run(a.low * b.low, a.high * b.high)
    ends = [x * y for x in _ends_of(a) for y in _ends_of(b)]
    return Run(dims.minimum(*ends), dims.maximum(*ends))


def _atom_interval(atom: Atom, domains: Mapping[str, Run], limits: Limits) -> Run:
    if atom.op == "symbol":
        plain = dims.symbol(atom.text)
        return domains.get(atom.text, Run(plain, plain))
    return _call_interval(Call.of(atom), domains, limits)


def _call_interval(call: Call, domains: Mapping[str, Run], limits: Limits) -> Run:
    runs = [interval(arg, domains, limits) for arg in call.args]
    if call.name == "arith.remui":
        return _remainder(runs[0], runs[1], limits)
    if call.name == "arith.floordivsi":
        return _quotient(runs[0], runs[1], limits)
    return Run(
        dims.minimum(*(r.low for r in runs)), dims.minimum(*(r.high for r in runs))
    )


def _quotient(run: Run, divisor: Run, limits: Limits) -> Run:
    """All quotients by divisors of either sign, of which none is 0."""
    if is_le(divisor.high, 0, limits):
        run, divisor = _negated(run), _negated(divisor)
    ends = [1 if end == 0 else end for end in _ends_of(divisor)]
    lows, highs = [run.low], [run.high]
    if not is_le(0, divisor.low, limits):
        lows = highs = list(_ends_of(run))
        ends += [-1, 1] if divisor.low != divisor.high else []
    return Run(
        dims.minimum(*(dims.floordiv(x, y) for x in lows for y in ends)),
        dims.maximum(*(dims.floordiv(x, y) for x in highs for y in ends)),
    )


def _negated(run: Run) -> Run:
    return Run(-run.high, -run.low)


def _remainder(run: Run, divisor: Run, limits: Limits) -> Run:
    if divisor.low == divisor.high:
        quotients = [
            simplify(dims.floordiv(end, divisor.low), limits) for end in _ends_of(run)
        ]
        if quotients[0] == quotients[1]:
            return run.mapped(lambda end: end - divisor.low * quotients[0])
    return Run(0, divisor.high - 1)


def _ends_of(run: Run) -> tuple[Dim, Dim]:
    return run.low, run.high


def over_domain(
    box: Sequence[Run], domain: Mapping[str, Run], limits: Limits
) -> list[Run]:
    """The box around all that a box is while symbols go over their domains."""
    return [
        Run(
            interval(run.low, domain, limits).low,
            interval(run.high, domain, limits).high,
        )
        for run in box
    ]


def region_of(
    access: accesses.Access,
    indices: Indices,
    is_inside: Callable[[ir.Operation], bool],
    *,
    relaxes: Callable[[ir.Operation], bool] = lambda loop: False,
) -> list[Run]:
    """The box of a buffer that an access touches over the loops around it.

    Args:
        is_inside: whether to go over all steps of a loop around, or all inner axes.
        relaxes: whether to do so also for a loop that is not inside.
    """
    shape = accesses.buffer_shape(access.buffer)
    op, runs = _own_box(access, indices)
    runs = [
        Run(0, size - 1)
        if _is_from_memory(run.low, indices) or _is_from_memory(run.high, indices)
        else run
        for run, size in zip(runs, shape, strict=True)
    ]
    for around in tree.ancestors(op):
        inside = is_inside(around)
        if tree.is_loop(around) and (inside or relaxes(around)):
            low, extent = loop_bounds(indices, around)
            name = indices.symbol(loop_var(around))
            domain = {name: Run(low, low + extent - 1)}
            limits = limits_at(indices, around)
            runs = over_domain(runs, domain, limits)
        elif tree.is_block(around) and inside:
            values = axis_values(around, indices)
            runs = [r.mapped(lambda end, v=values: substitute(end, v)) for r in runs]
    return runs


def _own_box(
    access: accesses.Access, indices: Indices
) -> tuple[ir.Operation, list[Run]]:
    """What an access touches, and the operation that says so."""
    if not access.is_opaque:
        return access.op, [Run(dim, dim) for dim in access.indices(indices)]
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
        return access.op, [Run(0, size - 1) for size in shape]
    return view, view_box(view, indices)


def view_box(view: ir.Operation, indices: Indices) -> list[Run]:
    """The box that a ``memref.subview`` is of what it is taken of."""
    dynamic = ir.ShapedType.get_dynamic_size()
    operands = iter(list(view.operands)[1:])
    offsets, sizes = (
        [
            indices.of(next(operands)) if number == dynamic else number
            for number in ir.DenseI64ArrayAttr(view.attributes[name])
        ]
        for name in ("static_offsets", "static_sizes")
    )
    return [Run(low, low + size - 1) for low, size in zip(offsets, sizes, strict=True)]


def _is_from_memory(dim: Dim, indices: Indices) -> bool:
    """Whether an index depends on what was read, so that nobody knows where it lies."""
    return any(
        not isinstance(indices.values[name].owner, ir.Block) for name in symbols_of(dim)
    )


def axis_values(block: ir.Operation, indices: Indices) -> dict[str, Dim]:
    """What the axes of a block are, by the symbols of either region's arguments."""
    found: dict[str, Dim] = {}
    values = [indices.of(v) for v in tree.bindings(block)]
    for region in block.regions:
        for inner in region.blocks:
            names = map(indices.symbol, inner.arguments)
            found.update(zip(names, values, strict=True))
    return found


def hull(boxes: Iterable[Sequence[Run]], limits: Limits) -> list[Run] | None:
    """The smallest box around boxes, or None for none."""
    listed = list(boxes)
    if not listed:
        return None
    return [
        Run(
            simplify(dims.minimum(*(r.low for r in runs)), limits),
            simplify(dims.maximum(*(r.high for r in runs)), limits),
        )
        for runs in zip(*listed, strict=True)
    ]


def regions_in(
    block: ir.Operation,
    buffer: ir.Value,
    indices: Indices,
    *,
    is_write: bool,
) -> list[Run] | None:
    """The box of a buffer that one point of a block touches, in terms of its axes."""
    found = [
        a
        for a in accesses.accesses_in(block)
        if a.buffer == buffer and a.is_write == is_write
    ]
    inside = set(tree.subtree(block)) - {block}
    boxes = [region_of(a, indices, lambda op: op in inside) for a in found]
    boxes = [_init_axes_as_body(box, block, indices) for box in boxes]
    return hull(boxes, limits_at(indices, block))


def _init_axes_as_body(
    box: Sequence[Run], block: ir.Operation, indices: Indices
) -> list[Run]:
    """A box in terms of the axes of the body, also where the start value touches it."""
    start = tree.init_of(block) if tree.is_block(block) else None
    if start is None:
        return list(box)
    same = {
        indices.symbol(a): dims.symbol(indices.symbol(b))
        for a, b in zip(start.arguments, tree.body(block).arguments, strict=True)
    }
    known: dict[str, Dim] = dict(same)
    return [r.mapped(lambda end: substitute(end, known)) for r in box]


def crosses_threads(buffer: ir.Value) -> Callable[[ir.Operation], bool]:
    """Whether all threads of a loop share a buffer, so that it must hold what all need."""
    scope = accesses.storage_scope(buffer)
    is_shared = scope.split(".")[0] == "shared"

    def relaxes(loop: ir.Operation) -> bool:
        thread = tree.string_attr(loop, marks.THREAD)
        if scope == "warp":
            return thread == "threadIdx.x"
        return is_shared and thread != "" and not thread.startswith("blockIdx")

    return relaxes
