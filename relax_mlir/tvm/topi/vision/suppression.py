"""Non-maximum suppression (NMS) and soft NMS."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from relax_mlir.objects import prim
from relax_mlir.objects.prim import PrimExpr, Select, const, intrinsics
from relax_mlir.objects.prim.intrinsics import if_then_else
from relax_mlir.objects.stmt.buffer import Buffer, decl_buffer
from relax_mlir.objects.stmt.statements import Stmt
from relax_mlir.tvm import te
from relax_mlir.tvm.script import tir as T  # noqa: N812  as programs call it
from relax_mlir.tvm.script.builder import IRBuilder
from relax_mlir.tvm.topi.ranks import Matrix, Tensor3D, Vector
from relax_mlir.tvm.topi.sort import argsort

__all__ = ["intersection_over_union", "non_max_suppression"]


@dataclass(frozen=True)
class _Options:
    """Options of non-maximum suppression.

    Attributes:
        max_boxes: maximal number of boxes to keep; below 1 for all.
        iou: IoU from which a box is suppressed.
        across_classes: whether boxes of different classes suppress each other.
        candidates: number of top-scored candidates; below 1 for all.
        coordinates, score, class_: fields of the first coordinate, score and class.
        sigma: if positive, the width of the Gaussian decay of soft NMS.
        min_score: score that a box must exceed.
    """

    max_boxes: Any
    iou: Any
    across_classes: bool
    candidates: Any
    coordinates: int
    score: int
    class_: int
    sigma: float
    min_score: float


@dataclass(frozen=True)
class _ImageBoxes:
    """Emits the suppression loops over the boxes of one image.

    Attributes:
        options: the options.
        image: batch index of the image.
        rows: buffer of the box fields.
        box_indices: buffer of the original box indices; -1 for suppressed boxes.
        count: buffer of the number of boxes kept so far.
        scratch: buffers of an index and of a field, for swaps.
    """

    options: _Options
    image: PrimExpr
    rows: Buffer
    box_indices: Buffer
    count: Buffer
    scratch: tuple[Buffer, Buffer]

    def score(self, j: Any) -> PrimExpr:
        return self.rows[self.image, j, self.options.score]

    def index(self, j: Any) -> PrimExpr:
        return self.box_indices[self.image, j]

    @property
    def kept(self) -> PrimExpr:
        return self.count[self.image, 0]

    @property
    def min_score(self) -> PrimExpr:
        return const(self.options.min_score, self.rows.dtype)

    def set_score(self, j: Any, value: Any) -> None:
        T.buffer_store(self.rows, value, [self.image, j, self.options.score])

    def set_index(self, j: Any, value: Any) -> None:
        T.buffer_store(self.box_indices, value, [self.image, j])

    def set_kept(self, value: Any) -> None:
        T.buffer_store(self.count, prim.convert(value), [self.image, 0])

    def set_row(self, j: Any, source: Buffer | None, index: Any = 0) -> None:
        """Store the fields of a source box to box ``j``; without a source, -1."""
        with T.serial(0, self.rows.shape[2]) as k:
            if source is None:
                value: Any = const(-1, self.rows.dtype)
            else:
                value = source[self.image, index, k]
            T.buffer_store(self.rows, value, [self.image, j, k])

    def suppress(self, j: Any) -> None:
        self.set_row(j, None)
        self.set_index(j, const(-1, "int32"))

    def may_keep_more(self) -> PrimExpr:
        """Whether the maximal number of boxes is not reached yet."""
        max_boxes = self.options.max_boxes
        if isinstance(max_boxes, int):
            return self.kept < max_boxes if max_boxes > 0 else const(True, "bool")
        return intrinsics.any(max_boxes <= 0, self.kept < max_boxes)

    def may_suppress(self, j: Any, k: Any) -> PrimExpr:
        """Whether box ``j`` may suppress box ``k``: same class, and not suppressed yet."""
        is_present = self.score(k) > self.min_score
        class_ = self.options.class_
        if self.options.across_classes or class_ < 0:
            return is_present
        own, other = (self.rows[self.image, box, class_] for box in (j, k))
        return intrinsics.all(is_present, own.equal(other))

    def iou(self, j: Any, k: Any) -> PrimExpr:
        """Intersection over union of two boxes."""
        return intersection_over_union(
            partial(self._corner, j), partial(self._corner, k)
        )

    def _corner(self, j: Any, k: int) -> PrimExpr:
        return self.rows[self.image, j, self.options.coordinates + k]

    def emit_nms(self, count: Any) -> None:
        """Emit greedy NMS; boxes are sorted by score."""
        with T.serial(0, count) as j:
            is_kept = intrinsics.all(
                self.score(j) > self.min_score, self.may_keep_more()
            )
            with T.If(is_kept):
                with T.Then():
                    self.set_kept(self.kept + 1)
                    self._suppress_overlapping(j, count)
                with T.Else():
                    self.suppress(j)

    def _suppress_overlapping(self, j: Any, count: Any) -> None:
        with T.serial(j + 1, count) as k:
            overlaps = self.iou(j, k) >= self.options.iou
            is_suppressed = intrinsics.all(self.may_suppress(j, k), overlaps)
            with T.If(is_suppressed), T.Then():
                self.set_score(k, const(-1, self.rows.dtype))
                self.set_index(k, const(-1, "int32"))

    def emit_soft_nms(self, count: Any) -> None:
        """Emit soft NMS: select the best box, decay the scores that overlap it, repeat."""
        with T.serial(0, count) as j:
            is_next = intrinsics.all(self.kept.equal(j), self.may_keep_more())
            with T.If(is_next), T.Then():
                best = self._find_best(j, count)
                with T.If(best >= 0), T.Then():
                    self._swap(j, best)
                    with T.serial(j + 1, count) as k:
                        is_left = intrinsics.all(
                            self.index(k) >= 0, self.may_suppress(j, k)
                        )
                        with T.If(is_left), T.Then():
                            self._decay(j, k)
                    self.set_kept(self.kept + 1)

    def _find_best(self, first: Any, count: Any) -> PrimExpr:
        """Index of the box with the highest score from ``first`` on; -1 if there is none."""
        index_slot = self.scratch[0]
        best = index_slot[self.image, 0]
        T.buffer_store(index_slot, const(-1, "int32"), [self.image, 0])
        with T.serial(first, count) as j:
            top = if_then_else(best < 0, self.min_score, self.score(best))
            is_better = intrinsics.all(self.index(j) >= 0, self.score(j) > top)
            with T.If(is_better), T.Then():
                T.buffer_store(index_slot, prim.cast("int32", j), [self.image, 0])
        return best

    def _swap(self, j: Any, best: PrimExpr) -> None:
        index_slot, field_slot = self.scratch
        T.buffer_store(index_slot, self.index(j), [self.image, 1])
        self.set_index(j, self.index(best))
        self.set_index(best, index_slot[self.image, 1])
        with T.serial(0, self.rows.shape[2]) as k:
            rows, saved = self.rows, field_slot[self.image, 0]
            T.buffer_store(field_slot, rows[self.image, j, k], [self.image, 0])
            T.buffer_store(rows, rows[self.image, best, k], [self.image, j, k])
            T.buffer_store(rows, saved, [self.image, best, k])

    def _decay(self, j: Any, k: Any) -> None:
        overlap = self.iou(j, k)
        scale = const(-0.5 / self.options.sigma, self.rows.dtype)
        with T.If(overlap >= self.options.iou):
            with T.Then():
                self.set_index(k, const(-1, "int32"))
            with T.Else():
                self.set_score(k, self.score(k) * te.exp(scale * overlap * overlap))
                with T.If(self.score(k) <= self.min_score), T.Then():
                    self.set_index(k, const(-1, "int32"))

    def compact(self, is_kept: Any, move: Any) -> None:
        """Compact the kept boxes to the front; ``move`` stores one of them."""
        boxes = self.rows.shape[1]
        self.set_kept(const(0, "int32"))
        with T.serial(0, boxes) as j, T.If(is_kept(j)), T.Then():
            move(j)
            self.set_kept(self.kept + 1)


def intersection_over_union(
    first: Callable[[int], PrimExpr], second: Callable[[int], PrimExpr]
) -> PrimExpr:
    """Intersection over union (IoU) of two boxes; 0 if the union is empty.

    Args:
        first, second: functions from 0 to 3 to the coordinates of two opposite corners.
    """
    zero = const(0, first(0).dtype)
    areas, intersection = [const(1, zero.dtype)] * 2, const(1, zero.dtype)
    for axis in (0, 1):
        ends = [(box(axis), box(axis + 2)) for box in (first, second)]
        lows, highs = zip(*((te.min(*e), te.max(*e)) for e in ends), strict=True)
        extents = [high - low for low, high in zip(lows, highs, strict=True)]
        areas = [area * extent for area, extent in zip(areas, extents, strict=True)]
        intersection = intersection * te.max(zero, te.min(*highs) - te.max(*lows))
    union = areas[0] + areas[1] - intersection
    return Select(union <= zero, zero, intersection / union)


def non_max_suppression(
    data: Tensor3D,
    valid_count: Vector,
    indices: Matrix,
    max_output_size: Any = -1,
    iou_threshold: Any = 0.5,
    force_suppress: bool = False,
    top_k: Any = -1,
    coord_start: int = 2,
    score_index: int = 1,
    id_index: int = 0,
    return_indices: bool = True,
    invalid_to_bottom: bool = False,
    soft_nms_sigma: float = 0.0,
    score_threshold: float = 0.0,
) -> Any:
    """Non-maximum suppression; boxes are returned in descending order of score.

    Args:
        data: boxes, as [batch, boxes, fields].
        valid_count: number of valid boxes per image, [batch].
        indices: index to return for every box, [batch, boxes].
        max_output_size: maximal number of boxes to keep; below 1 for all.
        iou_threshold: IoU from which a box is suppressed.
        force_suppress: whether boxes of different classes suppress each other.
        top_k: number of top-scored candidates; below 1 for all.
        coord_start, score_index, id_index: fields of the first coordinate, the score and
            the class; -1 if there is no class.
        return_indices: whether to return box indices and their number.
        invalid_to_bottom: whether kept boxes are compacted to the front.
        soft_nms_sigma: if positive, use soft NMS with a Gaussian decay of this width.
        score_threshold: score to exceed after the decay of soft NMS.

    Returns:
        The boxes; or indices and their number, preceded by the boxes for soft NMS.

    Source: Bodla et al., Soft-NMS, 2017.
    """
    is_soft = soft_nms_sigma > 0
    options = _Options(
        *(max_output_size, iou_threshold, force_suppress, top_k),
        *(coord_start, score_index, id_index, soft_nms_sigma),
        min_score=score_threshold if is_soft else 0.0,
    )
    batch, boxes, _ = data.shape
    scores = te.compute((batch, boxes), lambda i, j: data[i, j, score_index], "scores")
    order = argsort(scores, valid_count, axis=1, is_ascend=False, dtype="int32")

    def body(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        return _nms_stmt(options, return_indices, invalid_to_bottom, ins, outs)

    rows, box_indices, count, *_ = te.extern(
        [data.shape, (batch, boxes), (batch, 1), (batch, 2), (batch, 1)],
        [data, order, valid_count, indices],
        body,
        name="non_max_suppression",
        dtype=[data.dtype, "int32", "int32", "int32", data.dtype],
        in_buffers=[
            decl_buffer(x.shape, x.dtype, name)
            for x, name in zip(
                (data, order, valid_count, indices),
                ("data", "sorted_index", "valid_count", "indices"),
                strict=True,
            )
        ],
        out_buffers=[
            decl_buffer(data.shape, data.dtype, "out_data"),
            decl_buffer((batch, boxes), "int32", "out_box_indices"),
            decl_buffer((batch, 1), "int32", "out_valid_box_count"),
            decl_buffer((batch, 2), "int32", "held_places"),
            decl_buffer((batch, 1), data.dtype, "held_fields"),
        ],
        tag="non_max_suppression",
    )
    if not return_indices:
        return rows
    return [rows, box_indices, count] if is_soft else [box_indices, count]


def _nms_stmt(
    options: _Options,
    return_indices: bool,
    invalid_to_bottom: bool,
    ins: Sequence[Buffer],
    outs: Sequence[Buffer],
) -> Stmt:
    data, order, valid_count, given_indices = ins
    rows, box_indices, count, *scratch = outs
    batch, length, _ = data.shape
    with IRBuilder() as builder, T.parallel(0, batch) as i:
        boxes = _ImageBoxes(
            options, i, rows, box_indices, count, (scratch[0], scratch[1])
        )
        candidates = _candidate_count(valid_count[i], options.candidates)
        boxes.set_kept(const(0, "int32"))
        with T.serial(0, length) as j, T.If(j < candidates):
            with T.Then():
                boxes.set_row(j, data, order[i, j])
                boxes.set_index(j, order[i, j])
            with T.Else():
                boxes.suppress(j)
        if options.sigma > 0:
            boxes.emit_soft_nms(candidates)
            with T.serial(boxes.kept, length) as j:
                boxes.suppress(j)
        else:
            boxes.emit_nms(candidates)
        if return_indices:
            _compact_indices(boxes, given_indices)
        elif invalid_to_bottom:
            _compact_boxes(boxes)
    return builder.get()


def _candidate_count(valid: PrimExpr, max_boxes: Any) -> PrimExpr:
    """Number of candidates: ``valid``, limited to ``top_k``."""
    if isinstance(max_boxes, int):
        return te.min(valid, const(max_boxes, "int32")) if max_boxes > 0 else valid
    return if_then_else(
        intrinsics.all(max_boxes > 0, max_boxes < valid), max_boxes, valid
    )


def _compact_indices(boxes: _ImageBoxes, given_indices: Buffer) -> None:
    """Compact the given indices of the kept boxes to the front."""
    i = boxes.image
    boxes.compact(
        lambda j: boxes.index(j) >= 0,
        lambda j: boxes.set_index(boxes.kept, given_indices[i, boxes.index(j)]),
    )
    with T.serial(boxes.kept, boxes.rows.shape[1]) as j:
        boxes.set_index(j, const(-1, "int32"))


def _compact_boxes(boxes: _ImageBoxes) -> None:
    """Compact the kept boxes to the front."""
    zero = const(0, boxes.rows.dtype)
    boxes.compact(
        lambda j: boxes.score(j) >= zero,
        lambda j: boxes.set_row(boxes.kept, boxes.rows, j),
    )
    with T.serial(boxes.kept, boxes.rows.shape[1]) as j:
        boxes.set_row(j, None)
