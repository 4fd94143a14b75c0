"""Kernels of contractions with a block for each tile of the result.

Slices of both operands, a few steps of the sum at a time, go through shared memory; the
next ones are read from memory while the threads multiply the present ones. Operands are
read by their indices, so that convolutions are products of windows.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence

from mlir import ir

from relax_mlir.schedules.emit import (
    Extent,
    add,
    for_loop,
    multiply,
    op,
    product,
    rem,
    unflatten,
)
from relax_mlir.schedules.flat import Flat
from relax_mlir.schedules.gpu.gemm_kernel import GemmKernel
from relax_mlir.schedules.gpu.gemm_parts import PART
from relax_mlir.schedules.gpu.gemm_tile import Operand
from relax_mlir.schedules.gpu.launch import (
    alloc_shared,
    barrier,
    if_less,
    launch,
)

__all__ = ["GemmBlock"]

_STAGES = 4  # slices that are on their way, or multiplied
_MANY_SUMS = 64  # of a thread, which fit 128 registers with all else,
_THREADS_AT_ONCE = 512  # of so many threads of a processor
_WORD_BITS = 32


class GemmBlock(GemmKernel):
    """Writes a contraction whose threads bring slices of the operands themselves.

    Args:
        plan: the contraction; cut: how it is cut.
        lanes: neighbouring columns that a thread has the sums of.
    """

    # what kernels differ in

    copies = False  # whether slices lie as 16 bytes of memory do

    @property
    @abstractmethod
    def element(self) -> ir.Type:
        """The type of slices."""

    @abstractmethod
    def slice_shape(self, operand: Operand) -> list[int]:
        """Of an operand's slice in shared memory."""

    @abstractmethod
    def place(
        self, operand: Operand, half: Extent, point: Extent, step: Extent
    ) -> list[ir.Value]:
        """Where in an operand's slice a point of the tile, and a step of the sum, are.

        Args:
            half: which of its slices.
        """

    def put(
        self,
        operand: Operand,
        value: ir.Value,
        memory: ir.Value,
        half: Extent,
        point: Extent,
        step: Extent,
    ) -> None:
        """Write an element, or neighbours, of an operand to its slice."""
        is_vector = isinstance(value.type, ir.VectorType)
        name = "vector.store" if is_vector else "memref.store"
        op(name, None, value, memory, *self.place(operand, half, point, step))

    @abstractmethod
    def starts(self) -> list[ir.Value]:
        """The sums of a thread, in front of all products."""

    @abstractmethod
    def multiply(
        self,
        operands: Sequence[Operand],
        slices: Sequence[ir.Value],
        half: Extent,
        sums: list[ir.Value],
        thread: ir.Value,
    ) -> list[ir.Value]:
        """The sums of a thread after a slice."""

    @abstractmethod
    def results(
        self, sums: Sequence[ir.Value], thread: ir.Value
    ) -> list[tuple[Extent, list[tuple[Extent, ir.Value]]]]:
        """Where in the tile the sums of a thread are: by row, columns and vectors there."""

    # the kernel

    def _write_tiles(self) -> None:
        """A block for each tile of the result; neighbours share columns."""
        cut, tiles = self.cut, [self.cut.parts, *self.tiles]

        def thread(block: ir.Value, number: ir.Value) -> None:
            part, *where, column, row = unflatten(block, tiles)
            points = {a.number: p for a, p in zip(self._outer, where, strict=True)}
            points[PART] = part
            firsts = multiply(row, cut.rows), multiply(column, cut.columns)
            self._finish(points, firsts, number, self._sums(points, firsts, number))

        # Few sums need far fewer registers than that, and those of f64 more.
        is_full = cut.rows * cut.columns == _MANY_SUMS * cut.threads
        is_full = is_full and self.plan.element.width <= _WORD_BITS
        at_once = _THREADS_AT_ONCE // cut.threads if is_full else 1
        launch(product(tiles), cut.threads, thread, at_once)

    def _sums(
        self,
        outer: Mapping[int, Extent],
        firsts: tuple[Extent, Extent],
        thread: ir.Value,
    ) -> list[ir.Value]:
        """The sums of a thread of the tile from a row and a column on."""
        cut = self.cut
        sides = (
            (self.plan.rows_of, self._rows, cut.rows),
            (self.plan.columns_of, self._columns, cut.columns),
        )
        operands = [
            Operand(
                factor,
                Flat.of(factor.access),
                side,
                self._summed,
                size,
                cut.depth,
                self.element,
                cut.threads,
            )
            for factor, side, size in sides
        ]
        are_copied = self.copies and all(o.is_copied for o in operands)
        write = self._copied_sums if are_copied else self._staged_sums
        return write(operands, outer, firsts, thread)

    def _slices(self, operands: Sequence[Operand], count: int) -> list[ir.Value]:
        shapes = [[count, *self.slice_shape(o)] for o in operands]
        return [alloc_shared(shape, self.element) for shape in shapes]

    def _staged_sums(
        self,
        operands: Sequence[Operand],
        outer: Mapping[int, Extent],
        firsts: tuple[Extent, Extent],
        thread: ir.Value,
    ) -> list[ir.Value]:
        """What is read ahead waits in registers; two slices take turns."""
        slices = self._slices(operands, 2)
        begin, turns = self._share(outer)

        def read(number: Extent) -> list[list[ir.Value]]:
            step = multiply(add(begin, number), self.cut.depth)
            return [
                o.read(outer, first, step, thread)
                for o, first in zip(operands, firsts, strict=True)
            ]

        def write(pieces: Sequence[Sequence[ir.Value]], half: Extent) -> None:
            for operand, found, memory in zip(operands, pieces, slices, strict=True):
                for value, (point, step) in operand.pieces(found, thread):
                    self.put(operand, value, memory, half, point, step)

        def turn(number: ir.Value, *before: ir.Value) -> list[ir.Value]:
            following = read(add(number, 1))
            half = rem(number, 2)
            after = self.multiply(operands, slices, half, list(before), thread)
            write(following, rem(add(number, 1), 2))
            barrier()
            return after

        write(read(0), 0)
        barrier()
        return for_loop(0, turns, 1, turn, self.starts())

    def _copied_sums(
        self,
        operands: Sequence[Operand],
        outer: Mapping[int, Extent],
        firsts: tuple[Extent, Extent],
        thread: ir.Value,
    ) -> list[ir.Value]:
        """Slices are on their way to shared memory while others are multiplied."""
        slices = self._slices(operands, _STAGES)
        begin, turns = self._share(outer)

        def copy(number: Extent) -> None:
            stage = rem(number, _STAGES)
            for operand, first, memory in zip(operands, firsts, slices, strict=True):

                def place(
                    point: Extent, step: Extent, operand: Operand = operand
                ) -> list[ir.Value]:
                    return self.place(operand, stage, point, step)

                step = multiply(add(begin, number), self.cut.depth)
                operand.copy(outer, first, step, thread, place, memory)
            op("nvvm.cp.async.commit.group", None)

        def turn(number: ir.Value, *before: ir.Value) -> list[ir.Value]:
            # All but the last slices on their way have arrived, those of all threads.
            i32 = ir.IntegerType.get_signless(32)
            op("nvvm.cp.async.wait.group", None, n=ir.IntegerAttr.get(i32, _STAGES - 2))
            barrier()
            copy(add(number, _STAGES - 1))
            stage = rem(number, _STAGES)
            return self.multiply(operands, slices, stage, list(before), thread)

        for number in range(_STAGES - 1):
            copy(number)
        return for_loop(0, turns, 1, turn, self.starts())

    def _finish(
        self,
        outer: Mapping[int, Extent],
        firsts: tuple[Extent, Extent],
        thread: ir.Value,
        sums: Sequence[ir.Value],
    ) -> None:
        """Write the sums of a thread, through the maps that follow."""
        first_row, first_column = firsts
        for place, found in self.results(sums, thread):
            row = add(first_row, place)

            def write_row(
                row: Extent = row,
                found: Sequence[tuple[Extent, ir.Value]] = found,
            ) -> None:
                at = {**outer, **self._rows.points(row)}
                for column, value in found:
                    self._finish_vector(at, add(first_column, column), value)

            if_less(row, self._rows.extent, write_row)
