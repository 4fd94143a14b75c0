"""Compile options that JIT-compiled subgraphs inherit from their model."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

from relax_mlir.runtime.jit_statistics import JITCounters
from relax_mlir.runtime.process_exit import begin_call, end_call

__all__ = ["JIT_OPTIONS", "JITOptions"]


@dataclass(frozen=True, kw_only=True)
class JITOptions:
    """Compile options of subgraphs, which the compiler alone understands.

    Attributes:
        threads: maximum number of threads per call.
        device: the type of device that runs the code, ``cpu`` or ``cuda``.
        ordinal: of the GPU.
        text: the options that a model file holds, in JSON; empty for the defaults.
        inherited: the options of a compilation in this process; None for a loaded model.
        counters: of the model's compilations; no part of the options' identity.
    """

    threads: int = 1
    device: str = "cpu"
    ordinal: int = 0
    text: str = ""
    inherited: Hashable = None
    counters: JITCounters = field(
        default_factory=JITCounters, compare=False, repr=False
    )

    def to_fields(self) -> Mapping[str, Any]:  # Any: JSON
        """The options in JSON form."""
        return {"threads": self.threads, "device": self.device, "options": self.text}

    @staticmethod
    def from_fields(fields: Mapping[str, Any]) -> JITOptions:
        """Inverse of :meth:`to_fields`.

        Raises:
            ValueError: a field is damaged.
        """
        threads, device, text = (fields[n] for n in ("threads", "device", "options"))
        if type(threads) is not int or threads < 1:
            raise ValueError(f"threads: expected 1 or more, got {threads!r:.60}")
        if device not in ("cpu", "cuda"):
            raise ValueError(f"device: expected `cpu` or `cuda`, got {device!r:.60}")
        if text and not isinstance(json.loads(text), dict):
            raise ValueError(f"options: expected fields, got {text!r:.60}")
        return JITOptions(threads=threads, device=device, text=text)

    def during(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a function so that its subgraphs are compiled with these options."""

        @wraps(function)
        def call(*args: Any) -> Any:
            thread = begin_call()
            token = JIT_OPTIONS.set(self)
            try:
                return function(*args)
            finally:
                JIT_OPTIONS.reset(token)
                end_call(thread)

        return call


_DEFAULT = JITOptions()
JIT_OPTIONS: ContextVar[JITOptions] = ContextVar("JIT_OPTIONS", default=_DEFAULT)
"""The options of the running model."""
