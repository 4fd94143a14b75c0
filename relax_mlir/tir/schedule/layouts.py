"""Primitives that change how buffers are laid out and blocks go over them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from mlir import ir

from relax_mlir.errors import MismatchError, ScheduleError
from relax_mlir.objects import prim
from relax_mlir.objects.buffer import Buffer, BufferLoad
from relax_mlir.tir.schedule import (
    accesses,
    block_layout,
    buffer_access,
    buffers,
    cache_index,
    element_types,
    layout,
    reindex,
    tree,
)
from relax_mlir.tir.schedule.base import primitive
from relax_mlir.tir.schedule.index_map import IndexMap
from relax_mlir.tir.schedule.random_variables import BlockRV
from relax_mlir.tir.schedule.tensor_blocks import TensorBlocks

__all__ = ["Layouts"]

BufferChoice = tuple[str, int] | int | str | Buffer
MapLike = IndexMap | Callable[..., Any] | str


class Layouts(TensorBlocks):
    """What changes how buffers are laid out and blocks go over them."""

    def chosen_buffer(
        self, block: ir.Operation, buffer: BufferChoice, kind: str = ""
    ) -> tuple[str, int]:
        """Whether a block reads or writes a buffer, and as which number.

        Args:
            buffer: ``("read", 0)``, a number, a name or a buffer.
            kind: ``read`` or ``write`` where it has to be that.

        Raises:
            AssertionError: it does not touch such a buffer.
        """
        listed = {
            "read": accesses.buffers_read(block),
            "write": accesses.buffers_written(block),
        }
        if isinstance(buffer, int):
            buffer = (kind, buffer)
        if isinstance(buffer, (tuple, list)):
            which, number = buffer
            if which not in listed:
                raise MismatchError(
                    f"{tree.describe(block)}: expected a `read` or `write` buffer, got "
                    f"`{which}`"
                )
            number = self.number(number)
            if not 0 <= number < len(listed[which]):
                raise MismatchError(
                    f"{tree.describe(block)} has {len(listed[which])} {which} buffers: "
                    f"invalid buffer_index {number}"
                )
            return which, number
        name = buffer if isinstance(buffer, str) else buffer.name
        found = {
            b: (which, number)
            for which in ("write", "read")
            for number, b in enumerate(listed[which])
            if accesses.buffer_name(b) == name
        }
        if len(found) != 1:
            problem = "several buffers" if found else "no buffer"
            raise MismatchError(f"{tree.describe(block)} has {problem} named `{name}`")
        (chosen,) = found
        return next(
            (which, n)
            for which in ("read", "write")
            for n, b in enumerate(listed[which])
            if b == chosen
        )

    def _buffer_value(self, block: ir.Operation, chosen: tuple[str, int]) -> ir.Value:
        which, number = chosen
        find = accesses.buffers_read if which == "read" else accesses.buffers_written
        return find(block)[number]

    def _map(self, given: MapLike, ndim: int, block: ir.Operation) -> IndexMap:
        """A map of indices, also where it is a function or the text of one."""
        if isinstance(given, IndexMap):
            return given
        dtype = next(iter(tree.axis_dtypes(block)), "int32")
        if isinstance(given, str):
            return IndexMap.from_text(given, dtype)
        return IndexMap.from_func(given, ndim, index_dtype=dtype)

    def _with_sampled(self, index_map: IndexMap) -> IndexMap:
        """A map with numbers in place of what was sampled."""
        known = {v: n for v, n in self._values.items() if isinstance(v, prim.Var)}
        return index_map.with_values(known)

    @primitive
    def transform_layout(
        self,
        block: BlockRV | str,
        buffer: tuple[str, int] | str | Buffer,
        index_map: MapLike,
        pad_value: Any = None,
        *,
        assume_injective_transform: bool = False,
    ) -> None:
        """Lay out a buffer differently, and rewrite what accesses it.

        Args:
            block: a block that accesses it.
            buffer: which: ``("read", 0)``, ``("write", 0)``, its name, or itself.
            index_map: the new indices of an element in terms of the old ones.
            pad_value: what stands in elements that no old one is moved to: a number, or
                a function of the new indices; None if there are none such. A block that
                writes the buffer writes it; of a buffer that no block writes, it is
                assumed.
            assume_injective_transform: whether to believe that no two elements come to
                lie on one.
        """
        block = self.block_of(block)
        op = self.block_op(block)
        chosen = self.chosen_buffer(op, buffer)
        value = self._buffer_value(op, chosen)
        rank = len(accesses.buffer_shape(value))
        separators: list[int] = []
        if isinstance(index_map, (IndexMap, str)):
            made = self._map(index_map, rank, op)
        else:
            dtype = next(iter(tree.axis_dtypes(op)), "int32")
            made, separators = IndexMap.from_func_with_separators(
                index_map, rank, index_dtype=dtype
            )
        padding = self._pad_value(pad_value, made, value, op)
        layout.transform_layout(
            self.state,
            op,
            value,
            self._with_sampled(made),
            None if padding is None else self._with_sampled(padding),
            assume_injective=assume_injective_transform,
        )
        attrs = [chosen, made, padding, bool(assume_injective_transform)]
        self.record("TransformLayout", [block], attrs)
        if separators:
            self.set_axis_separator(block, chosen, separators)

    def _pad_value(
        self, given: Any, index_map: IndexMap, buffer: ir.Value, block: ir.Operation
    ) -> IndexMap | None:
        """The value of padding in terms of the new indices; numbers fit the buffer."""
        if given is None or isinstance(given, IndexMap):
            return given
        dtype = next(iter(tree.axis_dtypes(block)), "int32")
        element = buffers.element_dtype(buffer)
        if isinstance(given, str):
            read = IndexMap.from_text(given, dtype)
            (value,) = read.final_indices
            if not isinstance(value, prim.IntImm):
                return read
            # Text writes integers of all index types alike.
            return IndexMap(read.initial_indices, [_fitting(value.value, element)])
        rank = len(index_map.final_indices)
        _check_type(given, element, buffer)
        if isinstance(given, prim.PrimExpr) or not callable(given):
            variables = [prim.Var(f"indices_{n}", dtype) for n in range(rank)]
            return IndexMap(variables, [_fitting(given, element)])
        named = IndexMap.from_func(_zero_of(given), rank, index_dtype=dtype)
        found: Any = given(*named.initial_indices)
        value = found[0] if isinstance(found, (tuple, list)) else found
        _check_no_reads(value, buffer)
        return IndexMap(named.initial_indices, [_fitting(value, element)])

    @primitive
    def transform_block_layout(self, block: BlockRV | str, index_map: MapLike) -> None:
        """Let a block go over other axes, in loops of their own.

        Args:
            block: each of its axes is a loop around it.
            index_map: the new axes in terms of the old ones; each point is met once.
        """
        block = self.block_of(block)
        op = self.block_op(block)
        made = self._map(index_map, len(tree.kinds_of(op)), op)
        block_layout.transform_block_layout(self.state, op, self._with_sampled(made))
        self.record("TransformBlockLayout", [block], [made])

    @primitive
    def set_axis_separator(
        self,
        block: BlockRV | str,
        buffer: tuple[str, int] | str | Buffer,
        axis_separators: Sequence[int] | None,
    ) -> None:
        """Say where groups of axes of a buffer end, each of which is one of its memory.

        Args:
            block: a block that accesses the buffer.
            buffer: which: ``("read", 0)``, ``("write", 0)``, its name, or itself.
            axis_separators: the numbers of the axes before which a group ends.
        """
        block = self.block_of(block)
        op = self.block_op(block)
        chosen = self.chosen_buffer(op, buffer)
        separators = list(map(self.number, axis_separators or ()))
        value = self._buffer_value(op, chosen)
        element_types.set_axis_separator(self.state, op, value, separators)
        self.record("SetAxisSeparator", [block], [chosen, separators])

    @primitive
    def unsafe_set_dtype(
        self, block: BlockRV | str, buffer_index: int | str | Buffer, dtype: str
    ) -> None:
        """Keep the elements of a buffer in another type; numbers may change by it.

        Args:
            block: a block that writes the buffer.
            buffer_index: which of those that it writes.
            dtype: the type; values are converted where they are stored and loaded.
        """
        block = self.block_of(block)
        op = self.block_op(block)
        number = self.buffer_number(op, buffer_index, is_write=True)
        element_types.unsafe_set_dtype(self.state, op, number, str(dtype))
        self.record("UnsafeSetDType", [block], [number, str(dtype)])

    @primitive
    def reindex(
        self, block: BlockRV | str, buffer: tuple[str, int] | str | Buffer
    ) -> BlockRV:
        """Let a block access a buffer by its axes, through a copy.

        Args:
            block: it accesses the buffer at one place of each point.
            buffer: which: ``("read", 0)``, ``("write", 0)``, its name, or itself.

        Returns:
            The block that copies.
        """
        block = self.block_of(block)
        op = self.block_op(block)
        chosen = self.chosen_buffer(op, buffer)
        value = self._buffer_value(op, chosen)
        made = self.new_block(
            reindex.reindex(self.state, op, value, is_read=chosen[0] == "read")
        )
        self.record("ReIndex", [block], [chosen], [made])
        return made

    @primitive
    def reindex_cache_read(
        self,
        block: BlockRV | str,
        read_buffer_index: int,
        storage_scope: str,
        index_map: MapLike,
    ) -> BlockRV:
        """Let a block read a copy of a buffer, laid out by the axes of the block.

        Args:
            block: it reads the buffer at one place of each point.
            read_buffer_index: which of those that it reads.
            storage_scope: the memory of the copy.
            index_map: where in the copy the element of a point is, in terms of the axes.

        Returns:
            The block that copies.
        """
        return self._reindex_cache(
            block, read_buffer_index, storage_scope, index_map, is_read=True
        )

    @primitive
    def reindex_cache_write(
        self,
        block: BlockRV | str,
        write_buffer_index: int,
        storage_scope: str,
        index_map: MapLike,
    ) -> BlockRV:
        """Let a block write a copy of a buffer, laid out by the axes of the block.

        Args:
            block: it writes the buffer at one place of each point.
            write_buffer_index: which of those that it writes.
            storage_scope: the memory of the copy.
            index_map: where in the copy the element of a point is, in terms of the axes.

        Returns:
            The block that copies.
        """
        return self._reindex_cache(
            block, write_buffer_index, storage_scope, index_map, is_read=False
        )

    @primitive
    def cache_index(
        self, block: BlockRV | str, storage_scope: str, cse_thresh: int = 0
    ) -> list[BlockRV]:
        """Compute the indices of what a block reads ahead, and keep them in buffers.

        Args:
            block: whose reads have indices that are more than axes.
            storage_scope: the memory of the new buffers.
            cse_thresh: how often an index has to be computed for that; 0 for any.

        Returns:
            The blocks that compute indices, one for each.
        """
        block = self.block_of(block)
        op = self.block_op(block)
        found = cache_index.cache_index(
            self.state, op, storage_scope, self.number(cse_thresh)
        )
        made = list(map(self.new_block, found))
        self.record("CacheIndex", [block], [storage_scope, cse_thresh], made)
        return made

    @primitive
    def annotate_buffer_access(
        self,
        block: BlockRV | str,
        buffer_index: int,
        buf_type: str,
        gen_new_ranges: Callable[..., Any] | str,
    ) -> None:
        """Say which box of a buffer a block touches at each point.

        Args:
            block: of which.
            buffer_index: which of the buffers that it reads or writes.
            buf_type: ``read`` or ``write``.
            gen_new_ranges: from the axes, for each dimension an index, or where the box
                begins and ends.
        """
        block = self.block_of(block)
        op = self.block_op(block)
        ranges = buffer_access.ranges_of(op, gen_new_ranges)
        if buf_type not in ("read", "write"):
            raise ValueError(
                f"annotate_buffer_access: buf_type `{buf_type}`: expected `read` or "
                "`write`"
            )
        number = self.number(buffer_index)
        buffer_access.annotate_buffer_access(self.state, op, number, buf_type, ranges)
        self.record("AnnotateBufferAccess", [block], [number, buf_type, ranges])

    @primitive
    def unsafe_hide_buffer_access(
        self, block: BlockRV | str, buf_type: str, buf_index_array: Sequence[int]
    ) -> None:
        """Do as if a block did not touch some buffers.

        Args:
            block: of which.
            buf_type: ``read`` or ``write``.
            buf_index_array: which of the buffers that it reads or writes.
        """
        block = self.block_of(block)
        numbers = list(map(self.number, buf_index_array))
        op = self.block_op(block)
        buffer_access.hide_buffer_access(self.state, op, buf_type, numbers)
        self.record("UnsafeHideBufferAccess", [block], [buf_type, numbers])

    def _reindex_cache(
        self,
        block: BlockRV | str,
        buffer_index: int,
        storage_scope: str,
        index_map: MapLike,
        *,
        is_read: bool,
    ) -> BlockRV:
        block = self.block_of(block)
        op = self.block_op(block)
        number = self.buffer_number(op, buffer_index, is_write=not is_read)
        kind = "read" if is_read else "write"
        value = accesses.buffer_of(
            op, number, f"reindex_cache_{kind}", is_write=not is_read
        )
        made = self._map(index_map, len(tree.kinds_of(op)), op)
        copied = reindex.reindex_cache(
            self.state,
            op,
            value,
            storage_scope,
            self._with_sampled(made),
            is_read=is_read,
        )
        given = self.new_block(copied)
        self.record(
            f"ReindexCache{kind.title()}",
            [block],
            [number, storage_scope, made],
            [given],
        )
        return given


def _zero_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the same parameters, for their names alone."""

    @functools.wraps(function)
    def zero(*args: Any, **named: Any) -> int:
        return 0

    return zero


def _check_type(given: Any, element: str, buffer: ir.Value) -> None:
    """Refuse padding that is said to have another type than the buffer."""
    if isinstance(given, prim.PrimExpr) and given.dtype != element:
        raise ScheduleError(
            f"transform_layout: buffer `{accesses.buffer_name(buffer)}` has elements of "
            f"type {element}, but the padding is {given}, of type {given.dtype}"
        )


def _check_no_reads(value: Any, buffer: ir.Value) -> None:
    """Refuse padding that is made of elements of buffers."""
    if any(isinstance(t, BufferLoad) for t in prim.post_order(prim.convert(value))):
        raise ScheduleError(
            f"transform_layout: the padding of `{accesses.buffer_name(buffer)}` is {value}: "
            "expected numbers and the new indices alone"
        )


def _fitting(value: Any, dtype: str) -> prim.PrimExpr:
    """A number in the type of a buffer, where it is one of that kind."""
    number = value.value if isinstance(value, (prim.IntImm, prim.FloatImm)) else value
    if not isinstance(number, (int, float)):
        return prim.convert(value)
    is_integer = isinstance(number, int)
    fits = is_integer == ("int" in dtype or dtype == "bool")
    return prim.const(number, dtype) if fits else prim.convert(value)
