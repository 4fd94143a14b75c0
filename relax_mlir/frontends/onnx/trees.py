"""Rules for tree ensembles of ai.onnx.ml."""

from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any

import numpy as np
from mlir import ir

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.op_interface import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.arithmetic import AddOp, MultiplyOp
from relax_mlir.dialects.relax.cast import AstypeOp
from relax_mlir.dialects.relax.compare import GreaterOp, IsinfOp, WhereOp
from relax_mlir.dialects.relax.gather import TakeOp
from relax_mlir.dialects.relax.manipulate import ReshapeOp
from relax_mlir.dialects.relax.reduce import MaxOp, MinOp, SumOp
from relax_mlir.dialects.relax.tree_ensemble import TreeLeavesOp
from relax_mlir.frontends.onnx.scores import (
    binary_scores,
    check_choice,
    feature_matrix,
    labels_of,
    post_transformed,
    predicted_labels,
    scalar_like,
)

_MODES = ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ", "MEMBER")
_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
_MAX_WEIGHTS = 2**26  # leaves times targets: 256 MiB
_F32 = dtypes.dtype("float32")


@dataclass
class _Branch:
    """An inner node: tests whether a feature is in an interval.

    Attributes:
        feature: the index of the feature.
        low, high: the closed interval.
        inside, outside, missing: the child for values inside, outside, and NaN: an index
            of a branch, or ``~leaf``.
    """

    feature: int
    low: float
    high: float
    inside: int
    outside: int
    missing: int


def _interval(mode: str, split: Any) -> tuple[Any, Any, bool]:  # Any: numpy's floats
    """The interval of a comparison, and whether it holds outside of it instead."""
    infinity = split.dtype.type(np.inf)
    table = {
        "LEQ": (-infinity, split, False),
        "LT": (-infinity, np.nextafter(split, -infinity), False),
        "GTE": (split, infinity, False),
        "GT": (np.nextafter(split, infinity), infinity, False),
        "EQ": (split, split, False),
        "NEQ": (split, split, True),
    }
    return table[check_choice("nodes_modes", mode, tuple(table))]


def _branch(
    feature: int, mode: str, split: Any, true: int, false: int, missing: bool
) -> _Branch:
    low, high, is_outside = _interval(mode, split)
    inside, outside = (false, true) if is_outside else (true, false)
    nan = true if missing or is_outside else false
    return _Branch(feature, low, high, inside, outside, nan)


def _depth(branches: Sequence[_Branch], roots: Sequence[int], leaves: int) -> int:
    """The maximum depth of the trees.

    Raises:
        ValueError: a child does not exist, or nodes form a cycle.
    """
    depths: dict[int, int] = {}
    entered: set[int] = set()
    worklist = list(roots)
    while worklist:
        index = worklist[-1]
        if not -leaves <= index < len(branches):
            raise ValueError(
                f"a node has child {index}, which is neither a node nor a leaf"
            )
        if index < 0 or index in depths:
            depths.setdefault(index, 0)
            worklist.pop()
            continue
        branch = branches[index]
        children = (branch.inside, branch.outside, branch.missing)
        unvisited = [child for child in children if child not in depths]
        if not unvisited:
            depths[index] = 1 + max(depths[child] for child in children)
        elif index in entered:
            raise ValueError("the nodes of a tree form a cycle")
        entered.add(index)
        worklist += unvisited
    return max(map(depths.__getitem__, roots), default=0)


def _leaves(
    node: OnnxNode,
    x: ir.Value,
    branches: Sequence[_Branch],
    roots: Sequence[int],
    leaves: int,
) -> ir.Value:
    """The index of the leaf that each row reaches in each tree: [rows, trees]."""
    depth = _depth(branches, roots, leaves)
    kind = tensors.dtype_of(x).numpy

    def table_rows(values: Sequence[int]) -> np.ndarray:
        return np.array([~v if v < 0 else v + leaves for v in values], np.int32)

    features = [b.feature for b in branches]
    width = tensors.shape_of(x)[1]
    least = max(features, default=-1) + 1
    if isinstance(width, int) and width < least:
        raise ValueError(f"expected {least} features or more, got {width}")
    shapes.require_at_least(width, least)
    nodes = np.zeros((leaves + len(branches), 4), np.int32)
    nodes[:leaves, 1:] = np.arange(leaves)[:, None]
    nodes[leaves:, 0] = features
    for column, name in enumerate(("inside", "outside", "missing"), start=1):
        nodes[leaves:, column] = table_rows([getattr(b, name) for b in branches])
    bounds = np.zeros((leaves + len(branches), 2), kind)
    bounds[leaves:] = np.array([(b.low, b.high) for b in branches]).reshape(-1, 2)
    tables = (nodes, bounds, table_rows(roots))
    return TreeLeavesOp(x, *map(node.constant, tables), depth=depth).y


