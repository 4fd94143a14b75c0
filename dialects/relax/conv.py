"""Convolutions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from mlir import ir
from mlir.ir import DenseI64ArrayAttr, IntegerAttr, RankedTensorType

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.hooks import Case, OnnxNode, onnx_rule
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.elementwise import AddOp
from relax_mlir.dialects.relax.movement import ReshapeOp
from relax_mlir.dialects.relax.padding import read_padded
from relax_mlir.dialects.relax.windows import Window, onnx_window, taps
from relax_mlir.dialects.shapes import Dim, Shape
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = ["ConvOp", "ConvTransposeOp"]


class ConvOp(Relax.Operation, name="conv"):
    """Convolution without bias (a sum of products over sliding windows), in 1 to 3-D.

    Attributes:
        strides, dilations: one number per spatial axis; none at all stands for 1s.
        pads: zeros before every spatial axis, then after every one; none for 0s.
        groups: input and output channels are cut into so many parts, which do not see
            each other.
    Shapes:
        x: [n, c, spatial...]; weight: [o, c / groups, kernel...];
        y: [n, o, spatial...], sizes by :func:`shapes.conv_output`.
    Source: ONNX Conv-11, without its bias.
    """

    x: Operand[RankedTensorType]
    weight: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    strides: DenseI64ArrayAttr
    pads: DenseI64ArrayAttr
    dilations: DenseI64ArrayAttr
    groups: IntegerAttr

    tolerance = 1e-4  # f32 sums in another order
    cases = (
        Case((1, 3, 7, 5), (2, 3, 3, 3)),
        Case((2, 3, 8, 8), (5, 3, 3, 3), pads=(1, 1, 1, 1)),
        Case((1, 4, 9, 7), (6, 4, 1, 1), strides=(2, 2)),
        Case((1, 3, 11, 13), (7, 3, 3, 5), strides=(2, 3), pads=(0, 2, 1, 1)),
        Case((1, 2, 9, 9), (3, 2, 3, 3), dilations=(2, 3), pads=(2, 3, 2, 3)),
        Case((1, 5, 7, 7), (5, 1, 3, 3), pads=(1, 1, 1, 1), groups=5),
        Case((2, 4, 6, 5), (8, 1, 3, 3), strides=(2, 1), groups=4),
        Case((1, 6, 5, 5), (4, 3, 3, 3), pads=(1, 1, 1, 1), groups=2),
        Case((2, 3, 17), (4, 3, 5), strides=(2,), pads=(2, 2)),
        Case((1, 2, 5, 6, 7), (3, 2, 2, 3, 3), pads=(0, 1, 1, 1, 1, 0)),
        Case((0, 3, 5, 5), (2, 3, 3, 3)),
        Case((1, 1, 1, 1), (1, 1, 1, 1)),
        Case((1, 3, 8, 5, "float64"), (2, 3, 3, 3, "float64"), pads=(1, 1, 1, 1)),
        Case((1, 3, 6, 5, "float16"), (2, 3, 3, 3, "float16"), pads=(1, 1, 1, 1)),
        Case((1, 16, 14, 14), (32, 16, 3, 3), pads=(1, 1, 1, 1)),
    )

    @staticmethod
    def infer(
        x: RankedTensorType,
        weight: RankedTensorType,
        strides: Sequence[int] = (),
        pads: Sequence[int] = (),
        dilations: Sequence[int] = (),
        groups: int = 1,
    ) -> RankedTensorType:
        n, c, *sizes = _conv_shape(x, weight)
        o, per_group, *kernel = tensors.shape_of(weight)
        if shapes.is_known_unequal(c, per_group * groups):
            raise ValueError(
                f"weight expects {per_group * groups} input channels, got {c}"
            )
        if shapes.mod(o, groups) != 0:
            raise ValueError(f"{o} output channels do not divide into {groups} groups")
        window = Window.of(kernel, strides, pads, dilations)
        return tensors.tensor_type(
            (n, o, *window.conv_sizes(sizes)), tensors.dtype_of(x)
        )

    @staticmethod
    def reference(
        x: np.ndarray,
        weight: np.ndarray,
        strides: Sequence[int] = (),
        pads: Sequence[int] = (),
        dilations: Sequence[int] = (),
        groups: int = 1,
    ) -> np.ndarray:
        window = Window.of(weight.shape[2:], strides, pads, dilations)
        sizes = window.conv_sizes(x.shape[2:])
        w = _grouped(weight.astype(np.float64), 0, groups)
        y = np.zeros((x.shape[0], groups, w.shape[1], *sizes))
        for tap, read in taps(x.astype(np.float64), window, sizes, 0.0):
            y += np.einsum(
                "goc,ngc...->ngo...",
                w[(..., *tap)],
                _grouped(read, 1, groups),
                optimize=True,
            )
        return y.reshape(x.shape[0], len(weight), *sizes).astype(x.dtype)

    def legalize(self, b: Builder) -> Buffer:
        x, weight = b.inputs
        attrs = self.python_attrs()
        groups = attrs.pop("groups")
        window = Window.of(weight.shape[2:], **attrs)
        if window.is_padded:
            x, window = _zero_padded(b, x, window), window.without_pads()
        channels = _Channels(
            groups, weight.shape[1], shapes.floordiv(weight.shape[0], groups)
        )

        def body(point: "_Point") -> Scalar:
            where = window.positions(point.spatial, point.taps)
            own = x[(point.n, point.read, *where)]
            return b.wide(own) * b.wide(
                weight[(point.written, point.read_in_group, *point.taps)]
            )

        return channels.reduce(b, window.kernel, body, "conv")

    @onnx_rule("Conv", since=1)
    def from_onnx(node: OnnxNode) -> ir.Value:
        weight = node.input(1)
        kernel = tensors.shape_of(weight)[2:]
        x, attrs = onnx_window(node, node.input(0), kernel, fill=0.0)
        y = ConvOp(x, weight, groups=node.attr("group", 1), **attrs).y
        return _with_bias(node, y)


class ConvTransposeOp(Relax.Operation, name="conv_transpose"):
    """The transpose of a convolution: every input element adds a scaled kernel to y.

    Attributes:
        strides, dilations, groups: of the convolution that it transposes.
        pads: elements cut off the result, before every spatial axis, then after.
        output_padding: elements added after every spatial axis; none stands for 0s.
    Shapes:
        x: [n, c, spatial...]; weight: [c, o / groups, kernel...];
        y: [n, o, spatial...], sizes by :func:`shapes.conv_transpose_output`.
    Source: ONNX ConvTranspose-11, without its bias.
    """

    x: Operand[RankedTensorType]
    weight: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    strides: DenseI64ArrayAttr
    pads: DenseI64ArrayAttr
    dilations: DenseI64ArrayAttr
    output_padding: DenseI64ArrayAttr
    groups: IntegerAttr

    tolerance = 1e-4  # f32 sums in another order
    cases = (
        Case((1, 3, 4, 5), (3, 2, 3, 3)),
        Case((2, 4, 3, 5), (4, 3, 2, 2), strides=(2, 2)),
        Case((1, 2, 5, 4), (2, 3, 4, 3), strides=(2, 3), pads=(1, 0, 1, 2)),
        Case((1, 2, 3, 3), (2, 2, 3, 3), strides=(3, 2), output_padding=(1, 1)),
        Case((1, 1, 3, 3), (1, 1, 2, 2), dilations=(2, 3)),
        Case((1, 6, 3, 4), (6, 2, 3, 3), strides=(2, 2), groups=2),
        Case((1, 5, 3, 4), (5, 1, 2, 2), strides=(2, 2), groups=5),
        Case((1, 3, 7), (3, 2, 4), strides=(2,), pads=(1, 1)),
        Case((1, 2, 2, 3, 2), (2, 1, 2, 2, 3), strides=(2, 1, 2)),
        Case((0, 2, 3, 3), (2, 1, 2, 2)),
        Case((1, 2, 3, 3, "float16"), (2, 3, 2, 2, "float16"), strides=(2, 2)),
    )

    @staticmethod
    def infer(
        x: RankedTensorType,
        weight: RankedTensorType,
        strides: Sequence[int] = (),
        pads: Sequence[int] = (),
        dilations: Sequence[int] = (),
        output_padding: Sequence[int] = (),
        groups: int = 1,
    ) -> RankedTensorType:
        n, c, *sizes = _conv_shape(x, weight)
        expected, per_group, *kernel = tensors.shape_of(weight)
        if shapes.is_known_unequal(c, expected):
            raise ValueError(f"weight expects {expected} input channels, got {c}")
        if shapes.mod(expected, groups) != 0:
            raise ValueError(
                f"{expected} input channels do not divide into {groups} groups"
            )
        window = Window.of(kernel, strides, pads, dilations)
        sizes = _transposed_sizes(sizes, window, output_padding)
        return tensors.tensor_type((n, per_group * groups, *sizes), tensors.dtype_of(x))

    @staticmethod
    def reference(
        x: np.ndarray,
        weight: np.ndarray,
        strides: Sequence[int] = (),
        pads: Sequence[int] = (),
        dilations: Sequence[int] = (),
        output_padding: Sequence[int] = (),
        groups: int = 1,
    ) -> np.ndarray:
        window = Window.of(weight.shape[2:], strides, pads, dilations)
        sizes = _transposed_sizes(x.shape[2:], window, output_padding)
        whole = _transposed_sizes(x.shape[2:], window.without_pads(), output_padding)
        xs = _grouped(x.astype(np.float64), 1, groups)
        w = _grouped(weight.astype(np.float64), 0, groups)
        y = np.zeros((len(x), groups, weight.shape[1], *whole))
        for tap in np.ndindex(*window.kernel):
            where = tuple(
                slice(t * d, t * d + s * n, s)
                for t, s, d, n in zip(
                    tap, window.strides, window.dilations, x.shape[2:], strict=True
                )
            )
            y[(..., *where)] += np.einsum(
                "gco,ngc...->ngo...", w[(..., *tap)], xs, optimize=True
            )
        kept = tuple(slice(b, b + n) for b, n in zip(window.before, sizes, strict=True))
        return (
            y[(..., *kept)]
            .reshape(len(x), -1 if y.size else groups * w.shape[2], *sizes)
            .astype(x.dtype)
        )

    def legalize(self, b: Builder) -> Buffer:
        x, weight = b.inputs
        attrs = self.python_attrs()
        groups = attrs.pop("groups")
        del attrs["output_padding"]
        window = Window.of(weight.shape[2:], **attrs)
        channels = _Channels(
            groups, shapes.floordiv(weight.shape[0], groups), weight.shape[1]
        )

        def body(point: "_Point") -> Scalar:
            inside, where = _gathered(b, window, x.shape[2:], point)
            own = b.guarded(
                inside, lambda: x[(point.n, point.read, *where)], b.constant(0, x.dtype)
            )
            return b.wide(own) * b.wide(
                weight[(point.read, point.written_in_group, *point.taps)]
            )

        return channels.reduce(b, window.kernel, body, "conv_transpose")

    @onnx_rule("ConvTranspose", since=1)
    def from_onnx(node: OnnxNode) -> ir.Value:
        x, weight = node.input(0), node.input(1)
        kernel = tensors.shape_of(weight)[2:]
        ones = [1] * len(kernel)
        attrs = {name: node.attr(name, ones) for name in ("strides", "dilations")}
        pads, output_padding = _onnx_transposed_pads(node, kernel, **attrs)
        y = ConvTransposeOp(
            x,
            weight,
            pads=pads,
            output_padding=output_padding,
            groups=node.attr("group", 1),
            **attrs,
        ).y
        return _with_bias(node, y)


def _conv_shape(x: RankedTensorType, weight: RankedTensorType) -> Shape:
    """The shape of x, checked against the weight's rank and type."""
    if tensors.dtype_of(x) != tensors.dtype_of(weight):
        raise ValueError(
            f"operands must have one element type, got {tensors.dtype_of(x)} "
            f"and {tensors.dtype_of(weight)}"
        )
    if x.rank < 3 or x.rank != weight.rank:
        raise ValueError(
            f"expected equal ranks of 3 or more, got {x.rank} and {weight.rank}"
        )
    return tensors.shape_of(x)


