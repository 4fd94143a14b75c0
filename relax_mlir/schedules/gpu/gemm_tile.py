"""Global-memory tiles of GEMM operands: thread mapping, predicated loads, ``cp.async``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.schedules.builder import (
    IndexLike,
    add,
    affine_value,
    broadcast,
    constant,
    div,
    if_else,
    index,
    less,
    multiply,
    op,
    product,
    rem,
    subtract,
    unflatten,
    vector_type,
)
from relax_mlir.schedules.contraction_axes import Axis
from relax_mlir.schedules.divisibility import known_divisor
from relax_mlir.schedules.flat_buffers import FlatAccess
from relax_mlir.schedules.gpu.launch import ACCESS_BYTES
from relax_mlir.schedules.match_contraction import ContractionOperand
from relax_mlir.symbolic.affine_forms import AffineForm

__all__ = ["GemmDim", "TiledOperand"]

_PHASE_THREADS = 8  # threads whose 16-byte shared-memory accesses are one transaction


@dataclass(frozen=True)
class GemmDim:
    """A GEMM dimension (M, N or K) as one or several loop axes.

    Attributes:
        axes: outermost first.
    """

    axes: Sequence[Axis]

    @property
    def extent(self) -> IndexLike:
        """Extent of the dimension: the product of its axes."""
        return product([axis.extent for axis in self.axes])

    def delinearize(self, number: IndexLike) -> dict[int, IndexLike]:
        """Delinearizes an index of the dimension into its axes."""
        where = unflatten(index(number), [axis.extent for axis in self.axes])
        return {axis.number: at for axis, at in zip(self.axes, where, strict=True)}

    def is_contiguous_in(self, flat: FlatAccess, count: int) -> bool:
        """Whether vectors of ``count`` points are contiguous in an operand."""
        last = self.axes[-1]
        stride, extent = flat.step(last.number), last.extent
        is_divisible = isinstance(extent, int) and extent % count == 0
        return isinstance(stride, int) and stride == 1 and is_divisible


@dataclass(frozen=True)
class TiledOperand:
    """A GEMM operand, loaded in tiles of ``size`` (M or N) by ``depth`` (K).

    Attributes:
        operand: the operand of the contraction.
        flat: its linear layout.
        mn_dim: its M or N dimension; k_dim: the K dimension.
        size, depth: of a tile.
        element: type to which loaded elements are extended.
        threads: of a block.
    """

    operand: ContractionOperand
    flat: FlatAccess
    mn_dim: GemmDim
    k_dim: GemmDim
    size: int
    depth: int
    element: ir.Type
    threads: int

    @property
    def vector_width(self) -> int:
        """Vector width of the loads, in elements."""
        most = 8 * ACCESS_BYTES // self.operand.element.width
        for count in (8, 4, 2):
            vectors = self.size * self.depth // count
            is_even = vectors % self.threads == 0 and self.depth % count == 0
            is_even = is_even and count <= most
            if is_even and (
                self._is_contiguous_along_k(count)
                or self._is_contiguous_along_mn(count)
            ):
                return count
        return 1

    def _is_contiguous_along_k(self, count: int) -> bool:
        return self._is_contiguous_along(self.k_dim, count)

    def _is_contiguous_along_mn(self, count: int) -> bool:
        return self._is_contiguous_along(self.mn_dim, count)

    def _is_contiguous_along(self, dim: GemmDim, count: int) -> bool:
        is_uniform = self._has_uniform_predicate(dim)
        return is_uniform and dim.is_contiguous_in(self.flat, count)

    def _has_uniform_predicate(self, dim: GemmDim) -> bool:
        """Whether one predicate holds for all elements of a vector."""
        return dim.axes[-1].number not in self.operand.padded_axes

    @property
    def is_k_major(self) -> bool:
        """Whether the operand is K-major: vectors are contiguous along K."""
        if self.vector_width > 1:
            return self._is_contiguous_along_k(self.vector_width)
        stride = self.flat.step(self.k_dim.axes[-1].number)
        return isinstance(stride, int) and stride == 1

    def positions(self, thread: ir.Value) -> list[tuple[IndexLike, IndexLike]]:
        """Positions (point, k) in a tile of the vectors of a thread."""
        vector_width, found = self.vector_width, []
        vectors = self.size * self.depth // vector_width
        for first in range(0, vectors, self.threads):
            number = add(thread, first)
            if self.is_k_major:
                per_row = self.depth // vector_width
                row = self._permute_rows(div(number, per_row), per_row)
                found.append((row, multiply(rem(number, per_row), vector_width)))
            else:
                per_step = self.size // vector_width
                found.append(
                    (
                        multiply(rem(number, per_step), vector_width),
                        div(number, per_step),
                    )
                )
        return found

    def _permute_rows(self, row: IndexLike, per_row: int) -> IndexLike:
        """Permutes rows so that the stores of eight threads have no bank conflicts.

        Rows of shared memory are padded by 16 bytes. Rows that are ``per_row`` apart, the
        number of 16-byte vectors of a row, then start at different banks.
        """
        is_full_width = self.vector_width * self.element.width == 8 * ACCESS_BYTES
        if per_row >= _PHASE_THREADS or self.size % _PHASE_THREADS or not is_full_width:
            return row
        rows, inside = _PHASE_THREADS // per_row, rem(row, _PHASE_THREADS)
        permuted = add(multiply(rem(inside, rows), per_row), div(inside, rows))
        return add(multiply(div(row, _PHASE_THREADS), _PHASE_THREADS), permuted)

    def load(
        self,
        outer: Mapping[int, IndexLike],
        first: IndexLike,
        k_index: IndexLike,
        thread: ir.Value,
    ) -> list[ir.Value]:
        """Emits the predicated loads of a thread's vectors of a tile; 0 out of bounds.

        Args:
            outer: indices of the batch axes.
            first: first point of the tile; k_index: first k.
        """
        found = []
        for row, k in self.positions(thread):
            point, at = add(first, row), add(k_index, k)
            found.append(self._load_vector(outer, point, at))
        return found

    def _load_vector(
        self, outer: Mapping[int, IndexLike], point: IndexLike, k_index: IndexLike
    ) -> ir.Value:
        vector_width, element = self.vector_width, self.operand.element
        type_ = vector_type(vector_width, element) if vector_width > 1 else element

        def inside() -> ir.Value:
            name = "vector.load" if vector_width > 1 else "memref.load"
            return op(name, type_, self.flat.view, self._offset(outer, point, k_index))

        def outside() -> ir.Value:
            zero = constant(0, element)
            return broadcast(zero, vector_width) if vector_width > 1 else zero

        predicate = self._predicate(outer, point, k_index)
        return if_else(predicate, type_, inside, outside)

    def _point(
        self, outer: Mapping[int, IndexLike], point: IndexLike, k_index: IndexLike
    ) -> dict[int, IndexLike]:
        return {
            **outer,
            **self.mn_dim.delinearize(point),
            **self.k_dim.delinearize(k_index),
        }

    def _offset(
        self, outer: Mapping[int, IndexLike], point: IndexLike, k_index: IndexLike
    ) -> ir.Value:
        return index(self.flat.offset(self._point(outer, point, k_index)))

    def _predicate(
        self, outer: Mapping[int, IndexLike], point: IndexLike, k_index: IndexLike
    ) -> ir.Value:
        """The predicate of an element: whether it is in bounds."""
        tests = [less(point, self.mn_dim.extent), less(k_index, self.k_dim.extent)]
        access = self.operand.access
        sizes = ir.MemRefType(access.buffer.type).shape
        where = self._point(outer, point, k_index)
        for dimension in sorted(self.operand.edges):
            form = access.forms[dimension]
            linear = AffineForm(form.coefficients)
            index_ = affine_value(linear, lambda axis: where.get(axis, 0))
            # Unsigned comparison: negative indices wrap around to large ones.
            tests.append(less(subtract(index_, -form.constant), sizes[dimension]))
        first, *others = tests
        for test in others:
            first = op("arith.andi", ir.IntegerType.get_signless(1), first, test)
        return first

    @property
    def supports_async_copy(self) -> bool:
        """Whether ``cp.async`` can copy the vectors, without passing through registers.

        They must be 16 bytes, 16-byte aligned, and need no conversion.
        """
        vector_width, element = self.vector_width, self.operand.element
        is_full_width = (
            vector_width * element.width == 8 * ACCESS_BYTES and element == self.element
        )
        contiguous = self.k_dim if self.is_k_major else self.mn_dim
        walked = contiguous.axes[-1].number  # vectors start at multiples of their width
        strides = [n for axis, n in self.flat.steps.items() if axis != walked]
        offsets = (*strides, self.flat.constant)
        return is_full_width and all(
            known_divisor(n) % vector_width == 0 for n in offsets
        )

    def copy_async(
        self,
        outer: Mapping[int, IndexLike],
        first: IndexLike,
        k_index: IndexLike,
        thread: ir.Value,
        place_of: Callable[[IndexLike, IndexLike], Sequence[ir.Value]],
        memory: ir.Value,
    ) -> None:
        """Emits ``cp.async`` of a thread's vectors to shared memory; 0 out of bounds.

        Args:
            outer, first, k_index: as for :meth:`load`.
            place_of: indices in shared memory of a point and a k.
        """
        count = ir.IntegerAttr.get(ir.IndexType.get(), self.vector_width)
        for row, k in self.positions(thread):
            point, at = add(first, row), add(k_index, k)
            predicate = self._predicate(outer, point, at)
            offset = self._offset(outer, point, at)
            source, elements = (
                op("arith.select", ir.IndexType.get(), predicate, index(n), index(0))
                for n in (offset, self.vector_width)
            )
            where = place_of(row, k)
            op(
                "nvgpu.device_async_copy",
                ir.Type.parse("!nvgpu.device.async.token"),
                memory,
                *where,
                self.flat.view,
                source,
                elements,
                dstElements=count,
                bypassL1=ir.UnitAttr.get(),
                operandSegmentSizes=ir.DenseI32ArrayAttr.get([1, len(where), 1, 1, 1]),
            )

    def positioned(
        self, found: Sequence[ir.Value], thread: ir.Value
    ) -> Iterator[tuple[ir.Value, tuple[IndexLike, IndexLike]]]:
        """The loaded vectors, extended, with their positions (point, k) in the tile."""
        for vector, position in zip(found, self.positions(thread), strict=True):
            yield self._extended(vector), position

    def _extended(self, vector: ir.Value) -> ir.Value:
        if self.element == self.operand.element:
            return vector
        assert self.operand.extend is not None
        type_ = self.element
        if isinstance(vector.type, ir.VectorType):
            type_ = vector_type(vector.type.shape[0], type_)
        return op(self.operand.extend, type_, vector)
