"""Inversion of affine index maps.

Each final index is a sum of iter splits of the initial ones (see :mod:`.affine`), so an initial
index is the sum of its splits in the final ones. Final indices that decode to values out of
range are padding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from relax_mlir.objects import prim
from relax_mlir.objects.prim import PrimExpr
from relax_mlir.objects.prim.symbolic_sizes import Symbols
from relax_mlir.symbolic import dims
from relax_mlir.symbolic.dims import Dim
from relax_mlir.symbolic.monomials import Atom, terms_of
from relax_mlir.symbolic.symbols import substitute, symbols_of
from relax_mlir.tvm.tir.schedule import affine
from relax_mlir.tvm.tir.schedule.affine import IterSplit
from relax_mlir.tvm.tir.schedule.indices import simplify

__all__ = ["Inverse", "PaddingRegion", "final_symbol", "invert", "padding_term"]


@dataclass(frozen=True)
class PaddingRegion:
    """A region of padding: the upper splits equal ``top`` and the lower ones are out of range.

    Attributes:
        upper: an expression in the final indices.
        lower: another one.
        bound: the bound of ``lower``.
        is_below: whether ``lower`` is below the bound; else at or above it.
        is_greatest: whether ``bound`` is the greatest value of ``lower``.
    """

    upper: Dim
    top: Dim
    lower: Dim
    bound: Dim
    is_below: bool
    is_greatest: bool = False


@dataclass(frozen=True)
class Inverse:
    """The initial indices in terms of the final ones.

    Attributes:
        values: each initial index, in the symbols of :func:`final_symbol`.
        padding: the regions to which no initial index is mapped.
    """

    values: Mapping[str, Dim]
    padding: Sequence[PaddingRegion] = ()


@dataclass
class _Sum:
    """A sum of indices that is divided as a whole: a fused index.

    Attributes:
        name: the symbol that replaces it.
        splits: its iter splits.
        start: its least value.
    """

    name: str
    splits: Sequence[IterSplit]
    start: Dim
    extents: dict[str, Dim] = field(default_factory=dict)


def final_symbol(number: int) -> str:
    """The symbol of a final index."""
    return f"relax.place{number}"


def invert(final: Sequence[Dim], extents: Mapping[str, Dim]) -> Inverse | None:
    """The inverse of a map, or None if it is not found.

    Args:
        final: the final indices.
        extents: the extent of each initial index, which starts at 0.
    """
    known = {n: e for n, e in extents.items() if e != 1}
    units: dict[str, Dim] = {n: 0 for n, e in extents.items() if e == 1}
    final = [substitute(f, units) for f in final]
    combined = _fuse_divided_sums(final, known)
    if combined is None:
        return None
    final, known, sums = combined
    solved = _solve(final, known, sums)
    if solved is None:
        return None
    values, padding = solved
    for fused_sum in reversed(sums):
        value = values.pop(fused_sum.name) - fused_sum.start
        for split in fused_sum.splits:
            part = _extract_split(value, split, fused_sum.splits)
            values[split.source] = (
                values.get(split.source, 0) + split.lower_factor * part
            )
    if set(values) != {n for n, e in extents.items() if e != 1}:
        return None
    return Inverse({**values, **units}, padding)


def _extract_split(value: Dim, split: IterSplit, others: Sequence[IterSplit]) -> Dim:
    """A split of a value; the most significant one needs no remainder."""
    quotient = dims.floordiv(value, split.scale)
    scales = [d.scale for d in others if d.extent != 1]
    is_most_significant = all(
        s == split.scale or dims.divide(split.scale, s)[1] == 0 for s in scales
    )
    return quotient if is_most_significant else dims.mod(quotient, split.extent)


def _divided_sum(final: Sequence[Dim], known: Mapping[str, Dim]) -> Dim | None:
    """A sum of indices that is the dividend of a quotient, innermost first, or None."""
    for dim in final:
        for atom in _atoms(dim):
            if atom.op != "floordiv":
                continue
            inner = _divided_sum([atom.args[0]], known)
            if inner is not None:
                return inner
            mentioned = [n for n in symbols_of(atom.args[0]) if n in known]
            if mentioned and atom.args[0] != dims.symbol(mentioned[0]):
                return atom.args[0]
    return None


def _atoms(dim: Dim) -> list[Atom]:
    return [atom for monomial, _ in terms_of(dim) for atom in monomial]


def _fuse_divided_sums(
    final: Sequence[Dim], extents: Mapping[str, Dim]
) -> tuple[list[Dim], dict[str, Dim], list[_Sum]] | None:
    """Replaces each sum of indices that is divided as a whole by one symbol."""
    sums: list[_Sum] = []
    known = dict(extents)
    listed = list(final)
    while (total := _divided_sum(listed, known)) is not None:
        splits = affine.iter_splits_of(total, known)
        if splits is None or not _is_contiguous(splits) or len(sums) > 8:
            return None
        split_sum: Dim = 0
        count: Dim = 1
        for split in splits:
            split_sum = split_sum + split.scale * affine.split_value(split, known)
            count = count * split.extent
        start = total - split_sum
        least_significant = next((d for d in splits if d.scale == 1), None)
        if least_significant is None or symbols_of(start):
            return None
        name = f"relax.sum{len(sums)}"
        lower, source = (
            least_significant.lower_factor,
            dims.symbol(least_significant.source),
        )
        others = total - dims.floordiv(source, lower)
        value = dims.symbol(name) - lower * others
        listed = [substitute(d, {least_significant.source: value}) for d in listed]
        splits = [_rescale_split(d, least_significant) for d in splits]
        start, count = lower * start, lower * count
        fused = {d.source for d in splits}
        if any(fused & set(symbols_of(d)) for d in listed):
            return None
        known = {n: e for n, e in known.items() if n not in fused}
        known[name] = count
        sums.append(_Sum(name, splits, start))
        if start:
            known[name] = count + start
    limits = {n: (0, e - 1 if isinstance(e, int) else None) for n, e in known.items()}
    return [simplify(d, limits) for d in listed], known, sums


def _rescale_split(split: IterSplit, least_significant: IterSplit) -> IterSplit:
    """A split of a sum, rescaled so that the least significant split has lower factor 1."""
    lower = least_significant.lower_factor
    if split is least_significant:
        return IterSplit(split.source, 1, split.extent * lower)
    return IterSplit(
        split.source, split.lower_factor, split.extent, split.scale * lower
    )


def _is_contiguous(splits: Sequence[IterSplit]) -> bool:
    """Whether the values of a sum of splits are consecutive integers."""
    expected: Dim = 1
    remaining = [d for d in splits if d.extent != 1]
    while remaining:
        found = next((d for d in remaining if d.scale == expected), None)
        if found is None:
            return False
        remaining.remove(found)
        expected = found.scale * found.extent
    return True


def _solve(
    final: Sequence[Dim], known: Mapping[str, Dim], sums: Sequence[_Sum]
) -> tuple[dict[str, Dim], list[PaddingRegion]] | None:
    """Each symbol in terms of the final indices, and the padding."""
    by_source: dict[str, list[tuple[IterSplit, Dim]]] = {}
    for number, dim in enumerate(final):
        splits = affine.iter_splits_of(dim, known)
        if splits is None or not _is_contiguous(splits):
            return None
        rest = dim
        for split in splits:
            rest = rest - split.scale * affine.split_value(split, known)
            value = _extract_split(dims.symbol(final_symbol(number)), split, splits)
            if split.extent != 1:
                by_source.setdefault(split.source, []).append((split, value))
        if rest != 0:
            return None
    values: dict[str, Dim] = {}
    padding: list[PaddingRegion] = []
    starts = {fused_sum.name: fused_sum.start for fused_sum in sums}
    for name, extent in known.items():
        ordered = _order_splits(by_source.get(name, []))
        if ordered is None:
            return None
        values[name] = 0
        for split, value in ordered:
            values[name] = values[name] + split.lower_factor * value
        top = ordered[-1][0] if ordered else None
        if top is None or not _is_most_significant(top, extent):
            return None
        padding += _padding_regions(ordered, extent, starts.get(name, 0))
    return values, padding


def _is_most_significant(top: IterSplit, extent: Dim) -> bool:
    """Whether a split is the most significant one of an index."""
    return dims.ceildiv(extent, top.lower_factor) == top.extent


def _order_splits(
    parts: Sequence[tuple[IterSplit, Dim]],
) -> list[tuple[IterSplit, Dim]] | None:
    """Splits in ascending order without gaps, or None."""
    remaining = list(parts)
    found: list[tuple[IterSplit, Dim]] = []
    lower: Dim = 1
    while remaining:
        fits = next((p for p in remaining if p[0].lower_factor == lower), None)
        if fits is None:
            return None
        remaining.remove(fits)
        found.append(fits)
        lower = lower * fits[0].extent
    return found


def _padding_regions(
    ordered: Sequence[tuple[IterSplit, Dim]], extent: Dim, start: Dim
) -> list[PaddingRegion]:
    """The regions where splits decode to values below ``start``, or from ``extent`` on."""
    top, upper = ordered[-1]
    lower: Dim = 0
    for split, value in ordered[:-1]:
        lower = lower + split.lower_factor * value
    found: list[PaddingRegion] = []
    start_quotient, start_remainder = (
        dims.floordiv(start, top.lower_factor),
        dims.mod(start, top.lower_factor),
    )
    if start_quotient != 0:
        found.append(PaddingRegion(0, 0, upper, start_quotient, is_below=True))
    if start_remainder != 0:
        found.append(
            PaddingRegion(upper, start_quotient, lower, start_remainder, is_below=True)
        )
    rest = dims.mod(extent, top.lower_factor)
    if rest != 0:
        end_quotient = dims.floordiv(extent, top.lower_factor)
        is_greatest = rest == top.lower_factor - 1
        found.append(
            PaddingRegion(upper, end_quotient, lower, rest, False, is_greatest)
        )
    return found


def padding_term(padding: Sequence[PaddingRegion], symbols: Symbols) -> PrimExpr:
    """The padding predicate."""
    total: PrimExpr = prim.const(False)
    for number, region in enumerate(padding):
        upper, top, lower, bound = map(
            symbols.expr, (region.upper, region.top, region.lower, region.bound)
        )
        side = prim.LT(lower, bound) if region.is_below else prim.LE(bound, lower)
        side = prim.EQ(lower, bound) if region.is_greatest else side
        condition = (
            side if region.upper == region.top else prim.And(prim.EQ(upper, top), side)
        )
        total = prim.Or(total, condition) if number else condition
    return total
