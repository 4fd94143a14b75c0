"""Registry of named pass pipelines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from relax_mlir.errors import near_misses
from relax_mlir.pipeline import Sequential
from relax_mlir.rewrite.pass_context import AnyPass
from relax_mlir.tvm.relax import transform

__all__ = [
    "PIPELINE_MAP",
    "default_build_pipeline",
    "get_default_pipeline",
    "get_pipeline",
    "register_pipeline",
    "zero_pipeline",
]


def zero_pipeline(*, enable_warning: bool = False) -> AnyPass:
    """The ``zero`` pipeline: legalization, constant folding, operator fusion.

    Args:
        enable_warning: ignored, as in `LegalizeOps`.
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
    """The ``default_build`` pipeline: from a graph to PrimFunc calls on planned memory."""
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
    """Create the pipeline of a name.

    Args:
        name: ``zero``, ``default_build`` or a registered name.
        kwargs: arguments of the pipeline's function.

    Raises:
        ValueError: the name is unknown.
    """
    if name not in PIPELINE_MAP:
        raise ValueError(
            f"unknown pipeline `{name}`: expected one of "
            f"{', '.join(PIPELINE_MAP)}.{near_misses(name, PIPELINE_MAP)}"
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


def get_default_pipeline(target: Any) -> AnyPass:
    """The default pipeline of a target.

    Args:
        target: the target; all targets have the same pipeline.
    """
    return default_build_pipeline()
