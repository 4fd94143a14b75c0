"""Seed models of node mutants: ONNX's node tests, and operators without such tests."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.backend.test import loader

from tests.frontends.onnx.single_node import node_model

__all__ = ["NodeCase", "bases", "text_models"]

# Operators of which two runtimes need not agree: they draw numbers.
_RANDOM = frozenset(
    (
        *("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike"),
        *("RandomUniform", "RandomUniformLike"),
    )
)
# Loops whose counts are mutated run for years; windows of size 2^31 fill the memory.
_ENDLESS = frozenset(("Loop", "BlackmanWindow", "HammingWindow", "HannWindow"))


@dataclass
class NodeCase:
    """A model of one or few nodes, with inputs.

    Attributes:
        name: of the node test.
        model: of the node.
        feeds: its inputs.
        place: of the node that is changed.
        layouts: the key in ``LAYOUTS`` by which an input is passed to our compiled code.
        folds: whether the model is also compiled with all inputs as initializers.
        mutations: what was changed, in words.
    """

    name: str
    model: onnx.ModelProto
    feeds: dict[str, np.ndarray]
    place: int = 0
    layouts: dict[str, str] = field(default_factory=dict)
    folds: bool = False
    mutations: list[str] = field(default_factory=list)

    @property
    def node(self) -> onnx.NodeProto:
        """The node to mutate."""
        return self.model.graph.node[self.place]

    def arrays(self) -> dict[str, np.ndarray]:
        """The values of inputs and initializers."""
        return {t.name: _array(t) for t in self.model.graph.initializer} | self.feeds

    def declare(self) -> None:
        """Give the graph's inputs the types of the arrays, and its outputs none."""
        del self.model.graph.input[:], self.model.graph.value_info[:]
        for name, array in self.feeds.items():
            value = helper.make_tensor_value_info(name, _element(array), array.shape)
            self.model.graph.input.append(value)
        for value in self.model.graph.output:
            value.ClearField("type")

    def folded(self) -> onnx.ModelProto:
        """The model with all inputs as initializers."""
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        del model.graph.input[:]
        for name, array in self.feeds.items():
            model.graph.initializer.append(numpy_helper.from_array(array, name))
        return model


def _element(array: np.ndarray) -> int:
    if array.dtype.kind == "O":
        return onnx.TensorProto.STRING
    return helper.np_dtype_to_tensor_dtype(array.dtype)


