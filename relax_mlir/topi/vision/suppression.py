"""Boxes that overlap with none of a higher score."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from relax_mlir import te
from relax_mlir.objects import functions, prim
from relax_mlir.objects.buffer import Buffer, decl_buffer
from relax_mlir.objects.functions import if_then_else
from relax_mlir.objects.prim import PrimExpr, Select, const
from relax_mlir.objects.stmt import Stmt
from relax_mlir.script import tir as T  # noqa: N812  as programs call it
from relax_mlir.script.builder import IRBuilder
from relax_mlir.topi.ranks import Matrix, Vector, Volume
from relax_mlir.topi.sort import argsort

__all__ = ["non_max_suppression", "overlap_of"]


@dataclass(frozen=True)
class _Rules:
    """When a box is kept.

    Attributes:
        most: how many are kept; below 1 for all.
        overlap: from which a box is dropped.
        any_class: whether boxes of other classes count, too.
        looked_at: how many boxes are looked at; below 1 for all.
        coordinates, score, class_: where in a box they are.
        sigma: if positive, scores of overlapping boxes are lowered.
        least: what the score of a box must exceed.
    """

    most: Any
    overlap: Any
    any_class: bool
    looked_at: Any
    coordinates: int
    score: int
    class_: int
    sigma: float
    least: float


@dataclass(frozen=True)
class _Boxes:
    """The boxes of one picture while some are dropped.

    Attributes:
        rules: when they are kept.
        picture: which one it is.
        rows: their fields.
        places: where they were; -1 for those that are dropped.
        count: how many are kept, so far.
        held: a place and a field, for exchanges.
    """

    rules: _Rules
    picture: PrimExpr
    rows: Buffer
    places: Buffer
    count: Buffer
    held: tuple[Buffer, Buffer]

    def score(self, j: Any) -> PrimExpr:
        return self.rows[self.picture, j, self.rules.score]

    def place(self, j: Any) -> PrimExpr:
        return self.places[self.picture, j]

    @property
    def kept(self) -> PrimExpr:
        return self.count[self.picture, 0]

    @property
    def least(self) -> PrimExpr:
        return const(self.rules.least, self.rows.dtype)

    def set_score(self, j: Any, value: Any) -> None:
        T.buffer_store(self.rows, value, [self.picture, j, self.rules.score])

    def set_place(self, j: Any, value: Any) -> None:
        T.buffer_store(self.places, value, [self.picture, j])

    def set_kept(self, value: Any) -> None:
        T.buffer_store(self.count, prim.convert(value), [self.picture, 0])

    def set_row(self, j: Any, source: Buffer | None, place: Any = 0) -> None:
        """The fields of another box for those of one; without it -1 for all."""
        with T.serial(0, self.rows.shape[2]) as k:
            if source is None:
                value: Any = const(-1, self.rows.dtype)
            else:
                value = source[self.picture, place, k]
            T.buffer_store(self.rows, value, [self.picture, j, k])

    def drop(self, j: Any) -> None:
        self.set_row(j, None)
        self.set_place(j, const(-1, "int32"))

    def may_keep_more(self) -> PrimExpr:
        """Whether fewer are kept than there may be."""
        most = self.rules.most
        if isinstance(most, int):
            return self.kept < most if most > 0 else const(True, "bool")
        return functions.any(most <= 0, self.kept < most)

    def may_suppress(self, j: Any, k: Any) -> PrimExpr:
        """Whether box ``j`` may drop box ``k``, which is not dropped yet."""
        is_there = self.score(k) > self.least
        class_ = self.rules.class_
        if self.rules.any_class or class_ < 0:
            return is_there
        own, other = (self.rows[self.picture, box, class_] for box in (j, k))
        return functions.all(is_there, own.equal(other))

    def overlap(self, j: Any, k: Any) -> PrimExpr:
        """What two boxes have in common, as a part of what they cover."""
        return overlap_of(partial(self._corner, j), partial(self._corner, k))

    def _corner(self, j: Any, k: int) -> PrimExpr:
        return self.rows[self.picture, j, self.rules.coordinates + k]

    def suppress(self, count: Any) -> None:
        """Drop what overlaps with one of a higher score; rows are in order."""
        with T.serial(0, count) as j:
            is_kept = functions.all(self.score(j) > self.least, self.may_keep_more())
            with T.If(is_kept):
                with T.Then():
                    self.set_kept(self.kept + 1)
                    self._drop_near(j, count)
                with T.Else():
                    self.drop(j)

    def _drop_near(self, j: Any, count: Any) -> None:
        with T.serial(j + 1, count) as k:
            is_near = self.overlap(j, k) >= self.rules.overlap
            is_dropped = functions.all(self.may_suppress(j, k), is_near)
            with T.If(is_dropped), T.Then():
                self.set_score(k, const(-1, self.rows.dtype))
                self.set_place(k, const(-1, "int32"))

    def fade(self, count: Any) -> None:
        """Keep the box of the highest score and lower those near it, in turns."""
        with T.serial(0, count) as j:
            is_next = functions.all(self.kept.equal(j), self.may_keep_more())
            with T.If(is_next), T.Then():
                best = self._find_best(j, count)
                with T.If(best >= 0), T.Then():
                    self._exchange(j, best)
                    with T.serial(j + 1, count) as k:
                        is_left = functions.all(
                            self.place(k) >= 0, self.may_suppress(j, k)
                        )
                        with T.If(is_left), T.Then():
                            self._lower(j, k)
                    self.set_kept(self.kept + 1)

    def _find_best(self, first: Any, count: Any) -> PrimExpr:
        """Where the box of the highest score is; -1 where there is none."""
        number = self.held[0]
        best = number[self.picture, 0]
        T.buffer_store(number, const(-1, "int32"), [self.picture, 0])
        with T.serial(first, count) as j:
            most = if_then_else(best < 0, self.least, self.score(best))
            is_better = functions.all(self.place(j) >= 0, self.score(j) > most)
            with T.If(is_better), T.Then():
                T.buffer_store(number, prim.cast("int32", j), [self.picture, 0])
        return best

    def _exchange(self, j: Any, best: PrimExpr) -> None:
        number, field = self.held
        T.buffer_store(number, self.place(j), [self.picture, 1])
        self.set_place(j, self.place(best))
        self.set_place(best, number[self.picture, 1])
        with T.serial(0, self.rows.shape[2]) as k:
            rows, held = self.rows, field[self.picture, 0]
            T.buffer_store(field, rows[self.picture, j, k], [self.picture, 0])
            T.buffer_store(rows, rows[self.picture, best, k], [self.picture, j, k])
            T.buffer_store(rows, held, [self.picture, best, k])

    def _lower(self, j: Any, k: Any) -> None:
        near = self.overlap(j, k)
        scale = const(-0.5 / self.rules.sigma, self.rows.dtype)
        with T.If(near >= self.rules.overlap):
            with T.Then():
                self.set_place(k, const(-1, "int32"))
            with T.Else():
                self.set_score(k, self.score(k) * te.exp(scale * near * near))
                with T.If(self.score(k) <= self.least), T.Then():
                    self.set_place(k, const(-1, "int32"))

    def close_up(self, is_kept: Any, move: Any) -> None:
        """What is kept moved to the front; -1 behind it."""
        boxes = self.rows.shape[1]
        self.set_kept(const(0, "int32"))
        with T.serial(0, boxes) as j, T.If(is_kept(j)), T.Then():
            move(j)
            self.set_kept(self.kept + 1)


def overlap_of(
    first: Callable[[int], PrimExpr], second: Callable[[int], PrimExpr]
) -> PrimExpr:
    """What two boxes have in common, as a part of what they cover.

    Args:
        first, second: the coordinates of two opposite corners, by number.
    """
    zero = const(0, first(0).dtype)
    areas, common = [const(1, zero.dtype)] * 2, const(1, zero.dtype)
    for axis in (0, 1):
        ends = [(box(axis), box(axis + 2)) for box in (first, second)]
        lows, highs = zip(*((te.min(*e), te.max(*e)) for e in ends), strict=True)
        extents = [high - low for low, high in zip(lows, highs, strict=True)]
        areas = [area * extent for area, extent in zip(areas, extents, strict=True)]
        common = common * te.max(zero, te.min(*highs) - te.max(*lows))
    covered = areas[0] + areas[1] - common
    return Select(covered <= zero, zero, common / covered)


def non_max_suppression(
    data: Volume,
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
    """The boxes that overlap with none of a higher score, in order of their scores.

    Args:
        data: boxes, as [batch, boxes, fields].
        valid_count: how many of each picture are there, [batch].
        indices: what each is called, [batch, boxes].
        max_output_size: how many are kept; below 1 for all.
        iou_threshold: the overlap from which a box is dropped.
        force_suppress: whether boxes of other classes count, too.
        top_k: how many boxes are looked at; below 1 for all.
        coord_start, score_index, id_index: where in a box its coordinates, its score and
            its class are; -1 if it has no class.
        return_indices: whether the names of the boxes are wanted, and how many there are.
        invalid_to_bottom: whether the boxes that are kept come first.
        soft_nms_sigma: if positive, scores are lowered instead of boxes dropped.
        score_threshold: what a lowered score must exceed.

    Returns:
        The boxes; or their names and number, behind the boxes where scores are lowered.
    """
    is_soft = soft_nms_sigma > 0
    rules = _Rules(
        *(max_output_size, iou_threshold, force_suppress, top_k),
        *(coord_start, score_index, id_index, soft_nms_sigma),
        least=score_threshold if is_soft else 0.0,
    )
    batch, boxes, _ = data.shape
    scores = te.compute((batch, boxes), lambda i, j: data[i, j, score_index], "scores")
    order = argsort(scores, valid_count, axis=1, is_ascend=False, dtype="int32")

    def body(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        return _program(rules, return_indices, invalid_to_bottom, ins, outs)

    rows, places, count, *_ = te.extern(
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
    return [rows, places, count] if is_soft else [places, count]


def _program(
    rules: _Rules,
    return_indices: bool,
    invalid_to_bottom: bool,
    ins: Sequence[Buffer],
    outs: Sequence[Buffer],
) -> Stmt:
    data, order, valid_count, names = ins
    rows, places, count, *held = outs
    batch, length, _ = data.shape
    with IRBuilder() as builder, T.parallel(0, batch) as i:
        boxes = _Boxes(rules, i, rows, places, count, (held[0], held[1]))
        looked_at = _looked_at(valid_count[i], rules.looked_at)
        boxes.set_kept(const(0, "int32"))
        with T.serial(0, length) as j, T.If(j < looked_at):
            with T.Then():
                boxes.set_row(j, data, order[i, j])
                boxes.set_place(j, order[i, j])
            with T.Else():
                boxes.drop(j)
        if rules.sigma > 0:
            boxes.fade(looked_at)
            with T.serial(boxes.kept, length) as j:
                boxes.drop(j)
        else:
            boxes.suppress(looked_at)
        if return_indices:
            _name(boxes, names)
        elif invalid_to_bottom:
            _move_to_front(boxes)
    return builder.get()


def _looked_at(valid: PrimExpr, most: Any) -> PrimExpr:
    """How many boxes are looked at, if there are ``valid`` ones."""
    if isinstance(most, int):
        return te.min(valid, const(most, "int32")) if most > 0 else valid
    return if_then_else(functions.all(most > 0, most < valid), most, valid)


def _name(boxes: _Boxes, names: Buffer) -> None:
    """What the boxes that are kept are called, in front."""
    i = boxes.picture
    boxes.close_up(
        lambda j: boxes.place(j) >= 0,
        lambda j: boxes.set_place(boxes.kept, names[i, boxes.place(j)]),
    )
    with T.serial(boxes.kept, boxes.rows.shape[1]) as j:
        boxes.set_place(j, const(-1, "int32"))


def _move_to_front(boxes: _Boxes) -> None:
    """The boxes that are kept, in front."""
    zero = const(0, boxes.rows.dtype)
    boxes.close_up(
        lambda j: boxes.score(j) >= zero,
        lambda j: boxes.set_row(boxes.kept, boxes.rows, j),
    )
    with T.serial(boxes.kept, boxes.rows.shape[1]) as j:
        boxes.set_row(j, None)