def _grouped(array: np.ndarray, axis: int, groups: int) -> np.ndarray:
    """``axis`` as two: groups, and channels of a group."""
    shape = array.shape
    per_group = shape[axis] // groups
    return array.reshape(*shape[:axis], groups, per_group, *shape[axis + 1 :])


def _zero_padded(b: Builder, x: Buffer, window: Window) -> Buffer:
    before, after = (0, 0, *window.before), (0, 0, *window.after)
    shape = shapes.pad_shape(x.shape, (*before, *after))
    padded = [axis for axis in range(x.rank) if before[axis] or after[axis]]

    def body(*axes: Index) -> Scalar:
        where = [axis - pad for axis, pad in zip(axes, before, strict=True)]
        return read_padded(b, x, where, padded, b.constant(0, x.dtype))

    return b.compute(shape, body, x.dtype, "pad")


@dataclass(frozen=True)
class _Point:
    """One product of a convolution.

    Attributes:
        n: the image; spatial: the place in the result; taps: in the kernel.
        read, written: channels of x and y; ..._in_group: counted within their group.
    """

    n: Index
    spatial: Sequence[Index]
    taps: Sequence[Index]
    read: Index
    written: Index
    read_in_group: "Index | int"
    written_in_group: "Index | int"


@dataclass(frozen=True)
class _Channels:
    """How a block runs over channels.

    With one group over (o | c), in depthwise convolutions over (o |), else over
    (group, o | c), where o and c count within the group.

    Attributes:
        groups: how many; inputs, outputs: channels of one group.
    """

    groups: int
    inputs: Dim
    outputs: Dim

    @property
    def is_depthwise(self) -> bool:
        return self.groups > 1 and self.inputs == 1 and self.outputs == 1

    @property
    def is_grouped(self) -> bool:
        return self.groups > 1 and not self.is_depthwise

    def reduce(
        self,
        b: Builder,
        kernel: Sequence[Dim],
        body: "Callable[[_Point], Scalar]",
        name: str,
    ) -> Buffer:
        """The result whose elements are sums of ``body`` over channels and taps."""
        shape, dtype = b.results[0]
        n, channels, *sizes = shape
        own = (self.groups, self.outputs) if self.is_grouped else (channels,)
        inner = () if self.is_depthwise else (self.inputs,)
        split = 1 + len(own) + len(sizes)

        def at(*axes: Index) -> Scalar:
            written, spatial = axes[1 : 1 + len(own)], axes[1 + len(own) : split]
            read, taps = axes[split : split + len(inner)], axes[split + len(inner) :]
            return body(self._point(b, axes[0], written, spatial, read, taps))

        def place(*axes: Index) -> "tuple[Index | int, ...]":
            return (
                axes[0],
                self._written(b, axes[1 : 1 + len(own)]),
                *axes[1 + len(own) :],
            )

        return b.reduce_over(
            "add",
            shape,
            (*inner, *kernel),
            at,
            dtype,
            name,
            spatial=(n, *own, *sizes),
            place=place,
        )

    def _written(self, b: Builder, axes: Sequence[Index]) -> Index:
        return axes[0] * b.dim(self.outputs) + axes[1] if self.is_grouped else axes[0]

    def _point(
        self,
        b: Builder,
        n: Index,
        written: Sequence[Index],
        spatial: Sequence[Index],
        read: Sequence[Index],
        taps: Sequence[Index],
    ) -> _Point:
        y = self._written(b, written)
        if self.is_depthwise:
            return _Point(n, spatial, taps, y, y, 0, 0)
        x = written[0] * b.dim(self.inputs) + read[0] if self.is_grouped else read[0]
        return _Point(n, spatial, taps, x, y, read[0], written[-1])


