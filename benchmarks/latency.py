"""Latency of a network on several runtimes, measured interleaved in one process.

All runtimes are prepared first. Each round then measures the processor's peak and every
runtime, so that machine noise affects all alike.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks import child
from benchmarks.baselines import BF16, F32, OURS, Case
from benchmarks.baselines.baseline import Baseline, Call
from benchmarks.cases import write_case
from benchmarks.in_f64 import outputs_in_f64
from benchmarks.networks import network
from benchmarks.peak import FmaPeak
from relax_mlir.compiler.differential_check import relative_difference
from relax_mlir.tools.timing import Spread, time_calls

__all__ = ["Found", "latencies", "measure", "scaling"]

Found = dict[str, Any]
"""A measurement as JSON (hence Any)."""

_PEAK = "peak"
_PAUSE_S = 0.02  # longer than the spin time of idle threads
# None: that of the network. With random weights bf16 rounding errors grow from layer to
# layer on every runtime: to a tenth of the output's scale in the U-Net.
_TOLERANCES = {"f32": None, "bf16": 2e-1}


def measure(
    function: Callable[..., Found],
    name: str,
    runtimes: Sequence[str],
    *arguments: object,
    threads: int,
) -> Found:
    """Call :func:`latencies` or :func:`scaling` in a separate process.

    If the process dies, it is run again without the runtime at fault, which is reported.
    """
    died: dict[str, Found] = {}
    while True:
        left = [r for r in runtimes if r not in died]
        try:
            found = child.call(function, name, left, *arguments, threads=threads)
        except child.ChildError as error:
            if error.stage not in left:
                return {"model": name, "problem": str(error), "runtimes": {}}
            died[error.stage] = {"problem": str(error)}
            continue
        by_runtime = {**found["runtimes"], **died}
        return {**found, "runtimes": {r: by_runtime[r] for r in runtimes}}


def latencies(
    name: str,
    runtimes: Sequence[str],
    precision: str,
    threads: int,
    rounds: int,
    in_f64: bool = False,
) -> Found:
    """Latencies of one network, and ratios of the baselines' to ours.

    Args:
        name: the network.
        runtimes: the runtimes, usually including ours.
        precision: ``f32`` or ``bf16``.
        threads: threads per runtime.
        rounds: measurements per runtime.
        in_f64: whether errors are relative to the network in f64; correctness is always
            judged against onnxruntime.
    """
    with TemporaryDirectory() as folder:
        tested = _Tested.of(name, precision, Path(folder))
        if in_f64:
            tested.exact = outputs_in_f64(tested.case)
        for runtime in runtimes:
            tested.prepare(runtime, runtime, threads)
    peak = FmaPeak(threads)
    times = _time({_PEAK: peak, **tested.calls}, rounds)
    rates = peak.rates(times[_PEAK])
    return {
        "model": name,
        "precision": precision,
        "gflop": tested.flops / 1e9,
        "peak_gflop_s": float(np.median(rates)) / 1e9,
        "runtimes": {
            r: tested.problems.get(r) or _figures(r, times, tested, rates)
            for r in runtimes
        },
    }


def scaling(name: str, runtimes: Sequence[str], threads: int, rounds: int) -> Found:
    """Speedup of several threads over one, per runtime."""
    counts = (1, threads)
    with TemporaryDirectory() as folder:
        tested = _Tested.of(name, "f32", Path(folder))
        for runtime in runtimes:
            for count in counts:
                tested.prepare(runtime, f"{runtime} {count}", count)
    peaks = [FmaPeak(count) for count in counts]
    calls: dict[str, Callable[[], object]] = dict(
        zip((f"{_PEAK} {count}" for count in counts), peaks, strict=True)
    )
    times = _time(calls | tested.calls, rounds)
    one, many = (p.rates(times[f"{_PEAK} {p.threads}"]) for p in peaks)
    return {
        "model": name,
        "peak_speedup": _spread(many / one),
        "runtimes": {r: _scaled(r, counts, times, tested) for r in runtimes},
    }


def _scaled(
    runtime: str,
    counts: tuple[int, int],
    times: Mapping[str, np.ndarray],
    tested: "_Tested",
) -> Found:
    keys = [f"{runtime} {count}" for count in counts]
    problems = [tested.problems[key] for key in keys if key in tested.problems]
    if problems:
        return problems[0]
    one, many = (times[key] for key in keys)
    return {
        "ms": [float(np.median(t)) * 1e3 for t in (one, many)],
        "speedup": _spread(one / many),
    }


@dataclass
class _Tested:
    """A network, and the runtimes prepared to run it.

    Attributes:
        case: the case, with the outputs of onnxruntime without optimizations.
        flops: floating-point operations of a run.
        baselines: the runtimes by name.
        tolerance: the maximum error of a correct result.
        exact: reference outputs for errors, if not those of ``case``.
        calls, errors, problems: results of the preparation by key.
        right: keys of the runtimes with correct outputs.
    """

    case: Case
    flops: int
    baselines: Mapping[str, Baseline]
    tolerance: float
    calls: dict[str, Call] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)
    problems: dict[str, Found] = field(default_factory=dict)
    exact: Sequence[np.ndarray] | None = None
    right: set[str] = field(default_factory=set)

    @staticmethod
    def of(name: str, precision: str, folder: Path) -> "_Tested":
        """A network without prepared runtimes."""
        case, flops = write_case(name, folder)
        baselines = BF16 if precision == "bf16" else F32
        tolerance = _TOLERANCES[precision] or network(name).entry.tolerance
        return _Tested(case, flops, baselines, tolerance)

    def prepare(self, runtime: str, key: str, threads: int) -> None:
        """Prepare a runtime and compare its outputs, or record the problem."""
        child.announce(runtime)
        outputs = [np.empty_like(array) for array in self.case.outputs]
        case = Case(self.case.model, self.case.inputs, outputs)
        try:
            call = self.baselines[runtime].prepare(case, threads)
            found = call()
            error = max(map(relative_difference, found, self.case.outputs))
            is_right = error <= self.tolerance
            if self.exact is not None:
                error = max(map(relative_difference, found, self.exact))
        except ImportError as problem:
            self.problems[key] = {"problem": f"not installed: {_line(problem)}"}
        except Exception as problem:  # runtimes raise many types
            self.problems[key] = {"problem": f"failed: {_line(problem)}"}
        else:
            self.calls[key], self.errors[key] = call, error
            if is_right:
                self.right.add(key)
        child.announce("")


def _line(problem: Exception) -> str:
    """The first line of an exception's message, shortened."""
    with suppress(IndexError):
        return str(problem).strip().splitlines()[0][:160]
    return type(problem).__name__


def _time(
    calls: Mapping[str, Callable[[], object]], rounds: int
) -> dict[str, np.ndarray]:
    """Seconds per call by round."""
    times = time_calls(*calls.values(), rounds=rounds, pause_s=_PAUSE_S)
    return dict(zip(calls, times, strict=True))


def _figures(
    runtime: str, times: Mapping[str, np.ndarray], tested: _Tested, rates: np.ndarray
) -> Found:
    own = times[runtime]
    figures = {
        "ms": float(np.median(own)) * 1e3,
        "share_of_peak": float(np.median(tested.flops / own / rates)),
        "error": tested.errors[runtime],
        "is_right": runtime in tested.right,
    }
    if OURS in times and runtime != OURS:
        figures["speedup"] = _spread(own / times[OURS])
    return figures


def _spread(values: np.ndarray) -> list[float]:
    """Median, 10th and 90th percentile."""
    spread = Spread.of(values)
    return [spread.median, spread.p10, spread.p90]
