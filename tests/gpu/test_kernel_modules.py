"""Kernel modules (compiled PrimFuncs) on GPUs, called with host and device arrays."""

from pathlib import Path

import numpy as np
import pytest

import relax_mlir
from relax_mlir import tvm
from relax_mlir.errors import CompileError, PassError, RunError
from relax_mlir.runtime.cuda.arrays import DeviceArray
from relax_mlir.runtime.cuda.devices import device
from relax_mlir.runtime.cuda.gpu_array import GPUArray
from relax_mlir.tvm import dlight as dl
from relax_mlir.tvm import te
from relax_mlir.tvm.relax.vm import KernelModule
from relax_mlir.tvm.script import tir as T  # noqa: N812  as scripts call it
from tests.gpu.example import Dlpack, put, shifted
from tests.gpu.stub import TARGET, Emulation, Stub
from tests.runtime.host.test_kernels import scale

# ruff: noqa: N803  scripts are not plain Python
# pyright: reportInvalidTypeForm=false, reportGeneralTypeIssues=false


@T.prim_func
def add_up(A: T.Buffer((8, 16), "float32"), B: T.Buffer((8,), "float32")):
    for i in T.thread_binding(8, thread="blockIdx.x"):
        for _j in T.thread_binding(1, thread="threadIdx.x"):
            for k in range(16):
                B[i] = B[i] + A[i, k]


X = np.arange(12, dtype="float32").reshape(4, 3)


def compiled(program: object) -> KernelModule:
    made = tvm.compile(program, target=TARGET, cache=False)
    assert isinstance(made, KernelModule)
    return made


@pytest.fixture
def kernel(emulation: Emulation) -> KernelModule:
    return compiled(scale)


def test_arrays_of_the_host_are_copied_there_and_back(
    kernel: KernelModule, stub: Stub
) -> None:
    y = np.zeros((4, 3), "float32")
    kernel(X, 2.5, -3, y)
    np.testing.assert_allclose(y, X * 2.5 - 3)

    given, made = tvm.nd.array(X), tvm.nd.array(y)
    kernel["scale"](given, 1.0, 0, made)
    np.testing.assert_array_equal(made.numpy(), X)
    assert len(stub.launched) == 2


def test_arrays_of_the_gpu_are_used_there(kernel: KernelModule, stub: Stub) -> None:
    given = tvm.nd.array(X, tvm.cuda(0))
    made = tvm.nd.empty((4, 3), "float32", tvm.cuda(0))
    copies = stub.count("cuMemcpyDtoHAsync_v2")

    kernel(given, 2.0, 1, made)
    kernel(made, 2.0, 1, made_again := tvm.nd.empty((4, 3), device=tvm.cuda(0)))

    assert stub.count("cuMemcpyDtoHAsync_v2") == copies
    np.testing.assert_array_equal(made.numpy(), 2 * X + 1)
    np.testing.assert_array_equal(made_again.numpy(), 4 * X + 3)


def test_arrays_of_others_are_used_where_they_are(kernel: KernelModule) -> None:
    given = Dlpack(DeviceArray.of(X, device(0)))
    made = DeviceArray.of(np.zeros_like(X), device(0))

    kernel(given, 2.0, 1, Dlpack(made))
    np.testing.assert_array_equal(made.numpy(), 2 * X + 1)
    kernel(given, 3.0, 1, made)
    np.testing.assert_array_equal(made.numpy(), 3 * X + 1)


def test_what_is_written_must_be_memory_of_its_own(kernel: KernelModule) -> None:
    array = tvm.nd.array(X, tvm.cuda(0))
    with pytest.raises(RunError, match="argument 3 `y`: expected memory of its own"):
        kernel(array, 1.0, 0, array)
    wide = np.zeros((4, 6), "float32")
    with pytest.raises(RunError, match="C-contiguous"):
        kernel(array, 1.0, 0, wide[:, ::2])
    with pytest.raises(TypeError, match="expected an array to write to, got str"):
        kernel(array, 1.0, 0, "y")
    np.testing.assert_array_equal(array.numpy(), X)


