"""Tensor cores of four warps on Hopper: products of matrices in shared memory.

``wgmma.mma_async`` multiplies 64 rows of some steps of a sum with those of up to 256 columns,
and adds them to sums in f32. Both factors lie in rows of 128 bytes, whose 16-byte pieces
change places: rows along the sum, or runs of rows or columns for each step. Threads may have
the rows in registers instead, where sums of a product before lie as rows of the next.

Source: NVIDIA, PTX ISA, "Asynchronous warpgroup-level matrix instructions": layout of
fragments, matrix descriptors, 128-byte swizzling.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.schedules.emit import Extent, add, constant, index, op, rem
from relax_mlir.schedules.gpu.launch import if_less
from relax_mlir.schedules.gpu.tensor_boxes import ROW_BYTES

__all__ = [
    "ROWS",
    "WARPGROUP",
    "Matrix",
    "Products",
    "Rotation",
    "take_registers",
]

WARPGROUP = 128  # threads
ROWS = 64  # of a product

_STEP_BYTES = 32  # of a row along the sum that one instruction reads
_PIECE = 16  # bytes: the unit of descriptors
_SWIZZLE = 1 << 62  # of 128 bytes


@dataclass(frozen=True)
class Matrix:
    """A factor in shared memory.

    Attributes:
        descriptor: where it is; element: the type that instructions call its elements'.
        steps: of the sum, that one instruction reads.
        is_along_sum: whether its rows of 128 bytes are steps of the sum.
    """

    descriptor: ir.Value
    element: str
    steps: int
    is_along_sum: bool

    @staticmethod
    def at(memory: ir.Value, element: str, depth: int, *, is_along_sum: bool) -> Matrix:
        """The factor at the beginning of a buffer.

        Args:
            depth: steps of the sum of a slice.
        """
        # Bytes between runs of rows or columns, where these are the rows of 128 bytes; and
        # between eight rows and the next eight.
        lead, stride = depth * ROW_BYTES, 8 * ROW_BYTES
        fields = _SWIZZLE | stride // _PIECE << 32 | lead // _PIECE << 16
        i64 = ir.IntegerType.get_signless(64)
        pointer = op(
            "memref.extract_aligned_pointer_as_index", ir.IndexType.get(), memory
        )
        descriptor = op("arith.ori", i64, _pieces(pointer), constant(fields, i64))
        size = memory.type.element_type.width // 8
        return Matrix(descriptor, element, _STEP_BYTES // size, is_along_sum)

    def moved(self, bytes_: Extent) -> Matrix:
        """The factor that lies so far behind it."""
        if isinstance(bytes_, int) and bytes_ == 0:
            return self
        i64 = self.descriptor.type
        descriptor = op("arith.addi", i64, self.descriptor, _pieces(index(bytes_)))
        return Matrix(descriptor, self.element, self.steps, self.is_along_sum)

    def after(self, instructions: int) -> Matrix:
        """The factor from the steps on that come after those of some instructions."""
        bytes_ = _STEP_BYTES if self.is_along_sum else self.steps * ROW_BYTES
        return self.moved(instructions * bytes_)


def _pieces(bytes_: ir.Value) -> ir.Value:
    """As descriptors count them: shared memory has fewer than 2**18 bytes."""
    i64 = ir.IntegerType.get_signless(64)
    number = op("arith.index_cast", i64, bytes_)
    return op("arith.shrui", i64, number, constant(4, i64))


@dataclass(frozen=True)
class Products:
    """The sums of a thread of 64 rows by some columns.

    Attributes:
        columns: how many.
    """

    columns: int

    @property
    def _type(self) -> ir.Type:
        fields = ", ".join(["f32"] * (self.columns // 2))
        return ir.Type.parse(f"!llvm.struct<({fields})>")

    def zeros(self) -> ir.Value:
        """Of no products."""
        return op("llvm.mlir.zero", self._type)

    def begin(self) -> None:
        """Give registers to products: what threads have written of them is there."""
        op("nvvm.wgmma.fence.aligned", None)

    def add(self, rows: Matrix, columns: Matrix, sums: ir.Value | None) -> ir.Value:
        """``sums`` and the products of some steps, once they are waited for.

        Args:
            sums: None for the products alone.
        """
        kinds = {
            f"type{which}": ir.Attribute.parse(f"#nvvm.wgmma_type<{kind}>")
            for which, kind in (
                ("A", rows.element),
                ("B", columns.element),
                ("D", "f32"),
            )
        }
        # Rows of A along the sum are `row`; columns of B along it are `col`.
        layouts = (
            "row" if rows.is_along_sum else "col",
            "col" if columns.is_along_sum else "row",
        )
        shape = f"<m = {ROWS}, n = {self.columns}, k = {rows.steps}>"
        one = ir.Attribute.parse("#nvvm.wgmma_scale_in<one>")
        scale = "zero" if sums is None else "one"
        return op(
            "nvvm.wgmma.mma_async",
            self._type,
            op("llvm.mlir.undef", self._type) if sums is None else sums,
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

    def add_registers(
        self, rows: Sequence[ir.Value], columns: Matrix, sums: Sequence[ir.Value]
    ) -> ir.Value:
        """``sums`` and the products of 16 steps of rows that are in registers.

        NVVM has no operation for it.

        Args:
            rows: two neighbours each, as 32 bits: of a row, of the eighth row after, and
                those of the next 8 steps.
            sums: as :meth:`numbers` has them.
        """
        count = len(sums)
        # Operands are numbered behind results, which are the first of them once more.
        own, of_rows = (
            ", ".join(f"${n}" for n in numbers)
            for numbers in (range(count), range(2 * count, 2 * count + len(rows)))
        )
        shape = f"m{ROWS}n{self.columns}k{columns.steps}"
        kind = f"{shape}.f32.{columns.element}.{columns.element}"
        is_turned = int(not columns.is_along_sum)
        text = (
            "{ .reg .pred p; setp.ne.b32 p, 1, 0; "
            f"wgmma.mma_async.sync.aligned.{kind} {{{own}}}, {{{of_rows}}}, "
            f"${2 * count + len(rows)}, p, 1, 1, {is_turned}; }}"
        )
        tied = [str(n) for n in range(count)]
        constraints = ["=f"] * count + tied + ["r"] * len(rows) + ["l"]
        return op(
            "llvm.inline_asm",
            self._type,
            *sums,
            *rows,
            columns.descriptor,
            asm_string=ir.StringAttr.get(text),
            constraints=ir.StringAttr.get(",".join(constraints)),
            has_side_effects=ir.UnitAttr.get(),
        )

    def commit(self) -> None:
        """End a group of products."""
        op("nvvm.wgmma.commit.group.sync.aligned", None)

    def wait(self, left: int) -> None:
        """Wait for all groups but the last few."""
        i64 = ir.IntegerType.get_signless(64)
        group = ir.IntegerAttr.get(i64, left)
        op("nvvm.wgmma.wait.group.sync.aligned", None, group=group)

    def numbers(self, sums: ir.Value) -> list[ir.Value]:
        """The sums: four for each 8 columns, as those of ``mma.sync``; 16 rows a warp."""
        places = (ir.DenseI64ArrayAttr.get([n]) for n in range(self.columns // 2))
        f32 = ir.F32Type.get()
        return [op("llvm.extractvalue", f32, sums, position=p) for p in places]


@dataclass(frozen=True)
class Rotation:
    """Warpgroups that take turns to do something: one after the other, and again.

    Attributes:
        group: the number of the thread's among them; count: how many there are.
    """

    group: Extent
    count: int

    def begin(self) -> None:
        """Let the first one be the first."""
        if self.count > 1:
            if_less(self.count - 2, self.group, lambda: self._arrive(0))

    def wait(self) -> None:
        """Wait for one's turn."""
        if self.count > 1:
            self._wait(self.group)

    def pass_on(self) -> None:
        """It is the next one's turn."""
        if self.count > 1:
            self._arrive(rem(add(self.group, 1), self.count))

    def end(self) -> None:
        """The first one has had its last turn; all have had as many."""
        if self.count > 1:
            if_less(self.group, 1, lambda: self._wait(0))

    def _wait(self, group: Extent) -> None:
        sizes = ir.DenseI32ArrayAttr.get([1, 1, 0])
        op("nvvm.barrier", None, *self._barrier(group), operandSegmentSizes=sizes)

    def _arrive(self, group: Extent) -> None:
        op("nvvm.barrier.arrive", None, *self._barrier(group))

    def _barrier(self, group: Extent) -> tuple[ir.Value, ir.Value]:
        """The number of a warpgroup's barrier, and of threads: its own, and the last's."""
        i32 = ir.IntegerType.get_signless(32)
        number = op("arith.index_cast", i32, index(add(group, 1)))  # all threads have 0
        return number, constant(2 * WARPGROUP, i32)


def take_registers(count: int, *, is_more: bool) -> None:
    """Let each thread of a warpgroup have so many registers: more than before, or fewer."""
    i32 = ir.IntegerType.get_signless(32)
    action = "increase" if is_more else "decrease"
    op(
        "nvvm.setmaxregister",
        None,
        regCount=ir.IntegerAttr.get(i32, count),
        action=ir.Attribute.parse(f"#nvvm<action {action}>"),
    )
