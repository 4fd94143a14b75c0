"""Boxes in pictures: choosing among them, computing them from anchors.

A box is left, top, right and bottom, unless ``coord_start`` says where they are.
"""

from collections.abc import Sequence
from typing import Any

from mlir import ir
from mlir.ir import (
    BoolAttr,
    DenseF64ArrayAttr,
    FloatAttr,
    IntegerAttr,
    RankedTensorType,
    StringAttr,
    TupleType,
)

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.relax.core import Relax

__all__ = [
    "AllClassNonMaxSuppressionOp",
    "GetValidCountsOp",
    "MultiboxTransformLocOp",
    "NonMaxSuppressionOp",
]

_INT32, _INT64, _F32 = map(dtypes.dtype, ("int32", "int64", "float32"))


def _check_rank(what: str, operand: RankedTensorType, rank: int) -> None:
    if operand.rank != rank:
        raise ValueError(f"{what}: expected rank {rank}, got {operand.rank}")


class GetValidCountsOp(Relax.Operation, name="vision_get_valid_counts"):
    """The boxes whose score is above a threshold, moved to the front.

    Attributes:
        score_threshold: what a score must exceed.
        id_index: where in a box its class is; negative if it has none.
        score_index: where in a box its score is.
    Shapes:
        data: [batch, boxes, fields]; y: counts [batch], boxes [batch, boxes, fields] and
        the former places of the boxes, [batch, boxes].
    """

    data: Operand[RankedTensorType]
    y: Result[ir.Type]
    score_threshold: FloatAttr
    id_index: IntegerAttr
    score_index: IntegerAttr

    @staticmethod
    def infer(
        data: RankedTensorType,
        score_threshold: float = 0.0,
        id_index: int = 0,
        score_index: int = 1,
    ) -> TupleType:
        _check_rank("data", data, 3)
        batch, boxes, fields = tensors.shape_of(data)
        _check_field("score_index", score_index, fields, least=0)
        _check_field("id_index", id_index, fields, least=-1)
        return TupleType.get_tuple(
            [
                tensors.tensor_type((batch,), _INT32),
                data,
                tensors.tensor_type((batch, boxes), _INT32),
            ]
        )


def _check_field(what: str, index: int, fields: shapes.Dim, *, least: int) -> None:
    """Whether a box has the field that ``what`` names."""
    if isinstance(fields, int) and not least <= index < fields:
        raise ValueError(f"{what}: expected {least} to {fields - 1}, got {index}")


class NonMaxSuppressionOp(Relax.Operation, name="vision_non_max_suppression"):
    """The boxes that overlap with none of a higher score.

    Attributes:
        max_output_size: how many are kept; -1 for all.
        iou_threshold: the overlap from which a box is dropped.
        force_suppress: whether boxes of other classes count, too.
        top_k: how many boxes are looked at; -1 for all.
        coord_start, score_index, id_index: where in a box its coordinates, its score and
            its class are.
        return_indices: whether y is the places of the boxes, and how many there are.
        invalid_to_bottom: whether the boxes that are kept come first.
        soft_nms_sigma: if positive, scores are lowered instead of boxes dropped, and y
            has the boxes in front.
        score_threshold: below which such a box is dropped.
    Shapes:
        data: [batch, boxes, fields]; valid_count: [batch]; indices: [batch, boxes].
    """

    data: Operand[RankedTensorType]
    valid_count: Operand[RankedTensorType]
    indices: Operand[RankedTensorType]
    y: Result[ir.Type]
    max_output_size: IntegerAttr
    iou_threshold: FloatAttr
    force_suppress: BoolAttr
    top_k: IntegerAttr
    coord_start: IntegerAttr
    score_index: IntegerAttr
    id_index: IntegerAttr
    return_indices: BoolAttr
    invalid_to_bottom: BoolAttr
    soft_nms_sigma: FloatAttr
    score_threshold: FloatAttr

    @staticmethod
    def infer(
        data: RankedTensorType,
        valid_count: RankedTensorType,
        indices: RankedTensorType,
        max_output_size: int = -1,
        iou_threshold: float = 0.5,
        force_suppress: bool = False,
        top_k: int = -1,
        coord_start: int = 2,
        score_index: int = 1,
        id_index: int = 0,
        return_indices: bool = True,
        invalid_to_bottom: bool = False,
        soft_nms_sigma: float = 0.0,
        score_threshold: float = 0.0,
    ) -> "RankedTensorType | TupleType":
        operands = {"data": data, "valid_count": valid_count, "indices": indices}
        for (what, operand), rank in zip(operands.items(), (3, 1, 2), strict=True):
            _check_rank(what, operand, rank)
            if what != "data" and tensors.dtype_of(operand) != _INT32:
                found = tensors.dtype_of(operand)
                raise ValueError(f"{what}: expected int32, got {found}")
        batch, boxes, fields = tensors.shape_of(data)
        shapes.unify(batch, tensors.shape_of(valid_count)[0])
        for size, found in zip((batch, boxes), tensors.shape_of(indices), strict=True):
            shapes.unify(size, found)
        _check_field("score_index", score_index, fields, least=0)
        _check_field("id_index", id_index, fields, least=-1)
        _check_field("coord_start + 3", coord_start + 3, fields, least=3)
        if not return_indices:
            return data
        places = tensors.tensor_type((batch, boxes), _INT32)
        count = tensors.tensor_type((batch, 1), _INT32)
        kept = [data] if soft_nms_sigma > 0 else []
        return TupleType.get_tuple([*kept, places, count])


