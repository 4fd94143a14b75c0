"""Whole models whose pictures and weights are laid out anew compute what they did."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relax_mlir import compile, import_onnx
from relax_mlir.compiler import reference
from relax_mlir.compiler.driver import target_of
from relax_mlir.runtime.executable import Executable
from relax_mlir.targets import Target
from relax_mlir.testing import assert_same_numbers
from tests.frontends.onnx.differential import parse
from tests.helpers.searching import examples

# Of the largest number, or of 1: f32, sums of a few hundred in another order.
_TOLERANCE = 2e-5

_few = settings(max_examples=4, suppress_health_check=[HealthCheck.too_slow])
_many = settings(examples(5), suppress_health_check=[HealthCheck.too_slow])

Shape = tuple[int, ...]


@dataclass
class Network:
    """An ONNX graph that grows node by node.

    Attributes:
        nodes: lines of text; shapes: of every value; inputs: names of those given.
        weights: constants by name.
    """

    nodes: list[str] = field(default_factory=list)
    shapes: dict[str, Shape] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    weights: dict[str, np.ndarray] = field(default_factory=dict, repr=False)
    seed: int = 0

    def input(self, *shape: int) -> str:
        """An array that the model takes."""
        name = self._fresh(shape)
        self.inputs.append(name)
        return name

    def weight(self, *shape: int) -> str:
        """A random constant."""
        name = self._fresh(shape)
        scale = np.float32(max(1, np.prod(shape[1:])) ** -0.5)
        self.weights[name] = scale * self.random(shape)
        return name

    def ints(self, *values: int) -> str:
        """A constant of sizes."""
        name = self._fresh((len(values),))
        self.weights[name] = np.array(values, np.int64)
        return name

    def add(
        self,
        shape: Shape,
        kind: str,
        *operands: str,
        **attributes: Any,  # Any: of any type that ONNX has
    ) -> str:
        """A node; the name of its result, which has this shape."""
        name = self._fresh(shape)
        given = ", ".join(f"{k} = {_spelled(v)}" for k, v in attributes.items())
        given = f" <{given}>" if given else ""
        self.nodes.append(f"{name} = {kind}{given} ({', '.join(operands)})")
        return name

    def random(self, shape: Sequence[int]) -> np.ndarray:
        """Another array each time."""
        self.seed += 1
        rng = np.random.default_rng(self.seed)
        return rng.standard_normal(shape).astype(np.float32)

    def _fresh(self, shape: Sequence[int]) -> str:
        name = f"v{len(self.shapes)}"
        self.shapes[name] = tuple(shape)
        return name

    def text(self, outputs: Sequence[str]) -> str:
        """The graph; constants are inputs that the importer is told."""
        arguments = [f"float{list(self.shapes[n])} {n}" for n in self.inputs]
        for name, array in self.weights.items():
            kind = "int64" if array.dtype == np.int64 else "float"
            arguments.append(f"{kind}{list(array.shape)} {name}")
        results = [f"float{list(self.shapes[n])} {n}" for n in outputs]
        body = "\n".join(self.nodes)
        return f"g ({', '.join(arguments)}) => ({', '.join(results)}) {{ {body} }}"

    def check(self, *outputs: str, target: str | Target = "cpu") -> None:
        """Compile, run, and compare with the operators' definitions."""
        model = parse(self.text(outputs), opset=19)
        module = import_onnx(model, values=self.weights)
        arrays = [self.random(self.shapes[name]) for name in self.inputs]

        actual = compile(module, target=target, cache=False)(*arrays)

        expected = reference.run(module, *arrays)
        for name, mine, theirs in zip(outputs, actual, expected, strict=True):
            assert mine.shape == self.shapes[name]
            # Numbers on the way are about 1; a result may be what little is left of them.
            left = min(1.0, float(np.abs(theirs).max(initial=0)))
            tolerance = _TOLERANCE / max(left, 1e-3)
            assert_same_numbers(
                mine, theirs, tolerance=tolerance, where=self.text(outputs)
            )


def _spelled(value: Any) -> str:  # Any: what an attribute may be
    return f'"{value}"' if isinstance(value, str) else str(value)


# Convolutions


@dataclass(frozen=True)
class Window:
    """How a convolution or a pooling moves over one axis."""

    size: int
    kernel: int
    stride: int = 1
    dilation: int = 1
    before: int = 0
    after: int = 0

    @property
    def count(self) -> int:
        """Windows along the axis."""
        span = self.dilation * (self.kernel - 1) + 1
        return (self.size + self.before + self.after - span) // self.stride + 1


