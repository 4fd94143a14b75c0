"""Convolutions that cuDNN computes: which, how they are described, and what comes out."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import relax_mlir
from relax_mlir import IRModule, reference
from relax_mlir.dialects.convolution_shapes import ConvolutionShape
from relax_mlir.dialects.tir import LibraryConvolutionOp
from relax_mlir.errors import DeviceError, EmulationError, IRError, ModelError
from relax_mlir.runtime.cuda import cublaslt, cudnn
from relax_mlir.runtime.cuda.archive import Contents
from relax_mlir.runtime.cuda.arrays import DeviceArray
from relax_mlir.runtime.cuda.convolutions import Convolution
from relax_mlir.runtime.cuda.devices import device
from relax_mlir.runtime.cuda.executable import CudaExecutable
from relax_mlir.runtime.cuda.libraries import Libraries
from relax_mlir.runtime.cuda.plan import Call, Launch, Plan
from relax_mlir.runtime.cuda.pointers import Pointer
from relax_mlir.runtime.cuda.products import Product
from relax_mlir.runtime.cuda.shared_libraries import handle
from relax_mlir.testing import env
from tests.gpu.emulated import emulated_program
from tests.gpu.library_calls import (
    calls_of,
    compiled,
    emulated,
    onnx,
    rules_of,
    told_by_doctor,
)
from tests.gpu.stub import TARGET, Emulation, Stub
from tests.products import drawn

_EXECUTE = "cudnnBackendExecute"
_FIRST_PLAN = 16  # of the descriptors of a layer in f32, which are finished one by one


def convolutions_of(model: CudaExecutable) -> list[Convolution]:
    return calls_of(model, Convolution)


def assert_computes(
    module: IRModule,
    arrays: list[np.ndarray],
    emulation: Emulation,
    precision: str = "f32",
    tolerance: float = 1e-5,  # f32, sums in another order
) -> CudaExecutable:
    """The stub and the emulator compute what the definitions say; the model."""
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
    "one picture": ((1, 5, 9, 9), (1, 5, 3, 3), "strides = [2, 2]"),
}


def convolution(
    shape: str, follows: str = "y = Identity (c)", element: str = "float"
) -> tuple[IRModule, list[np.ndarray]]:
    """A convolution ``c`` with a bias, and a line of what follows, which may read ``r``."""
    x, w, attributes = _SHAPES[shape]
    rank = len(x) - 2
    body = f"c = Conv <{attributes}> (x, w, b)" if attributes else "c = Conv (x, w, b)"
    arrays = [drawn(*x), drawn(*w), drawn(w[0])]
    header = f"{element}[{sizes(*x)}] x, {element}[{sizes(*w)}] w, {element}[{w[0]}] b"
    result = ", ".join("abcde"[: rank + 2])
    text = f"g ({header}) => ({element}[{result}] y) {{ {body} {follows} }}"
    return onnx(text), arrays


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


@pytest.mark.parametrize("element", _TYPES)
@pytest.mark.parametrize("shape", ["pads", "groups", "one axis", "three axes"])
def test_numbers_of_other_types(
    element: str, shape: str, convolutions: Stub, emulation: Emulation
) -> None:
    """Halves go in and come out; the sum, the bias and what follows are rounded once."""
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
def test_what_follows(
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
    """The engine on tensor cores is taken then alone."""
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


def residual_network(pictures: int | str = 2) -> IRModule:
    """As ResNets are: a wide first window, blocks with and without a step."""
    weights = {name: 0.2 * drawn(*shape) for name, shape in _WEIGHTS.items()}
    biases = {f"b{n}": drawn(shape[0]) for n, shape in enumerate(_WEIGHTS.values())}
    values = {**weights, **biases}
    inputs = "".join(
        f", float[{sizes(*array.shape)}] {name}" for name, array in values.items()
    )
    text = _BLOCKS.format(n=pictures).replace("] x)", f"] x{inputs})")
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


def test_an_open_number_of_pictures(convolutions: Stub, emulation: Emulation) -> None:
    """It is described when it is known, and of no picture there is nothing to do."""
    module = residual_network("n")
    model = compiled(module)
    on_cpu = relax_mlir.compile(module, target="cpu", cache=False)

    for pictures in (1, 3, 1, 0):
        x = drawn(pictures, 3, 24, 24)
        (y,) = model(x)
        np.testing.assert_allclose(y, on_cpu(x)[0], atol=1e-4, rtol=1e-4)

    assert convolutions.count(_EXECUTE) == 3 * len(convolutions_of(model))


def test_turned_layouts(convolutions: Stub, emulation: Emulation) -> None:
    """Pictures with their channels last, as other frameworks have them."""
    module = onnx(
        """g (float[2, 9, 8, 6] x, float[5, 6, 3, 3] w) => (float[2, 7, 6, 5] y) {
        t = Transpose <perm = [0, 3, 1, 2]> (x)
        c = Conv (t, w)
        y = Transpose <perm = [0, 2, 3, 1]> (c) }"""
    )

    model = assert_computes(module, [drawn(2, 9, 8, 6), drawn(5, 6, 3, 3)], emulation)

    (found,) = convolutions_of(model)
    assert found.shape.picture_strides == (432, 1, 48, 6)


_INTEGERS = """g (uint8[1, 4, 9, 9] x, uint8[6, 4, 3, 3] w) => (int32[1, 6, 7, 7] y) {
    y = ConvInteger (x, w) }"""
_PRODUCT = """g (float[40, 30] x, float[30, 20] w) => (float[40, 20] y) {
    y = MatMul (x, w) }"""
_MEANS = """g (float[1, 4, 9, 9] x) => (float[1, 4, 7, 7] y) {
    y = AveragePool <kernel_shape = [3, 3]> (x) }"""


@pytest.mark.parametrize("text", [_INTEGERS, _PRODUCT, _MEANS])
def test_others_are_left_to_kernels(text: str) -> None:
    model = compiled(onnx(text))

    assert convolutions_of(model) == []
    assert "LibraryConvolution" not in rules_of(model)


def test_what_the_library_does_not_do_is_a_launch(
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
    """A layer whose pictures, weights and results lie with their channels last."""
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
        (large(channels=62), "tf32", True),  # rows that the copy engine does not read
        (large(groups=64), "f32", False),  # memory is waited for
        (large(channels=4), "f32", False),  # few terms
        (large(follows="s = Sigmoid (c) r = Mul (c, s)"), "f32", False),
        (large(pad=0), "f32", False),  # two orders
    ],
)
def test_where_it_gains(module: IRModule, precision: str, is_taken: bool) -> None:
    model = compiled(module, library="auto", precision=precision)

    assert ("LibraryConvolution" in rules_of(model)) == is_taken
    assert bool(convolutions_of(model)) == is_taken


def test_by_default_no_library_is_called() -> None:
    model = relax_mlir.compile(large(), target=TARGET, cache=False)

    assert isinstance(model, CudaExecutable)
    assert convolutions_of(model) == []


def test_both_libraries_share_a_workspace(convolutions: Stub) -> None:
    gpu = device(0)
    libraries = Libraries(gpu)

    with gpu.current():
        of_products = libraries.multiplier().workspace
        workspace = libraries.convolver().workspace

        assert workspace.at_least(of_products.size_bytes) is of_products
        more = workspace.at_least(of_products.size_bytes + 1)
        assert more.size_bytes == 2 * of_products.size_bytes
        assert of_products.address  # graphs know it
        libraries.close()
    assert not of_products.address
    assert not more.address


def test_everything_is_given_back(convolutions: Stub, emulation: Emulation) -> None:
    module = residual_network()
    before = convolutions.used_bytes
    model = compiled(module)
    model(drawn(2, 3, 24, 24))
    kinds = {type(n) for p in model.contents.plan.programs for n in p.launches}
    assert kinds >= {Convolution, Product}

    del model

    assert convolutions.used_bytes == before
    made, gone = (
        convolutions.count(f"cudnnBackend{what}Descriptor")
        for what in ("Create", "Destroy")
    )
    assert made == gone > 0


def test_convolutions_are_in_graphs_and_follow_the_arrays(
    convolutions: Stub, emulation: Emulation
) -> None:
    """Two layers: the second has the first one's result, and a residual."""
    module = onnx(
        """g (float[2, 4, 9, 9] x, float[6, 4, 3, 3] w, float[6] b, float[5, 6, 3, 3] v,
        float[2, 5, 5, 5] r) => (float[2, 5, 5, 5] y) {
        c = Conv (x, w, b)
        t = Relu (c)
        d = Conv (t, v)
        y = Add (d, r) }"""
    )
    model = compiled(module)
    gpu = device(0)
    shapes = (2, 4, 9, 9), (6, 4, 3, 3), (6,), (5, 6, 3, 3), (2, 5, 5, 5)
    sets = [[drawn(*shape, seed=seed) for shape in shapes] for seed in range(2)]
    on_gpu = [[DeviceArray.of(a, gpu) for a in arrays] for arrays in sets]
    outs = [DeviceArray.of(np.zeros(shapes[-1], np.float32), gpu) for _ in range(2)]

    for number in (0, 0, 1, 0, 1, 1):
        model(*on_gpu[number], out=[outs[number]])

    for arrays, out in zip(sets, outs, strict=True):
        (expected,) = reference.run(module, *arrays)
        np.testing.assert_allclose(out.numpy(), expected, atol=1e-3, rtol=1e-4)
    assert convolutions.count("cuGraphLaunch") == 4
    assert convolutions.count(_EXECUTE) == 2 * 2 + 2 * 2  # as such, and captured


