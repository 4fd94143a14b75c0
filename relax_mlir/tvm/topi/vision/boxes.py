"""Bounding boxes: filtering by score, and decoding from anchors (SSD)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relax_mlir.objects import prim
from relax_mlir.objects.prim import PrimExpr, Select, const, intrinsics
from relax_mlir.objects.stmt.buffer import Buffer, decl_buffer
from relax_mlir.objects.stmt.statements import Stmt
from relax_mlir.tvm import te
from relax_mlir.tvm.script import tir as T  # noqa: N812  as programs call it
from relax_mlir.tvm.script.builder import IRBuilder
from relax_mlir.tvm.te import Tensor
from relax_mlir.tvm.topi.nn import softmax
from relax_mlir.tvm.topi.ranks import Matrix, Tensor3D
from relax_mlir.tvm.topi.transform import reshape

__all__ = ["get_valid_counts", "multibox_transform_loc"]


def get_valid_counts(
    data: Tensor3D, score_threshold: Any = 0, id_index: int = 0, score_index: int = 1
) -> list[Tensor]:
    """Compact the boxes whose score exceeds a threshold to the front.

    Args:
        data: boxes, as [batch, boxes, fields].
        score_threshold: score to exceed: a scalar, or a tensor of rank 0.
        id_index: field of the class, which must not be negative; -1 if there is none.
        score_index: field of the score.

    Returns:
        The number of valid boxes, the boxes, and their original indices; padded with -1.
    """
    batch, boxes, _ = data.shape
    given = [score_threshold] if isinstance(score_threshold, Tensor) else []

    def body(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        min_score = ins[1][()] if given else const(score_threshold, data.dtype)
        return _compact_valid(ins[0], min_score, id_index, score_index, *outs)

    return te.extern(
        [(batch,), data.shape, (batch, boxes)],
        [data, *given],
        body,
        name="get_valid_counts",
        dtype=["int32", data.dtype, "int32"],
        in_buffers=[decl_buffer(x.shape, x.dtype, x.op.name) for x in (data, *given)],
        out_buffers=[
            decl_buffer((batch,), "int32", "valid_count"),
            decl_buffer(data.shape, data.dtype, "out_tensor"),
            decl_buffer((batch, boxes), "int32", "out_indices"),
        ],
        tag="get_valid_counts",
    )


def _compact_valid(
    data: Buffer,
    min_score: PrimExpr,
    id_index: int,
    score_index: int,
    count: Buffer,
    kept: Buffer,
    kept_indices: Buffer,
) -> Stmt:
    batch, boxes, fields = data.shape
    with IRBuilder() as builder, T.parallel(0, batch) as i:
        T.buffer_store(count, const(0, "int32"), [i])
        with T.serial(0, boxes) as j:
            is_valid = data[i, j, score_index] > min_score
            if id_index >= 0:
                has_class = data[i, j, id_index] >= const(0, data.dtype)
                is_valid = intrinsics.all(is_valid, has_class)
            with T.If(is_valid), T.Then():
                with T.serial(0, fields) as k:
                    T.buffer_store(kept, data[i, j, k], [i, count[i], k])
                T.buffer_store(kept_indices, prim.cast("int32", j), [i, count[i]])
                T.buffer_store(count, count[i] + 1, [i])
        with T.serial(0, boxes) as j, T.If(j >= count[i]), T.Then():
            with T.serial(0, fields) as k:
                T.buffer_store(kept, const(-1, data.dtype), [i, j, k])
            T.buffer_store(kept_indices, const(-1, "int32"), [i, j])
    return builder.get()


def multibox_transform_loc(
    cls_pred: Tensor3D,
    loc_pred: Matrix,
    anchor: Tensor3D,
    variances: Sequence[float],
    clip: bool = False,
    threshold: float = 0.0,
    keep_background: bool = True,
    apply_softmax: bool = True,
) -> list[Tensor]:
    """Decode boxes from anchors and predicted offsets, with their class scores.

    Args:
        cls_pred: class scores, as [batch, classes, boxes].
        loc_pred: per box, center offsets and log scales, x first: [batch, boxes * 4].
        anchor: left, top, right and bottom of the anchors, as [1, boxes, 4].
        variances: scale factors of the four fields of ``loc_pred``.
        clip: whether boxes are clipped to [0, 1].
        threshold: scores below it become 0.
        keep_background: whether class 0 keeps its score.
        apply_softmax: whether ``cls_pred`` are logits.

    Returns:
        Boxes as top, left, bottom and right, and scores.

    Source: Liu et al., SSD: Single Shot MultiBox Detector, 2016.
    """
    dtype = cls_pred.dtype
    batch, _, boxes = cls_pred.shape
    offsets = reshape(loc_pred, [batch, boxes, 4])

    def constant(value: float) -> PrimExpr:
        return const(float(value), dtype)

    def interval(b: Any, a: Any, axis: int) -> tuple[Any, Any]:
        """Interval of a decoded box along x (0) or y (1)."""
        low, high = anchor[0, a, axis], anchor[0, a, axis + 2]
        extent, anchor_center = high - low, (low + high) * constant(0.5)
        offset = offsets[b, a, axis] * constant(variances[axis])
        scale = te.exp(offsets[b, a, axis + 2] * constant(variances[axis + 2]))
        center, half = offset * extent + anchor_center, constant(0.5) * scale * extent
        ends = (center - half, center + half)
        if not clip:
            return ends
        low, high = (te.max(constant(0), te.min(constant(1), end)) for end in ends)
        return low, high

    def end(b: Any, a: Any, k: Any) -> PrimExpr:
        (left, right), (top, bottom) = interval(b, a, 0), interval(b, a, 1)
        lower = Select(k.equal(2), bottom, right)
        return Select(k.equal(0), top, Select(k.equal(1), left, lower))

    decoded = te.compute((batch, boxes, 4), end, name="multibox_boxes")
    scores = softmax(cls_pred, axis=1) if apply_softmax else cls_pred

    def score(b: Any, c: Any, n: Any) -> PrimExpr:
        class_score = scores[b, c, n]
        is_kept = class_score >= constant(threshold)
        if not keep_background:
            is_kept = intrinsics.all(c > 0, is_kept)
        return Select(is_kept, class_score, constant(0))

    return [decoded, te.compute(cls_pred.shape, score, name="multibox_scores")]
