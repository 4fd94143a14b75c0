"""Rules for ensembles of decision trees."""

from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any

import numpy as np
from mlir import ir

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.hooks import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.arithmetic import AddOp, MultiplyOp
from relax_mlir.dialects.relax.cast import AstypeOp
from relax_mlir.dialects.relax.compare import GreaterOp, IsinfOp, WhereOp
from relax_mlir.dialects.relax.indexing import TakeOp
from relax_mlir.dialects.relax.movement import ReshapeOp
from relax_mlir.dialects.relax.reduce import MaxOp, MinOp, SumOp
from relax_mlir.dialects.relax.trees import TreeLeavesOp
from relax_mlir.frontends.onnx.scores import (
    both,
    chosen,
    labels_of,
    matrix,
    number,
    one_of,
    transformed,
)

_MODES = ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ", "MEMBER")
_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
_MOST_WEIGHTS = 2**26  # of all leaves for all targets: 256 MiB
_F32 = dtypes.dtype("float32")


@dataclass
class _Branch:
    """A node that is no leaf.

    Attributes:
        feature: its number.
        low, high: the values that go to ``inside``.
        inside, outside, missing: where a row goes on; places, or ``~leaf`` for leaves.
    """

    feature: int
    low: float
    high: float
    inside: int
    outside: int
    missing: int


def _interval(mode: str, split: Any) -> tuple[Any, Any, bool]:  # Any: numpy's floats
    """The values for which a comparison holds, and whether it does outside of them."""
    infinity = split.dtype.type(np.inf)
    table = {
        "LEQ": (-infinity, split, False),
        "LT": (-infinity, np.nextafter(split, -infinity), False),
        "GTE": (split, infinity, False),
        "GT": (np.nextafter(split, infinity), infinity, False),
        "EQ": (split, split, False),
        "NEQ": (split, split, True),
    }
    return table[one_of("nodes_modes", mode, tuple(table))]


def _branch(
    feature: int, mode: str, split: Any, true: int, false: int, missing: bool
) -> _Branch:
    low, high, is_outside = _interval(mode, split)
    inside, outside = (false, true) if is_outside else (true, false)
    nowhere = true if missing or is_outside else false
    return _Branch(feature, low, high, inside, outside, nowhere)


def _depth(branches: Sequence[_Branch], roots: Sequence[int], leaves: int) -> int:
    """The most steps from a root to a leaf.

    Raises:
        ValueError: a branch leads nowhere, or back to itself.
    """
    depths: dict[int, int] = {}
    entered: set[int] = set()
    waiting = list(roots)
    while waiting:
        place = waiting[-1]
        if not -leaves <= place < len(branches):
            raise ValueError(f"a node leads to {place}, which is no node or leaf")
        if place < 0 or place in depths:
            depths.setdefault(place, 0)
            waiting.pop()
            continue
        branch = branches[place]
        ways = (branch.inside, branch.outside, branch.missing)
        unknown = [way for way in ways if way not in depths]
        if not unknown:
            depths[place] = 1 + max(depths[way] for way in ways)
        elif place in entered:
            raise ValueError("nodes lead to each other in a cycle")
        entered.add(place)
        waiting += unknown
    return max(map(depths.__getitem__, roots), default=0)


def _leaves(
    node: OnnxNode,
    x: ir.Value,
    branches: Sequence[_Branch],
    roots: Sequence[int],
    leaves: int,
) -> ir.Value:
    """The number of the leaf that each row ends at in each tree, leaves coming first."""
    depth = _depth(branches, roots, leaves)
    kind = tensors.dtype_of(x).numpy

    def places(values: Sequence[int]) -> np.ndarray:
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
        nodes[leaves:, column] = places([getattr(b, name) for b in branches])
    bounds = np.zeros((leaves + len(branches), 2), kind)
    bounds[leaves:] = np.array([(b.low, b.high) for b in branches]).reshape(-1, 2)
    tables = (nodes, bounds, places(roots))
    return TreeLeavesOp(x, *map(node.constant, tables), depth=depth).y


def _aggregated(
    node: OnnxNode, found: ir.Value, weights: np.ndarray, how: str
) -> ir.Value:
    """What the leaves of a row say of every target; 0 of those that none speaks of."""
    one_of("aggregate_function", how, _AGGREGATES)
    rows, count = tensors.shape_of(found)
    assert isinstance(count, int)
    if weights.shape[1] == 1:  # one number a leaf: less to move
        said = TakeOp(node.constant(weights[:, 0]), found, axis=0, mode="clip").y
        said = ReshapeOp(said, shape=(rows, count, 1)).y
    else:
        said = TakeOp(node.constant(weights), found, axis=0, mode="clip").y
    op = {"MIN": MinOp, "MAX": MaxOp}.get(how, SumOp)
    total = op(said, axis=(1,), keepdims=False).y
    if how == "AVERAGE":
        return MultiplyOp(total, number(node, 1 / count, total)).z
    if how == "SUM" or not np.isinf(weights).any():
        return total
    return WhereOp(IsinfOp(total).y, number(node, 0, total), total).z