def test_programs_that_are_bound_to_threads(emulation: Emulation) -> None:
    made = compiled(add_up)
    a = np.arange(128, dtype="float32").reshape(8, 16)
    b = tvm.nd.array(np.ones(8, "float32"), tvm.cuda(0))

    made(a, b)

    np.testing.assert_array_equal(b.numpy(), a.sum(1) + 1)


def test_a_program_that_a_rule_has_scheduled(emulation: Emulation) -> None:
    a = te.placeholder((32, 48), name="a")
    b = te.placeholder((48, 64), name="b")
    k = te.reduce_axis((0, 48), name="k")
    c = te.compute((32, 64), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
    program = te.create_prim_func([a, b, c])
    module = tvm.IRModule({"main": program})
    with tvm.target.Target("nvidia/geforce-rtx-3070"):
        module = dl.ApplyDefaultSchedule(dl.gpu.Matmul())(module)
    made = tvm.build(module, target="cuda")
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(s).astype("float32") for s in ((32, 48), (48, 64)))
    given = [tvm.nd.array(array, tvm.cuda()) for array in (x, y)]
    z = tvm.nd.empty((32, 64), device=tvm.cuda())

    made["main"](*given, z)

    np.testing.assert_allclose(z.numpy(), x @ y, rtol=1e-4, atol=1e-4)


def test_calls_are_timed_until_they_are_done(kernel: KernelModule, stub: Stub) -> None:
    given = tvm.nd.array(X, tvm.cuda(0))
    made = tvm.nd.empty((4, 3), "float32", tvm.cuda(0))

    timing = kernel.time_evaluator("scale", tvm.cuda(0), number=5, repeat=2)(
        given, 2.0, 1, made
    )

    assert len(stub.launched) == 11  # one comes before
    assert len(timing.results) == 2
    assert timing.min > 0


def test_programs_are_written_to_a_file(kernel: KernelModule, tmp_path: Path) -> None:
    path = tmp_path / "kernels.rxm"
    kernel.export_library(path)

    loaded = tvm.runtime.load_module(path)

    y = np.zeros((4, 3), "float32")
    loaded["scale"](X, 2.0, 1, y)
    np.testing.assert_array_equal(y, 2 * X + 1)


@T.prim_func
def first(A: T.Buffer((8,), "float32"), n: T.int32, B: T.Buffer((8,), "float32")):
    for i in range(n):
        with T.block("first"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]


