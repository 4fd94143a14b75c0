"""Loss functions."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from mlir import ir
from mlir.ir import IntegerAttr, RankedTensorType, StringAttr

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.dtypes import dtype
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.index_ranges import (
    IndexOperand,
    IndexRange,
    nonnegative_axis_range,
)
from relax_mlir.dialects.op_interface import Case, IndexCase
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.elementwise import (
    computed_wide,
    require_element_type,
    wide_type,
    widen_array,
)
from relax_mlir.dialects.relax.reduce import element_count
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

_I64 = dtype("int64")


class CrossEntropyWithLogitsOp(Relax.Operation, name="nn_cross_entropy_with_logits"):
    """Cross entropy: -sum(predictions * labels) / batch size; no softmax is applied.

    The batch size is the size of the first axis for rank 2 or more, and 1 for rank 1.

    Shapes:
        predictions, labels: one shape of rank 1 or more, same float type. y: a scalar.
    Source: TVM relax.op.nn.cross_entropy_with_logits.
    """

    predictions: Operand[RankedTensorType]
    labels: Operand[RankedTensorType]
    y: Result[RankedTensorType]

    cases = (
        Case((5,), (5,)),
        Case((3, 71), (3, 71)),
        Case((2, 3, 5), (2, 3, 5)),
        Case((9, 4, "float64"), (9, 4, "float64")),
        Case((9, 4, "float16"), (9, 4, "float16")),
    )

    @staticmethod
    def infer(
        predictions: RankedTensorType, labels: RankedTensorType
    ) -> RankedTensorType:
        shape, other = map(tensors.shape_of, (predictions, labels))
        if not shape or len(shape) != len(other):
            given = f"{shapes.format_shape(shape)} and {shapes.format_shape(other)}"
            raise ValueError(f"expected one shape of rank 1 or more, got {given}")
        for a, b in zip(shape, other, strict=True):
            shapes.unify(a, b)
        return tensors.tensor_type((), require_element_type("f", predictions, labels))

    @staticmethod
    @computed_wide
    def reference(predictions: np.ndarray, labels: np.ndarray) -> np.ndarray:
        total = -(predictions * labels).sum(dtype=predictions.dtype)
        return total / len(predictions) if predictions.ndim > 1 else total

    def legalize(self, b: Builder) -> Buffer:
        predictions, labels = b.inputs
        out, wide = b.results[0][1], wide_type(b.results[0][1])
        total = b.reduce(
            "add",
            [predictions, labels],
            range(predictions.rank),
            keepdims=False,
            fn=lambda u, v: b.widen(u) * b.widen(v),
            dtype=wide,
            name="sum",
        )

        def finish(t: Scalar) -> Scalar:
            if predictions.rank > 1:
                t = t / element_count(b, predictions.shape[:1], wide)
            return b.cast(-t, out)

        return b.map(finish, total, dtype=out, name="cross_entropy_with_logits")


Reduction = Literal["none", "sum", "mean"]


def _classes(predictions: RankedTensorType, ignored: int) -> IndexRange:
    """The valid range of targets: the classes and the ignored index."""
    return nonnegative_axis_range(
        predictions, _class_axis(predictions.rank), ignored=ignored
    )


class NllLossOp(Relax.Operation, name="nn_nll_loss"):
    """Negative log-likelihood loss: -weights[t] * predictions[t] for the target class t.

    Attributes:
        reduction: ``none``, ``sum``, or ``mean``: the weighted mean, divided by the sum of
            the weights of the targets.
        ignore_index: the target with loss and weight 0. Other targets out of range are
            clamped to the nearest class.
    Shapes:
        predictions: [n, c, ...], or [c]. targets: [n, ...], or a scalar; integers.
        weights: [c]; ones if omitted. y: shape of targets for ``none``, else a scalar;
        predictions, weights and y have one float type.
    Source: ONNX NegativeLogLikelihoodLoss-22.
    """

    predictions: Operand[RankedTensorType]
    targets: Operand[RankedTensorType]
    weights: Sequence[Operand[RankedTensorType]]
    y: Result[RankedTensorType]
    reduction: StringAttr
    ignore_index: IntegerAttr

    cases = (
        Case((3, 4), (3, "int64"), low=0, high=3),
        Case((3, 4), (3, "int64"), (4,), low=0.1, high=3),
        Case((3, 4), (3, "int64"), (4,), reduction="none", low=0.1, high=3),
        Case((3, 4), (3, "int32"), (4,), reduction="sum", low=0.1, high=3),
        Case((9, 4, 5), (9, 5, "int64"), (4,), ignore_index=1, low=0.1, high=3),
        Case(
            (9, 4, 5), (9, 5, "int64"), reduction="none", ignore_index=1, low=0, high=3
        ),
        Case((9, 4), (9, "int64"), (4,), low=-9, high=9),
        IndexCase((9, 4), (9, "int64"), low=-4, high=3),
        Case((4,), ("int64",), low=0, high=3),
        Case((4,), ("int64",), (4,), reduction="none", low=0.1, high=3),
        Case((9, 4, "float16"), (9, "int64"), (4, "float16"), low=0.1, high=3),
    )
    index_operands: ClassVar[Mapping[str, IndexOperand]] = {
        "targets": IndexOperand(
            lambda predictions, *operands, ignore_index, reduction: _classes(
                predictions, ignore_index
            ),
            "clamps: counts as the nearest class",
        )
    }

    def __init__(
        self,
        predictions: ir.Value,
        targets: ir.Value,
        *weights: ir.Value,
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
        results: Sequence[ir.Type] | None = None,
        **attrs: Any,  # Any: as many types as attributes
    ) -> None:
        """Builds the operation with or without the optional weights."""
        operands = [predictions, targets, *weights]
        attrs = {**self.attribute_defaults(), **attrs}
        super(Relax.Operation, self).__init__(
            self.OPERATION_NAME,
            self._ODS_REGIONS,
            None,
            None,
            operands=operands,
            results=list(results or self.result_types(operands, attrs)),
            attributes=self._make_attributes(attrs),
            loc=loc,
            ip=ip,
        )

    @staticmethod
    def infer(
        predictions: RankedTensorType,
        targets: RankedTensorType,
        weights: RankedTensorType | None = None,
        reduction: Reduction = "mean",
        ignore_index: int = -100,
    ) -> RankedTensorType:
        if reduction not in ("none", "sum", "mean"):
            raise ValueError(
                f"bad reduction: expected none, sum or mean, got {reduction!r}"
            )
        require_element_type("iu", targets)
        type_ = require_element_type(
            "f", predictions, *([] if weights is None else [weights])
        )
        shape, target_shape = tensors.shape_of(predictions), tensors.shape_of(targets)
        axis = _class_axis(len(shape))
        others = (*shape[:axis], *shape[axis + 1 :])
        if len(others) != len(target_shape):
            given = shapes.format_shape(target_shape)
            raise ValueError(
                f"targets: expected {shapes.format_shape(others)}, got {given}"
            )
        for a, b in zip(others, target_shape, strict=True):
            shapes.unify(a, b)
        if weights is not None:
            (count,) = tensors.shape_of(weights)
            shapes.unify(shape[axis], count)
        return tensors.tensor_type(others if reduction == "none" else (), type_)

    @staticmethod
    def reference(
        predictions: np.ndarray,
        targets: np.ndarray,
        weights: np.ndarray | None = None,
        *,
        reduction: Reduction,
        ignore_index: int,
    ) -> np.ndarray:
        wide = widen_array(predictions)
        axis = _class_axis(wide.ndim)
        own = np.ones(wide.shape[axis]) if weights is None else weights
        classes = np.clip(targets.astype(np.int64), 0, wide.shape[axis] - 1)
        own = np.where(targets == ignore_index, 0, own.astype(wide.dtype)[classes])
        picked = np.take_along_axis(wide, np.expand_dims(classes, axis), axis)
        losses = -own * picked.squeeze(axis)
        if reduction != "none":
            losses = losses.sum()
        losses = losses / own.sum() if reduction == "mean" else losses
        return np.asarray(losses).astype(predictions.dtype)

    def legalize(self, b: Builder) -> Buffer:
        """Elementwise losses, or the reductions of losses and weights."""
        predictions, targets, *weights = b.inputs
        type_ = predictions.dtype
        wide, axis = wide_type(type_), _class_axis(predictions.rank)

        def weight(*points: Index) -> Scalar:
            target = b.cast(targets[points], _I64)
            class_ = _class_of(b, target, predictions.shape[axis])
            own = b.cast(weights[0][class_], wide) if weights else b.constant(1, wide)
            is_ignored = target.equal(self.ignore_index.value)
            return b.select(is_ignored, b.constant(0, wide), own)

        def loss(*points: Index) -> Scalar:
            target = b.cast(targets[points], _I64)
            class_ = _class_of(b, target, predictions.shape[axis])
            prediction = predictions[(*points[:axis], class_, *points[axis:])]
            return -weight(*points) * b.widen(prediction)

        reduction = self.reduction.value
        if reduction == "none":
            return b.compute(
                targets.shape, lambda *p: b.cast(loss(*p), type_), type_, "nll_loss"
            )
        total = b.reduce_over("add", (), targets.shape, loss, wide, "sum")
        if reduction == "sum":
            return b.map(lambda t: b.cast(t, type_), total, dtype=type_, name="cast")
        total_weight = b.reduce_over("add", (), targets.shape, weight, wide, "weights")
        return b.map(
            lambda t, s: b.cast(t / s, type_),
            total,
            total_weight,
            dtype=type_,
            name="nll_loss",
        )


def _class_axis(rank: int) -> int:
    """The class axis of predictions of the given rank."""
    if rank == 0:
        raise ValueError("predictions: expected [n, c, ...] or [c], got a scalar")
    return min(1, rank - 1)


def _class_of(b: Builder, target: Scalar, count: Dim) -> Index:
    """The target clamped to the classes, so that all reads are in bounds."""
    return Index.from_scalar(target).minimum(b.dim(count - 1)).maximum(0)
