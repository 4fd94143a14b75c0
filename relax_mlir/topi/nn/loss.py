"""Losses."""

from __future__ import annotations

from typing import Any

from relax_mlir.objects.prim import PrimExpr, Select, const
from relax_mlir.te import Tensor
from relax_mlir.topi.broadcast import divide
from relax_mlir.topi.reduction import sum
from relax_mlir.topi.sizes import elements

__all__ = ["nll_loss"]


def nll_loss(
    predictions: Tensor,
    targets: Tensor,
    weights: Tensor,
    reduction: str,
    ignore_index: int,
) -> Tensor:
    """The negative weighted log-likelihood of targets.

    Args:
        predictions: of every class, along dimension 1, or the first of a vector.
        targets: the class of every sample.
        weights: of the classes.
        reduction: ``mean``, ``sum`` or ``none``.
        ignore_index: a target that does not count.
    """
    zero = const(0, predictions.dtype)

    def loss(i: tuple[Any, ...]) -> PrimExpr:
        target = targets(*i)
        value = predictions(*i[:1], target, *i[1:])
        return Select(_counts(target), (zero - value) * weights(target), zero)

    def weight(i: tuple[Any, ...]) -> PrimExpr:
        target = targets(*i)
        return Select(_counts(target), weights(target), zero)

    def _counts(target: PrimExpr) -> PrimExpr:
        return target != ignore_index

    found = elements(targets.shape, loss, "nll_loss", "nll_loss")
    if reduction == "none" or (reduction == "sum" and not targets.ndim):
        return found
    if reduction == "sum":
        return sum(found)
    total = elements(targets.shape, weight, "nll_loss", "nll_loss")
    return divide(*((sum(found), sum(total)) if targets.ndim else (found, total)))
