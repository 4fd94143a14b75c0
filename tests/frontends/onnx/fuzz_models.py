"""Valid seed models that cover the importer and stages, and their inputs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper, parser

from tests.frontends.onnx.mutations import base_models
from tests.frontends.onnx.single_node import node_model

__all__ = ["Base", "bases"]
Feeds = Mapping[str, Any]
"""Inputs by name: arrays, lists of arrays, or None."""


@dataclass(frozen=True)
class Base:
    """A model with valid inputs.

    Attributes:
        name: of what it is for.
        model: the message, which nobody changes.
        feeds: inputs that it takes.
    """

    name: str
    model: onnx.ModelProto
    feeds: Feeds


_HEADER = (
    """<ir_version: 10, opset_import: ["" : %d, "local" : 1, "com.microsoft" : 1]>"""
)


def _f(*shape: int) -> np.ndarray:
    rng = np.random.default_rng(int(np.prod(shape)))
    return rng.standard_normal(shape).astype(np.float32)


def _i(*values: int, dtype: Any = np.int64) -> np.ndarray:
    return np.array(values, dtype)


def _n(value: Any, dtype: Any = np.int64) -> np.ndarray:
    return np.array(value, dtype)


_X = _f(2, 3)
_YES = _n(True, np.bool_)
_WORDS = np.array(["red", "green", "blue"], object)

# By name: the opset, the graph, what it is called with.
_GRAPHS: Mapping[str, tuple[int, str, Feeds]] = {
    "if": (
        21,
        """g (float[n, 3] x, bool c, bool d) => (float[k, l] y) {
            b = If (c) <then_branch = t () => (float[n, 3] p) {
                    p = If (d) <then_branch = u () => (float[a] q) { q = Neg (x) },
                                else_branch = v () => (float[a] r) { r = Abs (x) }>
                }, else_branch = e () => (float[3, n] s) { s = Transpose (x) }>
            y = Relu (b) }""",
        {"x": _X, "c": _YES, "d": _n(False, np.bool_)},
    ),
    "loop": (
        21,
        """g (int64 n, bool c, float[3] a) => (float[3] z, float[k, 3] ys) {
            w = Constant <value_floats = [1.0, 2.0, 3.0]> ()
            z, ys = Loop (n, c, a) <body = b
                (int64 i, bool ci, float[3] s) => (bool co, float[3] t, float[3] y) {
                co = Identity (ci)
                two = Constant <value = int64 {2}> ()
                t = Loop (two, ci, s) <body = inner
                    (int64 j, bool di, float[3] u) => (bool eo, float[3] v) {
                    eo = Identity (di)
                    v = Add (u, w) }>
                y = Neg (t) }> }""",
        {"n": _n(4), "c": _YES, "a": _f(3)},
    ),
    "grow": (
        21,
        """g (int64 n, float[k] a) => (float[m] z) {
            c = Constant <value = bool {1}> ()
            z = Loop (n, c, a) <body = b
                (int64 i, bool ci, float[p] s) => (bool co, float[q] t) {
                five = Constant <value = int64 {5}> ()
                co = Less (i, five)
                t = Concat <axis = 0> (s, a) }> }""",
        {"n": _n(3), "a": _f(2)},
    ),
    "scan": (
        21,
        """g (float[2] a, float[2, t] x, float[t, 3] w) => (float[2] z, float[2, t] y, float[t, 3] v) {
            z, y, v = Scan <num_scan_inputs = 2, scan_input_axes = [1, 0],
                scan_input_directions = [0, 1], scan_output_axes = [-1, 0],
                scan_output_directions = [1, 0],
                body = b (float[2] s, float[2] e, float[3] f)
                    => (float[2] r, float[2] o, float[3] p) {
                    r = Add (s, e) o = Mul (r, e) p = Neg (f) }> (a, x, w) }""",
        {"a": _f(2), "x": _f(2, 4), "w": _f(4, 3)},
    ),
    "sequence": (
        21,
        """g (float[a, b] x, float[a, b] w, int64 at) => (float[c, d] y, int64 n) {
            s = SequenceConstruct (x, w)
            m = Neg (x)
            t = SequenceInsert (s, m, at)
            u = SequenceErase (t, at)
            p = SequenceAt (u, at)
            n = SequenceLength (t)
            j = ConcatFromSequence <axis = 0> (t)
            y = Concat <axis = 0> (p, j) }""",
        {"x": _X, "w": _f(2, 3), "at": _n(0)},
    ),
    "split_map": (
        21,
        """g (float[a, 3] x, int64[k] sizes) => (float[c, d] y, float[p, q, r] z) {
            s = SplitToSequence <axis = 0> (x, sizes)
            m = SequenceMap (s, x) <body = b (float[a, 3] e, float[a, 3] o) => (float[k, 3] f) {
                w = ReduceSum <keepdims = 1> (o) f = Add (e, w) }>
            y = ConcatFromSequence <axis = 0> (m)
            t = SplitToSequence <axis = 1, keepdims = 0> (x)
            z = ConcatFromSequence <axis = 0, new_axis = 1> (t) }""",
        {"x": _f(4, 3), "sizes": _i(1, 3)},
    ),
    "optional": (
        21,
        """g (float[a, b] x, int64 k) => (bool h, float[a, b] y) {
            o = Optional (x)
            h = OptionalHasElement (o)
            e = OptionalGetElement (o)
            y = CumSum (e, k) }""",
        {"x": _X, "k": _n(1)},
    ),
    "sequence_input": (
        21,
        """g (seq(float[n]) s, int64 k) => (float[m] y) {
            p = SequenceAt (s, k)
            y = Exp (p) }""",
        {"s": [_f(3), _f(2)], "k": _n(1)},
    ),
    "axes": (
        21,
        """g (float[a, b] x, int64[k] axes, int64[r] shape, int64[1] n)
            => (float[c, d] s, float[e, f] v, float[a, h] t, int64[a, h] i, float[j] u) {
            s = ReduceSum (x, axes)
            v = Reshape (x, shape)
            t, i = TopK (x, n)
            w = Unsqueeze (x, axes)
            u = Squeeze (w, axes) }""",
        {"x": _X, "axes": _i(0), "shape": _i(3, 2), "n": _i(2)},
    ),
    "bounds": (
        21,
        """g (float[a, b] x, int64[k] lo, int64[k] hi, int64[k] axes, int64[k] steps,
              int64[p] pads, float v) => (float[c, d] y, float[e, f] z) {
            y = Slice (x, lo, hi, axes, steps)
            z = Pad <mode = "constant"> (x, pads, v) }""",
        {
            "x": _f(4, 5),
            "lo": _i(1),
            "hi": _i(4),
            "axes": _i(1),
            "steps": _i(2),
            "pads": _i(1, 0, 2, 1),
            "v": _n(0.5, np.float32),
        },
    ),
    "resize": (
        21,
        """g (float[1, 1, h, w] x, float[4] scales, int64[4] sizes)
            => (float[a, b, c, d] y, float[e, f, i, j] z) {
            y = Resize <mode = "linear"> (x, , scales)
            z = Resize <mode = "cubic"> (x, , , sizes) }""",
        {
            "x": _f(1, 1, 4, 4),
            "scales": np.array([1, 1, 2, 1.5], np.float32),
            "sizes": _i(1, 1, 3, 5),
        },
    ),
    "shapes": (
        21,
        """g (int64[2] s, int64[2] reps, float[a, b] x, int64 lo, int64 hi, int64 step,
              int64[n] i, int64 depth)
            => (float[c, d] y, float[e, f] z, float[g, h] t, int64[k] r, int64[o, p] q) {
            y = ConstantOfShape <value = float[1] {2.0}> (s)
            z = Expand (x, s)
            t = Tile (x, reps)
            r = Range (lo, hi, step)
            two = Constant <value = int64[2] {0, 1}> ()
            q = OneHot (i, depth, two) }""",
        {
            "s": _i(2, 3),
            "reps": _i(2, 1),
            "x": _f(2, 3),
            "lo": _n(0),
            "hi": _n(5),
            "step": _n(2),
            "i": _i(0, 2),
            "depth": _n(4),
        },
    ),
    "found": (
        21,
        """g (float[a, b] x, bool[n] c) => (int64[r, k] p, float[m] u, int64[m] w, float[q] z, float[2, s] y) {
            p = NonZero (x)
            u, f, o, w = Unique (x)
            k = Compress (x, c)
            z = Neg (k)
            g = GatherND (x, t)
            t = Transpose (p)
            y = Reshape (u, e)
            e = Constant <value_ints = [2, -1]> () }""",
        {"x": _X, "c": np.array([True, False, True])},
    ),
    "boxes": (
        21,
        """g (float[1, n, 4] boxes, float[1, c, n] scores, int64 most, float overlap, float least)
            => (int64[m, 3] y) {
            y = NonMaxSuppression (boxes, scores, most, overlap, least) }""",
        {
            "boxes": _f(1, 3, 4),
            "scores": _f(1, 1, 3),
            "most": _n(2),
            "overlap": _n(0.5, np.float32),
            "least": _n(0.1, np.float32),
        },
    ),
    "split": (
        21,
        """g (float[a, b] x, int64[2] sizes, int64[k] i) => (float[c, b] y, float[d, b] z, float[e, b] w, float[a, b] v) {
            y, z = Split <axis = 0> (x, sizes)
            w = Gather (x, i)
            v = ScatterND (x, j, u)
            j = Constant <value = int64[1, 1] {1}> ()
            u = Constant <value = float[1, 3] {1, 2, 3}> () }""",
        {"x": _f(4, 3), "sizes": _i(1, 3), "i": _i(0, -1)},
    ),
    "small_floats": (
        21,
        """g (float[a, 4] x) => (float[a, 4] y, float[a, 4] z, bfloat16[a, 4] w, int4[a, 4] v) {
            p = Cast <to = 17, saturate = 1> (x)
            y = Cast <to = 1> (p)
            q = Cast <to = 20> (x)
            z = Cast <to = 1> (q)
            w = Cast <to = 16> (x)
            v = Cast <to = 22> (x) }""",
        {"x": _f(2, 4)},
    ),
    "quantize": (
        21,
        """g (float[a, 4] x) => (float[a, 4] y, float[2, 4] z, float[3, 4] w, uint8[a, 4] u)
            <float[4] s = {0.1, 0.2, 0.3, 0.4}, int8[4] zp = {0, 1, 2, 3},
             float[1, 4] bs = {0.5, 1, 2, 4}, int8[2, 4] small = {1, 2, 3, 4, 5, 6, 7, -8},
             int8[3, 4] many = {1, 2, 3, 4, 5, 6, 7, 8, 9, 8, 7, 6}, float one = {0.5}> {
            q = QuantizeLinear <axis = 1> (x, s, zp)
            y = DequantizeLinear <axis = 1> (q, s, zp)
            z = DequantizeLinear <axis = 0, block_size = 2> (small, bs)
            w = DequantizeLinear (many, one)
            u, us, uz = DynamicQuantizeLinear (x) }""",
        {"x": _f(2, 4)},
    ),
    "integers": (
        21,
        """g (uint8[n, 4] a, uint8[1, 2, 4, 4] p) => (int32[n, 3] y, uint8[1, 2, k, l] z)
            <int8[4, 3] b = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3}, uint8 za = {3}, int8 zb = {1},
             int8[2, 2, 1, 1] w = {1, 2, 3, 4}, float s = {0.5}, float[2] ws = {0.5, 0.25},
             int8[2] wz = {0, 0}, uint8 pz = {128}, int32[2] bias = {7, -7}> {
            y = MatMulInteger (a, b, za, zb)
            z = QLinearConv (p, s, pz, w, ws, wz, s, pz, bias) }""",
        {
            "a": np.arange(8, dtype=np.uint8).reshape(2, 4),
            "p": np.arange(32, dtype=np.uint8).reshape(1, 2, 4, 4),
        },
    ),
    "attention": (
        23,
        """g (float[b, q, 8] x, float[b, k, 8] m, float[2, 1, p, 4] pk, float[2, 1, p, 4] pv)
            => (float[b, q, 8] y, float[2, 1, t, 4] kk, float[2, 1, t, 4] vv)
            <float[8, 4] w = {1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8,
                              1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8}> {
            kv = MatMul (m, w)
            y, kk, vv = Attention <q_num_heads = 2, kv_num_heads = 1, is_causal = 1>
                (x, kv, kv, , pk, pv) }""",
        {
            "x": _f(2, 3, 8),
            "m": _f(2, 3, 8),
            "pk": _f(2, 1, 2, 4),
            "pv": _f(2, 1, 2, 4),
        },
    ),
    "dropout": (
        21,
        """g (int64[2] s, float[a, b] x, float r, bool t) => (float[c, d] y, float[a, b] z, int32[a, b] w, float[a, b] v) {
            e = ConstantOfShape <value = float[1] {0.0}> (s)
            y = RandomNormalLike <seed = 7.0> (e)
            z = RandomUniformLike <seed = 3.0, low = -1.0> (x)
            w = Bernoulli <seed = 1.0, dtype = 6> (p)
            p = Sigmoid (x)
            v = Dropout <seed = 5> (x, r, t) }""",
        {"s": _i(2, 3), "x": _X, "r": _n(0.5, np.float32), "t": _n(False, np.bool_)},
    ),
    "functions": (
        21,
        """g (float[n, 3] x, int64[k] axes) => (float[a, b] y) { y = local.outer <f = 2.0> (x, axes) }
        <domain: "local", opset_import: ["" : 21, "local" : 1]>
        outer <f> (u, axes) => (v) {
            a = local.inner <f : float = @f> (u)
            v = ReduceSum (a, axes) }
        <domain: "local", opset_import: ["" : 21]>
        inner <f> (u) => (v) { c = Constant <value_float : float = @f> () v = Mul (u, c) }""",
        {"x": _X, "axes": _i(1)},
    ),
    "strings": (
        21,
        """g (string[n] s, string[n] t, int64[k] i) => (string[m] y, bool[n] e, string[n, c] p, int64[n] q, int64[n] v) {
            j = StringConcat (s, t)
            y = Gather (j, i)
            e = Equal (s, t)
            p, q = StringSplit <delimiter = "e"> (s)
            z = Constant <value_strings = ["1", "2", "3"]> ()
            v = Cast <to = 7> (z) }""",
        {"s": _WORDS, "t": _WORDS[::-1].copy(), "i": _i(2, 0)},
    ),
    "windows": (
        21,
        """g (float[1, 1, h, w] x, float[n, 2] at)
            => (float[a, b, c, d] y, float[e, f] z, float[k, l, m, o] r) {
            p, i = MaxPool <kernel_shape = [2, 2]> (x)
            y = MaxUnpool <kernel_shape = [2, 2]> (p, i)
            t = Transpose <perm = [1, 0]> (at)
            z = Einsum <equation = "ij,jk->ik"> (at, t)
            r = ReduceMax (x) }""",
        {"x": _f(1, 1, 4, 4), "at": _f(3, 2)},
    ),
    "signal": (
        21,
        """g (float[1, n, 1] x, int64 length, int64 step) => (float[a, b, c] y, float[1, f, k, 2] z, float[w] h) {
            y = DFT <onesided = 1> (x, length)
            z = STFT (x, step, , length)
            h = HannWindow (length) }""",
        {"x": _f(1, 16, 1), "length": _n(8), "step": _n(4)},
    ),
}


def _ml_nodes() -> Mapping[str, tuple[onnx.ModelProto, Feeds]]:
    x = _f(4, 2)
    return {
        "trees": node_model(
            "ai.onnx.ml::TreeEnsembleClassifier",
            [x],
            2,
            nodes_treeids=[0, 0, 0],
            nodes_nodeids=[0, 1, 2],
            nodes_featureids=[0, 0, 0],
            nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"],
            nodes_values=[0.1, 0.0, 0.0],
            nodes_truenodeids=[1, 0, 0],
            nodes_falsenodeids=[2, 0, 0],
            class_treeids=[0, 0],
            class_nodeids=[1, 2],
            class_ids=[0, 1],
            class_weights=[1.0, 0.7],
            classlabels_strings=["yes", "no"],
        ),
        "labels": node_model(
            "ai.onnx.ml::LabelEncoder",
            [_WORDS],
            keys_strings=["red", "blue"],
            values_int64s=[1, 2],
        ),
        "vectors": node_model(
            "ai.onnx.ml::SVMClassifier",
            [x],
            2,
            classlabels_ints=[0, 1],
            coefficients=[0.5, -1.0],
            kernel_type="RBF",
            kernel_params=[0.5, 0.2, 2.0],
            rho=[0.3],
            vectors_per_class=[1, 1],
            support_vectors=[1.0, 2.0, 3.0, 4.0],
        ),
        "ngrams": node_model(
            "TfIdfVectorizer",
            [_WORDS],
            mode="TF",
            min_gram_length=1,
            max_gram_length=2,
            max_skip_count=1,
            ngram_counts=[0, 2],
            ngram_indexes=[0, 1, 2],
            pool_strings=["red", "blue", "red", "green"],
            weights=[1.0, 2.0, 3.0],
        ),
    }


def _recurrent_nodes() -> Mapping[str, tuple[onnx.ModelProto, Feeds]]:
    x, lengths = _f(3, 2, 4), _i(3, 2, dtype=np.int32)
    lstm = [x, _f(1, 8, 4), _f(1, 8, 2), _f(1, 16), lengths]
    gru = [x, _f(2, 6, 4), _f(2, 6, 2), _f(2, 12), lengths, _f(2, 2, 2)]
    small = np.full((1, 8), 0.005, np.float32)
    zero = np.zeros((1, 8), np.int8)
    w, r = (np.ones((1, n, 8), np.int8) for n in (4, 2))
    dynamic = [x, w, r, None, None, None, None, None, small, zero, small, zero]
    return {
        "lstm": node_model("LSTM", lstm, 3, known=(1, 2, 3), hidden_size=2),
        "gru": node_model(
            "GRU", gru, 2, known=(1, 2), hidden_size=2, direction="bidirectional"
        ),
        "dynamic_lstm": node_model(
            "com.microsoft::DynamicQuantizeLSTM",
            dynamic,
            3,
            known=(1, 2, 8, 9, 10, 11),
            hidden_size=2,
        ),
    }


def _microsoft_nodes() -> Mapping[str, tuple[onnx.ModelProto, Feeds]]:
    x = _f(1, 2, 32)
    bits = np.arange(3 * 2 * 8, dtype=np.uint8).reshape(3, 2, 8)
    gqa: list[np.ndarray | None] = [
        *(_f(1, 1, width) for width in (16, 8, 8)),
        *(_f(1, 1, 3, 8), _f(1, 1, 3, 8)),
        *(_i(3, dtype=np.int32), _n(4, np.int32)),
    ]
    return {
        "matmul_bits": node_model(
            "com.microsoft::MatMulNBits",
            [x, bits, _f(6)],
            known=(1, 2),
            K=32,
            N=3,
            bits=4,
            block_size=16,
        ),
        "skip_norm": node_model(
            "com.microsoft::SkipLayerNormalization",
            [x, x, _f(32), _f(32)],
            [True, False, False, True],
            known=(2, 3),
        ),
        "grouped_queries": node_model(
            "com.microsoft::GroupQueryAttention",
            gqa,
            3,
            known=(6,),
            num_heads=2,
            kv_num_heads=1,
        ),
    }


def _external() -> Base:
    """A model whose weights claim to lie in a file."""
    model = parser.parse_model(
        (_HEADER % 21)
        + "g (float[n, 2] x) => (float[n, 2] y) <float[2] w = {1, 2}> { y = Add (x, w) }"
    )
    weight = numpy_helper.from_array(_f(2), "w")
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="weights.bin")
    del model.graph.initializer[:]
    model.graph.initializer.append(weight)
    return Base("external", model, {"x": _f(3, 2)})


_OLD_FEEDS: Sequence[Feeds] = (
    {"x": _f(2, 4)},
    {"x": _f(2, 3, 8)},
    {"x": _X},
    {"x": _X},
    {"x": _f(2, 2, 7, 6)},
    {"i": np.array([[0, 1, 4], [2, 3, 0]])},
)


@cache
def bases() -> tuple[Base, ...]:
    """All models, in a fixed order."""
    old = [
        Base(f"base{n}", model, feeds)
        for n, (model, feeds) in enumerate(zip(base_models(), _OLD_FEEDS, strict=True))
    ]
    graphs = [
        Base(name, parser.parse_model((_HEADER % opset) + text), feeds)
        for name, (opset, text, feeds) in _GRAPHS.items()
    ]
    nodes = {**_ml_nodes(), **_recurrent_nodes(), **_microsoft_nodes()}
    single = [Base(name, *item) for name, item in nodes.items()]
    return (*old, *graphs, *single, _external())
