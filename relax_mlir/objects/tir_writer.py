"""Tensor programs written statement by statement.

.. code-block:: python

    writer = ProgramWriter("scale")
    writer.buffer_param(x), writer.buffer_param(y)
    with writer.loop(i, 128), writer.block("Y") as block:
        vi = block.axis("S", 128, i, "vi")
        writer.store(y, x[vi] * 2.0, [vi])
    program = writer.finish()
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import dtypes, tensors
from relax_mlir.dialects.tir import (
    AllocBufferOp,
    AssertOp,
    AttrOp,
    BlockOp,
    DeclBufferOp,
    EvaluateOp,
    VectorStoreOp,
    marks,
)
from relax_mlir.dialects.tir.scalars import to_memory
from relax_mlir.objects import prim
from relax_mlir.objects.attributes import to_attribute
from relax_mlir.objects.block_frame import AXIS_KINDS, BlockFrame
from relax_mlir.objects.buffer import Buffer, BufferLoad, BufferRegion, Pointer
from relax_mlir.objects.memrefs import (
    buffer_marks,
    check_part,
    matched_part,
    memref_type,
)
from relax_mlir.objects.prim import PrimExpr, Range, Var
from relax_mlir.objects.program_params import Params
from relax_mlir.objects.term_writer import (
    TermWriter,
    scalar_type,
    vector_segments,
)

if TYPE_CHECKING:
    from relax_mlir.module import IRModule
    from relax_mlir.objects import stmt
    from relax_mlir.objects.prim_func import PrimFunc

__all__ = ["AXIS_KINDS", "LOOP_KINDS", "BlockFrame", "ProgramWriter"]

LOOP_KINDS = ("serial", "parallel", "vectorized", "unrolled", "thread_binding")


class ProgramWriter:
    """Writes one tensor program; parameters first, then statements.

    Args:
        name: of the function.
        module: where to put it; a module of its own if left out.
        is_open: whether variables and buffers may stand in it that nothing defines.
    """

    def __init__(
        self,
        name: str = "main",
        module: IRModule | None = None,
        *,
        is_open: bool = False,
    ) -> None:
        from relax_mlir.module import IRModule

        self.name = name
        self.module = module or IRModule.shared()
        self.params = Params()
        self.terms = TermWriter()
        self.terms.declare = self._declare
        self.free_buffers: dict[ir.Value, Buffer] = {}  # that no statement declares
        self._is_open = is_open
        self._early: list[Callable[[], Any]] = []  # waits for the first statement
        self._waiting: set[int] = set()  # the buffers that it makes
        self._function: func.FuncOp | None = None
        self._points: list[ir.InsertionPoint] = []
        self._pending: BlockFrame | None = None
        self._frames: list[BlockFrame] = []
        self._loops: dict[int, Range] = {}

    # parameters

    def buffer_param(self, buffer: Buffer, handle: Var | None = None) -> Var:
        """Take a buffer; returns the pointer that stands for it among the parameters."""
        if handle is None:
            handle = Pointer(f"var_{buffer.name}")
        self._check_not_begun(f"buffer `{buffer.name}`")
        self.params.add(handle)
        self.params.match(handle, buffer)
        return handle

    def handle_param(self, handle: Var) -> Var:
        """Take a pointer, whose buffer :meth:`match_param` tells later."""
        self._check_not_begun(f"pointer `{handle.name}`")
        self.params.add(handle)
        return handle

    def match_param(self, handle: Var, buffer: Buffer) -> None:
        """Say which buffer a pointer is."""
        self._check_not_begun(f"buffer `{buffer.name}`")
        self.params.match(handle, buffer)

    def scalar_param(self, var: Var) -> Var:
        """Take a number; an integer may be a size of buffers too."""
        self._check_not_begun(f"`{var.name}`")
        self.params.add(var)
        return var

    def _check_not_begun(self, what: str) -> None:
        if self._function is not None:
            raise ValueError(
                f"{what}: parameters and their buffers come before the first statement"
            )

    def check_known(self, buffer: Buffer) -> None:
        """Check that a buffer is one of the program.

        Raises:
            ValueError: it is not.
        """
        if id(buffer) in self._waiting:
            return
        self._begin()
        with self.module.context, ir.Location.unknown(), self._points[-1]:
            self.terms.buffer(buffer)

    def loop_domain(self, var: PrimExpr) -> Range:
        """The run of the loop that a variable belongs to.

        Raises:
            ValueError: it is no variable of an open loop.
        """
        if id(var) not in self._loops:
            raise ValueError(f"`{var}`: expected a variable of a loop around")
        return self._loops[id(var)]

    def rename(self, buffer: Buffer, name: str) -> None:
        """Give a buffer another name; also after it was allocated."""
        buffer.name = name
        if isinstance(buffer.data, Pointer) and buffer.data.buffer is buffer:
            buffer.data.name = name
        value = self.terms.buffers.get(id(buffer))
        if value is not None and not isinstance(value.owner, ir.Block):
            with self.module.context:
                value.owner.attributes[marks.NAME] = ir.StringAttr.get(name)

    def rename_variable(self, var: Var, name: str) -> None:
        """Give a variable another name; also after it was defined."""
        var.name = name
        value = self.terms.vars.get(id(var))
        if value is None:
            return
        owner = value.owner
        with self.module.context:
            if not isinstance(owner, ir.Block):
                if "name" in owner.attributes:
                    owner.attributes["name"] = ir.StringAttr.get(name)
            elif owner.owner.operation.name == "scf.for":
                owner.owner.attributes[marks.NAME] = ir.StringAttr.get(name)

    # where we write

    @contextmanager
    def here(self) -> Iterator[None]:
        """The place of the next statement as MLIR's insertion point."""
        self._begin()
        if self._pending is not None:
            frame, self._pending = self._pending, None
            frame.begin()
            deferred, frame.deferred = frame.deferred, []
            for write in deferred:
                write()
        with self.module.context, ir.Location.unknown(), self._points[-1]:
            yield

    def _begin(self) -> None:
        if self._function is not None:
            return
        with self.module.context, ir.Location.unknown():
            with ir.InsertionPoint(self.module.mlir.body):
                function = func.FuncOp(self.name, ir.FunctionType.get([], []))
            function.add_entry_block()
            self._function = function
            self.params.create(function, self.terms)
            self._points.append(ir.InsertionPoint(function.entry_block))
            if self._is_open:
                self.terms.entry = function.entry_block
        early, self._early = self._early, []
        for write in early:
            write()

    @contextmanager
    def _inside(
        self, region: ir.Region, types: Sequence[ir.Type]
    ) -> Iterator[ir.Block]:
        """A new block of a region, where statements go from here on."""
        locations = [ir.Location.unknown(self.module.context)] * len(types)
        block = ir.Block.create_at_start(region, list(types), locations)
        self._points.append(ir.InsertionPoint(block))
        known = dict(self.terms.buffers)
        try:
            yield block
        finally:
            self._points.pop()
            self.terms.buffers = known

    def _end(self, block: ir.Block, terminator: str, *operands: ir.Value) -> None:
        with self.module.context, ir.Location.unknown(), ir.InsertionPoint(block):
            ir.Operation.create(terminator, operands=list(operands))

    # statements

    @contextmanager
    def loop(
        self,
        var: Var,
        extent: Any,
        begin: Any = 0,
        *,
        kind: str = "serial",
        thread: str | None = None,
        annotations: Mapping[str, Any] | None = None,
        step: Any = None,
    ) -> Iterator[Var]:
        """A loop from ``begin`` on, below ``begin + extent``.

        Args:
            kind: ``serial``, ``parallel``, ``vectorized``, ``unrolled`` or
                ``thread_binding``.
            thread: the thread axis for the last.
            annotations: what schedules say of it.
            step: how far a step goes; 1 if left out.
        """
        start, count = prim.convert(begin), prim.convert(extent)
        index = ir.IndexType.get(self.module.context)
        with self.here():
            low = self.terms.index(start)
            high = self.terms.index(start + count)
            by = self.terms.index(prim.convert(1 if step is None else step))
            op = ir.Operation.create("scf.for", operands=[low, high, by], regions=1)
            _mark_loop(op, var, kind, thread, annotations)
        with self._inside(op.regions[0], [index]) as block:
            self._loops[id(var)] = Range.from_min_extent(start, count)
            with self.terms.defining(var, block.arguments[0]):
                yield var
            del self._loops[id(var)]
            self._end(block, "scf.yield")

    def block(self, name: str = "") -> BlockFrame:
        """A block; use it in a ``with``, name its axes there, then write its body."""
        return BlockFrame(self, name)

    @contextmanager
    def if_(self, condition: Any) -> Iterator[IfFrame]:
        """Statements for where a condition holds; :meth:`IfFrame.otherwise` for others."""
        with self.here():
            value = self.terms.value(prim.cast("bool", condition))
            op = ir.Operation.create("scf.if", operands=[value], regions=2)
        frame = IfFrame(self, op)
        with self._inside(op.regions[0], []) as block:
            yield frame
            self._end(block, "scf.yield")

    @contextmanager
    def while_(self, condition: Any) -> Iterator[None]:
        """Statements to repeat while a condition holds."""
        with self.here():
            op = ir.Operation.create("scf.while", regions=2)
        with self._inside(op.regions[0], []) as block, self.here():
            value = self.terms.value(prim.cast("bool", condition))
            self._end(block, "scf.condition", value)
        with self._inside(op.regions[1], []) as block:
            yield
            self._end(block, "scf.yield")

    def let(self, var: Var, value: Any) -> Var:
        """From here to the end of the region around, ``var`` stands for ``value``."""
        term = prim.cast(var.dtype, value)
        with self.here():
            is_index = self.terms.is_index(term)
            written = self.terms.index(term) if is_index else self.terms.value(term)
            self.terms.define(var, self.terms.let(var, written))
        return var

    def store(
        self,
        buffer: Buffer,
        value: Any,
        indices: Sequence[Any],
        predicate: Any = None,
    ) -> None:
        """``buffer[indices] = value``; ``predicate`` says which lanes of a vector.

        Raises:
            ValueError: another number of indices than dimensions.
        """
        place = BufferLoad(buffer, indices, predicate)
        term = prim.cast(place.dtype, value)
        with self.here():
            target = self.terms.buffer(buffer)
            stored = self.terms.value(term)
            where = [self.terms.index(i) for i in place.indices]
            stored = to_memory(stored, dtypes.dtype(place.dtype))
            if not where or not isinstance(where[-1].type, ir.VectorType):
                ir.Operation.create("memref.store", operands=[stored, target, *where])
                return
            lanes = place.predicate
            mask = [] if lanes is None else [self.terms.value(lanes)]
            ir.Operation.create(
                VectorStoreOp.OPERATION_NAME,
                operands=[stored, target, *where, *mask],
                attributes=vector_segments([1, 1, len(where) - 1, 1, len(mask)]),
            )

    def alloc(self, buffer: Buffer) -> Buffer:
        """A new buffer of the program, or of the block that we are in.

        In front of all statements it waits for the parameters, which may come later.
        """
        self._later(buffer, lambda: self._alloc(buffer, {}))
        return buffer

    def _later(self, buffer: Buffer, write: Callable[[], Any]) -> None:
        """Make a buffer when the axes or the parameters in front of it are known."""
        if self._function is not None and self._pending is None:
            write()
            return
        listed = self._early if self._function is None else self._frames[-1].deferred
        listed.append(write)
        self._waiting.add(id(buffer))

    def allocate(
        self, pointer: Var, memory: Buffer, annotations: Mapping[str, Any]
    ) -> None:
        """Memory like that of a buffer, of which a pointer alone is known."""
        said: dict[str, ir.Attribute] = {}
        with self.module.context:
            said[marks.ALLOCATE] = to_attribute(dict(annotations))
        with self.here():
            value = self._alloc(memory, said)
            self.terms.pointers[id(pointer)] = memory
            value.owner.attributes[marks.NAME] = ir.StringAttr.get(pointer.name)

    def _alloc(self, buffer: Buffer, said: Mapping[str, ir.Attribute]) -> ir.Value:
        with self.here():
            op = ir.Operation.create(
                AllocBufferOp.OPERATION_NAME,
                results=[memref_type(buffer)],
                operands=self._dynamic_sizes(buffer),
                attributes={**self._described(buffer), **said},
            )
            self.terms.define_buffer(buffer, op.results[0])
        return op.results[0]

    def _dynamic_sizes(self, buffer: Buffer) -> list[ir.Value]:
        sizes = [s for s in buffer.shape if not isinstance(s, prim.IntImm)]
        return [self.terms.index(s) for s in sizes]

    def _described(self, buffer: Buffer) -> dict[str, ir.Attribute]:
        return {
            "shape": tensors.shape_attr(self.params.symbols.dims(buffer.shape)),
            marks.NAME: ir.StringAttr.get(buffer.name),
            **buffer_marks(buffer),
        }

    def decl_buffer(self, buffer: Buffer) -> Buffer:
        """A buffer in memory that its pointer tells."""
        with self.here():
            self._declare_here(buffer, self.terms.value(buffer.data), {})
        return buffer

    def _declare_here(
        self, buffer: Buffer, pointer: ir.Value, said: Mapping[str, ir.Attribute]
    ) -> ir.Value:
        op = ir.Operation.create(
            DeclBufferOp.OPERATION_NAME,
            results=[memref_type(buffer)],
            operands=[pointer, *self._dynamic_sizes(buffer)],
            attributes={**self._described(buffer), **said},
        )
        self.terms.define_buffer(buffer, op.results[0])
        return op.results[0]

    def _declare(self, buffer: Buffer) -> ir.Value:
        """A buffer that no statement declares, where its memory is known."""
        pointer = self.terms.value(buffer.data)
        said = {marks.IMPLICIT: ir.UnitAttr.get()}
        made = self._declare_here(buffer, pointer, said)
        self.free_buffers[made] = buffer
        return made

    def match_buffer(self, buffer: Buffer, region: BufferRegion) -> Buffer:
        """A name for a box of a buffer, for the block that we are in."""
        check_part(buffer, region)
        self._later(buffer, lambda: self._match_buffer(buffer, region))
        return buffer

    def _match_buffer(self, buffer: Buffer, region: BufferRegion) -> None:
        with self.here():
            source = self.terms.buffer(region.buffer)
            part = matched_part(self.terms, source, buffer, region)
            self.terms.define_buffer(buffer, part)

    def evaluate(self, scalar: Any) -> None:
        """Compute a scalar for what else that does, such as calling a function."""
        term = prim.convert(scalar)
        with self.here():
            if isinstance(term, prim.Call) and term.dtype in ("void", ""):
                self.terms.generic_call(term)
            else:
                value = self.terms.value(term)
                ir.Operation.create(EvaluateOp.OPERATION_NAME, operands=[value])

    def assertion(self, condition: Any, message: str) -> None:
        """Say what holds here."""
        with self.here():
            value = self.terms.value(prim.cast("bool", condition))
            attributes = {"message": ir.StringAttr.get(message)}
            ir.Operation.create(
                AssertOp.OPERATION_NAME, operands=[value], attributes=attributes
            )

    @contextmanager
    def attr(self, node: Any, key: str, value: Any) -> Iterator[None]:
        """Statements of which something is said.

        Args:
            node: of what: a variable, a buffer, a number, a string, several of them, or a
                :class:`~prim.CommReducer`.
            key: what is said.
            value: the scalar or the string that goes with it.
        """
        form, nodes = _attribute_nodes(node)
        with self.here():
            operands, literals = self.terms.arguments([*nodes, prim.convert(value)])
            op = ir.Operation.create(
                AttrOp.OPERATION_NAME,
                operands=[tensors.pack(operands)],
                attributes={
                    "key": ir.StringAttr.get(key),
                    "form": ir.StringAttr.get(form),
                    "literals": ir.ArrayAttr.get(literals),
                },
                regions=2,
            )
        if isinstance(node, prim.CommReducer):
            self._combiner(op.regions[0], node)
        with self._inside(op.regions[1], []) as block:
            yield
            self._end(block, "gpu.yield")

    def _combiner(self, region: ir.Region, reducer: prim.CommReducer) -> None:
        variables = (*reducer.lhs, *reducer.rhs)
        with self.module.context:
            types = [scalar_type(v.dtype) for v in variables]
        with self._inside(region, types) as block, self.here():
            for var, argument in zip(variables, block.arguments, strict=True):
                self.terms.define(var, argument)  # pyright: ignore[reportArgumentType]
            self._end(block, "gpu.yield", *map(self.terms.value, reducer.result))

    # the end

    def finish(
        self,
        attrs: Mapping[str, Any] | None = None,
        ret_type: str | None = None,
        outputs: int | None = None,
    ) -> PrimFunc:
        """Close the program.

        Args:
            attrs: its attributes; with ``global_symbol`` it is public.
            ret_type: type of what it returns.
            outputs: how many buffers, the last ones, are results; left out, those at the
                end that it writes.
        """
        from relax_mlir.objects.prim_func import PrimFunc

        with self.here():
            func.ReturnOp([])
        function = self._function
        assert function is not None
        with self.module.context, ir.Location.unknown():
            self.params.mark(function, outputs)
            if ret_type:
                function.attributes[marks.RETURN_TYPE] = ir.StringAttr.get(ret_type)
            _inline_root(function)
        self.module.set_scope(self.name, self.params.scope())
        made = PrimFunc._view(self.module, self.name)
        made._set_attrs(attrs or {})
        return made

    def read_back(self) -> stmt.Stmt:
        """The statements so far, without a program around them; ends it."""
        from relax_mlir.objects.tir_reader import ProgramReader

        with self.here():
            func.ReturnOp([])
        assert self._function is not None
        with self.module.context, ir.Location.unknown():
            self.params.mark(self._function, None)
            reader = ProgramReader(self._function, self.params.scope())
            return reader.statements(self.terms.free, self.free_buffers)

    def abandon(self) -> None:
        """Take away what was written."""
        self._points.clear()
        if self._function is not None:
            self._function.operation.erase()
            self._function = None