def _weights(
    entries: Sequence[tuple[int, int, float]],
    leaves: int,
    targets: int,
    how: str,
    kind: np.dtype,
) -> np.ndarray:
    """Weights [leaves, targets] from those that are given, as (leaf, target, weight).

    Raises:
        ValueError: there is no such target.
        NotImplementedError: there are too many.
    """
    if leaves * targets > _MOST_WEIGHTS:
        raise NotImplementedError(
            f"{leaves} leaves for {targets} targets: expected up to {_MOST_WEIGHTS} "
            "weights"
        )
    combine = {"MIN": np.minimum, "MAX": np.maximum}.get(how, np.add)
    nothing = {"MIN": np.inf, "MAX": -np.inf}.get(how, 0)
    made = np.full((leaves, targets), nothing, kind)
    for leaf, target, weight in entries:
        if not 0 <= target < targets:
            raise ValueError(f"target {target}: expected 0 to {targets - 1}")
        made[leaf, target] = combine(made[leaf, target], weight)
    return made


@onnx_rule("ai.onnx.ml::TreeEnsemble", since=5)
def tree_ensemble(node: OnnxNode) -> ir.Value:
    """What the leaves that a row ends at say of every target, taken together.

    Source: ONNX (ai.onnx.ml) TreeEnsemble-5.
    """
    x = matrix(node)
    kind = tensors.dtype_of(x).numpy
    roots, branches = list(node.attr("tree_roots")), _branches(node, kind)
    given = np.asarray(node.attr("leaf_weights")).astype(kind)
    targets = list(node.attr("leaf_targetids"))
    if len(targets) != len(given):
        raise ValueError(f"expected {len(given)} leaf_targetids, got {len(targets)}")
    how = _AGGREGATES[
        one_of("aggregate_function", node.attrs.get("aggregate_function", 1), range(4))
    ]
    count = node.attrs.get("n_targets", max(targets, default=0) + 1)
    entries = list(zip(range(len(given)), targets, given, strict=True))
    weights = _weights(entries, len(given), count, how, kind)
    found = _leaves(node, x, branches, roots, len(given))
    total = _aggregated(node, found, weights, how)
    chosen = one_of("post_transform", node.attrs.get("post_transform", 0), range(5))
    return transformed(node, total, _TRANSFORMS[chosen])


def _branches(node: OnnxNode, kind: np.dtype) -> list[_Branch]:
    """The nodes of TreeEnsemble; a test of membership is a chain of nodes.

    Raises:
        ValueError: their attributes have different lengths.
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
        name = _MODES[one_of("nodes_modes", mode, range(len(_MODES)))]
        values = [split] if name != "MEMBER" else next(members, [])
        name = "EQ" if name == "MEMBER" else name
        chain = [_branch(feature, name, v, then, other, bool(nan)) for v in values]
        if not chain:
            raise ValueError("a node tests membership in a set without members")
        for place, earlier in enumerate(chain[:-1], start=len(modes) + len(chains)):
            earlier.outside = place
        branches.append(chain[0])
        chains += chain[1:]
    return [*branches, *chains]


def _members(node: OnnxNode, kind: np.dtype) -> Any:  # Any: an iterator of arrays
    """The sets of values, which NaN separates, one for each test of membership."""
    flat = np.asarray(node.attrs.get("membership_values", []), kind).reshape(-1)
    ends = np.flatnonzero(np.isnan(flat))
    starts = [0, *(ends + 1)]
    return iter([flat[a:b] for a, b in zip(starts, ends, strict=False)])


def _check_lengths(columns: Sequence[Sized]) -> None:
    lengths = sorted(set(map(len, columns)))
    if len(lengths) != 1 or not lengths[0]:
        raise ValueError(
            f"expected one value a node in each of `nodes_*`, got {lengths}"
        )


@dataclass(frozen=True)
class _Listed:
    """Trees whose nodes are named by the numbers of tree and node.

    Attributes:
        branches: those that are no leaves.
        roots: places of the first nodes.
        leaves: from names to numbers of leaves.
    """

    branches: list[_Branch]
    roots: list[int]
    leaves: Mapping[tuple[int, int], int]


def _listed(node: OnnxNode, kind: np.dtype) -> _Listed:
    """The nodes of TreeEnsembleClassifier and TreeEnsembleRegressor.

    Raises:
        ValueError: attributes have different lengths, or a node has two rows, or none.
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
    place = {key: number for number, key in enumerate(inner)}
    leaves = {key: number for number, key in enumerate(outer)}
    place.update({key: ~number for key, number in leaves.items()})
    if len(place) != len(keys):
        raise ValueError("a node of a tree is given twice")
    branches: list[_Branch] = []
    children: set[tuple[int, int]] = set()
    for row, (tree, _, feature, true, false) in enumerate(zip(*columns, strict=True)):
        if is_leaf[row]:
            continue
        pair = ((tree, true), (tree, false))
        if any(key not in place for key in pair):
            raise ValueError(f"tree {tree}: node {true} or {false} is missing")
        children.update(pair)
        then, other = (place[key] for key in pair)
        nan = bool(missing[row])
        branches.append(_branch(feature, modes[row], splits[row], then, other, nan))
    first = {key[0]: key for key in reversed(keys) if key not in children}
    roots = [place[key] for key in first.values()]
    if len(_reached(branches, roots)) != len(keys):
        raise ValueError("every tree needs one node that leads to all others")
    return _Listed(branches, roots, leaves)


