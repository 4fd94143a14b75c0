"""Compiles a module in several ways, and compares what it gives with the definitions."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import relax_mlir
from relax_mlir import IRModule
from relax_mlir.dialects.dtypes import from_numpy
from relax_mlir.rewrite.pass_context import PassContext
from relax_mlir.tvm import cpu, relax
from tests.differential.recipes import (
    Definition,
    Recipe,
    build,
    difference,
    rounding,
)

__all__ = ["TARGETS", "Settings", "UnstableError", "check", "guarded"]

TARGETS = {128: "cpu:x86-64-v2", 256: "cpu:x86-64-v3", 512: "cpu:x86-64-v4"}
_NOISES = 3  # runs that tell how far rounding errors spread
_SPREAD = 8.0  # how much more than in those runs they may spread
_LARGEST_TOLERANCE = 0.02  # of the scale: what spreads further says nothing


@dataclass(frozen=True)
class Settings:
    """How a module is compiled.

    Attributes:
        opt_level: of the passes that TVM's pipeline runs.
        vector_bits: width of the target's vectors.
        threads: of a call.
        verifies: whether every pass is verified by running the module, if all of it is
            machine code.
        guards: whether kernels run between guard pages.
    """

    opt_level: int = 0
    vector_bits: int = 128
    threads: int = 1
    verifies: bool = False
    guards: bool = True

    @staticmethod
    def draw(rng: random.Random) -> Settings:
        """Settings, each equally often; one in ten verifies, three in four guard."""
        return Settings(
            rng.randint(0, 3),
            rng.choice(list(TARGETS)),
            rng.choice((1, 2, 3)),
            rng.random() < 0.1,
            rng.random() < 0.75,
        )


class UnstableError(Exception):
    """Rounding errors change the results of the module beyond what can be compared."""


def check(recipe: Recipe, settings: Settings) -> None:
    """Compile and run a module directly, and from tensor programs of its operators.

    Raises:
        UnstableError: there is nothing to compare with.
        AssertionError: a result differs from the definitions'.
        Exception: it cannot be compiled, or not run.
    """
    definition = Definition(recipe)
    values = definition.evaluate()
    if any(step.overwrites for step in recipe.steps):
        # A call in place runs on the host, and only machine code can be verified.
        settings = replace(settings, verifies=False)
    expected = [values[v] for v in recipe.outputs]
    tolerances = _tolerances(definition, values)
    for name, run in _WAYS.items():
        with guarded(settings.guards):
            results = run(build(recipe), recipe.arrays(), settings)
        assert len(results) == len(expected), f"{name}: {len(results)} results"
        for number, (ours, theirs, limit) in enumerate(
            zip(results, expected, tolerances, strict=True)
        ):
            _compare(ours, theirs, limit, f"{name}: output {number}")


@contextmanager
def guarded(guards: bool) -> Iterator[None]:
    """Run kernels between guard pages, or not."""
    before = os.environ.get("RELAX_MLIR_GUARD")
    os.environ["RELAX_MLIR_GUARD"] = str(int(guards))
    try:
        yield
    finally:
        if before is None:
            del os.environ["RELAX_MLIR_GUARD"]
        else:
            os.environ["RELAX_MLIR_GUARD"] = before


def _directly(
    module: IRModule, arrays: Sequence[np.ndarray], settings: Settings
) -> list[np.ndarray]:
    options: dict[str, Any] = {}
    if settings.verifies:
        options = {"verify": "each-pass", "inputs": arrays}
    made = relax_mlir.compile(
        module,
        TARGETS[settings.vector_bits],
        threads=settings.threads,
        cache=False,
        **options,
    )
    return _arrays(made(*arrays))


def _legalized(
    module: IRModule, arrays: Sequence[np.ndarray], settings: Settings
) -> list[np.ndarray]:
    with PassContext(opt_level=settings.opt_level):
        made = relax.build(
            module,
            TARGETS[settings.vector_bits],
            relax_pipeline="zero",
            threads=settings.threads,
            cache=False,
        )
    return _arrays(relax.VirtualMachine(made, cpu())["main"](*arrays))


def _arrays(found: Any) -> list[np.ndarray]:
    """The results of a call: a tensor, or several of them, numpy's or TVM's."""
    many = [found] if hasattr(found, "numpy") else list(found)
    return [np.asarray(v.numpy() if hasattr(v, "numpy") else v) for v in many]


_WAYS: dict[str, Callable[..., list[np.ndarray]]] = {
    "directly": _directly,
    "through LegalizeOps": _legalized,
}


def _tolerances(definition: Definition, values: dict[int, np.ndarray]) -> list[float]:
    """The largest error of each output, relative to its scale.

    What rounding errors of all steps do together is seen by adding noise of their size.
    """
    recipe = definition.recipe
    base = max((s.tolerance for s in recipe.steps), default=0.0)
    runs = [definition.evaluate(1.0, seed) for seed in range(_NOISES)]
    found = []
    for output in recipe.outputs:
        exact = values[output]
        if not from_numpy(exact.dtype).is_float:
            if any(not np.array_equal(exact, run[output]) for run in runs):
                raise UnstableError
            found.append(0.0)
            continue
        spread = max(difference(run[output], exact) for run in runs)
        unit = rounding(exact.dtype)
        if spread * _SPREAD > max(_LARGEST_TOLERANCE, 16 * unit):
            raise UnstableError
        found.append(base + 4 * unit + _SPREAD * spread)
    return found


def _compare(ours: np.ndarray, theirs: np.ndarray, limit: float, where: str) -> None:
    assert ours.shape == theirs.shape, (
        f"{where}: shape {ours.shape}, not {theirs.shape}"
    )
    assert ours.dtype == theirs.dtype, f"{where}: type {ours.dtype}, not {theirs.dtype}"
    if from_numpy(theirs.dtype).is_float:
        error = difference(ours, theirs)
        assert error <= limit, (
            f"{where}: error {error:.3g} of the scale, over {limit:.3g}"
        )
    else:
        assert np.array_equal(ours, theirs), f"{where}: other values"