def _aggregated(
    node: OnnxNode, found: ir.Value, weights: np.ndarray, how: str
) -> ir.Value:
    """Leaf weights of each row, aggregated over the trees; 0 for targets without weights."""
    check_choice("aggregate_function", how, _AGGREGATES)
    rows, count = tensors.shape_of(found)
    assert isinstance(count, int)
    if weights.shape[1] == 1:  # gathers scalars instead of rows
        gathered = TakeOp(node.constant(weights[:, 0]), found, axis=0, mode="clip").y
        gathered = ReshapeOp(gathered, shape=(rows, count, 1)).y
    else:
        gathered = TakeOp(node.constant(weights), found, axis=0, mode="clip").y
    op = {"MIN": MinOp, "MAX": MaxOp}.get(how, SumOp)
    total = op(gathered, axis=(1,), keepdims=False).y
    if how == "AVERAGE":
        return MultiplyOp(total, scalar_like(node, 1 / count, total)).z
    if how == "SUM" or not np.isinf(weights).any():
        return total
    return WhereOp(IsinfOp(total).y, scalar_like(node, 0, total), total).z


def _weights(
    entries: Sequence[tuple[int, int, float]],
    leaves: int,
    targets: int,
    how: str,
    kind: np.dtype,
) -> np.ndarray:
    """A dense matrix of weights [leaves, targets] from (leaf, target, weight) entries.

    Raises:
        ValueError: a target does not exist.
        NotImplementedError: the matrix is too large.
    """
    if leaves * targets > _MAX_WEIGHTS:
        raise NotImplementedError(
            f"{leaves} leaves for {targets} targets: expected up to {_MAX_WEIGHTS} "
            "weights"
        )
    combine = {"MIN": np.minimum, "MAX": np.maximum}.get(how, np.add)
    neutral = {"MIN": np.inf, "MAX": -np.inf}.get(how, 0)
    table = np.full((leaves, targets), neutral, kind)
    for leaf, target, weight in entries:
        if not 0 <= target < targets:
            raise ValueError(f"target {target}: expected 0 to {targets - 1}")
        table[leaf, target] = combine(table[leaf, target], weight)
    return table


@onnx_rule("ai.onnx.ml::TreeEnsemble", since=5)
def tree_ensemble(node: OnnxNode) -> ir.Value:
    """Tree ensemble: aggregated weights of the leaves that each row reaches.

    Source: ONNX (ai.onnx.ml) TreeEnsemble-5.
    """
    x = feature_matrix(node)
    kind = tensors.dtype_of(x).numpy
    roots, branches = list(node.attr("tree_roots")), _branches(node, kind)
    given = np.asarray(node.attr("leaf_weights")).astype(kind)
    targets = list(node.attr("leaf_targetids"))
    if len(targets) != len(given):
        raise ValueError(f"expected {len(given)} leaf_targetids, got {len(targets)}")
    how = _AGGREGATES[
        check_choice(
            "aggregate_function", node.attrs.get("aggregate_function", 1), range(4)
        )
    ]
    count = node.attrs.get("n_targets", max(targets, default=0) + 1)
    entries = list(zip(range(len(given)), targets, given, strict=True))
    weights = _weights(entries, len(given), count, how, kind)
    found = _leaves(node, x, branches, roots, len(given))
    total = _aggregated(node, found, weights, how)
    index = check_choice(
        "post_transform", node.attrs.get("post_transform", 0), range(5)
    )
    return post_transformed(node, total, _TRANSFORMS[index])


