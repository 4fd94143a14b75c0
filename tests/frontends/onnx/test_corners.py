"""Corner cases that the standard leaves open, which follow onnxruntime."""

import re

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import relax_mlir
from relax_mlir.compiler import reference
from relax_mlir.errors import ModelError, RunError, UnsupportedError
from relax_mlir.frontends.onnx import import_onnx
from tests.frontends.onnx.differential import (
    assert_same_numbers,
    expected,
    model_with,
    random,
)

_THETA = random(2, 2, 3)


@pytest.mark.parametrize(
    "size", [(2, 1, 1, 3), (2, 1, 2, 1), (2, 1, 1, 1), (2, 1, 2, 3)]
)
@pytest.mark.parametrize("aligned", [0, 1])
def test_affine_grids_of_a_single_pixel(size: tuple[int, ...], aligned: int) -> None:
    feeds = {"theta": _THETA}
    known = feeds | {"size": np.array(size)}
    body = f"y = AffineGrid<align_corners = {aligned}>(theta, size)"

    assert_same_numbers(model_with(body, known, ["size"]), feeds)


@pytest.mark.parametrize("aligned", [0, 1])
def test_affine_grids_of_one_volume(aligned: int) -> None:
    feeds = {"theta": random(1, 3, 4)}
    known = feeds | {"size": np.array([1, 1, 2, 1, 3])}
    body = f"y = AffineGrid<align_corners = {aligned}>(theta, size)"

    assert_same_numbers(model_with(body, known, ["size"]), feeds)


@pytest.mark.parametrize(
    "operator", ["SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"]
)
@pytest.mark.parametrize("shape", [(2, 2), (3, 5), (3,), (3, 2, 1)])
def test_losses_require_a_target_per_element(
    operator: str, shape: tuple[int, ...]
) -> None:
    feeds = {"x": random(3, 5, 2), "t": np.zeros(shape, np.int64)}
    model = model_with(f"y = {operator}(x, t)", feeds)

    with pytest.raises(
        ModelError, match=rf"{operator}\): input 1: expected \[3, 2\], got"
    ):
        import_onnx(model)


