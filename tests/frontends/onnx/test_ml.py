"""Operators of ai.onnx.ml agree with onnxruntime."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import relax_mlir
from relax_mlir.compiler import reference
from relax_mlir.errors import ModelError, RunError, UnsupportedError
from relax_mlir.frontends.onnx import import_onnx
from tests.frontends.onnx.differential import assert_same_numbers, expected, random
from tests.frontends.onnx.single_node import node_model

_X = random(9, 3)
_HOLES = np.where(random(9, 3) > 1, np.nan, random(9, 3)).astype(np.float32)
# Two trees: `x0 <= 0.1 ? (x1 > 0 ? a : b) : c` and a leaf by itself.
_TREES: dict[str, Any] = {
    "nodes_treeids": [0, 0, 0, 0, 0, 1],
    "nodes_nodeids": [0, 1, 2, 3, 4, 0],
    "nodes_featureids": [0, 1, 0, 0, 0, 0],
    "nodes_modes": ["BRANCH_LEQ", "BRANCH_GT", *["LEAF"] * 4],
    "nodes_values": [0.1, 0.0, 0.0, 0.0, 0.0, 0.0],
    "nodes_truenodeids": [1, 2, 0, 0, 0, 0],
    "nodes_falsenodeids": [4, 3, 0, 0, 0, 0],
}
_LEAVES = {"treeids": [0, 0, 0, 1], "nodeids": [2, 3, 4, 0]}


def _regressor(**attrs: Any) -> dict[str, Any]:
    leaves = {f"target_{name}": value for name, value in _LEAVES.items()}
    given = {"target_ids": [0, 1, 0, 1], "target_weights": [1.0, -2.0, 3.0, 0.5]}
    return {**_TREES, **leaves, **given, "n_targets": 2, **attrs}


def _classifier(**attrs: Any) -> dict[str, Any]:
    leaves = {f"class_{name}": value for name, value in _LEAVES.items()}
    given = {"class_ids": [0, 1, 2, 1], "class_weights": [1.0, 0.7, 0.8, 0.1]}
    labels = {"classlabels_int64s": [5, 7, 9]}
    return {**_TREES, **leaves, **given, **labels, **attrs}


_ONE_CLASS = {"class_ids": [0] * 4, "classlabels_int64s": [3, 8]}
_SIGNED = {**_ONE_CLASS, "class_weights": [1.0, -2.0, 0.5, 0.1]}


@pytest.mark.parametrize("x", [_X, _HOLES, _X.astype(np.float64)], ids=str)
@pytest.mark.parametrize(
    "attrs",
    [
        {},
        {"aggregate_function": "MIN", "target_ids": [0, 1, 0, 0]},
        {
            "aggregate_function": "MAX",
            "base_values": [1.0, 2.0],
            "target_ids": [0, 0, 0, 1],
        },
        {"aggregate_function": "AVERAGE", "post_transform": "LOGISTIC"},
        {"nodes_missing_value_tracks_true": [1, 1, 0, 0, 0, 0]},
    ],
)
def test_tree_ensemble_regressors(x: np.ndarray, attrs: dict[str, Any]) -> None:
    model, feeds = node_model(
        "ai.onnx.ml::TreeEnsembleRegressor", [x], **_regressor(**attrs)
    )

    assert_same_numbers(model, feeds)


@pytest.mark.parametrize(
    "mode",
    ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"],
)
def test_tree_comparison_modes(mode: str) -> None:
    below, above = np.nextafter(np.float32(0.1), np.array([-1, 1], np.float32))
    x = np.zeros((5, 2), np.float32)
    x[:, 0] = [below, np.float32(0.1), above, np.nan, -np.inf]
    modes = [mode, "BRANCH_GT", *["LEAF"] * 4]
    attrs = _regressor(nodes_modes=modes)
    model, feeds = node_model("ai.onnx.ml::TreeEnsembleRegressor", [x], **attrs)

    assert_same_numbers(model, feeds)


@pytest.mark.parametrize(
    "attrs",
    [
        {},
        {"post_transform": "SOFTMAX", "base_values": [0.1, 0.2, 0.9]},
        {"post_transform": "SOFTMAX_ZERO"},
        _ONE_CLASS,
        {**_ONE_CLASS, "post_transform": "LOGISTIC"},
        _SIGNED,
        {**_SIGNED, "post_transform": "LOGISTIC"},
    ],
)
def test_tree_ensemble_classifiers(attrs: dict[str, Any]) -> None:
    model, feeds = node_model(
        "ai.onnx.ml::TreeEnsembleClassifier", [_X], 2, **_classifier(**attrs)
    )

    assert_same_numbers(model, feeds)


def test_probit_of_binary_classes_is_opposite() -> None:
    """As in ONNX's definition; onnxruntime gives a number and nothing."""
    attrs = _classifier(**_ONE_CLASS, class_weights=[0.1, 0.2, 0.3, 0.4])
    attrs["post_transform"] = "PROBIT"
    model, feeds = node_model("ai.onnx.ml::TreeEnsembleClassifier", [_X], 2, **attrs)

    labels, scores = reference.run(import_onnx(model), *feeds.values())

    wanted_labels, wanted = expected(model, feeds)
    np.testing.assert_array_equal(labels, wanted_labels)
    both = np.stack([-wanted[:, 0], wanted[:, 0]], 1)
    np.testing.assert_allclose(scores, both, rtol=1e-5)  # of approximations


