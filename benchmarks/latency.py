"""How long runs of a network take, by every runtime in turn, in one process.

All runtimes are prepared first. Then each round measures the peak of the processor and
every runtime, so that what the machine does meanwhile meets them all.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks import child
from benchmarks.cases import write_case
from benchmarks.in_f64 import outputs_in_f64
from benchmarks.networks import network
from benchmarks.peak import FmaPeak
from benchmarks.rivals import BF16, F32, OURS, Case
from benchmarks.rivals.rival import Call, Rival
from relax_mlir.tools.timing import Spread, time_calls
from relax_mlir.value_check import difference

__all__ = ["Found", "latencies", "measure", "scaling"]

Found = dict[str, Any]
"""What JSON says of a measurement; Any, as there are numbers, texts and more of them."""

_PEAK = "peak"
_PAUSE_S = 0.02  # longer than idle threads of any runtime spin
# None: that of the network. Weights are random, so what bf16 rounds grows from layer to
# layer, with all who round: to a tenth of the result's scale in the U-Net.
_TOLERANCES = {"f32": None, "bf16": 2e-1}


def measure(
    function: Callable[..., Found],
    name: str,
    runtimes: Sequence[str],
    *arguments: object,
    threads: int,
) -> Found:
    """Call :func:`latencies` or :func:`scaling` in a process of its own.

    A runtime at which the process dies is left out of another try, and said to.
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
    """Times of one network, and how far each runtime's are from ours.

    Args:
        name: of the network.
        runtimes: names; ours is compared with.
        precision: ``f32`` or ``bf16``.
        threads: how many each may use.
        rounds: how often each is measured.
        in_f64: whether errors are those against the network in f64; a result is right
            by that of onnxruntime in any case.
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
    """How many times faster several threads are than one, for every runtime."""
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
    """A network, and the runtimes that are ready to run it.

    Attributes:
        case: with the outputs that onnxruntime computes without optimisations.
        exact: what errors are relative to, if not to the outputs of ``case``.
        calls, errors, problems: of runtimes, by the key they were prepared under.
        right: the keys of those whose outputs are close to those of ``case``.
    """

    case: Case
    flops: int
    rivals: Mapping[str, Rival]
    tolerance: float
    calls: dict[str, Call] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)
    problems: dict[str, Found] = field(default_factory=dict)
    exact: Sequence[np.ndarray] | None = None
    right: set[str] = field(default_factory=set)

    @staticmethod
    def of(name: str, precision: str, folder: Path) -> "_Tested":
        """A network before any runtime."""
        case, flops = write_case(name, folder)
        rivals = BF16 if precision == "bf16" else F32
        tolerance = _TOLERANCES[precision] or network(name).entry.tolerance
        return _Tested(case, flops, rivals, tolerance)

    def prepare(self, runtime: str, key: str, threads: int) -> None:
        """Make one ready and compare what it computes, or keep what went wrong."""
        child.announce(runtime)
        outputs = [np.empty_like(array) for array in self.case.outputs]
        case = Case(self.case.model, self.case.inputs, outputs)
        try:
            call = self.rivals[runtime].prepare(case, threads)
            found = call()
            error = max(map(difference, found, self.case.outputs))
            is_right = error <= self.tolerance
            if self.exact is not None:
                error = max(map(difference, found, self.exact))
        except ImportError as problem:
            self.problems[key] = {"problem": f"not installed: {_line(problem)}"}
        except Exception as problem:  # runtimes have many kinds
            self.problems[key] = {"problem": f"failed: {_line(problem)}"}
        else:
            self.calls[key], self.errors[key] = call, error
            if is_right:
                self.right.add(key)
        child.announce("")


def _line(problem: Exception) -> str:
    """The first line of what an exception says, shortened."""
    with suppress(IndexError):
        return str(problem).strip().splitlines()[0][:160]
    return type(problem).__name__


def _time(
    calls: Mapping[str, Callable[[], object]], rounds: int
) -> dict[str, np.ndarray]:
    """Seconds a call, round by round."""
    times = time_calls(*calls.values(), rounds=rounds, pause_s=_PAUSE_S)
    return dict(zip(calls, times, strict=True))


def _figures(
    runtime: str, times: Mapping[str, np.ndarray], tested: _Tested, rates: np.ndarray
) -> Found:
    mine = times[runtime]
    figures = {
        "ms": float(np.median(mine)) * 1e3,
        "share_of_peak": float(np.median(tested.flops / mine / rates)),
        "error": tested.errors[runtime],
        "is_right": runtime in tested.right,
    }
    if OURS in times and runtime != OURS:
        figures["speedup"] = _spread(mine / times[OURS])
    return figures


def _spread(values: np.ndarray) -> list[float]:
    """The median, the 10th and the 90th percentile."""
    spread = Spread.of(values)
    return [spread.median, spread.p10, spread.p90]
