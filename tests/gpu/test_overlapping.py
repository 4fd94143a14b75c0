"""Programmatic dependent launch on Hopper: kernels start early, and wait."""

import re
from dataclasses import replace

import numpy as np
import pytest

from relax_mlir import IRModule, import_onnx
from relax_mlir.errors import EmulationError
from relax_mlir.runtime.cuda.executable import CudaExecutable
from tests.frontends.onnx.differential import parse as parse_model
from tests.gpu.emulated import compiled
from tests.gpu.example import TEXT, expected, inputs, on_gpu
from tests.gpu.library_calls import rules_of
from tests.gpu.stub import Emulation, Stub
from tests.gpu.test_gemm import layer
from tests.ptx_emulator import emulate
from tests.ptx_emulator.launch import launch
from tests.ptx_emulator.memory import DeviceMemory
from tests.ptx_emulator.text import parse
from tests.schedules.low_precision import drawn

_WAIT = b"griddepcontrol.wait;"
_ENTRIES = re.compile(rb"\.visible \.entry .*?\n}", re.DOTALL)


@pytest.mark.parametrize("precision", ["f32", "f16"])
def test_all_kernels_let_the_next_begin_and_wait(precision: str) -> None:
    module = layer(128, 64, 128, is_transposed=False)
    model = compiled(module, "cuda:sm_90", precision=precision)

    kernels = [k for ptx in model.contents.ptx for k in _ENTRIES.findall(ptx)]
    assert kernels
    for kernel in kernels:
        first = re.findall(
            rb"griddepcontrol\.\w+;|(?:ld|st)\.global|cp\.async(?!\.bulk\.prefetch)",
            kernel,
        )
        assert first[:2] == [b"griddepcontrol.launch_dependents;", _WAIT]
        assert b".nc." not in kernel


def test_kernels_of_earlier_devices_do_not() -> None:
    model = compiled(IRModule.parse(TEXT), "cuda:sm_86")

    assert not any(b"griddepcontrol" in ptx for ptx in model.contents.ptx)


def test_a_kernel_that_does_not_wait_is_seen() -> None:
    x, w = inputs(6)
    contents = compiled(IRModule.parse(TEXT), "cuda:sm_90").contents
    (y,) = emulate(CudaExecutable(contents), x, w)
    np.testing.assert_allclose(y, expected(x, w), rtol=1e-5)

    for number in range(len(contents.ptx)):
        ptx = list(contents.ptx)
        ptx[number] = ptx[number].replace(_WAIT, b"")
        with pytest.raises(EmulationError, match="race: a thread has not waited"):
            emulate(CudaExecutable(replace(contents, ptx=tuple(ptx))), x, w)


