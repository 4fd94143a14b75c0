"""How long calls take."""

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
    """How long calls took.

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
        """The shortest of the repetitions, in seconds."""
        return float(np.min(self.results))

    @property
    def max(self) -> float:
        """The longest of the repetitions, in seconds."""
        return float(np.max(self.results))

    @property
    def std(self) -> float:
        """Standard deviation of the repetitions, in seconds."""
        return float(np.std(self.results))


def time_calls(
    function: Callable[..., Any], device: Device, number: int, repeat: int
) -> Callable[..., Timing]:
    """A function that calls ``function`` and tells how long it takes.

    Calls for a GPU return when their work is queued, so every repetition ends when the
    device is done.

    Args:
        device: where it runs.
        number: calls per repetition.
        repeat: how many repetitions.
    """

    def evaluate(*args: Any) -> Timing:
        function(*args)  # what is loaded on the first call is not counted
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
