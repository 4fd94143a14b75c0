"""Builder of tensor programs, statement by statement.

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
    attribute_names,
)
from relax_mlir.dialects.tir.scalars import to_memory
from relax_mlir.ir.traversal import own_operations
from relax_mlir.objects import prim
from relax_mlir.objects.mlir_attributes import to_attribute
from relax_mlir.objects.prim import PrimExpr, Range, Var
from relax_mlir.objects.prim.value_types import scalar_type
from relax_mlir.objects.scope import FunctionScope
from relax_mlir.objects.stmt.buffer import Buffer, BufferLoad, BufferRegion
from relax_mlir.objects.stmt.explicit_regions import (
    restore_explicit_regions,
    store_explicit_regions,
)
from relax_mlir.objects.write.block_frame import BlockFrame
from relax_mlir.objects.write.calls import write_arguments, write_generic_call
from relax_mlir.objects.write.prim_expr import vector_segments
from relax_mlir.objects.write.prim_func_builder import PrimFuncFrame

if TYPE_CHECKING:
    from relax_mlir.ir.module import IRModule
    from relax_mlir.objects.stmt import statements
    from relax_mlir.objects.stmt.prim_func import PrimFunc

__all__ = ["LOOP_KINDS", "PrimFuncWriter"]

LOOP_KINDS = ("serial", "parallel", "vectorized", "unrolled", "thread_binding")


class PrimFuncWriter(PrimFuncFrame):
    """Builds one PrimFunc; parameters first, then statements.

    Args:
        name: name of the function.
        module: the module to add it to; a new one by default.
        allows_free_vars: whether free variables and buffers are allowed.
    """

    def __init__(
        self,
        name: str = "main",
        module: IRModule | None = None,
        *,
        allows_free_vars: bool = False,
    ) -> None:
        super().__init__(name, module, allows_free_vars=allows_free_vars)
        self._loops: dict[int, Range] = {}

    def loop_domain(self, var: PrimExpr) -> Range:
        """The range of the enclosing loop with this variable.

        Raises:
            ValueError: it is not a variable of an enclosing loop.
        """
        if id(var) not in self._loops:
            raise ValueError(f"`{var}`: expected a variable of an enclosing loop")
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
        """A for loop over ``[begin, begin + extent)``.

        Args:
            kind: ``serial``, ``parallel``, ``vectorized``, ``unrolled`` or
                ``thread_binding``.
            thread: the thread axis of a ``thread_binding`` loop.
            annotations: attributes for schedules.
            step: the increment; 1 by default.
        """
        start, count = prim.convert(begin), prim.convert(extent)
        index = ir.IndexType.get(self.module.context)
        with self.here():
            low = self.exprs.index(start)
            high = self.exprs.index(start + count)
            by = self.exprs.index(prim.convert(1 if step is None else step))
            op = ir.Operation.create("scf.for", operands=[low, high, by], regions=1)
            _mark_loop(op, var, kind, thread, annotations)
        with self.inside(op.regions[0], [index]) as block:
            self._loops[id(var)] = Range.from_min_extent(start, count)
            with self.exprs.defining(var, block.arguments[0]):
                yield var
            del self._loops[id(var)]
            self.end(block, "scf.yield")

    def block(self, name: str = "") -> BlockFrame:
        """A block; enter it with ``with``, add its axes, then write its body."""
        return BlockFrame(self, name)

    @contextmanager
    def if_(self, condition: Any) -> Iterator[IfFrame]:
        """The then-branch of a conditional; see :meth:`IfFrame.otherwise` for the else-branch."""
        with self.here():
            value = self.exprs.value(prim.cast("bool", condition))
            op = ir.Operation.create("scf.if", operands=[value], regions=2)
        frame = IfFrame(self, op)
        with self.inside(op.regions[0], []) as block:
            yield frame
            self.end(block, "scf.yield")

    @contextmanager
    def while_(self, condition: Any) -> Iterator[None]:
        """A while loop."""
        with self.here():
            op = ir.Operation.create("scf.while", regions=2)
        with self.inside(op.regions[0], []) as block, self.here():
            value = self.exprs.value(prim.cast("bool", condition))
            self.end(block, "scf.condition", value)
        with self.inside(op.regions[1], []) as block:
            yield
            self.end(block, "scf.yield")

    def let(self, var: Var, value: Any) -> Var:
        """Binds ``var`` to ``value`` until the end of the enclosing region."""
        expr = prim.cast(var.dtype, value)
        with self.here():
            is_index = self.exprs.is_index(expr)
            written = self.exprs.index(expr) if is_index else self.exprs.value(expr)
            self.exprs.define(var, self.exprs.let(var, written))
        return var

    def store(
        self,
        buffer: Buffer,
        value: Any,
        indices: Sequence[Any],
        predicate: Any = None,
    ) -> None:
        """``buffer[indices] = value``; ``predicate`` masks the lanes of a vector.

        Raises:
            ValueError: the number of indices is not the buffer's rank.
        """
        place = BufferLoad(buffer, indices, predicate)
        expr = prim.cast(place.dtype, value)
        with self.here():
            target = self.exprs.buffer(buffer)
            stored = self.exprs.value(expr)
            where = [self.exprs.index(i) for i in place.indices]
            stored = to_memory(stored, dtypes.dtype(place.dtype))
            if not where or not isinstance(where[-1].type, ir.VectorType):
                ir.Operation.create("memref.store", operands=[stored, target, *where])
                return
            lanes = place.predicate
            mask = [] if lanes is None else [self.exprs.value(lanes)]
            ir.Operation.create(
                VectorStoreOp.OPERATION_NAME,
                operands=[stored, target, *where, *mask],
                attributes=vector_segments([1, 1, len(where) - 1, 1, len(mask)]),
            )

    def evaluate(self, scalar: Any) -> None:
        """Evaluates an expression for its side effects, such as a call."""
        expr = prim.convert(scalar)
        with self.here():
            if isinstance(expr, prim.Call) and expr.dtype in ("void", ""):
                write_generic_call(self.exprs, expr)
            else:
                value = self.exprs.value(expr)
                ir.Operation.create(EvaluateOp.OPERATION_NAME, operands=[value])

    def assertion(self, condition: Any, message: str) -> None:
        """Asserts a condition at run time."""
        with self.here():
            value = self.exprs.value(prim.cast("bool", condition))
            attributes = {"message": ir.StringAttr.get(message)}
            ir.Operation.create(
                AssertOp.OPERATION_NAME, operands=[value], attributes=attributes
            )

    @contextmanager
    def attr(self, node: Any, key: str, value: Any) -> Iterator[None]:
        """An attribute statement.

        Args:
            node: a variable, a buffer, a buffer region, a number, a string, a list of these,
                or a :class:`~prim.CommReducer`.
            key: the name of the attribute.
            value: its value, a scalar or a string.
        """
        form, nodes = _attribute_nodes(node)
        with self.here():
            arguments = [*nodes, prim.convert(value)]
            operands, literals = write_arguments(self.exprs, arguments)
            op = ir.Operation.create(
                AttrOp.OPERATION_NAME,
                operands=[tensors.pack_tuple(operands)],
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
                self.exprs.define(var, argument)  # pyright: ignore[reportArgumentType]
            self.end(block, "gpu.yield", *map(self.exprs.value, reducer.result))

    # Completion.

    def finish(
        self,
        attrs: Mapping[str, Any] | None = None,
        ret_type: str | None = None,
        outputs: int | None = None,
    ) -> PrimFunc:
        """Completes the PrimFunc.

        Args:
            attrs: its attributes; with ``global_symbol`` it is public.
            ret_type: type of its return value.
            outputs: the number of trailing buffers that are outputs; by default from the
                first buffer that it writes.
        """
        from relax_mlir.objects.stmt.prim_func import PrimFunc

        with self.here():
            func.ReturnOp([])
        function = self._function
        assert function is not None
        with self.module.context, ir.Location.unknown():
            self.params.mark(function, outputs)
            if ret_type:
                function.attributes[attribute_names.RETURN_TYPE] = ir.StringAttr.get(
                    ret_type
                )
            scope = self.params.scope()
            self._store_explicit_regions(function, scope)
            _inline_root(function)
        self.module.set_scope(self.name, scope)
        function_view = PrimFunc._view(self.module, self.name)
        function_view._set_attrs(attrs or {})
        return function_view

    def read_back(self) -> statements.Stmt:
        """The statements so far, without a PrimFunc around them; ends the builder."""
        from relax_mlir.objects.read.prim_func import PrimFuncReader

        with self.here():
            func.ReturnOp([])
        assert self._function is not None
        with self.module.context, ir.Location.unknown():
            self.params.mark(self._function, None)
            reader = PrimFuncReader(self._function, self.params.scope())
            found = reader.statements(self.exprs.free, self.free_buffers)
        restore_explicit_regions(
            self.explicit_regions, reader.blocks, reader.exprs.buffers
        )
        return found

    def _store_explicit_regions(
        self, function: func.FuncOp, scope: FunctionScope
    ) -> None:
        """Stores the explicit regions of blocks that differ from the derived ones."""
        from relax_mlir.objects.read.prim_func import PrimFuncReader

        # Derived regions depend on the explicit regions of nested blocks.
        for depth in sorted({one.depth for one in self.explicit_regions}, reverse=True):
            reader = PrimFuncReader(function, scope)
            reader.statements(self.exprs.free, self.free_buffers)
            regions = [one for one in self.explicit_regions if one.depth == depth]
            store_explicit_regions(regions, reader.blocks, reader.exprs.buffers)


class IfFrame:
    """A conditional under construction."""

    def __init__(self, writer: PrimFuncWriter, op: ir.Operation) -> None:
        self._writer, self._op = writer, op

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """The else-branch, after the then-branch."""
        writer = self._writer
        with writer.inside(self._op.regions[1], []) as block:
            yield
            writer.end(block, "scf.yield")


def _attribute_nodes(node: Any) -> tuple[str, Sequence[Any]]:
    """The form and the operands of an attribute's node; see ``AttrOp``."""
    if isinstance(node, prim.CommReducer):
        return "reducer", node.identity_element
    if isinstance(node, BufferRegion):
        ranges = [
            part for range_ in node.region for part in (range_.min, range_.extent)
        ]
        return "region", [node.buffer, *ranges]
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
    op.attributes[attribute_names.KIND] = ir.StringAttr.get(kind)
    op.attributes[attribute_names.NAME] = ir.StringAttr.get(var.name)
    if thread:
        op.attributes[attribute_names.THREAD] = ir.StringAttr.get(thread)
    if var.dtype != "int32":
        op.attributes[attribute_names.DTYPE] = ir.StringAttr.get(var.dtype)
    if annotations:
        op.attributes[attribute_names.ANNOTATIONS] = to_attribute(dict(annotations))


def _inline_root(function: func.FuncOp) -> None:
    """Removes an explicit root block, which functions have implicitly."""
    *all_operations, terminator = own_operations(function.entry_block)
    operations = [o for o in all_operations if not isinstance(o, UndefinedOp)]
    if len(operations) != 1 or not isinstance(operations[0], BlockOp):
        return
    block = operations[0]
    if len(block.kinds.value) or len(block.init.blocks):
        return
    function.attributes[attribute_names.ROOT] = block.attributes["name"]
    for mark in (attribute_names.ANNOTATIONS, attribute_names.TOUCHED):
        if mark in block.attributes:
            function.attributes[mark] = block.attributes[mark]
    *inner, _ = own_operations(block.body.blocks[0])
    for op in inner:
        op.operation.move_before(terminator.operation)
    block.operation.erase()
