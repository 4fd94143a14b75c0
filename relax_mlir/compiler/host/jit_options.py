"""Compile options that JIT-compiled subgraphs inherit from their model."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, fields
from functools import wraps
from typing import Any

from relax_mlir.runtime.process_exit import begin_call, end_call
from relax_mlir.targets import Target

__all__ = ["JIT_OPTIONS", "JITOptions"]


@dataclass(frozen=True)
class JITOptions:
    """Compile options of subgraphs; see :func:`relax_mlir.compile`.

    Attributes:
        ordinal: of the GPU, for GPU targets.
    """

    target: str | Target = "cpu"
    precision: str = "f32"
    library: str = "never"
    winograd: str = "auto"
    checks: str = "none"
    threads: int = 1
    cache: bool | str | os.PathLike[str] = True
    tuning: str | os.PathLike[str] | None = None
    ordinal: int = 0

    @staticmethod
    def of(options: Mapping[str, Any]) -> JITOptions:
        """The options that subgraphs inherit from a compilation."""
        kept = {f.name for f in fields(JITOptions)}
        return JITOptions(**{k: v for k, v in options.items() if k in kept})

    @property
    def compilation(self) -> dict[str, Any]:
        """Keyword arguments of :func:`relax_mlir.compile`."""
        arguments = {f.name: getattr(self, f.name) for f in fields(self)}
        del arguments["ordinal"]
        return arguments

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