def _branches(node: OnnxNode, kind: np.dtype) -> list[_Branch]:
    """The inner nodes of TreeEnsemble; a set membership test becomes a chain of nodes.

    Raises:
        ValueError: the attributes have different lengths.
    """
    modes = np.asarray(node.attr("nodes_modes")).tolist()
    splits = np.asarray(node.attr("nodes_splits")).astype(kind)
    names = ("featureids", "truenodeids", "trueleafs", "falsenodeids", "falseleafs")
    columns = [list(node.attr(f"nodes_{name}")) for name in names]
    missing = node.attrs.get("nodes_missing_value_tracks_true", [0] * len(modes))
    _check_lengths([*columns, modes, splits, missing])
    members = _members(node, kind)
    branches: list[_Branch] = []
    chains: list[_Branch] = []
    rows = zip(*columns, modes, splits, missing, strict=True)
    for feature, true, is_true_leaf, false, is_false_leaf, mode, split, nan in rows:
        then, other = (
            (~true if is_true_leaf else true),
            (~false if is_false_leaf else false),
        )
        name = _MODES[check_choice("nodes_modes", mode, range(len(_MODES)))]
        values = [split] if name != "MEMBER" else next(members, [])
        name = "EQ" if name == "MEMBER" else name
        chain = [_branch(feature, name, v, then, other, bool(nan)) for v in values]
        if not chain:
            raise ValueError("a node tests membership in a set without members")
        for index, previous in enumerate(chain[:-1], start=len(modes) + len(chains)):
            previous.outside = index
        branches.append(chain[0])
        chains += chain[1:]
    return [*branches, *chains]


def _members(node: OnnxNode, kind: np.dtype) -> Any:  # Any: an iterator of arrays
    """The value sets of the membership tests, which are separated by NaN."""
    flat = np.asarray(node.attrs.get("membership_values", []), kind).reshape(-1)
    ends = np.flatnonzero(np.isnan(flat))
    starts = [0, *(ends + 1)]
    return iter([flat[a:b] for a, b in zip(starts, ends, strict=False)])


def _check_lengths(columns: Sequence[Sized]) -> None:
    lengths = sorted(set(map(len, columns)))
    if len(lengths) != 1 or not lengths[0]:
        raise ValueError(
            f"expected one value per node in each of `nodes_*`, got lengths {lengths}"
        )


@dataclass(frozen=True)
class _Trees:
    """Trees whose nodes are identified by tree and node ids.

    Attributes:
        branches: the inner nodes.
        roots: the root of each tree: an index of a branch, or ``~leaf``.
        leaves: indices of leaves by (tree id, node id).
    """

    branches: list[_Branch]
    roots: list[int]
    leaves: Mapping[tuple[int, int], int]


def _read_trees(node: OnnxNode, kind: np.dtype) -> _Trees:
    """The nodes of TreeEnsembleClassifier and TreeEnsembleRegressor.

    Raises:
        ValueError: attributes have different lengths, a node is defined twice, or a
            child does not exist.
    """
    names = ("treeids", "nodeids", "featureids", "truenodeids", "falsenodeids")
    columns = [list(node.attr(f"nodes_{name}")) for name in names]
    modes = [str(m).removeprefix("BRANCH_") for m in node.attr("nodes_modes")]
    splits = _floats(node, "nodes_values", kind)
    missing = node.attrs.get("nodes_missing_value_tracks_true") or [0] * len(modes)
    _check_lengths([*columns, modes, splits, missing])
    keys = list(zip(columns[0], columns[1], strict=True))
    is_leaf = [mode == "LEAF" for mode in modes]
    inner = [key for key, leaf in zip(keys, is_leaf, strict=True) if not leaf]
    outer = [key for key, leaf in zip(keys, is_leaf, strict=True) if leaf]
    indices = {key: index for index, key in enumerate(inner)}
    leaves = {key: index for index, key in enumerate(outer)}
    indices.update({key: ~index for key, index in leaves.items()})
    if len(indices) != len(keys):
        raise ValueError("a node of a tree is defined twice")
    branches: list[_Branch] = []
    children: set[tuple[int, int]] = set()
    for row, (tree, _, feature, true, false) in enumerate(zip(*columns, strict=True)):
        if is_leaf[row]:
            continue
        pair = ((tree, true), (tree, false))
        if any(key not in indices for key in pair):
            raise ValueError(f"tree {tree}: node {true} or {false} is missing")
        children.update(pair)
        then, other = (indices[key] for key in pair)
        nan = bool(missing[row])
        branches.append(_branch(feature, modes[row], splits[row], then, other, nan))
    first = {key[0]: key for key in reversed(keys) if key not in children}
    roots = [indices[key] for key in first.values()]
    if len(_reached(branches, roots)) != len(keys):
        raise ValueError(
            "every tree needs one root from which all its nodes are reachable"
        )
    return _Trees(branches, roots, leaves)


def _reached(branches: Sequence[_Branch], roots: Sequence[int]) -> set[int]:
    """The nodes reachable from ``roots``, including the roots."""
    reached, level = set(roots), set(roots)
    while level:
        parents = [branches[index] for index in level if index >= 0]
        level = {n for b in parents for n in (b.inside, b.outside)} - reached
        reached |= level
    return reached


