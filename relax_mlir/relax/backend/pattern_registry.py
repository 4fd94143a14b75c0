"""Patterns by name: what compilers of parts of a graph can take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from relax_mlir.errors import shown
from relax_mlir.objects.argument_checks import sequence_of

if TYPE_CHECKING:
    from relax_mlir.relax.transform.fusion_pattern import FusionPattern

__all__ = ["get_pattern", "get_patterns_with_prefix", "register_patterns"]

Pattern: TypeAlias = "FusionPattern | tuple[Any, ...]"

_registered: list[FusionPattern] = []


def register_patterns(patterns: Sequence[Pattern]) -> None:
    """Register patterns; later ones go before earlier ones.

    Args:
        patterns: each a `FusionPattern`, or a tuple of its fields.

    Raises:
        TypeError: one is something else; none is registered then.
    """
    listed = sequence_of(patterns, "register_patterns: `patterns`", "patterns")
    _registered.extend([_made(pattern) for pattern in listed])


def _made(pattern: Any) -> FusionPattern:
    from relax_mlir.relax.transform.fusion_pattern import FusionPattern

    if isinstance(pattern, FusionPattern):
        return pattern
    if isinstance(pattern, tuple):
        return FusionPattern(*pattern)
    raise TypeError(
        f"`register_patterns`: expected a `FusionPattern` or a tuple, got {shown(pattern)}"
    )


def get_patterns_with_prefix(prefix: str) -> list[FusionPattern]:
    """The patterns whose names start with ``prefix``, the last registered one first."""
    return [p for p in reversed(_registered) if p.name.startswith(prefix)]


def get_pattern(name: str) -> FusionPattern | None:
    """The pattern with this name, the last registered one; None if there is none."""
    return next((p for p in reversed(_registered) if p.name == name), None)