@st.composite
def windows(draw: st.DrawFn) -> Window:
    kernel, dilation = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    stride = draw(st.integers(1, 3))
    before, after = draw(st.integers(0, 2)), draw(st.integers(0, 2))
    span = dilation * (kernel - 1) + 1
    size = draw(st.integers(max(1, span - before - after), 12))
    return Window(size, kernel, stride, dilation, before, after)


@st.composite
def groupings(draw: st.DrawFn) -> tuple[int, int, int]:
    """Groups, and channels of a group that are read, and written."""
    few, many = st.integers(1, 3), st.integers(1, 40)
    kind = draw(st.sampled_from(["one", "one", "few", "depthwise"]))
    if kind == "depthwise":
        return draw(many), 1, draw(st.integers(1, 2))
    groups = 1 if kind == "one" else draw(few)
    channels = st.integers(1, 40 // groups)
    return groups, draw(channels), draw(channels)


def convolve(
    net: Network,
    x: str,
    axes: Sequence[Window],
    grouping: tuple[int, int, int],
    bias: bool = False,
) -> str:
    """A convolution with random weights."""
    groups, read, written = grouping
    out = groups * written
    kernel = [w.kernel for w in axes]
    operands = [x, net.weight(out, read, *kernel)]
    if bias:
        operands.append(net.weight(out))
    return net.add(
        (net.shapes[x][0], out, *(w.count for w in axes)),
        "Conv",
        *operands,
        kernel_shape=kernel,
        strides=[w.stride for w in axes],
        dilations=[w.dilation for w in axes],
        pads=[*(w.before for w in axes), *(w.after for w in axes)],
        group=groups,
    )


def pointwise(net: Network, x: str, out: int) -> str:
    """A convolution of single pixels: what stands beside it has its channels last."""
    _, channels, *sizes = net.shapes[x]
    return convolve(net, x, [Window(s, 1) for s in sizes], (1, channels, out))


@st.composite
def convolutions(draw: st.DrawFn) -> tuple[Network, str]:
    """A convolution by itself or among others, and what may follow it."""
    axes = draw(st.lists(windows(), min_size=2, max_size=2))
    grouping = draw(groupings())
    net = Network()
    batch, channels = draw(st.integers(1, 2)), grouping[0] * grouping[1]
    is_among_others = draw(st.booleans())
    sizes = [w.size for w in axes]
    x = net.input(batch, 7 if is_among_others else channels, *sizes)
    x = pointwise(net, x, channels) if is_among_others else x
    y = convolve(net, x, axes, grouping, draw(st.booleans()))
    shape = net.shapes[y]
    for step in draw(st.lists(st.sampled_from(["relu", "residual", "own"]))):
        if step == "relu":
            y = net.add(shape, "Relu", y)
        else:
            rest = net.input(*shape)
            y = net.add(
                shape,
                "Add",
                y,
                pointwise(net, rest, shape[1]) if step == "own" else rest,
            )
    return net, pointwise(net, y, 5) if is_among_others else y


@_few
@given(convolutions())
def test_convolutions(drawn: tuple[Network, str]) -> None:
    net, y = drawn
    net.check(y)


@pytest.mark.slow
@_many
@given(convolutions(), st.sampled_from(["cpu", "cpu:x86-64-v3", "cpu:x86-64"]))
def test_many_convolutions(drawn: tuple[Network, str], target: str) -> None:
    net, y = drawn
    net.check(y, target=target)


# Graphs


def convolve_more(net: Network, x: str) -> str:
    _, channels, *sizes = net.shapes[x]
    if min(sizes) < 3:
        return pointwise(net, x, 9)
    axes = [Window(s, 3, before=1, after=1) for s in sizes]
    return net.add(
        net.shapes[x], "Relu", convolve(net, x, axes, (1, channels, channels))
    )


def convolve_by_channel(net: Network, x: str) -> str:
    _, channels, *sizes = net.shapes[x]
    axes = [Window(s, 3, stride=2, before=1, after=1) for s in sizes]
    return convolve(net, x, axes, (channels, 1, 1))


def _pool(net: Network, x: str, kind: str, **attributes: int) -> str:
    batch, channels, *sizes = net.shapes[x]
    halves = [Window(s, 2, stride=2, after=1).count for s in sizes]
    return net.add(
        (batch, channels, *halves),
        kind,
        x,
        kernel_shape=[2, 2],
        strides=[2, 2],
        pads=[0, 0, 1, 1],
        **attributes,
    )


def max_pool(net: Network, x: str) -> str:
    return _pool(net, x, "MaxPool")


def average_pool(net: Network, x: str) -> str:
    return _pool(net, x, "AveragePool", count_include_pad=0)


def resize(net: Network, x: str) -> str:
    batch, channels, height, width = net.shapes[x]
    shape = (batch, channels, 2 * height, width + 1)
    return net.add(shape, "Resize", x, "", "", net.ints(*shape), mode="linear")


def softmax(net: Network, x: str) -> str:
    return net.add(net.shapes[x], "Softmax", x, axis=1)


def normalise(net: Network, x: str) -> str:
    channels = net.shapes[x][1]
    given = net.weight(channels), net.weight(channels)
    # A small epsilon makes much of the rounding of what should be equal numbers.
    return net.add(net.shapes[x], "InstanceNormalization", x, *given, epsilon=0.5)


def scale_by_average(net: Network, x: str) -> str:
    """Squeeze and excite."""
    batch, channels, *_ = net.shapes[x]
    one = (batch, channels, 1, 1)
    average = pointwise(net, net.add(one, "GlobalAveragePool", x), channels)
    return net.add(net.shapes[x], "Mul", x, net.add(one, "Sigmoid", average))


def concatenate(net: Network, x: str) -> str:
    batch, channels, *sizes = net.shapes[x]
    shape = (batch, channels + 5, *sizes)
    return net.add(shape, "Concat", pointwise(net, x, 5), x, axis=1)


def add_constant(net: Network, x: str) -> str:
    return net.add(net.shapes[x], "Add", x, net.weight(1, *net.shapes[x][1:]))


def join(net: Network, x: str) -> str:
    """A convolution, and what went in."""
    return net.add(net.shapes[x], "Add", pointwise(net, x, net.shapes[x][1]), x)


def transpose(net: Network, x: str) -> str:
    batch, channels, height, width = net.shapes[x]
    turned = (batch, channels, width, height)
    return net.add(turned, "Transpose", x, perm=[0, 1, 3, 2])


def attend(net: Network, x: str) -> str:
    """A product over pixels, in rows of channels, on the way to pictures again."""
    batch, channels, height, width = net.shapes[x]
    pixels = height * width
    rows = net.add((batch, channels, pixels), "Reshape", x, net.ints(0, channels, -1))
    tokens = net.add((batch, pixels, channels), "Transpose", rows, perm=[0, 2, 1])
    weight = net.weight(channels, channels)
    y = net.add((batch, pixels, channels), "MatMul", tokens, weight)
    back = net.add((batch, channels, pixels), "Transpose", y, perm=[0, 2, 1])
    shape = net.ints(0, channels, height, width)
    picture = net.add(net.shapes[x], "Reshape", back, shape)
    return net.add(net.shapes[x], "Add", pointwise(net, x, channels), picture)


def split(net: Network, x: str) -> str:
    batch, channels, *sizes = net.shapes[x]
    if channels < 2:
        return x
    ends = net.ints(1), net.ints(channels), net.ints(1)
    return net.add((batch, channels - 1, *sizes), "Slice", x, *ends)


Step = Callable[[Network, str], str]
STEPS: tuple[Step, ...] = (
    *(convolve_more, convolve_by_channel, max_pool, average_pool, resize, softmax),
    *(normalise, scale_by_average, concatenate, add_constant, join, transpose),
    *(attend, split),
)


def grow(
    steps: Sequence[Step], batch: int = 1, channels: int = 6
) -> tuple[Network, list[str]]:
    """A chain of steps between two convolutions, and all that came of them."""
    net = Network()
    x = pointwise(net, net.input(batch, 20, 6, 5), channels)
    values = [x]
    for step in steps:
        values.append(step(net, values[-1]))
    values.append(pointwise(net, values[-1], 11))
    return net, values


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
def test_between_convolutions(step: Step) -> None:
    net, values = grow([step], batch=2, channels=18)
    net.check(values[-1])


@_few
@given(st.lists(st.sampled_from(STEPS), min_size=2, max_size=4), st.data())
def test_chains(steps: Sequence[Step], data: st.DataObject) -> None:
    net, values = grow(steps)
    net.check(values[-1], data.draw(st.sampled_from(values[:-1])))


@pytest.mark.slow
@_many
@given(st.lists(st.sampled_from(STEPS), min_size=1, max_size=6), st.data())
def test_many_chains(steps: Sequence[Step], data: st.DataObject) -> None:
    net, values = grow(
        steps,
        batch=data.draw(st.integers(1, 2)),
        channels=data.draw(st.integers(1, 33)),
    )
    net.check(values[-1], data.draw(st.sampled_from(values[:-1])))


# Products

SIZES = st.one_of(
    st.integers(1, 70), st.sampled_from([97, 101, 113, 127, 128, 129, 131, 144, 256])
)


@st.composite
def products(draw: st.DrawFn) -> tuple[Network, str]:
    """A matrix product, its weight a constant or not, and what may follow it."""
    m, k, n = draw(SIZES), draw(SIZES), draw(SIZES)
    net = Network()
    batch = draw(st.sampled_from([(), (), (3,), (2, 2)]))
    x = net.input(*batch, m, k)
    is_given = draw(st.booleans())
    is_batched = bool(batch) and draw(st.booleans())
    is_transposed = draw(st.booleans())
    shape = (n, k) if is_transposed else (k, n)
    shape = (*batch, *shape) if is_batched else shape
    w = net.input(*shape) if is_given else net.weight(*shape)
    if is_transposed:
        order = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
        w = net.add((*shape[:-2], k, n), "Transpose", w, perm=order)
    out = (*batch, m, n)
    y = net.add(out, "MatMul", x, w)
    for step in draw(st.lists(st.sampled_from(["bias", "relu", "sum"]), max_size=3)):
        if step == "relu":
            y = net.add(out, "Relu", y)
        else:
            y = net.add(
                out, "Add", y, net.weight(n) if step == "bias" else net.input(*out)
            )
    return net, y


@_few
@given(products())
def test_products(drawn: tuple[Network, str]) -> None:
    net, y = drawn
    net.check(y)


@pytest.mark.slow
@_many
@given(products(), st.sampled_from([128, 256, 512]))
def test_products_in_vectors_of_any_width(
    drawn: tuple[Network, str], bits: int
) -> None:
    net, y = drawn
    net.check(y, target=_of_width(bits))


def _of_width(bits: int) -> Target:
    """This machine, if it had vectors of a width; the code generator splits wider ones."""
    host = target_of("cpu")
    unit = replace(host.unit, vector_bits=bits, int8_dot=False)
    return replace(host, unit=unit)


def test_weights_are_kept_once() -> None:
    net = Network()
    w = net.weight(40, 50)
    y = net.add((8, 50), "MatMul", net.input(8, 40), w)
    module = import_onnx(parse(net.text([y]), opset=19), values=net.weights)

    model = compile(module, target="cpu:x86-64-v3", cache=False)

    assert isinstance(model, Executable)
    (packed,) = model.constants.values()  # 50 columns in blocks of the tile's width
    blocks, depth, width = packed.shape
    assert (depth, blocks) == (40, -(-50 // width))
    columns = packed.transpose(1, 0, 2).reshape(40, -1)
    np.testing.assert_array_equal(columns[:, :50], net.weights[w])
    assert not columns[:, 50:].any()


def test_a_weight_may_be_added_as_well() -> None:
    net = Network()
    w, x = net.weight(24, 24), net.input(24, 24)
    y = net.add((24, 24), "Add", net.add((24, 24), "MatMul", x, w), w)
    net.check(y)


def test_open_sizes() -> None:
    text = """g (float[n, 20, h, w] x, float[24, 20, 3, 3] u, float[9, 24, 1, 1] v)
        => (float[n, 9, p, q] y, float[n, 24, r, s] b) {
            a = Conv <pads = [1, 1, 1, 1]> (x, u)
            b = Relu (a)
            c = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (b)
            y = Conv (c, v) }"""
    net = Network()
    weights = {"u": 0.1 * net.random((24, 20, 3, 3)), "v": net.random((9, 24, 1, 1))}
    module = import_onnx(parse(text), values=weights)

    model = compile(module, cache=False)

    for shape in ((1, 20, 2, 9), (2, 20, 11, 4), (0, 20, 5, 5)):
        x = net.random(shape)
        for mine, theirs in zip(model(x), reference.run(module, x), strict=True):
            assert_same_numbers(mine, theirs, tolerance=_TOLERANCE)


def test_doubles() -> None:
    text = "g (double[5, 33] x, double[33, 29] w) => (double[5, 29] y) { y = MatMul (x, w) }"
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((5, 33)), rng.standard_normal((33, 29))

    (y,) = compile(import_onnx(parse(text), values={"w": w}), cache=False)(x)

    assert_same_numbers(y, x @ w, tolerance=1e-14)  # 33 terms in another order
