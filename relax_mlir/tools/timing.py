"""Timing of calls, interleaved so that all see the same machine state."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from relax_mlir.compiler.differential_check import relative_difference

__all__ = [
    "ROUNDS",
    "Comparison",
    "Spread",
    "compare",
    "onnxruntime_call",
    "time_calls",
]

ROUNDS = 15
_SLOT_S = 0.05  # duration of a measurement; short calls are repeated

Outputs = Sequence[np.ndarray]


@dataclass(frozen=True)
class Spread:
    """Median, 10th and 90th percentile of measurements."""

    median: float
    p10: float
    p90: float

    @staticmethod
    def of(values: np.ndarray) -> "Spread":
        """The percentiles of values."""
        p10, median, p90 = np.percentile(values, [10, 50, 90]).tolist()
        return Spread(median, p10, p90)


@dataclass(frozen=True)
class Comparison:
    """Timing comparison with a baseline.

    Attributes:
        ours_ms, theirs_ms: latencies of a call.
        ratio: our time divided by theirs, per round.
        error: the largest difference of outputs, relative to the scale of theirs.
    """

    ours_ms: Spread
    theirs_ms: Spread
    ratio: Spread
    error: float


def compare(
    ours: Callable[[], Outputs], theirs: Callable[[], Outputs], rounds: int = ROUNDS
) -> Comparison:
    """Compare the results and the latencies of two calls."""
    error = max(map(relative_difference, ours(), theirs()), default=0.0)
    ours_s, theirs_s = time_calls(ours, theirs, rounds=rounds)
    return Comparison(
        Spread.of(1e3 * ours_s),
        Spread.of(1e3 * theirs_s),
        Spread.of(ours_s / theirs_s),
        error,
    )


def time_calls(
    *calls: Callable[[], object], rounds: int = ROUNDS, pause_s: float = 0.0
) -> np.ndarray:
    """Seconds per call, [call, round]; each round measures all calls one after another.

    Args:
        calls: the calls.
        rounds: the number of rounds.
        pause_s: pause before each measurement, for threads that spin after their work.
    """
    counts = [_count(call) for call in calls]
    times = np.zeros((len(calls), rounds))
    for number in range(rounds):
        for index, (call, count) in enumerate(zip(calls, counts, strict=True)):
            time.sleep(pause_s)
            start = time.perf_counter()
            for _ in range(count):
                call()
            times[index, number] = (time.perf_counter() - start) / count
    return times


def _count(call: Callable[[], object]) -> int:
    """The number of calls per measurement, from the time of a second call (warm)."""
    call()
    start = time.perf_counter()
    call()
    return max(1, int(_SLOT_S / max(1e-6, time.perf_counter() - start)))


def onnxruntime_call(
    model: str | os.PathLike[str] | bytes, threads: int
) -> Callable[[dict[str, np.ndarray]], Outputs] | None:
    """onnxruntime on a model, with its default optimizations.

    Args:
        model: a path, or the bytes of a file.
        threads: the number of intra-op threads.

    Returns:
        A function of the inputs by name; None if onnxruntime is not installed.
    """
    try:
        import onnxruntime
    except ImportError:
        return None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors only, without its warnings
    source = model if isinstance(model, bytes) else os.fspath(model)
    session: Any = onnxruntime.InferenceSession(  # Any: it may return more than arrays
        source, options, providers=["CPUExecutionProvider"]
    )
    return lambda inputs: session.run(None, inputs)