def _transposed_sizes(
    sizes: Sequence[Dim], window: Window, output_padding: Sequence[int]
) -> tuple[Dim, ...]:
    extra = tuple(output_padding) or (0,) * len(sizes)
    if len(extra) != len(sizes):
        raise ValueError(
            f"output_padding must be for {len(sizes)} axes, got {list(extra)}"
        )
    pads = zip(window.before, window.after, strict=True)
    return tuple(
        map(
            shapes.conv_transpose_output,
            sizes,
            window.kernel,
            window.strides,
            window.dilations,
            pads,
            extra,
        )
    )


def _gathered(
    b: Builder, window: Window, sizes: Sequence[Dim], point: _Point
) -> tuple[Scalar, list[Index]]:
    """The element of x that adds to a point through a tap, and whether there is one."""
    inside: Scalar | None = None
    where: list[Index] = []
    for axis, (place, tap) in enumerate(zip(point.spatial, point.taps, strict=True)):
        stride = window.strides[axis]
        scaled = place + window.before[axis] - tap * window.dilations[axis]
        source = scaled // stride
        here = (scaled >= 0) & (source < b.dim(sizes[axis]))
        if stride > 1:
            here = here & (scaled % stride).equal(0)
        inside = here if inside is None else inside & here
        where.append(source)
    return inside, where


