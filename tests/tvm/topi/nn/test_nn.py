"""Neural network and image operators, against numpy."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from relax_mlir.tvm import te, topi
from tests.tvm.te.programs import evaluate

nn = topi.nn
windows = np.lib.stride_tricks.sliding_window_view
RNG = np.random.default_rng(0)


def random(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


A = random(3, 5)
X = random(1, 4, 4, 4)
K = random(2, 4, 3, 3)


def close(actual: np.ndarray, expected: np.ndarray) -> None:
    assert actual.shape == expected.shape
    # Sums of up to a hundred float32 numbers, in another order than numpy's.
    np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=2e-5)


def convolved(
    x: np.ndarray,
    k: np.ndarray,
    stride: int = 1,
    pad: int = 0,
    dilation: int = 1,
    groups: int = 1,
) -> np.ndarray:
    """A convolution of any rank, channels first."""
    rank = x.ndim - 2
    space = tuple(range(2, 2 + rank))
    steps = (slice(None), slice(None))
    x = np.pad(x, [(0, 0), (0, 0)] + [(pad, pad)] * rank)
    spread = np.zeros(k.shape[:2] + tuple((n - 1) * dilation + 1 for n in k.shape[2:]))
    spread[steps + (slice(None, None, dilation),) * rank] = k
    found = windows(x, spread.shape[2:], space)[
        steps + (slice(None, None, stride),) * rank
    ]
    own, out = x.shape[1] // groups, k.shape[0] // groups
    sums = [
        np.tensordot(
            found[:, g * own : (g + 1) * own],
            spread[g * out : (g + 1) * out],
            ((1, *range(2 + rank, 2 + 2 * rank)), (1, *space)),
        )
        for g in range(groups)
    ]
    return np.moveaxis(np.concatenate(sums, -1), -1, 1)


@pytest.mark.parametrize(
    ("stride", "pad", "dilation"), [(1, 0, 1), (2, 1, 1), (1, 2, 2)]
)
def test_conv2d(stride: int, pad: int, dilation: int) -> None:
    made = evaluate(lambda x, k: nn.conv2d(x, k, stride, pad, dilation), X, K)

    close(made, convolved(X, K, stride, pad, dilation))


def test_convolutions_in_other_layouts() -> None:
    x, k = X.transpose(0, 2, 3, 1).copy(), K.transpose(2, 3, 1, 0).copy()
    expected = convolved(X, K, 1, 1).transpose(0, 2, 3, 1)

    close(evaluate(lambda x, k: nn.conv2d(x, k, 1, 1, 1, "NHWC"), x, k), expected)
    close(evaluate(lambda x, k: nn.conv2d_nhwc(x, k, 1, "SAME", 1), x, k), expected)


def test_convolutions_in_groups() -> None:
    k = random(2, 2, 3, 3)
    own = random(4, 2, 3, 3)

    grouped = evaluate(lambda x, k: nn.group_conv2d_nchw(x, k, 1, 1, 1, 2), X, k)
    depthwise = evaluate(lambda x, k: nn.depthwise_conv2d_nchw(x, k, 1, 0, 1), X, own)

    close(grouped, convolved(X, k, 1, 1, groups=2))
    close(depthwise, convolved(X, own.reshape(8, 1, 3, 3), groups=4))


def test_convolutions_of_one_and_three_dimensions() -> None:
    x1, k1 = random(1, 2, 7), random(3, 2, 3)
    x3, k3 = random(1, 2, 2, 3, 3), random(2, 2, 2, 2, 2)

    close(evaluate(lambda x, k: nn.conv1d(x, k, 2, 1), x1, k1), convolved(x1, k1, 2, 1))
    made = evaluate(lambda x, k: nn.conv3d_ncdhw(x, k, 1, 0, 1, 1), x3, k3)
    close(made, convolved(x3, k3))


def spread(
    x: np.ndarray, k: np.ndarray, stride: int, pad: int, extra: int
) -> np.ndarray:
    """A 2-D transposed convolution: every element adds a window."""
    (n, _, h, w), (_, out, kh, kw) = x.shape, k.shape
    sizes = [
        (size - 1) * stride + window + extra for size, window in ((h, kh), (w, kw))
    ]
    made = np.zeros((n, out, *sizes), np.float32)
    for i in range(h):
        for j in range(w):
            place = np.s_[
                :, :, i * stride : i * stride + kh, j * stride : j * stride + kw
            ]
            made[place] += np.einsum("nc,cohw->nohw", x[:, :, i, j], k)
    return made[:, :, pad : sizes[0] - pad, pad : sizes[1] - pad]


def test_transposed_convolutions() -> None:
    x, k = X[:, :, :3, :3].copy(), random(4, 2, 3, 3)
    operator = nn.conv2d_transpose_nchw

    made = evaluate(
        lambda x, k: operator(x, k, (2, 2), (1, 1), "float32", (1, 1)), x, k
    )

    close(made, spread(x, k, 2, 1, 1))


def test_transposed_convolutions_in_groups() -> None:
    x, k = X[:, :, :3, :3].copy(), random(4, 2, 2, 2)
    operator = nn.group_conv2d_transpose_nchw

    made = evaluate(lambda x, k: operator(x, k, 1, 0, "float32", (0, 0), 2), x, k)

    halves = [spread(x[:, i : i + 2], k[i : i + 2], 1, 0, 0) for i in (0, 2)]
    close(made, np.concatenate(halves, 1))


POOLS = {
    "max": lambda x: windows(x, (2, 2), (2, 3))[:, :, ::2, ::2].max((4, 5)),
    "avg": lambda x: windows(x, (2, 2), (2, 3))[:, :, ::2, ::2].mean((4, 5)),
}


@pytest.mark.parametrize("kind", POOLS)
def test_pooling(kind: str) -> None:
    operator = lambda x: nn.pool2d(x, [2, 2], [2, 2], [1, 1], [0] * 4, kind)  # noqa: E731

    close(evaluate(operator, X), POOLS[kind](X))
    laid = X.transpose(0, 2, 3, 1).copy()
    made = evaluate(
        lambda x: nn.pool2d(x, [2, 2], [2, 2], [1, 1], [0] * 4, kind, layout="NHWC"),
        laid,
    )
    close(made, POOLS[kind](X).transpose(0, 2, 3, 1))


@pytest.mark.parametrize("include", [False, True])
def test_avg_pool_counts_padding_only_if_asked(include: bool) -> None:
    around = np.pad(X, [(0, 0), (0, 0), (1, 1), (1, 1)], constant_values=np.nan)
    found = windows(around, (3, 3), (2, 3))[:, :, ::2, ::2]

    made = evaluate(
        lambda x: nn.pool2d(
            x, [3, 3], [2, 2], [1, 1], [1] * 4, "avg", count_include_pad=include
        ),
        X,
    )

    expected = (
        np.nan_to_num(found).mean((4, 5)) if include else np.nanmean(found, (4, 5))
    )
    close(made, expected)


def test_pooling_with_dilation_and_windows_beyond_the_end() -> None:
    x = random(1, 1, 7)
    dilated = evaluate(lambda t: nn.pool1d(t, [2], [1], [2], [0, 0], "max"), x)
    close(dilated, np.maximum(x[..., :-2], x[..., 2:]))

    ceiled = evaluate(lambda t: nn.pool1d(t, [2], [2], [1], [0, 0], "max", True), x)
    pairs = np.pad(x, [(0, 0), (0, 0), (0, 1)], constant_values=-np.inf)
    close(ceiled, pairs.reshape(1, 1, 4, 2).max(3))


@pytest.mark.parametrize("kind", ["max", "avg"])
def test_adaptive_pooling_of_windows_of_unequal_sizes(kind: str) -> None:
    x = random(1, 2, 5, 4)
    reduce = np.max if kind == "max" else np.mean

    made = evaluate(lambda t: nn.adaptive_pool(t, [3, 1], kind), x)

    bounds = [(0, 2), (1, 4), (3, 5)]
    expected = np.stack([reduce(x[:, :, a:b], (2, 3)) for a, b in bounds], 2)[..., None]
    close(made, expected)
    close(
        evaluate(lambda t: nn.global_pool(t, kind), x), reduce(x, (2, 3), keepdims=True)
    )


def normal(x: np.ndarray, axes: Any, eps: float = 1e-5) -> np.ndarray:
    variance = x.var(axes, keepdims=True)
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(variance + eps)


def test_normalisations() -> None:
    g, b = random(5), random(5)
    c, d = random(4), random(4)
    per = np.s_[:, None, None]

    close(
        evaluate(lambda x, g, b: nn.layer_norm(x, g, b, [-1]), A, g, b),
        normal(A, 1) * g + b,
    )
    rms = A / np.sqrt((A * A).mean(1, keepdims=True) + 1e-5)
    close(evaluate(lambda x, g: nn.rms_norm(x, g, [1]), A, g), rms * g)
    instance = evaluate(lambda x, g, b: nn.instance_norm(x, g, b, 1, [2, 3]), X, c, d)
    close(instance, normal(X, (2, 3)) * c[per] + d[per])
    group = evaluate(lambda x, g, b: nn.group_norm(x, g, b, 2, 1, [2, 3]), X, c, d)
    halves = normal(X.reshape(1, 2, 2, 4, 4), (2, 3, 4)).reshape(X.shape)
    close(group, halves * c[per] + d[per])


def test_batch_norm_in_training_moves_its_mean() -> None:
    x, g, b, m = random(6, 3), random(3), random(3), random(3)
    v = np.abs(random(3))

    used = evaluate(lambda *t: nn.batch_norm(*t), x, g, b, m, v)
    trained = evaluate(
        lambda *t: nn.batch_norm(*t, training=True, momentum=0.2), x, g, b, m, v
    )

    close(used[0], (x - m) / np.sqrt(v + 1e-5) * g + b)
    close(trained[0], normal(x, 0) * g + b)
    close(trained[1], 0.8 * m + 0.2 * x.mean(0))
    close(trained[2], 0.8 * v + 0.2 * x.var(0))


def test_local_response_normalization() -> None:
    made = evaluate(lambda x: nn.lrn(x, 3, 1, 1e-2, 0.75, 2), X)

    padded = np.pad(X, [(0, 0), (1, 1), (0, 0), (0, 0)]) ** 2
    squares = np.stack([padded[:, i : i + 3].sum(1) for i in range(4)], 1)
    close(made, X / (2 + 1e-2 / 3 * squares) ** 0.75)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def test_softmax() -> None:
    close(evaluate(nn.softmax, A), softmax(A))
    close(evaluate(lambda x: nn.softmax(x, 0), A), softmax(A.T).T)
    close(evaluate(nn.log_softmax, A), np.log(softmax(A)))
    close(evaluate(nn.fast_softmax, A), softmax(A))


def test_activations() -> None:
    slopes = random(5)

    close(evaluate(nn.relu, A), A.clip(0))
    close(evaluate(lambda x: nn.leaky_relu(x, 0.1), A), np.where(A > 0, A, A * 0.1))
    close(evaluate(nn.softplus, A), np.log1p(np.exp(A)))
    close(evaluate(nn.prelu, A, slopes), np.where(A > 0, A, A * slopes))
    close(evaluate(nn.flatten, X), X.reshape(1, -1))
    close(evaluate(lambda x, b: nn.bias_add(x, b, -1), A, slopes), A + slopes)


def test_dense_and_batch_matmul() -> None:
    a, b, w, bias = random(2, 3, 4), random(1, 4, 2), random(2, 5), random(2)

    close(evaluate(nn.dense, A, w, bias), A @ w.T + bias)
    close(evaluate(nn.matmul, a, b), a @ b)
    close(evaluate(lambda x, y: nn.batch_matmul(x, y, transpose_b=False), a, b), a @ b)


@pytest.mark.parametrize(
    ("operator", "mode"),
    [
        (nn.pad, "constant"),
        (nn.mirror_pad, "symmetric"),
        (nn.reflect_pad, "reflect"),
        (nn.replicate_pad, "edge"),
        (nn.circular_pad, "wrap"),
    ],
)
def test_padding(operator: Callable[..., Any], mode: Any) -> None:
    made = evaluate(lambda x: operator(x, [1, 2], [2, 1]), A)

    close(made, np.pad(A, [(1, 2), (2, 1)], mode=mode))


def test_dilate() -> None:
    close(evaluate(lambda x: nn.dilate(x, [2, 1], 7.0), A), np.insert(A, [1, 2], 7, 0))


def test_depth_to_space_and_back() -> None:
    x = random(1, 8, 2, 2)
    blocks = x.reshape(1, 2, 2, 2, 2, 2)
    image = blocks.transpose(0, 3, 4, 1, 5, 2).reshape(1, 2, 4, 4)
    shuffled = (
        x.reshape(1, 2, 2, 2, 2, 2).transpose(0, 1, 4, 2, 5, 3).reshape(1, 2, 4, 4)
    )

    close(evaluate(lambda t: nn.depth_to_space(t, 2), x), image)
    close(evaluate(lambda t: nn.depth_to_space(t, 2, mode="CRD"), x), shuffled)
    close(evaluate(lambda t: nn.pixel_shuffle(t, 2), x), shuffled)
    close(evaluate(lambda t: nn.space_to_depth(t, 2), image), x)


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_negative_log_likelihood(reduction: str) -> None:
    targets, weights = np.array([1, 4, 0], np.int32), np.abs(random(5))

    made = evaluate(
        lambda p, t, w: nn.nll_loss(p, t, w, reduction, -1), A, targets, weights
    )

    losses = -A[range(3), targets] * weights[targets]
    mean = losses.sum() / weights[targets].sum()
    close(made, {"none": losses, "sum": losses.sum(), "mean": mean}[reduction])


def along(x: np.ndarray, weigh: Callable[[Any], Any], axis: int) -> Any:
    """Upsampling by 2 along an axis, from four neighbours weighted by distance."""
    count = x.shape[axis]
    places = (np.arange(2 * count) + 0.5) / 2 - 0.5
    below = np.floor(places).astype(int)
    shape = [-1 if i == axis else 1 for i in range(x.ndim)]
    return sum(
        x.take((below + k).clip(0, count - 1), axis)
        * weigh(np.abs(places - below - k)).reshape(shape)
        for k in range(-1, 3)
    )


def cubic(d: np.ndarray, a: float = -0.75) -> np.ndarray:
    near = (a + 2) * d**3 - (a + 3) * d**2 + 1
    return np.where(d <= 1, near, a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a)


@pytest.mark.parametrize(
    ("method", "weigh"), [("linear", lambda d: (1 - d).clip(0)), ("cubic", cubic)]
)
def test_resize_interpolates(method: str, weigh: Callable[[Any], Any]) -> None:
    x = random(1, 1, 3, 2)

    made = evaluate(
        lambda t: topi.image.resize2d(t, [0.0] * 4, (6, 4), method=method), x
    )

    close(made, along(along(x, weigh, 2), weigh, 3))


@pytest.mark.parametrize("mode", ["asymmetric", "half_pixel"])
def test_resize_nearest_neighbor(mode: str) -> None:
    made = evaluate(
        lambda t: topi.image.resize2d(
            t,
            [0.0] * 4,
            (8, 8),
            method="nearest_neighbor",
            coordinate_transformation_mode=mode,
            rounding_method="" if mode == "asymmetric" else "round_prefer_floor",
        ),
        X,
    )

    close(made, X.repeat(2, 2).repeat(2, 3))
    close(evaluate(lambda t: nn.upsampling(t, 2, 2), X), X.repeat(2, 2).repeat(2, 3))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda x: nn.conv2d(x, te.placeholder((2, 4, 3, 3)), 1, [1], 1),
            "padding: expected",
        ),
        (
            lambda x: nn.group_conv2d_nchw(x, x, 1, 1, 1, 3),
            "not divisible into 3 groups",
        ),
        (lambda x: nn.group_conv2d_nchw(x, x, 1, 1, 1, 0), "1 group or more, got 0"),
        (lambda x: nn.pool2d(x, [2], [2], [1], [0], "max"), "expected 2 sizes"),
        (lambda x: nn.adaptive_pool(x, [1, 1], "mean"), "expected `avg` or `max`"),
        (
            lambda x: nn.dense(x, te.placeholder((2, 9))),
            "equal inner sizes, got 4 and 9",
        ),
        (
            lambda x: topi.image.resize2d(x, [0] * 4, (2, 2), method="no"),
            "Unknown resize",
        ),
        (lambda x: nn.pad(x, [1]), "pad_before: expected 4 numbers"),
    ],
)
def test_invalid_arguments_are_rejected(make: Callable[..., Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(te.placeholder((1, 4, 4, 4), name="x"))