class AllClassNonMaxSuppressionOp(
    Relax.Operation, name="vision_all_class_non_max_suppression"
):
    """Per class, the boxes that overlap with none of a higher score.

    Attributes:
        output_format: ``onnx`` for rows of batch, class and box, and their number;
            ``tensorflow`` for class and box, scores and numbers per batch.
    Shapes:
        boxes: [batch, n, 4]; scores: [batch, classes, n]; the others are single numbers.
        y: as many rows as there may be.
    Source: ONNX NonMaxSuppression-11.
    """

    boxes: Operand[RankedTensorType]
    scores: Operand[RankedTensorType]
    max_output_boxes_per_class: Operand[RankedTensorType]
    iou_threshold: Operand[RankedTensorType]
    score_threshold: Operand[RankedTensorType]
    y: Result[ir.Type]
    output_format: StringAttr

    @staticmethod
    def infer(
        boxes: RankedTensorType,
        scores: RankedTensorType,
        max_output_boxes_per_class: RankedTensorType,
        iou_threshold: RankedTensorType,
        score_threshold: RankedTensorType,
        output_format: str = "onnx",
    ) -> TupleType:
        _check_rank("boxes", boxes, 3)
        _check_rank("scores", scores, 3)
        batch, count, _ = tensors.shape_of(boxes)
        _, classes, _ = tensors.shape_of(scores)
        if output_format == "onnx":
            rows = shapes.product((batch, classes, count))
            made = [((rows, 3), _INT64), ((1,), _INT64)]
        elif output_format == "tensorflow":
            rows = shapes.product((classes, count))
            found = [((batch, rows, 2), _INT64), ((batch, rows), _F32)]
            made = [*found, ((batch,), _INT64)]
        else:
            raise ValueError(
                f"output_format: expected onnx or tensorflow, got `{output_format}`"
            )
        return TupleType.get_tuple([tensors.tensor_type(s, d) for s, d in made])


class MultiboxTransformLocOp(Relax.Operation, name="vision_multibox_transform_loc"):
    """Boxes from the differences to anchors that a network predicts, and class scores.

    Attributes:
        clip: whether boxes end at the border, 0 and 1.
        threshold: below which a score is taken for 0.
        variances: what the differences are multiplied by.
        keep_background: whether the score of the first class stays.
        apply_softmax: whether cls_pred has logits.
    Shapes:
        cls_pred: [batch, classes, n]; loc_pred: [batch, 4 n]; anchor: [1, n, 4];
        y: boxes [batch, n, 4] and scores [batch, classes, n].
    """

    cls_pred: Operand[RankedTensorType]
    loc_pred: Operand[RankedTensorType]
    anchor: Operand[RankedTensorType]
    y: Result[ir.Type]
    clip: BoolAttr
    threshold: FloatAttr
    variances: DenseF64ArrayAttr
    keep_background: BoolAttr
    apply_softmax: BoolAttr

    @staticmethod
    def normalize_arguments(**attrs: Any) -> dict[str, Any]:  # Any: see the base
        return {**attrs, "variances": tuple(map(float, attrs["variances"]))}

    @staticmethod
    def infer(
        cls_pred: RankedTensorType,
        loc_pred: RankedTensorType,
        anchor: RankedTensorType,
        clip: bool = False,
        threshold: float = 0.0,
        variances: Sequence[float] = (1.0, 1.0, 1.0, 1.0),
        keep_background: bool = True,
        apply_softmax: bool = True,
    ) -> TupleType:
        operands = {"cls_pred": cls_pred, "loc_pred": loc_pred, "anchor": anchor}
        for (what, operand), rank in zip(operands.items(), (3, 2, 3), strict=True):
            _check_rank(what, operand, rank)
        dtype = tensors.dtype_of(cls_pred)
        if any(tensors.dtype_of(operand) != dtype for operand in operands.values()):
            raise ValueError(f"operands must have one element type, {dtype}")
        batch, classes, count = tensors.shape_of(cls_pred)
        expected = ((batch, shapes.product((count, 4))), (1, count, 4))
        for operand, sizes in zip((loc_pred, anchor), expected, strict=True):
            for size, found in zip(sizes, tensors.shape_of(operand), strict=True):
                shapes.unify(size, found)
        boxes = tensors.tensor_type((batch, count, 4), dtype)
        scores = tensors.tensor_type((batch, classes, count), dtype)
        return TupleType.get_tuple([boxes, scores])