def test_each_device_has_its_own(convolutions: Stub) -> None:
    convolutions.device(count=2)
    module, arrays = convolution("plain", "y = Relu (c)")
    model = compiled(module)

    results = [model.on(ordinal)(*arrays)[0] for ordinal in (0, 1)]

    np.testing.assert_array_equal(*results)
    np.testing.assert_allclose(
        results[0], reference.run(module, *arrays)[0], atol=1e-4, rtol=0
    )
    devices = device(0), device(1)
    handles = {handle(cudnn.library(gpu), gpu) for gpu in devices}
    assert len(handles) == 2


def test_kernels_are_measured(convolutions: Stub) -> None:
    module, arrays = convolution("plain", "y = Relu (c)")
    model = compiled(module)

    profile = model.profile(*arrays)

    assert [kernel.rule for kernel in profile.kernels] == ["LibraryConvolution"]
    assert (profile.durations_ns > 0).all()


@pytest.mark.parametrize("name", ["Finalize", "GetAttribute", "Execute"])
def test_what_the_library_refuses_names_the_kernel(
    name: str, convolutions: Stub
) -> None:
    module, arrays = convolution("plain", "y = Relu (c)")
    model = compiled(module)
    convolutions.fail(f"cudnnBackend{name}", 3000)

    with pytest.raises(
        DeviceError,
        match=r"kernel `.*conv2d.*`: convolution of 2x8x9x9 by 12x8x3x3: "
        rf"cudnnBackend{name}: CUDNN_STATUS_NOT_SUPPORTED \(3000\)",
    ):
        model(*arrays)

    (y,) = model(*arrays)
    np.testing.assert_allclose(
        y, reference.run(module, *arrays)[0], atol=1e-4, rtol=1e-5
    )


