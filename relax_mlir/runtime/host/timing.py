"""Wall-clock measurement of calls, as TVM's ``time_evaluator``."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from relax_mlir.runtime.ndarray import Device

__all__ = ["Timing", "time_calls"]


@dataclass(frozen=True)
class Timing:
    """Measured times of calls.

    Attributes:
        results: seconds per call, one mean per repetition.
    """

    results: Sequence[float]

    @property
    def mean(self) -> float:
        """Mean of the repetitions, in seconds."""
        return float(np.mean(self.results))

    @property
    def median(self) -> float:
        """Median of the repetitions, in seconds."""
        return float(np.median(self.results))

    @property
    def min(self) -> float:
        """Minimum of the repetitions, in seconds."""
        return float(np.min(self.results))

    @property
    def max(self) -> float:
        """Maximum of the repetitions, in seconds."""
        return float(np.max(self.results))

    @property
    def std(self) -> float:
        """Standard deviation of the repetitions, in seconds."""
        return float(np.std(self.results))


def time_calls(
    function: Callable[..., Any], device: Device, number: int, repeat: int
) -> Callable[..., Timing]:
    """A function that measures calls of ``function``.

    Calls on a GPU are asynchronous, so every repetition ends with a synchronisation.

    Args:
        device: of the calls.
        number: calls per repetition.
        repeat: number of repetitions.
    """

    def evaluate(*args: Any) -> Timing:
        function(*args)  # warm-up: the first call loads lazily
        device.sync()
        results = []
        for _ in range(repeat):
            start = time.perf_counter()
            for _ in range(number):
                function(*args)
            device.sync()
            results.append((time.perf_counter() - start) / number)
        return Timing(results)

    return evaluate
