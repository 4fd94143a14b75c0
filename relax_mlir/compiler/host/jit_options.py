"""Compile options that JIT-compiled subgraphs inherit from their model."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from typing import Any

from relax_mlir.compiler.options import CompileOptions
from relax_mlir.runtime.process_exit import begin_call, end_call

__all__ = ["JIT_OPTIONS", "JITOptions"]


@dataclass(frozen=True, kw_only=True)
class JITOptions(CompileOptions):
    """Compile options of subgraphs.

    Attributes:
        ordinal: of the GPU, for GPU targets.
    """

    ordinal: int = 0

    @staticmethod
    def of(options: CompileOptions) -> JITOptions:
        """The options that subgraphs inherit from a compilation."""
        return JITOptions(**options.inherited())

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
