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

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import dtypes, tensors
from relax_mlir.dialects.tir import (
    AssertOp,
    AttrOp,
    BlockOp,
    EvaluateOp,
    UndefinedOp,
    VectorStoreOp,
    marks,
)
from relax_mlir.dialects.tir.scalars import to_memory
from relax_mlir.objects import prim
from relax_mlir.objects.attributes import to_attribute
from relax_mlir.objects.block_frame import BlockFrame
from relax_mlir.objects.buffer import Buffer, BufferLoad, BufferRegion
from relax_mlir.objects.call_writer import write_arguments, write_generic_call
from relax_mlir.objects.open_program import OpenProgram
from relax_mlir.objects.prim import PrimExpr, Range, Var
from relax_mlir.objects.said_regions import keep, restore
from relax_mlir.objects.scope import FunctionScope
from relax_mlir.objects.term_writer import vector_segments
from relax_mlir.objects.value_types import scalar_type
from relax_mlir.traversal import own_operations

if TYPE_CHECKING:
    from relax_mlir.module import IRModule
    from relax_mlir.objects import stmt
    from relax_mlir.objects.prim_func import PrimFunc

__all__ = ["LOOP_KINDS", "ProgramWriter"]

LOOP_KINDS = ("serial", "parallel", "vectorized", "unrolled", "thread_binding")


class ProgramWriter(OpenProgram):
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
        super().__init__(name, module, is_open=is_open)
        self._loops: dict[int, Range] = {}

    def loop_domain(self, var: PrimExpr) -> Range:
        """The run of the loop that a variable belongs to.

        Raises:
            ValueError: it is no variable of an open loop.
        """
        if id(var) not in self._loops:
            raise ValueError(f"`{var}`: expected a variable of a loop around")
        return self._loops[id(var)]

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
        with self.inside(op.regions[0], [index]) as block:
            self._loops[id(var)] = Range.from_min_extent(start, count)
            with self.terms.defining(var, block.arguments[0]):
                yield var
            del self._loops[id(var)]
            self.end(block, "scf.yield")

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
        with self.inside(op.regions[0], []) as block:
            yield frame
            self.end(block, "scf.yield")

    @contextmanager
    def while_(self, condition: Any) -> Iterator[None]:
        """Statements to repeat while a condition holds."""
        with self.here():
            op = ir.Operation.create("scf.while", regions=2)
        with self.inside(op.regions[0], []) as block, self.here():
            value = self.terms.value(prim.cast("bool", condition))
            self.end(block, "scf.condition", value)
        with self.inside(op.regions[1], []) as block:
            yield
            self.end(block, "scf.yield")

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

    def evaluate(self, scalar: Any) -> None:
        """Compute a scalar for what else that does, such as calling a function."""
        term = prim.convert(scalar)
        with self.here():
            if isinstance(term, prim.Call) and term.dtype in ("void", ""):
                write_generic_call(self.terms, term)
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
            node: of what: a variable, a buffer, a box of one, a number, a string, several
                of them, or a :class:`~prim.CommReducer`.
            key: what is said.
            value: the scalar or the string that goes with it.
        """
        form, nodes = _attribute_nodes(node)
        with self.here():
            said = [*nodes, prim.convert(value)]
            operands, literals = write_arguments(self.terms, said)
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
        with self.inside(op.regions[1], []) as block:
            yield
            self.end(block, "gpu.yield")

    def _combiner(self, region: ir.Region, reducer: prim.CommReducer) -> None:
        variables = (*reducer.lhs, *reducer.rhs)
        with self.module.context:
            types = [scalar_type(v.dtype) for v in variables]
        with self.inside(region, types) as block, self.here():
            for var, argument in zip(variables, block.arguments, strict=True):
                self.terms.define(var, argument)  # pyright: ignore[reportArgumentType]
            self.end(block, "gpu.yield", *map(self.terms.value, reducer.result))

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
            scope = self.params.scope()
            self._keep_said(function, scope)
            _inline_root(function)
        self.module.set_scope(self.name, scope)
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
            found = reader.statements(self.terms.free, self.free_buffers)
        restore(self.said, reader.blocks, reader.terms.buffers)
        return found

    def _keep_said(self, function: func.FuncOp, scope: FunctionScope) -> None:
        """Write down what blocks say of themselves that their bodies do not tell."""
        from relax_mlir.objects.tir_reader import ProgramReader

        # What is derived for a block depends on what those in it say.
        for depth in sorted({one.depth for one in self.said}, reverse=True):
            reader = ProgramReader(function, scope)
            reader.statements(self.terms.free, self.free_buffers)
            said = [one for one in self.said if one.depth == depth]
            keep(said, reader.blocks, reader.terms.buffers)


class IfFrame:
    """A choice that is being written."""

    def __init__(self, writer: ProgramWriter, op: ir.Operation) -> None:
        self._writer, self._op = writer, op

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """Statements for where the condition does not hold; after those where it does."""
        writer = self._writer
        with writer.inside(self._op.regions[1], []) as block:
            yield
            writer.end(block, "scf.yield")


def _attribute_nodes(node: Any) -> tuple[str, Sequence[Any]]:
    """How what an attribute is about is listed; see ``AttrOp``."""
    if isinstance(node, prim.CommReducer):
        return "reducer", node.identity_element
    if isinstance(node, BufferRegion):
        runs = [part for run in node.region for part in (run.min, run.extent)]
        return "region", [node.buffer, *runs]
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
    *all_operations, terminator = own_operations(function.entry_block)
    operations = [o for o in all_operations if not isinstance(o, UndefinedOp)]
    if len(operations) != 1 or not isinstance(operations[0], BlockOp):
        return
    block = operations[0]
    if len(block.kinds.value) or len(block.init.blocks):
        return
    function.attributes[marks.ROOT] = block.attributes["name"]
    for mark in (marks.ANNOTATIONS, marks.TOUCHED):
        if mark in block.attributes:
            function.attributes[mark] = block.attributes[mark]
    *inner, _ = own_operations(block.body.blocks[0])
    for op in inner:
        op.operation.move_before(terminator.operation)
    block.operation.erase()
