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
        loads: of code from the cache on disk, instead of a compilation.
        compilations: of subgraphs, and of the model for other broadcasting.
        compile_ms: time of loads and compilations, in milliseconds.
    """

    hits: int = 0
    loads: int = 0
    compilations: int = 0
    compile_ms: float = 0.0


class JITCounters:
    """Thread-safe counters of a model."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._hits = self._loads = self._compilations = 0
        self._compile_ms = 0.0

    def count_hit(self) -> None:
        """Count a call of compiled code."""
        with self._lock:
            self._hits += 1

    def count_compilation(self, compile_ms: float, *, is_load: bool = False) -> None:
        """Count a compilation, or a load from the cache."""
        with self._lock:
            self._loads += is_load
            self._compilations += not is_load
            self._compile_ms += compile_ms

    @property
    def statistics(self) -> JITStatistics:
        """The counts so far."""
        with self._lock:
            return JITStatistics(
                self._hits, self._loads, self._compilations, self._compile_ms
            )
