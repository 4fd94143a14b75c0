"""PP-OCR's three networks on a photographed page: detect, orient and recognize text lines.

The page is scikit-image's ``page.png``. Pre- and postprocessing follow
rapidocr-onnxruntime 1.4.4, in numpy.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from PIL import Image

from models.packaged import fetch_member

PACKAGE = "rapidocr-onnxruntime==1.4.4"
DETECTOR = "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx"
CLASSIFIER = "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx"
RECOGNISER = "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx"

TEXTS = (
    "Region-based segmentation",
    "Let us first determine markers of the coins and the",
    "unambiguously as either object or background. Here,",
    "the markers are found at the two extreme parts of the",
    "histogram of grey values:",
)

# Top, bottom, left, right of these lines on the page, in pixels.
_BOXES = (
    (10, 40, 0, 290),
    (46, 68, 2, 382),
    (81, 105, 2, 382),
    (98, 122, 2, 382),
    (115, 139, 2, 180),
)
_HEIGHT = 48  # of a line, pixels
_TEXT_PROBABILITY = 0.3


def detector_inputs(cache_dir: Path | None = None) -> dict[str, np.ndarray]:
    """The whole page [1, 3, 192, 384]."""
    return {"x": _normalise(_resize(_page(cache_dir), 192, 384))[None]}


def count_lines(cache_dir: Path | None, outputs: Sequence[np.ndarray]) -> int:
    """The number of text lines that a vertical line at a quarter of the width crosses."""
    probability = outputs[0][0, 0]
    text = probability[:, probability.shape[1] // 4] > _TEXT_PROBABILITY
    return int(np.count_nonzero(text[1:] & ~text[:-1]))


def classifier_inputs(cache_dir: Path | None = None) -> dict[str, np.ndarray]:
    """Three lines [6, 3, 48, 192], upright and then rotated by 180 degrees."""
    lines = [_crop(_page(cache_dir), box) for box in (_BOXES[0], *_BOXES[3:])]
    return {"x": _batch([*lines, *(line[::-1, ::-1] for line in lines)], 192)}


def directions(
    cache_dir: Path | None, outputs: Sequence[np.ndarray]
) -> tuple[int, ...]:
    """The rotation of each line: 0 or 180 degrees."""
    return tuple(180 * int(k) for k in outputs[0].argmax(1))


def recogniser_inputs(cache_dir: Path | None = None) -> dict[str, np.ndarray]:
    """The five text lines [5, 3, 48, 800]."""
    page = _page(cache_dir)
    return {"x": _batch([_crop(page, box) for box in _BOXES], 800)}


def read_texts(
    cache_dir: Path | None, outputs: Sequence[np.ndarray]
) -> tuple[str, ...]:
    """The text of each line by greedy CTC decoding: repeats and blanks are dropped.

    Source: Graves et al., Connectionist Temporal Classification, 2006, best path.
    """
    model = onnx.load(fetch_member(PACKAGE, RECOGNISER, cache_dir))
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    symbols = np.array(["", *metadata["character"].splitlines(), " "])
    texts = []
    for best in outputs[0].argmax(2):
        new = np.concatenate([[True], best[1:] != best[:-1]])
        texts.append("".join(symbols[best[new]]))  # symbol 0, the blank, is empty
    return tuple(texts)


def _page(cache_dir: Path | None) -> np.ndarray:
    member = "skimage/data/page.png"
    with Image.open(fetch_member("scikit-image==0.25.2", member, cache_dir)) as image:
        return np.asarray(image.convert("L"))


def _crop(page: np.ndarray, box: tuple[int, int, int, int]) -> np.ndarray:
    top, bottom, left, right = box
    return page[top:bottom, left:right]


def _batch(lines: Sequence[np.ndarray], width: int) -> np.ndarray:
    """Lines scaled to one height [n, 3, 48, width], squeezed or padded on the right."""
    batch = np.zeros((len(lines), 3, _HEIGHT, width), np.float32)
    for row, line in zip(batch, lines, strict=True):
        scaled = min(width, -(-_HEIGHT * line.shape[1] // line.shape[0]))
        row[:, :, :scaled] = _normalise(_resize(line, _HEIGHT, scaled))
    return batch


def _normalise(image: np.ndarray) -> np.ndarray:
    """Grey 0..255 to three equal channels in -1..1."""
    scaled = (image / 255 - 0.5) / 0.5
    return np.broadcast_to(scaled.astype(np.float32), (3, *image.shape))


def _resize(image: np.ndarray, height: int, width: int) -> np.ndarray:
    """Bilinear resizing with half-pixel centers and edge padding."""
    row, below = _taps(image.shape[0], height)
    column, right = _taps(image.shape[1], width)
    image = image.astype(np.float32)
    image = image[row] * (1 - below[:, None]) + image[row + 1] * below[:, None]
    return image[:, column] * (1 - right) + image[:, column + 1] * right


def _taps(before: int, after: int) -> tuple[np.ndarray, np.ndarray]:
    """Per output pixel, the source pixel at or before it, and the weight of the next one."""
    position = (np.arange(after) + 0.5) * before / after - 0.5
    position = position.clip(0, before - 1)
    first = np.minimum(position.astype(int), before - 2)
    return first, position - first
