"""The tir dialect: tensor programs on buffers."""

from collections.abc import Sequence

from mlir import ir

from relax_mlir.dialects.effects import Effects
from relax_mlir.dialects.ext import Attr, Dialect, Operand, Operation, Region, Result
from relax_mlir.symbolic.convolution_shapes import ConvolutionShape

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
    "LibraryMatmulOp",
    "RampOp",
    "Tir",
    "UndefinedOp",
    "VectorLoadOp",
    "VectorStoreOp",
]


class TirOperation(Operation):
    """Base class of tir operations."""


class Tir(Dialect, name="tir"):
    """Tensor programs (PrimFuncs): loop nests that read and write buffers.

    A program is a ``func.func`` with the attribute ``tir.prim_func``. Its arguments are
    the input buffers, the destination buffers, then the symbolic sizes as ``index`` values.
    """

    Operation = TirOperation


class BlockOp(Tir.Operation, name="block"):
    """A TensorIR block: a statement over iteration axes, with an optional init region.

    Without ``bindings`` the block iterates over its whole domain, in any order over the
    ``S`` axes. With bindings it is one instance, inside explicit loops. The arguments
    of both regions are the axis variables; the init region runs before the first
    iteration of the ``R`` axes.

    Attributes:
        name: a label for readers.
        kinds: a letter per axis: ``S`` spatial, ``R`` reduce, ``O`` opaque, ``C`` ordered.
        static_extents: extent per axis; -1 for a dynamic one, the next of ``extents``.
    Source: Feng et al., TensorIR, 2023.
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
        """Whether the block has an init region."""
        return len(self.regions[0].blocks) > 0

    def axis_extents(self) -> list[int | ir.Value]:
        """Extent of every axis: an int or an ``index`` value."""
        dynamic = iter(self.extents)
        return [e if e >= 0 else next(dynamic) for e in self.static_extents]


class AllocBufferOp(Tir.Operation, name="alloc_buffer"):
    """Allocates a buffer local to a tensor program.

    Attributes:
        shape: its dimensions, ``#relax.shape<[...]>``; dynamic ones are also operands.
    """

    effects = Effects.ALLOCATES

    sizes: Sequence[Operand[ir.IndexType]]
    buffer: Result[ir.MemRefType]
    shape: Attr


class CallPackedOp(Tir.Operation, name="call_packed"):
    """Calls a packed function on buffers; destinations come last.

    Attributes:
        callee: name of a tvm-ffi global function.
    """

    effects = Effects.UNKNOWN

    args: Operand[ir.TupleType]
    callee: ir.StringAttr


class LibraryConvolutionOp(Tir.Operation, name="library_convolution"):
    """A convolution by a device library (cuDNN), with a fused epilogue.

    The convolution of ``batch`` images with the parameters of :class:`ConvolutionShape`;
    then the optional bias and residual are added and the activation is applied.
    Accumulation is in f32, or f64 for f64 operands; all buffers have one element type, and
    the result is rounded once. The result does not alias an operand, except that it may be
    the residual.

    Attributes:
        counts: input channels, filters (output channels) and groups.
        image_sizes, window_sizes, result_sizes, steps, dilations, pads, image_strides,
            result_strides, channels_last: see :class:`ConvolutionShape`.
        tf32: whether f32 operands may be rounded to TF32 (11 significant bits).
        activation: ``none`` or ``relu``.
    """

    effects = Effects.WRITES

    image: Operand[ir.MemRefType]
    weights: Operand[ir.MemRefType]
    result: Operand[ir.MemRefType]
    batch: Operand[ir.IndexType]
    bias: Sequence[Operand[ir.MemRefType]]
    residual: Sequence[Operand[ir.MemRefType]]
    counts: ir.DenseI64ArrayAttr
    image_sizes: ir.DenseI64ArrayAttr
    window_sizes: ir.DenseI64ArrayAttr
    result_sizes: ir.DenseI64ArrayAttr
    steps: ir.DenseI64ArrayAttr
    dilations: ir.DenseI64ArrayAttr
    pads: ir.DenseI64ArrayAttr
    image_strides: ir.DenseI64ArrayAttr
    result_strides: ir.DenseI64ArrayAttr
    channels_last: ir.BoolAttr
    tf32: ir.BoolAttr
    activation: ir.StringAttr

    @staticmethod
    def shape_attributes(shape: ConvolutionShape) -> dict[str, ir.Attribute]:
        """Converts a convolution shape to attributes."""
        counts = (shape.channels, shape.filters, shape.groups)
        numbers = {
            "counts": counts,
            **{n: getattr(shape, f) for n, f in _SHAPE.items()},
        }
        return {
            **{name: ir.DenseI64ArrayAttr.get(v) for name, v in numbers.items()},
            "channels_last": ir.BoolAttr.get(shape.channels_last),
        }

    @property
    def shape(self) -> ConvolutionShape:
        """The convolution's parameters."""
        numbers = {field: tuple(self.attributes[n]) for n, field in _SHAPE.items()}
        channels_last = ir.BoolAttr(self.channels_last).value
        return ConvolutionShape(*self.counts, **numbers, channels_last=channels_last)


