"""Autotuner: measures the configurations of each kernel, and records the fastest."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from mlir import ir

from relax_mlir.codegen.object_cache import ObjectCache
from relax_mlir.codegen.target_machines import machine_of
from relax_mlir.compiler.driver import (
    compile_units,
    object_cache,
    remaining_stages,
    target_of,
)
from relax_mlir.compiler.explain import lower_to_kernels, rule_choice
from relax_mlir.compiler.kernel_modules import CompilationUnit
from relax_mlir.compiler.module_kind import module_of
from relax_mlir.compiler.options import CompileOptions
from relax_mlir.compiler.tuning.database import TuningDatabase, TuningRecord, target_key
from relax_mlir.compiler.tuning.kernel_call import LoadedKernel
from relax_mlir.compiler.tuning.tasks import TuningTask, tuning_tasks
from relax_mlir.errors import TuningError
from relax_mlir.frontends.onnx.reading import ModelSource
from relax_mlir.ir.module import IRModule
from relax_mlir.objects.function import BaseFunc
from relax_mlir.passes.schedule.rules import CONFIGURATION
from relax_mlir.pipeline import Progress
from relax_mlir.targets import Stage, Target, stages

__all__ = ["TRIALS", "tune"]

TRIALS = 16  # per kernel
_ROUNDS = 9
_SAMPLE_NS = 1_000_000  # minimum duration of one measurement
_GAIN = 0.97  # maximum time relative to the default's, to exclude noise
_TOLERANCES = {8: 1e-10, 4: 1e-4, 2: 2e-2, 1: 0.25}  # by itemsize of a float


def tune(
    model: IRModule | BaseFunc | ModelSource,
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

    Each distinct kernel is compiled with several configurations and run in isolation, on
    arrays of the shapes that the model passes. Measurements are interleaved, so that all
    configurations see the same machine state. A configuration wins if its results agree
    with the default's, and its speedup exceeds noise. ``compile(..., tuning=database)``
    then applies the records.

    Args:
        model: a module, a function, or an ONNX model as :func:`relax_mlir.import_onnx` takes it.
        database: the file for the records; those of other kernels in it are kept.
        target: the target of the model, which this machine must be able to execute.
        precision, winograd: as for :func:`relax_mlir.compile`.
        trials: maximum number of configurations per kernel, including the default.
        total_trials: maximum number over all kernels; None for no limit.
        sizes: values of symbolic sizes; 64 by default.
        threads: maximum number of threads per call.
        rounds: number of measurements per configuration.
        cache: keep compiled kernels on disk; True for the user's cache folder.
        progress: callback after every kernel.

    Returns:
        The database, as it was written.

    Raises:
        RelaxError: the model cannot be compiled.
        TuningError: the database is damaged, a size is unknown to the model, this machine
            cannot execute the target, or the model is scheduled already.
        OSError: the database cannot be read or written.
    """
    options = CompileOptions(
        target=target,
        precision=precision,
        winograd=winograd,
        threads=threads,
        cache=cache,
        progress=progress,
    )
    machine = target_of(options.target)
    obstacle = machine_of(machine.triple, machine.cpu, machine.features).obstacle()
    if obstacle is not None:
        raise TuningError(f"target `{target}`: {obstacle}")
    if trials < 1 or rounds < 1:
        raise TuningError(
            f"expected 1 or more trials and rounds, got {trials}, {rounds}"
        )
    if total_trials is not None and total_trials < 0:
        raise TuningError(f"total_trials: expected 0 or more, got {total_trials}")
    models = lower_to_kernels(module_of(model), options)
    rest = remaining_stages(models[0], stages(machine, options))
    if not rest or rest[0].level != "linalg":
        raise TuningError("module: expected one whose kernels have not been lowered")
    updated = _read_or_empty(database)
    tuner = _Tuner(machine, rest, options.threads, rounds, object_cache(options.cache))
    tasks = tuning_tasks(models, sizes or {})
    records: list[TuningRecord] = []
    for number, task in enumerate(tasks):
        left = trials if total_trials is None else total_trials - _trials_of(records)
        record = tuner.record(task, min(trials, left))
        if record is not None:
            records.append(record)
            # Read again: other processes may write to the database concurrently.
            updated = _read_or_empty(database).with_records([record])
            updated.write()
        if progress is not None:
            progress("tune", number + 1, len(tasks))
    if not records:
        updated.write()
    return replace(updated, found=tuple(records))


