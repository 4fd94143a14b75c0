"""Layer normalisation and RMS normalisation."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from mlir.ir import BoolAttr, DenseI64ArrayAttr, FloatAttr, RankedTensorType

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.op_interface import Case
from relax_mlir.dialects.relax.attribute_arguments import int_tuple
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.elementwise import (
    computed_wide,
    require_element_type,
    wide_type,
)
from relax_mlir.dialects.relax.mean_variance_norm import (
    broadcastable_weights,
    mean_and_variance,
    normalize_mean_variance,
    scale_and_shift,
)
from relax_mlir.dialects.relax.reduce import element_count
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar


class LayerNormOp(Relax.Operation, name="nn_layer_norm"):
    """Layer normalisation: (data - mean) / sqrt(variance + epsilon) * gamma + beta.

    Computed in f32 for f16 and bf16.

    Attributes:
        axes: the axes over which mean and variance are computed.
        epsilon: added to the variance.
        center: whether beta is added.
        scale: whether the result is multiplied by gamma.
    Shapes:
        data, y: any shape of rank 1 or more, same float type. gamma, beta: floats, the
        sizes of ``axes``; if these are the last axes, any shape that broadcasts to data.
    Source: Ba et al., Layer Normalization, 2016.
    """

    data: Operand[RankedTensorType]
    gamma: Operand[RankedTensorType]
    beta: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    axes: DenseI64ArrayAttr
    epsilon: FloatAttr
    center: BoolAttr
    scale: BoolAttr

    cases = (
        Case((5,), (5,), (5,), axes=(0,)),
        Case((2, 3), (3,), (3,), axes=(-1,)),
        Case((2, 3, 768), (768,), (768,), axes=(-1,), low=5.0, high=9.0),
        Case((2, 3, 71), (71,), (), axes=(-1,)),
        Case((2, 3, 5), (3, 5), (3, 5), axes=(1, 2)),
        Case((2, 3, 5), (5,), (5,), axes=(0, 1, 2), epsilon=0.1),
        Case((2, 3, 5), (5, 3), (5, 3), axes=(2, 1)),
        Case((2, 3, 5), (2, 3), (2, 3), axes=(0, -2)),
        Case((2, 3, 5), (5,), (5,), axes=(2,), center=False),
        Case((2, 3, 5), (3,), (3,), axes=(1,), scale=False),
        Case((0, 4), (4,), (4,), axes=(1,)),
        Case((3, 40, "float64"), (40, "float64"), (40, "float64"), axes=(1,)),
        Case((3, 40, "float16"), (40, "float16"), (40, "float16"), axes=(1,)),
        Case((3, 40, "bfloat16"), (40,), (40,), axes=(1,)),
    )

    @staticmethod
    def infer(
        data: RankedTensorType,
        gamma: RankedTensorType,
        beta: RankedTensorType,
        axes: Sequence[int],
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
    ) -> RankedTensorType:
        return tensors.tensor_type(
            _shape(data, axes, gamma, beta), tensors.dtype_of(data)
        )

    @staticmethod
    def normalize_arguments(**attrs: Any) -> dict[str, Any]:  # Any: see the base
        return {**attrs, "axes": int_tuple(attrs["axes"])}

    @staticmethod
    @computed_wide
    def reference(
        data: np.ndarray,
        gamma: np.ndarray,
        beta: np.ndarray,
        axes: Sequence[int],
        epsilon: float,
        center: bool,
        scale: bool,
    ) -> np.ndarray:
        axes = shapes.normalize_axes(axes, data.ndim)
        if not _are_last(axes, data.ndim):
            gamma, beta = (
                broadcastable_weights(v, axes, data.ndim) for v in (gamma, beta)
            )
        y = normalize_mean_variance(data, axes, epsilon)
        return scale_and_shift(y, gamma, beta, center=center, scale=scale)

    def legalize(self, b: Builder) -> Buffer:
        (x, gamma, beta), epsilon = b.inputs, self.epsilon.value
        axes = shapes.normalize_axes(self.axes, x.rank)
        mean, factor = mean_and_variance(
            b, x, axes, lambda v: 1.0 / b.math("sqrt", v + epsilon)
        )
        weights = [
            *([gamma] if self.scale.value else []),
            *([beta] if self.center.value else []),
        ]

        def element(v: Scalar, m: Scalar, f: Scalar, *rest: Scalar) -> Scalar:
            values = (b.cast(r, wide_type(x.dtype)) for r in rest)
            y = (b.widen(v) - m) * f
            y = y * next(values) if self.scale.value else y
            y = y + next(values) if self.center.value else y
            return b.cast(y, x.dtype)

        return _mapped(b, element, (x, mean, factor), weights, axes, "layer_norm")


class RmsNormOp(Relax.Operation, name="nn_rms_norm"):
    """RMS normalisation: data / sqrt(mean of data^2 + epsilon) * weight.

    Computed in f32 for f16 and bf16.

    Attributes:
        axes: the axes over which the mean is computed.
        epsilon: added to the mean square.
    Shapes:
        data, y: any shape of rank 1 or more, same float type. weight: floats, as gamma of
        ``nn.layer_norm``.
    Source: Zhang and Sennrich, Root Mean Square Layer Normalization, 2019.
    """

    data: Operand[RankedTensorType]
    weight: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    axes: DenseI64ArrayAttr
    epsilon: FloatAttr

    cases = (
        Case((5,), (5,)),
        Case((2, 3, 768), (768,)),
        Case((2, 3, 71), ()),
        Case((2, 3, 5), (3, 5), axes=(1, 2)),
        Case((2, 3, 5), (5,), axes=(0, 1, 2), epsilon=0.1),
        Case((2, 3, 5), (5, 2), axes=(2, 0)),
        Case((0, 4), (4,)),
        Case((3, 40, "float64"), (40, "float64")),
        Case((3, 40, "float16"), (40, "float16")),
        Case((3, 40, "float16"), (40,)),
        Case((3, 40, "bfloat16"), (40, "bfloat16")),
    )

    @staticmethod
    def infer(
        data: RankedTensorType,
        weight: RankedTensorType,
        axes: Sequence[int] = (-1,),
        epsilon: float = 1e-5,
    ) -> RankedTensorType:
        return tensors.tensor_type(_shape(data, axes, weight), tensors.dtype_of(data))

    @staticmethod
    def normalize_arguments(**attrs: Any) -> dict[str, Any]:  # Any: see the base
        return {**attrs, "axes": int_tuple(attrs.get("axes", -1))}

    @staticmethod
    @computed_wide
    def reference(
        data: np.ndarray, weight: np.ndarray, axes: Sequence[int], epsilon: float
    ) -> np.ndarray:
        axes = shapes.normalize_axes(axes, data.ndim)
        if not _are_last(axes, data.ndim):
            weight = broadcastable_weights(weight, axes, data.ndim)
        mean = (data * data).mean(axes, keepdims=True)
        return data / np.sqrt(mean + epsilon) * weight

    def legalize(self, b: Builder) -> Buffer:
        x, weight = b.inputs
        wide, epsilon = wide_type(x.dtype), self.epsilon.value
        axes = shapes.normalize_axes(self.axes, x.rank)
        sizes = [x.shape[axis] for axis in axes]

        def inverse(total: Scalar) -> Scalar:
            mean = total / element_count(b, sizes, wide)
            return 1.0 / b.math("sqrt", mean + epsilon)

        squares = b.reduce(
            "add",
            x,
            axes,
            fn=lambda v: b.widen(v) * b.widen(v),
            dtype=wide,
            name="squares",
        )
        factor = b.map(inverse, squares, name="factor")

        def element(v: Scalar, f: Scalar, w: Scalar) -> Scalar:
            return b.cast(b.widen(v) * f * b.cast(w, wide), x.dtype)

        return _mapped(b, element, (x, factor), [weight], axes, "rms_norm")


def _shape(
    data: RankedTensorType, axes: Sequence[int], *weights: RankedTensorType
) -> shapes.Shape:
    """Checks the shapes and types of the weights; returns the refined shape of data.

    Raises:
        ValueError: an operand is not a float tensor, or a shape does not match ``axes``.
    """
    for operand in (data, *weights):
        require_element_type("f", operand)
    shape = list(tensors.shape_of(data))
    axes = shapes.normalize_axes(axes, len(shape))
    if _are_last(axes, len(shape)):
        return shapes.broadcast_into(shape, *map(tensors.shape_of, weights))
    for weight in weights:
        if weight.rank != len(axes):
            raise ValueError(f"expected rank {len(axes)} as axes, got {weight.rank}")
        for axis, dim in zip(axes, tensors.shape_of(weight), strict=True):
            shape[axis] = shapes.unify(shape[axis], dim)
    return tuple(shape)


def _are_last(axes: Sequence[int], rank: int) -> bool:
    return list(axes) == list(range(rank - len(axes), rank))


def _mapped(
    b: Builder,
    element: Any,  # Any: a function of one scalar each
    operands: Sequence[Buffer],
    weights: Sequence[Buffer],
    axes: Sequence[int],
    name: str,
) -> Buffer:
    """An elementwise block over the first operand.

    The other operands have size 1 on ``axes``; the axes of the weights are ``axes``.
    """
    x = operands[0]
    if _are_last(axes, x.rank):
        return b.map(element, *operands, *weights, dtype=x.dtype, name=name)

    def body(*points: Index) -> Scalar:
        row = tuple(0 if i in axes else point for i, point in enumerate(points))
        inner = tuple(points[axis] for axis in axes)
        return element(
            x[points], *(o[row] for o in operands[1:]), *(w[inner] for w in weights)
        )

    return b.compute(x.shape, body, x.dtype, name)
