"""Conversion rules agree with onnxruntime."""

import numpy as np
import onnx
import pytest

import relax_mlir
from relax_mlir import compile
from relax_mlir.compiler import reference
from relax_mlir.dialects import tensors
from relax_mlir.errors import ModelError
from relax_mlir.frontends.onnx import import_onnx
from tests.frontends.onnx.differential import (
    assert_same_numbers,
    expected,
    parse,
    random,
    typed_model,
)

_X = {"x": random(2, 3, 4)}
_SCALAR = {"x": np.array(1.5, np.float32)}
_INTEGERS = {"x": np.array([[2**30, 2**30, 2**30, 2**30], [1, 2, 3, 40]])}
_TIES = {"x": np.array([[1, 3, 3], [2, 2, 1]], np.float32)}
_INFINITIES = {"x": np.array([np.inf, -np.inf, np.nan, 1], np.float32)}
_BITS = {"x": np.array([1, 200, 255], np.uint8), "z": np.array([3, 1, 7], np.uint8)}
_DIVISION = {"x": np.array([7, -7, 7], np.int64), "z": np.array([2, 2, -2], np.int64)}
_IMAGES = {"x": random(2, 4, 3), "s": random(4), "b": random(4)}
_PLACES = np.array([[0, 3, -1], [-4, 4, -5]], np.int64)
_ON_AND_OFF = {"x": _PLACES, "v": np.array([7, 9], np.int64)}
_STATISTICS = {**_IMAGES, "m": random(4), "v": np.abs(random(4))}


