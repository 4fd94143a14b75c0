"""Tensor-expression builder used by the operators' ``legalize``.

It builds one tensor program: a ``func.func`` of :class:`BlockOp` over buffers. Every
computed buffer starts as an ``alloc_buffer``; :meth:`Builder.finish` replaces the results
by the program's destinations.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain, compress

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.dtypes import DType
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import attribute_names
from relax_mlir.dialects.tir.buffers import (
    Buffer,
    ConstantScalarBuffer,
    broadcast_axes,
    buffer_type,
    dtype_attributes,
)
from relax_mlir.dialects.tir.ops import AllocBufferOp, BlockOp
from relax_mlir.dialects.tir.reductions import REDUCTIONS, finite_identity
from relax_mlir.dialects.tir.scalars import (
    Index,
    Scalar,
    bitcast,
    cast,
    constant,
    emit,
    emit_dim,
    emit_same_type,
    select,
)

__all__ = ["Builder"]

Body = Callable[..., Scalar]


class Builder:
    """Builds the tensor program of one operator.

    Args:
        name: symbol of the function.
        operands: the operator's operands, by which ``legalize`` refers to its inputs;
            empty for a program that does not implement an operator.
        types: types of the operands, in the symbols of the program.
        results: types of the results, in the symbols of the program.
        names: substitution from the symbols of the operator's attributes to those of the
            program; None to derive it from the types of the operands.
        wanted: which results the program computes; None for all.
        numbers: rank-0 operands with compile-time values, which are not inputs.
        threads: whether the target has threads with shared memory (a GPU).
    """

    def __init__(
        self,
        name: str,
        operands: Sequence[ir.Value],
        types: Sequence[ir.RankedTensorType],
        results: Sequence[ir.RankedTensorType],
        names: Mapping[str, Dim] | None = None,
        wanted: Sequence[bool] | None = None,
        numbers: Mapping[ir.Value, float] | None = None,
        *,
        threads: bool = False,
    ) -> None:
        self.has_threads = threads
        self.results = [(tensors.shape_of(t), tensors.dtype_of(t)) for t in results]
        self.wanted = tuple(wanted or [True] * len(results))
        written = list(compress(self.results, self.wanted))
        shaped = [(tensors.shape_of(t), tensors.dtype_of(t)) for t in types]
        named = tuple((names or {}).values())
        dims = [*(shape for shape, _ in (*shaped, *self.results)), named]
        symbols = chain.from_iterable(map(shapes.symbols_of, chain.from_iterable(dims)))
        self.symbols = list(dict.fromkeys(symbols))
        memrefs = [buffer_type(*s) for s in (*shaped, *written)]
        index = ir.IndexType.get()
        signature = ir.FunctionType.get([*memrefs, *[index] * len(self.symbols)], [])
        self.function = func.FuncOp(name, signature)
        self._mark([*shaped, *written], len(written))
        self._block = self.function.add_entry_block()
        arguments = list(self._block.arguments)
        self.inputs = [
            Buffer(a, *s) for a, s in zip(arguments[: len(shaped)], shaped, strict=True)
        ]
        first_symbol = len(shaped) + len(written)
        self._sizes = dict(
            zip(self.symbols, map(Index, arguments[first_symbol:]), strict=True)
        )
        self._destinations = arguments[len(shaped) : first_symbol]
        self._by_value = list(zip(operands, self.inputs, strict=bool(operands)))
        self._numbers = {
            value: ConstantScalarBuffer(number, tensors.dtype_of(value))
            for value, number in (numbers or {}).items()
        }
        self._by_value += self._numbers.items()
        self._names = names
        self._dims: dict[Dim, Index | int] = {}

    def _mark(
        self, arguments: Sequence[tuple[Sequence[Dim], DType]], outputs: int
    ) -> None:
        attributes = self.function.attributes
        attributes[attribute_names.PRIM_FUNC] = ir.UnitAttr.get()
        attributes["tir.num_outputs"] = tensors.attr_of(outputs, ir.IntegerAttr)
        described: list[dict[str, ir.Attribute]] = [
            dtype_attributes(t) for _, t in arguments
        ]
        if self.symbols:
            for attrs, (shape, _) in zip(described, arguments, strict=True):
                attrs["tir.shape"] = tensors.shape_attr(shape)
        named: list[dict[str, ir.Attribute]] = [
            {attribute_names.SYMBOL: ir.StringAttr.get(s)} for s in self.symbols
        ]
        described += named
        if any(described):
            attributes["arg_attrs"] = ir.ArrayAttr.get(
                [ir.DictAttr.get(d) for d in described]
            )

    def buffer(self, value: "ir.Value | Buffer") -> Buffer:
        """The buffer of an operand of the operator."""
        if isinstance(value, Buffer):
            return value
        for operand, buffer in self._by_value:
            if operand == value:
                return buffer
        raise ValueError(
            "legalize used a value that is not an operand of its operation"
        )

    def buffers(self, *operands: ir.Value) -> list[Buffer]:
        """The buffers of all operands, in order; repeated operands have separate buffers."""
        inputs = iter(self.inputs)
        return [self._numbers.get(value) or next(inputs) for value in operands]

    def dim(self, dim: Dim) -> "Index | int":
        """A dimension as an index; computed once, at the start of the program.

        Raises:
            ValueError: it has a symbol that is not in the type of an operand or result.
        """
        if isinstance(dim, int):
            return dim
        if dim not in self._dims:
            missing = [s for s in shapes.symbols_of(dim) if s not in self._sizes]
            if missing:
                raise ValueError(
                    f"size `{dim}`: no operand or result defines `{missing[0]}`"
                )
            with ir.InsertionPoint.at_block_begin(self._block):
                self._dims[dim] = emit_dim(dim, self._sizes)
        return self._dims[dim]

    def local_dim(self, dim: Dim) -> Dim:
        """A size from an attribute of the operator, in the program's symbols."""
        if isinstance(dim, int):
            return dim
        if self._names is None:
            caller = [d for value, _ in self._by_value for d in tensors.shape_of(value)]
            local = [d for buffer in self.inputs for d in buffer.shape]
            self._names = shapes.bind_shape(caller, local)
        return shapes.substitute(dim, self._names)

    def alloc(
        self, shape: Sequence[Dim], dtype: DType, memory: str | None = None
    ) -> Buffer:
        """Allocates a buffer of the program.

        Args:
            shape: the dimensions.
            dtype: the element type.
            memory: the memory space on a GPU: ``shared`` by a thread block, or None.
        """
        sizes = [Index.value_of(self.dim(d)) for d in shape if not isinstance(d, int)]
        with ir.InsertionPoint(self._block):
            op = ir.Operation.create(
                AllocBufferOp.OPERATION_NAME,
                results=[buffer_type(shape, dtype, memory)],
                operands=sizes,
                attributes={
                    "shape": tensors.shape_attr(shape),
                    **dtype_attributes(dtype),
                },
            )
        return Buffer(op.results[0], shape, dtype)

    def block(
        self,
        name: str,
        extents: Sequence[Dim],
        kinds: str,
        body: Callable[..., None],
        init: Callable[..., None] | None = None,
    ) -> None:
        """A block whose ``body`` and ``init`` take the axis variables and emit stores."""
        with ir.InsertionPoint(self._block):
            values = [
                Index.value_of(self.dim(e)) for e in extents if not isinstance(e, int)
            ]
            static = [e if isinstance(e, int) else -1 for e in extents]
            op = ir.Operation.create(
                BlockOp.OPERATION_NAME,
                operands=values,
                attributes={
                    "name": ir.StringAttr.get(name),
                    "kinds": ir.StringAttr.get(kinds),
                    "static_extents": ir.DenseI64ArrayAttr.get(static),
                    "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(values), 0]),
                },
                regions=2,
            )
        for region, write in zip(op.regions, (init, body), strict=True):
            if write is not None:
                self._fill_region(region, len(extents), write)

    def _fill_region(
        self, region: ir.Region, rank: int, write: Callable[..., None]
    ) -> None:
        index = ir.IndexType.get()
        loc = ir.Location.current
        block = ir.Block.create_at_start(region, [index] * rank, [loc] * rank)
        with ir.InsertionPoint(block):
            write(*map(Index, block.arguments))
            ir.Operation.create("gpu.yield")

    def compute(
        self, shape: Sequence[Dim], body: Body, dtype: DType, name: str = "compute"
    ) -> Buffer:
        """A buffer whose element ``[i, j, ...]`` is ``body(i, j, ...)``."""
        out = self.alloc(shape, dtype)
        self.block(
            name, shape, "S" * len(shape), lambda *axes: out.store(body(*axes), axes)
        )
        return out

    def reduce_over(
        self,
        kind: str,
        shape: Sequence[Dim],
        reduced: Sequence[Dim],
        body: Body,
        dtype: DType,
        name: str = "reduce",
        *,
        spatial: Sequence[Dim] | None = None,
        access_map: "Callable[..., tuple[Index | int, ...]]" = lambda *axes: axes,
    ) -> Buffer:
        """A buffer whose elements reduce ``body(*spatial, *reduce)`` over the reduce axes.

        Sums and products of f16 and bf16 are accumulated in f32 and rounded at the end.

        Args:
            kind: ``add``, ``mul``, ``max``, ``min`` or ``or``.
            shape: the result's shape.
            reduced: the extents of the reduce axes.
            body: the reduced value, from the spatial and reduce axis variables.
            dtype: the result's element type.
            name: name of the block.
            spatial: the spatial extents, if they differ from the result's shape.
            access_map: indices of the result at a spatial point; a bijection.
        """
        if kind in ("add", "mul") and dtype != self.accumulator_dtype(dtype):
            wide = self.reduce_over(
                kind,
                shape,
                reduced,
                lambda *axes: self.widen(body(*axes)),
                _F32,
                name,
                spatial=spatial,
                access_map=access_map,
            )
            return self.map(lambda v: cast(v, dtype), wide, dtype=dtype, name="round")
        start, combine = REDUCTIONS[kind]
        out = self.alloc(shape, dtype)
        spatial = shape if spatial is None else spatial
        rank = len(spatial)

        def init(*axes: Index) -> None:
            out.store(
                constant(finite_identity(start, dtype), dtype), access_map(*axes[:rank])
            )

        def update(*axes: Index) -> None:
            value = body(*axes)
            where = access_map(*axes[:rank])
            out.store(combine(out[where], value), where)

        kinds = "S" * rank + "R" * len(reduced)
        self.block(name, (*spatial, *reduced), kinds, update, init)
        return out

    def map(
        self,
        fn: Callable[..., Scalar],
        *operands: "ir.Value | Buffer",
        dtype: DType | None = None,
        name: str = "map",
    ) -> Buffer:
        """An elementwise function of the operands, broadcast by numpy's rules."""
        buffers = [self.buffer(o) for o in operands]
        shape = shapes.broadcast(*(b.shape for b in buffers))

        def body(*axes: Index) -> Scalar:
            return fn(*(b[broadcast_axes(b.shape, shape, axes)] for b in buffers))

        return self.compute(shape, body, dtype or buffers[0].dtype, name)

    def reduce(
        self,
        kind: str,
        operand: "ir.Value | Buffer | Sequence[ir.Value | Buffer]",
        axes: Sequence[int],
        *,
        keepdims: bool = True,
        fn: Callable[..., Scalar] = lambda x: x,
        dtype: DType | None = None,
        name: str = "reduce",
    ) -> Buffer:
        """A reduction over ``axes`` of ``fn`` applied to every element.

        Several operands are broadcast by numpy's rules; ``fn`` takes an element of each.
        """
        operands = operand if isinstance(operand, Sequence) else [operand]
        buffers = [self.buffer(o) for o in operands]
        full = shapes.broadcast(*(b.shape for b in buffers))
        axes = shapes.normalize_axes(axes, len(full))
        kept = [i for i in range(len(full)) if i not in axes]
        shape = shapes.reduced(full, axes, keepdims)

        def body(*points: Index) -> Scalar:
            outer, inner = points[: len(shape)], points[len(shape) :]
            at = dict(zip(axes, inner, strict=True))
            at |= {i: outer[i if keepdims else n] for n, i in enumerate(kept)}
            where = [at[i] for i in range(len(full))]
            return fn(*(b[broadcast_axes(b.shape, full, where)] for b in buffers))

        extents = [full[a] for a in axes]
        return self.reduce_over(
            kind, shape, extents, body, dtype or buffers[0].dtype, name
        )

    def finish(self, results: "Buffer | Sequence[Buffer]") -> func.FuncOp:
        """Stores the wanted ``results`` in the destinations and ends the function."""
        results = [results] if isinstance(results, Buffer) else list(results)
        written = compress(zip(results, self.results, strict=True), self.wanted)
        inputs = {id(b) for b in self.inputs}
        used: list[ir.Value] = []
        for (result, (shape, type_)), destination in zip(
            written, self._destinations, strict=True
        ):
            if id(result) in inputs or any(result.value == v for v in used):
                source = result
                copy = self.compute(shape, lambda *i, s=source: s[i], type_, "copy")
                result = copy
            used.append(result.value)
            alloc = result.value.owner
            result.value.replace_all_uses_with(destination)
            alloc.erase()
        with ir.InsertionPoint(self._block):
            func.ReturnOp([])
        return self.function

    # Functions for use in bodies.
    constant = staticmethod(constant)
    select = staticmethod(select)
    cast = staticmethod(cast)
    bitcast = staticmethod(bitcast)

    @staticmethod
    def accumulator_dtype(dtype: DType) -> DType:
        """The accumulator type: f32 for f16, bf16 and narrower floats."""
        return _F32 if dtype.is_float and dtype.bits < 32 else dtype

    @staticmethod
    def widen(operand: Scalar) -> Scalar:
        """Casts to the accumulator type."""
        return cast(operand, Builder.accumulator_dtype(operand.dtype))

    @staticmethod
    def math(name: str, *operands: Scalar) -> Scalar:
        """The operation ``math.<name>``; f16 and bf16 are computed in f32."""
        type_ = operands[0].dtype
        wide = emit_same_type(f"math.{name}", *map(Builder.widen, operands))
        return cast(wide, type_)

    @staticmethod
    def exp_not_positive(operand: Scalar) -> Scalar:
        """exp(x) for x <= 0; subnormal results may be flushed to 0, which is faster."""
        result = emit_same_type("math.exp", operand)
        result.value.owner.attributes[attribute_names.NOT_POSITIVE] = ir.UnitAttr.get()
        return result

    def loop(
        self,
        extent: "Index | int",
        start: Sequence[Scalar],
        body: Callable[..., Sequence[Scalar]],
    ) -> list[Scalar]:
        """A sequential loop (``scf.for``) with loop-carried values.

        Args:
            extent: trip count.
            start: initial values of the loop-carried values.
            body: takes the iteration number and the carried values, returns the next
                ones; may store.
        """
        types = [s.value.type for s in start]
        bounds = [Index.value_of(i) for i in (0, extent, 1)]
        op = ir.Operation.create(
            "scf.for",
            results=types,
            operands=[*bounds, *(s.value for s in start)],
            regions=1,
        )
        types = [ir.IndexType.get(), *types]
        locations = [ir.Location.current] * len(types)
        block = ir.Block.create_at_start(op.regions[0], types, locations)
        with ir.InsertionPoint(block):
            step, *arguments = block.arguments
            carried = [
                Scalar(v, s.dtype) for v, s in zip(arguments, start, strict=True)
            ]
            following = body(Index(step), *carried)
            ir.Operation.create("scf.yield", operands=[s.value for s in following])
        return [Scalar(r, s.dtype) for r, s in zip(op.results, start, strict=True)]

    def parallel_loop(
        self, count: "Index | int", body: Callable[[Index], None]
    ) -> None:
        """A parallel loop at the top level of the program, distributed over threads.

        Besides it, a program has only buffers, which are private to each iteration.
        """
        with ir.InsertionPoint(self._block):
            self._marked_loop(count, body, {attribute_names.KIND: "parallel"})

    def block_loop(self, count: "Index | int", body: Callable[[Index], None]) -> None:
        """A loop bound to ``blockIdx.x``: each iteration is a thread block of a GPU."""
        with ir.InsertionPoint(self._block):
            self.bound_loop("blockIdx.x", count, body)

    def bound_loop(
        self, axis: str, count: "Index | int", body: Callable[[Index], None]
    ) -> None:
        """A loop with independent iterations, bound to a GPU thread axis.

        Args:
            axis: the thread axis, such as ``threadIdx.x``.
            count: trip count.
            body: takes the iteration number; may store.
        """
        self._marked_loop(
            count,
            body,
            {attribute_names.KIND: "thread_binding", attribute_names.THREAD: axis},
        )

    def _marked_loop(
        self,
        count: "Index | int",
        body: Callable[[Index], None],
        marked: Mapping[str, str],
    ) -> None:
        op = ir.Operation.create(
            "scf.for",
            operands=[Index.value_of(i) for i in (0, count, 1)],
            attributes={name: ir.StringAttr.get(v) for name, v in marked.items()},
            regions=1,
        )
        location = [ir.Location.current]
        block = ir.Block.create_at_start(op.regions[0], [ir.IndexType.get()], location)
        with ir.InsertionPoint(block):
            body(Index(block.arguments[0]))
            ir.Operation.create("scf.yield")

    def if_nonzero(self, count: Index, body: Callable[[], None]) -> None:
        """Executes ``body()``, which may store, if ``count`` is not 0."""
        bit, i64 = (ir.IntegerType.get_signless(bits) for bits in (1, 64))
        is_nonzero = emit(
            "arith.cmpi",
            bit,
            count.value,
            Index.value_of(0),
            predicate=ir.IntegerAttr.get(i64, _NOT_EQUAL),
        )
        op = ir.Operation.create("scf.if", operands=[is_nonzero], regions=2)
        with ir.InsertionPoint(ir.Block.create_at_start(op.regions[0], [])):
            body()
            ir.Operation.create("scf.yield")

    def read_if(
        self, condition: Scalar, read: Callable[[], Scalar], otherwise: Scalar
    ) -> Scalar:
        """``read()`` if ``condition`` holds, else ``otherwise``; a predicated load."""
        op = ir.Operation.create(
            "scf.if",
            results=[otherwise.value.type],
            operands=[condition.value],
            regions=2,
        )
        then = ir.Block.create_at_start(op.regions[0], [])
        with ir.InsertionPoint(then):
            value = read()
            ir.Operation.create("scf.yield", operands=[value.value])
        other = ir.Block.create_at_start(op.regions[1], [])
        with ir.InsertionPoint(other):
            ir.Operation.create("scf.yield", operands=[otherwise.value])
        return Scalar(op.results[0], value.dtype)


_F32 = DType("float32", "f", 32)
_NOT_EQUAL = 1  # predicate of arith.cmpi
