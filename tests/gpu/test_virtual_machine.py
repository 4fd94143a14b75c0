"""The virtual machine with functions that are compiled for a GPU."""

from pathlib import Path

import numpy as np
import pytest

import relax_mlir
from relax_mlir import tvm
from relax_mlir.errors import CompileError
from relax_mlir.runtime.cuda.executable import CudaExecutable
from relax_mlir.runtime.host.vm_executable import VMExecutable
from relax_mlir.tvm import relax
from relax_mlir.tvm.script import ir as I  # noqa: N812  as scripts call it
from relax_mlir.tvm.script import relax as R  # noqa: N812  as scripts call it
from relax_mlir.tvm.script import tir as T  # noqa: N812  as scripts call it
from tests.docs.test_customize_pipeline import exported
from tests.gpu.stub import TARGET, Emulation, Stub

# ruff: noqa: N805, N806  scripts are not plain Python
# pyright: reportInvalidTypeForm=false, reportIndexIssue=false


def built(emulation: Emulation) -> VMExecutable:
    """The two-layer model of the tutorial on customized pipelines."""
    made = tvm.compile(exported(), target=TARGET, cache=False)
    assert isinstance(made, VMExecutable)
    code = made.codes["forward"].executable
    assert isinstance(code, CudaExecutable)
    return made


def drawn(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def test_a_function_runs_on_the_gpu(emulation: Emulation, stub: Stub) -> None:
    machine = relax.VirtualMachine(built(emulation), tvm.device("cuda", 0))
    where = tvm.device("cuda", 0)
    x, w, b, v = drawn((1, 784), (256, 784), (256,), (10, 256))
    weights = [tvm.nd.array(array, where) for array in (w, b, v)]

    y = machine["forward"](tvm.nd.array(x, where), *weights)

    assert stub.count("cuLaunchKernelEx") > 0
    assert y.device == where
    expected = np.maximum(x @ w.T + b, 0) @ v.T
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-4, atol=1e-2)


def test_the_other_device_is_refused(emulation: Emulation) -> None:
    made = built(emulation)
    with pytest.raises(
        CompileError, match=r"expected `cuda`, for which .* `cuda\(0\)`"
    ):
        relax.VirtualMachine(made, tvm.cpu())
    other = tvm.compile(exported(), target="llvm", cache=False)
    with pytest.raises(CompileError, match=r"expected `cpu`, for which .* `cpu\(0\)`"):
        relax.VirtualMachine(other, tvm.device("cuda", 0))


def test_functions_are_written_to_a_file_together(
    emulation: Emulation, tmp_path: Path
) -> None:
    path = tmp_path / "layers.so"
    built(emulation).export_library(path)

    machine = relax.VirtualMachine(relax_mlir.load(path), tvm.cuda())

    x, w, b, v = drawn((1, 784), (256, 784), (256,), (10, 256))
    y = machine["forward"](x, w, b, v)
    expected = np.maximum(x @ w.T + b, 0) @ v.T
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-4, atol=1e-2)


# What runs around machine code.


@I.ir_module
class Mixed:
    """A module with machine code, a branch, a Python function, a PrimFunc, symbolic shapes."""

    @T.prim_func
    def doubled(a: T.handle, b: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n,), "float32")
        B = T.match_buffer(b, (n,), "float32")
        for i in range(n):
            with T.block("doubled"):
                vi = T.axis.spatial(n, i)
                B[vi] = A[vi] * T.float32(2)

    @R.function(pure=False)
    def main(x: R.Tensor(("n",), "float32"), big: R.Tensor((), "bool")) -> R.Tensor(
        None, "float32", ndim=1
    ):
        n = T.int64()
        cls = Mixed
        y = R.exp(R.multiply(x, x))
        R.call_packed("test_gpu.see", y, sinfo_args=R.Tuple)
        z = R.call_dps_packed("test_gpu.add", (x, y), R.Tensor((n,), "float32"))
        if big:
            t = R.call_tir(cls.doubled, (z,), R.Tensor((n,), "float32"))
            w: R.Tensor(None, "float32", ndim=1) = R.call_pure_packed(
                "test_gpu.positive", t, sinfo_args=R.Tensor(None, "float32", ndim=1)
            )
        else:
            u = R.negative(z)
            w: R.Tensor(None, "float32", ndim=1) = u
        return w


_SEEN: list[np.ndarray] = []


@tvm.register_func("test_gpu.see", override=True)
def _see(array: tvm.nd.NDArray) -> None:
    assert array.device.type == "cuda"
    _SEEN.append(array.numpy())


@tvm.register_func("test_gpu.add", override=True)
def _add(a: tvm.nd.NDArray, b: tvm.nd.NDArray, c: tvm.nd.NDArray) -> None:
    c[:] = a.numpy() + b.numpy()


@tvm.register_func("test_gpu.positive", override=True)
def _positive(array: tvm.nd.NDArray) -> tvm.nd.NDArray:
    found = array.numpy()
    return tvm.nd.array(found[found > 0])


def test_python_runs_around_machine_code(
    emulation: Emulation, tmp_path: Path, stub: Stub
) -> None:
    path = tmp_path / "mixed.so"
    made = tvm.compile(Mixed, target=TARGET, cache=False)
    assert isinstance(made, VMExecutable)
    made.export_library(path)
    machine = relax.VirtualMachine(relax_mlir.load(path), tvm.cuda())
    (x,) = drawn((9,))
    z = np.exp(x * x) + x
    _SEEN.clear()

    for given in (x, tvm.nd.array(x, tvm.cuda())):
        found = machine["main"](given, tvm.nd.array(np.array(True)))
        np.testing.assert_allclose(found.numpy(), 2 * z[z > 0], rtol=1e-5)
        found = machine["main"](given, np.array(False))
        np.testing.assert_allclose(found.numpy(), -z, rtol=1e-5)

    assert len(_SEEN) == 4
    np.testing.assert_allclose(_SEEN[-1], np.exp(x * x), rtol=1e-5)
    assert len(set(stub.launched)) == 3  # of them `doubled` and what is around


def test_all_of_it_runs_on_another_gpu(emulation: Emulation, stub: Stub) -> None:
    stub.device(count=2)
    made = tvm.compile(Mixed, target=TARGET, cache=False)
    machine = relax.VirtualMachine(made, tvm.cuda(1))
    (x,) = drawn((9,))
    z = np.exp(x * x) + x

    for given in (x, tvm.nd.array(x, tvm.cuda(1))):
        found = machine["main"](given, tvm.nd.array(np.array(True)))
        np.testing.assert_allclose(found.numpy(), 2 * z[z > 0], rtol=1e-5)
        found = machine["main"](given, np.array(False))
        assert found.device == tvm.cuda(1)
        np.testing.assert_allclose(found.numpy(), -z, rtol=1e-5)