# Maps names of attributes to fields of ConvolutionShape.
_SHAPE = {
    "image_sizes": "image",
    "window_sizes": "window",
    "result_sizes": "result",
    "steps": "steps",
    "dilations": "dilations",
    "pads": "pads",
    "image_strides": "image_strides",
    "result_strides": "result_strides",
}


class LibraryMatmulOp(Tir.Operation, name="library_product"):
    """A batched matmul by a device library (cuBLASLt), with a fused epilogue.

    ``result[b, i, j] = activation(sum_p lhs[b, i, p] * rhs[b, p, j] + bias[j])``.
    Accumulation is in f32, or f64 for f64 operands; the result is rounded once and does
    not alias an operand.

    Attributes:
        sizes: batch, M, N and K.
        leading: leading dimensions of ``lhs``, ``rhs`` and the result, in elements.
        steps: batch strides of the three, in elements; 0 if the batch shares one matrix.
        bias: none, or one number per column, of the result's element type.
        turned: whether ``lhs`` and ``rhs`` are stored transposed; their leading dimensions
            are those of the stored matrices.
        tf32: whether f32 operands may be rounded to TF32 (11 significant bits).
        activation: ``none`` or ``relu``.
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
    """A let binding: names a scalar up to the end of the region.

    Attributes:
        name: a label for readers.
    """

    effects = Effects.NONE

    value: Operand[ir.Type]
    result: Result[ir.Type]
    name: ir.StringAttr


class EvaluateOp(Tir.Operation, name="evaluate"):
    """Evaluates a scalar and discards it (``T.evaluate``)."""

    effects = Effects.NONE

    value: Operand[ir.Type]


class CallOp(Tir.Operation, name="call"):
    """Calls a TIR intrinsic that has no operation of its own.

    Attributes:
        callee: name of the intrinsic: ``sigmoid``, ``call_extern``, ...
        literals: per argument, a literal value, or ``unit`` for the next operand.
    """

    effects = Effects.UNKNOWN

    args: Operand[ir.TupleType]
    outputs: Sequence[Result[ir.Type]]
    callee: ir.StringAttr
    literals: ir.ArrayAttr


class AddressOp(Tir.Operation, name="address"):
    """The address of an element of a buffer (``T.address_of``); without indices, the first."""

    effects = Effects.NONE

    buffer: Operand[ir.MemRefType]
    indices: Sequence[Operand[ir.IndexType]]
    pointer: Result[ir.Type]


class AssertOp(Tir.Operation, name="assert"):
    """Stops the program with an error unless a condition holds.

    Attributes:
        message: the error message.
    """

    effects = Effects.CHECKS | Effects.OBSERVED

    condition: Operand[ir.IntegerType]
    message: ir.StringAttr


class AttrOp(Tir.Operation, name="attr"):
    """An attribute statement (``T.attr``): annotates the statements of its body.

    Attributes:
        key: the attribute's key, such as ``storage_alignment``.
        literals: the annotated node, then the value: a literal, or ``unit`` for the next
            operand.
        form: ``one`` for a single node, ``list`` for several, ``reducer`` for the identity
            elements of a reduction, whose combiner is the first region.
    """

    effects = Effects.NONE

    args: Operand[ir.TupleType]
    key: ir.StringAttr
    form: ir.StringAttr
    literals: ir.ArrayAttr
    combiner: Region
    body: Region


class DeclBufferOp(Tir.Operation, name="decl_buffer"):
    """Declares a buffer at a pointer to existing memory.

    Attributes:
        shape: its dimensions, ``#relax.shape<[...]>``; dynamic ones are also operands.
    """

    effects = Effects.NONE

    pointer: Operand[ir.Type]
    sizes: Sequence[Operand[ir.IndexType]]
    buffer: Result[ir.MemRefType]
    shape: Attr


class UndefinedOp(Tir.Operation, name="undefined"):
    """A free variable without a definition; a program with one cannot be executed.

    Attributes:
        name: a label for readers.
    """

    effects = Effects.NONE

    result: Result[ir.Type]
    name: ir.StringAttr


class RampOp(Tir.Operation, name="ramp"):
    """The vector ``base, base + stride, base + 2 * stride, ...``."""

    effects = Effects.NONE

    base: Operand[ir.IntegerType]
    stride: Operand[ir.IntegerType]
    result: Result[ir.VectorType]


class VectorLoadOp(Tir.Operation, name="vector_load"):
    """Gathers elements of a buffer at a vector of indices of its last dimension.

    Lanes whose optional ``mask`` is false are not read.
    """

    effects = Effects.READS

    buffer: Operand[ir.MemRefType]
    indices: Sequence[Operand[ir.IndexType]]
    places: Operand[ir.VectorType]
    mask: Sequence[Operand[ir.VectorType]]
    result: Result[ir.VectorType]


class VectorStoreOp(Tir.Operation, name="vector_store"):
    """Scatters a vector to indices of the last dimension of a buffer.

    Lanes whose optional ``mask`` is false are not written.
    """

    effects = Effects.WRITES

    value: Operand[ir.VectorType]
    buffer: Operand[ir.MemRefType]
    indices: Sequence[Operand[ir.IndexType]]
    places: Operand[ir.VectorType]
    mask: Sequence[Operand[ir.VectorType]]