def _floats(node: OnnxNode, name: str, kind: np.dtype) -> np.ndarray:
    """Floats of an attribute, or of its ``_as_tensor`` alternative."""
    given = node.attrs.get(f"{name}_as_tensor")
    if given is None:
        given = np.array(node.attrs.get(name, []), np.float32)
    return np.asarray(given).reshape(-1).astype(kind)


def _scores(node: OnnxNode, what: str, targets: int, how: str) -> ir.Value:
    """Aggregated leaf weights of each row and target, in f32."""
    x = feature_matrix(node)
    kind = tensors.dtype_of(x).numpy
    trees = _read_trees(node, kind)
    owners = zip(
        node.attr(f"{what}_treeids"), node.attr(f"{what}_nodeids"), strict=True
    )
    ids, weights = node.attr(f"{what}_ids"), _floats(node, f"{what}_weights", kind)
    entries: list[tuple[int, int, float]] = []
    for key, target, weight in zip(owners, ids, weights, strict=True):
        if key not in trees.leaves:
            raise ValueError(
                f"tree {key[0]}: node {key[1]} has a weight, but is not a leaf"
            )
        entries.append((trees.leaves[key], target, weight))
    count = len(trees.leaves)
    table = _weights(entries, count, targets, how, kind)
    found = _leaves(node, x, trees.branches, trees.roots, count)
    return AstypeOp(_aggregated(node, found, table, how), dtype=_F32).y


@onnx_rule("ai.onnx.ml::TreeEnsembleRegressor", since=1)
def tree_ensemble_regressor(node: OnnxNode) -> ir.Value:
    """Tree ensemble regression: aggregated leaf weights plus base values.

    Source: ONNX (ai.onnx.ml) TreeEnsembleRegressor-5.
    """
    ids = node.attr("target_ids")
    targets = node.attrs.get("n_targets", max(ids, default=0) + 1)
    total = _scores(node, "target", targets, node.attr("aggregate_function", "SUM"))
    base = _floats(node, "base_values", np.dtype(np.float32))
    if base.size:
        total = AddOp(total, node.constant(base)).z
    return post_transformed(node, total, node.attr("post_transform", "NONE"))


@onnx_rule("ai.onnx.ml::TreeEnsembleClassifier", since=1)
def tree_ensemble_classifier(node: OnnxNode) -> Sequence[ir.Value]:
    """Tree ensemble classification: the class with the highest sum of weights, and the sums.

    If a binary classifier has weights of one class only, their sum is the score of the
    second: a probability if no weight is negative, else a score with threshold 0.

    Source: ONNX (ai.onnx.ml) TreeEnsembleClassifier-5.
    """
    labels = labels_of(node, "classlabels_int64s")
    ids = set(node.attr("class_ids"))
    base = _floats(node, "base_values", np.dtype(np.float32))
    transform = node.attr("post_transform", "NONE")
    if len(labels) > 2 or len(ids) > 1:
        scores = _scores(node, "class", len(labels), "SUM")
        if base.size:
            scores = AddOp(scores, node.constant(base)).z
        return [
            predicted_labels(node, scores, labels),
            post_transformed(node, scores, transform),
        ]
    all_scores = _scores(node, "class", max(*ids, len(labels) - 1) + 1, "SUM")
    score = TakeOp(all_scores, node.constant(np.array(list(ids))), axis=1).y
    if base.size:
        score = AddOp(score, node.constant(base[-1:])).z
    return _binary(node, score, labels, transform)


def _binary(
    node: OnnxNode, score: ir.Value, labels: np.ndarray, transform: str
) -> list[ir.Value]:
    """Labels and scores of a binary classifier with one score [n, 1].

    For PROBIT the first class gets the negated score of the second; onnxruntime leaves it
    unset.
    """
    weights = _floats(node, "class_weights", np.dtype(np.float32))
    is_probability = bool((weights >= 0).all())
    limit = scalar_like(node, 0.5 if is_probability else 0, score)
    is_second = ReshapeOp(GreaterOp(score, limit).z, shape=(-1,)).y
    first, second = (0, labels[0]) if len(labels) == 1 else labels
    pair = [node.constant(np.array(value, np.int64)) for value in (second, first)]
    label = WhereOp(is_second, *pair).z
    if transform == "PROBIT":
        return [
            label,
            binary_scores(node, post_transformed(node, score, transform), False),
        ]
    if transform == "LOGISTIC":
        return [
            label,
            post_transformed(node, binary_scores(node, score, False), transform),
        ]
    return [label, binary_scores(node, score, is_probability)]
