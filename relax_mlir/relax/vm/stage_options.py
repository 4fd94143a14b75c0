"""How what is compiled when a model runs is compiled."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, fields
from functools import wraps
from typing import Any

from relax_mlir.runtime.process_exit import begin_call, end_call
from relax_mlir.targets import Target

__all__ = ["STAGE_OPTIONS", "StageOptions"]


@dataclass(frozen=True)
class StageOptions:
    """How stages are compiled; see :func:`relax_mlir.compile`.

    Attributes:
        ordinal: of the GPU that they run on, if they are compiled for one.
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
    def of(options: Mapping[str, Any]) -> StageOptions:
        """Those of a compilation."""
        kept = {f.name for f in fields(StageOptions)}
        return StageOptions(**{k: v for k, v in options.items() if k in kept})

    @property
    def compilation(self) -> dict[str, Any]:
        """As :func:`relax_mlir.compile` takes them."""
        taken = {f.name: getattr(self, f.name) for f in fields(self)}
        del taken["ordinal"]
        return taken

    def during(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function, whose stages are compiled like this."""

        @wraps(function)
        def call(*args: Any) -> Any:
            thread = begin_call()
            token = STAGE_OPTIONS.set(self)
            try:
                return function(*args)
            finally:
                STAGE_OPTIONS.reset(token)
                end_call(thread)

        return call


_DEFAULT = StageOptions()
STAGE_OPTIONS: ContextVar[StageOptions] = ContextVar("STAGE_OPTIONS", default=_DEFAULT)
"""Those of the model that runs."""
