"""Pipelines by name: passes in the order in which they are used to run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from relax_mlir.errors import near_misses
from relax_mlir.pass_context import AnyPass
from relax_mlir.pipeline import Sequential
from relax_mlir.relax import transform

__all__ = [
    "PIPELINE_MAP",
    "default_build_pipeline",
    "get_default_pipeline",
    "get_pipeline",
    "register_pipeline",
    "zero_pipeline",
]


def zero_pipeline(*, enable_warning: bool = False) -> AnyPass:
    """Operators as tensor programs, constants computed, programs fused.

    Args:
        enable_warning: has no effect, as in `LegalizeOps`.
    """
    passes = [
        transform.LegalizeOps(enable_warning=enable_warning),
        transform.AnnotateTIROpPattern(),
        transform.FoldConstant(),
        transform.FuseOps(),
        transform.FuseTIR(),
    ]
    return Sequential(passes, name="zero")


def default_build_pipeline() -> AnyPass:
    """From a graph to calls of tensor programs on memory that is planned."""
    passes = [
        transform.LegalizeOps(),
        transform.RewriteDataflowReshape(),
        transform.ToNonDataflow(),
        transform.RemovePurityChecking(),
        transform.CallTIRRewrite(),
        transform.StaticPlanBlockMemory(),
        transform.LowerAllocTensor(),
        transform.KillAfterLastUse(),
        transform.ComputePrimValue(),
        transform.AttachGlobalSymbol(),
    ]
    return Sequential(passes, name="default_build")


PIPELINE_MAP: dict[str, Callable[..., Any]] = {
    "zero": zero_pipeline,
    "default": default_build_pipeline,
    "default_build": default_build_pipeline,
}


def get_pipeline(name: str = "zero", **kwargs: Any) -> Any:  # Any: its arguments
    """The pipeline with this name.

    Args:
        name: ``zero``, ``default_build`` or one that was registered.
        kwargs: what the function that makes it takes.

    Raises:
        ValueError: there is none.
    """
    if name not in PIPELINE_MAP:
        raise ValueError(
            f"unknown pipeline `{name}`: expected one of "
            f"{', '.join(PIPELINE_MAP)}.{near_misses(name, PIPELINE_MAP)}"
        )
    return PIPELINE_MAP[name](**kwargs)


def register_pipeline(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a function that makes a pipeline, which `get_pipeline` then finds.

    Raises:
        ValueError: there is one with this name.
    """
    if name in PIPELINE_MAP:
        raise ValueError(f"pipeline `{name}`: there is one with this name")

    def register(func: Callable[..., Any]) -> Callable[..., Any]:
        PIPELINE_MAP[name] = func
        return func

    return register


def get_default_pipeline(target: Any) -> AnyPass:
    """The pipeline that goes in front of `build` for a target.

    Args:
        target: for which machine; all have one pipeline.
    """
    return default_build_pipeline()
