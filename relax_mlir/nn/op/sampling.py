"""Sampling operators and collective communication."""

from __future__ import annotations

from typing import Any

import numpy as np

from relax_mlir.errors import MismatchError
from relax_mlir.nn.op.calls import tensor_expr_op
from relax_mlir.nn.op.elementwise import divide
from relax_mlir.nn.op.reduce import cumsum, sum
from relax_mlir.nn.tensor import Tensor, wrap_nested
from relax_mlir.objects.compare.structural_equal import structural_equal
from relax_mlir.tvm import te, tir
from relax_mlir.tvm.relax import op

__all__ = [
    "ccl_allgather",
    "ccl_allreduce",
    "ccl_broadcast_from_worker0",
    "multinomial_from_uniform",
    "renormalize_top_p_top_k_prob",
    "sample_top_p_top_k_from_sorted_prob",
]


def ccl_allreduce(
    x: Tensor,
    op_type: str = "sum",
    in_group: bool = True,
    name: str = "ccl_allreduce",
) -> Tensor:
    """All-reduce over the workers.

    Args:
        x: the tensor of this worker.
        op_type: the reduction: ``"sum"``, ``"prod"``, ``"min"``, ``"max"`` or ``"avg"``.
        in_group: whether to reduce within the worker's group only.
        name: name of the result variable.
    """
    return wrap_nested(op.ccl.allreduce(x.as_expr(), op_type, in_group), name)


def ccl_allgather(x: Tensor, num_workers: int, name: str = "ccl_allgather") -> Tensor:
    """All-gather: the tensors of all workers, concatenated along the first axis."""
    return wrap_nested(op.ccl.allgather(x.as_expr(), num_workers), name)


def ccl_broadcast_from_worker0(
    x: Tensor, name: str = "broadcast_from_worker"
) -> Tensor:
    """Broadcast of the first worker's tensor."""
    return wrap_nested(op.ccl.broadcast_from_worker0(x.as_expr()), name)


def multinomial_from_uniform(
    prob: Tensor,
    uniform_sample: Tensor,
    sample_indices: Tensor | None = None,
    dtype: str = "int64",
    name: str = "multinomial_from_uniform",
) -> Tensor:
    """Multinomial sampling: one column index per random number.

    Args:
        prob: probabilities, which sum to 1 in every row.
        uniform_sample: random numbers in [0, 1), [samples, 1].
        sample_indices: the row to sample from, per random number; None for row i.
        dtype: element type of the result.
        name: name of the result variable.

    Raises:
        AssertionError: the shapes do not match.
    """
    rows = _rows(prob, uniform_sample, sample_indices)
    operands = (prob.as_expr(), uniform_sample.as_expr(), rows.as_expr())
    return wrap_nested(op.multinomial_from_uniform(*operands, dtype), name)


def sample_top_p_top_k_from_sorted_prob(
    sorted_prob: Tensor,
    sorted_index: Tensor,
    top_p: Tensor,
    top_k: Tensor,
    uniform_sample: Tensor,
    sample_indices: Tensor | None = None,
) -> Tensor:
    """Top-p and top-k sampling: one index per random number.

    Args:
        sorted_prob: probabilities, in descending order in every row.
        sorted_index: their original indices.
        top_p: cumulative probability threshold per row.
        top_k: maximum number of candidates per row.
        uniform_sample: random numbers in [0, 1), [samples, 1].
        sample_indices: the row to sample from, per random number; None for row i.

    Raises:
        AssertionError: the shapes do not match.
    """
    rows = _rows(sorted_prob, uniform_sample, sample_indices)
    sums = cumsum(sorted_prob, axis=1)
    total = tensor_expr_op(_at_cutoff, "get_renorm_prob", [sums, sums, top_p, top_k])
    inputs = [sums, sorted_index, total, uniform_sample, rows]
    return tensor_expr_op(_sampled_index, "get_index_from_sorted", inputs)


