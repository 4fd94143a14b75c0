"""A tensor program that is being written: its parameters, its buffers, and the place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import tensors
from relax_mlir.dialects.tir import AllocBufferOp, DeclBufferOp, marks
from relax_mlir.objects import prim
from relax_mlir.objects.attributes import to_attribute
from relax_mlir.objects.buffer import Buffer, BufferRegion
from relax_mlir.objects.memrefs import (
    buffer_marks,
    check_part,
    matched_part,
    memref_type,
)
from relax_mlir.objects.pointers import Pointer
from relax_mlir.objects.prim import Var
from relax_mlir.objects.program_params import Params
from relax_mlir.objects.term_writer import TermWriter

if TYPE_CHECKING:
    from relax_mlir.module import IRModule
    from relax_mlir.objects.block_frame import BlockFrame
    from relax_mlir.objects.said_regions import SaidRegions

__all__ = ["OpenProgram"]


class OpenProgram:
    """A tensor program up to the next statement.

    Args:
        name: of the function.
        module: where to put it; a module of its own if left out.
        is_open: whether variables and buffers may stand in it that nothing defines.

    Attributes:
        params: what it takes.
        terms: writes scalars, and knows what variables and buffers are.
        free_buffers: the buffers that no statement declares, by their memrefs.
        points: where statements go, by the regions that are open.
        frames: the open blocks, outermost first.
        pending: the block whose body the next statement begins.
        said: what blocks say that they read and write.
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
        self.free_buffers: dict[ir.Value, Buffer] = {}
        self.points: list[ir.InsertionPoint] = []
        self.frames: list[BlockFrame] = []
        self.pending: BlockFrame | None = None
        self.said: list[SaidRegions] = []
        self._function: func.FuncOp | None = None
        self._is_open = is_open
        self._early: list[Callable[[], Any]] = []  # waits for the first statement
        self._waiting: set[int] = set()  # the buffers that it makes

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
        with self.module.context, ir.Location.unknown(), self.points[-1]:
            self.terms.buffer(buffer)

    def rename(self, buffer: Buffer, name: str) -> None:
        """Give a buffer another name; also after it was allocated."""
        if buffer.has_own_offset:
            self.rename_variable(buffer.elem_offset, f"{name}_elem_offset")  # pyright: ignore[reportArgumentType]
        buffer.name = name
        if buffer.owns_data:
            buffer.data.name = name
        value = self.terms.buffers.get(id(buffer))
        if value is not None and not isinstance(value.owner, ir.Block):
            with self.module.context:
                described = {
                    marks.NAME: ir.StringAttr.get(name),
                    **buffer_marks(buffer),
                }
                for key, attr in described.items():
                    value.owner.attributes[key] = attr

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
            self.terms.start = function.entry_block
            self.params.create(function, self.terms)
            self.points.append(ir.InsertionPoint(function.entry_block))
            if self._is_open:
                self.terms.entry = function.entry_block
        early, self._early = self._early, []
        for write in early:
            write()

    @contextmanager
    def inside(self, region: ir.Region, types: Sequence[ir.Type]) -> Iterator[ir.Block]:
        """A new block of a region, where statements go from here on."""
        locations = [ir.Location.unknown(self.module.context)] * len(types)
        block = ir.Block.create_at_start(region, list(types), locations)
        self.points.append(ir.InsertionPoint(block))
        known = self.terms.known()
        try:
            yield block
        finally:
            self.points.pop()
            self.terms.leave(known)

    def end(self, block: ir.Block, terminator: str, *operands: ir.Value) -> None:
        """Close a block of a region."""
        with self.module.context, ir.Location.unknown(), ir.InsertionPoint(block):
            ir.Operation.create(terminator, operands=list(operands))

    # buffers

    def alloc(self, buffer: Buffer) -> Buffer:
        """A new buffer of the program, or of the block that we are in.

        In front of all statements it waits for the parameters, which may come later.
        """
        self._later(buffer, lambda: self._alloc(buffer, {}))
        return buffer

    def _later(self, buffer: Buffer, write: Callable[[], Any]) -> None:
        """Make a buffer when the axes or the parameters in front of it are known."""
        if self._function is not None and self.pending is None:
            write()
            return
        listed = self._early if self._function is None else self.frames[-1].deferred
        listed.append(write)
        self._waiting.add(id(buffer))

    def allocate(
        self,
        pointer: Var,
        memory: Buffer,
        annotations: Mapping[str, Any],
        contents: Sequence[float] | None = None,
    ) -> None:
        """Memory like that of a buffer, of which a pointer alone is known.

        Args:
            pointer: to its first element.
            memory: what it is like.
            annotations: more that is said of it.
            contents: its elements, where they are constants.
        """
        with self.here():
            said = {marks.ALLOCATE: to_attribute(dict(annotations))}
            if contents is not None:
                said[marks.CONTENTS] = to_attribute(list(contents))
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

    def abandon(self) -> None:
        """Take away what was written."""
        self.points.clear()
        if self._function is not None:
            self._function.operation.erase()
            self._function = None
