"""Pipelines and tuning databases as damaged text."""

from __future__ import annotations

import dataclasses
import json
import random
from pathlib import Path

import relax_mlir
from relax_mlir import TuningDatabase
from relax_mlir.pipeline import catalog
from tests.argument_sweep.calls import Sweep
from tests.argument_sweep.values import model, module

__all__ = ["damaged", "sweep_databases", "sweep_pipelines"]

_WORDS = (
    *("", "0", "1", "-1", "99999999999999999999", "1.5", "nan", "true", "f32", "main"),
    *("x", "[1,2]", "{a=b}", "4,4", "cpu", "'a b'", '"', "a=b", "é", "main=f,g=h"),
)
_MARKS = "{}()=,'\"\\ \n-[]<>%\0é"

_RECORD = {
    "kernel": "a",
    "target": "cpu-1",
    "name": "main",
    "configuration": "",
    "default": "",
    "time_us": 1.0,
    "default_time_us": 2.0,
    "trials": 3,
}


def damaged(text: str, rng: random.Random) -> str:
    """A text with a few characters removed, doubled or replaced."""
    for _ in range(rng.choice((0, 0, 1, 2, 5))):
        at = rng.randrange(len(text) + 1)
        end = at + rng.randrange(4)
        text = (
            text[:at]
            + rng.choice(("", text[at:end] * 2, rng.choice(_MARKS)))
            + text[end:]
        )
    return text


def sweep_pipelines(sweep: Sweep, rng: random.Random, count: int) -> None:
    """Random pipelines, most of them damaged, on small modules."""
    modules = [module(), relax_mlir.import_onnx(model())]
    modules.append(relax_mlir.lower(modules[1], to="linalg"))
    for _ in range(count):
        text = damaged(_pipeline(rng), rng)
        sweep.attempt("opt", relax_mlir.opt, [rng.choice(modules), text], {})


def _pipeline(rng: random.Random) -> str:
    kinds = sorted(catalog.list_passes().items())
    passes = [_element(*rng.choice(kinds), rng) for _ in range(rng.randint(1, 2))]
    passes += rng.choice(([], [], ["cse"], ["func.func(canonicalize)"], ["no-pass"]))
    return ",".join(passes)


def _element(name: str, kind: type, rng: random.Random) -> str:
    names = [f.name.replace("_", "-") for f in dataclasses.fields(kind)]
    chosen = [
        n for n in (*names, "no-option") if rng.random() < (0.5 if names else 0.1)
    ]
    given = " ".join(f"{n}={rng.choice(_WORDS)}" for n in chosen)
    return f"{name}{{{given}}}" if given else name


def sweep_databases(sweep: Sweep, rng: random.Random, count: int) -> None:
    """Tuning databases with damaged records, and damaged text."""
    path = Path("damaged.json")
    for _ in range(count):
        record = dict(_RECORD)
        field = rng.choice((*_RECORD, "no-field"))
        record[field] = rng.choice((None, 1, -1, "x", "", [], {}, True, 1e999, 0.5))
        if rng.random() < 0.2:
            del record[field]
        records = rng.choice(([record], [record, 3], record, None))
        made = {"format": "relax_mlir tuning", "version": 1, "records": records}
        text = damaged(json.dumps(made), rng)
        path.write_text(text, encoding="utf-8", errors="replace")
        sweep.attempt("TuningDatabase.read", TuningDatabase.read, [path], {})
