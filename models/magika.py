"""Magika: file type detection from the first and last bytes."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from models.packaged import fetch_member

PACKAGE = "magika==1.0.3"
MODEL = "magika/models/standard_v3_3/model.onnx"
FILES = ("graph.py", "fashion_mlp.onnx", "fashion_mnist_test_1000.npz")
LABELS = ("python", "onnx", "npz")

_CONFIG = "magika/models/standard_v3_3/config.min.json"


def inputs(cache_dir: Path | None = None) -> dict[str, np.ndarray]:
    """Three files of this folder as byte tokens, int32 [3, 2048].

    Source: feature extraction v2 of magika 1.0.3: a block from each end of the file,
    stripped of white space, padded inwards.
    """
    config = _config(cache_dir)
    block, first, last = (config[f"{k}_size"] for k in ("block", "beg", "end"))
    tokens = np.full((len(FILES), first + last), config["padding_token"], np.int32)
    for row, name in zip(tokens, FILES, strict=True):
        content = Path(__file__).with_name(name).read_bytes()
        begin = content[:block].lstrip()[:first]
        end = content[-block:].rstrip()[-last:]
        row[: len(begin)] = list(begin)
        row[len(row) - len(end) :] = list(end)
    return {"bytes": tokens}


def labels(cache_dir: Path | None, outputs: Sequence[np.ndarray]) -> tuple[str, ...]:
    """The most likely label of each file."""
    names = _config(cache_dir)["target_labels_space"]
    return tuple(names[k] for k in outputs[0].argmax(1))


def _config(cache_dir: Path | None) -> dict[str, Any]:  # Any: JSON
    return json.loads(fetch_member(PACKAGE, _CONFIG, cache_dir).read_text())