def test_without_an_engine_the_message_says_what_to_do(convolutions: Stub) -> None:
    module, arrays = convolution("plain", "y = Relu (c)")
    model = compiled(module)
    convolutions.fail("cudnnBackendFinalize", 3000, nth=_FIRST_PLAN)

    with pytest.raises(
        DeviceError,
        match=r"cuDNN 9\.28\.0 has no engine for it: .*CUDNN_STATUS_NOT_SUPPORTED.*"
        r'Hint: compile the model with `library="never"`',
    ):
        model(*arrays)


def test_without_the_library_the_message_says_what_to_do(
    products: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cudnn, "LIBRARIES", {13: "libno_such_library.so.9"})
    module, arrays = convolution("plain")

    with pytest.raises(
        DeviceError,
        match=r"cuDNN, which models call that were compiled so, cannot be loaded: "
        r"libno_such_library.*`pip install nvidia-cudnn-cu13` or "
        r'`pip install nvidia-cudnn-cu12`.*`library="never"`',
    ):
        compiled(module)(*arrays)


def test_a_library_for_a_newer_driver_is_passed_over(
    convolutions: Stub, cudnn_library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(device(0).driver), "version", (12, 9))
    monkeypatch.setattr(cudnn, "LIBRARIES", {12: str(cudnn_library)})

    with pytest.raises(
        DeviceError, match=r"built for CUDA 13, the driver is of CUDA 12"
    ):
        cudnn.library(device(0))