@T.prim_func
def first_half(A: T.Buffer((8,), "float32"), n: T.int32, B: T.Buffer((8,), "float32")):
    for i in range(n // 2):
        with T.block("first"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]


@pytest.mark.parametrize("program", [first, first_half])
def test_a_number_of_steps_is_a_size_of_a_buffer(program: object) -> None:
    with pytest.raises(PassError, match=r"`first.*`: `n` is the trip count of a loop"):
        tvm.compile(program, target=TARGET, cache=False)


@T.prim_func
def one(A: T.Buffer((8,), "float32"), n: T.int32, B: T.Buffer((8,), "float32")):
    B[0] = A[0] + T.cast(n, "float32")


@T.prim_func
def if_big(A: T.Buffer((8,), "float32"), n: T.int64, B: T.Buffer((8,), "float32")):
    if n > T.int64(3):
        for i in range(8):
            with T.block("copied"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi]


@T.prim_func
def chosen(A: T.Buffer((8,), "float32"), b: T.bool, B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("chosen"):
            vi = T.axis.spatial(8, i)
            B[vi] = T.if_then_else(b, A[vi], T.float32(-1))


_A, _NONE = np.arange(8, dtype="float32"), np.zeros(8, "float32")


@pytest.mark.parametrize("target", ["llvm", TARGET])
@pytest.mark.parametrize(
    ("program", "number", "right"),
    [
        (one, 5, np.r_[np.float32(5), _NONE[1:]]),
        (if_big, 4, _A),
        (if_big, 3, _NONE),
        (chosen, True, _A),
        (chosen, False, _NONE - 1),
    ],
)
def test_numbers_are_read_around_all_loops(
    emulation: Emulation,
    monkeypatch: pytest.MonkeyPatch,
    target: str,
    program: object,
    number: int,
    right: np.ndarray,
) -> None:
    y = _NONE.copy()

    tvm.compile(program, target=target, cache=False)(_A, number, y)

    np.testing.assert_array_equal(y, right)


def test_numbers_that_do_not_fit(kernel: KernelModule) -> None:
    y = np.zeros((4, 3), "float32")

    with pytest.raises(TypeError, match=r"`count`: expected an integer, got 2.7"):
        kernel(X, 2.0, 2.7, y)
    with pytest.raises(
        ValueError, match="`count`: expected a number of int32, got 1099"
    ):
        kernel(X, 2.0, 2**40, y)
    assert not y.any()


# Arrays.


def test_arrays_go_to_the_gpu_and_back(stub: Stub) -> None:
    where = tvm.device("cuda", 0)
    array = tvm.nd.array(X, where)

    assert isinstance(array, GPUArray)
    assert (array.shape, array.dtype, array.ndim) == ((4, 3), "float32", 2)
    assert (array.device, array.ctx, len(array)) == (where, where, 4)
    np.testing.assert_array_equal(array.numpy(), X)
    np.testing.assert_array_equal(np.asarray(array), X)
    np.testing.assert_array_equal(array[1:, 0], X[1:, 0])
    there = tvm.nd.array(X).copyto(where)
    assert isinstance(there, GPUArray)
    here = there.copyto(tvm.cpu())
    assert here.device == tvm.cpu()
    np.testing.assert_array_equal(here.numpy(), X)
    assert "cuda(0)" in repr(array)


def test_arrays_on_the_gpu_are_written_to(stub: Stub) -> None:
    array = tvm.nd.array(X, tvm.cuda())

    array[1:, 0] = 7
    changed = X.copy()
    changed[1:, 0] = 7
    np.testing.assert_array_equal(array.numpy(), changed)
    array.copyfrom(X + 1)
    np.testing.assert_array_equal(array.numpy(), X + 1)
    tvm.nd.array(X + 2).copyto(array)
    np.testing.assert_array_equal(array.numpy(), X + 2)
    with pytest.raises(ValueError, match=r"expected an array of shape \(4, 3\)"):
        array.copyfrom(X[0])
    with pytest.raises(ValueError, match="read-only"):
        array.on_host()[0] = 1


def test_arrays_share_memory_with_those_of_others(stub: Stub) -> None:
    theirs = DeviceArray.of(X, device(0))

    array = tvm.nd.from_dlpack(Dlpack(theirs))
    assert isinstance(array, GPUArray)
    assert array.data.address == theirs.address
    assert array.shares_memory(tvm.nd.from_dlpack(theirs))
    assert not array.shares_memory(tvm.nd.array(X))
    array[0] = 5
    np.testing.assert_array_equal(theirs.numpy()[0], [5, 5, 5])
    used = stub.used_bytes
    del theirs
    assert stub.used_bytes == used
    np.testing.assert_array_equal(array[0], [5, 5, 5])
    del array
    assert stub.used_bytes < used


def test_copies_are_made_before_others_go_on(stub: Stub) -> None:
    theirs, stream = shifted(X), device(0).make("cuStreamCreate", "test")

    array = tvm.nd.from_dlpack(Dlpack(theirs))
    put(np.zeros_like(X), theirs, stream)
    stub.run(stream)

    np.testing.assert_array_equal(array.numpy(), X)


def test_devices_are_waited_for(stub: Stub) -> None:
    tvm.cuda(0).sync()

    assert stub.count("cuCtxSynchronize") == 1
    stub.fail("cuCtxSynchronize", 719)
    with pytest.raises(relax_mlir.RelaxError, match="GPU 0 fails"):
        tvm.cuda(0).sync()


def test_a_gpu_that_is_not_there() -> None:
    with pytest.raises(CompileError, match=r"device `cuda\(7\)`: expected a device"):
        tvm.nd.array(X, tvm.cuda(7))
    with pytest.raises(CompileError, match=r"device `cuda\(7\)`: expected a device"):
        tvm.nd.empty((2,), device=tvm.cuda(7))
