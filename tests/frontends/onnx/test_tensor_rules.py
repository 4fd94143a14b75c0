"""Rules of Fourier transforms, region pooling and selection agree with onnxruntime."""

import numpy as np
import pytest

from relax_mlir.compiler import reference
from relax_mlir.errors import ModelError
from relax_mlir.frontends.onnx import import_onnx
from tests.frontends.onnx.differential import assert_same_numbers, random, typed_model

_IMAGES = random(2, 2, 5, 6)
_GRID = np.random.default_rng(1).uniform(-1.3, 1.3, (2, 3, 4, 2)).astype(np.float32)
_SAMPLED = {"x": _IMAGES, "g": _GRID}
_SIGNAL = {"x": random(2, 24, 2)}
_REAL = {"x": random(2, 24, 1)}
_BOXES = np.array([[0, 0, 9, 9], [2, 1, 7, 12], [8, 8, 3, 3]], np.float32)
_REGIONS = {"x": random(2, 3, 8, 9), "r": _BOXES, "i": np.array([0, 1, 0])}
_NUMBERED = np.concatenate([np.array([[1], [0], [1]], np.float32), _BOXES], axis=1)
_WORDS = {"x": np.array([[1, 1, 3, 3, 3, 7], [8, 6, 7, 5, 6, 8]])}
_TEXT_ATTRS = (
    "max_gram_length = 2, min_gram_length = 1, ngram_counts = [0, 4], "
    "ngram_indexes = [0, 1, 2, 3, 6, 5, 4], "
    "pool_int64s = [2, 3, 5, 4, 5, 6, 7, 8, 6, 7], "
    "weights = [2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]"
)


@pytest.mark.parametrize(
    ("body", "opset", "feeds"),
    [
        *(
            (
                f'y = GridSample <mode = "{mode}", padding_mode = "{padding}"> (x, g)',
                16,
                _SAMPLED,
            )
            for mode in ("bilinear", "nearest", "bicubic")
            for padding in ("zeros", "border", "reflection")
        ),
        ('y = GridSample <mode = "cubic", align_corners = 1> (x, g)', 20, _SAMPLED),
        ("y = DFT (x)", 20, _SIGNAL),
        ("y = DFT <inverse = 1, axis = 0> (x)", 17, _SIGNAL),
        ("n = Constant <value_int = 35> () y = DFT (x, n)", 20, _SIGNAL),
        ("n = Constant <value_int = 9> () y = DFT <onesided = 1> (x, n)", 20, _REAL),
        ("y = DFT <axis = 1> (x)", 17, {"x": random(1, 256, 2)}),
        ("y = DFT (x)", 20, {"x": random(1, 33, 1, dtype=np.float64)}),
        (
            "s = Constant <value_int = 5> () y = STFT (x, s, w)",
            17,
            {**_REAL, "w": random(8)},
        ),
        (
            "s = Constant <value_int = 5> () y = STFT (x, s, w)",
            17,
            {"x": random(2, 32), "w": random(8)},
        ),
        (
            (
                "s = Constant <value_int = 4> () n = Constant <value_int = 10> () "
                "y = STFT <onesided = 0> (x, s, , n)"
            ),
            17,
            _REAL,
        ),
        (
            (
                "b = Constant <value_int = 8> () n = Constant <value_int = 16> () "
                "r = Constant <value_int = 8192> () "
                "l = Constant <value_float = 0.0> () h = Constant <value_float = 4096.0> () "
                "m = MelWeightMatrix (b, n, r, l, h) y = MatMul (x, m)"
            ),
            17,
            {"x": random(2, 9)},
        ),
        (
            (
                "y = RoiAlign <output_height = 2, output_width = 3, sampling_ratio = 2> "
                "(x, r, i)"
            ),
            16,
            _REGIONS,
        ),
        (
            "y = RoiAlign <output_height = 3, spatial_scale = 0.5> (x, r, i)",
            10,
            _REGIONS,
        ),
        (
            "y = MaxRoiPool <pooled_shape = [2, 3], spatial_scale = 0.7> (x, r)",
            17,
            {"x": random(2, 3, 8, 9), "r": _NUMBERED},
        ),
        (
            (
                "s = Constant <value_ints = [5, 6]> () b = Constant <value_ints = [2, 3]> () "
                "y = Col2Im <pads = [1, 0, 0, 1], strides = [2, 1]> (x, s, b)"
            ),
            18,
            {"x": random(1, 12, 15)},
        ),
        ("y = Det (x)", 11, {"x": random(3, 5, 5)}),
        (
            (
                "p, i = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x) "
                "y = MaxUnpool <kernel_shape = [2, 2], strides = [2, 2]> (p, i)"
            ),
            12,
            {"x": random(1, 2, 4, 6)},
        ),
        *(
            (
                (
                    f'y = TfIdfVectorizer <mode = "{mode}", max_skip_count = {skips}, '
                    f"{_TEXT_ATTRS}> (x)"
                ),
                17,
                _WORDS,
            )
            for mode, skips in (("TF", 0), ("IDF", 5), ("TFIDF", 1))
        ),
        (
            'y = Einsum <equation = "bij, bjk -> bik"> (x, z)',
            12,
            {"x": random(2, 3, 4), "z": random(2, 4, 5)},
        ),
        ('y = Einsum <equation = "...ii ->...i"> (x)', 12, {"x": random(2, 3, 3)}),
        (
            'y = Einsum <equation = "ij,...jk,kl"> (x, z, v)',
            12,
            {"x": random(2, 3), "z": random(4, 3, 2), "v": random(2, 5)},
        ),
        ("y = EyeLike <k = -1, dtype = 7> (x)", 9, {"x": random(3, 4)}),
        (
            "y = ReverseSequence <batch_axis = 0, time_axis = 1> (x, n)",
            10,
            {"x": random(3, 4, 2), "n": np.array([1, 4, 2])},
        ),
        ("v, y = TopK <k = 2, axis = 0> (x)", 9, {"x": random(7, 3)}),
        (
            "k = Constant <value_ints = [3]> () v, y = TopK <largest = 0> (x, k)",
            13,
            {"x": random(2, 9)},
        ),
    ],
)
def test_rule_matches_onnxruntime(
    body: str, opset: int, feeds: dict[str, np.ndarray]
) -> None:
    assert_same_numbers(typed_model(body, opset, feeds), feeds, tolerance=2e-5)