@pytest.mark.parametrize("operator", ["LinearClassifier", "SVMClassifier"])
def test_feature_vector_is_one_row(operator: str) -> None:
    linear: dict[str, Any] = {"coefficients": [0.5, -1, 2, 0.25, 1, -0.5]}
    linear["intercepts"] = [0.5, -0.25]
    vectors: dict[str, Any] = {
        **_KERNEL,
        "kernel_type": "RBF",
        "support_vectors": random(4, 3).reshape(-1).tolist(),
        "coefficients": [0.5, -1.0, 2.0, 0.25],
        "vectors_per_class": [2, 2],
    }
    attrs = linear if operator == "LinearClassifier" else vectors
    model, feeds = node_model(
        f"ai.onnx.ml::{operator}", [_X[0]], 2, classlabels_ints=[3, 7], **attrs
    )

    assert_same_numbers(model, feeds)


@pytest.mark.slow  # two programs
def test_compiled_trees_accept_any_number_of_rows() -> None:
    model, _ = node_model(
        "ai.onnx.ml::TreeEnsembleClassifier", [_X], 2, **_classifier()
    )
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    compiled = relax_mlir.compile(import_onnx(model))

    for rows in (1, 9):
        wanted = reference.run(import_onnx(model), _X[:rows])
        for mine, right in zip(compiled(_X[:rows]), wanted, strict=True):
            np.testing.assert_allclose(mine, right, rtol=1e-6)


_KERNEL: dict[str, Any] = {"kernel_params": [0.5, 0.2, 2.0], "rho": [0.3]}
_VECTORS: dict[str, Any] = {"support_vectors": random(4, 3).reshape(-1).tolist()}
_COEFFICIENTS = [0.5, -1.0, 2.0, 0.25]


@pytest.mark.parametrize("kernel", ["LINEAR", "POLY", "RBF", "SIGMOID"])
@pytest.mark.parametrize("one_class", [0, 1])
def test_svm_regressors(kernel: str, one_class: int) -> None:
    model, feeds = node_model(
        "ai.onnx.ml::SVMRegressor",
        [_X],
        coefficients=_COEFFICIENTS,
        kernel_type=kernel,
        n_supports=4,
        one_class=one_class,
        **_VECTORS,
        **_KERNEL,
    )

    assert_same_numbers(model, feeds)


