"""Models with weights, multi-kernel programs, copies, and host functions."""

import re
import sys
from collections.abc import Callable
from dataclasses import replace

import ml_dtypes
import numpy as np
import onnx.parser
import pytest

import relax_mlir
from models import bert, gpt2, lstm, unet
from relax_mlir.errors import CompileError, DeviceError, UnsupportedError
from relax_mlir.ir.module import IRModule
from relax_mlir.runtime import elements
from relax_mlir.runtime.cuda.arrays import DeviceArray
from relax_mlir.runtime.cuda.devices import device
from relax_mlir.runtime.cuda.executable import CudaExecutable
from relax_mlir.runtime.ndarray import NDArray
from relax_mlir.runtime.registry import register_func
from relax_mlir.testing import assert_same_numbers
from tests.gpu.stub import TARGET, Emulation, Stub

Compile = Callable[[IRModule], CudaExecutable]


@pytest.fixture
def compiled(emulation: Emulation) -> Compile:
    """Compiles a module and registers its kernels with the emulator."""

    def make(module: IRModule) -> CudaExecutable:
        made = relax_mlir.compile(module, target=TARGET, cache=False)
        assert isinstance(made, CudaExecutable)
        return made

    return make


def from_onnx(text: str) -> IRModule:
    model = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : 20]>\n{text}'
    )
    return relax_mlir.import_onnx(model.SerializeToString())


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


_WEIGHTS = ", ".join(f"{n / 7:.4f}" for n in range(1, 61))
_LAYERS = f"""
g (float[n, 3] x) => (float[n, 20] y)
<float[3, 20] w = {{{_WEIGHTS}}}, float[20] b = {{{_WEIGHTS[: _WEIGHTS.index("2.8571") + 6]}}}>
{{
  p = MatMul (x, w)
  y = Add (p, b)
}}
"""


def test_weights_are_uploaded_once(compiled: Compile, stub: Stub) -> None:
    model = compiled(from_onnx(_LAYERS))
    x = random(4, 3)
    w = np.array(_WEIGHTS.split(", "), np.float32)

    for _ in range(3):
        (y,) = model(x)
        expected = x @ w.reshape(3, 20) + w[:20]
        np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)

    assert len(model.contents.constants) == 2
    assert stub.count("cuMemcpyHtoDAsync_v2") == 2 + 3


def test_a_weight_that_is_not_there_is_named(compiled: Compile) -> None:
    contents = compiled(from_onnx(_LAYERS)).contents

    with pytest.raises(CompileError, match="the module's constants lack `w`"):
        CudaExecutable(replace(contents, constants={}))


_SOFTMAX_OF_COLUMNS = """
func.func @main(%x: tensor<5x300xf32>) -> (tensor<5x300xf32>, tensor<5x300xf32>) {
  %y = "relax.nn_softmax"(%x) {axis = 0 : i64} : (tensor<5x300xf32>) -> tensor<5x300xf32>
  return %y, %x : tensor<5x300xf32>, tensor<5x300xf32>
}
"""


def test_programs_have_memory_of_their_own(compiled: Compile, stub: Stub) -> None:
    model = compiled(IRModule.parse(_SOFTMAX_OF_COLUMNS))
    (program,) = model.contents.plan.programs
    x = random(5, 300)

    for _ in range(2):  # as launches, and as a graph with a copy in it
        y, same = model(x)

        e = np.exp(x.astype(np.float64))
        np.testing.assert_allclose(y, e / e.sum(0), rtol=1e-5)
        np.testing.assert_array_equal(same, x)

    assert program.scratch
    assert len(program.launches) > 1
    assert stub.count("cuGraphLaunch") == 1
    assert model.contents.plan.at({}).workspace_bytes % 256 == 0


_HALVES = """
func.func @main(%x: tensor<?xf32, #relax.shape<["2*n"]>>, %y: tensor<?xf32, #relax.shape<["n"]>>)
    -> tensor<?xf32, #relax.shape<["2*n"]>> {
  %z = "relax.exp"(%x)
    : (tensor<?xf32, #relax.shape<["2*n"]>>) -> tensor<?xf32, #relax.shape<["2*n"]>>
  return %z : tensor<?xf32, #relax.shape<["2*n"]>>
}
"""