@pytest.mark.slow  # compiles
def test_losses_of_symbolic_targets_are_checked_at_run_time() -> None:
    x, t = random(3, 5, 2), np.zeros((3, 2), np.int64)
    model = model_with("y = SoftmaxCrossEntropyLoss(x, t)", {"x": x, "t": t})
    for dim, name in zip(
        model.graph.input[1].type.tensor_type.shape.dim, "ab", strict=True
    ):
        dim.dim_param = name
    compiled = relax_mlir.compile(import_onnx(model))

    np.testing.assert_allclose(
        compiled(x, t)[0], expected(model, {"x": x, "t": t})[0], rtol=1e-6
    )
    with pytest.raises(ValueError, match="expected 2, got 5"):
        compiled(x, np.zeros((3, 5), np.int64))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            'y = ScatterND<reduction = "mean">(x, i, u)',
            "expected none, add, mul, max, min",
        ),
        ('y = ScatterND<reduction = "update">(x, i, u)', "got `update`"),
        ("y = ReduceSum<keepdims = 2>(x)", "`keepdims`: expected 0 or 1, got 2"),
        ("y = ArgMax<keepdims = -1>(x)", "`keepdims`: expected 0 or 1, got -1"),
        ("y = Conv<kernel_shape = [2]>(a, w)", r"weight, \[3\], got \[2\]"),
        ("y = Conv<kernel_shape = [3, 3]>(a, w)", r"weight, \[3\], got \[3, 3\]"),
        ("y = ConvTranspose<pads = [1]>(a, w)", "`pads`: expected 2 numbers for 1"),
        ("y = Conv<strides = [1, 1]>(a, w)", "`strides`: expected 1 numbers for 1"),
        ("y = ConvTranspose<kernel_shape = [4]>(a, w)", r"weight, \[3\], got \[4\]"),
        (
            "y = ConvTranspose<output_shape = [8]>(x, w)",
            "the weight's rank 3, got 1",
        ),
        ('y = ConvTranspose<auto_pad = "SAME_UPPER">(x, w)', "the weight's rank 3"),
        ("y = GlobalLpPool<p = 0>(a)", "bad p: expected 1 or more, got 0"),
        (
            "y = LpPool<p = -1, kernel_shape = [2]>(a)",
            "bad p: expected 1 or more, got -1",
        ),
        ("y = HannWindow<periodic = 2>(n)", "`periodic`: expected 0 or 1, got 2"),
        ("y = ReduceSum(x, f)", "input 1: expected integers, got float32"),
        ("y = ReduceMax(x, f)", "input 1: expected integers, got float32"),
        ("y = StringConcat(,t)", r"\(StringConcat\): input 0 \(`X`\) is omitted"),
        ("y = Resize(a, , scales, sizes)", "expected scales or sizes, got both"),
        (
            "y = Attention<is_causal = 2>(q, q, q)",
            "`is_causal`: expected 0 or 1, got 2",
        ),
        ("y = Attention<scale = -1.0>(q, q, q)", "`scale`: expected 0 or more"),
        ("y = ConvInteger(b, b, , zs)", "sizes differ: expected `1`, got `2`"),
        ("y = STFT(a, n, z, n)", r"input 2: expected \[length\], got \[\]"),
        (
            "y = MaxRoiPool<pooled_shape = [1, 1], spatial_scale = -1.0>(p, p)",
            "`spatial_scale`: expected above 0, got -1.0",
        ),
        *(
            (f"y = {body}", r"`pads`: expected 0 or more, got \[1, -1\]")
            for body in (
                "Conv<pads = [1, -1]>(a, w)",
                "ConvTranspose<pads = [1, -1]>(a, w)",
                "ConvInteger<pads = [1, -1]>(b, b)",
                "MaxPool<pads = [1, -1], kernel_shape = [2]>(a)",
                "AveragePool<pads = [1, -1], kernel_shape = [2]>(a)",
                "LpPool<pads = [1, -1], kernel_shape = [2]>(a)",
            )
        ),
        *(
            (f"y = {body}", rf"input {index}: expected rank 3 or more, got \[{sizes}\]")
            for body, index, sizes in (
                ("Conv(a, x)", 1, 4),
                ("ConvTranspose(a, x)", 1, 4),
                ("ConvInteger(b, z, z, z)", 1, ""),
                ("ConvInteger(b, zs, , zs)", 1, 2),
                ("QLinearConv(b, f, z, z, f, zs, f, z)", 3, ""),
            )
        ),
        *(
            (f"y = {body}", f"`group`: expected 1 or more, got {group}")
            for group in (0, -1)
            for body in (
                f"Conv<group = {group}>(a, w)",
                f"ConvTranspose<group = {group}>(a, w)",
                f"ConvInteger<group = {group}>(b, b)",
                f"QLinearConv<group = {group}>(b, f, z, b, f, z, f, z)",
                f"DeformConv<group = {group}>(p, p, p)",
            )
        ),
        *(
            (
                f'y = {operator}<auto_pad = "{mode}", pads = [0, 0]>({operands})',
                f"expected one of `pads` and `auto_pad`, got both, {mode}",
            )
            for mode in ("SAME_LOWER", "VALID")
            for operator, operands in (
                ("Conv", "a, w"),
                ("ConvTranspose", "a, w"),
                ("ConvInteger", "b, b"),
            )
        ),
    ],
)
def test_contradictory_attributes_are_rejected(body: str, message: str) -> None:
    feeds = {"x": random(4), "i": np.array([[0], [0]]), "u": random(2)}
    feeds |= {"a": random(1, 1, 4), "w": random(1, 1, 3)}
    known = {"n": np.array(4), "sizes": np.array([1, 1, 8])}
    known["scales"] = np.array([1, 1, 2], np.float32)
    feeds |= {"q": random(1, 1, 2, 3), "b": np.ones((1, 1, 3), np.uint8)}
    feeds |= {"zs": np.zeros(2, np.uint8), "z": np.zeros((), np.uint8)}
    feeds |= {"p": random(1, 1, 3, 3)}
    feeds |= {"f": np.zeros(1, np.float32), "t": np.array(["a"], object)}

    with pytest.raises(ModelError, match=message):
        import_onnx(model_with(body, feeds | known, list(known), opset=23))