@pytest.mark.parametrize("is_probable", [False, True])
@pytest.mark.parametrize(
    ("sizes", "rho", "rows"), [([2, 2], [0.1], 1), ([2, 1, 1], [0.1, -0.2, 0.3], 2)]
)
def test_svm_classifiers(
    sizes: list[int], rho: list[float], rows: int, is_probable: bool
) -> None:
    probable: dict[str, Any] = {
        "prob_a": [-1.5 * (n + 1) for n in range(len(rho))],
        "prob_b": [0.1 * n for n in range(len(rho))],
    }
    model, feeds = node_model(
        "ai.onnx.ml::SVMClassifier",
        [_X],
        2,
        classlabels_ints=list(range(len(sizes))),
        coefficients=_COEFFICIENTS * rows,
        kernel_type="RBF",
        kernel_params=_KERNEL["kernel_params"],
        rho=rho,
        vectors_per_class=sizes,
        **_VECTORS,
        **(probable if is_probable else {}),
    )

    assert_same_numbers(model, feeds)


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "PROBIT"])
def test_linear_models(transform: str) -> None:
    numbers = np.linspace(-0.3, 0.3, 9).tolist()
    labels: dict[str, Any] = {"classlabels_ints": [4, 2, 6]}
    targets: dict[str, Any] = {"targets": 3}
    shifts = {"intercepts": [0.3, 0.5, 0.7], "post_transform": transform}
    given: dict[str, Any] = {"coefficients": numbers, **shifts}
    for operator, outputs, more in (
        ("LinearRegressor", 1, targets),
        ("LinearClassifier", 2, labels),
    ):
        model, feeds = node_model(
            f"ai.onnx.ml::{operator}", [_X * 0.1], outputs, **given, **more
        )
        assert_same_numbers(model, feeds, tolerance=1e-5)


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC"])
def test_binary_classifier_with_one_score(transform: str) -> None:
    model, feeds = node_model(
        "ai.onnx.ml::LinearClassifier",
        [_X],
        2,
        classlabels_ints=[4, 2],
        coefficients=[0.5, -1.0, 0.2],
        intercepts=[0.1],
        post_transform=transform,
    )

    assert_same_numbers(model, feeds)


_INTEGERS = np.array([[3, 1], [7, 0], [3, 9]], np.int64)


@pytest.mark.parametrize(
    ("operator", "inputs", "attrs"),
    [
        ("ArrayFeatureExtractor", [_X, np.array([2, 0])], {}),
        ("ArrayFeatureExtractor", [_X[0], np.array([2, 0])], {}),
        ("Binarizer", [_X], {"threshold": 0.25}),
        ("Scaler", [_X], {"offset": [0.5, 1.0, 0.0], "scale": [2.0, 3.0, 4.0]}),
        ("Scaler", [_INTEGERS], {"offset": [2.0], "scale": [0.5]}),
        ("Normalizer", [_X], {"norm": "MAX"}),
        ("Normalizer", [np.vstack([_X, 0 * _X[:1]])], {"norm": "L1"}),
        ("Normalizer", [_X], {"norm": "L2"}),
        (
            "Imputer",
            [_HOLES],
            {"imputed_value_floats": [1.0, 2.0, 3.0], "replaced_value_float": np.nan},
        ),
        (
            "Imputer",
            [_INTEGERS],
            {"imputed_value_int64s": [5], "replaced_value_int64": 3},
        ),
        ("FeatureVectorizer", [_X, _X[:, :2]], {"inputdimensions": [3, 2]}),
        ("FeatureVectorizer", [_X[0], _X[1, :2]], {"inputdimensions": [3, 2]}),
        ("OneHotEncoder", [_INTEGERS], {"cats_int64s": [3, 7, 1]}),
        (
            "LabelEncoder",
            [_INTEGERS],
            {"keys_int64s": [9, 1, 3], "values_floats": [0.5, 1.5, 2.5]},
        ),
        (
            "LabelEncoder",
            [_HOLES],
            {
                "keys_floats": [float("nan"), 2.0],
                "values_int64s": [4, 5],
                "default_int64": -7,
            },
        ),
    ],
)
def test_features(operator: str, inputs: list[Any], attrs: dict[str, Any]) -> None:
    opsets = {"ai.onnx.ml": 4} if operator == "LabelEncoder" else {}
    model, feeds = node_model(f"ai.onnx.ml::{operator}", inputs, opsets=opsets, **attrs)

    assert_same_numbers(model, feeds)


