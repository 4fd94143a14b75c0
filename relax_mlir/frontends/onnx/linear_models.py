"""Rules for linear models and support vector machines of ai.onnx.ml."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.op_interface import OnnxNode, onnx_rule
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
from relax_mlir.dialects.relax.concat_split import ConcatOp
from relax_mlir.dialects.relax.exp_log import ExpOp, PowerOp
from relax_mlir.dialects.relax.gather import TakeOp
from relax_mlir.dialects.relax.manipulate import ReshapeOp
from relax_mlir.dialects.relax.matmul import MatmulOp
from relax_mlir.dialects.relax.pairwise_coupling import PairwiseCouplingOp
from relax_mlir.dialects.relax.reduce import SumOp
from relax_mlir.dialects.relax.trigonometry import TanhOp
from relax_mlir.frontends.onnx.scores import (
    binary_scores,
    check_choice,
    feature_matrix,
    labels_of,
    post_transformed,
    predicted_labels,
    scalar_like,
)

_SURE = 1e-7  # margin of pairwise probabilities from 0 and 1


def _affine(
    node: OnnxNode, x: ir.Value, coefficients: np.ndarray, shifts: Sequence[float]
) -> ir.Value:
    """Affine map: x times coefficients [outputs, features], plus shifts.

    Raises:
        ValueError: the coefficients and x differ in the number of features.
    """
    width, kind = tensors.shape_of(x)[1], tensors.dtype_of(x).numpy
    if isinstance(width, int) and width != coefficients.shape[1]:
        raise ValueError(f"expected {coefficients.shape[1]} features, got {width}")
    weights = np.ascontiguousarray(coefficients.T.astype(kind))
    y = MatmulOp(x, node.constant(weights)).z
    if not len(shifts):
        return y
    return AddOp(y, node.constant(np.array(shifts).astype(kind))).z


def _rows(node: OnnxNode, x: ir.Value, count: int) -> np.ndarray:
    """The coefficients as a matrix of ``count`` rows.

    Raises:
        ValueError: ``count`` does not divide the number of coefficients.
    """
    flat = np.array(node.attr("coefficients"), np.float32)
    if count < 1 or flat.size % count:
        raise ValueError(f"expected coefficients in {count} rows, got {flat.size}")
    return flat.reshape(count, -1)


@onnx_rule("ai.onnx.ml::LinearRegressor", since=1)
def linear_regressor(node: OnnxNode) -> ir.Value:
    """Linear regression: x times coefficients plus intercepts.

    Source: ONNX (ai.onnx.ml) LinearRegressor-1.
    """
    x, count = feature_matrix(node), node.attr("targets", 1)
    shifts = node.attrs.get("intercepts", [])
    if len(shifts) not in (0, count):
        raise ValueError(
            f"attribute `intercepts`: expected {count} numbers, got {len(shifts)}"
        )
    y = _affine(node, x, _rows(node, x, count), shifts)
    return post_transformed(node, y, node.attr("post_transform", "NONE"))


@onnx_rule("ai.onnx.ml::LinearClassifier", since=1)
def linear_classifier(node: OnnxNode) -> Sequence[ir.Value]:
    """Linear classification: the class with the highest score, and the scores.

    Source: ONNX (ai.onnx.ml) LinearClassifier-1.
    """
    x, labels = feature_matrix(node), labels_of(node, "classlabels_ints")
    transform = node.attr("post_transform", "NONE")
    shifts = node.attrs.get("intercepts", [])
    flat = len(node.attr("coefficients"))
    width = tensors.shape_of(x)[1]
    count = len(shifts) or (flat // width if isinstance(width, int) else len(labels))
    scores = _affine(node, x, _rows(node, x, count), shifts)
    if count > 1:
        return [
            predicted_labels(node, scores, labels),
            post_transformed(node, scores, transform),
        ]
    if len(labels) == 2:
        pair = binary_scores(node, scores, transform == "NONE")
        is_second = GreaterOp(scores, scalar_like(node, 0, scores)).z
        return [
            _binary_label(node, is_second, labels),
            post_transformed(node, pair, transform),
        ]
    is_first = GreaterEqualOp(scores, scalar_like(node, 0, scores)).z
    label = _binary_label(node, is_first, np.array([0, labels[0]]))
    return [label, post_transformed(node, scores, transform)]


def _binary_label(node: OnnxNode, is_second: ir.Value, labels: np.ndarray) -> ir.Value:
    """The second label where ``is_second`` [n, 1] is true, else the first."""
    flat = ReshapeOp(is_second, shape=(-1,)).y
    pair = [node.constant(np.array(labels[i], np.int64)) for i in (1, 0)]
    return WhereOp(flat, *pair).z


def _kernel(node: OnnxNode, x: ir.Value, vectors: np.ndarray) -> ir.Value:
    """Kernel matrix [n, v] of rows [n, f] and support vectors [v, f].

    Raises:
        ValueError: the kernel type is unknown.
    """
    names = ("LINEAR", "POLY", "RBF", "SIGMOID")
    name = check_choice("kernel_type", node.attr("kernel_type", "LINEAR"), names)
    gamma, shift, degree = node.attrs.get("kernel_params") or (0.0, 0.0, 0.0)
    if name == "RBF":
        rows, width = tensors.shape_of(x)
        wide = ReshapeOp(x, shape=(rows, 1, width)).y
        others = node.constant(vectors.astype(tensors.dtype_of(x).numpy))
        difference = SubtractOp(wide, others).z
        total = SumOp(MultiplyOp(difference, difference).z, axis=(2,), keepdims=False).y
        return ExpOp(MultiplyOp(total, scalar_like(node, -gamma, x)).z).y
    dots = _affine(node, x, vectors, [])
    if name == "LINEAR":
        return dots
    scaled = MultiplyOp(dots, scalar_like(node, gamma, x)).z
    shifted = AddOp(scaled, scalar_like(node, shift, x)).z
    if name == "SIGMOID":
        return TanhOp(shifted).y
    return PowerOp(shifted, scalar_like(node, degree, x)).z


@onnx_rule("ai.onnx.ml::SVMRegressor", since=1)
def svm_regressor(node: OnnxNode) -> ir.Value:
    """Support vector regression: weighted sum of kernels; its sign for a one-class SVM.

    Source: ONNX (ai.onnx.ml) SVMRegressor-1.
    """
    x, count = feature_matrix(node), node.attrs.get("n_supports", 0)
    if count:
        vectors = np.array(node.attr("support_vectors"), np.float32).reshape(count, -1)
        x = _kernel(node, x, vectors)
    y = _affine(node, x, _rows(node, x, 1), node.attrs.get("rho", [0.0])[:1])
    if node.flag("one_class", default=False):
        is_in = GreaterOp(y, scalar_like(node, 0, y)).z
        return WhereOp(is_in, scalar_like(node, 1, y), scalar_like(node, -1, y)).z
    return post_transformed(node, y, node.attr("post_transform", "NONE"))


@onnx_rule("ai.onnx.ml::SVMClassifier", since=1)
def svm_classifier(node: OnnxNode) -> Sequence[ir.Value]:
    """Support vector classification by one-vs-one voting: the class, and the scores.

    Source: ONNX (ai.onnx.ml) SVMClassifier-1.
    """
    x, labels = feature_matrix(node), labels_of(node, "classlabels_ints")
    sizes = node.attrs.get("vectors_per_class", [])
    transform = node.attr("post_transform", "NONE")
    if not sum(sizes):
        shifts = node.attr("rho")[:1] * len(labels)
        scores = _affine(node, x, _rows(node, x, len(labels)), shifts)
        return [
            predicted_labels(node, scores, labels),
            post_transformed(node, scores, transform),
        ]
    if len(sizes) != len(labels):
        raise ValueError(
            f"attribute `vectors_per_class`: expected {len(labels)}, got {len(sizes)}"
        )
    vectors = np.array(node.attr("support_vectors"), np.float32)
    kernels = _kernel(node, x, vectors.reshape(sum(sizes), -1))
    weights = _pairwise_coefficients(_rows(node, x, len(labels) - 1), sizes)
    scores = _affine(node, kernels, weights, node.attr("rho"))
    label = predicted_labels(node, _votes(node, scores, len(labels)), labels)
    if node.attrs.get("prob_a"):
        scores = _probabilities(node, scores, len(labels))
    elif len(labels) == 2:
        scores = binary_scores(node, scores, is_probability=False)
    return [label, post_transformed(node, scores, transform)]


def _pairwise_coefficients(
    coefficients: np.ndarray, sizes: Sequence[int]
) -> np.ndarray:
    """Dual coefficients of the one-vs-one classifiers: [pairs, support vectors]."""
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
    """One-vs-one votes per class; a score above 0 is a vote for the first of a pair."""
    kind = tensors.dtype_of(scores)
    wins = AstypeOp(GreaterOp(scores, scalar_like(node, 0, scores)).z, dtype=kind).y
    first = np.zeros((len(list(combinations(range(count), 2))), count))
    base = np.zeros(count)
    for row, (i, j) in enumerate(combinations(range(count), 2)):
        first[row, [i, j]] = 1, -1
        base[j] += 1
    table = node.constant(first.astype(kind.numpy))
    return AddOp(MatmulOp(wins, table).z, node.constant(base.astype(kind.numpy))).z


def _probabilities(node: OnnxNode, scores: ir.Value, count: int) -> ir.Value:
    """Class probabilities by pairwise coupling of Platt-scaled scores.

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
    second = SubtractOp(scalar_like(node, 1, first), first).z
    columns = np.zeros((count, count), np.int64)  # indices into both, concatenated
    for index, (i, j) in enumerate(pairs):
        columns[i, j], columns[j, i] = index, index + len(pairs)
    either = ConcatOp([first, second], axis=1).y
    spread = TakeOp(either, node.constant(columns.reshape(-1)), axis=1).y
    rows = tensors.shape_of(scores)[0]
    return PairwiseCouplingOp(ReshapeOp(spread, shape=(rows, count, count)).y).y
