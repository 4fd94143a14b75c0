"""The tensor-expression builder: what an operator's ``legalize`` talks to.

It writes one tensor program: a ``func.func`` of :class:`BlockOp` over buffers. Every
computed buffer starts as an ``alloc_buffer``; :meth:`Builder.finish` makes the results
the program's destinations.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain, compress

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.dtypes import DType
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import marks
from relax_mlir.dialects.tir.buffers import (
    Buffer,
    Number,
    broadcast_axes,
    buffer_type,
    element_marks,
)
from relax_mlir.dialects.tir.ops import AllocBufferOp, BlockOp
from relax_mlir.dialects.tir.reductions import REDUCTIONS, finite
from relax_mlir.dialects.tir.scalars import (
    Index,
    Scalar,
    bitcast,
    cast,
    constant,
    emit,
    emit_dim,
    function,
    select,
)

__all__ = ["Builder"]

Body = Callable[..., Scalar]


class Builder:
    """Writes the tensor program of one operator.

    Args:
        name: symbol of the function.
        operands: the operator's values; ``legalize`` names its inputs by them. None for
            a program that is no operator's.
        types: their types with the symbols to use inside the program.
        results: the result types, likewise.
        names: what the symbols of the operator's attributes are called in the program;
            left out, that is read off the types of the operands.
        wanted: which results the program computes; left out, all.
        numbers: operands of rank 0 that are no inputs, since their values are known.
        threads: whether the machine has threads that share memory: a GPU.
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
        told = [*(shape for shape, _ in (*shaped, *self.results)), named]
        found = chain.from_iterable(map(shapes.symbols_of, chain.from_iterable(told)))
        self.symbols = list(dict.fromkeys(found))
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
            value: Number(number, tensors.dtype_of(value))
            for value, number in (numbers or {}).items()
        }
        self._by_value += self._numbers.items()
        self._names = names
        self._dims: dict[Dim, Index | int] = {}

    def _mark(
        self, arguments: Sequence[tuple[Sequence[Dim], DType]], outputs: int
    ) -> None:
        attributes = self.function.attributes
        attributes["tir.prim_func"] = ir.UnitAttr.get()
        attributes["tir.num_outputs"] = tensors.attr_of(outputs, ir.IntegerAttr)
        described: list[dict[str, ir.Attribute]] = [
            element_marks(t) for _, t in arguments
        ]
        if self.symbols:
            for attrs, (shape, _) in zip(described, arguments, strict=True):
                attrs["tir.shape"] = tensors.shape_attr(shape)
        named: list[dict[str, ir.Attribute]] = [
            {marks.SYMBOL: ir.StringAttr.get(s)} for s in self.symbols
        ]
        described += named
        if any(described):
            attributes["arg_attrs"] = ir.ArrayAttr.get(
                [ir.DictAttr.get(d) for d in described]
            )

    def buffer(self, value: "ir.Value | Buffer") -> Buffer:
        """The buffer that holds an operand of the operator."""
        if isinstance(value, Buffer):
            return value
        for operand, buffer in self._by_value:
            if operand == value:
                return buffer
        raise ValueError("legalize used a value that is no operand of its operation")

    def buffers(self, *operands: ir.Value) -> list[Buffer]:
        """The buffers of all operands, in order; each has one of its own."""
        inputs = iter(self.inputs)
        return [self._numbers.get(value) or next(inputs) for value in operands]

    def dim(self, dim: Dim) -> "Index | int":
        """A dimension as an index; computed once, where the program starts.

        Raises:
            ValueError: it mentions a symbol that the program does not know.
        """
        if isinstance(dim, int):
            return dim
        if dim not in self._dims:
            missing = [s for s in shapes.symbols_of(dim) if s not in self._sizes]
            if missing:
                raise ValueError(
                    f"size `{dim}`: no operand or result tells `{missing[0]}`"
                )
            with ir.InsertionPoint.at_block_begin(self._block):
                self._dims[dim] = emit_dim(dim, self._sizes)
        return self._dims[dim]

    def local(self, dim: Dim) -> Dim:
        """A size that an attribute of the operator mentions, in the program's symbols."""
        if isinstance(dim, int):
            return dim
        if self._names is None:
            theirs = [d for value, _ in self._by_value for d in tensors.shape_of(value)]
            ours = [d for buffer in self.inputs for d in buffer.shape]
            self._names = shapes.bind_shape(theirs, ours)
        return shapes.substitute(dim, self._names)

    def alloc(
        self, shape: Sequence[Dim], dtype: DType, memory: str | None = None
    ) -> Buffer:
        """A new buffer of the program.

        Args:
            memory: of a GPU that it lies in: ``shared`` by the threads of a block.
        """
        sizes = [Index.value_of(self.dim(d)) for d in shape if not isinstance(d, int)]
        with ir.InsertionPoint(self._block):
            op = ir.Operation.create(
                AllocBufferOp.OPERATION_NAME,
                results=[buffer_type(shape, dtype, memory)],
                operands=sizes,
                attributes={"shape": tensors.shape_attr(shape), **element_marks(dtype)},
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
        """A raw block: ``body`` and ``init`` get the axis variables and store themselves."""
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
        """A buffer whose element at ``i, j, ...`` is ``body(i, j, ...)``."""
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
        place: "Callable[..., tuple[Index | int, ...]]" = lambda *axes: axes,
    ) -> Buffer:
        """A buffer whose element combines ``body(*spatial, *reduce)`` over all reduce axes.

        Sums and products of f16 and bf16 are kept in f32, and rounded at the end.

        Args:
            kind: ``add``, ``mul``, ``max``, ``min`` or ``or``.
            shape: the result's shape.
            reduced: the extents of the reduce axes.
            spatial: the spatial extents, where they are not the result's shape.
            place: where the result of a spatial point lies: each element once.
        """
        if kind in ("add", "mul") and dtype != self.sum_dtype(dtype):
            wide = self.reduce_over(
                kind,
                shape,
                reduced,
                lambda *axes: self.wide(body(*axes)),
                _F32,
                name,
                spatial=spatial,
                place=place,
            )
            return self.map(lambda v: cast(v, dtype), wide, dtype=dtype, name="round")
        start, combine = REDUCTIONS[kind]
        out = self.alloc(shape, dtype)
        spatial = shape if spatial is None else spatial
        rank = len(spatial)

        def init(*axes: Index) -> None:
            out.store(constant(finite(start, dtype), dtype), place(*axes[:rank]))

        def update(*axes: Index) -> None:
            value = body(*axes)
            where = place(*axes[:rank])
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
        """Apply ``fn`` to every element, operands broadcast as numpy does."""
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
        """Combine the elements along ``axes``; ``fn`` is applied to each first.

        Several operands are broadcast as numpy does, and ``fn`` gets an element of each.
        """
        operands = operand if isinstance(operand, Sequence) else [operand]
        buffers = [self.buffer(o) for o in operands]
        full = shapes.broadcast(*(b.shape for b in buffers))
        axes = shapes.normalize_axes(axes, len(full))
        kept = [i for i in range(len(full)) if i not in axes]
        shape = shapes.reduced(full, axes, keepdims)

        def body(*points: Index) -> Scalar:
            outer, inner = points[: len(shape)], points[len(shape) :]
            place = dict(zip(axes, inner, strict=True))
            place |= {i: outer[i if keepdims else n] for n, i in enumerate(kept)}
            where = [place[i] for i in range(len(full))]
            return fn(*(b[broadcast_axes(b.shape, full, where)] for b in buffers))

        extents = [full[a] for a in axes]
        return self.reduce_over(
            kind, shape, extents, body, dtype or buffers[0].dtype, name
        )

    def finish(self, results: "Buffer | Sequence[Buffer]") -> func.FuncOp:
        """Make the wanted ``results`` the destinations and close the function."""
        results = [results] if isinstance(results, Buffer) else list(results)
        written = compress(zip(results, self.results, strict=True), self.wanted)
        own = {id(b) for b in self.inputs}
        used: list[ir.Value] = []
        for (result, (shape, type_)), destination in zip(
            written, self._destinations, strict=True
        ):
            if id(result) in own or any(result.value == v for v in used):
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

    # What bodies are written with.
    constant = staticmethod(constant)
    select = staticmethod(select)
    cast = staticmethod(cast)
    bitcast = staticmethod(bitcast)

    @staticmethod
    def sum_dtype(dtype: DType) -> DType:
        """The type that sums are kept in: f32 for f16 and bf16."""
        return _F32 if dtype.is_float and dtype.bits < 32 else dtype

    @staticmethod
    def wide(operand: Scalar) -> Scalar:
        """The operand in the type that its sums are kept in."""
        return cast(operand, Builder.sum_dtype(operand.dtype))

    @staticmethod
    def math(name: str, *operands: Scalar) -> Scalar:
        """``math.<name>``; f16 and bf16 are computed in f32."""
        type_ = operands[0].dtype
        wide = function(f"math.{name}", *map(Builder.wide, operands))
        return cast(wide, type_)

    @staticmethod
    def exp_not_positive(operand: Scalar) -> Scalar:
        """e to a power that is at most 0; subnormal results may be 0, which is faster."""
        result = function("math.exp", operand)
        result.value.owner.attributes[marks.NOT_POSITIVE] = ir.UnitAttr.get()
        return result

    def loop(
        self,
        extent: "Index | int",
        start: Sequence[Scalar],
        body: Callable[..., Sequence[Scalar]],
    ) -> list[Scalar]:
        """A loop in a body, first step to last; for what one step takes from the one before.

        Args:
            extent: number of steps.
            start: the values before the first step.
            body: gets the step's number and the values, returns the next values; may store.
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
            step, *carried = block.arguments
            values = [Scalar(v, s.dtype) for v, s in zip(carried, start, strict=True)]
            following = body(Index(step), *values)
            ir.Operation.create("scf.yield", operands=[s.value for s in following])
        return [Scalar(r, s.dtype) for r, s in zip(op.results, start, strict=True)]

    def tiles(self, count: "Index | int", body: Callable[[Index], None]) -> None:
        """Steps that do not depend on each other, which threads share.

        They are all of the program, beside its buffers, of which each step has its own.
        """
        with ir.InsertionPoint(self._block):
            self._marked_loop(count, body, {marks.KIND: "parallel"})

    def blocks(self, count: "Index | int", body: Callable[[Index], None]) -> None:
        """As :meth:`tiles`, of which each has a block of threads of a GPU."""
        with ir.InsertionPoint(self._block):
            self.bound("blockIdx.x", count, body)

    def bound(
        self, axis: str, count: "Index | int", body: Callable[[Index], None]
    ) -> None:
        """Steps that do not depend on each other, each of another thread of a GPU.

        Args:
            axis: of threads, such as ``threadIdx.x``.
        """
        self._marked_loop(
            count, body, {marks.KIND: "thread_binding", marks.THREAD: axis}
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

    def only_if(self, count: Index, body: Callable[[], None]) -> None:
        """``body()`` where a number is not 0; it may store."""
        bit, i64 = (ir.IntegerType.get_signless(bits) for bits in (1, 64))
        is_any = emit(
            "arith.cmpi",
            bit,
            count.value,
            Index.value_of(0),
            predicate=ir.IntegerAttr.get(i64, _NOT_EQUAL),
        )
        op = ir.Operation.create("scf.if", operands=[is_any], regions=2)
        with ir.InsertionPoint(ir.Block.create_at_start(op.regions[0], [])):
            body()
            ir.Operation.create("scf.yield")

    def guarded(
        self, condition: Scalar, read: Callable[[], Scalar], otherwise: Scalar
    ) -> Scalar:
        """``read()`` where ``condition`` holds, else ``otherwise``; never reads elsewhere."""
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
_NOT_EQUAL = 1  # of arith.cmpi's predicates