def _read_or_empty(path: str | os.PathLike[str]) -> TuningDatabase:
    """The database of a file; an empty one if it does not exist."""
    return (
        TuningDatabase.read(path) if Path(path).exists() else TuningDatabase(Path(path))
    )


def _trials_of(records: Sequence[TuningRecord]) -> int:
    return sum(record.trials for record in records)


class _Tuner:
    """Tunes kernels sequentially.

    Args:
        target: of the kernels; rest: the remaining stages of the pipeline.
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
        """Tune one kernel; None if it has a single configuration."""
        configurations = rule_choice(task.unit.text, self._rest).configurations
        tried = configurations[:trials]
        if len(tried) < 2:
            return None
        arrays = task.arrays()
        calls = self._calls(task, tried, arrays)
        correct = _correct_calls(calls, arrays[len(arrays) - task.outputs :])
        best, default_us, ratio = self._fastest([calls[number] for number in correct])
        return TuningRecord(
            task.kernel,
            target_key(self._target),
            task.name,
            tried[correct[best]] if best else "",
            tried[0],
            default_us * ratio,
            default_us,
            len(tried),
        )

    def _fastest(self, calls: Sequence[Callable[[], None]]) -> tuple[int, float, float]:
        """Index of the fastest call, the first's time, and the ratio of their times."""
        times_us, best = measure_interleaved(calls, self._rounds), 0
        ratios = np.median(times_us / times_us[:, :1], axis=0)
        if ratios.min() < _GAIN:  # remeasure: the minimum of many samples is biased
            best = int(np.argmin(ratios))
            times_us = measure_interleaved([calls[0], calls[best]], 2 * self._rounds)
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
        arguments = arrays, task.sizes, self._threads
        return [LoadedKernel(unit.code, task.unit.symbol, *arguments) for unit in built]


def _configured(unit: CompilationUnit, text: str) -> CompilationUnit:
    """A kernel module with an explicit configuration."""
    module = IRModule.parse(unit.text)
    (function,) = module.func_ops()
    function.attributes[CONFIGURATION] = ir.StringAttr.get(text, function.context)
    return CompilationUnit(str(module), unit.symbol, unit.programs)


def _correct_calls(
    calls: Sequence[Callable[[], None]], outputs: Sequence[np.ndarray]
) -> list[int]:
    """Indices of the calls whose results agree with the first's, including the first."""
    correct: list[int] = []
    expected: list[np.ndarray] = []
    for number, call in enumerate(calls):
        for array in outputs:
            array[...] = 0
        call()
        if not number:
            expected = [array.copy() for array in outputs]
        pairs = zip(outputs, expected, strict=True)
        if all(results_agree(actual, wanted) for actual, wanted in pairs):
            correct.append(number)
    return correct


def results_agree(actual: np.ndarray, expected: np.ndarray) -> bool:
    """Whether arrays differ only by the rounding of reordered sums."""
    if np.issubdtype(expected.dtype, np.integer):
        return bool(np.array_equal(actual, expected))
    tolerance = _TOLERANCES[expected.dtype.itemsize]
    wide = np.float64 if expected.dtype.itemsize == 8 else np.float32
    actual, expected = actual.astype(wide), expected.astype(wide)
    finite = np.isfinite(expected)
    if not np.array_equal(actual[~finite], expected[~finite], equal_nan=True):
        return False
    scale = np.abs(expected[finite]).max(initial=0)
    error = np.abs(actual[finite] - expected[finite])
    return bool((error <= tolerance * scale).all())


def measure_interleaved(calls: Sequence[Callable[[], None]], rounds: int) -> np.ndarray:
    """Interleaved run times of calls in microseconds, [round, call].

    Each round measures every call once, in rotated order.
    """
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
