"""What variables and buffers are at a place of a tensor program that is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from mlir import ir

from relax_mlir.dialects.tir import UndefinedOp, marks
from relax_mlir.objects.buffer import Buffer
from relax_mlir.objects.prim import Var
from relax_mlir.objects.value_types import pointee, scalar_type

__all__ = ["Known", "TermScope"]


@dataclass(frozen=True)
class Known:
    """What is visible at a place; see :class:`TermScope` for the fields."""

    vars: dict[int, ir.Value]
    buffers: dict[int, ir.Value]
    pointers: dict[int, Buffer]


class TermScope:
    """Names of terms, and the values that they are.

    Attributes:
        vars: the values of variables, ``index`` or scalar, by the variable's id.
        buffers: the memrefs of buffers, by the buffer's id.
        pointers: the buffers by the id of the pointer to their memory.
        sizes: parameters that are sizes, so not negative.
        free: variables that nothing defines, by their values.
        entry: where variables are put that nothing defines; None where those are errors.
        start: where the program begins; there go the variables that tell where buffers
            lie, which whoever calls the program knows.
        declare: makes a buffer in memory that is known.
    """

    def __init__(self) -> None:
        self.vars: dict[int, ir.Value] = {}
        self.buffers: dict[int, ir.Value] = {}
        self.pointers: dict[int, Buffer] = {}
        self.sizes: set[ir.Value] = set()
        self.free: dict[ir.Value, Var] = {}
        self.entry: ir.Block | None = None
        self.start: ir.Block | None = None
        self._places: set[int] = set()  # offsets and strides, by the variable's id
        self.declare: Callable[[Buffer], ir.Value] | None = None
        self._alive: list[object] = []  # an id is of use only while its object lives

    def define(self, var: Var, value: ir.Value) -> None:
        """From here on ``var`` is ``value``."""
        self.vars[id(var)] = value
        self._alive.append(var)

    def define_buffer(self, buffer: Buffer, value: ir.Value) -> None:
        """From here on ``buffer`` is ``value``."""
        self.buffers[id(buffer)] = value
        if getattr(buffer.data, "buffer", None) is buffer:
            self.pointers[id(buffer.data)] = buffer
        self._places |= {id(t) for t in (buffer.elem_offset, *buffer.strides)}
        self._alive.append(buffer)

    @contextmanager
    def defining(self, var: Var, value: ir.Value) -> Iterator[None]:
        """``var`` is ``value`` inside."""
        old = self.vars.get(id(var))
        self.define(var, value)
        yield
        if old is None:
            del self.vars[id(var)]
        else:
            self.vars[id(var)] = old

    def known(self) -> Known:
        """What is visible here, for :meth:`leave`."""
        return Known(dict(self.vars), dict(self.buffers), dict(self.pointers))

    def leave(self, known: Known) -> None:
        """Forget what was defined since ``known``, in a region that ends here.

        Its values do not dominate what follows. Free variables do.
        """
        free = {id(var): value for value, var in self.free.items()}
        self.vars = {**free, **known.vars}
        self.buffers, self.pointers = known.buffers, known.pointers

    def buffer(self, buffer: Buffer) -> ir.Value:
        """The memref that a buffer is.

        Raises:
            ValueError: nothing defined it.
        """
        known = self.buffers.get(id(buffer))
        if known is not None:
            return known
        if self.declare is not None and self._has_memory(buffer):
            return self.declare(buffer)
        raise ValueError(
            f"buffer `{buffer.name}` is used where nothing defines it: expected a "
            "parameter, or a buffer that a block around allocates"
        )

    def _has_memory(self, buffer: Buffer) -> bool:
        """Whether something else tells where a buffer lies."""
        data = id(buffer.data)
        is_known = data in self.vars or self.pointers.get(data, buffer) is not buffer
        return is_known or self.entry is not None

    def variable(self, var: Var) -> ir.Value:
        """The value of a variable.

        Raises:
            ValueError: nothing defined it.
        """
        value = self.find_variable(var)
        if value is None:
            raise ValueError(
                f"variable `{var.name}` is used where nothing defines it: expected a "
                "loop variable, an axis of a block, a size or a `let` around"
            )
        return value

    def place(self, var: Var) -> None:
        """Say that whoever calls the program knows a variable."""
        self._places.add(id(var))

    def find_variable(self, var: Var) -> ir.Value | None:
        """The value of a variable; None if it has none, as a buffer's pointer."""
        is_free = id(var) not in self.vars and id(var) not in self.pointers
        entry = self.start if id(var) in self._places else self.entry
        if is_free and entry is not None:
            self._define_free(var, entry)
        return self.vars.get(id(var))

    def _define_free(self, var: Var, entry: ir.Block) -> None:
        """Let a variable stand for itself."""
        is_size = var.dtype in ("int32", "int64")
        type_ = ir.IndexType.get() if is_size else scalar_type(var.dtype)
        with ir.InsertionPoint.at_block_begin(entry), ir.Location.unknown():
            op = ir.Operation.create(
                UndefinedOp.OPERATION_NAME,
                results=[type_],
                attributes={
                    "name": ir.StringAttr.get(var.name),
                    marks.DTYPE: ir.StringAttr.get(var.dtype),
                    **pointee(var),
                },
            )
        self.free[op.results[0]] = var
        self.define(var, op.results[0])