def test_opset_can_be_imported_twice() -> None:
    """skl2onnx does so."""
    model, feeds = node_model("ai.onnx.ml::Binarizer", [_X], threshold=0.5)
    model.opset_import.append(model.opset_import[0])

    (actual,) = reference.run(import_onnx(model), *feeds.values())

    np.testing.assert_array_equal(actual, _X > 0.5)


@pytest.mark.slow  # compiles
@pytest.mark.parametrize("count", [1, 2, 7, 8])
def test_compiled_label_encoder_finds_every_key(count: int) -> None:
    keys = [3 * n for n in reversed(range(count))]
    x = np.arange(-2, 3 * count + 2)
    model, feeds = node_model(
        "ai.onnx.ml::LabelEncoder",
        [x],
        keys_int64s=keys,
        values_int64s=list(range(count)),
    )

    (actual,) = relax_mlir.compile(import_onnx(model))(*feeds.values())

    wanted = [keys.index(v) if v in keys else -1 for v in x.tolist()]
    np.testing.assert_array_equal(actual, wanted)


def _tensor(values: list[float], kind: int = TensorProto.DOUBLE) -> onnx.TensorProto:
    return helper.make_tensor("t", kind, [len(values)], values)


def test_cyclic_trees_are_rejected() -> None:
    model, _ = node_model(
        "ai.onnx.ml::TreeEnsemble",
        [np.array([[1.0]])],
        opsets={"ai.onnx.ml": 5},
        tree_roots=[0],
        nodes_modes=_tensor([0, 0], TensorProto.UINT8),
        nodes_splits=_tensor([0.0, 0.0]),
        nodes_featureids=[0, 0],
        nodes_truenodeids=[1, 0],
        nodes_trueleafs=[0, 0],
        nodes_falsenodeids=[0, 0],
        nodes_falseleafs=[1, 1],
        leaf_weights=_tensor([10.0]),
        leaf_targetids=[0],
    )

    with pytest.raises(ModelError, match="the nodes of a tree form a cycle"):
        import_onnx(model)


def test_tree_set_membership() -> None:
    """onnxruntime has no TreeEnsemble of doubles with sets."""
    x = np.array([[1.0], [2.0], [3.0], [np.nan]])
    model, _ = node_model(
        "ai.onnx.ml::TreeEnsemble",
        [x],
        opsets={"ai.onnx.ml": 5},
        tree_roots=[0],
        nodes_modes=_tensor([6], TensorProto.UINT8),
        nodes_splits=_tensor([0.0]),
        nodes_featureids=[0],
        nodes_truenodeids=[0],
        nodes_trueleafs=[1],
        nodes_falsenodeids=[1],
        nodes_falseleafs=[1],
        leaf_weights=_tensor([10.0, 20.0]),
        leaf_targetids=[0, 0],
        membership_values=_tensor([1.0, 3.0, float("nan")]),
        n_targets=1,
    )

    (actual,) = reference.run(import_onnx(model), x)

    np.testing.assert_array_equal(actual, [[10], [20], [10], [20]])


@pytest.mark.parametrize(
    ("attrs", "names"),
    [
        ({"classlabels_int64s": [4, 2, 7]}, [4, 2, 7]),
        ({"classlabels_strings": ["cat", "dog", "Maß"]}, ["cat", "dog", "Maß"]),
    ],
)
def test_zipmap_rows_become_dictionaries(
    attrs: dict[str, Any], names: list[Any]
) -> None:
    model, _ = node_model("ai.onnx.ml::ZipMap", [_X], **attrs)

    (rows,) = relax_mlir.compile(model)(_X)

    assert rows == [dict(zip(names, row, strict=True)) for row in _X.tolist()]


