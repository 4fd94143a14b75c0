"""Try the configurations of kernels, and keep the fastest."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from mlir import ir

from relax_mlir.compiler import compile_units, object_cache, remaining, target_of
from relax_mlir.errors import TuningError
from relax_mlir.explanation import rule_choice, to_kernels
from relax_mlir.frontends.onnx import import_onnx
from relax_mlir.frontends.onnx.reading import ModelSource
from relax_mlir.module import IRModule
from relax_mlir.passes.schedule.rules import CONFIGURATION
from relax_mlir.pipeline import Progress
from relax_mlir.runtime.cpu import check_threads
from relax_mlir.runtime.kernel_call import LoadedKernel
from relax_mlir.runtime.machine import Machine
from relax_mlir.runtime.object_cache import ObjectCache
from relax_mlir.targets import Stage, Target, stages
from relax_mlir.tuning_database import TuningDatabase, TuningRecord, target_key
from relax_mlir.tuning_tasks import TuningTask, tuning_tasks
from relax_mlir.units import Unit

__all__ = ["TRIALS", "tune"]

TRIALS = 16  # of a kernel
_ROUNDS = 9
_SAMPLE_NS = 1_000_000  # so long is one measurement, at least
_GAIN = 0.97  # of the default's time, which noise does not reach
_TOLERANCES = {8: 1e-10, 4: 1e-4, 2: 2e-2, 1: 0.25}  # by bytes of a float


def tune(
    model: IRModule | ModelSource,
    *,
    database: str | os.PathLike[str],
    target: str | Target = "cpu",
    precision: str = "f32",
    winograd: str = "auto",
    trials: int = TRIALS,
    total_trials: int | None = None,
    sizes: Mapping[str, int] | None = None,
    threads: int = 1,
    rounds: int = _ROUNDS,
    cache: bool | str | os.PathLike[str] = True,
    progress: Progress | None = None,
) -> TuningDatabase:
    """Find the fastest configuration of every kernel of a model, on this machine.

    Each distinct kernel is compiled in several ways and run by itself, on arrays of the
    shapes that the model calls it with. The ways are measured in turns, so that all see
    the same machine; one wins if it computes what the default does, and is faster by more
    than noise. ``compile(..., tuning=database)`` then uses what was found.

    Args:
        model: a module, or an ONNX model as :func:`relax_mlir.import_onnx` takes it.
        database: the file that gets the records; those in it of other kernels stay.
        target: what the model will be compiled for; it must run here.
        precision, winograd: as for :func:`relax_mlir.compile`.
        trials: configurations of a kernel that are measured, its default among them.
        total_trials: of all kernels together; None for no limit.
        sizes: of open dimensions; 64 for those that are not named.
        threads: how many may work on one call.
        rounds: how often each is measured.
        cache: keep compiled kernels on disk; True for the user's cache folder.
        progress: is told of every kernel.

    Returns:
        The database, as it was written.

    Raises:
        RelaxError: the model cannot be compiled.
        TuningError: the database is damaged, a size is not one of the model, the target
            is not this machine, or the model has its loops already.
        OSError: the database cannot be read or written.
    """
    machine = target_of(target)
    obstacle = Machine.of(machine.triple, machine.cpu, machine.features).obstacle()
    if obstacle is not None:
        raise TuningError(f"target `{target}`: {obstacle}")
    if trials < 1 or rounds < 1:
        raise TuningError(
            f"expected 1 or more trials and rounds, got {trials}, {rounds}"
        )
    if total_trials is not None and total_trials < 0:
        raise TuningError(f"total_trials: expected 0 or more, got {total_trials}")
    module = model if isinstance(model, IRModule) else import_onnx(model)
    lowered = to_kernels(module, machine, precision, winograd)
    rest = remaining(lowered, stages(machine, precision, winograd=winograd))
    if not rest or rest[0].level != "linalg":
        raise TuningError("module: expected one whose kernels have not been lowered")
    kept = _kept(database)
    tuner = _Tuner(machine, rest, check_threads(threads), rounds, object_cache(cache))
    tasks = tuning_tasks(lowered, sizes or {})
    records: list[TuningRecord] = []
    for number, task in enumerate(tasks):
        left = trials if total_trials is None else total_trials - _used(records)
        record = tuner.record(task, min(trials, left))
        if record is not None:
            records.append(record)
            # Others may tune other models at the same time.
            kept = _kept(database).with_records([record])
            kept.write()
        if progress is not None:
            progress("tune", number + 1, len(tasks))
    if not records:
        kept.write()
    return replace(kept, found=tuple(records))


def _kept(path: str | os.PathLike[str]) -> TuningDatabase:
    """What a file holds, if it is there."""
    return (
        TuningDatabase.read(path) if Path(path).exists() else TuningDatabase(Path(path))
    )


def _used(records: Sequence[TuningRecord]) -> int:
    return sum(record.trials for record in records)


class _Tuner:
    """Tunes kernels, one after the other.

    Args:
        target: this machine; rest: the stages that kernels have not been through.
    """

    def __init__(
        self,
        target: Target,
        rest: Sequence[Stage],
        threads: int,
        rounds: int,
        cache: ObjectCache | None,
    ) -> None:
        self._target, self._rest = target, rest
        self._threads, self._rounds, self._cache = threads, rounds, cache

    def record(self, task: TuningTask, trials: int) -> TuningRecord | None:
        """What is found for a kernel; None if there is nothing to choose."""
        configurations = rule_choice(task.unit.text, self._rest).configurations
        tried = configurations[:trials]
        if len(tried) < 2:
            return None
        arrays = task.arrays()
        calls = self._calls(task, tried, arrays)
        right = _right_ones(calls, arrays[len(arrays) - task.outputs :])
        best, default_us, ratio = self._fastest([calls[number] for number in right])
        return TuningRecord(
            task.kernel,
            target_key(self._target),
            task.name,
            tried[right[best]] if best else "",
            tried[0],
            default_us * ratio,
            default_us,
            len(tried),
        )

    def _fastest(self, calls: Sequence[Callable[[], None]]) -> tuple[int, float, float]:
        """Which call is faster than the first, that one's time, and the ratio to it."""
        times_us, best = measure(calls, self._rounds), 0
        ratios = np.median(times_us / times_us[:, :1], axis=0)
        if ratios.min() < _GAIN:  # once more: the least of many is so by chance, too
            best = int(np.argmin(ratios))
            times_us = measure([calls[0], calls[best]], 2 * self._rounds)
            ratios[best] = np.median(times_us[:, 1] / times_us[:, 0])
            best = best if ratios[best] < _GAIN else 0
        return best, float(np.median(times_us[:, 0])), float(ratios[best])

    def _calls(
        self,
        task: TuningTask,
        configurations: Sequence[str],
        arrays: Sequence[np.ndarray],
    ) -> list[LoadedKernel]:
        units = [_configured(task.unit, text) for text in configurations]
        built = compile_units(units, self._rest, self._target, self._cache)
        given = arrays, task.sizes, self._threads
        return [LoadedKernel(made.code, task.unit.symbol, *given) for made in built]