class IfFrame:
    """A choice that is being written."""

    def __init__(self, writer: ProgramWriter, op: ir.Operation) -> None:
        self._writer, self._op = writer, op

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """Statements for where the condition does not hold; after those where it does."""
        writer = self._writer
        with writer._inside(self._op.regions[1], []) as block:
            yield
            writer._end(block, "scf.yield")


def _attribute_nodes(node: Any) -> tuple[str, Sequence[Any]]:
    """How what an attribute is about is listed; see ``AttrOp``."""
    if isinstance(node, prim.CommReducer):
        return "reducer", node.identity_element
    if isinstance(node, (list, tuple)):
        return "list", node
    is_thing = isinstance(node, (Buffer, prim.IterVar))
    return "one", [node if is_thing else prim.convert(node)]


def _mark_loop(
    op: ir.Operation,
    var: Var,
    kind: str,
    thread: str | None,
    annotations: Mapping[str, Any] | None,
) -> None:
    if kind not in LOOP_KINDS:
        raise ValueError(f"loop kind `{kind}`: expected {', '.join(LOOP_KINDS)}")
    op.attributes[marks.KIND] = ir.StringAttr.get(kind)
    op.attributes[marks.NAME] = ir.StringAttr.get(var.name)
    if thread:
        op.attributes[marks.THREAD] = ir.StringAttr.get(thread)
    if var.dtype != "int32":
        op.attributes[marks.DTYPE] = ir.StringAttr.get(var.dtype)
    if annotations:
        op.attributes[marks.ANNOTATIONS] = to_attribute(dict(annotations))


def _inline_root(function: func.FuncOp) -> None:
    """Take away a block that all of the program stands in; it is one anyway."""
    *operations, terminator = function.entry_block.operations
    if len(operations) != 1 or not isinstance(operations[0], BlockOp):
        return
    block = operations[0]
    if len(block.kinds.value) or len(block.init.blocks):
        return
    function.attributes[marks.ROOT] = block.attributes["name"]
    if marks.ANNOTATIONS in block.attributes:
        function.attributes[marks.ANNOTATIONS] = block.attributes[marks.ANNOTATIONS]
    *inner, _ = block.body.blocks[0].operations
    for op in inner:
        op.operation.move_before(terminator.operation)
    block.operation.erase()