@pytest.mark.parametrize("count", [1, 3])
def test_old_prelu_slopes_are_per_channel(count: int) -> None:
    x, slope = random(2, 3, 4), random(count)
    module = import_onnx(typed_model("y = PRelu (x, z)", 6, {"x": x, "z": slope}))

    (y,) = reference.run(module, x, slope)

    np.testing.assert_allclose(y, np.where(x < 0, x * slope[:, None], x))


_FLAT = {"x": random(2, 3)}
_PICTURES_EXPECTED = r"input 0: expected \[n, c, h, w\], got \[2, 3\]"


@pytest.mark.parametrize(
    ("body", "opset", "feeds", "message"),
    [
        ("y = DFT <axis = -1> (x)", 17, _SIGNAL, "axis: expected one before the last"),
        ("y = DFT <onesided = 1> (x)", 20, _SIGNAL, "onesided: expected a real signal"),
        ("y = DFT (x)", 20, {"x": random(2, 3)}, "expected 1 or 2 parts .*, got 3"),
        (
            "k = Constant <value_ints = [9]> () v, y = TopK (x, k)",
            13,
            {"x": random(2, 3)},
            "k: expected 0 to 3, the size of axis 1, got 9",
        ),
        (
            "k = Constant <value_ints = [1, 2]> () v, y = TopK (x, k)",
            13,
            {"x": random(2, 3)},
            "input 1: expected one number, got 2",
        ),
        (
            "y = ReverseSequence <batch_axis = 1, time_axis = 1> (x, n)",
            10,
            {"x": random(3, 4), "n": np.array([1, 4, 2, 1])},
            r"time_axis and batch_axis: .*, got \(1, 1\)",
        ),
        ('y = Einsum <equation = "ij->k"> (x)', 12, {"x": random(2, 3)}, "`ij->k`"),
        (
            "y = MaxRoiPool <pooled_shape = [2, 3]> (x, r)",
            17,
            {"x": random(1, 1, 2, 2), "r": random(2, 4)},
            "expected `4`, got `5`|expected `5`, got `4`",
        ),
        (
            "y = MaxUnpool <kernel_shape = [2]> (x, i)",
            11,
            {"x": random(1, 1, 2, 2), "i": np.zeros((1, 1, 2, 2), np.int64)},
            "expected kernel_shape, strides and pads for 2 axes",
        ),
        (
            (
                'y = TfIdfVectorizer <mode = "TF", max_skip_count = 0, max_gram_length = 1, '
                "min_gram_length = 1, ngram_counts = [0], ngram_indexes = [0], "
                "pool_int64s = [1, 2]> (x)"
            ),
            17,
            _WORDS,
            "ngram_indexes: expected 2 of 0 or more, .*, got 1",
        ),
        (
            'y = DepthToSpace <blocksize = 1, mode = "XYZ"> (x)',
            13,
            {"x": random(1, 1, 2, 2)},
            "attribute `mode`: expected one of DCR, CRD, got 'XYZ'",
        ),
        ("y = DepthToSpace <blocksize = 2> (x)", 13, _FLAT, _PICTURES_EXPECTED),
        ("y = SpaceToDepth <blocksize = 2> (x)", 13, _FLAT, _PICTURES_EXPECTED),
        (
            "y = DeformConv (x, x, x)",
            19,
            _FLAT,
            r"input 1: expected \[m, c, kernel...\], got \[2, 3\]",
        ),
        (
            "y = MaxUnpool <kernel_shape = [2]> (x, i)",
            11,
            {"x": random(2), "i": np.zeros(2, np.int64)},
            r"input 0: expected \[n, c, windows...\], got \[2\]",
        ),
        (
            "y = LpPool <kernel_shape = [2]> (x)",
            18,
            {"x": random(2)},
            "expected rank 3 for this pool_size, got 1",
        ),
        (
            'y = LpPool <kernel_shape = [2], auto_pad = "SAME_UPPER"> (x)',
            18,
            {"x": random(2)},
            r"input 0: expected rank 3 for 1 spatial axes, got \[2\]",
        ),
        (
            "y = GatherND (x, i)",
            13,
            {"x": random(2), "i": np.array(0)},
            "indices must have rank over 0, got 0",
        ),
        (
            "y = ScatterND (x, i, x)",
            13,
            {"x": random(2), "i": np.array(0)},
            "indices must have rank over 0, got 0",
        ),
    ],
)
def test_invalid_nodes_are_rejected(
    body: str, opset: int, feeds: dict[str, np.ndarray], message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        import_onnx(typed_model(body, opset, feeds))
