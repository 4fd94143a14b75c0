"""Loss functions."""

from __future__ import annotations

from typing import Any

from relax_mlir.objects.prim import PrimExpr, Select, const
from relax_mlir.tvm.te import Tensor
from relax_mlir.tvm.topi.broadcast import divide
from relax_mlir.tvm.topi.indexing import clamped_index
from relax_mlir.tvm.topi.ranks import AtLeastVector, Vector
from relax_mlir.tvm.topi.reduction import sum
from relax_mlir.tvm.topi.sizes import compute_tensor

__all__ = ["nll_loss"]


def nll_loss(
    predictions: AtLeastVector,
    targets: Tensor,
    weights: Vector,
    reduction: str,
    ignore_index: int,
) -> Tensor:
    """Weighted negative log-likelihood loss.

    Args:
        predictions: log-probabilities, with classes along dimension 1 (0 of a vector).
        targets: class of every sample; clamped if out of range.
        weights: weights of the classes.
        reduction: ``mean``, ``sum`` or ``none``.
        ignore_index: target class that is ignored.
    """
    zero = const(0, predictions.dtype)

    def loss(i: tuple[Any, ...]) -> PrimExpr:
        target = targets(*i)
        class_index = clamped_index(target, weights.shape[0])
        value = predictions(*i[:1], class_index, *i[1:])
        return Select(_is_counted(target), (zero - value) * weights(class_index), zero)

    def weight(i: tuple[Any, ...]) -> PrimExpr:
        target = targets(*i)
        class_index = clamped_index(target, weights.shape[0])
        return Select(_is_counted(target), weights(class_index), zero)

    def _is_counted(target: PrimExpr) -> PrimExpr:
        return target != ignore_index

    losses = compute_tensor(targets.shape, loss, "nll_loss", "nll_loss")
    if reduction == "none" or (reduction == "sum" and not targets.ndim):
        return losses
    if reduction == "sum":
        return sum(losses)
    total_weight = compute_tensor(targets.shape, weight, "nll_loss", "nll_loss")
    return divide(
        *((sum(losses), sum(total_weight)) if targets.ndim else (losses, total_weight))
    )