@cache
def bases() -> tuple[NodeCase, ...]:
    """Node tests on tensors, and models of other operators."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ONNX's own arithmetic overflows here
        tests = loader.load_model_tests(kind="node")
    found: list[NodeCase] = []
    for test in sorted(tests, key=lambda t: t.name):
        base = None if "_expanded" in test.name else _base(test)
        if base is not None:
            found.append(base)
    return (*found, *_feature_models(), *text_models(_TEXTS))


def _base(test: Any) -> NodeCase | None:  # Any: its class is not exported
    model, (inputs, outputs) = test.model, test.data_sets[0]
    if any(isinstance(a, list) or a is None for a in (*inputs, *outputs)):
        return None
    if len(model.graph.node) != 1 or len(inputs) != len(model.graph.input):
        return None
    operator = model.graph.node[0].op_type
    if operator in _RANDOM | _ENDLESS:
        return None
    if operator == "Dropout" and "training" in test.name:
        return None
    names = [value.name for value in model.graph.input]
    feeds = dict(zip(names, map(_array, inputs), strict=True))
    return NodeCase(test.name, model, feeds)


def _array(given: Any) -> np.ndarray:  # Any: an array, a number, or a TensorProto
    if isinstance(given, onnx.TensorProto):
        given = numpy_helper.to_array(given)
    array = np.asarray(given)
    return array.astype(object) if array.dtype.kind in "OSU" else array


def _feature_models() -> Iterator[NodeCase]:
    """Models of ai.onnx.ml, which has few node tests."""
    x = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    holes = np.where(x > 1, np.nan, x).astype(np.float32)
    numbers = np.array([[3, 1], [4, 3]], np.int64)
    words = np.array(["a", "b", "c"], object)
    weights, labels = [0.5, -1.0, 2.0, 0.25, 1.0, -0.5], [3, 7]
    kernel: dict[str, Any] = {
        "kernel_params": [0.5, 0.2, 2.0],
        "support_vectors": [float(v) for v in np.linspace(-1, 1, 12)],
        "coefficients": [0.5, -1.0, 2.0, 0.25],
    }
    linear: dict[str, Any] = {"coefficients": weights, "intercepts": [0.5, -0.25]}
    machine: dict[str, Any] = {**kernel, "rho": [0.1], "vectors_per_class": [2, 2]}
    probable: dict[str, Any] = {"prob_a": [-1.5], "prob_b": [0.1]}
    tree: dict[str, Any] = {
        "nodes_treeids": [0, 0, 0, 0, 0, 1],
        "nodes_nodeids": [0, 1, 2, 3, 4, 0],
        "nodes_featureids": [0, 1, 0, 0, 0, 0],
        "nodes_modes": ["BRANCH_LEQ", "BRANCH_GT", *["LEAF"] * 4],
        "nodes_values": [0.1, 0.0, 0.0, 0.0, 0.0, 0.0],
        "nodes_truenodeids": [1, 2, 0, 0, 0, 0],
        "nodes_falsenodeids": [4, 3, 0, 0, 0, 0],
    }
    leaves = {"treeids": [0, 0, 0, 1], "nodeids": [2, 3, 4, 0], "ids": [0, 1, 0, 1]}
    amounts = [1.0, -2.0, 3.0, 0.5]
    goals = {f"target_{key}": value for key, value in leaves.items()}
    classes = {f"class_{key}": value for key, value in leaves.items()}
    models: tuple[tuple[str, list[np.ndarray], int, dict[str, Any]], ...] = (
        ("FeatureVectorizer", [x, x[:, :2]], 1, {"inputdimensions": [3, 2]}),
        ("Imputer", [holes], 1, {"imputed_value_floats": [1.0, 2.0, 3.0]}),
        (
            "Imputer",
            [numbers],
            1,
            {"imputed_value_int64s": [9, 8], "replaced_value_int64": 3},
        ),
        ("Normalizer", [x], 1, {"norm": "L2"}),
        ("OneHotEncoder", [numbers], 1, {"cats_int64s": [1, 3], "zeros": 1}),
        ("OneHotEncoder", [words], 1, {"cats_strings": ["a", "c"], "zeros": 1}),
        ("Scaler", [x], 1, {"offset": [1.0, 0.0, 2.0], "scale": [1.0, 2.0, 0.5]}),
        ("CategoryMapper", [words], 1, {"cats_strings": ["a"], "cats_int64s": [4]}),
        ("CategoryMapper", [numbers], 1, {"cats_strings": ["a"], "cats_int64s": [4]}),
        (
            "LabelEncoder",
            [numbers],
            1,
            {"keys_int64s": [1, 3], "values_floats": [0.5, 2.0]},
        ),
        (
            "LabelEncoder",
            [words],
            1,
            {"keys_strings": ["a", "b"], "values_int64s": [5, 6]},
        ),
        ("LinearRegressor", [x], 1, {**linear, "targets": 2}),
        (
            "LinearClassifier",
            [x],
            2,
            {**linear, "classlabels_ints": labels, "post_transform": "SOFTMAX"},
        ),
        (
            "SVMRegressor",
            [x],
            1,
            {**kernel, "kernel_type": "RBF", "n_supports": 4, "rho": [0.3]},
        ),
        (
            "SVMClassifier",
            [x],
            2,
            {**machine, "classlabels_ints": labels, "kernel_type": "POLY"},
        ),
        (
            "SVMClassifier",
            [x],
            2,
            {**machine, **probable, "classlabels_ints": labels, "kernel_type": "RBF"},
        ),
        (
            "TreeEnsembleRegressor",
            [x],
            1,
            {**tree, **goals, "target_weights": amounts, "n_targets": 2},
        ),
        (
            "TreeEnsembleClassifier",
            [x],
            2,
            {
                **tree,
                **classes,
                "class_weights": amounts,
                "classlabels_int64s": labels,
                "post_transform": "LOGISTIC",
            },
        ),
    )
    for operator, inputs, outputs, attrs in models:
        model, feeds = node_model(f"ai.onnx.ml::{operator}", inputs, outputs, **attrs)
        yield NodeCase(f"model_{operator}", model, feeds)


_TEXTS = {
    "GlobalLpPool": "(float[2,3,4,5] x) => (y) { y = GlobalLpPool <p = 2> (x) }",
    "MaxRoiPool": """(float[2,3,8,9] x, float[3,5] r) => (y) {
        y = MaxRoiPool <pooled_shape = [2, 3], spatial_scale = 0.7> (x, r) }""",
    "ConcatFromSequence": """(float[2,3] a, float[2,3] b) => (y) {
        s = SequenceConstruct (a, b)
        y = ConcatFromSequence <axis = 1, new_axis = 0> (s) }""",
    "SplitToSequence": """(float[6,3] x, int64[3] split, int64 i) => (y, n) {
        s = SplitToSequence <axis = 0, keepdims = 1> (x, split)
        y = SequenceAt (s, i)
        n = SequenceLength (s) }""",
    "SequenceAt": """(float[2,3] a, float[4] b, int64 i) => (y) {
        s = SequenceConstruct (a, b)
        y = SequenceAt (s, i) }""",
    "SequenceInsert": """(float[2,3] a, float[2,3] b, int64 i) => (y) {
        s = SequenceConstruct (a, a)
        t = SequenceInsert (s, b, i)
        y = ConcatFromSequence <axis = 0> (t) }""",
    "SequenceErase": """(float[2,3] a, float[2,3] b, int64 i) => (y) {
        s = SequenceConstruct (a, b)
        t = SequenceErase (s, i)
        y = ConcatFromSequence <axis = 0> (t) }""",
    "OneHot": """(int64[2,3] i, int64 depth, float[2] values) => (y) {
        y = OneHot <axis = 1> (i, depth, values) }""",
    "Expand": """(float[3,1] x, int64[3] s) => (y) { y = Expand (x, s) }""",
    "Conv": """(float[1,2,7,8] x, float[4,1,3,3] w, float[4] b) => (y) {
        y = Conv <group = 2, strides = [2, 1], pads = [1, 0, 2, 1]> (x, w, b) }""",
    "ConvTranspose": """(float[2,4,5,6] x, float[4,1,3,2] w, float[2] b) => (y) {
        y = ConvTranspose <group = 2, strides = [2, 1], pads = [1, 0, 0, 1]>
            (x, w, b) }""",
    "QLinearConv": """(uint8[1,2,5,5] x, float xs, uint8 xz, int8[3,2,3,3] w,
        float[3] ws, int8[3] wz, float ys, uint8 yz, int32[3] b) => (y) {
        y = QLinearConv <pads = [1, 1, 1, 1]> (x, xs, xz, w, ws, wz, ys, yz, b) }""",
    "ConvInteger": """(uint8[1,2,5,5] x, int8[3,2,3,3] w, uint8 xz, int8 wz) => (y) {
        y = ConvInteger <strides = [2, 1]> (x, w, xz, wz) }""",
    "MatMulInteger": """(uint8[2,3,4] a, int8[4,5] b, uint8 az, int8[5] bz) => (y) {
        y = MatMulInteger (a, b, az, bz) }""",
    "DynamicQuantizeLinear": """(float[3,4] x) => (y, s, z) {
        y, s, z = DynamicQuantizeLinear (x) }""",
    "ReverseSequence": """(float[4,3,2] x, int64[3] n) => (y) {
        y = ReverseSequence <batch_axis = 1, time_axis = 0> (x, n) }""",
    "LpPool": """(float[1,2,9] x) => (y) {
        y = LpPool <kernel_shape = [3], strides = [2], p = 3> (x) }""",
    "BlackmanWindow": "(float[3] x) => (y) { n = Size (x)  y = BlackmanWindow (n) }",
    "HannWindow": "(float[4] x) => (y) { n = Size (x)  y = HannWindow (n) }",
    "HammingWindow": "(float[5] x) => (y) { n = Size (x)  y = HammingWindow (n) }",
}
_OPSET = 21  # of the models above


def text_models(texts: Mapping[str, str]) -> Iterator[NodeCase]:
    """Models by name, as text without a header, and random inputs; a case for each node."""
    rng = np.random.default_rng(1)
    for operator, text in texts.items():
        header = f'<ir_version: 8, opset_import: ["" : {_OPSET}]> g '
        model = onnx.parser.parse_model(header + text)
        feeds = {v.name: _drawn(rng, v) for v in model.graph.input}
        for place, node in enumerate(model.graph.node):
            made = onnx.ModelProto()
            made.CopyFrom(model)
            name = f"model_{operator}_{node.op_type}"
            yield NodeCase(name, made, dict(feeds), place)


def _drawn(rng: np.random.Generator, value: onnx.ValueInfoProto) -> np.ndarray:
    tensor = value.type.tensor_type
    dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    shape = tuple(d.dim_value for d in tensor.shape.dim)
    if dtype.kind == "f" and not shape:
        return np.array(0.5, dtype)
    if dtype.kind == "f":
        return rng.normal(size=shape).astype(dtype)
    return rng.integers(1, 4, shape).astype(dtype)
