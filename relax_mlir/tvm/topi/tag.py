"""Operator pattern tags of tensor expressions: elementwise, broadcast, injective."""

from __future__ import annotations

from relax_mlir.support.argument_types import check_exports

__all__ = [
    "BROADCAST",
    "COMM_REDUCE",
    "COMM_REDUCE_IDX",
    "ELEMWISE",
    "INJECTIVE",
    "is_broadcast",
    "is_injective",
]

ELEMWISE = "elemwise"
BROADCAST = "broadcast"
INJECTIVE = "injective"
COMM_REDUCE = "comm_reduce"
COMM_REDUCE_IDX = "comm_reduce_idx"


def is_broadcast(tag: str) -> bool:
    """Whether a tag names an elementwise or broadcasting operator."""
    return tag in (ELEMWISE, BROADCAST) or tag.startswith((ELEMWISE, BROADCAST))


def is_injective(tag: str) -> bool:
    """Whether a tag names an injective operator: one input element per output element."""
    return is_broadcast(tag) or tag.startswith(INJECTIVE)


check_exports(globals())
