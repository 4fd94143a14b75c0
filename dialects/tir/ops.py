"""The tir dialect: tensor programs on buffers."""

from collections.abc import Sequence

from mlir import ir

from relax_mlir.dialects.ext import Attr, Dialect, Operand, Operation, Region, Result

__all__ = ["AllocBufferOp", "BlockOp", "CallPackedOp", "Tir"]


class TirOperation(Operation):
    """Base of the tir operations."""


class Tir(Dialect, name="tir"):
    """Tensor programs: loop nests that read and write buffers.

    A program is a ``func.func`` with ``tir.prim_func``; its arguments are buffers,
    destinations last, then the symbolic sizes as ``index`` values.
    """

    Operation = TirOperation


class BlockOp(Tir.Operation, name="block"):
    """One statement over a grid of points, with an optional start value.

    Without ``bindings`` the block stands for all points of its grid, in any order over
    the ``S`` axes. With bindings it is one point, inside explicit loops. The arguments
    of both regions are the axis variables; the init region runs before the first point
    of the ``R`` axes.

    Attributes:
        name: for readers.
        kinds: a letter per axis, ``S`` spatial or ``R`` reduce.
        static_extents: size per axis; -1 where the size is the next of ``extents``.
    """

    extents: Sequence[Operand[ir.IndexType]]
    bindings: Sequence[Operand[ir.IndexType]]
    name: ir.StringAttr
    kinds: ir.StringAttr
    static_extents: Attr
    init: Region
    body: Region

    @property
    def has_init(self) -> bool:
        """Whether there is a start value."""
        return len(self.regions[0].blocks) > 0

    def axis_extents(self) -> list[int | ir.Value]:
        """Size of every axis: an int, or an ``index`` value."""
        dynamic = iter(self.extents)
        return [e if e >= 0 else next(dynamic) for e in self.static_extents]


class AllocBufferOp(Tir.Operation, name="alloc_buffer"):
    """A buffer that lives inside one tensor program.

    Attributes:
        shape: its dimensions, ``#relax.shape<[...]>``; dynamic ones are operands too.
    """

    sizes: Sequence[Operand[ir.IndexType]]
    buffer: Result[ir.MemRefType]
    shape: Attr


class CallPackedOp(Tir.Operation, name="call_packed"):
    """Call a registered function on buffers; destinations come last.

    Attributes:
        callee: name of a tvm-ffi global function.
    """

    args: Operand[ir.TupleType]
    callee: ir.StringAttr