def renormalize_top_p_top_k_prob(
    prob: Tensor, sorted_prob: Tensor, top_p: Tensor, top_k: Tensor
) -> Tensor:
    """Top-p and top-k filtering: renormalized probabilities, 0 for filtered ones.

    Args:
        prob: the probabilities.
        sorted_prob: the same, in descending order in every row.
        top_p: cumulative probability threshold per row.
        top_k: maximum number of candidates per row.
    """
    sums = cumsum(sorted_prob, axis=1)
    inputs = [sums, sorted_prob, top_p, top_k]
    least = tensor_expr_op(_at_cutoff, "get_renorm_cutoff", inputs)
    kept = tensor_expr_op(_not_below, "filter_with_top_p_top_k", [prob, least])
    return divide(kept, sum(kept, axis=1, keepdims=True), name="renorm_prob")


def _rows(prob: Tensor, uniform_sample: Tensor, rows: Tensor | None) -> Tensor:
    """The row to sample from per random number, [samples, 1]."""
    numbers = uniform_sample.shape
    if rows is not None:
        if not structural_equal(list(rows.shape), list(numbers)):
            raise MismatchError(
                f"sample_indices: expected the shape of uniform_sample, {numbers}, "
                f"got {rows.shape}"
            )
        return rows
    if not numbers or not prob.ndim:
        raise MismatchError(
            "uniform_sample: expected one number per row of prob, got tensors of rank "
            f"{len(numbers)} and {prob.ndim}"
        )
    count = numbers[0]
    if not structural_equal(prob.shape[0], count):
        raise MismatchError(
            f"uniform_sample: expected one number per row, {prob.shape[0]}, got "
            f"{count}\nhint: `sample_indices` gives the row of each random number"
        )
    return Tensor.from_const(np.arange(count, dtype="int64").reshape(-1, 1))


def _at_cutoff(
    sums: te.Tensor, values: te.Tensor, top_p: te.Tensor, top_k: te.Tensor
) -> te.Tensor:
    """The last of the sorted ``values`` of each row that passes top-p and top-k."""
    rows, columns = sums.shape
    j = te.reduce_axis((0, columns), name="j")

    def is_below(i: Any) -> Any:  # Any: PrimExpr
        rank = tir.Cast(top_k.dtype, j.var) + 1
        return tir.all(sums[i, j] < top_p[i, 0], rank < top_k[i, 0])

    def number(i: Any) -> Any:
        return te.sum(tir.Select(is_below(i), 1, 0), axis=j)

    below = te.compute((rows,), number, name="below")
    return te.compute(
        (rows, 1),
        lambda i, _: values[i, tir.min(below[i], columns - 1)],
        name="at_cutoff",
    )


def _sampled_index(
    sums: te.Tensor,
    index: te.Tensor,
    total: te.Tensor,
    uniform_sample: te.Tensor,
    sample_indices: te.Tensor,
) -> te.Tensor:
    """Inverse transform sampling: the index of the first cumulative sum above u * total."""
    count, columns = uniform_sample.shape[0], sums.shape[1]
    j = te.reduce_axis((0, columns), name="j")

    def number(i: Any) -> Any:
        row = sample_indices[i, 0]
        is_reached = uniform_sample[i, 0] >= sums[row, j] / total[row, 0]
        return te.sum(tir.Select(is_reached, 1, 0), axis=j)

    reached = te.compute((count,), number, name="reached")
    return te.compute(
        (count, 1),
        lambda i, _: index[sample_indices[i, 0], tir.min(reached[i], columns - 1)],
        name="drawn",
    )


def _not_below(prob: te.Tensor, least: te.Tensor) -> te.Tensor:
    """Probabilities of at least ``least`` of their row; 0 for the others."""
    return te.compute(
        prob.shape,
        lambda i, j: tir.Select(prob[i, j] >= least[i, 0], prob[i, j], 0.0),
        name="filtered",
    )
