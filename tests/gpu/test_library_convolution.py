"""Convolutions by cuDNN: selection, descriptors and results."""

import ml_dtypes
import numpy as np
import pytest

import relax_mlir
from relax_mlir import IRModule
from relax_mlir.compiler import reference
from relax_mlir.runtime.cuda.conv_descriptors import Convolution
from relax_mlir.runtime.cuda.executable import CudaExecutable
from relax_mlir.runtime.cuda.plan import Call, Launch
from relax_mlir.runtime.cuda.pointers import Pointer
from tests.gpu.library_calls import calls_of, compiled, emulated, onnx, rules_of
from tests.gpu.stub import TARGET, Emulation, Stub
from tests.schedules.low_precision import drawn

_EXECUTE = "cudnnBackendExecute"


def convolutions_of(model: CudaExecutable) -> list[Convolution]:
    return calls_of(model, Convolution)


def assert_computes(
    module: IRModule,
    arrays: list[np.ndarray],
    emulation: Emulation,
    precision: str = "f32",
    tolerance: float = 1e-5,  # f32, other summation order
) -> CudaExecutable:
    """Checks stub and emulator against the reference; returns the model."""
    model = compiled(module, precision=precision)

    (y,) = model(*arrays)

    (expected,) = reference.run(module, *arrays)
    for actual in (y, emulated(module, *arrays, precision=precision)):
        scale = max(1.0, float(np.abs(expected.astype(np.float64)).max(initial=0)))
        np.testing.assert_allclose(
            actual.astype(np.float64),
            expected.astype(np.float64),
            atol=tolerance * scale,
            rtol=0,
        )
    return model


def sizes(*numbers: int | str) -> str:
    return ", ".join(map(str, numbers))


_SHAPES = {
    "plain": ((2, 8, 9, 9), (12, 8, 3, 3), ""),
    "pads": ((2, 8, 9, 9), (12, 8, 3, 3), "pads = [1, 1, 1, 1]"),
    "uneven pads": ((2, 4, 7, 9), (6, 4, 3, 3), "pads = [0, 1, 2, 1]"),
    "steps": ((1, 3, 16, 15), (5, 3, 7, 5), "strides = [2, 3], pads = [3, 2, 3, 2]"),
    "dilations": ((2, 4, 13, 12), (6, 4, 3, 2), "dilations = [2, 3]"),
    "groups": ((2, 8, 9, 9), (12, 4, 3, 3), "group = 2, pads = [1, 1, 1, 1]"),
    "each channel": ((2, 8, 9, 9), (8, 1, 3, 3), "group = 8"),
    "each channel twice": ((2, 4, 9, 9), (8, 1, 3, 3), "group = 4, strides = [2, 2]"),
    "one axis": ((2, 8, 20), (12, 8, 3), "pads = [1, 1], strides = [2]"),
    "one axis, groups": ((2, 8, 20), (8, 1, 5), "group = 8, dilations = [2]"),
    "three axes": ((2, 4, 5, 6, 7), (6, 4, 3, 2, 3), "pads = [1, 0, 1, 1, 0, 1]"),
    "one channel": ((2, 1, 9, 9), (5, 1, 3, 3), ""),
    "one image": ((1, 5, 9, 9), (1, 5, 3, 3), "strides = [2, 2]"),
}


def convolution(
    shape: str, follows: str = "y = Identity (c)", element: str = "float"
) -> tuple[IRModule, list[np.ndarray]]:
    """A convolution ``c`` with a bias and a line of epilogue, which may read ``r``."""
    x, w, attributes = _SHAPES[shape]
    rank = len(x) - 2
    body = f"c = Conv <{attributes}> (x, w, b)" if attributes else "c = Conv (x, w, b)"
    arrays = [drawn(*x), drawn(*w), drawn(w[0])]
    header = f"{element}[{sizes(*x)}] x, {element}[{sizes(*w)}] w, {element}[{w[0]}] b"
    result = ", ".join("abcde"[: rank + 2])
    text = f"g ({header}) => ({element}[{result}] y) {{ {body} {follows} }}"
    return onnx(text), arrays


