"""Registry of the fusion patterns of external code generators (BYOC)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from relax_mlir.errors import short_repr
from relax_mlir.objects.argument_checks import sequence_of

if TYPE_CHECKING:
    from relax_mlir.tvm.relax.transform.fusion_pattern import FusionPattern

__all__ = ["get_pattern", "get_patterns_with_prefix", "register_patterns"]

Pattern: TypeAlias = "FusionPattern | tuple[Any, ...]"

_registered: list[FusionPattern] = []


def register_patterns(patterns: Sequence[Pattern]) -> None:
    """Registers patterns; later ones take precedence over earlier ones.

    Args:
        patterns: each a `FusionPattern`, or a tuple of its fields.

    Raises:
        TypeError: an element is neither; no pattern is registered then.
    """
    listed = sequence_of(patterns, "register_patterns: `patterns`", "patterns")
    _registered.extend([_as_pattern(pattern) for pattern in listed])


def _as_pattern(pattern: Any) -> FusionPattern:
    from relax_mlir.tvm.relax.transform.fusion_pattern import FusionPattern

    if isinstance(pattern, FusionPattern):
        return pattern
    if isinstance(pattern, tuple):
        return FusionPattern(*pattern)
    raise TypeError(
        f"`register_patterns`: expected a `FusionPattern` or a tuple, got {short_repr(pattern)}"
    )


def get_patterns_with_prefix(prefix: str) -> list[FusionPattern]:
    """Returns the patterns whose names start with ``prefix``, latest registration first."""
    return [p for p in reversed(_registered) if p.name.startswith(prefix)]


def get_pattern(name: str) -> FusionPattern | None:
    """Returns the latest registered pattern with this name, or None."""
    return next((p for p in reversed(_registered) if p.name == name), None)
