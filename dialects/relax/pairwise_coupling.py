"""Pairwise coupling: multi-class probabilities from pairwise ones (SVM)."""

import numpy as np
from mlir.ir import RankedTensorType

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.op_interface import Case
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.elementwise import (
    computed_wide,
    require_element_type,
    wide_type,
)
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = ["PairwiseCouplingOp"]

_STEPS = 100
_CLOSE = 0.005  # tolerance, divided by the number of classes
_MOST = 32  # classes: the program is unrolled over all pairs


class PairwiseCouplingOp(Relax.Operation, name="pairwise_coupling"):
    """Class probabilities p that best fit pairwise probabilities r.

    Minimises sum_(i != j) (r_ji p_i - r_ij p_j)^2 subject to sum p = 1 by coordinate
    descent, in at most 100 rounds; a row stops at an error below 0.005 / k.

    Shapes:
        r: [n, k, k], floats; r[:, i, j] is the probability of class i given i or j; its
        diagonal is not read. y: [n, k], 2 <= k <= 32.
    Source: Wu, Lin and Weng, Probability Estimates for Multi-class Classification by
        Pairwise Coupling, 2004, algorithm 2.
    """

    r: Operand[RankedTensorType]
    y: Result[RankedTensorType]

    reference_rate = 1e5  # a loop in Python
    tolerance = 1e-4  # near the stopping criterion, the number of rounds may differ
    cases = (
        Case((5, 3, 3), low=0.1, high=0.9),
        Case((1, 2, 2), low=0.1, high=0.9),
        Case((3, 4, 4, "float64"), low=0.1, high=0.9),
        Case((0, 3, 3)),
    )

    @staticmethod
    def infer(r: RankedTensorType) -> RankedTensorType:
        dtype = require_element_type("f", r)
        if r.rank != 3:
            raise ValueError(f"r: expected [n, k, k], got rank {r.rank}")
        rows, count, other = tensors.shape_of(r)
        count = shapes.unify(count, other)
        if not isinstance(count, int) or not 2 <= count <= _MOST:
            raise ValueError(f"r: expected 2 to {_MOST} classes, got {count}")
        return tensors.tensor_type((rows, count), dtype)

    @staticmethod
    @computed_wide
    def reference(r: np.ndarray) -> np.ndarray:
        rows, count, _ = r.shape
        y = np.full((rows, count), 1 / count, r.dtype)
        for row, own in enumerate(r):
            q = -own.T * own
            np.fill_diagonal(q, (own**2).sum(0) - np.diag(own) ** 2)
            y[row] = _coupled(q, y[row])
        return y

    def legalize(self, b: Builder) -> Buffer:
        """A loop over rows; the coupling of a row is unrolled in registers."""
        (r,) = b.inputs
        (rows, count), type_ = b.results[0]
        wide, out = wide_type(type_), b.alloc((rows, count), type_)
        assert isinstance(count, int)

        def body(row: Index) -> None:
            q = _matrix(b, r, row, count)

            def step(_: Index, *p: Scalar) -> list[Scalar]:
                following = _improved(b, q, list(p))
                for column, value in enumerate(following):
                    out.store(b.cast(value, type_), (row, column))
                return following

            b.loop(_STEPS, [b.constant(1 / count, wide)] * count, step)

        b.block("pairwise_coupling", (rows,), "S", body)
        return out


def _coupled(q: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Solves for p with all components of Q p equal, up to the tolerance."""
    for _ in range(_STEPS):
        qp = q @ p
        total = p @ qp
        if np.abs(qp - total).max() < _CLOSE / len(p):
            break
        for t in range(len(p)):
            change = (total - qp[t]) / q[t, t]
            p[t] += change
            grown = change * (change * q[t, t] + 2 * qp[t])
            total = (total + grown) / (1 + change) ** 2
            p, qp = p / (1 + change), (qp + change * q[t]) / (1 + change)
    return p


def _matrix(b: Builder, r: Buffer, row: Index, count: int) -> list[list[Scalar]]:
    """The matrix Q of the quadratic form: q_tt = sum r_st^2, q_ts = -r_st r_ts."""
    known = [
        [b.widen(r[row, i, j]) if i != j else None for j in range(count)]
        for i in range(count)
    ]
    rows: list[list[Scalar]] = []
    for t in range(count):
        others = [line[t] for line in known]
        squares = [v * v for v in others if v is not None]
        total = sum(squares[1:], squares[0])
        pairs = zip(others, known[t], strict=True)
        rows.append([total if v is None or w is None else -(v * w) for v, w in pairs])
    return rows


def _improved(b: Builder, q: list[list[Scalar]], p: list[Scalar]) -> list[Scalar]:
    """The probabilities after a round; unchanged if they have converged."""
    products = [[a * v for a, v in zip(line, p, strict=True)] for line in q]
    qp = [sum(line[1:], line[0]) for line in products]
    summands = [v * w for v, w in zip(p, qp, strict=True)]
    total = sum(summands[1:], summands[0])
    errors = [b.math("absf", v - total) for v in qp]
    worst = errors[0]
    for error in errors[1:]:
        worst = worst.maximum(error)
    new = list(p)
    for t, line in enumerate(q):
        change = (total - qp[t]) / line[t]
        new[t] = new[t] + change
        scale = 1.0 / (change + 1.0)
        grown = change * (change * line[t] + qp[t] * 2.0)
        total = (total + grown) * scale * scale
        new = [v * scale for v in new]
        qp = [(v + change * a) * scale for v, a in zip(qp, line, strict=True)]
    is_done = worst < _CLOSE / len(p)
    return [b.select(is_done, old, v) for old, v in zip(p, new, strict=True)]