def test_zipmap_needs_a_name_per_column() -> None:
    model, _ = node_model("ai.onnx.ml::ZipMap", [_X], classlabels_int64s=[1])

    with pytest.raises(
        RunError, match=r"\(ai.onnx.ml::ZipMap\): .*\[n, 1\] .*got \[9, 3\]"
    ):
        relax_mlir.compile(model)(_X)


@pytest.mark.parametrize(
    ("operator", "inputs", "attrs", "error", "message"),
    [
        (
            "TreeEnsembleRegressor",
            [_X],
            _regressor(nodes_truenodeids=[1, 0, 0, 0, 0, 0]),
            ModelError,
            "every tree needs one root from which all its nodes are reachable",
        ),
        (
            "TreeEnsembleRegressor",
            [_X],
            _regressor(nodes_truenodeids=[8, 2, 0, 0, 0, 0]),
            ModelError,
            "tree 0: node 8 or 4 is missing",
        ),
        (
            "TreeEnsembleRegressor",
            [_X],
            _regressor(nodes_featureids=[3, 1, 0, 0, 0, 0]),
            ModelError,
            "expected 4 features or more, got 3",
        ),
        (
            "TreeEnsembleRegressor",
            [_X],
            _regressor(n_targets=2**30),
            UnsupportedError,
            "4 leaves for 1073741824 targets",
        ),
        (
            "Scaler",
            [_X],
            {"scale": [1.0, 2.0], "offset": [0.0] * 2},
            ModelError,
            "expected 1 or 3 numbers",
        ),
        (
            "Scaler",
            [_X],
            {"scale": [1.0]},
            ModelError,
            r"equal numbers of offsets and scales, got \[0, 1\]",
        ),
        (
            "LinearRegressor",
            [_X],
            {"coefficients": [1.0, 2.0]},
            ModelError,
            "expected 2 features, got 3",
        ),
        (
            "FeatureVectorizer",
            [_X],
            {"inputdimensions": [2]},
            ModelError,
            "input 0: expected 2 features, got 3",
        ),
        *(
            (
                "FeatureVectorizer",
                [x],
                {"inputdimensions": [1]},
                ModelError,
                "input 0: expected rank 1 or 2, got",
            )
            for x in (np.float32(1), np.ones((2, 1, 1), np.float32))
        ),
        (
            "LinearRegressor",
            [_X],
            {"coefficients": [1.0, 2.0, 3.0], "intercepts": [1.0, 2.0]},
            ModelError,
            "`intercepts`: expected 1 numbers, got 2",
        ),
        (
            "Normalizer",
            [_X],
            {"norm": "L3"},
            ModelError,
            "attribute `norm`: expected one of MAX, L1, L2, got 'L3'",
        ),
    ],
)
def test_invalid_nodes_are_rejected(
    operator: str,
    inputs: list[Any],
    attrs: dict[str, Any],
    error: type[Exception],
    message: str,
) -> None:
    model, _ = node_model(f"ai.onnx.ml::{operator}", inputs, **attrs)

    with pytest.raises(error, match=message):
        import_onnx(model)


@pytest.mark.slow  # compiles
def test_symbolic_feature_count_matches_the_node() -> None:
    inputs, attrs = [_X, _X[:, :2]], dict[str, Any](inputdimensions=[3, 2])
    model, _ = node_model("ai.onnx.ml::FeatureVectorizer", inputs, **attrs)
    model.graph.input[1].type.tensor_type.shape.dim[1].dim_param = "n"
    compiled = relax_mlir.compile(import_onnx(model))

    np.testing.assert_array_equal(
        compiled(_X, _X[:, :2])[0], np.concatenate([_X, _X[:, :2]], 1)
    )
    with pytest.raises(ValueError, match="`main`: argument 1"):
        compiled(_X, _X)
