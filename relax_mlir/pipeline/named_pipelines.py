"""Registry of named pass pipelines, for compiler options and for users' programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from relax_mlir.errors import near_misses

__all__ = ["PIPELINE_MAP", "get_pipeline", "register_pipeline"]

PIPELINE_MAP: dict[str, Callable[..., Any]] = {}
"""The functions that create the pipelines, by name; TVM's are registered by
:mod:`relax_mlir.tvm.relax`."""


def get_pipeline(name: str = "zero", **kwargs: Any) -> Any:  # Any: its arguments
    """Create the pipeline of a name.

    Args:
        name: ``zero``, ``default_build`` or a registered name.
        kwargs: arguments of the pipeline's function.

    Raises:
        ValueError: the name is unknown.
    """
    if name not in PIPELINE_MAP:
        known = (
            ", ".join(PIPELINE_MAP) or "none: `relax_mlir.tvm.relax` registers TVM's"
        )
        raise ValueError(
            f"unknown pipeline `{name}`: expected one of {known}."
            f"{near_misses(name, PIPELINE_MAP)}"
        )
    return PIPELINE_MAP[name](**kwargs)


def register_pipeline(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator that registers a function as a named pipeline.

    Raises:
        ValueError: the name is registered already.
    """
    if name in PIPELINE_MAP:
        raise ValueError(f"pipeline `{name}`: the name is registered already")

    def register(func: Callable[..., Any]) -> Callable[..., Any]:
        PIPELINE_MAP[name] = func
        return func

    return register
