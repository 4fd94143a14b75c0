"""Primitives for buffer layouts, iter domains and access regions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from mlir import ir

from relax_mlir.errors import MismatchError, ScheduleError
from relax_mlir.objects import prim
from relax_mlir.objects.stmt.buffer import Buffer, BufferLoad
from relax_mlir.tvm.tir.schedule import (
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
from relax_mlir.tvm.tir.schedule.base import primitive
from relax_mlir.tvm.tir.schedule.index_map import IndexMap
from relax_mlir.tvm.tir.schedule.random_variables import BlockRV
from relax_mlir.tvm.tir.schedule.tensor_blocks import TensorBlocks

__all__ = ["Layouts"]

BufferChoice = tuple[str, int] | int | str | Buffer
MapLike = IndexMap | Callable[..., Any] | str


class Layouts(TensorBlocks):
    """Primitives that transform layouts and iter domains."""

    def resolve_buffer(
        self, block: ir.Operation, buffer: BufferChoice, kind: str = ""
    ) -> tuple[str, int]:
        """Resolves a buffer argument to ``("read" | "write", index)``.

        Args:
            buffer: ``("read", 0)``, an index, a name or a buffer.
            kind: the meaning of a plain index: ``read`` or ``write``.

        Raises:
            AssertionError: the block does not access such a buffer.
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
            number = self.int_value(number)
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
        kind, number = chosen
        find = accesses.buffers_read if kind == "read" else accesses.buffers_written
        return find(block)[number]

    def _map(self, given: MapLike, ndim: int, block: ir.Operation) -> IndexMap:
        """An index map from a map, a function or the text of one."""
        if isinstance(given, IndexMap):
            return given
        dtype = next(iter(tree.iter_var_dtypes(block)), "int32")
        if isinstance(given, str):
            return IndexMap.from_text(given, dtype)
        return IndexMap.from_func(given, ndim, index_dtype=dtype)

    def _with_sampled(self, index_map: IndexMap) -> IndexMap:
        """A map with sampled values substituted."""
        known = {v: n for v, n in self._values.items() if isinstance(v, prim.Var)}
        return index_map.substitute(known)

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
        """Apply an index map to the layout of a buffer, and rewrite its accesses.

        Args:
            block: a block that accesses it.
            buffer: the buffer: ``("read", 0)``, ``("write", 0)``, its name, or itself.
            index_map: the new indices of an element in terms of the old ones.
            pad_value: the value of padding elements: a number, or a function of the new indices;
                None if there is no padding. Blocks that write the buffer write it; for a buffer
                that no block writes, it is assumed.
            assume_injective_transform: whether to take the map as injective without proof.
        """
        block = self.resolve_block(block)
        op = self.block_op(block)
        chosen = self.resolve_buffer(op, buffer)
        value = self._buffer_value(op, chosen)
        rank = len(accesses.buffer_shape(value))
        separators: list[int] = []
        if isinstance(index_map, (IndexMap, str)):
            made = self._map(index_map, rank, op)
        else:
            dtype = next(iter(tree.iter_var_dtypes(op)), "int32")
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
        """The padding value as a function of the new indices; numbers get the buffer's dtype."""
        if given is None or isinstance(given, IndexMap):
            return given
        dtype = next(iter(tree.iter_var_dtypes(block)), "int32")
        element = buffers.element_dtype(buffer)
        if isinstance(given, str):
            read = IndexMap.from_text(given, dtype)
            (value,) = read.final_indices
            if not isinstance(value, prim.IntImm):
                return read
            # Integer literals in text carry no dtype.
            return IndexMap(
                read.initial_indices, [_convert_number(value.value, element)]
            )
        rank = len(index_map.final_indices)
        _check_type(given, element, buffer)
        if isinstance(given, prim.PrimExpr) or not callable(given):
            variables = [prim.Var(f"indices_{n}", dtype) for n in range(rank)]
            return IndexMap(variables, [_convert_number(given, element)])
        named = IndexMap.from_func(_signature_of(given), rank, index_dtype=dtype)
        found: Any = given(*named.initial_indices)
        value = found[0] if isinstance(found, (tuple, list)) else found
        _check_no_reads(value, buffer)
        return IndexMap(named.initial_indices, [_convert_number(value, element)])

    @primitive
    def transform_block_layout(self, block: BlockRV | str, index_map: MapLike) -> None:
        """Apply an index map to the iter domain of a block, with a new loop nest.

        Args:
            block: a block whose bindings are loops of a perfect nest.
            index_map: the new iter vars in terms of the old ones; must be bijective.
        """
        block = self.resolve_block(block)
        op = self.block_op(block)
        made = self._map(index_map, len(tree.iter_kinds(op)), op)
        block_layout.transform_block_layout(self.state, op, self._with_sampled(made))
        self.record("TransformBlockLayout", [block], [made])

    @primitive
    def set_axis_separator(
        self,
        block: BlockRV | str,
        buffer: tuple[str, int] | str | Buffer,
        axis_separators: Sequence[int] | None,
    ) -> None:
        """Set the axis separators of a buffer: each group of axes becomes one physical dimension.

        Args:
            block: a block that accesses the buffer.
            buffer: the buffer: ``("read", 0)``, ``("write", 0)``, its name, or itself.
            axis_separators: the axes before which a group ends.
        """
        block = self.resolve_block(block)
        op = self.block_op(block)
        chosen = self.resolve_buffer(op, buffer)
        separators = list(map(self.int_value, axis_separators or ()))
        value = self._buffer_value(op, chosen)
        element_types.set_axis_separator(self.state, op, value, separators)
        self.record("SetAxisSeparator", [block], [chosen, separators])

    @primitive
    def unsafe_set_dtype(
        self, block: BlockRV | str, buffer_index: int | str | Buffer, dtype: str
    ) -> None:
        """Change the element type of a buffer; values may change by rounding.

        Args:
            block: a block that writes the buffer.
            buffer_index: the index of the buffer in the block's write regions.
            dtype: the new type; values are converted at stores and loads.
        """
        block = self.resolve_block(block)
        op = self.block_op(block)
        number = self.buffer_index_of(op, buffer_index, is_write=True)
        element_types.unsafe_set_dtype(self.state, op, number, str(dtype))
        self.record("UnsafeSetDType", [block], [number, str(dtype)])

    @primitive
    def reindex(
        self, block: BlockRV | str, buffer: tuple[str, int] | str | Buffer
    ) -> BlockRV:
        """Redirect a block to a copy of a buffer that is indexed by its iter vars.

        Args:
            block: a block with one access pattern to the buffer.
            buffer: the buffer: ``("read", 0)``, ``("write", 0)``, its name, or itself.

        Returns:
            The copying block.
        """
        block = self.resolve_block(block)
        op = self.block_op(block)
        chosen = self.resolve_buffer(op, buffer)
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
        """Redirect a block to a cache of a buffer, indexed by a map of its iter vars.

        Args:
            block: a block with one access pattern to the buffer.
            read_buffer_index: the index of the buffer in the block's read regions.
            storage_scope: the storage scope of the cache.
            index_map: the cache indices in terms of the iter vars.

        Returns:
            The cache stage.
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
        """Redirect a block to write a cache indexed by a map of its iter vars, copied back after.

        Args:
            block: a block with one access pattern to the buffer.
            write_buffer_index: the index of the buffer in the block's write regions.
            storage_scope: the storage scope of the cache.
            index_map: the cache indices in terms of the iter vars.

        Returns:
            The cache stage.
        """
        return self._reindex_cache(
            block, write_buffer_index, storage_scope, index_map, is_read=False
        )

    @primitive
    def cache_index(
        self, block: BlockRV | str, storage_scope: str, cse_thresh: int = 0
    ) -> list[BlockRV]:
        """Precompute index expressions of a block's reads into buffers.

        Args:
            block: a block whose reads have nontrivial index expressions.
            storage_scope: the storage scope of the buffers.
            cse_thresh: the least number of occurrences of an expression; 0 for any.

        Returns:
            The blocks that compute the indices, one for each.
        """
        block = self.resolve_block(block)
        op = self.block_op(block)
        found = cache_index.cache_index(
            self.state, op, storage_scope, self.int_value(cse_thresh)
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
        """Override the read or write region of a block.

        Args:
            block: the block.
            buffer_index: the index of the buffer in the block's read or write regions.
            buf_type: ``read`` or ``write``.
            gen_new_ranges: maps the iter vars to an index, or a pair of begin and end, for each
                dimension.
        """
        block = self.resolve_block(block)
        op = self.block_op(block)
        ranges = buffer_access.access_region_of(op, gen_new_ranges)
        if buf_type not in ("read", "write"):
            raise ValueError(
                f"annotate_buffer_access: buf_type `{buf_type}`: expected `read` or "
                "`write`"
            )
        number = self.int_value(buffer_index)
        buffer_access.annotate_buffer_access(self.state, op, number, buf_type, ranges)
        self.record("AnnotateBufferAccess", [block], [number, buf_type, ranges])

    @primitive
    def unsafe_hide_buffer_access(
        self, block: BlockRV | str, buf_type: str, buf_index_array: Sequence[int]
    ) -> None:
        """Remove buffers from the read or write regions of a block.

        Args:
            block: the block.
            buf_type: ``read`` or ``write``.
            buf_index_array: the indices of the buffers.
        """
        block = self.resolve_block(block)
        numbers = list(map(self.int_value, buf_index_array))
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
        block = self.resolve_block(block)
        op = self.block_op(block)
        number = self.buffer_index_of(op, buffer_index, is_write=not is_read)
        kind = "read" if is_read else "write"
        value = accesses.buffer_at_index(
            op, number, f"reindex_cache_{kind}", is_write=not is_read
        )
        made = self._map(index_map, len(tree.iter_kinds(op)), op)
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


def _signature_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function with the same signature that returns 0, for its parameter names."""

    @functools.wraps(function)
    def zero(*args: Any, **named: Any) -> int:
        return 0

    return zero


def _check_type(given: Any, element: str, buffer: ir.Value) -> None:
    """Reject padding whose dtype differs from that of the buffer."""
    if isinstance(given, prim.PrimExpr) and given.dtype != element:
        raise ScheduleError(
            f"transform_layout: buffer `{accesses.buffer_name(buffer)}` has elements of "
            f"type {element}, but the padding is {given}, of type {given.dtype}"
        )


def _check_no_reads(value: Any, buffer: ir.Value) -> None:
    """Reject padding values that load from buffers."""
    if any(isinstance(t, BufferLoad) for t in prim.post_order(prim.convert(value))):
        raise ScheduleError(
            f"transform_layout: the padding of `{accesses.buffer_name(buffer)}` is {value}: "
            "expected only constants and the new indices"
        )


def _convert_number(value: Any, dtype: str) -> prim.PrimExpr:
    """A number converted to the dtype of a buffer, if it is of the same kind."""
    number = value.value if isinstance(value, (prim.IntImm, prim.FloatImm)) else value
    if not isinstance(number, (int, float)):
        return prim.convert(value)
    is_integer = isinstance(number, int)
    fits = is_integer == ("int" in dtype or dtype == "bool")
    return prim.const(number, dtype) if fits else prim.convert(value)
