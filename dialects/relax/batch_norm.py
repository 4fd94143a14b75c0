"""Batch normalisation, in inference and training mode."""

from collections.abc import Sequence

import numpy as np
from mlir.ir import BoolAttr, FloatAttr, IntegerAttr, RankedTensorType, TupleType

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.op_interface import Case
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.elementwise import (
    require_element_type,
    wide_type,
    widen_array,
)
from relax_mlir.dialects.relax.mean_variance_norm import scale_and_shift
from relax_mlir.dialects.relax.reduce import element_count
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar


class BatchNormOp(Relax.Operation, name="nn_batch_norm"):
    """Batch normalisation: gamma * (data - mean) / sqrt(var + epsilon) + beta per channel.

    In training, mean and variance are those of the batch, and the moving statistics are
    updated: moving = (1 - momentum) * moving + momentum * batch. Otherwise they are the
    moving statistics, which are returned unchanged. Computed in f32 for f16 and bf16.

    Attributes:
        axis: the channel axis.
        epsilon: added to the variance.
        center: whether beta is added.
        scale: whether the result is multiplied by gamma.
        momentum: weight of the batch in the update of the moving statistics.
        training: whether the statistics of the batch are used.
    Shapes:
        data: [..., c, ...], floats. gamma, beta, moving_mean, moving_var: [c], floats.
        y: a tuple (data, moving_mean, moving_var) of their types.
    Source: Ioffe and Szegedy, Batch Normalization, 2015.
    """

    skips_unused_results = True

    data: Operand[RankedTensorType]
    gamma: Operand[RankedTensorType]
    beta: Operand[RankedTensorType]
    moving_mean: Operand[RankedTensorType]
    moving_var: Operand[RankedTensorType]
    y: Result[TupleType]
    axis: IntegerAttr
    epsilon: FloatAttr
    center: BoolAttr
    scale: BoolAttr
    momentum: FloatAttr
    training: BoolAttr

    cases = (
        Case((2, 3), *[(3,)] * 4, axis=1, training=False, low=0.1),
        Case((2, 3, 5, 17), *[(3,)] * 4, axis=1, training=False, low=0.1),
        Case((2, 3, 71), *[(3,)] * 4, axis=1, epsilon=0.5, training=False, low=0.1),
        Case((1, 1, 4), *[(1,)] * 4, axis=1, training=False, low=0.1),
        Case((0, 3, 4), *[(3,)] * 4, axis=1, training=False, low=0.1),
        Case((2, 5, 3), *[(3,)] * 4, axis=-1, training=False, low=0.1),
        Case((2, 3, 9), *[(3,)] * 4, axis=1, center=False, training=False, low=0.1),
        Case((2, 3, 9), *[(3,)] * 4, axis=1, scale=False, training=False, low=0.1),
        Case(
            (2, 3, 2, 2, 2, "float64"),
            *[(3, "float64")] * 4,
            axis=1,
            training=False,
            low=0.1,
        ),
        Case(
            (2, 3, 9, "float16"),
            *[(3, "float16")] * 4,
            axis=1,
            training=False,
            low=0.1,
        ),
        Case((2, 3, 9, "bfloat16"), *[(3,)] * 4, axis=1, training=False, low=0.1),
        Case((2, 3, 5, 7), *[(3,)] * 4, axis=1),
        Case((5, 7, 3), *[(3,)] * 4, axis=2, momentum=0.4),
        Case((4, 3, 9, "float16"), *[(3, "float16")] * 4, axis=1, scale=False),
    )

    @staticmethod
    def infer(
        data: RankedTensorType,
        gamma: RankedTensorType,
        beta: RankedTensorType,
        moving_mean: RankedTensorType,
        moving_var: RankedTensorType,
        axis: int,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
        momentum: float = 0.1,
        training: bool = True,
    ) -> TupleType:
        check_channels(data, axis, gamma, beta, moving_mean, moving_var)
        return TupleType.get_tuple([data, moving_mean, moving_var])

    @staticmethod
    def reference(
        data: np.ndarray,
        gamma: np.ndarray,
        beta: np.ndarray,
        moving_mean: np.ndarray,
        moving_var: np.ndarray,
        axis: int,
        epsilon: float,
        center: bool,
        scale: bool,
        momentum: float,
        training: bool,
    ) -> list[np.ndarray]:
        x, gamma, beta, mean, var = map(
            widen_array, (data, gamma, beta, moving_mean, moving_var)
        )
        column = [-1 if i == axis % x.ndim else 1 for i in range(x.ndim)]
        old = (mean, var)
        if training:
            axes = tuple(i for i in range(x.ndim) if i != axis % x.ndim)
            mean, var = x.mean(axes), x.var(axes)
        centred = x - mean.reshape(column)
        y = centred / np.sqrt(var.reshape(column) + epsilon)
        gamma, beta = gamma.reshape(column), beta.reshape(column)
        y = scale_and_shift(y, gamma, beta, center=center, scale=scale)
        moved = [
            (1 - momentum) * o + momentum * n if training else o
            for o, n in zip(old, (mean, var), strict=True)
        ]
        types = (data.dtype, moving_mean.dtype, moving_var.dtype)
        return [v.astype(t) for v, t in zip((y, *moved), types, strict=True)]

    def legalize(self, b: Builder) -> list[Buffer]:
        """One elementwise block in inference, so that it fuses with its neighbours.

        The per-channel scale is computed in the block, where it is uniform over the lanes
        of a vector. Usually the operator is folded into the preceding weights instead.
        """
        x, gamma, beta, *moving = b.inputs
        axis = shapes.check_axis(self.axis.value, x.rank)
        wide, epsilon = wide_type(x.dtype), self.epsilon.value
        mean, var = (
            self._batch_statistics(b, x, axis) if self.training.value else moving
        )

        def body(*points: Index) -> Scalar:
            g, t, m, v = (
                b.cast(k[points[axis]], wide) for k in (gamma, beta, mean, var)
            )
            root = b.math("sqrt", v + epsilon)
            factor = g / root if self.scale.value else 1.0 / root
            y = (b.widen(x[points]) - m) * factor
            return b.cast(y + t if self.center.value else y, x.dtype)

        y = b.compute(x.shape, body, x.dtype, "batch_norm")
        if not self.training.value:
            return [y, *moving]
        pairs = zip(moving, (mean, var), b.wanted[1:], strict=True)
        return [y, *(self._moved(b, o, n) if w else o for o, n, w in pairs)]

    def _batch_statistics(
        self, b: Builder, x: Buffer, axis: int
    ) -> tuple[Buffer, Buffer]:
        """Mean and variance per channel, in two passes."""
        wide = wide_type(x.dtype)
        axes = [i for i in range(x.rank) if i != axis]
        sizes = [x.shape[i] for i in axes]

        def point(channel: Index, inner: Sequence[Index]) -> tuple[Index, ...]:
            return (*inner[:axis], channel, *inner[axis:])

        def squared(channel: Index, *inner: Index) -> Scalar:
            difference = b.widen(x[point(channel, inner)]) - mean[channel]
            return difference * difference

        def averaged(total: Buffer, name: str) -> Buffer:
            return b.map(lambda t: t / element_count(b, sizes, wide), total, name=name)

        channels = [x.shape[axis]]
        total = b.reduce_over(
            "add", channels, sizes, lambda c, *i: b.widen(x[point(c, i)]), wide, "sum"
        )
        mean = averaged(total, "mean")
        squares = b.reduce_over("add", channels, sizes, squared, wide, "squares")
        return mean, averaged(squares, "variance")

    def _moved(self, b: Builder, old: Buffer, new: Buffer) -> Buffer:
        momentum = self.momentum.value

        def element(o: Scalar, n: Scalar) -> Scalar:
            kept = b.cast(o, new.dtype) * (1 - momentum)
            return b.cast(kept + n * momentum, old.dtype)

        return b.map(element, old, new, dtype=old.dtype, name="moving")


def check_channels(
    data: RankedTensorType, axis: int, *numbers: RankedTensorType
) -> None:
    """Checks that each of ``numbers`` is [c], the channels of data, and all are floats.

    Raises:
        ValueError: a shape or an element type is another one.
    """
    shape = tensors.shape_of(data)
    for operand in (data, *numbers):
        require_element_type("f", operand)
    axis = shapes.check_axis(axis, len(shape))
    for operand in numbers:
        found = tensors.shape_of(operand)
        if len(found) != 1:
            given = shapes.format_shape(found)
            raise ValueError(f"expected a number per channel, got {given}")
        shapes.unify(shape[axis], found[0])
