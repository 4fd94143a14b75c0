"""Attention rule: flash attention, i.e. both matmuls and the softmax in one launch."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Protocol, TypeVar

from mlir import ir

from relax_mlir.analysis.index_maps import TiledIndex
from relax_mlir.schedules.configuration import Configuration
from relax_mlir.schedules.gpu.attention_decode import (
    AttentionDecode,
    allows_vector_loads,
)
from relax_mlir.schedules.gpu.attention_kernel import AttentionKernel
from relax_mlir.schedules.gpu.attention_matmuls import (
    MmaMatmuls,
    SimtMatmuls,
    WarpMatmuls,
)
from relax_mlir.schedules.gpu.attention_softmax import SoftmaxPlan, plan_softmax
from relax_mlir.schedules.gpu.launch import ACCESS_BYTES, WARP_SIZE
from relax_mlir.schedules.gpu.mma import HalfFragments, Tf32Fragments
from relax_mlir.schedules.gpu.pointwise import with_scalar_fallback
from relax_mlir.schedules.gpu.rule import GpuRule
from relax_mlir.schedules.kernel_view import Kernel, point_count
from relax_mlir.schedules.rule import NotApplicable

__all__ = ["Attention", "head_dims", "rank_attention_configurations"]

_MAX_DECODE_ROWS = 7  # queries of a head; with more, query tiles share loads of keys
_MIN_ROWS = 5  # queries of a head; with fewer, most rows of a tile are padding
_MAX_WIDTH = 256  # columns of values, whose accumulators are in registers
_MAX_REGISTERS = 224  # per thread, without addresses
_MIN_BLOCKS = 128  # fewer leave SMs idle
# Shared memory per block, by compute capability.
_SHARED_BYTES = {80: 163 << 10, 86: 99 << 10, 89: 99 << 10, 90: 227 << 10}


@dataclass(frozen=True)
class AttentionConfiguration(Configuration):
    """Tile sizes of flash attention.

    Attributes:
        rows: queries of a block tile; keys: of a K/V tile.
        warp_rows: queries of a warp tile.
    """

    rule = "Attention"
    rows: int
    keys: int
    warp_rows: int


# For 16-bit operands, and for f32: there larger warp tiles reuse more of the key loads.
_HALF_CONFIGURATIONS = (
    AttentionConfiguration(128, 64, 16),
    AttentionConfiguration(128, 32, 16),
    AttentionConfiguration(64, 64, 16),
    AttentionConfiguration(64, 32, 16),
    AttentionConfiguration(32, 32, 16),
    AttentionConfiguration(16, 32, 16),
)
_F32_CONFIGURATIONS = (
    AttentionConfiguration(128, 32, 32),
    AttentionConfiguration(64, 32, 32),
    AttentionConfiguration(64, 32, 16),
    AttentionConfiguration(32, 32, 16),
    AttentionConfiguration(16, 32, 16),
)


@dataclass(frozen=True)
class Attention(GpuRule[SoftmaxPlan]):
    """Flash attention: a block per tile of queries of a head; scores stay in registers.

    f16 and bf16 operands use tensor cores, with the softmax weights rounded to their type. f32
    operands use tensor cores if TF32 is allowed, else CUDA cores.
    """

    configuration: AttentionConfiguration | None = None

    def plan(self, kernel: Kernel) -> SoftmaxPlan:
        """Matches two matmuls with a row softmax in between."""
        plan = plan_softmax(kernel)
        scores, values = plan.attention.scores, plan.attention.values
        operands = (scores.lhs, scores.rhs, values.rhs)
        if {str(f.element) for f in operands} not in ({"f16"}, {"bf16"}, {"f32"}):
            raise NotApplicable("its operands are not all f16, bf16 or f32")
        if any(
            isinstance(form, TiledIndex) for f in operands for form in f.access.forms
        ):
            raise NotApplicable("an operand is indexed by floordiv or mod of an axis")
        _, width = head_dims(plan)
        if _is_decode(plan):
            return plan
        rows = plan.attention.extents[-1]
        if isinstance(rows, int) and rows < _MIN_ROWS:
            raise NotApplicable("it has few rows, and operands without 16-byte vectors")
        if width > _MAX_WIDTH:
            raise NotApplicable(f"its values have more than {_MAX_WIDTH} columns")
        if not self._fitting(plan):
            raise NotApplicable("its K/V tiles do not fit in shared memory")
        return plan

    def pays(self, plan: SoftmaxPlan, constants: AbstractSet[ir.Value]) -> bool:
        """Whether it is faster than separate kernels for the matmuls and the softmax."""
        return True

    def configurations(self, plan: SoftmaxPlan) -> list[AttentionConfiguration]:
        """The largest tiles that occupy all SMs first, then the others."""
        if _is_decode(plan):
            return []
        return rank_attention_configurations(plan, self._fitting(plan))

    def _fitting(self, plan: SoftmaxPlan) -> list[AttentionConfiguration]:
        """Configurations that fit in registers and shared memory.

        Only those whose 16-byte copies divide evenly among the threads, if there are any.
        """
        is_f32 = isinstance(_element(plan), ir.F32Type)
        known = _F32_CONFIGURATIONS if is_f32 else _HALF_CONFIGURATIONS
        fitting = [c for c in known if self._fits(plan, c)]
        even = [c for c in fitting if self._copies_evenly(plan, c)]
        return even or fitting

    def _fits(self, plan: SoftmaxPlan, config: AttentionConfiguration) -> bool:
        matmuls = self._matmuls(plan, config)
        tiles = [(config.rows, matmuls.depth)]
        tiles += [(config.keys, size) for size in (matmuls.depth, matmuls.width)] * 2
        if isinstance(matmuls, SimtMatmuls):
            tiles.append((config.rows, config.keys))  # weights
        # Upper bound over both layouts.
        elements = sum(a * b + matmuls.pad * max(a, b) for a, b in tiles)
        bytes_ = elements * _element(plan).width // 8
        limit = _SHARED_BYTES.get(self.gpu.sm, _SHARED_BYTES[86])
        return bytes_ <= limit and matmuls.registers <= _MAX_REGISTERS

    def _copies_evenly(self, plan: SoftmaxPlan, config: AttentionConfiguration) -> bool:
        matmuls = self._matmuls(plan, config)
        lanes = 8 * ACCESS_BYTES // _element(plan).width
        threads = config.rows // config.warp_rows * WARP_SIZE
        tiles = (
            config.rows * matmuls.depth,
            config.keys * matmuls.depth,
            config.keys * matmuls.width,
        )
        return all(size % (lanes * threads) == 0 for size in tiles)

    def _matmuls(
        self, plan: SoftmaxPlan, config: AttentionConfiguration
    ) -> WarpMatmuls:
        sizes = config.warp_rows, config.keys, *head_dims(plan)
        element = _element(plan)
        if not isinstance(element, ir.F32Type):
            return MmaMatmuls(HalfFragments(element), *sizes)
        if self.gpu.tf32:
            return MmaMatmuls(Tf32Fragments(), *sizes)
        return SimtMatmuls(*sizes)

    def write(self, plan: SoftmaxPlan) -> None:
        if _is_decode(plan):
            AttentionDecode(plan).write()
            return
        config = self.configuration or self.configurations(plan)[0]
        element = _element(plan)

        def write(lanes: int) -> None:
            matmuls = self._matmuls(plan, config)
            AttentionKernel(plan, config.rows, matmuls, element, lanes).write()

        with_scalar_fallback(lambda: write(WarpMatmuls.score_lanes), lambda: write(1))


def _is_decode(plan: SoftmaxPlan) -> bool:
    """Whether it is a decode step: so few queries that reading keys and values dominates."""
    *_, rows = plan.attention.extents
    return (
        isinstance(rows, int) and rows <= _MAX_DECODE_ROWS and allows_vector_loads(plan)
    )


def _element(plan: SoftmaxPlan) -> ir.Type:
    """The operand type."""
    return plan.attention.scores.lhs.element


class _HasRows(Protocol):
    """A configuration with a number of queries per block."""

    @property
    def rows(self) -> int: ...


C = TypeVar("C", bound=_HasRows)


def rank_attention_configurations(plan: SoftmaxPlan, known: Sequence[C]) -> list[C]:
    """Ranks configurations: first the largest tiles that occupy all SMs.

    If none does, the smallest tiles come first.

    Args:
        known: one or more, largest tiles first.
    """
    *heads, rows = (point_count([e]) for e in plan.attention.extents)
    count = point_count(heads)
    occupying = [c for c in known if count * -(-rows // c.rows) >= _MIN_BLOCKS]
    best = occupying[0] if occupying else min(known, key=lambda c: c.rows)
    return [best, *(other for other in known if other != best)]


def head_dims(plan: SoftmaxPlan) -> tuple[int, int]:
    """Head dimensions: of queries and keys, and of values.

    Raises:
        NotApplicable: they are dynamic.
    """
    scores, values = plan.attention.scores, plan.attention.values
    dims = []
    for matmul, axes in ((scores, scores.k), (values, values.n)):
        extents = [matmul.anchor.extents[axis] for axis in axes]
        if not all(isinstance(e, int) for e in extents):
            raise NotApplicable("its head dimensions are dynamic")
        dims.append(point_count(extents))
    return dims[0], dims[1]
