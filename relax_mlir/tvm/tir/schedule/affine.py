"""Affine iter map detection: whether loops visit every block instance exactly once.

A binding is a sum of iter splits ``scale * (loop // lower_factor % extent)``, the digits of
loop variables in a mixed radix. Bindings are bijective if the splits of all bindings
together are all digits of the loops, each used once.

Source: TVM's ``arith.DetectIterMap`` (``IterSplitExpr``, ``IterSumExpr``).
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace

from relax_mlir.symbolic import dims
from relax_mlir.symbolic.bounds import is_known_le
from relax_mlir.symbolic.dims import Dim, Expr
from relax_mlir.symbolic.monomials import terms_of
from relax_mlir.symbolic.symbols import substitute, symbols_of
from relax_mlir.tvm.tir.schedule.indices import Limits, fold_single_values, simplify

__all__ = [
    "IterSplit",
    "is_affine",
    "is_decreasing",
    "is_uniquely_decomposable",
    "iter_splits_of",
    "loop_dependent_terms",
    "nontrivial_splits",
    "ordered_splits",
    "split_value",
    "with_fused_predicates",
    "with_fused_sums",
]


@dataclass(frozen=True)
class IterSplit:
    """An iter split ``scale * (source // lower_factor % extent)``, as TVM's ``IterSplitExpr``.

    Attributes:
        source: the symbol of the loop variable.
    """

    source: str
    lower_factor: Dim
    extent: Dim
    scale: Dim = 1


def iter_splits_of(dim: Dim, extents: Mapping[str, Dim]) -> list[IterSplit] | None:
    """Decomposes an expression into a sum of iter splits; None if it is not such a sum.

    Args:
        extents: the trip count of each loop variable; other symbols are loop-invariant.
    """
    rest = dim
    found: list[IterSplit] = []
    while any(name in extents for name in symbols_of(rest)):
        split = _leading_split(rest, extents)
        if split is None:
            return None
        found.append(split)
        rest = rest - split.scale * split_value(split, extents)
        if len(found) > 32:
            return None
    return found


def split_value(split: IterSplit, extents: Mapping[str, Dim]) -> Dim:
    """The value of an iter split before scaling."""
    quotient = dims.floordiv(dims.symbol(split.source), split.lower_factor)
    top = extents[split.source]
    if split.lower_factor * split.extent == top or _is_most_significant(split, top):
        return quotient
    return dims.mod(quotient, split.extent)


def _is_most_significant(split: IterSplit, top: Dim) -> bool:
    """Whether a split is the most significant one of its loop."""
    return dims.ceildiv(top, split.lower_factor) == split.extent


def _leading_split(dim: Dim, extents: Mapping[str, Dim]) -> IterSplit | None:
    for monomial, factor in terms_of(dim):
        for atom in monomial:
            others = list(monomial)
            others.remove(atom)
            scale = Expr.of({tuple(others): factor})
            if any(n in extents for n in symbols_of(scale)):
                continue
            if atom.op == "symbol" and atom.text in extents:
                return _split_at(dim, atom.text, 1, scale, extents)
            if atom.op != "floordiv" or _is_negative(scale):
                continue
            source = _symbol_in(atom.args[0])
            if source in extents:
                return _split_at(dim, source, atom.args[1], scale, extents)
    return None


def _is_negative(scale: Dim) -> bool:
    return all(by < 0 for _, by in terms_of(scale))


def _symbol_in(dim: Dim) -> str:
    if isinstance(dim, Expr) and len(dim.terms) == 1:
        ((monomial, factor),) = dim.terms
        if factor == 1 and len(monomial) == 1 and monomial[0].op == "symbol":
            return monomial[0].text
    return ""


def _split_at(
    dim: Dim, source: str, lower_factor: Dim, scale: Dim, extents: Mapping[str, Dim]
) -> IterSplit:
    """The split from ``lower_factor`` up to the next more significant split in ``dim``."""
    for monomial, factor in terms_of(dim):
        if not monomial or factor >= 0:
            continue
        for atom in monomial:
            if atom.op != "floordiv" or _symbol_in(atom.args[0]) != source:
                continue
            others = list(monomial)
            others.remove(atom)
            upper_scale = Expr.of({tuple(others): -factor})
            extent, rest = dims.divide(upper_scale, scale)
            if rest == 0 and extent * lower_factor == atom.args[1]:
                return IterSplit(source, lower_factor, extent, scale)
    return IterSplit(
        source, lower_factor, dims.ceildiv(extents[source], lower_factor), scale
    )


def is_affine(
    values: Sequence[Dim],
    extents: Mapping[str, Dim],
    limits: Limits,
    *,
    predicates: Sequence[Dim] = (),
    may_overlap: bool = False,
    may_end_early: bool = False,
) -> bool:
    """Whether block bindings are independent sums of iter splits.

    The loops then visit every combination of iter var values.

    Args:
        values: the bindings.
        extents: the trip count of each loop.
        limits: value ranges of symbols.
        predicates: expressions that are nonnegative where the block executes; each may
            exclude values of one binding.
        may_overlap: whether a split may extend into the next more significant one.
        may_end_early: whether a loop may end before its least significant splits do, as a
            loop of 10 split by 4: the splits stay independent, but 3 * 4 values are not all
            visited.
    """
    values, extents, predicates = with_fused_predicates(
        values, extents, predicates, limits
    )
    bindings: list[list[IterSplit]] = []
    for value in values:
        splits = iter_splits_of(simplify(value, limits), extents)
        if (
            splits is None
            or _contiguous_extent(splits, may_overlap=may_overlap) is None
        ):
            return False
        bindings.append([d for d in splits if d.extent != 1])
    if not all(
        _constrains_one_binding(slack, bindings, extents) for slack in predicates
    ):
        return False
    return _are_disjoint(
        [d for splits in bindings for d in splits], extents, may_end_early=may_end_early
    )


def with_fused_predicates(
    values: Sequence[Dim],
    extents: Mapping[str, Dim],
    predicates: Sequence[Dim],
    limits: Limits,
) -> tuple[Sequence[Dim], Mapping[str, Dim], Sequence[Dim]]:
    """Replaces loops that a predicate bounds jointly by one fused variable.

    Fusing loops and splitting by a non-divisor leaves a predicate ``i * 100 + j < n``; the sum
    is again the fused loop variable.

    Returns:
        Bindings, extents, and the remaining predicates.
    """
    pending = [fold_single_values(slack, limits) for slack in predicates]
    without_progress = 0
    while without_progress < len(pending):
        slack = pending.pop(0)
        total = -loop_dependent_terms(slack, extents)
        end = slack + total + 1
        splits = iter_splits_of(total, extents) or []
        lowest = next((d for d in splits if d.scale == 1), None)
        count = _contiguous_extent(splits, may_overlap=False)
        if lowest is not None and lowest.lower_factor == 1 and count is not None:
            name = f"relax.sum{len(extents)}_{len(pending)}"
            rest = total - dims.symbol(lowest.source)
            known = {lowest.source: dims.symbol(name) - rest}
            changed = [
                simplify(substitute(d, known), limits) for d in (*values, *pending)
            ]
            fused = {d.source for d in splits}
            if not any(fused & set(symbols_of(d)) for d in changed):
                values, pending = changed[: len(values)], changed[len(values) :]
                kept = {n: e for n, e in extents.items() if n not in fused}
                extents = {**kept, name: dims.minimum(end, count)}
                without_progress = 0
                continue
        without_progress += 1
        if lowest is not None and _ends_with(lowest, splits, end):
            total = total - split_value(lowest, extents)
            slack = _quotient(end, lowest.extent) - 1 - _quotient(total, lowest.extent)
            without_progress = 0
        pending.append(slack)
    return values, extents, pending


def with_fused_sums(
    values: Sequence[Dim], extents: Mapping[str, Dim], limits: Limits
) -> tuple[Sequence[Dim], Mapping[str, Dim]]:
    """Replaces loops whose sum is divided, as after splitting a fused loop, by one variable.

    Returns:
        Bindings and extents; two iterations differ in those loops exactly where they differ in
        the new variable.
    """
    for names in sorted({n for v in values for n in _divided_sums(v, extents)}):
        if any(name not in extents for name in names):
            continue
        total, count = 0, 1  # row-major over nested loops: names sort by depth
        for name in reversed(names):
            total, count = total + count * dims.symbol(name), count * extents[name]
        values, extents, _ = with_fused_predicates(
            values, extents, [count - 1 - total], limits
        )
    return values, extents


def _divided_sums(dim: Dim, extents: Mapping[str, Dim]) -> set[tuple[str, ...]]:
    """The sets of two or more loops whose sum an expression divides."""
    found: set[tuple[str, ...]] = set()
    for monomial, _ in terms_of(dim):
        for atom in monomial:
            for arg in atom.args if atom.op != "symbol" else ():
                found |= _divided_sums(arg, extents)
                names = sorted(extents.keys() & set(symbols_of(arg)))
                found |= {tuple(names)} if len(names) > 1 else set()
    return found


def _ends_with(lowest: IterSplit, splits: Sequence[IterSplit], end: Dim) -> bool:
    """Whether ``value < end`` does not depend on the least significant split of ``value``."""
    others = [d.scale for d in splits if d is not lowest]
    return all(dims.divide(n, lowest.extent)[1] == 0 for n in (*others, end))


def _quotient(dim: Dim, divisor: Dim) -> Dim:
    quotient, rest = dims.divide(dim, divisor)
    assert rest == 0
    return quotient


def _constrains_one_binding(
    slack: Dim, bindings: Sequence[Sequence[IterSplit]], extents: Mapping[str, Dim]
) -> bool:
    """Whether a predicate depends only on the splits of one binding."""
    total = loop_dependent_terms(slack, extents)
    loops = {n for n in symbols_of(total) if extents.get(n, 1) != 1}
    candidates = [
        splits for dim in (total, -total) if (splits := iter_splits_of(dim, extents))
    ]
    for binding in bindings:
        others = {d.source for other in bindings if other is not binding for d in other}
        exclusive_loops = {d.source for d in binding} - others
        own_splits = {(d.source, d.lower_factor, d.extent) for d in binding}
        if loops <= exclusive_loops or any(
            all(
                d.source in exclusive_loops
                or (d.source, d.lower_factor, d.extent) in own_splits
                for d in w
            )
            for w in candidates
        ):
            return True
    return False


def is_decreasing(dim: Dim, loops: Container[str]) -> bool:
    """Whether an expression decreases in every loop it depends on."""
    moving = terms_of(loop_dependent_terms(dim, loops))
    return bool(moving) and all(by < 0 for _, by in moving)


def loop_dependent_terms(dim: Dim, loops: Container[str]) -> Dim:
    """The loop-dependent terms of a sum."""
    found: Dim = 0
    for monomial, factor in terms_of(dim):
        term = Expr.of({monomial: factor})
        if any(n in loops for n in symbols_of(term)):
            found = found + term
    return found


def _contiguous_extent(splits: Sequence[IterSplit], *, may_overlap: bool) -> Dim | None:
    """The number of consecutive values from 0 that a sum of splits takes.

    Returns:
        None if the values have gaps.
    """
    pending = [d for d in splits if d.extent != 1]
    end: Dim = 1
    while pending:
        found = next((d for d in pending if d.scale == end), None)
        if found is None and may_overlap and end != 1:
            found = next((d for d in pending if _is_within(d.scale, end)), None)
        if found is None:
            return None
        pending.remove(found)
        end = found.scale * found.extent
    return end


def _is_within(scale: Dim, end: Dim) -> bool:
    """Whether ``1 <= scale <= end`` is proved."""
    return is_known_le(1, scale) and is_known_le(scale, end)


def is_uniquely_decomposable(splits: Sequence[IterSplit]) -> bool:
    """Whether a sum determines each of its splits: no split extends into another."""
    pending = [d for d in splits if d.extent != 1]
    end: Dim = 1
    while pending:
        smallest = next(
            (d for d in pending if all(is_known_le(d.scale, o.scale) for o in pending)),
            None,
        )
        if smallest is None or not is_known_le(end, smallest.scale):
            return False
        pending.remove(smallest)
        end = smallest.scale * smallest.extent
    return True


def ordered_splits(splits: Sequence[IterSplit], extent: Dim) -> list[IterSplit] | None:
    """The splits of one loop, least significant first, if each ends where the next begins.

    Args:
        extent: the trip count of the loop; the last split must reach it.
    """
    pending = list(splits)
    found: list[IterSplit] = []
    while pending:
        following = [
            d
            for d in pending
            if (
                found[-1].lower_factor * found[-1].extent == d.lower_factor
                if found
                # No divisor is less than 1 in a loop with an iteration.
                else d.lower_factor == 1
                or all(is_known_le(d.lower_factor, o.lower_factor) for o in pending)
            )
        ]
        if len(following) != 1:
            return None
        found.append(following[0])
        pending.remove(following[0])
    if not found or not is_known_le(extent, found[-1].lower_factor * found[-1].extent):
        return None
    return found


def nontrivial_splits(splits: Sequence[IterSplit]) -> list[IterSplit]:
    """The splits of extent other than 1; if there are none, the first one, unscaled."""
    found = [d for d in splits if d.extent != 1]
    return found or [replace(d, scale=1) for d in splits[:1]]


def _are_disjoint(
    splits: Sequence[IterSplit], extents: Mapping[str, Dim], *, may_end_early: bool
) -> bool:
    """Whether splits vary independently: disjoint digits of loops, each used once."""
    by_source: dict[str, list[IterSplit]] = {}
    for split in splits:
        by_source.setdefault(split.source, []).append(split)
    for source, parts in by_source.items():
        lower_factor: Dim = 1
        pending = [d for d in parts if d.extent != 1]
        while pending:
            found = next((d for d in pending if d.lower_factor == lower_factor), None)
            if found is None:
                return False
            pending.remove(found)
            lower_factor = lower_factor * found.extent
        if not may_end_early and not is_known_le(lower_factor, extents[source]):
            return False
    return True