@pytest.mark.parametrize(
    ("body", "opset", "feeds"),
    [
        ("y = Gemm (x, w)", 17, {"x": random(2, 3), "w": random(3, 4)}),
        (
            'y = ConvTranspose <auto_pad = "SAME_UPPER", output_shape = [5, 6]> (x, w)',
            17,
            {"x": random(1, 4, 4, 5), "w": random(4, 6, 3, 2)},
        ),
        ("y = Clip <min = -1.0> (x)", 10, _INFINITIES),
        (
            (
                "s = Constant <value_floats = [0.5]> () y = Resize <"
                'coordinate_transformation_mode = "half_pixel_symmetric", '
                'nearest_mode = "floor"> (x, , s)'
            ),
            19,
            {"x": np.arange(5, dtype=np.float32)},
        ),
        (
            (
                "z = Constant <value_ints = [1, 1, 1, 4]> () "
                'y = Resize <mode = "linear", antialias = 1> (x, , , z)'
            ),
            19,
            {"x": np.array([[[[0, 255, 3, 9, 250, 1, 77]]]], np.uint8)},
        ),
        (
            "y = Gemm <alpha = 0.5, beta = 2.0, transA = 1, transB = 1> (x, w, c)",
            17,
            {"x": random(3, 2), "w": random(4, 3), "c": random(2, 1)},
        ),
        (
            "y = Gemm <beta = 0.0> (x, w, c)",
            11,
            {"x": random(2, 3), "w": random(3, 4), "c": random(4)},
        ),
        ("y = Flatten <axis = 0> (x)", 17, _X),
        ("y = Flatten <axis = -1> (x)", 17, _X),
        ("y = Flatten <axis = 3> (x)", 17, _X),
        ("y = Softmax <axis = 1> (x)", 11, _X),
        ("y = Softmax <axis = 2> (x)", 11, _X),
        ("y = Softmax (x)", 12, _X),
        ("y = Softmax (x)", 17, _X),
        ("y = LogSoftmax <axis = 1> (x)", 11, _X),
        ("y = LogSoftmax <axis = -1> (x)", 12, _X),
        ("y = Hardmax <axis = 1> (x)", 11, _X),
        ("y = Hardmax (x)", 9, _X),
        ("p = Constant <value_floats = [2.0]> () y = Pow (x, p)", 17, _SCALAR),
        ("p = Constant <value_floats = [3.0]> () y = Pow (x, p)", 17, _SCALAR),
        ("p = Constant <value = float[1, 1] {2.0}> () y = Pow (x, p)", 17, _X),
        ("y = ReduceLogSum <axes = [1]> (x)", 13, _INTEGERS),
        ("y = ReduceLogSumExp <axes = [1]> (x)", 13, _INTEGERS),
        ("y, m = Dropout (x)", 17, _X),
        ("y = Sum (x, z)", 17, {"x": random(2, 3), "z": random(3)}),
        ("y = Mean (x, z, z)", 17, {"x": random(2, 3), "z": random(3)}),
        ("y = Mean (x)", 17, _X),
        ("y = Max (x, z)", 17, {"x": random(2, 3), "z": random(3)}),
        (
            "y = Min (x, z)",
            17,
            {"x": random(9, dtype=np.int64), "z": random(1, dtype=np.int64)},
        ),
        ("y = Clip <min = -0.5, max = 0.5> (x)", 9, _X),
        ("y = Clip <min = -0.5> (x)", 9, _X),
        ("y = Clip (x)", 17, _X),
        ("l = Constant <value_float = -0.5> () y = Clip (x, l)", 17, _X),
        ("l = Constant <value_float = 0.5> () y = Clip (x, , l)", 17, _X),
        (
            "y = Clip (x, l, h)",
            17,
            {**_X, "l": np.array(-0.5, np.float32), "h": np.array(0.5, np.float32)},
        ),
        ("s = Shape (x) z = ConstantOfShape (s) y = Add (x, z)", 17, _X),
        ("s = Shape (x) y = ConstantOfShape <value = int64[1] {7}> (s)", 17, _X),
        ("y = Shape <start = 1> (x)", 17, _X),
        ("y = Size (x)", 17, _X),
        ("y = Split <axis = 1, split = [1, 2]> (x)", 11, _X),
        ("y = Constant <value_floats = [1.0, 2.0]> ()", 17, {}),
        ("a = Constant <value_ints = [0, -1]> () y = Unsqueeze (x, a)", 17, _X),
        ("y = Squeeze (x)", 17, {"x": random(1, 3, 1)}),
        (
            "a = Constant <value_ints = [-1]> () y = Squeeze (x, a)",
            17,
            {"x": random(3, 1)},
        ),
        ("y = ArgMax <axis = 1> (x)", 17, _TIES),
        ("y = ArgMax <axis = 1, select_last_index = 1> (x)", 17, _TIES),
        ("y = ArgMin <select_last_index = 1, keepdims = 0> (x)", 17, _TIES),
        ("y = IsInf (x)", 10, _INFINITIES),
        ("y = IsInf <detect_negative = 0> (x)", 10, _INFINITIES),
        ("y = IsInf <detect_positive = 0> (x)", 10, _INFINITIES),
        ("y = IsInf <detect_negative = 0, detect_positive = 0> (x)", 10, _INFINITIES),
        ("y = Selu (x)", 17, _X),
        ("y = Selu <alpha = 2.0, gamma = 3.0> (x)", 17, _X),
        ("y = Softplus (x)", 17, {"x": np.array([-30, 0, 19, 21, 90], np.float32)}),
        ("y = Gelu (x)", 20, _X),
        ('y = Gelu <approximate = "tanh"> (x)', 20, _X),
        ("a = Constant <value_int = 1> () y = CumSum (x, a)", 17, _X),
        ("a = Constant <value_int = 0> () y = CumSum <reverse = 1> (x, a)", 17, _X),
        (
            "a = Constant <value_int = 0> () y = CumSum <exclusive = 1, reverse = 1> (x, a)",
            17,
            _X,
        ),
        ('y = BitShift <direction = "LEFT"> (x, z)', 17, _BITS),
        ('y = BitShift <direction = "RIGHT"> (x, z)', 17, _BITS),
        ("y = Mod (x, z)", 17, _DIVISION),
        ("y = Mod <fmod = 1> (x, z)", 17, _DIVISION),
        ("y = PRelu (x, z)", 17, {"x": random(2, 3, 5), "z": random(3, 1)}),
        ("y = PRelu (x, z)", 17, {"x": random(2, 3, 5), "z": random(5)}),
        ("y = BatchNormalization (x, s, b, m, v)", 17, _STATISTICS),
        ("y = InstanceNormalization (x, s, b)", 17, _IMAGES),
        ("y = Swish <alpha = 1.5> (x)", 24, _X),
        ("y = Swish (x)", 24, _X),
        ("y = RMSNormalization (x, s)", 23, {"x": random(2, 3), "s": random(3)}),
        (
            "y = GroupNormalization <num_groups = 2> (x, s, b)",
            18,
            {"x": random(2, 4, 3), "s": random(2), "b": random(2)},
        ),
        ("y = GroupNormalization <num_groups = 2> (x, s, b)", 21, _IMAGES),
        (
            "y = LayerNormalization <axis = 1> (x, s)",
            17,
            {"x": random(2, 3, 5), "s": random(3, 5)},
        ),
        (
            (
                "d = Constant <value_int = 4> () v = Constant <value_floats = [-1.0, 2.0]> ()"
                " y = OneHot <axis = 0> (x, d, v)"
            ),
            17,
            {"x": _PLACES},
        ),
        ("d = Constant <value_int = 4> () y = OneHot (x, d, v)", 17, _ON_AND_OFF),
        (
            (
                "b = Constant <value_ints = [-9, 3]> () e = Constant <value_ints = [-9, 0]> ()"
                " a = Constant <value_ints = [1, 2]> () s = Constant <value_ints = [-1, -2]> ()"
                " y = Slice (x, b, e, a, s)"
            ),
            17,
            _X,
        ),
        ("k = Constant <value_int = 1> () y = Trilu <upper = 0> (x, k)", 17, _X),
        ("y = Trilu (x)", 17, _X),
        ("y = GlobalAveragePool (x)", 17, _X),
        ("y = GlobalMaxPool (x)", 17, {"x": random(1, 2, 3, 4)}),
        ("y = Transpose (x)", 17, _X),
        (
            (
                "y = AveragePool <kernel_shape = [2], pads = [1, 1], count_include_pad = 1>"
                " (x)"
            ),
            17,
            _X,
        ),
        (
            (
                "p = Constant <value_ints = [0, 0, 2, 0, 0, 1]> ()"
                ' y = Pad <mode = "edge"> (x, p)'
            ),
            17,
            _X,
        ),
        (
            (
                "p = Constant <value_ints = [0, 1, 2, 0, 0, 1]> ()"
                ' y = Pad <mode = "reflect"> (x, p)'
            ),
            17,
            _X,
        ),
    ],
)
def test_rule_computes_what_onnxruntime_computes(
    body: str, opset: int, feeds: dict[str, np.ndarray]
) -> None:
    model = typed_model(body, opset, feeds)

    assert_same_numbers(model, feeds)


