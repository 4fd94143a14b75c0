"""Attention: two products and the softmax between them as one launch."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Protocol, TypeVar

from mlir import ir

from relax_mlir.indexing import Part
from relax_mlir.schedules.configuration import Configuration
from relax_mlir.schedules.gpu.attention_block import AttentionBlock
from relax_mlir.schedules.gpu.attention_decode import AttentionDecode, reads_pieces
from relax_mlir.schedules.gpu.attention_products import (
    MmaProducts,
    Products,
    SimtProducts,
)
from relax_mlir.schedules.gpu.attention_softmax import SoftmaxPlan, plan_softmax
from relax_mlir.schedules.gpu.launch import ACCESS_BYTES, WARP
from relax_mlir.schedules.gpu.mma import HalfFragments, Tf32Fragments
from relax_mlir.schedules.gpu.points import or_one_by_one
from relax_mlir.schedules.gpu.rule import GpuRule
from relax_mlir.schedules.nest import Kernel, point_count
from relax_mlir.schedules.rule import Refusal

__all__ = ["Attention", "largest_for_all_processors", "sizes_of_heads"]

_MOST_DECODED = 7  # rows of a head; more are worth sharing what is read of keys
_FEWEST_ROWS = 5  # of a block, most of whose rows would be empty
_WIDEST = 256  # columns of values whose sums threads have in registers
_MOST_REGISTERS = 224  # of a thread, beside addresses
_FEW_BLOCKS = 128  # that leave processors without work
# What a block may have of shared memory, by compute capability.
_SHARED_BYTES = {80: 163 << 10, 86: 99 << 10, 89: 99 << 10, 90: 227 << 10}


@dataclass(frozen=True)
class AttentionConfiguration(Configuration):
    """How attention is cut.

    Attributes:
        rows: of a block, queries of a head; keys: of a tile.
        warp_rows: of a warp.
    """

    rule = "Attention"
    rows: int
    keys: int
    warp_rows: int


# Factors of 16 bits, and of 32: then more rows share what a warp reads of keys.
_HALVES = (
    AttentionConfiguration(128, 64, 16),
    AttentionConfiguration(128, 32, 16),
    AttentionConfiguration(64, 64, 16),
    AttentionConfiguration(64, 32, 16),
    AttentionConfiguration(32, 32, 16),
    AttentionConfiguration(16, 32, 16),
)
_WHOLES = (
    AttentionConfiguration(128, 32, 32),
    AttentionConfiguration(64, 32, 32),
    AttentionConfiguration(64, 32, 16),
    AttentionConfiguration(32, 32, 16),
    AttentionConfiguration(16, 32, 16),
)


@dataclass(frozen=True)
class Attention(GpuRule[SoftmaxPlan]):
    """A block for some queries of a head; scores in registers, never in memory.

    Factors of f16 and bf16 meet on tensor cores, weights rounded to their type; those of
    f32 if TF32 is allowed, and else on the other processors.
    """

    configuration: AttentionConfiguration | None = None

    def plan(self, kernel: Kernel) -> SoftmaxPlan:
        """Two products, with a softmax of rows of the first between them."""
        plan = plan_softmax(kernel)
        scores, values = plan.attention.scores, plan.attention.values
        factors = (scores.rows_of, scores.columns_of, values.columns_of)
        if {str(f.element) for f in factors} not in ({"f16"}, {"bf16"}, {"f32"}):
            raise Refusal("its factors are not all of f16, of bf16 or of f32")
        if any(isinstance(form, Part) for f in factors for form in f.access.forms):
            raise Refusal("a factor is read by parts of an axis")
        _, width = sizes_of_heads(plan)
        if _is_decoded(plan):
            return plan
        rows = plan.attention.extents[-1]
        if isinstance(rows, int) and rows < _FEWEST_ROWS:
            raise Refusal("it has few rows, and keys that do not lie in whole pieces")
        if width > _WIDEST:
            raise Refusal(f"its values have more than {_WIDEST} columns")
        if not self._fitting(plan):
            raise Refusal("its keys and values do not fit shared memory")
        return plan

    def pays(self, plan: SoftmaxPlan, constants: AbstractSet[ir.Value]) -> bool:
        """Whether it is faster than a program for each product, and what is between."""
        return True

    def configurations(self, plan: SoftmaxPlan) -> list[AttentionConfiguration]:
        """The largest blocks that give all processors work, then the others."""
        if _is_decoded(plan):
            return []
        return largest_for_all_processors(plan, self._fitting(plan))

    def _fitting(self, plan: SoftmaxPlan) -> list[AttentionConfiguration]:
        """The ways that registers and shared memory are enough for.

        Those in which threads share copies of 16 bytes evenly are the only ones, if there
        are any.
        """
        is_whole = isinstance(_element(plan), ir.F32Type)
        known = _WHOLES if is_whole else _HALVES
        fitting = [c for c in known if self._fits(plan, c)]
        even = [c for c in fitting if self._copies_evenly(plan, c)]
        return even or fitting

    def _fits(self, plan: SoftmaxPlan, made: AttentionConfiguration) -> bool:
        products = self._products(plan, made)
        tiles = [(made.rows, products.depth)]
        tiles += [(made.keys, size) for size in (products.depth, products.width)] * 2
        if isinstance(products, SimtProducts):
            tiles.append((made.rows, made.keys))  # weights
        # Whichever way they lie.
        elements = sum(a * b + products.pad * max(a, b) for a, b in tiles)
        bytes_ = elements * _element(plan).width // 8
        most = _SHARED_BYTES.get(self.gpu.sm, _SHARED_BYTES[86])
        return bytes_ <= most and products.registers <= _MOST_REGISTERS

    def _copies_evenly(self, plan: SoftmaxPlan, made: AttentionConfiguration) -> bool:
        products = self._products(plan, made)
        run = 8 * ACCESS_BYTES // _element(plan).width
        threads = made.rows // made.warp_rows * WARP
        tiles = (
            made.rows * products.depth,
            made.keys * products.depth,
            made.keys * products.width,
        )
        return all(size % (run * threads) == 0 for size in tiles)

    def _products(self, plan: SoftmaxPlan, made: AttentionConfiguration) -> Products:
        sizes = made.warp_rows, made.keys, *sizes_of_heads(plan)
        element = _element(plan)
        if not isinstance(element, ir.F32Type):
            return MmaProducts(HalfFragments(element), *sizes)
        if self.gpu.tf32:
            return MmaProducts(Tf32Fragments(), *sizes)
        return SimtProducts(*sizes)

    def write(self, plan: SoftmaxPlan) -> None:
        if _is_decoded(plan):
            AttentionDecode(plan).write()
            return
        made = self.configuration or self.configurations(plan)[0]
        element = _element(plan)

        def write(lanes: int) -> None:
            products = self._products(plan, made)
            AttentionBlock(plan, made.rows, products, element, lanes).write()

        or_one_by_one(lambda: write(Products.score_lanes), lambda: write(1))


def _is_decoded(plan: SoftmaxPlan) -> bool:
    """Whether it has so few queries that it takes as long as keys and values take."""
    *_, rows = plan.attention.extents
    return isinstance(rows, int) and rows <= _MOST_DECODED and reads_pieces(plan)


def _element(plan: SoftmaxPlan) -> ir.Type:
    """The type of factors."""
    return plan.attention.scores.rows_of.element


class _Cut(Protocol):
    """How attention is cut: rows of a block."""

    @property
    def rows(self) -> int: ...


C = TypeVar("C", bound=_Cut)


def largest_for_all_processors(plan: SoftmaxPlan, known: Sequence[C]) -> list[C]:
    """The first way whose blocks give all processors work, then the others.

    If none does, the first one of the smallest blocks.

    Args:
        known: one or more, those of the largest blocks first.
    """
    *heads, rows = (point_count([e]) for e in plan.attention.extents)
    count = point_count(heads)
    enough = [c for c in known if count * -(-rows // c.rows) >= _FEW_BLOCKS]
    best = enough[0] if enough else min(known, key=lambda c: c.rows)
    return [best, *(other for other in known if other != best)]


def sizes_of_heads(plan: SoftmaxPlan) -> tuple[int, int]:
    """Terms of a score, and columns of values.

    Raises:
        Refusal: they are not known.
    """
    scores, values = plan.attention.scores, plan.attention.values
    found = []
    for product, axes in ((scores, scores.k), (values, values.n)):
        extents = [product.anchor.extents[axis] for axis in axes]
        if not all(isinstance(e, int) for e in extents):
            raise Refusal("the sizes of its heads are not known")
        found.append(point_count(extents))
    return found[0], found[1]
