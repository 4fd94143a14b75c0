"""Warpgroup-level tensor-core instructions of Hopper: ``wgmma.mma_async`` and descriptors.

``wgmma.mma_async`` multiplies a 64 x K by a K x N matrix (N up to 256) and accumulates in f32.
Operands are in shared memory, in rows of 128 bytes with the 128-byte swizzle, K-major or
MN-major. A may be in registers instead: accumulators of a previous ``wgmma`` have the
layout of an A fragment.

Source: NVIDIA, PTX ISA, "Asynchronous warpgroup-level matrix instructions": layout of
fragments, matrix descriptors, 128-byte swizzling.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.schedules.builder import IndexLike, add, constant, index, op, rem
from relax_mlir.schedules.gpu.launch import if_less
from relax_mlir.schedules.gpu.tma_tiles import SWIZZLE_BYTES

__all__ = [
    "WARPGROUP",
    "WGMMA_M",
    "MatrixDescriptor",
    "OrderedWarpgroups",
    "WgmmaAccumulator",
    "set_max_registers",
]

WARPGROUP = 128  # threads
WGMMA_M = 64  # rows of an instruction

_K_BYTES = 32  # K of an instruction, in bytes
_UNIT = 16  # bytes: the unit of descriptor fields
_SWIZZLE = 1 << 62  # descriptor field: 128-byte swizzle


@dataclass(frozen=True)
class MatrixDescriptor:
    """The descriptor of a ``wgmma`` operand in shared memory.

    Attributes:
        descriptor: its 64-bit value; element: PTX name of the element type.
        mma_k: K of an instruction.
        is_k_major: whether it is K-major.
    """

    descriptor: ir.Value
    element: str
    mma_k: int
    is_k_major: bool

    @staticmethod
    def of_buffer(
        memory: ir.Value, element: str, depth: int, *, is_k_major: bool
    ) -> MatrixDescriptor:
        """The operand at the start of a buffer.

        Args:
            depth: of a K tile.
        """
        # Leading byte offset: between 128-byte wide columns of an MN-major tile. Stride byte
        # offset: between groups of eight rows.
        lead, stride = depth * SWIZZLE_BYTES, 8 * SWIZZLE_BYTES
        fields = _SWIZZLE | stride // _UNIT << 32 | lead // _UNIT << 16
        i64 = ir.IntegerType.get_signless(64)
        pointer = op(
            "memref.extract_aligned_pointer_as_index", ir.IndexType.get(), memory
        )
        descriptor = op("arith.ori", i64, _to_units(pointer), constant(fields, i64))
        size = memory.type.element_type.width // 8
        return MatrixDescriptor(descriptor, element, _K_BYTES // size, is_k_major)

    def offset_by(self, bytes_: IndexLike) -> MatrixDescriptor:
        """The operand at an offset, in bytes."""
        if isinstance(bytes_, int) and bytes_ == 0:
            return self
        i64 = self.descriptor.type
        descriptor = op("arith.addi", i64, self.descriptor, _to_units(index(bytes_)))
        return MatrixDescriptor(descriptor, self.element, self.mma_k, self.is_k_major)

    def advance_k(self, instructions: int) -> MatrixDescriptor:
        """The operand advanced along K by a number of instructions."""
        bytes_ = _K_BYTES if self.is_k_major else self.mma_k * SWIZZLE_BYTES
        return self.offset_by(instructions * bytes_)


def _to_units(bytes_: ir.Value) -> ir.Value:
    """Bytes in descriptor units; shared addresses have fewer than 18 bits."""
    i64 = ir.IntegerType.get_signless(64)
    number = op("arith.index_cast", i64, bytes_)
    return op("arith.shrui", i64, number, constant(4, i64))


@dataclass(frozen=True)
class WgmmaAccumulator:
    """A ``wgmma`` accumulator of 64 rows by some columns, in the registers of a warpgroup.

    Attributes:
        columns: N of the instruction.
    """

    columns: int

    @property
    def _type(self) -> ir.Type:
        fields = ", ".join(["f32"] * (self.columns // 2))
        return ir.Type.parse(f"!llvm.struct<({fields})>")

    def zeros(self) -> ir.Value:
        """A zero accumulator."""
        return op("llvm.mlir.zero", self._type)

    def fence(self) -> None:
        """Emits ``wgmma.fence``, which orders register accesses before the next ``wgmma``."""
        op("nvvm.wgmma.fence.aligned", None)

    def mma(
        self,
        rows: MatrixDescriptor,
        columns: MatrixDescriptor,
        accumulator: ir.Value | None,
    ) -> ir.Value:
        """Emits an asynchronous ``wgmma`` with both operands in shared memory.

        Args:
            accumulator: the accumulator; None to overwrite it.
        """
        kinds = {
            f"type{which}": ir.Attribute.parse(f"#nvvm.wgmma_type<{kind}>")
            for which, kind in (
                ("A", rows.element),
                ("B", columns.element),
                ("D", "f32"),
            )
        }
        # K-major is `row` for A, and `col` for B.
        layouts = (
            "row" if rows.is_k_major else "col",
            "col" if columns.is_k_major else "row",
        )
        shape = f"<m = {WGMMA_M}, n = {self.columns}, k = {rows.mma_k}>"
        one = ir.Attribute.parse("#nvvm.wgmma_scale_in<one>")
        scale = "zero" if accumulator is None else "one"
        return op(
            "nvvm.wgmma.mma_async",
            self._type,
            op("llvm.mlir.undef", self._type) if accumulator is None else accumulator,
            rows.descriptor,
            columns.descriptor,
            shape=ir.Attribute.parse(f"#nvvm.shape{shape}"),
            layoutA=ir.Attribute.parse(f"#nvvm.mma_layout<{layouts[0]}>"),
            layoutB=ir.Attribute.parse(f"#nvvm.mma_layout<{layouts[1]}>"),
            scaleA=one,
            scaleB=one,
            scaleD=ir.Attribute.parse(f"#nvvm.wgmma_scale_out<{scale}>"),
            satfinite=ir.Attribute.parse("#nvvm.mma_int_overflow<wrapped>"),
            **kinds,
        )

    def mma_from_registers(
        self,
        rows: Sequence[ir.Value],
        columns: MatrixDescriptor,
        accumulator: Sequence[ir.Value],
    ) -> ir.Value:
        """Emits an asynchronous ``wgmma`` with A in registers, as inline assembly.

        NVVM has no operation for it.

        Args:
            rows: the A fragment, four i32 of two elements: of rows r and r + 8, and the same
                for the next 8 k.
            accumulator: the accumulator as :meth:`elements` returns it.
        """
        count = len(accumulator)
        # Operands are numbered after results; the first ones are tied to the results.
        own, of_rows = (
            ", ".join(f"${n}" for n in numbers)
            for numbers in (range(count), range(2 * count, 2 * count + len(rows)))
        )
        shape = f"m{WGMMA_M}n{self.columns}k{columns.mma_k}"
        kind = f"{shape}.f32.{columns.element}.{columns.element}"
        is_transposed = int(not columns.is_k_major)
        text = (
            "{ .reg .pred p; setp.ne.b32 p, 1, 0; "
            f"wgmma.mma_async.sync.aligned.{kind} {{{own}}}, {{{of_rows}}}, "
            f"${2 * count + len(rows)}, p, 1, 1, {is_transposed}; }}"
        )
        tied = [str(n) for n in range(count)]
        constraints = ["=f"] * count + tied + ["r"] * len(rows) + ["l"]
        return op(
            "llvm.inline_asm",
            self._type,
            *accumulator,
            *rows,
            columns.descriptor,
            asm_string=ir.StringAttr.get(text),
            constraints=ir.StringAttr.get(",".join(constraints)),
            has_side_effects=ir.UnitAttr.get(),
        )

    def commit(self) -> None:
        """Emits ``wgmma.commit_group``."""
        op("nvvm.wgmma.commit.group.sync.aligned", None)

    def wait(self, left: int) -> None:
        """Waits until at most ``left`` groups are pending."""
        i64 = ir.IntegerType.get_signless(64)
        group = ir.IntegerAttr.get(i64, left)
        op("nvvm.wgmma.wait.group.sync.aligned", None, group=group)

    def elements(self, accumulator: ir.Value) -> list[ir.Value]:
        """The elements: four per 8 columns, as of ``mma.sync``; 16 rows per warp."""
        places = (ir.DenseI64ArrayAttr.get([n]) for n in range(self.columns // 2))
        f32 = ir.F32Type.get()
        return [op("llvm.extractvalue", f32, accumulator, position=p) for p in places]


@dataclass(frozen=True)
class OrderedWarpgroups:
    """Round-robin order of warpgroups by named barriers (ping-pong scheduling).

    Attributes:
        group: number of the thread's warpgroup; count: of warpgroups.
    """

    group: IndexLike
    count: int

    def start(self) -> None:
        """Signals warpgroup 0, which goes first."""
        if self.count > 1:
            if_less(self.count - 2, self.group, lambda: self._arrive(0))

    def wait_turn(self) -> None:
        """Waits for the turn of the own warpgroup."""
        if self.count > 1:
            self._wait(self.group)

    def signal_next(self) -> None:
        """Signals the next warpgroup."""
        if self.count > 1:
            self._arrive(rem(add(self.group, 1), self.count))

    def finish(self) -> None:
        """Consumes the last signal, so that all barriers complete."""
        if self.count > 1:
            if_less(self.group, 1, lambda: self._wait(0))

    def _wait(self, group: IndexLike) -> None:
        sizes = ir.DenseI32ArrayAttr.get([1, 1, 0])
        op("nvvm.barrier", None, *self._barrier(group), operandSegmentSizes=sizes)

    def _arrive(self, group: IndexLike) -> None:
        op("nvvm.barrier.arrive", None, *self._barrier(group))

    def _barrier(self, group: IndexLike) -> tuple[ir.Value, ir.Value]:
        """Id of a warpgroup's named barrier, and its threads: waiting and signalling ones."""
        i32 = ir.IntegerType.get_signless(32)
        number = op("arith.index_cast", i32, index(add(group, 1)))  # 0 is the block's
        return number, constant(2 * WARPGROUP, i32)


def set_max_registers(count: int, *, is_increase: bool) -> None:
    """Emits ``setmaxnreg``: changes the register count of the threads of a warpgroup."""
    i32 = ir.IntegerType.get_signless(32)
    action = "increase" if is_increase else "decrease"
    op(
        "nvvm.setmaxregister",
        None,
        regCount=ir.IntegerAttr.get(i32, count),
        action=ir.Attribute.parse(f"#nvvm<action {action}>"),
    )
