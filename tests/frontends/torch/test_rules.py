"""Conversion rules of torch operators agree with torch."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # torch's own, of its imports
    torch = pytest.importorskip("torch", reason="torch is not installed")

import relax_mlir
from relax_mlir.frontends.torch import from_exported

nn = torch.nn
F = torch.nn.functional
pytree = torch.utils._pytree

# Torch warns of its own ways while it exports. A case compiles many kernels at once.
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.slow]

_CASES: list[tuple[str, Callable[..., Any], tuple[Any, ...], bool]] = []
_RANDOM = torch.Generator().manual_seed(0)


def normal(*shape: int) -> Any:
    """Normal numbers."""
    return torch.randn(*shape, generator=_RANDOM)


def integers(low: int, high: int, *shape: int) -> Any:
    """Integers below an exclusive bound."""
    return torch.randint(low, high, shape, generator=_RANDOM)


def case(*inputs: Any, is_open: bool = True) -> Callable[[Any], Any]:
    """A function to export as a model, with inputs.

    Unless ``is_open`` is False, the first axis of every input stays open.
    """

    def add(function: Any) -> Any:
        _CASES.append((function.__name__, function, inputs, is_open))
        return function

    return add


X, Y = normal(3, 4, 5), normal(3, 4, 5).abs() + 0.1
UNIT = torch.rand(3, 4, 5, generator=_RANDOM) * 1.8 - 0.9
I, J = integers(-5, 6, 3, 4, 5), integers(1, 5, 3, 4, 5)  # noqa: E741
IMAGES, VECTOR = normal(2, 4, 8, 9), normal(6)


@case(UNIT)
def maps_of_small_numbers(x: Any) -> Any:
    names = "acos asin atan cos cosh sin sinh tan tanh exp erf sigmoid abs ceil floor"
    names += " trunc neg relu round sgn square expm1 log1p exp2 asinh atanh reciprocal"
    names += " erfc isnan isinf isfinite logical_not"
    return [getattr(torch, name)(x) for name in names.split()]


@case(Y)
def maps_of_positive_numbers(x: Any) -> Any:
    logs = [torch.log(x), torch.log2(x), torch.log10(x), torch.acosh(x + 1)]
    powers = [x**2, x**3, x**0.5, x**-1, x**1.7, 2.0**x, x**x]
    return [*logs, *powers, x.sqrt(), x.rsqrt()]


@case(torch.tensor([1e-6, -2e-6, 0.0, 3e38, float("inf"), -0.9]), is_open=False)
def what_is_near_0_keeps_its_precision(x: Any) -> Any:
    return torch.log1p(x) * 1e6, torch.expm1(-x.abs()) * 1e6


@case(I, J)
def arithmetic_of_integers(x: Any, y: Any) -> Any:
    halves = [torch.div(x, y, rounding_mode=m) for m in ("trunc", "floor")]
    bits = [x & y, x | y, x ^ y, ~x, x << y, x >> y]
    return [x + y, x - y, x * y, x / y, x // y, x % y, torch.fmod(x, y), *halves, *bits]


@case(X, Y)
def arithmetic_of_floats(x: Any, y: Any) -> Any:
    halves = [torch.div(x, y, rounding_mode=m) for m in ("trunc", "floor")]
    scaled = [
        torch.add(x, y, alpha=2),
        torch.sub(x, y, alpha=3),
        torch.rsub(x, y, alpha=2),
    ]
    combined = [torch.addcmul(x, x, y, value=0.5), torch.addcdiv(x, x, y)]
    others = [torch.lerp(x, y, 0.3), torch.atan2(x, y), torch.hypot(x, y)]
    plain = [x + y, x * y, x // y, x % y, torch.fmod(x, y), x.maximum(y), x.minimum(y)]
    return [*halves, *scaled, *combined, *others, *plain]


@case(I, X)
def types_are_promoted_as_torch_does(i: Any, x: Any) -> Any:
    numbers = [i + x, i * 2.5, i + 1, 1 - i, i / 2, i.sum(), i.cumsum(1), i.prod(2)]
    return [
        *numbers,
        i == x,
        i < 1.5,
        i >= 2,
        x > i,
        i.to(torch.int32) + i,
        x.double() * x,
    ]


@case(X, Y, X > 0)
def choices(x: Any, y: Any, mask: Any) -> Any:
    where = [
        torch.where(mask, x, y),
        torch.where(mask, x, 0.0),
        x.masked_fill(mask, -1),
    ]
    limits = [
        x.clamp(-0.5, 0.5),
        x.clamp(min=0),
        x.clamp(max=y),
        mask.logical_xor(~mask),
    ]
    return [*where, *limits]


@case(normal(4, 6) * 3)
def activations(x: Any) -> Any:
    names = "silu selu mish hardswish celu leaky_relu softplus relu6 gelu hardsigmoid"
    names += " hardtanh elu glu logsigmoid softsign"
    plain = [getattr(F, name)(x) for name in names.split()]
    tuned = [F.gelu(x, approximate="tanh"), F.elu(x, 0.5), F.softplus(x, 2, 3)]
    return [*plain, *tuned, F.glu(x, 0), F.prelu(x, x.new_full((6,), 0.3))]


@case(X)
def softmaxes(x: Any) -> Any:
    return x.softmax(-1), x.softmax(1), F.log_softmax(x, 0), x.logsumexp(1)


@case(X)
def shapes(x: Any) -> Any:
    views = [
        x.view(x.shape[0], 20),
        x.reshape(-1),
        x.unsqueeze(1).squeeze(1),
        x.flatten(1),
    ]
    orders = [x.permute(2, 0, 1), x.transpose(0, 2), x.mT, x.movedim(0, -1)]
    wide = [x.expand(2, *x.shape), x[:, :1].expand(-1, 6, -1), x.repeat(2, 1, 3)]
    moved = [x.flip(1, 2), x.roll((1, -2), (1, 2)), x.roll(1, 0), x.unfold(1, 2, 1)]
    return [*views, *orders, *wide, *moved, x.repeat_interleave(2, 1)]


@case(X)
def parts(x: Any) -> Any:
    slices = [x[1:], x[:, 1:3], x[:, -3:-1], x[..., ::2], x[:, :100], x[0], x[..., -1]]
    pieces = [x.split(2, 1), x.split([1, 3], 1), x.chunk(3, 1), x.unbind(1)]
    joined = [torch.cat([x, x], 1), torch.stack([x, x], 1), torch.cat([x, x[:1]])]
    return [slices, pieces, joined, x.tril(), x.triu(1), x.diagonal(1, 1, 2)]


@case(IMAGES)
def padding(x: Any) -> Any:
    modes = [
        F.pad(x, (1, 2, 3, 1), mode=m) for m in ("reflect", "replicate", "circular")
    ]
    return [
        *modes,
        F.pad(x, (1, 2)),
        F.pad(x, (-1, 1, 2, 0), value=1.5),
        F.pixel_shuffle(x, 2),
    ]


@case(X)
def new_tensors(x: Any) -> Any:
    count = x.shape[0]
    filled = [torch.full_like(x, 3), torch.zeros_like(x), torch.ones(count, 2)]
    ranges = [torch.arange(count), torch.arange(1, 7, 2), torch.linspace(0, 1, 5)]
    return [*filled, *ranges, torch.eye(3, 4), x * count, torch.tril_indices(3, 3)]


@case(X)
def reductions(x: Any) -> Any:
    sums = [x.sum(), x.sum(1), x.sum((0, 2), keepdim=True), x.mean(-1), x.prod(1)]
    extremes = [
        x.amax(1),
        x.amin((0, 1)),
        x.max(1),
        x.min(-1, keepdim=True),
        x.argmax(),
    ]
    spread = [x.var(), x.var(1), x.std(0), x.var(1, correction=0), torch.var_mean(x, 1)]
    norms = [
        x.norm(),
        *(torch.linalg.vector_norm(x, p, 1) for p in (1, 3, float("inf"))),
    ]
    truth = [(x > 0).any(1), (x > 0).all(), x.argmin(2, keepdim=True)]
    return [
        sums,
        extremes,
        spread,
        norms,
        truth,
        x.cumsum(1),
        x.cumprod(0),
        torch.cdist(x, x),
    ]


@case(X)
def orders(x: Any) -> Any:
    chosen = [x.topk(2, 1), x.topk(3, -1, largest=False), x.median(1), x.kthvalue(2, 1)]
    return [*chosen, x.sort(1), x.sort(0, descending=True), x.argsort(2)]


@case(X, torch.tensor([[0, 2], [1, 1]]))
def picks(x: Any, i: Any) -> Any:
    plain = [x[i], x[:, i], F.embedding(i, x[0]), x.index_select(1, i[0]), x[:, :, i]]
    joint = [x[i, i], x[:, i, i], x[i, :, i], x[i[0][:, None], i[1]]]
    return [*plain, *joint, x[:2, :, 0].gather(1, i), F.one_hot(i, 4)]


@case(normal(5, 5), torch.tensor([0, 2]), normal(2, 5))
def replacements(x: Any, i: Any, values: Any) -> Any:
    results = []
    for place in (i, (i, i), (slice(None), slice(1, 3)), 1, (slice(None), i), x > 0):
        changed = x.clone()
        changed[place] = 2.0
        results.append(changed)
    added = x.index_put((i,), values, accumulate=True)
    return [*results, added, x.index_add(0, i, values), x.index_copy(0, i, values)]


@case(normal(4, 6), integers(0, 6, 4, 1), normal(4, 1))
def scattered(x: Any, i: Any, values: Any) -> Any:
    combined = [
        x.scatter_reduce(1, i, values, kind) for kind in ("amax", "prod", "sum")
    ]
    return [
        x.scatter(1, i, values),
        x.scatter(1, i, 2.5),
        x.scatter_add(1, i, values),
        *combined,
    ]


@case(X, X > 0.5, normal(60))
def scattered_by_a_mask(x: Any, mask: Any, values: Any) -> Any:
    return x.masked_scatter(mask, values), x.masked_scatter(mask[:, :, :1], values)


@case(X, normal(3, 5, 2))
def products(x: Any, y: Any) -> Any:
    batches = [
        x @ y,
        torch.bmm(x, y),
        x[0] @ y,
        x @ y[0, :, 0],
        torch.outer(y[0, :, 0], y[0, :, 0]),
    ]
    sums = [
        torch.addmm(x[0, :, :2], x[0], y[0], beta=0.5, alpha=2),
        torch.mv(x[0], y[0, :, 1]),
    ]
    return [*batches, *sums, torch.einsum("bij,bjk->bik", x, y), F.linear(x, x[0])]


@case(normal(2, 4, 6, 8), normal(2, 2, 7, 8), normal(2, 1, 6, 7))
def attention(query: Any, key: Any, mask: Any) -> Any:
    attend = F.scaled_dot_product_attention
    every = key.repeat_interleave(2, 1)
    hidden = torch.cat(
        [mask[:, :, :5] > 0, mask[:, :, 5:] > 99], 2
    )  # the last row sees nothing
    grouped = [attend(query, key, key, m, enable_gqa=True) for m in (None, mask)]
    plain = [attend(query, every, every), attend(query, every, every, scale=0.3)]
    causal = [attend(query, key, key, is_causal=True, enable_gqa=True)]
    return [*grouped, *plain, *causal, attend(query, every, every, hidden)]


@case(IMAGES)
def convolutions(x: Any) -> Any:
    weight, bias = torch.arange(108.0).view(3, 4, 3, 3) / 99, torch.arange(3.0)
    plain = [
        F.conv2d(x, weight, bias),
        F.conv2d(x, weight, None, 2, 1),
        F.conv2d(x[0], weight),
    ]
    same = [
        F.conv2d(x, weight, None, 1, "same"),
        F.conv2d(x, weight, None, 1, (2, 1), 2),
    ]
    turned = weight.transpose(0, 1)
    back = [
        F.conv_transpose2d(x, turned, bias),
        F.conv_transpose2d(x, turned, None, 2, 1, 1),
    ]
    depth = [
        F.conv2d(x, turned[:, :1], groups=4),
        F.conv1d(x[:, :, 0], weight[..., 0], None, 2),
    ]
    return [*plain, *same, *back, *depth]


@case(IMAGES, normal(4))
def normalisations(x: Any, weight: Any) -> Any:
    groups = [
        F.group_norm(x, 2, weight, weight),
        F.group_norm(x, 4),
        F.instance_norm(x),
    ]
    layers = [F.layer_norm(x, (9,)), F.layer_norm(x, (8, 9)), F.rms_norm(x, (9,))]
    batch = F.batch_norm(x, weight, weight.abs() + 0.5, weight, weight)
    return [*groups, *layers, batch, F.local_response_norm(x, 2), F.normalize(x, dim=1)]


@case(IMAGES)
def pools(x: Any) -> Any:
    largest = [
        F.max_pool2d(x, 2),
        F.max_pool2d(x, 3, 2, 1),
        F.max_pool2d(x, 3, 2, ceil_mode=True),
    ]
    means = [F.avg_pool2d(x, 2), F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)]
    ends = [
        F.avg_pool2d(x, 3, 2, ceil_mode=True),
        F.avg_pool2d(x, 2, divisor_override=3),
    ]
    adaptive = [F.adaptive_avg_pool2d(x, s) for s in ((4, 3), (3, 4), 1)]
    places = F.max_pool2d(x, 2, return_indices=True)
    return [
        *largest,
        *means,
        *ends,
        *adaptive,
        *places,
        F.adaptive_max_pool2d(x, (3, 4)),
    ]


@case(IMAGES)
def sizes_of_pictures(x: Any) -> Any:
    nearest = [F.interpolate(x, scale_factor=2), F.interpolate(x, size=(5, 7))]
    nearest.append(F.interpolate(x, scale_factor=1.7))
    modes = [F.interpolate(x, size=(16, 5), mode=m) for m in ("bilinear", "bicubic")]
    aligned = F.interpolate(x, size=(5, 7), mode="bilinear", align_corners=True)
    smooth = F.interpolate(x, size=(4, 5), mode="bilinear", antialias=True)
    return [*nearest, *modes, aligned, smooth]


@case(IMAGES, torch.rand(2, 3, 4, 2, generator=_RANDOM) * 2.4 - 1.2)
def samples(x: Any, grid: Any) -> Any:
    smooth = F.grid_sample(x, grid, align_corners=False)
    return smooth, F.grid_sample(x, grid, "nearest", "border", True)


class Model(nn.Module):
    """A function as a model."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


@pytest.mark.parametrize(
    ("function", "inputs", "is_open"),
    [c[1:] for c in _CASES],
    ids=[c[0] for c in _CASES],
)
def test_rule(
    function: Callable[..., Any], inputs: tuple[Any, ...], is_open: bool
) -> None:
    auto = torch.export.Dim.AUTO
    open_sizes = (tuple({0: auto} for _ in inputs),) if is_open else None
    program = torch.export.export(Model(function), inputs, dynamic_shapes=open_sizes)

    found = relax_mlir.compile(from_exported(program))(*inputs)

    expected = [t for t in pytree.tree_leaves(function(*inputs)) if t is not None]
    assert len(found) == len(expected)
    for number, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        wanted = theirs.numpy()
        assert ours.dtype == wanted.dtype, f"result {number}"
        np.testing.assert_allclose(
            ours, wanted, rtol=1e-5, atol=1e-5, err_msg=f"result {number}"
        )