def test_cublaslt_is_looked_for_before_the_library_needs_it(
    convolutions: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cublaslt, "LIBRARIES", {13: "libno_such_library.so.13"})

    with pytest.raises(
        DeviceError, match=r"cuDNN, which .*: cuBLASLt, .*libno_such_library"
    ):
        cudnn.library(device(0))


def test_a_file_runs_where_the_compiler_is_not(
    library: Path,
    cublaslt_library: Path,
    cudnn_library: Path,
    poor: Path,
    tmp_path: Path,
) -> None:
    module, _ = convolution("plain", "y = Relu (c)")
    path = tmp_path / "model.rxm"
    compiled(module).save(path)
    code = f"""
import sys
sys.path.insert(0, {str(path)!r})
import numpy as np
from relax_mlir.runtime.cuda import cublaslt, cudnn, driver
from relax_mlir.runtime.cuda.loading import load
driver.LIBRARY = {str(library)!r}
cublaslt.LIBRARIES = {{13: {str(cublaslt_library)!r}}}
cudnn.LIBRARIES = {{13: {str(cudnn_library)!r}}}
x, w, b = (np.ones(n, np.float32) for n in ((2, 8, 9, 9), (12, 8, 3, 3), (12,)))
(y,) = load({str(path)!r})(x, w, b)
assert (y == 73).all()
assert cudnn.__file__.startswith({str(path)!r})
"""
    environment = {**os.environ, "PYTHONPATH": str(poor)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def test_the_doctor_finds_it(
    convolutions: Stub, cudnn_library: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = told_by_doctor("cudnn", capsys)

    assert line.startswith("ok")
    assert line.endswith(f"9.28.0, {cudnn_library}")
    assert env.has_cudnn()


def test_the_doctor_says_that_it_is_not_there(
    products: Stub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cudnn, "LIBRARIES", {13: "libno_such_library.so.9"})

    line = told_by_doctor("cudnn", capsys)

    assert "none: cuDNN, which models call" in line
    assert "libno_such_library" in line
    assert not env.has_cudnn()


def with_convolution(model: CudaExecutable, made: Convolution) -> Contents:
    """The same, with another convolution."""
    (program,) = model.contents.plan.programs
    plan = Plan((replace(program, launches=(made,)),), model.contents.plan.steps)
    return replace(model.contents, plan=plan)


def damaged(**changed: object) -> tuple[CudaExecutable, list[np.ndarray]]:
    """A model whose convolution, or its shape, is another one; and what it reads."""
    module, arrays = convolution("plain", "y = Relu (c)")
    model = compiled(module)
    (found,) = convolutions_of(model)
    of_shape = {n: v for n, v in changed.items() if hasattr(found.shape, n)}
    rest = {n: v for n, v in changed.items() if n not in of_shape}
    made = replace(found, shape=replace(found.shape, **of_shape), **rest)
    return CudaExecutable(with_convolution(model, made)), arrays


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"batch": "k"}, r"unknown size `k`"),
        ({"batch": 2.5}, r"expected a text, got 2\.5"),
        ({"element": "i8"}, r"a convolution of unknown elements: `i8`"),
        ({"element": 3}, r"expected a text, got 3"),
        ({"activation": "gelu"}, r"a convolution of an unknown kind: .*'gelu'"),
        ({"tf32": 1}, r"unknown kind: tf32 1"),
        ({"bias": Pointer("argument", 9)}, r"argument 9: there are 4"),
        ({"residual": Pointer("arena", 0)}, r"expected memory of argument, scratch"),
        ({"channels": 0}, r"a convolution of \[0, 12"),
        ({"channels": "8"}, r"a convolution of \['8', 12"),
        ({"filters": 1 << 31}, r"a convolution of \[8, 2147483648"),
        ({"groups": 3}, r"8 channels and 12 filters of 3 groups"),
        ({"picture": (9,)}, r"a convolution of \[8, 12, 1, \[9\]"),
        ({"picture": 9}, r"a convolution of \[8, 12, 1, 9"),
        ({"window": (3, 0)}, r"a convolution of \[8, 12"),
        ({"window": (3, True)}, r"a convolution of \[8, 12"),
        ({"window": (10, 3)}, r"results of \(7, 7\): expected \(0, 7\)"),
        ({"result": (8, 7)}, r"results of \(8, 7\): expected \(7, 7\)"),
        ({"steps": (0, 1)}, r"a convolution of \[8, 12"),
        ({"dilations": (1, -1)}, r"a convolution of \[8, 12"),
        ({"pads": (-1, 0)}, r"a convolution of \[8, 12"),
        ({"pads": (1, 0)}, r"results of \(7, 7\): expected \(9, 7\)"),
        ({"picture_strides": (648, 81, 9)}, r"a convolution of \[8, 12"),
        ({"picture_strides": (648, 81, 9, 0)}, r"a convolution of \[8, 12"),
        ({"result_strides": (588, 49, 6, 1)}, r"elements lie on each other"),
        ({"channels_last": 1}, r"a convolution of \[8, 12"),
    ],
)
def test_damaged_plans_are_refused(
    changed: dict[str, object], problem: str, tmp_path: Path
) -> None:
    model, _ = damaged(**changed)
    model.save(tmp_path / "model.rxm")

    with pytest.raises(ModelError, match=problem):
        relax_mlir.load(tmp_path / "model.rxm")


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"batch": 3}, r"7776 bytes at 0 of input 0, which has 5184"),
        ({"batch": -1}, r"a convolution of -1 pictures"),
        ({"picture_strides": (649, 81, 9, 1)}, r"5188 bytes at 0 of input 0"),
        ({"result_strides": (588, 49, 7, 2)}, r"4728 bytes at 0 of output 0"),
        ({"result_strides": (600, 49, 7, 1)}, r"4752 bytes at 0 of output 0"),
        ({"filters": 13}, r"of input 1, which has 3456"),
        ({"bias": Pointer("argument", 2, 16)}, r"48 bytes at 16 of input 2"),
        ({"bias": Pointer("argument", 1, 4)}, r"operand at 4: .*multiple of 16"),
        ({"residual": Pointer("argument", 2)}, r"4704 bytes at 0 of input 2"),
    ],
)
def test_convolutions_stay_in_their_memory(
    changed: dict[str, object], problem: str, convolutions: Stub
) -> None:
    model, arrays = damaged(**changed)

    with pytest.raises((ModelError, ValueError), match=problem):
        model(*arrays)


