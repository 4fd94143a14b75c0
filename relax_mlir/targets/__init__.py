"""Compilation targets and their pass pipelines."""

from relax_mlir.support.argument_types import check_exports
from relax_mlir.targets.target import (
    CHOICES,
    LEVELS,
    LoweringOptions,
    Stage,
    Target,
    TargetError,
    parse_target,
    stages,
    target_device,
)

__all__ = [
    "CHOICES",
    "LEVELS",
    "LoweringOptions",
    "Stage",
    "Target",
    "TargetError",
    "parse_target",
    "stages",
    "target_device",
]

check_exports(globals())