@pytest.mark.parametrize(
    "body",
    [
        "y = Squeeze(x, none)",
        "y = Squeeze(x, twice)",
        "y = ReduceSum(x, twice)",
        "y = ReduceMax<keepdims = 0>(x, both)",
    ],
)
def test_axes_can_be_empty_or_repeated(body: str) -> None:
    feeds = {"x": random(1, 3, 1)}
    axes = {"none": [], "twice": [0, 0], "both": [-3, 1, 0]}
    known = feeds | {n: np.array(v, np.int64) for n, v in axes.items()}

    assert_same_numbers(model_with(body, known, list(axes)), feeds)


@pytest.mark.parametrize("alpha", [0.0, -0.5, 1e-38])
def test_celu_of_any_alpha(alpha: float) -> None:
    feeds = {"x": np.array([-np.inf, -1, 0, 1, np.inf, np.nan], np.float32)}

    assert_same_numbers(model_with(f"y = Celu<alpha = {alpha}>(x)", feeds), feeds)


@pytest.mark.parametrize("onesided", [0, 1])
def test_complex_signal_can_be_onesided(onesided: int) -> None:
    feeds = {"x": random(1, 16, 2)}
    known = feeds | {"step": np.array(4), "length": np.array(8)}
    body = f"y = STFT<onesided = {onesided}>(x, step, , length)"

    assert_same_numbers(model_with(body, known, ["step", "length"]), feeds)


@pytest.mark.parametrize("mode", ["linear", "nearest"])
@pytest.mark.parametrize("padding", ["zeros", "border"])
def test_infinite_pixel_does_not_spread(mode: str, padding: str) -> None:
    grid = np.array([[[[-1.7, -1.7], [0.6, 0.9], [0, 1.9]]]], np.float32)
    x = np.ones((1, 1, 3, 3), np.float32)
    x[0, 0, 0, 0] = np.inf
    feeds = {"x": x, "grid": grid}
    body = f'y = GridSample<mode = "{mode}", padding_mode = "{padding}">(x, grid)'
    model = model_with(body, feeds)

    (actual,) = reference.run(import_onnx(model), x, grid)

    np.testing.assert_allclose(actual, expected(model, feeds)[0], rtol=1e-6)