def test_operands_are_not_left_out(tmp_path: Path) -> None:
    model, _ = damaged()
    (found,) = convolutions_of(model)
    fields = found.fields()
    fields["operands"][1] = None

    with pytest.raises(ValueError, match=r"a convolution lacks an operand"):
        Convolution.from_fields(fields)
    assert Convolution.from_fields(found.fields()) == found


def test_files_whose_shapes_lack_parts_are_refused(tmp_path: Path) -> None:
    model, _ = damaged()
    (found,) = convolutions_of(model)
    model.save(tmp_path / "model.rxm")
    fields = found.fields()

    for parts in ([], fields["convolution"][:-1], [*fields["convolution"], 1]):
        with pytest.raises((TypeError, ValueError)):
            Convolution.from_fields({**fields, "convolution": parts})


_BY_HAND = """
func.func @k(%x: memref<128xf32>, %y: memref<128xf32>)
    attributes {{tir.prim_func, tir.rule = "ByHand"}} {{
  %n = arith.constant {pictures} : index
  "tir.library_convolution"(%x, %x, %{result}, %n, %{bias}) {{
    counts = array<i64: 2, 2, 1>, picture_sizes = array<i64: 4, 4>,
    window_sizes = array<i64: 3, 3>, result_sizes = array<i64: {rows}, 2>,
    steps = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0>,
    picture_strides = array<i64: 32, 16, 4, 1>, result_strides = array<i64: 8, 4, 2, 1>,
    channels_last = false, activation = "none", tf32 = false,
    operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0>
  }} : (memref<128xf32>, memref<128xf32>, memref<128xf32>, index, memref<128xf32>) -> ()
  return
}}
"""