def _with_bias(node: OnnxNode, y: ir.Value) -> ir.Value:
    """``y``, plus the third input along the channels if there is one."""
    bias = node.optional(2)
    if bias is None:
        return y
    rank = RankedTensorType(y.type).rank
    wide = ReshapeOp(bias, shape=(1, tensors.shape_of(y)[1], *[1] * (rank - 2))).y
    return AddOp(y, wide).z


def _onnx_transposed_pads(
    node: OnnxNode,
    kernel: Sequence[Dim],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> tuple[list[int], list[int]]:
    """``pads`` and ``output_padding``, from ``output_shape`` or ``auto_pad`` if given."""
    rank = len(kernel)
    extra = list(node.attr("output_padding", [0] * rank))
    mode = node.attr("auto_pad", "NOTSET")
    sizes = tensors.shape_of(node.input(0))[2:]
    if mode.startswith("SAME"):
        asked = [dim * stride for dim, stride in zip(sizes, strides, strict=True)]
    elif "output_shape" in node.attrs:
        asked = list(node.attr("output_shape"))[-rank:]
    else:
        zeros = [0] * (2 * rank)
        return list(zeros if mode == "VALID" else node.attr("pads", zeros)), extra
    before, after = [0] * rank, [0] * rank
    for axis in range(rank):
        whole = shapes.conv_transpose_output(
            sizes[axis],
            kernel[axis],
            strides[axis],
            dilations[axis],
            (0, 0),
            extra[axis],
        )
        total = whole - asked[axis]
        if not isinstance(total, int):
            raise ValueError(
                f"`auto_pad` of symbolic sizes {shapes.format_shape(sizes)}"
            )
        less = max(0, total) // 2
        more = max(0, total) - less
        before[axis], after[axis] = (
            (less, more) if mode == "SAME_UPPER" else (more, less)
        )
        extra[axis] += max(0, -total)
    return before + after, extra
