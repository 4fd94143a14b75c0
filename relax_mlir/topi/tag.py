"""Kinds of operators, as computed tensors carry them."""

from __future__ import annotations

from relax_mlir.argument_types import check_exports

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
    """Whether elements are computed one by one, from elements that broadcast."""
    return tag in (ELEMWISE, BROADCAST) or tag.startswith((ELEMWISE, BROADCAST))


def is_injective(tag: str) -> bool:
    """Whether every element is computed from one element of each input."""
    return is_broadcast(tag) or tag.startswith(INJECTIVE)


check_exports(globals())