_GIVEN = {"pictures": 4, "result": "y", "bias": "x", "rows": 2}


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"pictures": 5}, r"element 159 of an array of 128"),
        ({"result": "x"}, r"a result lies in an operand"),
        ({"bias": "y"}, r"a result lies in an operand"),
        ({"rows": 3}, r"results of \(3, 2\): expected \(2, 2\)"),
    ],
)
def test_the_emulator_tells_what_a_convolution_must_not_do(
    changed: dict[str, object], problem: str
) -> None:
    text = _BY_HAND.format(**{**_GIVEN, **changed})
    module, x = IRModule.parse(text), drawn(128)

    with pytest.raises(EmulationError, match=problem):
        emulated_program(module, [x], [x], target=TARGET)


def test_the_operation_is_read_and_printed() -> None:
    text = _BY_HAND.format(**_GIVEN)

    module = IRModule.parse(IRModule.parse(text).mlir.operation.get_asm())

    with module.mlir.context:
        operations = module.func_op("k").entry_block.operations
        (made,) = (o for o in operations if isinstance(o, LibraryConvolutionOp))
        assert made.shape == ConvolutionShape(
            *(2, 2, 1),
            *((4, 4), (3, 3), (2, 2)),
            *((1, 1), (1, 1), (0, 0)),
            *((32, 16, 4, 1), (8, 4, 2, 1)),
            channels_last=False,
        )
        assert (len(made.bias), len(made.residual)) == (1, 0)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("pads = array<i64: 0, 0>,", "", r'attribute "pads" is expected'),
        ("(%x, %x, %y, %n, %x)", "(%x, %n, %y, %n, %x)", r"got .*index|expects.*index"),
    ],
)
def test_the_operation_is_verified(old: str, new: str, problem: str) -> None:
    text = _BY_HAND.format(**_GIVEN)
    types = "(memref<128xf32>, memref<128xf32>"
    if "%n, %y" in new:
        text = text.replace(types, "(memref<128xf32>, index")

    with pytest.raises(IRError, match=problem):
        IRModule.parse(text.replace(old, new)).verify()


def test_explanations_name_the_rule() -> None:
    module, _ = convolution("plain")
    told = relax_mlir.explain(module, target=TARGET, library="always")

    assert [kernel.choice.rule for kernel in told.kernels] == ["LibraryConvolution"]


def test_shapes_tell_where_all_elements_are() -> None:
    shape = ConvolutionShape(
        *(4, 6, 2),
        *((5, 7), (3, 2), (3, 3)),
        *((1, 3), (1, 2), (0, 1)),
        *((140, 1, 28, 4), (54, 1, 18, 6)),
        channels_last=True,
    )
    shape.check()

    assert shape.weight_strides == (12, 1, 4, 2)
    assert replace(shape, channels_last=False).weight_strides == (12, 6, 2, 1)
    assert (shape.picture_elements(2), shape.result_elements(2)) == (280, 108)
    assert shape.is_packed(channels_last=True)
    assert not shape.is_packed(channels_last=False)
    assert ConvolutionShape.from_fields(shape.fields()) == shape
