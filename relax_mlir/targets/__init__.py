"""Targets: what machine to compile for, and the pipeline that leads there."""

from relax_mlir.argument_types import check_exports
from relax_mlir.targets.target import (
    CHECKS,
    LEVELS,
    LIBRARY_POLICIES,
    PRECISIONS,
    WINOGRAD_POLICIES,
    Stage,
    Target,
    TargetError,
    kind_of,
    parse_target,
    plain_stages,
    stages,
)

__all__ = [
    "CHECKS",
    "LEVELS",
    "LIBRARY_POLICIES",
    "PRECISIONS",
    "WINOGRAD_POLICIES",
    "Stage",
    "Target",
    "TargetError",
    "kind_of",
    "parse_target",
    "plain_stages",
    "stages",
]

check_exports(globals())
