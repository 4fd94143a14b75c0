"""Winograd convolutions: slices of images, and error bounds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import numpy_helper

from relax_mlir import IRModule, compile, import_onnx, lower
from relax_mlir.runtime.executable import Executable
from relax_mlir.schedules.winograd import input_limits
from relax_mlir.targets import TargetError
from tests.frontends.onnx.differential import parse
from tests.helpers.searching import examples
from tests.schedules.low_precision import assert_close, convolved, drawn

F32 = np.float32

SLICES = [
    pytest.param(axis, begin, id=f"{name} from {begin}")
    for axis, name in enumerate(("images", "channels", "rows", "columns"))
    for begin in (0, 1, 16)
    if begin < 16 or axis == 1
]


@pytest.mark.slow
@pytest.mark.parametrize(("axis", "begin"), SLICES)
def test_convolution_of_a_slice(axis: int, begin: int) -> None:
    shape = (3, 48, 21, 22)
    count = 32 if axis == 1 else shape[axis] - 1
    x, w = drawn(*shape), drawn(32, 32 if axis == 1 else 48, 3, 3) / 17
    ends = f"<int64[1] b = {{{begin}}}, int64[1] e = {{{begin + count}}}, int64[1] a = {{{axis}}}>"
    text = f"""g (float{list(shape)} x, float[48, 48, 1, 1] i, float{list(w.shape)} w)
        => (float[k, l, m, n] y) {ends} {{
        c = Conv (x, i)
        s = Slice (c, b, e, a)
        y = Conv <pads = [1, 1, 1, 1]> (s, w) }}"""
    identity = np.eye(48, dtype=np.float32)[:, :, None, None]
    module = import_onnx(parse(text), values={"w": w, "i": identity})

    made = compile(module, cache=False)
    (y,) = made(x)

    assert "Winograd" in rules(made)
    assert_close(y, convolved(x.take(range(begin, begin + count), axis), w))


def rules(made: object) -> Sequence[str]:
    assert isinstance(made, Executable)
    return [kernel.rule for kernel in made.kernels]


EPS = float(np.finfo(np.float32).eps)
# Of eps * sum |w| |x| over the receptive field of each result; see docs/decisions/0015.
BOUND = 64


@dataclass(frozen=True)
class Case:
    """A convolution with an epilogue that uses Winograd.

    Attributes:
        images, channels, out, rows, columns: of the data, and output channels.
        pads: above, left, below, right.
        epilogue: whether a bias, another image and a relu follow.
    """

    images: int = 1
    channels: int = 32
    out: int = 32
    rows: int = 24
    columns: int = 24
    pads: tuple[int, int, int, int] = (1, 1, 1, 1)
    epilogue: bool = False

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return self.images, self.channels, self.rows, self.columns

    def module(self, w: np.ndarray) -> IRModule:
        """Surrounding 1x1 convolutions by the identity choose the NHWC layout."""
        ends = {"i": self.channels, "o": self.out}
        values = {k: np.eye(n, dtype=F32)[:, :, None, None] for k, n in ends.items()}
        values |= {"w": w}
        conv = f"Conv <pads = {list(self.pads)}>"
        body = f"y = {conv} (a, w)"
        if self.epilogue:
            values["b"] = np.linspace(-1, 1, self.out, dtype=F32)
            body = f"c = {conv} (a, w, b) d = Add (c, r) y = Relu (d)"
        kinds = [f"float{list(v.shape)} {k}" for k, v in values.items()]
        inputs = [f"float{list(self.shape)} x", *kinds]
        top, left, bottom, right = self.pads
        sizes = [
            self.rows + top + bottom - 2,
            self.columns + left + right - 2,
        ]
        if self.epilogue:
            inputs.insert(1, f"float{[self.images, self.out, *sizes]} r")
        text = f"""g ({", ".join(inputs)}) => (float[k, l, m, n] z) {{
            a = Conv (x, i)
            {body}
            z = Conv (y, o) }}"""
        return import_onnx(parse(text), values=values)


def compiled(case: Case, w: np.ndarray, target: str = "cpu", threads: int = 1) -> Any:
    made = compile(case.module(w), target=target, threads=threads, cache=False)
    assert "Winograd" in rules(made)
    return made


def padded(case: Case, x: np.ndarray) -> np.ndarray:
    top, left, bottom, right = case.pads
    return np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))


def exact(case: Case, x: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The convolution in f64, and the convolution of the magnitudes."""
    wide = padded(case, x.astype(np.float64))
    windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (2, 3))
    kernel = w.astype(np.float64)
    with np.errstate(invalid="ignore"):
        results = [
            np.einsum("nchwij,ocij->nohw", a, k, optimize=True)
            for a, k in ((windows, kernel), (np.abs(windows), np.abs(kernel)))
        ]
    return results[0], results[1]


def check(case: Case, x: np.ndarray, w: np.ndarray, **options: Any) -> None:
    made = compiled(case, w, **options)
    check_results(case, made, x, w)