def test_sizes_are_checked_as_on_the_cpu(compiled: Compile) -> None:
    module = IRModule.parse(_HALVES)
    on_gpu, on_cpu = compiled(module), relax_mlir.compile(module, cache=False)
    cases = [
        ((5, 3), "argument 0 `x0`: dimension 0 (`2*n`): expected 6, got 5"),
        ((6, 2), "argument 0 `x0`: dimension 0 (`2*n`): expected 4, got 6"),
    ]

    for shapes, message in cases:
        arrays = [random(n) for n in shapes]
        for model in (on_gpu, on_cpu):
            with pytest.raises(ValueError, match=re.escape(message)):
                model(*arrays)

    x = random(6)
    np.testing.assert_allclose(on_gpu(x, random(3))[0], np.exp(x), rtol=1e-6)


def test_constraints_are_checked_as_on_the_cpu(compiled: Compile) -> None:
    text = "g (float[n] x, float[m] y) => (float[k] z) { p = Add (x, y) z = Relu (p) }"
    module = from_onnx(text)
    on_gpu, on_cpu = compiled(module), relax_mlir.compile(module, cache=False)
    messages: list[str] = []

    for model in (on_gpu, on_cpu):
        with pytest.raises(ValueError, match="expected") as caught:
            model(random(4), random(5))
        messages.append(str(caught.value))

    assert messages[0] == messages[1]


_CALLS_HOST = """
func.func @main(%x: tensor<?x3xf32, #relax.shape<["n", "3"]>>)
    -> tensor<?x3xf32, #relax.shape<["n", "3"]>> {
  %a = "relax.exp"(%x)
    : (tensor<?x3xf32, #relax.shape<["n", "3"]>>) -> tensor<?x3xf32, #relax.shape<["n", "3"]>>
  %t = builtin.unrealized_conversion_cast %a : tensor<?x3xf32, #relax.shape<["n", "3"]>>
    to tuple<tensor<?x3xf32, #relax.shape<["n", "3"]>>>
  %b = "relax.call_dps_packed"(%t) {callee = "test_cuda.shifted"}
    : (tuple<tensor<?x3xf32, #relax.shape<["n", "3"]>>>)
    -> tensor<?x3xf32, #relax.shape<["n", "3"]>>
  %c = "relax.exp"(%b)
    : (tensor<?x3xf32, #relax.shape<["n", "3"]>>) -> tensor<?x3xf32, #relax.shape<["n", "3"]>>
  return %c : tensor<?x3xf32, #relax.shape<["n", "3"]>>
}
"""


def test_functions_on_the_host_get_copies(compiled: Compile, stub: Stub) -> None:
    def shifted(x: NDArray, y: NDArray) -> None:
        y[...] = x.numpy() - 1

    register_func("test_cuda.shifted", shifted, override=True)
    model = compiled(IRModule.parse(_CALLS_HOST))
    x = random(4, 3)
    arrays = [DeviceArray.of(x, device(0))]

    for _ in range(3):
        (y,) = model(*arrays)
        np.testing.assert_allclose(y.numpy(), np.exp(np.exp(x) - 1), rtol=1e-5)

    assert stub.count("cuGraphLaunch") == 0


def test_a_function_on_the_host_does_not_call_its_own_model(compiled: Compile) -> None:
    x = random(4, 3)
    made = compiled(IRModule.parse(_CALLS_HOST))
    other = made.on(0)
    told: list[str] = []

    def shifted(given: NDArray, y: NDArray) -> None:
        if not told:
            for call in (made, made.profile):
                with pytest.raises(
                    DeviceError, match=r"reentrant call.*`model\.on\(0\)`"
                ) as error:
                    call(x)
                told.append(str(error.value))
            other(x)
        y[...] = given.numpy() - 1

    register_func("test_cuda.shifted", shifted, override=True)
    (y,) = made(x)

    np.testing.assert_allclose(y, np.exp(np.exp(x) - 1), rtol=1e-5)
    assert len(told) == 2


def test_what_a_function_on_the_host_raises_arrives(compiled: Compile) -> None:
    def broken(x: NDArray, y: NDArray) -> None:
        raise ArithmeticError("no luck")

    register_func("test_cuda.shifted", broken, override=True)
    model = compiled(IRModule.parse(_CALLS_HOST))

    with pytest.raises(ArithmeticError, match="no luck"):
        model(random(4, 3))


@pytest.mark.parametrize("dtype", [np.int8, np.bool_, ml_dtypes.bfloat16, np.float16])
def test_elements_of_other_types(dtype: type, compiled: Compile) -> None:
    name = {np.int8: "i8", np.bool_: "i1", np.float16: "f16"}.get(dtype, "bf16")
    text = f"""
    func.func @main(%x: tensor<2x5x{name}>) -> tensor<5x2x{name}> {{
      %y = "relax.permute_dims"(%x) {{axes = array<i64: 1, 0>}}
        : (tensor<2x5x{name}>) -> tensor<5x2x{name}>
      return %y : tensor<5x2x{name}>
    }}
    """
    x = (random(2, 5) * 3).astype(dtype)
    model = compiled(IRModule.parse(text))

    (y,) = model(x)
    (on_gpu,) = model(DeviceArray.of(x, device(0)))

    for found in (y, on_gpu.numpy()):
        assert found.dtype == x.dtype
        np.testing.assert_array_equal(found, x.T)


