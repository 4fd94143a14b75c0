"""Boxes in pictures: which are likely, and where they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relax_mlir import te
from relax_mlir.objects import functions, prim
from relax_mlir.objects.buffer import Buffer, decl_buffer
from relax_mlir.objects.prim import PrimExpr, Select, const
from relax_mlir.objects.stmt import Stmt
from relax_mlir.script import tir as T  # noqa: N812  as programs call it
from relax_mlir.script.builder import IRBuilder
from relax_mlir.te import Tensor
from relax_mlir.topi.nn import softmax
from relax_mlir.topi.ranks import Matrix, Volume
from relax_mlir.topi.transform import reshape

__all__ = ["get_valid_counts", "multibox_transform_loc"]


def get_valid_counts(
    data: Volume, score_threshold: Any = 0, id_index: int = 0, score_index: int = 1
) -> list[Tensor]:
    """The boxes whose score is above a threshold, moved to the front.

    Args:
        data: boxes, as [batch, boxes, fields].
        score_threshold: what a score must exceed: a number, or a tensor of rank 0.
        id_index: where in a box its class is, which must not be negative; -1 if it has
            none.
        score_index: where in a box its score is.

    Returns:
        How many they are, they themselves, and their former places; -1 behind them.
    """
    batch, boxes, _ = data.shape
    given = [score_threshold] if isinstance(score_threshold, Tensor) else []

    def body(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        least = ins[1][()] if given else const(score_threshold, data.dtype)
        return _moved_to_front(ins[0], least, id_index, score_index, *outs)

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


def _moved_to_front(
    data: Buffer,
    least: PrimExpr,
    id_index: int,
    score_index: int,
    count: Buffer,
    kept: Buffer,
    places: Buffer,
) -> Stmt:
    batch, boxes, fields = data.shape
    with IRBuilder() as builder, T.parallel(0, batch) as i:
        T.buffer_store(count, const(0, "int32"), [i])
        with T.serial(0, boxes) as j:
            is_likely = data[i, j, score_index] > least
            if id_index >= 0:
                has_class = data[i, j, id_index] >= const(0, data.dtype)
                is_likely = functions.all(is_likely, has_class)
            with T.If(is_likely), T.Then():
                with T.serial(0, fields) as k:
                    T.buffer_store(kept, data[i, j, k], [i, count[i], k])
                T.buffer_store(places, prim.cast("int32", j), [i, count[i]])
                T.buffer_store(count, count[i] + 1, [i])
        with T.serial(0, boxes) as j, T.If(j >= count[i]), T.Then():
            with T.serial(0, fields) as k:
                T.buffer_store(kept, const(-1, data.dtype), [i, j, k])
            T.buffer_store(places, const(-1, "int32"), [i, j])
    return builder.get()


def multibox_transform_loc(
    cls_pred: Volume,
    loc_pred: Matrix,
    anchor: Volume,
    variances: Sequence[float],
    clip: bool = False,
    threshold: float = 0.0,
    keep_background: bool = True,
    apply_softmax: bool = True,
) -> list[Tensor]:
    """Boxes from anchors and predicted offsets, and the scores of their classes.

    Args:
        cls_pred: scores of classes, as [batch, classes, boxes].
        loc_pred: per box, offsets of its centre and logarithms of its extents, x first:
            [batch, boxes * 4].
        anchor: left, top, right and bottom of boxes, as [1, boxes, 4].
        variances: what the four numbers of ``loc_pred`` are multiplied by.
        clip: whether boxes are kept inside of [0, 1].
        threshold: below which a score becomes 0.
        keep_background: whether class 0 keeps its score.
        apply_softmax: whether ``cls_pred`` are no probabilities yet.

    Returns:
        Top, left, bottom and right of boxes, and scores.
    """
    dtype = cls_pred.dtype
    batch, _, boxes = cls_pred.shape
    offsets = reshape(loc_pred, [batch, boxes, 4])

    def number(value: float) -> PrimExpr:
        return const(float(value), dtype)

    def interval(b: Any, a: Any, axis: int) -> tuple[Any, Any]:
        """Both ends of a box along x (0) or y (1)."""
        low, high = anchor[0, a, axis], anchor[0, a, axis + 2]
        length, middle = high - low, (low + high) * number(0.5)
        moved = offsets[b, a, axis] * number(variances[axis])
        grown = te.exp(offsets[b, a, axis + 2] * number(variances[axis + 2]))
        centre, half = moved * length + middle, number(0.5) * grown * length
        ends = (centre - half, centre + half)
        if not clip:
            return ends
        low, high = (te.max(number(0), te.min(number(1), end)) for end in ends)
        return low, high

    def end(b: Any, a: Any, k: Any) -> PrimExpr:
        (left, right), (top, bottom) = interval(b, a, 0), interval(b, a, 1)
        lower = Select(k.equal(2), bottom, right)
        return Select(k.equal(0), top, Select(k.equal(1), left, lower))

    found = te.compute((batch, boxes, 4), end, name="multibox_boxes")
    scores = softmax(cls_pred, axis=1) if apply_softmax else cls_pred

    def score(b: Any, c: Any, n: Any) -> PrimExpr:
        own = scores[b, c, n]
        is_kept = own >= number(threshold)
        if not keep_background:
            is_kept = functions.all(c > 0, is_kept)
        return Select(is_kept, own, number(0))

    return [found, te.compute(cls_pred.shape, score, name="multibox_scores")]
