"""The tir dialect: tensor programs on buffers."""

from collections.abc import Sequence

from mlir import ir

from relax_mlir.dialects.convolution_shapes import ConvolutionShape
from relax_mlir.dialects.effects import Effects
from relax_mlir.dialects.ext import Attr, Dialect, Operand, Operation, Region, Result

__all__ = [
    "AddressOp",
    "AllocBufferOp",
    "AssertOp",
    "AttrOp",
    "BlockOp",
    "CallOp",
    "CallPackedOp",
    "DeclBufferOp",
    "EvaluateOp",
    "LetOp",
    "LibraryConvolutionOp",
    "LibraryProductOp",
    "RampOp",
    "Tir",
    "UndefinedOp",
    "VectorLoadOp",
    "VectorStoreOp",
]


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
        kinds: a letter per axis, ``S`` spatial, ``R`` reduce, ``O`` opaque or ``C``
            ordered.
        static_extents: size per axis; -1 where the size is the next of ``extents``.
    """

    effects = Effects.NONE

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

    effects = Effects.ALLOCATES

    sizes: Sequence[Operand[ir.IndexType]]
    buffer: Result[ir.MemRefType]
    shape: Attr


class CallPackedOp(Tir.Operation, name="call_packed"):
    """Call a registered function on buffers; destinations come last.

    Attributes:
        callee: name of a tvm-ffi global function.
    """

    effects = Effects.UNKNOWN

    args: Operand[ir.TupleType]
    callee: ir.StringAttr


class LibraryConvolutionOp(Tir.Operation, name="library_convolution"):
    """A convolution that a library of the device computes, between its launches.

    What :class:`ConvolutionShape` says of ``batch`` pictures; then the bias is added, if
    there is one, then the residual, then the activation is applied. Sums are f32, or f64
    of such factors; all buffers are of one element type, and the result is rounded once.
    The result lies in no operand, or all of it where the residual does.

    Attributes:
        counts: channels, filters, and groups of them.
        picture_sizes, window_sizes, result_sizes, steps, dilations, pads, picture_strides,
            result_strides, channels_last: as :class:`ConvolutionShape` has them.
        tf32: whether factors in f32 may be rounded to 11 bits.
        activation: ``none``, or ``relu``, the larger one of a number and 0.
    """

    effects = Effects.WRITES

    picture: Operand[ir.MemRefType]
    weights: Operand[ir.MemRefType]
    result: Operand[ir.MemRefType]
    batch: Operand[ir.IndexType]
    bias: Sequence[Operand[ir.MemRefType]]
    residual: Sequence[Operand[ir.MemRefType]]
    counts: ir.DenseI64ArrayAttr
    picture_sizes: ir.DenseI64ArrayAttr
    window_sizes: ir.DenseI64ArrayAttr
    result_sizes: ir.DenseI64ArrayAttr
    steps: ir.DenseI64ArrayAttr
    dilations: ir.DenseI64ArrayAttr
    pads: ir.DenseI64ArrayAttr
    picture_strides: ir.DenseI64ArrayAttr
    result_strides: ir.DenseI64ArrayAttr
    channels_last: ir.BoolAttr
    tf32: ir.BoolAttr
    activation: ir.StringAttr

    @staticmethod
    def shape_attributes(shape: ConvolutionShape) -> dict[str, ir.Attribute]:
        """The attributes that tell a shape."""
        counts = (shape.channels, shape.filters, shape.groups)
        numbers = {
            "counts": counts,
            **{n: getattr(shape, f) for n, f in _SHAPE.items()},
        }
        return {
            **{
                name: ir.DenseI64ArrayAttr.get(given) for name, given in numbers.items()
            },
            "channels_last": ir.BoolAttr.get(shape.channels_last),
        }

    @property
    def shape(self) -> ConvolutionShape:
        """What it computes."""
        numbers = {field: tuple(self.attributes[n]) for n, field in _SHAPE.items()}
        channels_last = ir.BoolAttr(self.channels_last).value
        return ConvolutionShape(*self.counts, **numbers, channels_last=channels_last)


# Fields of shapes, by the names of attributes.
_SHAPE = {
    "picture_sizes": "picture",
    "window_sizes": "window",
    "result_sizes": "result",
    "steps": "steps",
    "dilations": "dilations",
    "pads": "pads",
    "picture_strides": "picture_strides",
    "result_strides": "result_strides",
}


class LibraryProductOp(Tir.Operation, name="library_product"):
    """Products of matrices that a library of the device computes, between its launches.

    ``result[b, i, j]`` is the sum over ``p`` of ``lhs[b, i, p] * rhs[b, p, j]``, then
    ``bias[j]`` is added, if there is one, then the activation is applied. Sums are f32, or
    f64 of such factors; the result is rounded once. No result lies in an operand.

    Attributes:
        sizes: how many products, rows, columns, and terms of a sum.
        leading: elements between rows in memory; of ``lhs``, ``rhs`` and the result.
        steps: elements between the matrices of two products, likewise; 0 if they are one.
        bias: one number per column, of the type of the result, or nothing.
        turned: whether ``lhs`` and ``rhs`` lie in memory with rows and columns exchanged;
            their leading numbers are those of the rows that lie there.
        tf32: whether factors in f32 may be rounded to 11 bits.
        activation: ``none``, or ``relu``, the larger one of a number and 0.
    """

    effects = Effects.WRITES

    lhs: Operand[ir.MemRefType]
    rhs: Operand[ir.MemRefType]
    result: Operand[ir.MemRefType]
    sizes: Sequence[Operand[ir.IndexType]]
    leading: Sequence[Operand[ir.IndexType]]
    steps: Sequence[Operand[ir.IndexType]]
    bias: Sequence[Operand[ir.MemRefType]]
    turned: ir.ArrayAttr
    tf32: ir.BoolAttr
    activation: ir.StringAttr


class LetOp(Tir.Operation, name="let"):
    """A name for a scalar, from here to the end of the region.

    Attributes:
        name: for readers.
    """

    effects = Effects.NONE

    value: Operand[ir.Type]
    result: Result[ir.Type]
    name: ir.StringAttr


class EvaluateOp(Tir.Operation, name="evaluate"):
    """Compute a scalar that nobody reads."""

    effects = Effects.NONE

    value: Operand[ir.Type]


class CallOp(Tir.Operation, name="call"):
    """Call a function of scalars by name, where no operation of its own stands for it.

    Attributes:
        callee: ``sigmoid``, ``call_extern``, ... with the arguments that those have.
        literals: per argument ``unit`` where it is the next operand, else what it is.
    """

    effects = Effects.UNKNOWN

    args: Operand[ir.TupleType]
    outputs: Sequence[Result[ir.Type]]
    callee: ir.StringAttr
    literals: ir.ArrayAttr


class AddressOp(Tir.Operation, name="address"):
    """Where an element of a buffer lies in memory; without indices, the first."""

    effects = Effects.NONE

    buffer: Operand[ir.MemRefType]
    indices: Sequence[Operand[ir.IndexType]]
    pointer: Result[ir.Type]


class AssertOp(Tir.Operation, name="assert"):
    """What holds wherever the program comes by.

    Attributes:
        message: what to say where it does not.
    """

    effects = Effects.CHECKS | Effects.OBSERVED

    condition: Operand[ir.IntegerType]
    message: ir.StringAttr


class AttrOp(Tir.Operation, name="attr"):
    """Statements of which something is said.

    Attributes:
        key: what is said, such as ``storage_alignment``.
        literals: of what, then the value: ``unit`` where it is the next operand, else
            what it is.
        form: ``one`` for a single thing, ``list`` for several, ``reducer`` for the start
            values of a reduction, whose combination is the first region.
    """

    effects = Effects.NONE

    args: Operand[ir.TupleType]
    key: ir.StringAttr
    form: ir.StringAttr
    literals: ir.ArrayAttr
    combiner: Region
    body: Region


class DeclBufferOp(Tir.Operation, name="decl_buffer"):
    """A buffer in memory that is there already, from a pointer on.

    Attributes:
        shape: its dimensions, ``#relax.shape<[...]>``; dynamic ones are operands too.
    """

    effects = Effects.NONE

    pointer: Operand[ir.Type]
    sizes: Sequence[Operand[ir.IndexType]]
    buffer: Result[ir.MemRefType]
    shape: Attr


class UndefinedOp(Tir.Operation, name="undefined"):
    """A variable that nothing gives a value; such a program cannot run.

    Attributes:
        name: for readers.
    """

    effects = Effects.NONE

    result: Result[ir.Type]
    name: ir.StringAttr


class RampOp(Tir.Operation, name="ramp"):
    """The vector ``base``, ``base + stride``, ...; its type tells how many lanes."""

    effects = Effects.NONE

    base: Operand[ir.IntegerType]
    stride: Operand[ir.IntegerType]
    result: Result[ir.VectorType]


class VectorLoadOp(Tir.Operation, name="vector_load"):
    """The elements of a buffer at a vector of places in its last dimension.

    A lane where ``mask`` is false, if there is one, is not read.
    """

    effects = Effects.READS

    buffer: Operand[ir.MemRefType]
    indices: Sequence[Operand[ir.IndexType]]
    places: Operand[ir.VectorType]
    mask: Sequence[Operand[ir.VectorType]]
    result: Result[ir.VectorType]


class VectorStoreOp(Tir.Operation, name="vector_store"):
    """Write a vector to places in the last dimension of a buffer; see the load."""

    effects = Effects.WRITES

    value: Operand[ir.VectorType]
    buffer: Operand[ir.MemRefType]
    indices: Sequence[Operand[ir.IndexType]]
    places: Operand[ir.VectorType]
    mask: Sequence[Operand[ir.VectorType]]
