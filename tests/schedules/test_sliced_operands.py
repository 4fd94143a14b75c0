"""Every schedule rule takes extents from the program, not from the sizes of buffers.

Each tensor of a network is put into a larger buffer, along each of its axes, at offset 0 and
elsewhere; what lies around it is NaN. The kernels compute what they computed before.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from onnx import numpy_helper, parser

from relax_mlir import IRModule, compile, import_onnx
from relax_mlir.runtime.executable import Executable
from tests.schedules.cpu.amx import TARGET as AMX_TARGET
from tests.schedules.cpu.amx import compile_with_tiles
from tests.schedules.slices import POINTS, at_point, at_points, check_slice, slices_of

_OFFSETS = ((0, 3), (2, 3), (8, 8))


@dataclass(frozen=True)
class Network:
    """A network of one kernel that matters.

    Attributes:
        rule: that writes it; text: the graph.
        inputs: shapes and types; weights: initializers by name.
    """

    rule: str
    text: str
    inputs: Sequence[tuple[int, ...]]
    weights: Sequence[tuple[str, tuple[int, ...]]] = ()
    dtypes: Sequence[str] = ()

    def module(self) -> IRModule:
        model = parser.parse_model(
            f'<ir_version: 8, opset_import: ["" : 17]> g {self.text}'
        )
        rng = np.random.default_rng(1)
        kind = self.dtypes[0] if self.dtypes else "float32"
        for name, shape in self.weights:
            array = rng.standard_normal(shape).astype(kind)
            model.graph.initializer.append(numpy_helper.from_array(array, name))
        return import_onnx(model.SerializeToString())

    def arrays(self) -> list[np.ndarray]:
        rng = np.random.default_rng(2)
        types = [*self.dtypes, *["float32"] * len(self.inputs)]
        made = []
        for shape, dtype in zip(self.inputs, types, strict=False):
            if dtype.startswith("float"):
                made.append(rng.standard_normal(shape).astype(dtype))
            else:
                made.append(rng.integers(0, 4, shape).astype(dtype))
        return made


def matmul(rule: str, m: int, k: int, n: int, *, kind: str = "float") -> Network:
    text = f"({kind}[{m},{k}] a, {kind}[{k},{n}] b) => ({kind}[{m},{n}] y) "
    dtype = {"float": "float32", "float16": "float16"}[kind]
    return Network(
        rule, text + "{ y = MatMul(a, b) }", [(m, k), (k, n)], (), (dtype, dtype)
    )


def transposed_matmul(
    rule: str, m: int, k: int, n: int, kind: str = "float"
) -> Network:
    text = f"({kind}[{m},{k}] a, {kind}[{n},{k}] b) => ({kind}[{m},{n}] y) "
    dtype = {"float": "float32", "float16": "float16"}[kind]
    return Network(
        rule,
        text + "{ y = Gemm<transB = 1>(a, b) }",
        [(m, k), (n, k)],
        (),
        (dtype, dtype),
    )


def convolution(
    rule: str, size: int, channels: int, filters: int, kernel: int, pad: int
) -> Network:
    out = size + 2 * pad - kernel + 1
    pads = f"pads = [{pad}, {pad}, {pad}, {pad}]"
    text = f"""(float[1,{channels},{size},{size}] x) => (float[1,{filters},{out},{out}] y)
      {{ c = Conv<{pads}>(x, w) y = Relu(c) }}"""
    weights = [("w", (filters, channels, kernel, kernel))]
    return Network(rule, text, [(1, channels, size, size)], weights)


def between_convolutions(node: str, *weights: tuple[str, tuple[int, ...]]) -> Network:
    """A node on images whose channels are last, as 1x1 convolutions around want it."""
    text = f"""(float[1,16,17,17] x) => (float[1,16,a,b] y)
      {{ u = Conv(x, w) v = {node} y = Conv(v, z) }}"""
    around = [("w", (16, 16, 1, 1)), ("z", (16, 16, 1, 1))]
    return Network("Pooling", text, [(1, 16, 17, 17)], [*around, *weights])


def attention(
    heads: int, rows: int, keys: int, size: int, kind: str = "float"
) -> Network:
    q, k, v = (heads, rows, size), (heads, size, keys), (heads, keys, size)
    named = zip("qkv", (q, k, v), strict=True)
    inputs = ", ".join(f"{kind}[{','.join(map(str, s))}] {n}" for n, s in named)
    dtype = {"float": "float32", "float16": "float16"}[kind]
    text = f"""({inputs}) => ({kind}[{heads},{rows},{size}] y)
      {{ s = MatMul(q, k) p = Softmax(s) y = MatMul(p, v) }}"""
    return Network("Attention", text, [q, k, v], (), (dtype,) * 3)


def unary(rule: str, node: str, shape: tuple[int, ...], result: str) -> Network:
    text = f"(float[{','.join(map(str, shape))}] x) => (float[{result}] y) {{ y = {node} }}"
    return Network(rule, text, [shape])


def packed(m: int, k: int, n: int) -> Network:
    text = f"(float[{m},{k}] a) => (float[{m},{n}] y) {{ y = MatMul(a, w) }}"
    return Network("Gemm", text, [(m, k)], [("w", (k, n))])


def layer_norm(rows: int, columns: int) -> Network:
    text = f"""(float[{rows},{columns}] x, float[{columns}] g, float[{columns}] b)
      => (float[{rows},{columns}] y) {{ y = LayerNormalization(x, g, b) }}"""
    return Network("RowWise", text, [(rows, columns), (columns,), (columns,)])


def concatenation(m: int, k: int, n: int) -> Network:
    text = f"(float[{m},{k}] x, float[{m},{n}] z) => (float[{m},{k + n}] y) "
    return Network("RowWise", text + "{ y = Concat<axis = 1>(x, z) }", [(m, k), (m, n)])


NETWORKS = {
    "matmul": matmul("Gemm", 13, 7, 33),
    "large matmul": matmul("Gemm", 70, 40, 80),
    "packed matmul": packed(50, 20, 40),
    "transposed matmul": transposed_matmul("Gemm", 13, 24, 33),
    "bytes": Network(
        "Gemm",
        "(uint8[20,16] a, int8[16,32] b) => (int32[20,32] y) { y = MatMulInteger(a, b) }",
        [(20, 16), (16, 32)],
        (),
        ("uint8", "int8"),
    ),
    "batch": Network(
        "Gemm",
        "(float[3,8,12] a, float[3,12,20] b) => (float[3,8,20] y) { y = MatMul(a, b) }",
        [(3, 8, 12), (3, 12, 20)],
    ),
    "1x1 convolution": convolution("Gemm", 12, 16, 24, 1, 0),
    "3x3 convolution": convolution("Gemm", 12, 16, 24, 3, 1),
    "pooling": between_convolutions(
        "MaxPool<kernel_shape = [3, 3], strides = [2, 2]>(u)"
    ),
    "depthwise": between_convolutions(
        "Conv<pads = [1, 1, 1, 1], group = 16>(u, d)", ("d", (16, 1, 3, 3))
    ),
    "attention": attention(2, 9, 12, 16),
    "large attention": attention(2, 40, 40, 32),
    "transpose": unary("Transpose", "Transpose(x)", (20, 30), "30,20"),
    "batch transpose": unary(
        "RowWise", "Transpose<perm = [2, 0, 3, 1]>(x)", (2, 3, 20, 30), "20,2,30,3"
    ),
    "softmax": unary("RowWise", "Softmax(x)", (5, 20), "5,20"),
    "sum": unary(
        "RowWise", "ReduceMean<axes = [2], keepdims = 0>(x)", (4, 5, 24), "4,5"
    ),
    "maximum": unary(
        "Pooling", "ReduceMax<axes = [1], keepdims = 0>(x)", (4, 5, 24), "4,24"
    ),
    "layer norm": layer_norm(6, 24),
    "concatenation": concatenation(4, 24, 8),
}

_QUICK = {"matmul", "softmax", "transpose"}


def run(module: IRModule, arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, set[str]]:
    made = compile(module, cache=False)
    assert isinstance(made, Executable)
    return made(*arrays)[0], {kernel.rule for kernel in made.kernels}


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n in _QUICK else pytest.mark.slow) for n in NETWORKS],
)
def test_an_input_that_is_a_slice(name: str) -> None:
    network = NETWORKS[name]
    arrays = network.arrays()
    expected, _ = run(network.module(), arrays)
    made, rest = at_point(network.module(), "cpu", "planned")
    where = slices_of(made, [(2, 3)])[0]

    rules = check_slice(made, where, rest, arrays, expected, run, 1e-4)

    assert network.rule in rules


@pytest.mark.sampled(6)
@pytest.mark.slow
@pytest.mark.parametrize(("name", "point"), at_points(NETWORKS))
def test_every_tensor_may_be_a_slice(name: str, point: str, every_case: bool) -> None:
    network = NETWORKS[name]
    arrays = network.arrays()
    expected, _ = run(network.module(), arrays)
    made, rest = at_point(network.module(), "cpu", point)
    found: set[str] = set()

    for where in slices_of(made, _OFFSETS, every=every_case):
        copy = made.clone()
        found |= check_slice(copy, where, rest, arrays, expected, run, 1e-4)

    assert network.rule in found


_AMX = {
    "matmul": packed(20, 32, 24),
    "bytes": NETWORKS["bytes"],
    "3x3 convolution": convolution("Gemm", 6, 32, 16, 3, 1),
}


def run_amx(
    module: IRModule, arrays: Sequence[np.ndarray]
) -> tuple[np.ndarray, set[str]]:
    made, count = compile_with_tiles(module, precision="bf16")
    return made(*arrays)[0], {"tiles"} if count else set()


@pytest.mark.slow
@pytest.mark.sampled(9)
@pytest.mark.parametrize("offsets", _OFFSETS[1:], ids=str)
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("name", _AMX)
def test_every_tensor_of_an_amx_matmul_may_be_a_slice(
    name: str, point: str, offsets: tuple[int, int]
) -> None:
    network = _AMX[name]
    arrays = network.arrays()
    expected, whole = run_amx(network.module(), arrays)
    assert whole == {"tiles"}
    made, rest = at_point(network.module(), AMX_TARGET, point, precision="bf16")
    found: set[str] = set()

    for where in slices_of(made, [offsets]):
        copy = made.clone()
        found |= check_slice(copy, where, rest, arrays, expected, run_amx, 1e-4)

    assert "tiles" in found