@pytest.mark.parametrize(
    ("given", "scale"), [("float32", "float16"), ("float16", "float32")]
)
def test_rms_normalization_has_the_type_of_its_scale(given: str, scale: str) -> None:
    """onnxruntime has one type for both."""
    x, s = random(2, 3).astype(given), random(3).astype(scale)
    model = typed_model("y = RMSNormalization (x, s)", 23, {"x": x, "s": s})

    (actual,) = reference.run(import_onnx(model), x, s)

    wide = x.astype(np.float64)
    wanted = wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-5) * s
    assert actual.dtype == scale
    np.testing.assert_allclose(actual, wanted, rtol=2e-3)  # one rounding to f16


_PIXELS = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)


@pytest.mark.parametrize("size", ["4", "n"])
@pytest.mark.parametrize(
    ("mode", "pixels"),
    [
        ("linear", _PIXELS),
        ("linear", np.where(_PIXELS == 15, np.inf, _PIXELS).astype(np.float32)),
        ("linear", np.where(_PIXELS == 0, np.nan, _PIXELS).astype(np.float32)),
        ("linear", _PIXELS.astype(np.int32)),
        ("nearest", _PIXELS),
        ("nearest", _PIXELS.astype(np.int32) + 2**24 + 1),  # no float has these
        ("cubic", _PIXELS),
    ],
)
def test_resize_crop_extrapolation(mode: str, pixels: np.ndarray, size: str) -> None:
    kind = "float" if pixels.dtype == np.float32 else "int32"
    model = parse(
        f"g ({kind}[1, 1, {size}, {size}] x) => ({kind}[1, 1, 3, 5] y) {{"
        " r = Constant <value_floats = [0.0, 0.0, 0.4, 0.6, 1.0, 1.0, 1.2, 1.7]> ()"
        " s = Constant <value_ints = [1, 1, 3, 5]> ()"
        f' y = Resize <mode = "{mode}", extrapolation_value = 1e9,'
        ' coordinate_transformation_mode = "tf_crop_and_resize"> (x, r, , s) }'
    )

    (actual,) = reference.run(import_onnx(model), pixels)

    (wanted,) = expected(model, {"x": pixels})
    assert (wanted == 1e9).sum() == 11
    np.testing.assert_allclose(actual, wanted, rtol=1e-6)  # element by element: f32


