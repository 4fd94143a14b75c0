"""How long calls take, one against another: in turns, so that both see one machine."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from relax_mlir.value_check import difference

__all__ = [
    "ROUNDS",
    "Comparison",
    "Spread",
    "compare",
    "onnxruntime_call",
    "time_calls",
]

ROUNDS = 15
_SLOT_S = 0.05  # a round measures as many calls as fit

Outputs = Sequence[np.ndarray]


@dataclass(frozen=True)
class Spread:
    """Where numbers lie: their median, and the 10th and 90th percentile."""

    median: float
    p10: float
    p90: float

    @staticmethod
    def of(values: np.ndarray) -> "Spread":
        """Of measured values."""
        p10, median, p90 = np.percentile(values, [10, 50, 90]).tolist()
        return Spread(median, p10, p90)


@dataclass(frozen=True)
class Comparison:
    """Two ways to compute the same, measured.

    Attributes:
        ours_ms, theirs_ms: how long a call takes.
        ratio: of ours to theirs, round by round.
        error: largest difference, relative to the scale of their output.
    """

    ours_ms: Spread
    theirs_ms: Spread
    ratio: Spread
    error: float


def compare(
    ours: Callable[[], Outputs], theirs: Callable[[], Outputs], rounds: int = ROUNDS
) -> Comparison:
    """Compare what two calls return, and measure them."""
    error = max(map(difference, ours(), theirs()), default=0.0)
    mine, its = time_calls(ours, theirs, rounds=rounds)
    return Comparison(
        Spread.of(1e3 * mine), Spread.of(1e3 * its), Spread.of(mine / its), error
    )


def time_calls(
    *calls: Callable[[], object], rounds: int = ROUNDS, pause_s: float = 0.0
) -> np.ndarray:
    """Seconds a call, [call, round]; every round measures all calls in turn.

    Args:
        rounds: how often.
        pause_s: rest before each turn, for threads that spin after their last work.
    """
    counts = [_count(call) for call in calls]
    times = np.zeros((len(calls), rounds))
    for number in range(rounds):
        for place, (call, count) in enumerate(zip(calls, counts, strict=True)):
            time.sleep(pause_s)
            start = time.perf_counter()
            for _ in range(count):
                call()
            times[place, number] = (time.perf_counter() - start) / count
    return times


def _count(call: Callable[[], object]) -> int:
    """How many calls fit into a slot, found by a second one: the first is slow."""
    call()
    start = time.perf_counter()
    call()
    return max(1, int(_SLOT_S / max(1e-6, time.perf_counter() - start)))


def onnxruntime_call(
    model: str | os.PathLike[str] | bytes, threads: int
) -> Callable[[dict[str, np.ndarray]], Outputs] | None:
    """onnxruntime on this model, with its default optimisations.

    Args:
        model: a path, or the bytes of a file.
        threads: how many work on a call.

    Returns:
        A function of the inputs by name; None where onnxruntime is not installed.
    """
    try:
        import onnxruntime
    except ImportError:
        return None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors; its advice on models is not ours to print
    source = model if isinstance(model, bytes) else os.fspath(model)
    session: Any = onnxruntime.InferenceSession(  # Any: it may return more than arrays
        source, options, providers=["CPUExecutionProvider"]
    )
    return lambda inputs: session.run(None, inputs)