def _configured(unit: Unit, text: str) -> Unit:
    """A kernel that says how it is to be written."""
    module = IRModule.parse(unit.text)
    (function,) = module.func_ops()
    function.attributes[CONFIGURATION] = ir.StringAttr.get(text, function.context)
    return Unit(str(module), unit.symbol, unit.programs)


def _right_ones(
    calls: Sequence[Callable[[], None]], outputs: Sequence[np.ndarray]
) -> list[int]:
    """The numbers of the calls that compute what the first does, it included."""
    found: list[int] = []
    expected: list[np.ndarray] = []
    for number, call in enumerate(calls):
        for array in outputs:
            array[...] = 0
        call()
        if not number:
            expected = [array.copy() for array in outputs]
        pairs = zip(outputs, expected, strict=True)
        if all(agree(actual, wanted) for actual, wanted in pairs):
            found.append(number)
    return found


def agree(actual: np.ndarray, expected: np.ndarray) -> bool:
    """Whether arrays differ by no more than the order of sums changes."""
    if np.issubdtype(expected.dtype, np.integer):
        return bool(np.array_equal(actual, expected))
    tolerance = _TOLERANCES[expected.dtype.itemsize]
    wide = np.float64 if expected.dtype.itemsize == 8 else np.float32
    ours, theirs = actual.astype(wide), expected.astype(wide)
    finite = np.isfinite(theirs)
    if not np.array_equal(ours[~finite], theirs[~finite], equal_nan=True):
        return False
    scale = np.abs(theirs[finite]).max(initial=0)
    return bool((np.abs(ours[finite] - theirs[finite]) <= tolerance * scale).all())


def measure(calls: Sequence[Callable[[], None]], rounds: int) -> np.ndarray:
    """How long calls take, in microseconds, [round, call]: in turns, each once a round."""
    counts = [max(1, _SAMPLE_NS // max(1, _duration_ns(call, 1))) for call in calls]
    times_ns = np.empty((rounds, len(calls)))
    for turn in range(rounds):
        for step in range(len(calls)):
            number = (turn + step) % len(calls)
            count = counts[number]
            times_ns[turn, number] = _duration_ns(calls[number], count) / count
    return times_ns / 1e3


def _duration_ns(call: Callable[[], None], count: int) -> int:
    start_ns = time.perf_counter_ns()
    for _ in range(count):
        call()
    return time.perf_counter_ns() - start_ns