def _reached(branches: Sequence[_Branch], roots: Sequence[int]) -> set[int]:
    """The nodes that these lead to, themselves included."""
    found, level = set(roots), set(roots)
    while level:
        ways = [branches[place] for place in level if place >= 0]
        level = {n for b in ways for n in (b.inside, b.outside)} - found
        found |= level
    return found


def _floats(node: OnnxNode, name: str, kind: np.dtype) -> np.ndarray:
    """Numbers of an attribute, or of the tensor in its place."""
    given = node.attrs.get(f"{name}_as_tensor")
    if given is None:
        given = np.array(node.attrs.get(name, []), np.float32)
    return np.asarray(given).reshape(-1).astype(kind)


def _scores(node: OnnxNode, what: str, targets: int, how: str) -> ir.Value:
    """What the leaves of every row say of the targets, in f32."""
    x = matrix(node)
    kind = tensors.dtype_of(x).numpy
    listed = _listed(node, kind)
    owners = zip(
        node.attr(f"{what}_treeids"), node.attr(f"{what}_nodeids"), strict=True
    )
    ids, weights = node.attr(f"{what}_ids"), _floats(node, f"{what}_weights", kind)
    entries: list[tuple[int, int, float]] = []
    for key, target, weight in zip(owners, ids, weights, strict=True):
        if key not in listed.leaves:
            raise ValueError(
                f"tree {key[0]}: node {key[1]} has a weight, and is no leaf"
            )
        entries.append((listed.leaves[key], target, weight))
    count = len(listed.leaves)
    table = _weights(entries, count, targets, how, kind)
    found = _leaves(node, x, listed.branches, listed.roots, count)
    return AstypeOp(_aggregated(node, found, table, how), dtype=_F32).y


@onnx_rule("ai.onnx.ml::TreeEnsembleRegressor", since=1)
def tree_ensemble_regressor(node: OnnxNode) -> ir.Value:
    """What the leaves of a row say of every target, taken together, plus base values.

    Source: ONNX (ai.onnx.ml) TreeEnsembleRegressor-5.
    """
    ids = node.attr("target_ids")
    targets = node.attrs.get("n_targets", max(ids, default=0) + 1)
    total = _scores(node, "target", targets, node.attr("aggregate_function", "SUM"))
    base = _floats(node, "base_values", np.dtype(np.float32))
    if base.size:
        total = AddOp(total, node.constant(base)).z
    return transformed(node, total, node.attr("post_transform", "NONE"))


@onnx_rule("ai.onnx.ml::TreeEnsembleClassifier", since=1)
def tree_ensemble_classifier(node: OnnxNode) -> Sequence[ir.Value]:
    """The class with the highest sum of weights, and these sums.

    Where weights are of one class only, though there are two, the sum is that of the
    second: a probability if no weight is negative, else what 0 is the threshold of.

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
        return [chosen(node, scores, labels), transformed(node, scores, transform)]
    every = _scores(node, "class", max(*ids, len(labels) - 1) + 1, "SUM")
    score = TakeOp(every, node.constant(np.array(list(ids))), axis=1).y
    if base.size:
        score = AddOp(score, node.constant(base[-1:])).z
    return _binary(node, score, labels, transform)


def _binary(
    node: OnnxNode, score: ir.Value, labels: np.ndarray, transform: str
) -> list[ir.Value]:
    """Labels and scores where one number [n, 1] tells two classes apart.

    The first class has the opposite of the second's quantile, where onnxruntime leaves a
    hole.
    """
    weights = _floats(node, "class_weights", np.dtype(np.float32))
    is_probability = bool((weights >= 0).all())
    limit = number(node, 0.5 if is_probability else 0, score)
    is_second = ReshapeOp(GreaterOp(score, limit).z, shape=(-1,)).y
    first, second = (0, labels[0]) if len(labels) == 1 else labels
    pair = [node.constant(np.array(value, np.int64)) for value in (second, first)]
    label = WhereOp(is_second, *pair).z
    if transform == "PROBIT":
        return [label, both(node, transformed(node, score, transform), False)]
    if transform == "LOGISTIC":
        return [label, transformed(node, both(node, score, False), transform)]
    return [label, both(node, score, is_probability)]