def check_results(case: Case, made: Any, x: np.ndarray, w: np.ndarray) -> None:
    """Check that results are within the bound, and finite where the direct convolution is."""
    expected, size = exact(case, x, w)
    bound = BOUND * EPS * size + np.finfo(F32).smallest_normal * (1 + size)
    if case.epilogue:
        rest = drawn(*expected.shape, seed=1)
        (y,) = made(x, rest)
        bias = np.linspace(-1, 1, case.out, dtype=F32)[:, None, None]
        expected = np.maximum(expected + bias + rest, 0)
        bound += 4 * EPS * (np.abs(bias) + np.abs(rest))
    else:
        (y,) = made(x)
    is_finite = size < np.finfo(F32).max
    # The following identity multiplies by 0, which turns infinity and NaN to NaN.
    reached = is_finite.all(1, keepdims=True) & np.ones_like(is_finite)
    error = np.abs(y.astype(np.float64) - expected)[reached]
    assert (error <= bound[reached]).all(), (error / bound[reached]).max()


def signs(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.choice([-1.0, 1.0], shape)


def log_uniform(
    rng: np.random.Generator, shape: tuple[int, ...], decades: float
) -> np.ndarray:
    return signs(rng, shape) * 10 ** rng.uniform(-decades, decades, shape)


def spikes(
    rng: np.random.Generator, shape: tuple[int, ...], size: float, share: float
) -> np.ndarray:
    x = rng.standard_normal(shape)
    return np.where(rng.random(shape) < share, size * x, x)


def pixels(
    rng: np.random.Generator, shape: tuple[int, ...], decades: float
) -> np.ndarray:
    """Pixels of very different scales, with one scale for all channels."""
    n, _, rows, columns = shape
    scale = 10 ** rng.uniform(-decades, decades, (n, 1, rows, columns))
    return scale * rng.standard_normal(shape)


def halves(rng: np.random.Generator, shape: tuple[int, ...], size: float) -> np.ndarray:
    x = rng.standard_normal(shape)
    x[..., : shape[-1] // 2 + 1] *= size
    return x


INPUTS: dict[str, Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]] = {
    "normal": lambda rng, s: rng.standard_normal(s),
    "relu": lambda rng, s: np.maximum(rng.standard_normal(s), 0),
    "sparse": lambda rng, s: np.maximum(rng.standard_normal(s) - 2, 0),
    "log-uniform, 2": lambda rng, s: log_uniform(rng, s, 2),
    "log-uniform, 15": lambda rng, s: log_uniform(rng, s, 15),
    "some of 1e4": lambda rng, s: spikes(rng, s, 1e4, 1e-4),
    "many of 1e6": lambda rng, s: spikes(rng, s, 1e6, 1e-2),
    "some of 1e30": lambda rng, s: spikes(rng, s, 1e30, 1e-3),
    "some infinite": lambda rng, s: spikes(rng, s, np.inf, 1e-4),
    "some nan": lambda rng, s: spikes(rng, s, np.nan, 1e-4),
    "pixels, 1": lambda rng, s: pixels(rng, s, 1),
    "pixels, 6": lambda rng, s: pixels(rng, s, 6),
    "half of 10": lambda rng, s: halves(rng, s, 10),
    "half of 1e5": lambda rng, s: halves(rng, s, 1e5),
    "half zero": lambda rng, s: halves(rng, s, 0),
    "zero": lambda rng, s: np.zeros(s),
    "huge": lambda rng, s: 3e37 * rng.uniform(-1, 1, s),
    "tiny": lambda rng, s: 1e-36 * rng.standard_normal(s),
    "subnormal": lambda rng, s: 1e-41 * rng.standard_normal(s),
    "far from zero": lambda rng, s: 1e4 + rng.standard_normal(s),
}


def inputs(name: str, case: Case, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return INPUTS[name](rng, case.shape).astype(F32)


def weights(case: Case, seed: int = 0) -> np.ndarray:
    return drawn(case.out, case.channels, 3, 3, seed=seed) / F32(3 * case.channels**0.5)


@pytest.fixture(scope="module")
def convolution() -> tuple[Case, np.ndarray, Any]:
    case = Case(rows=22, columns=25)
    w = weights(case)
    return case, w, compiled(case, w)


@pytest.mark.slow
@pytest.mark.parametrize("name", INPUTS)
def test_results_are_within_the_bound(
    convolution: tuple[Case, np.ndarray, Any], name: str
) -> None:
    case, w, made = convolution
    for seed in range(4):
        check_results(case, made, inputs(name, case, seed), w)


@pytest.mark.slow
def test_a_large_value_affects_its_receptive_fields_only(
    convolution: tuple[Case, np.ndarray, Any],
) -> None:
    case, _, made = convolution
    x = inputs("normal", case)
    (before,) = made(x)
    for size in (1e8, 1e30, np.inf, np.nan):
        spiked = x.copy()
        spiked[0, 3, 10, 11] = size
        (after,) = made(spiked)

        is_seen = np.zeros_like(after, bool)
        is_seen[..., 9:12, 10:13] = True
        assert np.isfinite(after[~is_seen]).all()
        # Directly convolved tiles have smaller rounding errors.
        np.testing.assert_allclose(after[~is_seen], before[~is_seen], atol=1e-5, rtol=0)


_CASES = st.builds(
    Case,
    images=st.integers(1, 3),
    channels=st.sampled_from([16, 32, 48]),
    out=st.sampled_from([16, 32, 80]),
    rows=st.integers(14, 26),
    columns=st.integers(14, 26),
    pads=st.tuples(*[st.integers(0, 2)] * 4),
    epilogue=st.booleans(),
)


@pytest.mark.slow
@settings(examples(6), suppress_health_check=[HealthCheck.too_slow])
@given(
    _CASES,
    st.sampled_from(sorted(INPUTS)),
    st.integers(0, 99),
    st.sampled_from(["cpu", "cpu:x86-64-v3", "cpu:x86-64"]),
    st.sampled_from([1, 2]),
)
def test_random_convolutions_are_within_the_bound(
    case: Case, name: str, seed: int, target: str, threads: int
) -> None:
    w = weights(case, seed)
    made = compile(case.module(w), target=target, threads=threads, cache=False)
    check_results(case, made, inputs(name, case, seed), w)


WEIGHTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "identity": lambda w: np.eye(*w.shape[:2])[:, :, None, None] * CENTRE,
    "only one infinite": lambda w: np.where(
        np.arange(w.size) == 77, np.inf, w.flat
    ).reshape(w.shape),
    "one output channel of one input channel": lambda w: (
        w
        * ~((np.arange(w.shape[0]) == 3)[:, None] & (np.arange(w.shape[1]) != 5))[
            :, :, None, None
        ]
    ),
    "huge": lambda w: w * 1e37,
    "zero": np.zeros_like,
}
CENTRE = np.pad([[1.0]], 1)


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_without_limits(name: str) -> None:
    w = WEIGHTS[name](drawn(32, 32, 3, 3) / 17)

    assert input_limits(w.transpose(2, 3, 1, 0)) is None


def test_weights_without_limits_are_convolved_directly() -> None:
    case = Case()
    w = (np.eye(32)[:, :, None, None] * CENTRE).astype(F32)

    lowered = lower(case.module(w), to="tir")

    assert "winograd" not in str(lowered)


@pytest.mark.slow
@pytest.mark.parametrize("decades", [1, 6])
@pytest.mark.parametrize("name", ["normal", "relu", "pixels, 1", "half of 1e5"])
def test_weights_of_many_scales(name: str, decades: float) -> None:
    case = Case(channels=64, out=64)
    rng = np.random.default_rng(1)
    w = log_uniform(rng, (64, 64, 3, 3), decades).astype(F32)
    made = compile(case.module(w), cache=False)
    check_results(case, made, inputs(name, case), w)


@pytest.mark.slow
def test_unequal_taps_limit_unequal_pixels() -> None:
    """A kernel of 1 at the centre reads only the smaller pixels of a checkerboard."""
    case = Case(channels=64, out=64)
    w = weights(case) * F32(1e-3)
    w[..., 1, 1] *= F32(1e6)
    board = np.where(np.indices((24, 24)).sum(0) % 2, 1e5, 1)
    x = (inputs("normal", case) * board).astype(F32)
    check(case, x, w)


def test_an_unknown_policy() -> None:
    with pytest.raises(TargetError, match=r"unknown winograd `always`.*auto, never"):
        lower(Case().module(weights(Case())), winograd="always")


@pytest.mark.slow
def test_never_is_direct() -> None:
    case = Case()
    w = weights(case)
    x = inputs("normal", case)

    made = compile(case.module(w), winograd="never", cache=False)

    assert "Winograd" not in rules(made)
    expected, size = exact(case, x, w)
    (y,) = made(x)
    assert (np.abs(y - expected) <= 4 * EPS * size).all()


@pytest.mark.slow
def test_policies_are_cached_separately(tmp_path: Path) -> None:
    text = """g (float[1, 32, 24, 24] x) => (float[k, l, m, n] y)
        <float[32, 32, 1, 1] i, float[32, 32, 3, 3] w> {
        a = Conv (x, i)
        b = Conv <pads = [1, 1, 1, 1]> (a, w)
        y = Conv (b, i) }"""
    model = parse(text)
    identity = np.eye(32, dtype=F32)[:, :, None, None]
    for name, array in (("i", identity), ("w", weights(Case()))):
        found = [t for t in model.graph.initializer if t.name == name]
        for tensor in found:
            model.graph.initializer.remove(tensor)
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    data = model.SerializeToString()

    for _ in range(2):
        for policy, is_used in (("auto", True), ("never", False)):
            made = compile(data, winograd=policy, cache=tmp_path)
            assert ("Winograd" in rules(made)) == is_used
