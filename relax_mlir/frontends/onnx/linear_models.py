"""Rules for linear models and support vector machines of ai.onnx.ml."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.hooks import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.activation import SigmoidOp
from relax_mlir.dialects.relax.arithmetic import (
    AddOp,
    ClipOp,
    MultiplyOp,
    NegativeOp,
    SubtractOp,
)
from relax_mlir.dialects.relax.cast import AstypeOp
from relax_mlir.dialects.relax.compare import GreaterEqualOp, GreaterOp, WhereOp
from relax_mlir.dialects.relax.coupling import PairwiseCouplingOp
from relax_mlir.dialects.relax.exponential import ExpOp, PowerOp
from relax_mlir.dialects.relax.indexing import TakeOp
from relax_mlir.dialects.relax.joining import ConcatOp
from relax_mlir.dialects.relax.matmul import MatmulOp
from relax_mlir.dialects.relax.movement import ReshapeOp
from relax_mlir.dialects.relax.reduce import SumOp
from relax_mlir.dialects.relax.trigonometry import TanhOp
from relax_mlir.frontends.onnx.scores import (
    both,
    chosen,
    labels_of,
    matrix,
    number,
    one_of,
    transformed,
)

_SURE = 1e-7  # probabilities of pairs stay as far from 0 and 1


def _affine(
    node: OnnxNode, x: ir.Value, coefficients: np.ndarray, shifts: Sequence[float]
) -> ir.Value:
    """x times coefficients [outputs, features], plus shifts.

    Raises:
        ValueError: they do not fit the features.
    """
    width, kind = tensors.shape_of(x)[1], tensors.dtype_of(x).numpy
    if isinstance(width, int) and width != coefficients.shape[1]:
        raise ValueError(f"expected {coefficients.shape[1]} features, got {width}")
    weights = np.ascontiguousarray(coefficients.T.astype(kind))
    product = MatmulOp(x, node.constant(weights)).z
    if not len(shifts):
        return product
    return AddOp(product, node.constant(np.array(shifts).astype(kind))).z


def _rows(node: OnnxNode, x: ir.Value, count: int) -> np.ndarray:
    """The coefficients as ``count`` rows.

    Raises:
        ValueError: they are no such rows.
    """
    flat = np.array(node.attr("coefficients"), np.float32)
    if count < 1 or flat.size % count:
        raise ValueError(f"expected coefficients in {count} rows, got {flat.size}")
    return flat.reshape(count, -1)


@onnx_rule("ai.onnx.ml::LinearRegressor", since=1)
def linear_regressor(node: OnnxNode) -> ir.Value:
    """x times coefficients plus intercepts.

    Source: ONNX (ai.onnx.ml) LinearRegressor-1.
    """
    x, count = matrix(node), node.attr("targets", 1)
    shifts = node.attrs.get("intercepts", [])
    if len(shifts) not in (0, count):
        raise ValueError(
            f"attribute `intercepts`: expected {count} numbers, got {len(shifts)}"
        )
    y = _affine(node, x, _rows(node, x, count), shifts)
    return transformed(node, y, node.attr("post_transform", "NONE"))


@onnx_rule("ai.onnx.ml::LinearClassifier", since=1)
def linear_classifier(node: OnnxNode) -> Sequence[ir.Value]:
    """The class with the highest linear score, and the scores.

    Source: ONNX (ai.onnx.ml) LinearClassifier-1.
    """
    x, labels = matrix(node), labels_of(node, "classlabels_ints")
    transform = node.attr("post_transform", "NONE")
    shifts = node.attrs.get("intercepts", [])
    flat = len(node.attr("coefficients"))
    width = tensors.shape_of(x)[1]
    count = len(shifts) or (flat // width if isinstance(width, int) else len(labels))
    scores = _affine(node, x, _rows(node, x, count), shifts)
    if count > 1:
        return [chosen(node, scores, labels), transformed(node, scores, transform)]
    if len(labels) == 2:
        pair = both(node, scores, transform == "NONE")
        is_second = GreaterOp(scores, number(node, 0, scores)).z
        return [
            _one_of_two(node, is_second, labels),
            transformed(node, pair, transform),
        ]
    is_first = GreaterEqualOp(scores, number(node, 0, scores)).z
    label = _one_of_two(node, is_first, np.array([0, labels[0]]))
    return [label, transformed(node, scores, transform)]


def _one_of_two(node: OnnxNode, is_second: ir.Value, labels: np.ndarray) -> ir.Value:
    """The second label where that is true [n, 1], else the first."""
    flat = ReshapeOp(is_second, shape=(-1,)).y
    pair = [node.constant(np.array(labels[i], np.int64)) for i in (1, 0)]
    return WhereOp(flat, *pair).z


def _kernel(node: OnnxNode, x: ir.Value, vectors: np.ndarray) -> ir.Value:
    """How much every row [n, f] is like every support vector [v, f].

    Raises:
        ValueError: there is no such kernel.
    """
    names = ("LINEAR", "POLY", "RBF", "SIGMOID")
    name = one_of("kernel_type", node.attr("kernel_type", "LINEAR"), names)
    gamma, shift, degree = node.attrs.get("kernel_params") or (0.0, 0.0, 0.0)
    if name == "RBF":
        rows, width = tensors.shape_of(x)
        wide = ReshapeOp(x, shape=(rows, 1, width)).y
        others = node.constant(vectors.astype(tensors.dtype_of(x).numpy))
        far = SubtractOp(wide, others).z
        total = SumOp(MultiplyOp(far, far).z, axis=(2,), keepdims=False).y
        return ExpOp(MultiplyOp(total, number(node, -gamma, x)).z).y
    product = _affine(node, x, vectors, [])
    if name == "LINEAR":
        return product
    scaled = MultiplyOp(product, number(node, gamma, x)).z
    moved = AddOp(scaled, number(node, shift, x)).z
    if name == "SIGMOID":
        return TanhOp(moved).y
    return PowerOp(moved, number(node, degree, x)).z


@onnx_rule("ai.onnx.ml::SVMRegressor", since=1)
def svm_regressor(node: OnnxNode) -> ir.Value:
    """Kernels with all support vectors, weighted and added; or a sign for one class.

    Source: ONNX (ai.onnx.ml) SVMRegressor-1.
    """
    x, count = matrix(node), node.attrs.get("n_supports", 0)
    if count:
        vectors = np.array(node.attr("support_vectors"), np.float32).reshape(count, -1)
        x = _kernel(node, x, vectors)
    y = _affine(node, x, _rows(node, x, 1), node.attrs.get("rho", [0.0])[:1])
    if node.flag("one_class", default=False):
        is_in = GreaterOp(y, number(node, 0, y)).z
        return WhereOp(is_in, number(node, 1, y), number(node, -1, y)).z
    return transformed(node, y, node.attr("post_transform", "NONE"))


@onnx_rule("ai.onnx.ml::SVMClassifier", since=1)
def svm_classifier(node: OnnxNode) -> Sequence[ir.Value]:
    """The class that wins most comparisons of two classes, and how these went.

    Source: ONNX (ai.onnx.ml) SVMClassifier-1.
    """
    x, labels = matrix(node), labels_of(node, "classlabels_ints")
    sizes = node.attrs.get("vectors_per_class", [])
    transform = node.attr("post_transform", "NONE")
    if not sum(sizes):
        shifts = node.attr("rho")[:1] * len(labels)
        scores = _affine(node, x, _rows(node, x, len(labels)), shifts)
        return [chosen(node, scores, labels), transformed(node, scores, transform)]
    if len(sizes) != len(labels):
        raise ValueError(
            f"attribute `vectors_per_class`: expected {len(labels)}, got {len(sizes)}"
        )
    vectors = np.array(node.attr("support_vectors"), np.float32)
    kernels = _kernel(node, x, vectors.reshape(sum(sizes), -1))
    weights = _pairs(_rows(node, x, len(labels) - 1), sizes)
    scores = _affine(node, kernels, weights, node.attr("rho"))
    label = chosen(node, _votes(node, scores, len(labels)), labels)
    if node.attrs.get("prob_a"):
        scores = _probabilities(node, scores, len(labels))
    elif len(labels) == 2:
        scores = both(node, scores, is_probability=False)
    return [label, transformed(node, scores, transform)]


def _pairs(coefficients: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """What a comparison of two classes counts every support vector for: [pairs, v]."""
    ends = np.cumsum([0, *sizes])
    rows = []
    for i, j in combinations(range(len(sizes)), 2):
        row = np.zeros(ends[-1], np.float32)
        for own, other in ((i, j - 1), (j, i)):
            part = slice(ends[own], ends[own + 1])
            row[part] = coefficients[other, part]
        rows.append(row)
    return np.array(rows)


def _votes(node: OnnxNode, scores: ir.Value, count: int) -> ir.Value:
    """How many comparisons every class wins; the first of two if the score is above 0."""
    kind = tensors.dtype_of(scores)
    wins = AstypeOp(GreaterOp(scores, number(node, 0, scores)).z, dtype=kind).y
    first = np.zeros((len(list(combinations(range(count), 2))), count))
    base = np.zeros(count)
    for row, (i, j) in enumerate(combinations(range(count), 2)):
        first[row, [i, j]] = 1, -1
        base[j] += 1
    table = node.constant(first.astype(kind.numpy))
    return AddOp(MatmulOp(wins, table).z, node.constant(base.astype(kind.numpy))).z


def _probabilities(node: OnnxNode, scores: ir.Value, count: int) -> ir.Value:
    """Probabilities of classes, from those of pairs, logistic functions of their scores.

    Source: Platt, Probabilistic outputs for support vector machines, 1999.
    """
    kind = tensors.dtype_of(scores).numpy
    pairs = list(combinations(range(count), 2))
    slopes, shifts = (np.array(node.attr(f"prob_{x}")).astype(kind) for x in "ab")
    if not len(slopes) == len(shifts) == len(pairs):
        raise ValueError(
            f"attributes `prob_a` and `prob_b`: expected {len(pairs)}, got "
            f"{len(slopes)} and {len(shifts)}"
        )
    scaled = MultiplyOp(scores, node.constant(slopes)).z
    x = NegativeOp(AddOp(scaled, node.constant(shifts)).z).y
    first = ClipOp(SigmoidOp(x).y, min=_SURE, max=1 - _SURE).y
    second = SubtractOp(number(node, 1, first), first).z
    columns = np.zeros((count, count), np.int64)  # of both, side by side
    for place, (i, j) in enumerate(pairs):
        columns[i, j], columns[j, i] = place, place + len(pairs)
    either = ConcatOp([first, second], axis=1).y
    spread = TakeOp(either, node.constant(columns.reshape(-1)), axis=1).y
    rows = tensors.shape_of(scores)[0]
    return PairwiseCouplingOp(ReshapeOp(spread, shape=(rows, count, count)).y).y