def _range(kind: str, *numbers: float) -> onnx.ModelProto:
    names = "abc"
    values = "".join(
        f"{n} = Constant <value = {kind} {{{v}}}> () "
        for n, v in zip(names, numbers, strict=True)
    )
    return parse(f"g () => ({kind}[n] y) {{ {values} y = Range (a, b, c) }}")


@pytest.mark.parametrize(
    ("kind", "numbers"),
    [
        ("int64", (3, 20_000, 7)),
        ("int32", (3, -20_000, -2)),
        ("int64", (3, 2, 1)),
        ("float", (0.0, 20_000.0, 1.0)),
        ("double", (0.5, -2_000.0, -0.25)),
        ("float", (2.0, 3.0, 0.25)),
    ],
)
def test_constant_range_matches_onnxruntime(
    kind: str, numbers: tuple[float, ...]
) -> None:
    assert_same_numbers(_range(kind, *numbers), {}, tolerance=0)


@pytest.mark.parametrize("kind", ["int64", "float"])
def test_long_range_is_computed_at_run_time(kind: str) -> None:
    module = import_onnx(_range(kind, 0, 2**40, 1))

    assert tensors.shape_of(module.func_op("main").type.results[0]) == (2**40,)


def test_range_can_descend_between_sizes() -> None:
    """From n to -n: of its 2 n numbers none is there where n is 0."""
    model = parse("""g (float[n] x) => (int64[m] y) {
        k = Size (x) end = Neg (k) step = Constant <value = int64 {-1}> ()
        y = Range (k, end, step) }""")
    module = import_onnx(model)
    compiled = relax_mlir.compile(module)

    assert [
        str(s) for s in tensors.shape_of(module.func_op("main").type.results[0])
    ] == ["2*n"]
    for length in (5, 1, 0):
        (y,) = compiled(np.zeros(length, np.float32))
        np.testing.assert_array_equal(y, np.arange(length, -length, -1))


def test_batched_matmul_broadcasts_rows() -> None:
    model = parse("""g (float[n, 3] x) => (float[n, 3] y) {
        from = Constant <value = int64[1] {-1}> ()
        to = Constant <value = int64[1] {9223372036854775807}> ()
        axis = Constant <value = int64[1] {0}> ()
        last = Slice (x, from, to, axis)
        y = Sub (x, last) }""")
    compiled = relax_mlir.compile(import_onnx(model))

    for rows in (1, 4, 0):
        x = random(rows, 3)
        np.testing.assert_array_equal(compiled(x)[0], x - x[-1:])


def test_range_needs_a_nonzero_step() -> None:
    with pytest.raises(ModelError, match=r"`y` \(Range\): .* other than 0"):
        import_onnx(_range("float", 0.0, 1.0, 0.0))


@pytest.mark.parametrize(
    "body",
    [
        "y = Conv (x, w)",
        "y = ConvTranspose (x, w)",
        "y = MaxPool <kernel_shape = [1, 1, 1, 1]> (x)",
        "y = AveragePool <kernel_shape = [1, 1, 1, 1]> (x)",
    ],
)
def test_windows_have_at_most_three_axes(body: str) -> None:
    pixels = random(1, 1, 1, 1, 1, 1)
    model = typed_model(body, 17, {"x": pixels, "w": pixels})

    with pytest.raises(ModelError, match="4 spatial axes: expected 1 to 3"):
        import_onnx(model)