@pytest.mark.sampled(2)
@pytest.mark.parametrize("shape", _SHAPES)
def test_a_layer_is_one_call(
    shape: str, convolutions: Stub, emulation: Emulation
) -> None:
    module, arrays = convolution(shape, "y = Relu (c)")

    model = assert_computes(module, arrays, emulation)

    (found,) = convolutions_of(model)
    assert (found.bias is not None, found.residual) == (True, None)
    assert found.activation == "relu"
    assert convolutions.count(_EXECUTE) == 1
    assert model.contents.plan.programs[0].scratch == ()


_TYPES = {
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float": np.float32,
    "double": np.float64,
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("element", _TYPES)
@pytest.mark.parametrize("shape", ["pads", "groups", "one axis", "three axes"])
def test_half_precision(
    element: str, shape: str, convolutions: Stub, emulation: Emulation
) -> None:
    """f16 inputs and outputs; accumulator, bias and epilogue are rounded once."""
    module, arrays = convolution(shape, "y = Relu (c)", element)
    kind = _TYPES[element]
    arrays = [array.astype(kind) for array in arrays]
    model = compiled(module)

    (y,) = model(*arrays)

    (found,) = convolutions_of(model)
    assert found.bias is not None
    exact, _ = convolution(shape, "y = Relu (c)", "double")
    (expected,) = reference.run(exact, *(array.astype(np.float64) for array in arrays))
    step = float(ml_dtypes.finfo(kind).eps)
    for actual in (y, emulated(module, *arrays)):
        error = np.abs(actual.astype(np.float64) - expected)
        assert (error <= step * np.abs(expected) + 1e-5).all()


@pytest.mark.parametrize(
    ("follows", "added", "activation"),
    [
        ("y = Identity (c)", False, "none"),
        ("y = Relu (c)", False, "relu"),
        ("y = Add (c, r)", True, "none"),
        ("s = Add (r, c) y = Relu (s)", True, "relu"),
    ],
)
@pytest.mark.parametrize("has_bias", [False, True])
def test_epilogues(
    has_bias: bool,
    follows: str,
    added: bool,
    activation: str,
    convolutions: Stub,
    emulation: Emulation,
) -> None:
    bias, operands = ("float[6] b, ", "(x, w, b)") if has_bias else ("", "(x, w)")
    module = onnx(
        f"""g (float[2, 4, 7, 7] x, float[6, 4, 3, 3] w, {bias}float[2, 6, 5, 5] r)
        => (float[2, 6, 5, 5] y) {{ c = Conv {operands} {follows} }}"""
    )
    arrays = [drawn(2, 4, 7, 7), drawn(6, 4, 3, 3), *([drawn(6)] if has_bias else [])]

    model = assert_computes(module, [*arrays, drawn(2, 6, 5, 5)], emulation)

    (found,) = convolutions_of(model)
    assert (found.bias is not None) == has_bias
    assert (found.residual is not None) == added
    assert found.activation == activation


def test_a_residual_that_the_result_overwrites(
    convolutions: Stub, emulation: Emulation
) -> None:
    module = onnx(
        """g (float[1, 4, 7, 7] x, float[6, 4, 3, 3] w, float[1, 6, 5, 5] r)
        => (float[1, 6, 3, 3] y) {
        e = Exp (r)
        c = Conv (x, w)
        a = Add (c, e)
        y = MaxPool <kernel_shape = [3, 3]> (a) }"""
    )
    arrays = [drawn(1, 4, 7, 7), drawn(6, 4, 3, 3), drawn(1, 6, 5, 5)]

    model = assert_computes(module, arrays, emulation)

    (found,) = convolutions_of(model)
    assert (found.residual, found.result) == (
        Pointer("argument", 2),
        Pointer("argument", 3),
    )
    plan = model.contents.plan
    (call,) = (
        step
        for step in plan.steps
        if isinstance(step, Call) and found in plan.programs[step.program].launches
    )
    assert call.pointers[2] == call.pointers[3]


def test_tf32_where_it_is_allowed(convolutions: Stub, emulation: Emulation) -> None:
    """Only then the tensor-core engine is selected."""
    module, arrays = convolution("pads", "y = Relu (c)")

    for precision, tolerance in (("f32", 1e-6), ("tf32", 1e-3)):
        model = assert_computes(module, arrays, emulation, precision, tolerance)
        (found,) = convolutions_of(model)
        assert found.tf32 == (precision == "tf32")
    (exact,), (rough,) = (
        compiled(module, precision=p)(*arrays) for p in ("f32", "tf32")
    )
    assert not np.array_equal(exact, rough)


_BLOCKS = """g (float[{n}, 3, 24, 24] x) => (float[{n}, 10] y) {{
    s = Conv <pads = [3, 3, 3, 3], strides = [2, 2]> (x, w0, b0)
    t = Relu (s)
    p = MaxPool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (t)
    c1 = Conv <pads = [1, 1, 1, 1]> (p, w1, b1)
    r1 = Relu (c1)
    c2 = Conv <pads = [1, 1, 1, 1]> (r1, w2, b2)
    a2 = Add (c2, p)
    r2 = Relu (a2)
    c3 = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (r2, w3, b3)
    r3 = Relu (c3)
    c4 = Conv <pads = [1, 1, 1, 1]> (r3, w4, b4)
    d = Conv <strides = [2, 2]> (r2, w5, b5)
    a4 = Add (c4, d)
    r4 = Relu (a4)
    m = GlobalAveragePool (r4)
    f = Flatten (m)
    y = Gemm <transB = 1> (f, w6, b6) }}"""
_WEIGHTS = {
    "w0": (8, 3, 7, 7),
    "w1": (8, 8, 3, 3),
    "w2": (8, 8, 3, 3),
    "w3": (16, 8, 3, 3),
    "w4": (16, 16, 3, 3),
    "w5": (16, 8, 1, 1),
    "w6": (10, 16),
}


def residual_network(images: int | str = 2) -> IRModule:
    """A ResNet: a large first kernel, blocks with and without stride."""
    weights = {name: 0.2 * drawn(*shape) for name, shape in _WEIGHTS.items()}
    biases = {f"b{n}": drawn(shape[0]) for n, shape in enumerate(_WEIGHTS.values())}
    values = {**weights, **biases}
    inputs = "".join(
        f", float[{sizes(*array.shape)}] {name}" for name, array in values.items()
    )
    text = _BLOCKS.format(n=images).replace("] x)", f"] x{inputs})")
    return onnx(text, **values)


def test_a_residual_network_is_that_of_the_cpu(
    convolutions: Stub, emulation: Emulation
) -> None:
    module = residual_network()
    model = compiled(module)
    x = drawn(2, 3, 24, 24)

    (y,) = model(x)

    (expected,) = relax_mlir.compile(module, target="cpu", cache=False)(x)
    np.testing.assert_allclose(y, expected, atol=1e-4, rtol=1e-4)
    np.testing.assert_allclose(emulated(module, x), expected, atol=1e-4, rtol=1e-4)
    found = convolutions_of(model)
    assert len(found) == convolutions.count(_EXECUTE) == 6
    assert sum(made.residual is not None for made in found) == 2
    pads = sorted(made.shape.pads for made in found)
    assert pads == [(0, 0), (1, 1), (1, 1), (1, 1), (1, 1), (3, 3)]
    assert "Elementwise" not in rules_of(model)


def test_dynamic_batch_sizes(convolutions: Stub, emulation: Emulation) -> None:
    """A dynamic batch is described at run time; an empty one is skipped."""
    module = residual_network("n")
    model = compiled(module)
    on_cpu = relax_mlir.compile(module, target="cpu", cache=False)

    for images in (1, 3, 1, 0):
        x = drawn(images, 3, 24, 24)
        (y,) = model(x)
        np.testing.assert_allclose(y, on_cpu(x)[0], atol=1e-4, rtol=1e-4)

    assert convolutions.count(_EXECUTE) == 3 * len(convolutions_of(model))


def test_channels_last_layouts(convolutions: Stub, emulation: Emulation) -> None:
    """Channels-last images."""
    module = onnx(
        """g (float[2, 9, 8, 6] x, float[5, 6, 3, 3] w) => (float[2, 7, 6, 5] y) {
        t = Transpose <perm = [0, 3, 1, 2]> (x)
        c = Conv (t, w)
        y = Transpose <perm = [0, 2, 3, 1]> (c) }"""
    )

    model = assert_computes(module, [drawn(2, 9, 8, 6), drawn(5, 6, 3, 3)], emulation)

    (found,) = convolutions_of(model)
    assert found.shape.image_strides == (432, 1, 48, 6)


_INTEGERS = """g (uint8[1, 4, 9, 9] x, uint8[6, 4, 3, 3] w) => (int32[1, 6, 7, 7] y) {
    y = ConvInteger (x, w) }"""
_PRODUCT = """g (float[40, 30] x, float[30, 20] w) => (float[40, 20] y) {
    y = MatMul (x, w) }"""
_MEANS = """g (float[1, 4, 9, 9] x) => (float[1, 4, 7, 7] y) {
    y = AveragePool <kernel_shape = [3, 3]> (x) }"""


@pytest.mark.parametrize("text", [_INTEGERS, _PRODUCT, _MEANS])
def test_refusals(text: str) -> None:
    model = compiled(onnx(text))

    assert convolutions_of(model) == []
    assert "Cudnn" not in rules_of(model)


def test_unfused_statements_become_launches(
    convolutions: Stub, emulation: Emulation
) -> None:
    follows = "s = Sigmoid (c) y = Mul (c, s)"
    module, arrays = convolution("plain", follows)

    model = assert_computes(module, arrays, emulation)

    first, *rest = model.contents.plan.programs[0].launches
    assert isinstance(first, Convolution)
    assert rest
    assert all(isinstance(launch, Launch) for launch in rest)


def large(
    channels: int = 64, groups: int = 1, follows: str = "r = Relu (c)", pad: int = 1
) -> IRModule:
    """A channels-last layer."""
    inner, size = channels // groups, 30 + 2 * pad
    return onnx(
        f"""g (float[8, 32, 32, {channels}] x, float[{channels}, {inner}, 3, 3] w)
        => (float[8, {size}, {size}, {channels}] y) {{
        t = Transpose <perm = [0, 3, 1, 2]> (x)
        c = Conv <group = {groups}, pads = [{pad}, {pad}, {pad}, {pad}]> (t, w)
        {follows}
        y = Transpose <perm = [0, 2, 3, 1]> (r) }}""",
        w=drawn(channels, inner, 3, 3),
    )


@pytest.mark.parametrize(
    ("module", "precision", "is_taken"),
    [
        (large(), "f32", True),
        (large(), "tf32", False),  # by warpgroups
        (large(channels=62), "tf32", True),  # rows that TMA cannot read
        (large(groups=64), "f32", False),  # memory is waited for
        (large(channels=4), "f32", False),  # few terms
        (large(follows="s = Sigmoid (c) r = Mul (c, s)"), "f32", False),
        (large(pad=0), "f32", False),  # two orders
    ],
)
def test_auto_policy(module: IRModule, precision: str, is_taken: bool) -> None:
    model = compiled(module, library="auto", precision=precision)

    assert ("Cudnn" in rules_of(model)) == is_taken
    assert bool(convolutions_of(model)) == is_taken


def test_by_default_no_library_is_called() -> None:
    model = relax_mlir.compile(large(), target=TARGET, cache=False)

    assert isinstance(model, CudaExecutable)
    assert convolutions_of(model) == []
