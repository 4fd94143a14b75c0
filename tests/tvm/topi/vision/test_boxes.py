"""Non-maximum suppression and other box operators, against values worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from relax_mlir.tvm import topi
from tests.tvm.te.programs import evaluate

# Class, score, left, top, right, bottom. The second box covers half of the first one and
# as much beside it, the fourth one is the first one of another class.
BOXES = np.array(
    [
        [
            [0, 0.25, 8, 0, 9, 1],
            [0, 0.5, 0, 1, 2, 3],
            [-1, 0.875, 0, 0, 2, 2],
            [1, 0.625, 0, 0, 2, 2],
            [0, 0.75, 0, 0, 2, 2],
        ]
    ],
    np.float32,
)
VALID = np.array([4], np.int32)
NAMES = np.array([[50, 40, 20, 10, 99]], np.int32)


def _suppressed(**options: Any) -> list[np.ndarray]:
    """The results of non-maximum suppression on the test boxes."""
    data = BOXES[:, [0, 1, 3, 4, 2]]
    made = evaluate(
        lambda x, valid, names: topi.vision.non_max_suppression(
            x, valid, names, **options
        ),
        *(data, VALID, NAMES),
    )
    return made if isinstance(made, list) else [made]


def test_get_valid_counts_compacts_boxes_above_the_threshold() -> None:
    count, kept, places = evaluate(
        lambda x: topi.vision.get_valid_counts(x, 0.5), BOXES
    )

    assert count.tolist() == [2]
    assert places.tolist() == [[3, 4, -1, -1, -1]]
    np.testing.assert_array_equal(kept[0, :2], BOXES[0, 3:])
    assert (kept[0, 2:] == -1).all()


def test_get_valid_counts_without_a_class_uses_the_score_only() -> None:
    count, _, places = evaluate(
        lambda x: topi.vision.get_valid_counts(x, 0.25, id_index=-1), BOXES
    )

    assert count.tolist() == [4]
    assert places.tolist() == [[1, 2, 3, 4, -1]]


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"iou_threshold": 0.375}, [10, 20, 40, 50]),
        ({"iou_threshold": 0.25}, [10, 20, 50]),
        ({"iou_threshold": 0.375, "force_suppress": True}, [10, 40, 50]),
        ({"iou_threshold": 0.375, "id_index": -1}, [10, 40, 50]),
        ({"max_output_size": 2}, [10, 20]),
        ({"iou_threshold": 0.25, "top_k": 3}, [10, 20]),
    ],
)
def test_nms_suppresses_overlapping_boxes(
    options: dict[str, Any], names: list[int]
) -> None:
    found, count = _suppressed(**options)

    assert count.tolist() == [[len(names)]]
    assert found.tolist() == [names + [-1] * (5 - len(names))]


@pytest.mark.parametrize("is_moved", [False, True])
def test_nms_optionally_compacts_kept_boxes(is_moved: bool) -> None:
    options = {"iou_threshold": 0.25, "return_indices": False}

    (kept,) = _suppressed(**options, invalid_to_bottom=is_moved)

    scores = [0.75, 0.625, 0.25, -1, -1] if is_moved else [0.75, 0.625, -1, 0.25, -1]
    assert kept[0, :, 1].tolist() == scores


@pytest.mark.slow
def test_soft_nms_decays_scores_of_overlapping_boxes() -> None:
    kept, found, count = _suppressed(soft_nms_sigma=0.125, score_threshold=0.3125)

    lowered = 0.5 * np.exp(-0.5 / 0.125 * (1 / 3) ** 2)
    scores = [0.75, 0.625, lowered, -1, -1]
    np.testing.assert_allclose(kept[0, :, 1], scores, rtol=1e-6)
    assert found.tolist() == [[10, 20, 40, -1, -1]]
    assert count.tolist() == [[3]]


@pytest.mark.parametrize("clip", [False, True])
def test_multibox_transform_loc_decodes_anchors(clip: bool) -> None:
    anchor = np.array([[[0, 0.25, 0.5, 0.75], [0.5, 0.5, 1, 1]]], np.float32)
    offsets = np.array([[0, 0, 0, 0, 1, -1, np.log(2), 0]], np.float32)
    logits = np.log(np.array([[[1, 3], [3, 1]]], np.float32))

    boxes, scores = evaluate(
        lambda c, o, a: topi.vision.multibox_transform_loc(
            c, o, a, (0.5, 0.5, 1, 1), clip, threshold=0.5, keep_background=False
        ),
        logits,
        offsets,
        anchor,
    )

    second = [0.25, 0.5, 0.75, 1] if clip else [0.25, 0.5, 0.75, 1.5]
    np.testing.assert_allclose(boxes, [[[0.25, 0, 0.75, 0.5], second]], rtol=1e-6)
    np.testing.assert_allclose(scores, [[[0, 0], [0.75, 0]]], rtol=1e-6)


def test_argsort_sorts_the_valid_prefix_of_every_row() -> None:
    data = np.array([[1, 3, 2, 9], [4, 3, 2, 1]], np.float32)
    valid = np.array([3, 2], np.int32)

    places = evaluate(
        lambda x, n: topi.argsort(x, n, axis=1, is_ascend=False, dtype="int32"),
        data,
        valid,
    )

    assert places.tolist() == [[1, 2, 0, 3], [0, 1, 2, 3]]


def test_all_class_nms_selects_boxes_per_class() -> None:
    boxes = BOXES[:, [4, 1, 0], 2:]
    boxes[0, 0] = boxes[0, 0, [2, 1, 0, 3]]
    scores = np.array([[[0.75, 0.5, 0.25], [0.25, 0.75, 0.125]]], np.float32)

    rows, count = evaluate(
        lambda b, s, most: topi.vision.all_class_non_max_suppression(
            b, s, most, 0.25, 0.125
        ),
        *(boxes, scores, np.array(2, np.int64)),
    )

    assert count.tolist() == [3]
    assert rows.tolist() == [[0, 0, 0], [0, 0, 2], [0, 1, 1], *[[0, 0, 0]] * 3]


def test_all_class_nms_rejects_other_output_formats() -> None:
    with pytest.raises(NotImplementedError, match="expected onnx, got tensorflow"):
        evaluate(
            lambda b, s: topi.vision.all_class_non_max_suppression(
                b, s, 2, 0.25, 0.125, "tensorflow"
            ),
            *(BOXES[..., 2:], BOXES[..., 0]),
        )