def test_bfloat16_is_bits_without_ml_dtypes(monkeypatch: pytest.MonkeyPatch) -> None:
    given = elements.random_elements(np.random.default_rng(3), (500,), "bfloat16")
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    elements.element_type.cache_clear()
    try:
        bits = elements.random_elements(np.random.default_rng(3), (500,), "bfloat16")
        floats = elements.as_floats(bits, "bfloat16")
        with pytest.raises(ValueError, match="needs the package ml_dtypes"):
            elements.random_elements(np.random.default_rng(3), (5,), "float8_e5m2")
    finally:
        elements.element_type.cache_clear()

    np.testing.assert_array_equal(bits, given.view(np.uint16))
    np.testing.assert_array_equal(floats, given.astype(np.float32))


@pytest.mark.parametrize("name", ["object", "float31", "bfloat17", "V2"])
def test_other_element_types_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"unknown element type `{name}`"):
        elements.element_type(name)


def test_an_array_of_bfloat16_needs_dlpack(stub: Stub) -> None:
    array = DeviceArray.of(np.zeros(3, ml_dtypes.bfloat16), device(0))

    assert not hasattr(array, "__cuda_array_interface__")
    assert array.__dlpack_device__() == (2, 0)


def test_passes_are_not_verified_by_runs_on_gpus() -> None:
    with pytest.raises(
        UnsupportedError, match=r"`verify`: expected a target that this machine"
    ):
        relax_mlir.compile(from_onnx(_LAYERS), target=TARGET, verify="each-pass")


_BERT = bert.build(layers=2, hidden=64, heads=4, vocab=100)
_IDS = np.random.default_rng(1).integers(0, 100, (2, 24))
_MODELS = {
    "bert": (_BERT, [_IDS, np.ones_like(_IDS), np.zeros_like(_IDS)]),
    "lstm": (lstm.build(seq=6, width=16, hidden=24), [random(6, 1, 16)]),
    "unet": (unet.build(width=4, size=16), [random(1, 3, 16, 16)]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", _MODELS)
def test_whole_models_compute_what_they_do_on_the_cpu(
    name: str, compiled: Compile
) -> None:
    model, arrays = _MODELS[name]
    module = relax_mlir.import_onnx(model)
    expected = relax_mlir.compile(module)(*arrays)
    made = compiled(module)

    for _ in range(2):  # as launches, and as a graph
        for ours, theirs in zip(made(*arrays), expected, strict=True):
            assert_same_numbers(ours, theirs, tolerance=2e-5)


def test_a_cache_grows_from_call_to_call(compiled: Compile, stub: Stub) -> None:
    small = {"layers": 2, "hidden": 64, "heads": 2, "vocab": 100}
    module = relax_mlir.import_onnx(gpt2.build(1, "past", **small))
    on_cpu, on_gpu = relax_mlir.compile(module, cache=False), compiled(module)
    cache = [np.zeros((1, 2, 0, 32), np.float32)] * 4
    there = [DeviceArray.of(array, device(0)) for array in cache]

    for token in (5, 17, 99, 0, 42):
        word = np.array([[token]])
        expected, *cache = on_cpu(word, *cache)
        logits, *there = on_gpu(DeviceArray.of(word, device(0)), *there)
        found = [logits, *there]
        for ours, theirs in zip(found, [expected, *cache], strict=True):
            np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-4, atol=1e-4)

    # Kernels that do not depend on the length, and one that joins both caches of a layer.
    rules = [kernel.rule for kernel in on_gpu.kernels]
    assert rules.count("MultiOutput") == 2
    assert "Fallback" not in rules
    assert stub.count("cuGraphLaunch") == 0  # no two calls are alike


def test_empty_programs_have_no_kernels(compiled: Compile, stub: Stub) -> None:
    text = "g (float[0, 8] x) => (float[0, 8] y) { y = Softmax (x) }"
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 17]> {text}')

    (y,) = compiled(relax_mlir.import_onnx(model))(np.zeros((0, 8), np.float32))

    assert y.shape == (0, 8)
    assert stub.count("cuLaunchKernelEx") == 0
