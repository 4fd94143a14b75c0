"""Error messages of failed calls on a GPU."""

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import relax_mlir
from relax_mlir.errors import DeviceError
from relax_mlir.ir.module import IRModule
from relax_mlir.runtime.compiled_model import CompiledModel
from relax_mlir.runtime.cuda import devices as devices_module
from relax_mlir.runtime.cuda import driver as driver_module
from relax_mlir.runtime.cuda.executable import CudaExecutable
from relax_mlir.runtime.sizes import SizeBinder
from tests.gpu.example import TEXT, expected, inputs
from tests.gpu.stub import Stub


@pytest.fixture(scope="module")
def on_cpu(tmp_path_factory: pytest.TempPathFactory) -> CompiledModel:
    cache = tmp_path_factory.mktemp("cache")
    return relax_mlir.compile(IRModule.parse(TEXT), cache=cache)


@pytest.mark.parametrize(
    ("arrays", "kind", "message"),
    [
        ([], TypeError, "expected 2 arguments, or 3 with outputs, got 0"),
        (
            [np.zeros((4, 8)), np.zeros((8, 8), np.float32)],
            TypeError,
            "argument 0 `x0`: expected element type float32, got float64",
        ),
        (
            [np.zeros(4, np.float32), np.zeros((8, 8), np.float32)],
            ValueError,
            "argument 0 `x0`: expected rank 2, got 1",
        ),
        (
            [np.zeros((4, 7), np.float32), np.zeros((8, 8), np.float32)],
            ValueError,
            "argument 0 `x0`: dimension 1: expected 8, got 7",
        ),
    ],
)
def test_inputs_that_do_not_fit_are_named_as_on_the_cpu(
    arrays: list[np.ndarray],
    kind: type[Exception],
    message: str,
    model: CudaExecutable,
    on_cpu: CompiledModel,
) -> None:
    for made in (model, on_cpu):
        with pytest.raises(kind, match=re.escape(message)):
            made(*arrays)


@pytest.mark.parametrize(
    ("function", "nth", "message"),
    [
        ("cuModuleLoadDataEx", 1, r"PTX [01] is rejected"),
        ("cuModuleGetFunction", 2, r"kernel `softmax` \(`k_\w+_0`\)"),
        ("cuStreamCreate", 1, "a stream cannot be created"),
        ("cuMemcpyHtoDAsync_v2", 1, "an input cannot be copied"),
        ("cuMemcpyDtoHAsync_v2", 1, "an output cannot be copied"),
        ("cuLaunchKernelEx", 2, r"kernel `softmax` .*blocks of .*threads, "),
        ("cuStreamSynchronize", 2, r"in one of its kernels \(`matmul`, `softmax`\)"),
        ("cuCtxPushCurrent_v2", 1, "GPU 0 cannot be used"),
        ("cuEventRecord", 1, "a stream cannot be waited for"),
    ],
)
def test_errors_have_the_drivers_words(
    function: str, nth: int, message: str, model: CudaExecutable, stub: Stub
) -> None:
    stub.fail(function, 719, nth)

    with pytest.raises(DeviceError, match=message) as caught:
        model(*inputs(3))

    driver_text = "CUDA_ERROR_LAUNCH_FAILED (719): unspecified launch failure"
    assert f"{function}: {driver_text}" in str(caught.value)
    x, w = inputs(3)
    np.testing.assert_allclose(model(x, w)[0], expected(x, w), rtol=1e-5, atol=1e-6)


def test_the_first_error_is_told(model: CudaExecutable, stub: Stub) -> None:
    stub.fail("cuLaunchKernelEx", 719)
    stub.fail("cuEventRecord", 1)

    with pytest.raises(DeviceError, match="kernel `matmul`"):
        model(*inputs(3))


@pytest.mark.parametrize("then", ["cuModuleUnload", "cuStreamDestroy_v2"])
def test_the_first_error_of_loading_is_told(
    then: str, model: CudaExecutable, stub: Stub
) -> None:
    stub.fail("cuModuleLoadDataEx", 719)
    stub.fail(then, 1)

    with pytest.raises(DeviceError, match=r"PTX \d is rejected"):
        model(*inputs(3))


def test_a_graph_that_cannot_be_launched_is_an_error(
    model: CudaExecutable, stub: Stub
) -> None:
    model(*inputs(3))
    stub.fail("cuGraphLaunch", 719)

    with pytest.raises(
        DeviceError, match="its graph cannot be launched: cuGraphLaunch"
    ):
        model(*inputs(3))


def test_ptx_that_the_driver_refuses_says_why(
    compiled_example: CudaExecutable, stub: Stub
) -> None:
    broken = replace(compiled_example.contents, ptx=(b"junk", b"junk"))

    with pytest.raises(DeviceError, match=r"INVALID_PTX(.|\n)*missing .version"):
        CudaExecutable(broken)(*inputs(3))


def test_no_driver_is_a_clear_error(
    compiled_example: CudaExecutable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_module, "LIBRARY", "libcuda_that_is_not_there.so")

    with pytest.raises(DeviceError, match=r"NVIDIA's driver .* cannot be loaded"):
        CudaExecutable(compiled_example.contents)(*inputs(3))


def test_no_gpu_is_a_clear_error(compiled_example: CudaExecutable, stub: Stub) -> None:
    with pytest.raises(DeviceError, match=r"GPU 3 does not exist: this machine has 1"):
        CudaExecutable(compiled_example.contents).on(3)(*inputs(3))


def test_another_kind_of_gpu_is_a_clear_error(
    compiled_example: CudaExecutable, stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub.device(sm=80)
    monkeypatch.setattr(devices_module, "_device", devices_module.Device)

    with pytest.raises(
        DeviceError, match=r"compiled for cuda:sm_90, GPU 0 \(Stub 0\) is sm_80"
    ):
        CudaExecutable(compiled_example.contents)(*inputs(3))


_X, _Y = '["2*n + 1", "m"]', '["m", "n"]'
_SIZES = f"""
func.func @main(%x: tensor<?x?xf32, #relax.shape<{_X}>>, %y: tensor<?x?xf32, #relax.shape<{_Y}>>)
    -> (tensor<?x?xf32, #relax.shape<{_X}>>, tensor<?x?xf32, #relax.shape<{_Y}>>) {{
  return %x, %y : tensor<?x?xf32, #relax.shape<{_X}>>, tensor<?x?xf32, #relax.shape<{_Y}>>
}}
"""


@pytest.fixture(scope="module")
def of_two_sizes() -> CompiledModel:
    return relax_mlir.compile(IRModule.parse(_SIZES), cache=False)


@given(
    st.lists(
        st.lists(st.integers(0, 5), min_size=1, max_size=3), min_size=2, max_size=2
    )
)
@settings(max_examples=60)
@example([[5, 3], [3, 2]])
def test_sizes_are_bound_as_the_native_runtime_does(
    of_two_sizes: CompiledModel, shapes: list[list[int]]
) -> None:
    def told(call: Callable[[], object]) -> str:
        try:
            call()
        except ValueError as error:
            return str(error)
        return "fits"

    arrays = [np.zeros(shape, np.float32) for shape in shapes]
    binder = SizeBinder(of_two_sizes.signature)

    ours = told(lambda: binder.bind([array.shape for array in arrays]))

    assert ours == told(lambda: of_two_sizes(*arrays))