_KERNEL = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 k_param_0)
{
	.reg .pred 	%p<2>;
	.reg .b32 	%r<4>;
	.reg .b64 	%rd<2>;
	ld.param.b64 	%rd1, [k_param_0];
	mov.u32 	%r1, %tid.x;
	setp.lt.u32 	%p1, %r1, 32;
"""


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("prefetch.global.L2 [%rd1]; griddepcontrol.wait; ld.global.b32 %r2, [%rd1];", ""),
        ("prefetch.global.L2 [%rd1+256]; griddepcontrol.wait;", "outside of all arrays"),
        ("ld.global.b32 %r2, [%rd1]; griddepcontrol.wait;", "has not waited"),
        ("st.global.b32 [%rd1], 0; griddepcontrol.wait;", "has not waited"),
        ("griddepcontrol.wait; ld.global.nc.b32 %r2, [%rd1];", "may write this constant memory"),
        ("@%p1 griddepcontrol.wait; ld.global.b32 %r2, [%rd1];", "has not waited"),
        ("@%p1 griddepcontrol.wait; @%p1 ld.global.b32 %r2, [%rd1];", "never waited"),
        ("griddepcontrol.launch_dependents;", "never waited"),
    ],
)  # fmt: skip
def test_early_kernels_wait_before_memory_accesses(body: str, problem: str) -> None:
    program = parse(_KERNEL + body + "\nret;\n}\n")

    def run(*, is_early: bool) -> None:
        device = DeviceMemory()
        place = device.place(np.zeros(64, np.float32)).to_bytes(8, "little")
        sizes = (1, 1, 1), (64, 1, 1), 0
        launch(program, "k", *sizes, place, device, is_early=is_early)

    if not problem:
        run(is_early=True)
        return
    with pytest.raises(EmulationError, match=problem):
        run(is_early=True)
    # All threads store at once; outside is outside at any rate.
    if "st." not in body and "prefetch" not in body:
        run(is_early=False)


def test_kernels_behind_kernels_begin_early(model: CudaExecutable, stub: Stub) -> None:
    x, w = inputs(6)
    arrays, (target,) = on_gpu(x, w), on_gpu(np.zeros((6, 8), np.float32))

    def started() -> tuple[int, int]:
        before = stub.count("cuLaunchKernelEx"), stub.overlapping
        model(*arrays, out=[target])
        np.testing.assert_allclose(target.numpy(), expected(x, w), rtol=1e-5)
        kernels = stub.count("cuLaunchKernelEx") - before[0]
        return kernels, stub.overlapping - before[1]

    assert started() == (3, 2)  # all but the first
    assert started() == (3, 2)  # as a graph
    assert started() == (0, 0)


def test_kernels_that_are_measured_run_alone(model: CudaExecutable, stub: Stub) -> None:
    model.profile(*inputs(6), calls=1)

    # A call that is not measured, and one that is.
    assert stub.count("cuLaunchKernelEx") == 6
    assert stub.overlapping == 2


def test_drivers_that_cannot_are_not_asked_to(
    model: CudaExecutable, stub: Stub
) -> None:
    stub.driver_version(12020)
    x, w = inputs(6)

    (y,) = model(x, w)

    np.testing.assert_allclose(y, expected(x, w), rtol=1e-5, atol=1e-6)
    assert stub.count("cuLaunchKernelEx") == 3
    assert stub.overlapping == 0


_TWO = """
func.func @main(%x: tensor<?x8xf32, #relax.shape<["n", "8"]>>, %y: tensor<8x8xf32>)
    -> (tensor<?x8xf32, #relax.shape<["n", "8"]>>, tensor<8x8xf32>) {
  %u = "relax.nn_softmax"(%x) {axis = -1 : i64}
    : (tensor<?x8xf32, #relax.shape<["n", "8"]>>) -> tensor<?x8xf32, #relax.shape<["n", "8"]>>
  %v = "relax.nn_log_softmax"(%y) {axis = -1 : i64} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %u, %v : tensor<?x8xf32, #relax.shape<["n", "8"]>>, tensor<8x8xf32>
}
"""


def test_the_first_kernel_of_a_call_begins_when_all_has_ended(
    emulation: Emulation, stub: Stub
) -> None:
    model = compiled(IRModule.parse(_TWO), "cuda:sm_90")
    y = inputs(5)[1]
    expected_v = y - np.log(np.exp(y.astype(np.float64)).sum(-1, keepdims=True))

    # Without rows the first one is left out.
    for rows, early in ((3, 1), (0, 0), (3, 1)):
        before = stub.overlapping
        u, v = model(np.ones((rows, 8), np.float32), y, graph=False)
        np.testing.assert_allclose(u, np.full((rows, 8), 0.125), rtol=1e-5)
        np.testing.assert_allclose(v, expected_v, rtol=1e-5, atol=1e-6)
        assert stub.overlapping - before == early


@pytest.mark.parametrize(("heads", "rows"), [(8, 3), (3, 8)])
def test_prefetched_data_is_read(heads: int, rows: int) -> None:
    model = parse_model(
        "g (float[h, 1, 64] x, float[h, n, 64] w) => (float[h, 1, n] y) "
        "{ t = Transpose <perm = [0, 2, 1]> (w) y = MatMul (x, t) }"
    )
    made = compiled(import_onnx(model), "cuda:sm_90")
    x, w = drawn(heads, 1, 64), drawn(heads, rows, 64)

    (y,) = emulate(made, x, w)

    np.testing.assert_allclose(y, x @ w.swapaxes(1, 2), atol=1e-5, rtol=1e-5)
    assert rules_of(made) == ["Gemv"]
    assert any(b"prefetch.global.L2" in ptx for ptx in made.contents.ptx)