def test_global_pooling_of_any_rank() -> None:
    """onnxruntime has three at most."""
    x = random(1, 2, 3, 2, 2, 2)
    model = typed_model("y = GlobalAveragePool (x)", 17, {"x": x})

    (actual,) = reference.run(import_onnx(model), x)

    np.testing.assert_allclose(actual, x.mean((2, 3, 4, 5), keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("value", [2**63 - 1, 2**62 + 1, -(2**63)])
@pytest.mark.parametrize("pads", [[1, 2], [-1, 1]])
def test_pad_value_is_exact(value: int, pads: list[int]) -> None:
    text = f"""g (int64[3] x) => (int64[n] y) {{
        p = Constant <value_ints = {pads}> () v = Constant <value_int = {value}> ()
        y = Pad (x, p, v) }}"""
    model, feeds = parse(text, 19), {"x": np.array([7, -8, 9])}

    (y,) = reference.run(import_onnx(model), feeds["x"])

    (wanted,) = expected(model, feeds)
    np.testing.assert_array_equal(y, wanted)


def test_vectors_have_one_channel() -> None:
    """Of which onnxruntime wants to be told."""
    names = ("s", "b", "m", "v")
    text = """g (float[5] x, float[1] s, float[1] b, float[1] m, float[1] v) =>
        (float[5] y) { y = BatchNormalization (x, s, b, m, v) }"""
    x = random(5)
    numbers = dict(zip(names, (2, 3, 0.5, 4), strict=True))
    feeds = {name: np.array([n], np.float32) for name, n in numbers.items()}

    (y,) = reference.run(import_onnx(parse(text)), x, *feeds.values())

    np.testing.assert_allclose(y, (x - 0.5) / 2 * 2 + 3, rtol=1e-5)  # epsilon


@pytest.mark.slow  # compiles, the open ones when they run
@pytest.mark.parametrize("opset", [18, 21])
@pytest.mark.parametrize("channels", [4, "c"])
def test_group_normalization_scale_per_group_or_channel(
    opset: int, channels: int | str
) -> None:
    """Groups until opset 20."""
    count = 2 if opset == 18 else 4
    text = f"""g (float[2, {channels}, 3] x, float[{count}] s, float[{count}] b) =>
        (float[2, {channels}, 3] y) {{
        y = GroupNormalization <num_groups = 2> (x, s, b) }}"""
    x, scale, bias = random(2, 4, 3), random(count), random(count) * 2

    (y,) = compile(parse(text, opset))(x, scale, bias)

    rows = x.reshape(2, 2, 6)
    deviation = np.sqrt(rows.var(-1, keepdims=True) + 1e-5)
    normal = ((rows - rows.mean(-1, keepdims=True)) / deviation).reshape(2, 4, 3)
    wide = [np.repeat(v, 4 // count)[:, None] for v in (scale, bias)]
    np.testing.assert_allclose(y, normal * wide[0] + wide[1], rtol=1e-5, atol=1e-5)


def test_channels_without_a_scale_each_are_rejected() -> None:
    text = """g (float[2, 4, 3] x, float[2] s) => (float[2, 4, 3] y) {
        y = GroupNormalization <num_groups = 2> (x, s, s) }"""

    with pytest.raises(ModelError, match=r"GroupNormalization"):
        import_onnx(parse(text, 21))


def test_constant_sizes_can_be_int32_or_int64() -> None:
    ones = ", ".join(["1"] * 300)
    outputs = ", ".join(f"y{n}" for n in range(300))
    text = f"""g (float[300] x) => (float[n] y0, float[n] y299) {{
        s = Constant <value_ints = [{ones}]> () {outputs} = Split (x, s) }}"""
    x = random(300)

    first, last = reference.run(import_onnx(parse(text)), x)

    assert first == x[0]
    assert last == x[299]
