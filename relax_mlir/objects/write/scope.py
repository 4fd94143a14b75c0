"""Values of the visible variables and buffers while a PrimFunc is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from mlir import ir

from relax_mlir.dialects.tir import UndefinedOp, attribute_names
from relax_mlir.objects.prim import Var
from relax_mlir.objects.prim.value_types import pointee, scalar_type
from relax_mlir.objects.stmt.buffer import Buffer

__all__ = ["ValueScope", "VisibleNames"]


@dataclass(frozen=True)
class VisibleNames:
    """A snapshot of the visible names; see :class:`ValueScope` for the fields."""

    vars: dict[int, ir.Value]
    buffers: dict[int, ir.Value]
    pointers: dict[int, Buffer]


class ValueScope:
    """The values of variables and buffers.

    Attributes:
        vars: values of variables, ``index`` or scalar, by the variable's id.
        buffers: memrefs of buffers, by the buffer's id.
        pointers: buffers, by the id of their data pointer.
        sizes: arguments that are sizes and so non-negative.
        free: free variables, by their values.
        entry: the block in which free variables are defined; None if they are errors.
        start: the entry block of the function, which defines strides, offsets and
            pointers that the caller determines.
        declare: declares a buffer whose memory is known.
    """

    def __init__(self) -> None:
        self.vars: dict[int, ir.Value] = {}
        self.buffers: dict[int, ir.Value] = {}
        self.pointers: dict[int, Buffer] = {}
        self.sizes: set[ir.Value] = set()
        self.free: dict[ir.Value, Var] = {}
        self.entry: ir.Block | None = None
        self.start: ir.Block | None = None
        self._defined_by_caller: set[int] = (
            set()
        )  # ids of offset, stride and pointer variables
        self.declare: Callable[[Buffer], ir.Value] | None = None
        self._alive: list[object] = []  # keeps objects alive, so that ids stay valid

    def define(self, var: Var, value: ir.Value) -> None:
        """Binds a variable to a value."""
        self.vars[id(var)] = value
        self._alive.append(var)

    def define_buffer(self, buffer: Buffer, value: ir.Value) -> None:
        """Binds a buffer to a memref."""
        self.buffers[id(buffer)] = value
        if getattr(buffer.data, "buffer", None) is buffer:
            self.pointers[id(buffer.data)] = buffer
        self._defined_by_caller |= {
            id(t) for t in (buffer.elem_offset, *buffer.strides)
        }
        self._alive.append(buffer)

    @contextmanager
    def defining(self, var: Var, value: ir.Value) -> Iterator[None]:
        """Binds a variable to a value inside the scope."""
        old = self.vars.get(id(var))
        self.define(var, value)
        yield
        if old is None:
            del self.vars[id(var)]
        else:
            self.vars[id(var)] = old

    def visible_names(self) -> VisibleNames:
        """A snapshot of the visible names, for :meth:`restore`."""
        return VisibleNames(dict(self.vars), dict(self.buffers), dict(self.pointers))

    def restore(self, visible_names: VisibleNames) -> None:
        """Restores a snapshot of the visible names, at the end of a region.

        Values of the region do not dominate later operations. Free variables remain visible.
        """
        free = {id(var): value for value, var in self.free.items()}
        self.vars = {**free, **visible_names.vars}
        self.buffers, self.pointers = visible_names.buffers, visible_names.pointers

    def buffer(self, buffer: Buffer) -> ir.Value:
        """The memref of a buffer.

        Raises:
            ValueError: the buffer is undefined.
        """
        memref = self.buffers.get(id(buffer))
        if memref is not None:
            return memref
        if self.declare is not None and self._has_memory(buffer):
            return self.declare(buffer)
        raise ValueError(
            f"buffer `{buffer.name}` is undefined: expected a "
            "parameter, or a buffer that an enclosing block allocates"
        )

    def _has_memory(self, buffer: Buffer) -> bool:
        """Whether the memory of a buffer that has no memref is known, such as by its pointer."""
        data = id(buffer.data)
        is_known = data in self.vars or self.pointers.get(data, buffer) is not buffer
        return is_known or self.entry is not None

    def variable(self, var: Var) -> ir.Value:
        """The value of a variable.

        Raises:
            ValueError: the variable is undefined.
        """
        value = self.find_variable(var)
        if value is None:
            raise ValueError(
                f"variable `{var.name}` is undefined: expected a "
                "loop variable, an axis of a block, a size or an enclosing `let`"
            )
        return value

    def define_by_caller(self, var: Var) -> None:
        """Declares that the caller determines a variable."""
        self._defined_by_caller.add(id(var))

    def find_variable(self, var: Var) -> ir.Value | None:
        """The value of a variable, or None, such as for the data pointer of a buffer."""
        is_free = id(var) not in self.vars and id(var) not in self.pointers
        entry = self.start if id(var) in self._defined_by_caller else self.entry
        if is_free and entry is not None:
            self._define_free(var, entry)
        return self.vars.get(id(var))

    def _define_free(self, var: Var, entry: ir.Block) -> None:
        """Defines a free variable in a block."""
        is_size = var.dtype in ("int32", "int64")
        type_ = ir.IndexType.get() if is_size else scalar_type(var.dtype)
        with ir.InsertionPoint.at_block_begin(entry), ir.Location.unknown():
            op = ir.Operation.create(
                UndefinedOp.OPERATION_NAME,
                results=[type_],
                attributes={
                    "name": ir.StringAttr.get(var.name),
                    attribute_names.DTYPE: ir.StringAttr.get(var.dtype),
                    **pointee(var),
                },
            )
        self.free[op.results[0]] = var
        self.define(var, op.results[0])
