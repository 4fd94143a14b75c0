"""Per-class non-maximum suppression."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from relax_mlir.errors import UnsupportedArgumentError
from relax_mlir.objects import prim
from relax_mlir.objects.prim import PrimExpr, const, intrinsics
from relax_mlir.objects.stmt.buffer import Buffer, decl_buffer
from relax_mlir.objects.stmt.statements import Stmt
from relax_mlir.tvm import te
from relax_mlir.tvm.script import tir as T  # noqa: N812  as programs call it
from relax_mlir.tvm.script.builder import IRBuilder
from relax_mlir.tvm.te import Tensor
from relax_mlir.tvm.topi.sort import argsort
from relax_mlir.tvm.topi.vision.suppression import intersection_over_union

__all__ = ["all_class_non_max_suppression"]

_Number = Callable[[], PrimExpr]


def all_class_non_max_suppression(
    boxes: Tensor,
    scores: Tensor,
    max_output_boxes_per_class: int | Tensor,
    iou_threshold: float | Tensor,
    score_threshold: float | Tensor,
    output_format: str = "onnx",
) -> list[Tensor]:
    """Non-maximum suppression, separately for every class.

    Args:
        boxes: two opposite corners per box, as [batch, boxes, 4].
        scores: scores, as [batch, classes, boxes].
        max_output_boxes_per_class: maximal number of boxes per class.
        iou_threshold: boxes whose IoU with a selected box exceeds it are suppressed.
        score_threshold: score to exceed.
        output_format: ``onnx``.

    Returns:
        Rows of batch, class and box index, padded with zeros, and their number.

    Raises:
        NotImplementedError: unknown output format.

    Source: ONNX NonMaxSuppression-11.
    """
    if output_format != "onnx":
        raise UnsupportedArgumentError(
            f"output_format: expected onnx, got {output_format}"
        )
    if scores.ndim != 3:
        raise ValueError(f"scores: expected a tensor of rank 3, got {scores}")
    batch, classes, length = scores.shape
    order = argsort(scores, axis=2, is_ascend=False, dtype="int32")
    limits = (max_output_boxes_per_class, iou_threshold, score_threshold)
    given = [limit for limit in limits if isinstance(limit, Tensor)]
    inputs = [boxes, scores, order, *given]

    def body(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        buffers, limit_values = iter(ins[3:]), []
        for limit, dtype in zip(
            limits, ("int64", boxes.dtype, scores.dtype), strict=True
        ):
            if isinstance(limit, Tensor):
                limit_values.append(partial(_load_scalar, next(buffers)))
            else:
                limit_values.append(partial(const, limit, dtype))
        return _nms_stmt(ins, limit_values, outs)

    rows = batch * classes * length
    shapes = [(rows, 3), (1,), (length,), (1,)]
    names = ("selected_indices", "num_total_detections", "is_dropped", "before")
    dtypes = ["int64", "int64", "int32", "int64"]
    selected, count, *_ = te.extern(
        shapes,
        inputs,
        body,
        name="all_class_non_max_suppression",
        dtype=dtypes,
        in_buffers=[decl_buffer(x.shape, x.dtype, x.op.name) for x in inputs],
        out_buffers=list(map(decl_buffer, shapes, dtypes, names)),
        tag="all_class_nms",
    )
    return [selected, count]


def _load_scalar(buffer: Buffer) -> PrimExpr:
    """Load the single element of a buffer."""
    return buffer[(0,) * len(buffer.shape)]


def _nms_stmt(
    ins: Sequence[Buffer], limits: Sequence[_Number], outs: Sequence[Buffer]
) -> Stmt:
    boxes, scores, order, *_ = ins
    rows, count, suppressed, before = outs
    max_boxes, max_iou, min_score = limits
    if scores.ndim != 3:
        raise ValueError(f"scores: expected a tensor of rank 3, got {scores}")
    batch, classes, length = scores.shape
    zero = const(0, "int64")
    with IRBuilder() as builder, T.serial(0, 1):
        T.buffer_store(count, zero, [0])
        with T.serial(0, rows.shape[0]) as row, T.serial(0, 3) as k:
            T.buffer_store(rows, zero, [row, k])
        with T.serial(0, batch) as b, T.serial(0, classes) as c:
            T.buffer_store(before, count[0], [0])
            with T.serial(0, length) as j:
                T.buffer_store(suppressed, const(0, "int32"), [j])
            with T.serial(0, length) as j:
                box = order[b, c, j]
                is_selected = intrinsics.all(
                    suppressed[box].equal(0),
                    scores[b, c, box] > min_score(),
                    count[0] - before[0] < prim.cast("int64", max_boxes()),
                )
                with T.If(is_selected), T.Then():
                    for k, value in enumerate((b, c, box)):
                        T.buffer_store(rows, prim.cast("int64", value), [count[0], k])
                    T.buffer_store(count, count[0] + const(1, "int64"), [0])
                    with T.serial(j + 1, length) as k:
                        other = order[b, c, k]
                        iou = intersection_over_union(
                            partial(_corner, boxes, b, box),
                            partial(_corner, boxes, b, other),
                        )
                        with T.If(iou > max_iou()), T.Then():
                            T.buffer_store(suppressed, const(1, "int32"), [other])
    return builder.get()


def _corner(boxes: Buffer, image: PrimExpr, box: PrimExpr, k: int) -> PrimExpr:
    return boxes[image, box, k]
