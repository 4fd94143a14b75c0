"""All configurations of all rules compute the same results."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from mlir import ir
from onnx import numpy_helper, parser

from relax_mlir import IRModule, compile, import_onnx, lower
from relax_mlir.compiler.driver import target_of
from relax_mlir.compiler.explain import rule_choice
from relax_mlir.compiler.kernel_modules import split_kernels
from relax_mlir.passes.schedule.rules import CONFIGURATION
from relax_mlir.schedules.configuration import (
    find_configuration,
    parse_configuration,
)
from relax_mlir.schedules.cpu.pooling import PoolingConfiguration
from relax_mlir.schedules.cpu.row_reduction import RowWiseConfiguration
from relax_mlir.targets import stages
from tests.helpers.searching import examples

_many = examples(12)


@dataclass(frozen=True)
class Network:
    """A model of one kernel, or of one and the packing of its weights.

    Attributes:
        rule: that writes it.
        text: the graph; weights: initializers by name.
        shapes: of its inputs.
    """

    rule: str
    text: str
    shapes: Sequence[tuple[int, ...]]
    weights: Sequence[tuple[str, tuple[int, ...]]] = ()
    dtypes: Sequence[str] = ("f4", "f4", "f4")

    def module(self) -> IRModule:
        model = parser.parse_model(
            f'<ir_version: 8, opset_import: ["" : 17]> g {self.text}'
        )
        rng = np.random.default_rng(1)
        for name, shape in self.weights:
            array = rng.standard_normal(shape).astype(np.float32)
            model.graph.initializer.append(numpy_helper.from_array(array, name))
        return import_onnx(model.SerializeToString())

    def arrays(self) -> list[np.ndarray]:
        rng = np.random.default_rng(2)
        pairs = zip(self.shapes, self.dtypes, strict=False)
        return [
            (99 * rng.random(s) if d.endswith("1") else rng.random(s)).astype(d)
            for s, d in pairs
        ]


def matmul(m: int, k: int, n: int) -> Network:
    text = f"(float[{m},{k}] a, float[{k},{n}] b, float[{n}] c) => (float[{m},{n}] y) "
    text += "{ t = MatMul(a, b) u = Add(t, c) y = Relu(u) }"
    return Network("Gemm", text, [(m, k), (k, n), (n,)])


def packed_matmul(m: int, k: int, n: int) -> Network:
    text = f"(float[{m},{k}] a) => (float[{m},{n}] y) {{ y = MatMul(a, w) }}"
    return Network("Gemm", text, [(m, k)], [("w", (k, n))])


def transposed_matmul(m: int, k: int, n: int) -> Network:
    text = f"(float[{m},{k}] a, float[{n},{k}] b) => (float[{m},{n}] y) "
    text += "{ y = Gemm<transB = 1>(a, b) }"
    return Network("Gemm", text, [(m, k), (n, k)])


def bytes_matmul(m: int, k: int, n: int) -> Network:
    text = f"(uint8[{m},{k}] a, int8[{k},{n}] b) => (int32[{m},{n}] y) "
    text += "{ y = MatMulInteger(a, b) }"
    return Network("Gemm", text, [(m, k), (k, n)], (), ("u1", "i1"))


def dynamic_matmul(m: int, k: int, n: int) -> Network:
    text = "(float[m,k] a, float[k,n] b) => (float[m,n] y) { y = MatMul(a, b) }"
    return Network("Gemm", text, [(m, k), (k, n)])


def windows(
    size: int, channels: int, node: str, *weights: tuple[str, tuple[int, ...]]
) -> Network:
    """Sliding windows between convolutions, which choose the NHWC layout."""
    picture = f"float[1,16,{size},{size}]"
    text = f"({picture} x) => (float[1,16,a,b] y) {{ u = Conv(x, w) v = {node} y = Conv(v, z) }}"
    around = [("w", (channels, 16, 1, 1)), ("z", (16, channels, 1, 1))]
    return Network("Pooling", text, [(1, 16, size, size)], [*around, *weights])


def pooling(size: int, channels: int, _: int) -> Network:
    node = "MaxPool<kernel_shape = [3, 3], strides = [2, 2]>(u)"
    return windows(size, channels, node)


def depthwise(size: int, channels: int, _: int) -> Network:
    node = f"Conv<pads = [1, 1, 1, 1], group = {channels}>(u, d)"
    return windows(size, channels, node, ("d", (channels, 1, 3, 3)))


def winograd(size: int, channels: int, _: int) -> Network:
    out = 8 * -(-channels // 8)
    node = "Conv<pads = [1, 1, 1, 1]>(u, d)"
    made = windows(size, out, node, ("d", (out, out, 3, 3)))
    return replace(made, rule="Winograd")


def softmax(rows: int, columns: int, _: int) -> Network:
    shape = f"float[{rows},{columns}]"
    text = f"({shape} x) => ({shape} y) {{ y = Softmax(x) }}"
    return Network("RowWise", text, [(rows, columns)])


def flat(rows: int, columns: int, many: int) -> Network:
    shape = f"float[{rows},{columns},{16 * many}]"
    text = f"({shape} x, {shape} z) => ({shape} y) {{ a = Exp(x) y = Add(a, z) }}"
    return Network("RowWise", text, 2 * [(rows, columns, 16 * many)])


def transpose(rows: int, columns: int, _: int) -> Network:
    text = f"(float[{rows},{columns}] x) => (float[{columns},{rows}] y) "
    return Network("Transpose", text + "{ y = Transpose(x) }", [(rows, columns)])


def sizes(least: int, most: int) -> st.SearchStrategy[tuple[int, int, int]]:
    side = st.integers(least, most)
    return st.tuples(side, side, side)


def networks(
    *kinds: Callable[[int, int, int], Network], least: int = 1, most: int = 40
) -> st.SearchStrategy[Network]:
    pairs = st.tuples(st.sampled_from(kinds), sizes(least, most))
    return pairs.map(lambda pair: pair[0](*pair[1]))


_ALL = st.one_of(
    networks(matmul, packed_matmul, transposed_matmul, bytes_matmul, dynamic_matmul),
    networks(pooling, depthwise, least=16, most=40),
    networks(winograd, least=16, most=40),
    networks(softmax, flat),
    networks(transpose, least=4),
)


def planned(network: Network, target: str = "cpu") -> IRModule:
    return lower(network.module(), to="planned", target=target)


def configurations(module: IRModule, rule: str, target: str = "cpu") -> list[str]:
    """The configurations of the kernels of a rule."""
    rest = [s for s in stages(target_of(target)) if s.level in ("linalg", "loops")]
    choices = [rule_choice(u.text, rest) for u in split_kernels(module) if u.programs]
    return [
        c for choice in choices if choice.rule == rule for c in choice.configurations
    ]


def configured(module: IRModule, text: str, rule: str, target: str = "cpu") -> IRModule:
    """A copy with a configuration for the kernels of a rule."""
    copy = module.clone()
    rest = [s for s in stages(target_of(target)) if s.level in ("linalg", "loops")]
    units = {n: u for u in split_kernels(module) for n in u.programs}
    for function in copy.func_ops():
        unit = units.get(function.name.value)
        if unit is not None and rule_choice(unit.text, rest).rule == rule:
            function.attributes[CONFIGURATION] = ir.StringAttr.get(
                text, function.context
            )
    return copy


def check(network: Network, place: float, target: str) -> None:
    """Compare the default with the configuration at fraction ``place`` of the list."""
    module = planned(network, target)
    ways = configurations(module, network.rule, target)
    assume(ways)  # it may be another rule's, by cost
    text = ways[int(place * len(ways))]
    arrays = network.arrays()
    (expected,) = compile(module, target, cache=False)(*arrays)
    made = configured(module, text, network.rule, target)

    (actual,) = compile(made, target, cache=False)(*arrays)

    # Other summation orders: f32, K up to 40, or Winograd.
    scale = np.abs(expected).max(initial=0)
    np.testing.assert_allclose(
        actual, expected, rtol=0, atol=2e-5 * scale, err_msg=text
    )


places = st.floats(0, 1, exclude_max=True)


@pytest.mark.slow
@_many
@given(_ALL, places, st.sampled_from(["cpu", "cpu:x86-64-v3"]))
def test_configurations_compute_the_same(
    network: Network, place: float, target: str
) -> None:
    check(network, place, target)


_ONE_OF_EACH = (
    matmul(13, 7, 33),
    packed_matmul(50, 20, 40),
    dynamic_matmul(3, 4, 5),
    bytes_matmul(5, 9, 20),
    pytest.param(depthwise(17, 40, 0), marks=pytest.mark.slow),
    pytest.param(winograd(20, 32, 0), marks=pytest.mark.slow),
    pytest.param(pooling(20, 40, 0), marks=pytest.mark.slow),
    softmax(3, 20, 0),
    flat(2, 3, 5),
    transpose(20, 30, 0),
)


@pytest.mark.parametrize("network", _ONE_OF_EACH, ids=lambda n: n.rule)
def test_the_first_configuration_is_the_default(network: Network) -> None:
    module = planned(network)
    first, *others = configurations(module, network.rule)

    made = lower(configured(module, first, network.rule), to="loops")

    text = str(made).replace(f'{CONFIGURATION} = "{first}", ', "")
    assert text == str(lower(module, to="loops"))
    assert others
    assert first not in others


@pytest.mark.parametrize("network", _ONE_OF_EACH, ids=lambda n: n.rule)
def test_configurations_change_the_loops(network: Network) -> None:
    module = planned(network)
    first, *_, last = configurations(module, network.rule)

    texts = [
        str(lower(configured(module, way, network.rule), to="loops")).replace(way, "")
        for way in (first, last)
    ]

    assert texts[0] != texts[1]


def test_text_names_the_rule_and_all_choices() -> None:
    made = RowWiseConfiguration(vectors=2, chunk=4096)

    assert str(made) == "RowWise{vectors=2, chunk=4096}"
    assert parse_configuration(str(made)) == ("RowWise", {"vectors": 2, "chunk": 4096})


@pytest.mark.parametrize(
    ("text", "choices"),
    [("RowWise", {}), (" RowWise { } ", {}), ("RowWise{ chunk = 3 }", {"chunk": 3})],
)
def test_spaces_and_missing_choices(text: str, choices: dict[str, int]) -> None:
    assert parse_configuration(text) == ("RowWise", choices)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a configuration such as"),
        ("RowWise{chunk=1", "expected a configuration such as"),
        ("RowWise{chunk}", "expected a choice such as `width=7`, got `chunk`"),
        ("RowWise{chunk=-1}", "expected a choice"),
        ("RowWise{chunk=1, chunk=2}", "`chunk` is chosen twice"),
    ],
)
def test_invalid_syntax(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_configuration(text)


_KNOWN = [
    RowWiseConfiguration(v, c) for c in (8, 16) for v in (1, 2) if (v, c) != (2, 16)
]


def test_missing_choices_are_those_of_the_first_configuration() -> None:
    assert find_configuration({}, _KNOWN) == RowWiseConfiguration(1, 8)
    assert find_configuration({"chunk": 16}, _KNOWN) == RowWiseConfiguration(1, 16)
    assert find_configuration({"vectors": 2}, _KNOWN) == RowWiseConfiguration(2, 8)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"vector": 2}, "unknown choice `vector`: .*Did you mean `vectors`"),
        ({"vectors": 3}, "`vectors`: expected one of 1, 2, got 3"),
        ({"vectors": 2, "chunk": 16}, "no configuration combines vectors=2, chunk=16"),
    ],
)
def test_unknown_choices(choices: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        find_configuration(choices, _KNOWN)


def test_configurations_of_rules_differ() -> None:
    assert PoolingConfiguration(3) != PoolingConfiguration(4)
    assert str(PoolingConfiguration(3)) == "Pooling{width=3}"
