"""Object detection: non-maximum suppression and box decoding.

The coordinates of a box are left, top, right and bottom; ``coord_start`` is the index of
the first.
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
    """Compacts the boxes whose score exceeds a threshold to the front.

    Attributes:
        score_threshold: the threshold.
        id_index: index of the class among the fields of a box; negative if there is none.
        score_index: index of the score among the fields of a box.
    Shapes:
        data: [batch, boxes, fields]; y: a tuple of counts [batch], boxes [batch, boxes,
        fields] and the former indices of the boxes, [batch, boxes].
    Source: TVM relax.op.vision.get_valid_counts.
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
    """Checks that a field index is in range."""
    if isinstance(fields, int) and not least <= index < fields:
        raise ValueError(f"{what}: expected {least} to {fields - 1}, got {index}")


class NonMaxSuppressionOp(Relax.Operation, name="vision_non_max_suppression"):
    """Non-maximum suppression: drops boxes that overlap a box of higher score.

    Attributes:
        max_output_size: maximum number of kept boxes; -1 for all.
        iou_threshold: the intersection over union from which a box is suppressed.
        force_suppress: whether boxes of other classes also suppress.
        top_k: number of candidate boxes of highest score; -1 for all.
        coord_start, score_index, id_index: indices of the coordinates, the score and the
            class among the fields of a box.
        return_indices: whether y is the indices of the kept boxes and their number.
        invalid_to_bottom: whether kept boxes are moved to the front.
        soft_nms_sigma: if positive, soft NMS: scores decay instead of boxes being dropped,
            and the boxes precede the indices in y.
        score_threshold: scores below it are dropped by soft NMS.
    Shapes:
        data: [batch, boxes, fields]; valid_count: [batch]; indices: [batch, boxes]; y: data,
        or a tuple of indices [batch, boxes] and counts [batch, 1].
    Source: TVM relax.op.vision.non_max_suppression.
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
        kept_indices = tensors.tensor_type((batch, boxes), _INT32)
        count = tensors.tensor_type((batch, 1), _INT32)
        rescored = [data] if soft_nms_sigma > 0 else []
        return TupleType.get_tuple([*rescored, kept_indices, count])


class AllClassNonMaxSuppressionOp(
    Relax.Operation, name="vision_all_class_non_max_suppression"
):
    """Non-maximum suppression of every class on its own.

    Attributes:
        output_format: ``onnx`` for rows (batch, class, box) and their number;
            ``tensorflow`` for rows (class, box), scores and numbers per batch element.
    Shapes:
        boxes: [batch, n, 4]; scores: [batch, classes, n]; the others are scalars. y: a tuple
        of [batch * classes * n, 3] and [1] (``onnx``), or of [batch, classes * n, 2],
        [batch, classes * n] and [batch] (``tensorflow``); trailing rows are unused.
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
            results = [((rows, 3), _INT64), ((1,), _INT64)]
        elif output_format == "tensorflow":
            rows = shapes.product((classes, count))
            selected = [((batch, rows, 2), _INT64), ((batch, rows), _F32)]
            results = [*selected, ((batch,), _INT64)]
        else:
            raise ValueError(
                f"output_format: expected onnx or tensorflow, got `{output_format}`"
            )
        return TupleType.get_tuple([tensors.tensor_type(s, d) for s, d in results])


class MultiboxTransformLocOp(Relax.Operation, name="vision_multibox_transform_loc"):
    """Decodes SSD predictions: boxes from offsets to anchors, and class scores.

    Attributes:
        clip: whether boxes are clipped to [0, 1].
        threshold: scores below it become 0.
        variances: factors of the four offsets.
        keep_background: whether the score of the first class is kept.
        apply_softmax: whether cls_pred holds logits.
    Shapes:
        cls_pred: [batch, classes, n]; loc_pred: [batch, 4 n]; anchor: [1, n, 4];
        y: a tuple of boxes [batch, n, 4] and scores [batch, classes, n].
    Source: Liu et al., SSD, 2016; TVM relax.op.vision.multibox_transform_loc.
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
