"""Losses."""

from __future__ import annotations

from typing import Any

from relax_mlir.objects.prim import PrimExpr, Select, const
from relax_mlir.te import Tensor
from relax_mlir.topi.broadcast import divide
from relax_mlir.topi.indexing import clamped_index
from relax_mlir.topi.ranks import Batch, Vector
from relax_mlir.topi.reduction import sum
from relax_mlir.topi.sizes import elements

__all__ = ["nll_loss"]


def nll_loss(
    predictions: Batch,
    targets: Tensor,
    weights: Vector,
    reduction: str,
    ignore_index: int,
) -> Tensor:
    """The negative weighted log-likelihood of targets.

    Args:
        predictions: of every class, along dimension 1, or the first of a vector.
        targets: the class of every sample; out of range, the nearest one.
        weights: of the classes.
        reduction: ``mean``, ``sum`` or ``none``.
        ignore_index: a target that does not count.
    """
    zero = const(0, predictions.dtype)

    def loss(i: tuple[Any, ...]) -> PrimExpr:
        target = targets(*i)
        place = clamped_index(target, weights.shape[0])
        value = predictions(*i[:1], place, *i[1:])
        return Select(_counts(target), (zero - value) * weights(place), zero)

    def weight(i: tuple[Any, ...]) -> PrimExpr:
        target = targets(*i)
        place = clamped_index(target, weights.shape[0])
        return Select(_counts(target), weights(place), zero)

    def _counts(target: PrimExpr) -> PrimExpr:
        return target != ignore_index

    found = elements(targets.shape, loss, "nll_loss", "nll_loss")
    if reduction == "none" or (reduction == "sum" and not targets.ndim):
        return found
    if reduction == "sum":
        return sum(found)
    total = elements(targets.shape, weight, "nll_loss", "nll_loss")
    return divide(*((sum(found), sum(total)) if targets.ndim else (found, total)))
