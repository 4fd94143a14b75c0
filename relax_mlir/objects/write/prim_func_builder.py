"""State of a PrimFunc under construction: parameters, buffers and insertion point."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import tensors
from relax_mlir.dialects.tir import AllocBufferOp, DeclBufferOp, attribute_names
from relax_mlir.objects import prim
from relax_mlir.objects.mlir_attributes import to_attribute
from relax_mlir.objects.prim import Var
from relax_mlir.objects.prim.pointers import Pointer
from relax_mlir.objects.stmt.buffer import Buffer, BufferRegion
from relax_mlir.objects.write.memref import (
    buffer_attributes,
    check_region_shape,
    memref_type,
    region_subview,
)
from relax_mlir.objects.write.params import PrimFuncParams
from relax_mlir.objects.write.prim_expr import PrimExprWriter

if TYPE_CHECKING:
    from relax_mlir.ir.module import IRModule
    from relax_mlir.objects.stmt.explicit_regions import ExplicitRegions
    from relax_mlir.objects.write.block_frame import BlockFrame

__all__ = ["PrimFuncFrame"]


class PrimFuncFrame:
    """A PrimFunc under construction, without its statements.

    Args:
        name: name of the function.
        module: the module to add it to; a new one by default.
        allows_free_vars: whether free variables and buffers are allowed.

    Attributes:
        params: its parameters.
        exprs: writes scalars, and holds the values of variables and buffers.
        free_buffers: free buffers, by their memrefs.
        points: insertion points of the nested regions, innermost last.
        frames: the enclosing blocks, outermost first.
        pending: the block whose body begins with the next statement.
        explicit_regions: the explicit regions of blocks.
    """

    def __init__(
        self,
        name: str = "main",
        module: IRModule | None = None,
        *,
        allows_free_vars: bool = False,
    ) -> None:
        from relax_mlir.ir.module import IRModule

        self.name = name
        self.module = module or IRModule.shared()
        self.params = PrimFuncParams()
        self.exprs = PrimExprWriter()
        self.exprs.declare = self._declare
        self.free_buffers: dict[ir.Value, Buffer] = {}
        self.points: list[ir.InsertionPoint] = []
        self.frames: list[BlockFrame] = []
        self.pending: BlockFrame | None = None
        self.explicit_regions: list[ExplicitRegions] = []
        self._function: func.FuncOp | None = None
        self._allows_free_vars = allows_free_vars
        self._deferred: list[
            Callable[[], Any]
        ] = []  # writes deferred to the first statement
        self._deferred_buffers: set[int] = (
            set()
        )  # ids of the buffers that deferred writes create

    # Parameters.

    def buffer_param(self, buffer: Buffer, handle: Var | None = None) -> Var:
        """Adds a buffer parameter; returns its pointer parameter."""
        if handle is None:
            handle = Pointer(f"var_{buffer.name}")
        self._check_not_begun(f"buffer `{buffer.name}`")
        self.params.add(handle)
        self.params.match(handle, buffer)
        return handle

    def handle_param(self, handle: Var) -> Var:
        """Adds a pointer parameter, bound to a buffer by :meth:`match_param`."""
        self._check_not_begun(f"pointer `{handle.name}`")
        self.params.add(handle)
        return handle

    def match_param(self, handle: Var, buffer: Buffer) -> None:
        """Binds a pointer parameter to a buffer."""
        self._check_not_begun(f"buffer `{buffer.name}`")
        self.params.match(handle, buffer)

    def scalar_param(self, var: Var) -> Var:
        """Adds a scalar parameter; an integer may be a size of buffers."""
        self._check_not_begun(f"`{var.name}`")
        self.params.add(var)
        return var

    def _check_not_begun(self, what: str) -> None:
        if self._function is not None:
            raise ValueError(
                f"{what}: parameters and their buffers come before the first statement"
            )

    def check_known(self, buffer: Buffer) -> None:
        """Checks that a buffer is defined.

        Raises:
            ValueError: it is not.
        """
        if id(buffer) in self._deferred_buffers:
            return
        self._begin()
        with self.module.context, ir.Location.unknown(), self.points[-1]:
            self.exprs.buffer(buffer)

    def rename(self, buffer: Buffer, name: str) -> None:
        """Renames a buffer, also after its definition."""
        if buffer.has_own_offset:
            self.rename_variable(buffer.elem_offset, f"{name}_elem_offset")  # pyright: ignore[reportArgumentType]
        buffer.name = name
        if buffer.owns_data:
            buffer.data.name = name
        value = self.exprs.buffers.get(id(buffer))
        if value is not None and not isinstance(value.owner, ir.Block):
            with self.module.context:
                attributes = {
                    attribute_names.NAME: ir.StringAttr.get(name),
                    **buffer_attributes(buffer),
                }
                for key, attr in attributes.items():
                    value.owner.attributes[key] = attr

    def rename_variable(self, var: Var, name: str) -> None:
        """Renames a variable, also after its definition."""
        var.name = name
        value = self.exprs.vars.get(id(var))
        if value is None:
            return
        owner = value.owner
        with self.module.context:
            if not isinstance(owner, ir.Block):
                if "name" in owner.attributes:
                    owner.attributes["name"] = ir.StringAttr.get(name)
            elif owner.owner.operation.name == "scf.for":
                owner.owner.attributes[attribute_names.NAME] = ir.StringAttr.get(name)

    # Insertion points.

    @contextmanager
    def here(self) -> Iterator[None]:
        """The insertion point of the next statement, as MLIR's current one."""
        self._begin()
        if self.pending is not None:
            frame, self.pending = self.pending, None
            frame.begin()
            deferred, frame.deferred = frame.deferred, []
            for write in deferred:
                write()
        with self.module.context, ir.Location.unknown(), self.points[-1]:
            yield

    def _begin(self) -> None:
        if self._function is not None:
            return
        with self.module.context, ir.Location.unknown():
            with ir.InsertionPoint(self.module.mlir.body):
                function = func.FuncOp(self.name, ir.FunctionType.get([], []))
            function.add_entry_block()
            self._function = function
            self.exprs.start = function.entry_block
            self.params.create(function, self.exprs)
            self.points.append(ir.InsertionPoint(function.entry_block))
            if self._allows_free_vars:
                self.exprs.entry = function.entry_block
        early, self._deferred = self._deferred, []
        for write in early:
            write()

    @contextmanager
    def inside(self, region: ir.Region, types: Sequence[ir.Type]) -> Iterator[ir.Block]:
        """A new block in a region, as the insertion point of the following statements."""
        locations = [ir.Location.unknown(self.module.context)] * len(types)
        block = ir.Block.create_at_start(region, list(types), locations)
        self.points.append(ir.InsertionPoint(block))
        visible_names = self.exprs.visible_names()
        try:
            yield block
        finally:
            self.points.pop()
            self.exprs.restore(visible_names)

    def end(self, block: ir.Block, terminator: str, *operands: ir.Value) -> None:
        """Terminates the block of a region."""
        with self.module.context, ir.Location.unknown(), ir.InsertionPoint(block):
            ir.Operation.create(terminator, operands=list(operands))

    # Buffers.

    def alloc(self, buffer: Buffer) -> Buffer:
        """Allocates a buffer in the PrimFunc or the current block.

        Before the first statement it is deferred, because parameters may follow.
        """
        self._defer(buffer, lambda: self._alloc(buffer, {}))
        return buffer

    def _defer(self, buffer: Buffer, write: Callable[[], Any]) -> None:
        """Creates a buffer once the preceding axes or parameters are known."""
        if self._function is not None and self.pending is None:
            write()
            return
        listed = self._deferred if self._function is None else self.frames[-1].deferred
        listed.append(write)
        self._deferred_buffers.add(id(buffer))

    def allocate(
        self,
        pointer: Var,
        memory: Buffer,
        annotations: Mapping[str, Any],
        contents: Sequence[float] | None = None,
    ) -> None:
        """Allocates memory to a pointer (``Allocate``, ``AllocateConst``).

        Args:
            pointer: the pointer variable.
            memory: a buffer with the shape and type of the memory.
            annotations: attributes for schedules.
            contents: the elements, for constants.
        """
        with self.here():
            extra_attributes = {
                attribute_names.ALLOCATE: to_attribute(dict(annotations))
            }
            if contents is not None:
                extra_attributes[attribute_names.CONTENTS] = to_attribute(
                    list(contents)
                )
            value = self._alloc(memory, extra_attributes)
            self.exprs.pointers[id(pointer)] = memory
            value.owner.attributes[attribute_names.NAME] = ir.StringAttr.get(
                pointer.name
            )

    def _alloc(
        self, buffer: Buffer, extra_attributes: Mapping[str, ir.Attribute]
    ) -> ir.Value:
        with self.here():
            op = ir.Operation.create(
                AllocBufferOp.OPERATION_NAME,
                results=[memref_type(buffer)],
                operands=self._dynamic_sizes(buffer),
                attributes={**self._buffer_attributes(buffer), **extra_attributes},
            )
            self.exprs.define_buffer(buffer, op.results[0])
        return op.results[0]

    def _dynamic_sizes(self, buffer: Buffer) -> list[ir.Value]:
        sizes = [s for s in buffer.shape if not isinstance(s, prim.IntImm)]
        return [self.exprs.index(s) for s in sizes]

    def _buffer_attributes(self, buffer: Buffer) -> dict[str, ir.Attribute]:
        return {
            "shape": tensors.shape_attr(self.params.symbols.dims(buffer.shape)),
            attribute_names.NAME: ir.StringAttr.get(buffer.name),
            **buffer_attributes(buffer),
        }

    def decl_buffer(self, buffer: Buffer) -> Buffer:
        """Declares a buffer in the memory of its data pointer."""
        with self.here():
            self._declare_here(buffer, self.exprs.value(buffer.data), {})
        return buffer

    def _declare_here(
        self,
        buffer: Buffer,
        pointer: ir.Value,
        extra_attributes: Mapping[str, ir.Attribute],
    ) -> ir.Value:
        op = ir.Operation.create(
            DeclBufferOp.OPERATION_NAME,
            results=[memref_type(buffer)],
            operands=[pointer, *self._dynamic_sizes(buffer)],
            attributes={**self._buffer_attributes(buffer), **extra_attributes},
        )
        self.exprs.define_buffer(buffer, op.results[0])
        return op.results[0]

    def _declare(self, buffer: Buffer) -> ir.Value:
        """Declares a free buffer implicitly, if its memory is known."""
        pointer = self.exprs.value(buffer.data)
        extra_attributes = {attribute_names.IMPLICIT: ir.UnitAttr.get()}
        memref = self._declare_here(buffer, pointer, extra_attributes)
        self.free_buffers[memref] = buffer
        return memref

    def match_buffer(self, buffer: Buffer, region: BufferRegion) -> Buffer:
        """Declares a buffer of the current block as a view of a region."""
        check_region_shape(buffer, region)
        self._defer(buffer, lambda: self._match_buffer(buffer, region))
        return buffer

    def _match_buffer(self, buffer: Buffer, region: BufferRegion) -> None:
        with self.here():
            source = self.exprs.buffer(region.buffer)
            part = region_subview(self.exprs, source, buffer, region)
            self.exprs.define_buffer(buffer, part)

    def abandon(self) -> None:
        """Discards the function."""
        self.points.clear()
        if self._function is not None:
            self._function.operation.erase()
            self._function = None
