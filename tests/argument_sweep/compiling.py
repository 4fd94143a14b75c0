"""Calls of what compiles: of one option after another, a value that may not fit."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import relax_mlir
from relax_mlir.tvm import relax
from relax_mlir.tvm.relax import vm
from tests.argument_sweep.calls import Sweep
from tests.argument_sweep.values import PROGRAMS, model, module

__all__ = ["OPTIONS", "sweep_compilers"]

# Values that options take, in a call that compiles within a second.
OPTIONS: Mapping[str, tuple[Any, ...]] = {
    "target": ("cpu", "llvm", "cpu:znver3", "cuda:sm_90", "cpu:", "cuda:sm_1", "no"),
    "precision": ("f32", "bf16", "f16", "f8", "tf32"),
    "library": ("never", "auto", "always"),
    "winograd": ("auto", "never"),
    "checks": ("none", "indices"),
    "threads": (1, 2, 0, -1),
    "cache": (False, "cache"),
    "tuning": (None, "none.json", "damaged.json", "."),
    "database": ("tuned.json", "damaged.json", "none/tuned.json", "."),
    "dump": (None, "dump", "damaged.json"),
    "verify": (None, "each-pass"),
    "inputs": (None, []),
    "progress": (None,),
    "trials": (1, 2, 0, -1),
    "total_trials": (None, 1, 0, -1),
    "sizes": (None, {"n": 4}, {"n": 0}, {"k": 4}),
    "rounds": (1, 0, -1),
    "shapes": (
        None,
        {},
        {"x": [2, 3]},
        {"x": [-1]},
        {"x": "n"},
        {"no": [1]},
        {"x": [None]},
    ),
    "values": (None, {}, {"x": [1.0]}, {"x": None}, {"no": 3}),
    "example_inputs": (None, [], [1]),
    "params": (None, {}),
    "exec_mode": ("bytecode", "compiled"),
    "relax_pipeline": ("default", "zero", "relax-fuse-ops", lambda m: m, lambda m: 3),
    "tir_pipeline": ("default", "none", lambda m: m, lambda m: None),
    "system_lib": (False, True),
}

# Options that always have a value that keeps a call short.
_ALWAYS: Mapping[str, Any] = {
    "cache": False,
    "database": "tuned.json",
    "trials": 2,
    "total_trials": 2,
    "rounds": 1,
}
_SHORT = ("rounds",)  # how often something is run: a large number is not a wrong one


def sweep_compilers(sweep: Sweep, rng: random.Random) -> None:
    """A call for each option of each function that compiles."""
    for function in (relax_mlir.compile, relax_mlir.explain, relax_mlir.tune):
        _sweep(sweep, rng, function, [model(), model(), module(), PROGRAMS[0]])
    for function in (relax.build, vm.build_any):
        _sweep(sweep, rng, function, [module(), PROGRAMS[0], PROGRAMS[1]])


def _sweep(
    sweep: Sweep, rng: random.Random, function: Callable[..., Any], subjects: list[Any]
) -> None:
    parameters = list(inspect.signature(function).parameters.values())
    first, *options = (p for p in parameters if p.kind is not p.VAR_KEYWORD)
    always = {o.name: _ALWAYS[o.name] for o in options if o.name in _ALWAYS}
    for args, named in _calls(sweep, rng, first, options):
        subject = args[0] if args else rng.choice(subjects)
        sweep.attempt(function.__qualname__, function, [subject], {**always, **named})


def _calls(
    sweep: Sweep,
    rng: random.Random,
    first: inspect.Parameter,
    options: list[inspect.Parameter],
) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """What is given first, if it is mutated, and the options that are."""
    yield [sweep.value(str(first.annotation), 0.7)], {}
    for option in options:
        is_short = option.name in _SHORT
        if is_short or rng.random() < 0.4:
            value = rng.choice(OPTIONS[option.name])
        else:
            value = sweep.value(str(option.annotation), 0.8)
        yield [], {option.name: value}