@pytest.mark.parametrize("is_constant", [True, False])
@pytest.mark.parametrize(
    "attributes",
    [
        "strides = [2, 2]",
        "pads = [1, 0, 2, 1], dilations = [1, 2]",
        "strides = [3, 2], output_padding = [2, 1], group = 2",
        "strides = [2, 2], dilations = [2, 1], output_padding = [1, 1], pads = [0, 1, 1, 1]",
    ],
)
def test_infinite_weight_is_multiplied_by_elements_only(
    attributes: str, is_constant: bool
) -> None:
    groups = 2 if "group" in attributes else 1
    x, w = random(1, 4, 3, 4), random(4, 2, 3, 2)
    w[0, 0, 1, 1], w[3, 1, 0, 0] = np.inf, np.nan
    feeds = {"x": x, "w": w}
    body = f"y = ConvTranspose<{attributes}>(x, w)"
    model = model_with(body, feeds, ["w"] if is_constant else [])
    given = {"x": x} if is_constant else feeds

    (actual,) = reference.run(import_onnx(model), *given.values())

    assert actual.shape[1] == 2 * groups
    np.testing.assert_allclose(actual, expected(model, given)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.slow  # compiles
@pytest.mark.parametrize(
    "attributes",
    ["", '<auto_pad = "SAME_UPPER">', "<pads = [1, 1, 1, 1], strides = [2, 2]>"],
)
@pytest.mark.parametrize("operator", ["Conv", "ConvTranspose"])
def test_kernels_of_symbolic_sizes(operator: str, attributes: str) -> None:
    if operator == "ConvTranspose" and "auto_pad" in attributes:
        attributes = "<strides = [2, 1]>"
    feeds = {"x": random(1, 1, 5, 5), "w": random(1, 1, 3, 3)}
    model = model_with(f"y = {operator}{attributes}(x, w)", feeds)
    for dim, name in zip(
        model.graph.input[1].type.tensor_type.shape.dim, "abkk", strict=True
    ):
        dim.dim_param = name
    compiled = relax_mlir.compile(import_onnx(model))

    for size in (3, 2):
        given = feeds | {"w": random(1, 1, size, size)}
        (actual,) = compiled(*given.values())
        np.testing.assert_allclose(
            actual, expected(model, given)[0], rtol=1e-5, atol=1e-5
        )


@pytest.mark.slow  # compiles
@pytest.mark.parametrize("size", [1001, 11, 3])
def test_windows_wider_than_the_channels(size: int) -> None:
    feeds = {"x": random(1, 5, 2, 3)}
    model = model_with(f"y = LRN<size = {size}>(x)", feeds)

    module = assert_same_numbers(model, feeds)

    (actual,) = relax_mlir.compile(module)(feeds["x"])
    np.testing.assert_allclose(actual, expected(model, feeds)[0], rtol=1e-5)


def test_lrn_window_work_is_bounded_by_the_channels() -> None:
    x = random(1, 5, 2, 3)
    module = import_onnx(model_with(f"y = LRN<size = {2**62}>(x)", {"x": x}))

    (actual,) = reference.run(module, x)

    np.testing.assert_array_equal(actual, x)  # alpha / size rounds to nothing


def test_ranks_are_limited_to_those_of_numpy() -> None:
    shape = np.ones(65, np.int64)
    model = model_with("y = Reshape(x, s)", {"x": random(1), "s": shape}, ["s"])

    with pytest.raises(
        ModelError,
        match=re.escape("(Reshape): rank is too high: expected up to 64, got 65"),
    ):
        import_onnx(model)


@pytest.mark.slow  # compiles
def test_split_parts_of_one_size_share_a_kernel() -> None:
    names = [f"y{n}" for n in range(40)]
    feeds = {"x": random(3, 40)}
    model = model_with(
        f"{', '.join(names)} = Split<axis = 1, num_outputs = 40>(x)", feeds, [], names
    )

    compiled = relax_mlir.compile(import_onnx(model))

    assert isinstance(compiled, relax_mlir.Executable)
    assert len(compiled.code.objects) < 5
    for ours, theirs in zip(compiled(feeds["x"]), expected(model, feeds), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def _open(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with a symbol for every size of its inputs."""
    for value in model.graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            dim.dim_param = f"{value.name}_{axis}"
    return model


_TWO = np.arange(2)
_REFUSED = {
    "Trilu(x, two)": "input 1: expected one number, got 2",
    "CumSum(x, two)": "input 1: expected one number, got 2",
    "OneHot(x, two, two)": "input 1: expected one number, got 2",
    "OneHot(x, one, one)": "expected `2`, got `1`|sizes differ",
    "Unsqueeze(x, rank2)": "input 1: expected rank 1, got 2",
    "ConstantOfShape(rank2)": "input 0: expected rank 1, got 2",
    "ReduceSum(x, rank2)": "input 1: expected rank 1, got 2",
    "Reshape(x, rank2)": "input 1: expected rank 1, got 2",
    "Slice(x, one, one, one, none)": "for 1 axes, got 1, 1 and 0",
    "Constant<value_float = 1.0, value_int = 1>()": "expected one attribute, .* got 2",
}


@pytest.mark.parametrize("body", _REFUSED)
def test_wrong_counts_and_ranks_of_operands_and_attributes_are_rejected(
    body: str,
) -> None:
    x, constants = random(3, 4), {"two": _TWO, "one": _TWO[1:], "none": _TWO[:0]}
    constants["rank2"] = np.array([[1, 2]])
    model = model_with(f"y = {body}", {"x": x, **constants}, list(constants))

    with pytest.raises(ModelError, match=_REFUSED[body]):
        import_onnx(model)


@pytest.mark.parametrize("parts", [0, 1, 3, 2**31])
def test_split_has_one_part_per_output(parts: int) -> None:
    body = f"y, z = Split<num_outputs = {parts}>(x)"

    with pytest.raises(ModelError, match=f"`num_outputs`: expected 2, .* got {parts}"):
        import_onnx(model_with(body, {"x": random(6)}, [], ["y", "z"]))


@pytest.mark.slow  # compiles
@pytest.mark.parametrize("operator", ["ArgMax", "ArgMin"])
def test_argmax_of_symbolic_axis_requires_an_element(operator: str) -> None:
    model = _open(model_with(f"y = {operator}(x)", {"x": random(3, 4)}))
    compiled = relax_mlir.compile(import_onnx(model))

    assert compiled(random(3, 0))[0].shape == (1, 0)
    with pytest.raises(ValueError, match="expected `x_0` to be at least 1"):
        compiled(random(0, 4))


def test_negative_softcap_means_none() -> None:
    feeds = {name: random(1, 2, 3, 4) for name in "qkv"}
    body = "y = Attention<softcap = -1.0>(q, k, v)"

    assert_same_numbers(model_with(body, feeds, opset=23), feeds)


def test_negative_softcap_means_none_in_score_outputs() -> None:
    feeds = {name: random(1, 2, 3, 4) for name in "qkv"}
    body = "y, p, n, s = Attention<softcap = -1.0, qk_matmul_output_mode = 1>(q, k, v)"
    model = model_with(body, feeds, outputs=["y", "s"], opset=23)
    del model.graph.node[0].output[1:3]
    model.graph.node[0].output[1:1] = ["", ""]

    assert_same_numbers(model, feeds)


def test_softmax_precision_is_a_float_type() -> None:
    feeds = {name: random(1, 2, 3, 4) for name in "qkv"}
    model = model_with("y = Attention<softmax_precision = 2>(q, k, v)", feeds, opset=23)

    with pytest.raises(ModelError, match=r"`softmax_precision`: expected 1 .*, got 2"):
        import_onnx(model)


@pytest.mark.parametrize(
    "body", ["LayerNormalization<stash_type = 16>", "RMSNormalization<stash_type = 11>"]
)
def test_statistics_of_wrong_types_are_rejected(body: str) -> None:
    feeds = {"x": random(3, 4), "w": random(4)}

    with pytest.raises(UnsupportedError, match="`stash_type`: expected 1"):
        import_onnx(model_with(f"y = {body}(x, w)", feeds, opset=23))


@pytest.mark.slow  # compiles
@pytest.mark.parametrize("is_said", [True, False])
def test_recurrent_weights_can_have_symbolic_sizes(is_said: bool) -> None:
    feeds = {"x": random(2, 1, 4), "w": random(1, 12, 4), "r": random(1, 12, 3)}
    feeds |= {"b": random(1, 24), "n": np.array([2], np.int32), "h": random(1, 1, 3)}
    feeds |= {"c": random(1, 1, 3), "p": random(1, 9)}
    model = _open(
        model_with("y = LSTM<hidden_size = 3>(x, w, r, b, n, h, c, p)", feeds)
    )
    (theirs,) = expected(model, feeds)
    if not is_said:  # which onnxruntime refuses
        del model.graph.node[0].attribute[:]

    (actual,) = relax_mlir.compile(import_onnx(model))(*feeds.values())

    np.testing.assert_allclose(actual, theirs, rtol=1e-5)


@pytest.mark.slow  # compiles
def test_deformable_convolution_kernels_can_have_symbolic_sizes() -> None:
    feeds = {"x": random(1, 1, 3, 3), "w": random(1, 1, 2, 2)}
    feeds["o"] = np.zeros((1, 8, 2, 2), np.float32)
    model = _open(model_with("y = DeformConv(x, w, o)", feeds, opset=19))

    (actual,) = relax_mlir.compile(import_onnx(model))(*feeds.values())

    np.testing.assert_allclose(actual, expected(model, feeds)[0], rtol=1e-5)


@pytest.mark.slow  # compiles
@pytest.mark.parametrize(
    "body",
    [
        "NonMaxSuppression<center_point_box = 2>(b, s)",
        "Unique<axis = 0, sorted = 2>(s)",
    ],
)
def test_flags_of_data_dependent_operators_are_0_or_1(body: str) -> None:
    feeds = {"b": random(1, 2, 4), "s": random(1, 1, 2)}
    given = {name: feeds[name] for name in feeds if f"{name}," in body or "s)" in body}
    compiled = relax_mlir.compile(import_onnx(model_with(f"y = {body}", given)))

    with pytest.raises(RunError, match="expected 0 or 1, got 2"):
        compiled(*given.values())


@pytest.mark.slow  # compiles
@pytest.mark.parametrize(
    ("operator", "wanted"),
    [
        ("ReduceLogSumExp", -np.inf),
        ("ReduceLogSum", -np.inf),
        ("ReduceL2", 0),
        ("ReduceMean", np.nan),
    ],
)
def test_reductions_of_empty_tensors_to_scalars(operator: str, wanted: float) -> None:
    feeds = {"x": np.ones((0, 4))}
    model = _open(model_with(f"y = {operator}<keepdims = 0>(x)", feeds, opset=17))

    (actual,) = relax_mlir.compile(import_onnx(model))(*feeds.values())

    np.testing.assert_array_equal(actual, wanted)


@pytest.mark.parametrize("operator", ["ReduceMean", "ReduceL2", "ReduceLogSum"])
def test_reductions_to_scalars_are_written_as_vectors(operator: str) -> None:
    feeds = {"x": random(30, 40)}
    module = import_onnx(
        model_with(f"y = {operator}<keepdims = 0>(x)", feeds, opset=17)
    )

    kernels = relax_mlir.lower(module, to="loops").func_ops()

    rules = {
        f.attributes["tir.rule"].value for f in kernels if "tir.rule" in f.attributes
    }
    assert rules == {"RowWise"}


@pytest.mark.slow  # compiles
@pytest.mark.parametrize("empty", [0, 2, 3])
@pytest.mark.parametrize("operator", ["RoiAlign", "MaxRoiPool"])
def test_regions_require_nonempty_images(operator: str, empty: int) -> None:
    shape = [2, 3, 4, 5]
    shape[empty] = 0
    feeds = {"x": random(*shape), "r": random(2, 4), "i": np.array([0, 1])}
    body = "y = RoiAlign<output_height = 2, output_width = 2>(x, r, i)"
    if operator == "MaxRoiPool":
        feeds = {"x": feeds["x"], "r": random(2, 5)}
        body = "y = MaxRoiPool<pooled_shape = [2, 2]>(x, r)"
    compiled = relax_mlir.compile(import_onnx(_open(model_with(body, feeds))))

    with pytest.raises(ValueError, match=r"sizes do not fit: .* at least"):
        compiled(*feeds.values())


def test_regions_are_a_matrix() -> None:
    feeds = {"x": random(1, 1, 4, 5), "r": np.ones((), np.float32), "i": np.array([0])}

    with pytest.raises(ModelError, match="rois: expected rank 2, got 0"):
        import_onnx(model_with("y = RoiAlign(x, r, i)", feeds))


@pytest.mark.parametrize(
    ("attributes", "cosines", "message"),
    [
        ("", (2, 3, 1), r"input 1: expected \[2, 3, 4\], got \[2, 3, 1\]"),
        ("", (2, 3, 5), r"input 1: expected \[2, 3, 4\], got \[2, 3, 5\]"),
        ("", (3, 4), r"input 1: expected \[2, 3, 4\], got \[3, 4\]"),
        (
            "<rotary_embedding_dim = 4>",
            (2, 3, 2),
            r"input 2: expected \[2, 3, 2\], got",
        ),
        ("<rotary_embedding_dim = -1>", (2, 3, 4), "expected 0 to 8, got -1"),
        ("<rotary_embedding_dim = 10>", (2, 3, 5), "expected 0 to 8, got 10"),
    ],
)
def test_rotary_angles_match_feature_pairs(
    attributes: str, cosines: tuple[int, ...], message: str
) -> None:
    feeds = {"x": random(2, 1, 3, 8), "c": random(*cosines), "s": random(2, 3, 4)}
    body = f"y = RotaryEmbedding{attributes}(x, c, s)"

    with pytest.raises(ModelError, match=message):
        import_onnx(model_with(body, feeds, opset=23))


@pytest.mark.slow  # compiles
def test_quantized_nan_is_the_minimum() -> None:
    feeds = {"x": np.array([np.nan, -np.inf, 3, np.inf], np.float32)}
    known = feeds | {"s": np.ones(1, np.float32), "z": np.full(1, -3, np.int8)}
    model = model_with("y = QuantizeLinear(x, s, z)", known, ["s", "z"])

    assert_same_numbers(model, feeds)
    (actual,) = relax_mlir.compile(import_onnx(model))(*feeds.values())
    np.testing.assert_array_equal(actual, [-128, -128, 0, 127])


@pytest.mark.slow  # compiles
def test_vectors_of_norm_zero_become_positive_zero() -> None:
    tiny = np.float32(1e-40)  # its square is 0
    feeds = {"x": np.array([[-tiny, -0.0, 0], [np.inf, -1, 2], [3, -4, 0]], np.float32)}
    model = model_with("y = LpNormalization(x)", feeds)

    (actual,) = relax_mlir.compile(import_onnx(model))(*feeds.values())

    wanted = [[0, 0, 0], [np.nan, -0.0, 0], [0.6, -0.8, 0]]
    np.testing.assert_allclose(actual, wanted, rtol=1e-6)
    finite = np.isfinite(wanted)  # NaN has any sign
    signs = np.signbit(actual[finite]), np.signbit(np.array(wanted)[finite])
    np.testing.assert_array_equal(*signs)
    (theirs,) = expected(model, feeds)
    np.testing.assert_allclose(actual, theirs, rtol=1e-6)


@pytest.mark.slow  # compiles
@pytest.mark.parametrize("p", [9, 100])
def test_norms_can_have_high_orders(p: int) -> None:
    feeds = {"x": random(1, 2, 5)}
    model = model_with(f"y = GlobalLpPool<p = {p}>(x)", feeds)

    (actual,) = relax_mlir.compile(import_onnx(model))(*feeds.values())

    powers = np.abs(feeds["x"].astype(np.float64)) ** p
    wanted = powers.sum(2, keepdims=True) ** (1 / p)
    np.testing.assert_allclose(actual, wanted, rtol=1e-4)  # logarithms of powers


@pytest.mark.parametrize("opset", [23, 25])
def test_query_and_key_heads_have_one_size(opset: int) -> None:
    feeds = {"q": random(2, 4, 32), "k": random(2, 6, 1), "v": random(2, 6, 6)}
    window = ", left_window_size = 2" if opset > 24 else ""
    body = f"y = Attention<q_num_heads = 4, kv_num_heads = 1{window}>(q, k, v)"

    with pytest.raises(ModelError, match="expected one size, got 32 / 4 and 1 / 1"):
        import_onnx(model_with(body, feeds, opset=opset))


@pytest.mark.slow  # compiles
def test_remainders_of_zero_have_the_sign_of_the_divisor() -> None:
    x = np.array([0, -0.0, 4, -4], np.float32)
    y = np.array([-2, 2, -2, 2], np.float32)
    graph = model_with("z = Mod(x, y)", {"x": x, "y": y}, [], ["z"], opset=28)
    module = import_onnx(graph)

    (actual,) = relax_mlir.compile(module)(x, y)
    (by_definition,) = reference.run(module, x, y)

    np.testing.assert_array_equal(np.signbit(actual), [True, False, True, False])
    np.testing.assert_array_equal(np.signbit(by_definition), np.signbit(actual))


@pytest.mark.slow  # compiles
def test_symbolic_key_length_follows_from_values() -> None:
    feeds = {name: random(1, 2, 3, 4) for name in "qkv"} | {"n": np.array([2])}
    model = model_with("y = Attention(q, k, v, , , , n)", feeds, opset=24)
    for dim in model.graph.input[1].type.tensor_type.shape.dim:
        dim.dim_param = f"d{dim.dim_value}"
    module = import_onnx(model)

    (actual,) = relax_mlir.compile(module)(*feeds.values())

    (theirs,) = map(np.asarray, ReferenceEvaluator(model).run(None, feeds))
    np.testing.assert_allclose(actual, theirs, rtol=1e-5)


@pytest.mark.slow  # compiles
def test_cache_updates_fit_symbolic_caches() -> None:
    feeds = {"c": random(2, 3, 4), "u": random(2, 4, 4)}
    model = _open(model_with("y = TensorScatter(c, u)", feeds, opset=24))

    compiled = relax_mlir.compile(import_onnx(model))

    with pytest.raises(ValueError, match=r"sizes do not fit: .* at least"):
        compiled(*feeds.values())


def test_rotary_positions_match_the_sequence() -> None:
    feeds = {
        "x": random(2, 1, 3, 4),
        "a": random(5, 2),
        "p": np.zeros((2, 1), np.int64),
    }
    model = model_with("y = RotaryEmbedding(x, a, a, p)", feeds, opset=23)

    with pytest.raises(ModelError, match=r"input 3: expected \[2, 3\], got \[2, 1\]"):
        import_onnx(model)


@pytest.mark.slow  # compiles
def test_trees_of_symbolic_rows_check_their_features() -> None:
    tree = (
        "nodes_featureids = [2], nodes_truenodeids = [0], nodes_trueleafs = [1], "
        "nodes_falsenodeids = [1], nodes_falseleafs = [1], leaf_targetids = [0, 0], "
        "tree_roots = [0], n_targets = 1, nodes_modes = uint8[1] {0}, "
        "nodes_splits = float[1] {0.5}, leaf_weights = float[2] {1, 2}"
    )
    feeds = {"x": random(4, 2)}
    model = _open(model_with(f"y = ai.onnx.ml.TreeEnsemble<{tree}>(x)", feeds))
    model.opset_import.add(domain="ai.onnx.ml", version=5)

    compiled = relax_mlir.compile(import_onnx(model))

    with pytest.raises(ValueError, match=r"sizes do not fit: .* at least 3"):
        compiled(*feeds.values())


@pytest.mark.parametrize("axis", [-2, 1])
def test_only_axis_is_0_and_minus_1(axis: int) -> None:
    feeds = {"x": random(3), "a": np.array([axis])}

    with pytest.raises(ModelError, match="axis"):
        import_onnx(model_with("y = ReduceSum(x, a)", feeds, ["a"]))


@pytest.mark.parametrize("opset", [7, 9])
def test_upsample_rejects_scales_below_1(opset: int) -> None:
    feeds = {"x": random(1, 1, 4, 4), "s": np.array([1, 1, 1, 0.5], np.float32)}
    body = "y = Upsample(x, s)"
    if opset < 9:
        feeds, body = (
            {"x": feeds["x"]},
            "y = Upsample<scales = [1.0, 1.0, 1.0, 0.5]>(x)",
        )
    model = model_with(body, feeds, [n for n in feeds if n == "s"], opset=opset)

    with pytest.raises(ModelError, match="scales: expected 1 or more, got"):
        import_onnx(model)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_split_has_one_size_per_output(count: int) -> None:
    feeds = {"x": random(0), "s": np.zeros(count, np.int64)}
    model = model_with("y, z = Split(x, s)", feeds, ["s"], ["y", "z"])

    with pytest.raises(ModelError, match=f"expected 2 sizes, .* got {count}"):
        import_onnx(model)


@pytest.mark.slow  # compiles
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float64"])
def test_sign_of_zero(dtype: str) -> None:
    x = np.array([-0.0, 0.0, -2.0, np.nan]).astype(dtype)
    model = model_with("y = Sign(x)", {"x": x})

    (actual,) = relax_mlir.compile(import_onnx(model))(x)

    assert actual[:3].tolist() == [0, 0, -1]
    assert not np.signbit(actual[:2]).any()
    assert np.isnan(actual[3])


@pytest.mark.slow  # compiles
def test_determinant_of_nan_is_nan() -> None:
    """As in onnxruntime; numpy's is 0 for some that have a column of zeros."""
    rng, elements = np.random.default_rng(0), [0, -0.0, 1, 2, -3, np.nan]
    feeds = {"x": rng.choice(elements, (500, 3, 3)).astype(np.float32)}
    model = model_with("y = Det(x)", feeds)

    (actual,) = relax_mlir.compile(import_onnx(model))(feeds["x"])

    np.testing.assert_allclose(actual, expected(model, feeds)[0], rtol=1e-5, atol=1e-5)
