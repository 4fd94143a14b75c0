"""Named pass pipelines of Relax."""

from __future__ import annotations

from typing import Any

from relax_mlir.pipeline import Sequential
from relax_mlir.pipeline.named_pipelines import (
    PIPELINE_MAP,
    get_pipeline,
    register_pipeline,
)
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


def get_default_pipeline(target: Any) -> AnyPass:
    """The default pipeline of a target.

    Args:
        target: the target; all targets have the same pipeline.
    """
    return default_build_pipeline()
