"""Statistics of what a model compiles while it runs.

Does not import the compiler: model files for GPUs bundle this module.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

__all__ = ["JITCounters", "JITStatistics"]


@dataclass(frozen=True)
class JITStatistics:
    """Compilations of a model at run time, since it was made.

    Attributes:
        hits: calls of subgraphs whose code was compiled already.
        compilations: of subgraphs, and of the model for other broadcasting.
        compile_ms: their time in milliseconds.
    """

    hits: int = 0
    compilations: int = 0
    compile_ms: float = 0.0


class JITCounters:
    """Thread-safe counters of a model."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._hits = self._compilations = 0
        self._compile_ms = 0.0

    def count_hit(self) -> None:
        """Count a call of compiled code."""
        with self._lock:
            self._hits += 1

    def count_compilation(self, compile_ms: float) -> None:
        """Count a compilation."""
        with self._lock:
            self._compilations += 1
            self._compile_ms += compile_ms

    @property
    def statistics(self) -> JITStatistics:
        """The counts so far."""
        with self._lock:
            return JITStatistics(self._hits, self._compilations, self._compile_ms)
