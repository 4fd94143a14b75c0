"""Warp-level tensor-core instructions: fragments, ``ldmatrix`` and ``mma.sync``.

``mma.sync`` multiplies a 16 x K by a K x 8 matrix and accumulates in f32: K is 16 for f16 and
bf16, and 8 for TF32 (f32 rounded to 11 significant bits). The elements of the matrices are
distributed over the threads of the warp as fragments.

Source: NVIDIA, PTX ISA, "Warp-level matrix instructions": mma.m16n8k16, mma.m16n8k8 and
ldmatrix.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.schedules.builder import (
    IndexLike,
    add,
    div,
    extract_lane,
    index,
    multiply,
    op,
    rem,
)

__all__ = [
    "MMA_M",
    "MMA_N",
    "Fragments",
    "HalfFragments",
    "SharedStage",
    "Tf32Fragments",
    "pack_word",
]

MMA_M, MMA_N = 16, 8


@dataclass(frozen=True)
class SharedStage:
    """One pipeline stage of an operand in shared memory.

    Attributes:
        memory: ``[stage, point, k]``, or ``[stage, k, point]`` if transposed (MN-major).
        stage: the stage.
    """

    memory: ir.Value
    stage: IndexLike
    is_transposed: bool

    def at(self, point: IndexLike, step: IndexLike) -> list[ir.Value]:
        """Indices of an element."""
        inner = (step, point) if self.is_transposed else (point, step)
        return [index(self.stage), *map(index, inner)]


class Fragments(ABC):
    """Loads and multiplies fragments of an operand type.

    Attributes:
        mma_k: K of the instruction.
        pad: elements of padding per row of a K-major tile, against bank conflicts;
            transposed_pad: the same for an MN-major tile.
        element: PTX name of the operand type.
    """

    mma_k: int
    pad: int
    transposed_pad: int
    element: str

    @abstractmethod
    def load_a(
        self, slice_: SharedStage, lane: IndexLike, row: IndexLike, step: IndexLike
    ) -> list[ir.Value]:
        """Loads a fragment of A (16 rows).

        Args:
            lane: id of the thread in its warp.
            row: first row; step: first k.
        """

    @abstractmethod
    def load_b(
        self, slice_: SharedStage, lane: IndexLike, column: IndexLike, step: IndexLike
    ) -> list[list[ir.Value]]:
        """Loads two fragments of B (2 x 8 columns)."""

    @abstractmethod
    def a_from_accumulators(
        self, accumulators: Sequence[tuple[ir.Value, ir.Value]]
    ) -> list[ir.Value]:
        """Converts accumulators of a previous ``mma`` into a fragment of A (16 rows).

        Args:
            accumulators: they span the K of the instruction; per 8 columns, a pair of row r
                and a pair of row r + 8.
        """

    def load_b_for_accumulators(
        self, slice_: SharedStage, lane: IndexLike, column: IndexLike, step: IndexLike
    ) -> list[list[ir.Value]]:
        """:meth:`load_b`, with k permuted as in :meth:`a_from_accumulators`."""
        return self.load_b(slice_, lane, column, step)

    def mma(
        self,
        a: Sequence[ir.Value],
        b: Sequence[ir.Value],
        accumulators: Sequence[ir.Value],
    ) -> list[ir.Value]:
        """Emits ``mma.sync``.

        Args:
            a, b: fragments of A and B.
            accumulators: four in f32: a pair of row r and a pair of row r + 8.
        """
        kind = ir.Attribute.parse(f"#nvvm.mma_type<{self.element}>")
        shape = f"#nvvm.shape<m = {MMA_M}, n = {MMA_N}, k = {self.mma_k}>"
        found = op(
            "nvvm.mma.sync",
            ir.Type.parse("!llvm.struct<(f32, f32, f32, f32)>"),
            *a,
            *b,
            *accumulators,
            layoutA=ir.Attribute.parse("#nvvm.mma_layout<row>"),
            layoutB=ir.Attribute.parse("#nvvm.mma_layout<col>"),
            multiplicandAPtxType=kind,
            multiplicandBPtxType=kind,
            shape=ir.Attribute.parse(shape),
            operandSegmentSizes=ir.DenseI32ArrayAttr.get([4, 2, 4]),
        )
        places = (ir.DenseI64ArrayAttr.get([n]) for n in range(4))
        f32 = ir.F32Type.get()
        return [op("llvm.extractvalue", f32, found, position=p) for p in places]


class HalfFragments(Fragments):
    """Fragments of f16 or bf16, loaded by ``ldmatrix.x4``, with ``.trans`` if transposed.

    Args:
        element: the operand type.
    """

    mma_k = 16
    pad = transposed_pad = 8

    def __init__(self, element: ir.Type) -> None:
        self.element = str(element)

    def load_a(
        self, slice_: SharedStage, lane: IndexLike, row: IndexLike, step: IndexLike
    ) -> list[ir.Value]:
        if slice_.is_transposed:
            m = multiply(rem(div(lane, 8), 2), 8)
            k = add(rem(lane, 8), multiply(div(lane, 16), 8))
        else:
            m, k = rem(lane, 16), multiply(div(lane, 16), 8)
        return self._load(slice_, add(row, m), add(step, k))

    def load_b(
        self, slice_: SharedStage, lane: IndexLike, column: IndexLike, step: IndexLike
    ) -> list[list[ir.Value]]:
        if slice_.is_transposed:
            n, k = multiply(div(lane, 16), 8), rem(lane, 16)
        else:
            n = add(rem(lane, 8), multiply(div(lane, 16), 8))
            k = multiply(rem(div(lane, 8), 2), 8)
        found = self._load(slice_, add(column, n), add(step, k))
        return [found[:2], found[2:]]

    def a_from_accumulators(
        self, accumulators: Sequence[tuple[ir.Value, ir.Value]]
    ) -> list[ir.Value]:
        element = ir.F16Type.get() if self.element == "f16" else ir.BF16Type.get()
        pair = ir.VectorType.get([2], element)
        narrow = [op("arith.truncf", pair, p) for pairs in accumulators for p in pairs]
        return [self._register(p) for p in narrow]

    def _load(
        self, slice_: SharedStage, point: IndexLike, step: IndexLike
    ) -> list[ir.Value]:
        """Emits ``ldmatrix.x4``; each thread has the address of one row of 8 elements."""
        element = slice_.memory.type.element_type
        loaded = op(
            "nvgpu.ldmatrix",
            ir.VectorType.get([4, 2], element),
            slice_.memory,
            *slice_.at(point, step),
            transpose=ir.BoolAttr.get(slice_.is_transposed),
            numTiles=ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 4),
        )
        pair = ir.VectorType.get([2], element)
        places = (ir.DenseI64ArrayAttr.get([n]) for n in range(4))
        pairs = [op("vector.extract", pair, loaded, static_position=p) for p in places]
        return [self._register(p) for p in pairs]

    def _register(self, pair: ir.Value) -> ir.Value:
        """A pair of elements as the operand register that NVVM expects."""
        return pair if self.element == "f16" else pack_word(pair)


def pack_word(pair: ir.Value) -> ir.Value:
    """Packs a pair of 16-bit elements into an i32, unless it is one."""
    i32 = ir.IntegerType.get_signless(32)
    if pair.type == i32:
        return pair
    whole = op("vector.bitcast", ir.VectorType.get([1], i32), pair)
    first = ir.DenseI64ArrayAttr.get([0])
    return op("vector.extract", i32, whole, static_position=first)


class Tf32Fragments(Fragments):
    """Fragments of f32, converted to TF32 when they are loaded."""

    mma_k = 8
    pad, transposed_pad = 4, 8
    element = "tf32"

    def load_a(
        self, slice_: SharedStage, lane: IndexLike, row: IndexLike, step: IndexLike
    ) -> list[ir.Value]:
        m, k = div(lane, 4), rem(lane, 4)
        places = [(8 * (n % 2), 4 * (n // 2)) for n in range(4)]
        return [
            self._load(slice_, add(add(row, m), down), add(add(step, k), on))
            for down, on in places
        ]

    def load_b(
        self, slice_: SharedStage, lane: IndexLike, column: IndexLike, step: IndexLike
    ) -> list[list[ir.Value]]:
        return self._columns(slice_, lane, column, add(step, rem(lane, 4)), 4)

    def a_from_accumulators(
        self, accumulators: Sequence[tuple[ir.Value, ir.Value]]
    ) -> list[ir.Value]:
        # A thread has adjacent columns, where the instruction wants k and k + 4: K is permuted.
        (pairs,) = accumulators
        return [_to_tf32(extract_lane(pair, n)) for n in range(2) for pair in pairs]

    def load_b_for_accumulators(
        self, slice_: SharedStage, lane: IndexLike, column: IndexLike, step: IndexLike
    ) -> list[list[ir.Value]]:
        first = add(step, multiply(rem(lane, 4), 2))
        return self._columns(slice_, lane, column, first, 1)

    def _columns(
        self,
        slice_: SharedStage,
        lane: IndexLike,
        column: IndexLike,
        step: IndexLike,
        apart: int,
    ) -> list[list[ir.Value]]:
        """Loads two fragments of B, with two values of k per thread."""
        n = div(lane, 4)
        return [
            [
                self._load(slice_, add(add(column, n), on), add(step, down))
                for down in (0, apart)
            ]
            for on in (0, MMA_N)
        ]

    def _load(self, slice_: SharedStage, point: IndexLike, step: IndexLike) -> ir.Value:
        return _to_tf32(
            op("memref.load", ir.F32Type.get(), slice_.memory, *slice_.at(point, step))
        )


def _to_tf32(number: ir.Value) -> ir.Value:
    """Converts f32 to TF32 (``cvt.rna``), as the instruction expects."""
    return op(
        "nvvm.convert.float.to.tf32",
        ir.IntegerType.get_signless(32),
        number,
        rnd=ir.Attribute.parse("#nvvm.fp_rnd_mode<rna>"),
    )
