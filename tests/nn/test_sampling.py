"""Sampling operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from relax_mlir import nn
from relax_mlir.nn import op, spec

RNG = np.random.default_rng(0)
ROWS, COLUMNS, DRAWS = 3, 5, 64

LIMITS = {
    "top_p": spec.Tensor((ROWS, 1), "float32"),
    "top_k": spec.Tensor((ROWS, 1), "int64"),
}
PROBABILITIES = spec.Tensor((ROWS, COLUMNS), "float32")
SPEC = {
    "draw": {
        "prob": PROBABILITIES,
        "index": spec.Tensor((ROWS, COLUMNS), "int64"),
        **LIMITS,
        "numbers": spec.Tensor(("n", 1), "float32"),
        "rows": spec.Tensor(("n", 1), "int64"),
    },
    "scale": {"prob": PROBABILITIES, "descending": PROBABILITIES, **LIMITS},
    "all": {"prob": PROBABILITIES, "numbers": spec.Tensor((ROWS, 1), "float32")},
}


class Sampler(nn.Module):
    def draw(
        self, prob: Any, index: Any, top_p: Any, top_k: Any, numbers: Any, rows: Any
    ) -> nn.Tensor:
        return op.sample_top_p_top_k_from_sorted_prob(
            prob, index, top_p, top_k, numbers, rows
        )

    def scale(self, prob: Any, descending: Any, top_p: Any, top_k: Any) -> nn.Tensor:
        return op.renormalize_top_p_top_k_prob(prob, descending, top_p, top_k)

    def all(self, prob: nn.Tensor, numbers: nn.Tensor) -> nn.Tensor:
        return op.multinomial_from_uniform(prob, numbers, dtype="int32")


def _compiled(method: str) -> Any:
    """The method as a function on arrays."""
    made = Sampler().jit({method: SPEC[method]}, out_format="numpy")
    return made[method]


def _limited() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Probabilities, and per row a bound of their sum and of their number.

    Also how many of each row they leave.
    """
    prob = RNG.dirichlet(np.ones(COLUMNS), ROWS).astype(np.float32)
    top_p = np.array([[0.6], [1.0], [1e-6]], np.float32)
    top_k = np.array([[COLUMNS], [2], [COLUMNS]], np.int64)
    sums = np.cumsum(np.sort(prob)[:, ::-1], 1)
    by_sum = (sums < top_p).sum(1) + 1
    return prob, top_p, top_k, np.minimum(by_sum, top_k[:, 0])


@pytest.mark.slow
def test_top_p_top_k_sampling() -> None:
    prob, top_p, top_k, left = _limited()
    index = np.argsort(-prob, axis=1)
    descending = np.take_along_axis(prob, index, 1)
    rows = RNG.integers(0, ROWS, (DRAWS, 1))
    numbers = RNG.uniform(0, 1, (DRAWS, 1)).astype(np.float32)

    got = _compiled("draw")(descending, index, top_p, top_k, numbers, rows)

    for (row,), (number,), (found,) in zip(rows, numbers, got, strict=True):
        sums = np.cumsum(descending[row, : left[row]])
        assert found == index[row, np.argmax(number < sums / sums[-1])]


@pytest.mark.slow
def test_renormalized_probabilities_sum_to_one() -> None:
    prob, top_p, top_k, left = _limited()
    descending = np.sort(prob)[:, ::-1]
    least = np.take_along_axis(descending, left[:, None] - 1, 1)
    kept = np.where(prob >= least, prob, 0)

    got = _compiled("scale")(prob, np.ascontiguousarray(descending), top_p, top_k)

    np.testing.assert_allclose(got, kept / kept.sum(1, keepdims=True), rtol=1e-6)


def test_sampling_without_indices_uses_one_number_per_row() -> None:
    prob = np.full((ROWS, COLUMNS), 1 / COLUMNS, np.float32)

    got = _compiled("all")(prob, np.array([[0.1], [0.5], [0.9]], np.float32))

    assert got.dtype == "int32"
    assert got.tolist() == [[0], [2], [4]]


def test_mismatched_sample_counts_are_rejected() -> None:
    few = {**SPEC["all"], "numbers": spec.Tensor((ROWS - 1, 1), "float32")}

    with pytest.raises(AssertionError, match="expected one number per row, 3, got 2"):
        Sampler().export_tvm({"all": few})


class Workers(nn.Module):
    def gather(self, x: nn.Tensor) -> nn.Tensor:
        mean = op.ccl_allreduce(x, "avg", in_group=False)
        return op.ccl_broadcast_from_worker0(op.ccl_allgather(mean, 4))


def test_collective_operators() -> None:
    inputs = {"x": spec.Tensor((2, 3), "float32")}
    mod, _ = Workers().export_tvm({"gather": inputs})

    reduce, gather, broadcast, _ = mod["gather"].body.blocks[0].bindings
    assert (reduce.value.attrs.op_type, reduce.value.attrs.in_group) == ("avg", False)
    assert broadcast.value.args[0].same_as(gather.var)
    assert broadcast.var.struct_info.shape.values == (8, 3)
