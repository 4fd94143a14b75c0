"""The virtual machine calls functions that are compiled for a GPU."""

from pathlib import Path

import numpy as np
import pytest

import relax_mlir as tvm
from relax_mlir import relax
from relax_mlir.errors import CompileError, UnsupportedError
from relax_mlir.relax.vm.build import native_entries
from relax_mlir.relax.vm.executable import VMExecutable
from relax_mlir.runtime.cuda.executable import CudaExecutable
from relax_mlir.script import relax as R  # noqa: N812  as scripts call it
from tests.gpu.stub import TARGET, Emulation, Stub
from tests.test_customize_pipeline import exported


def built(emulation: Emulation) -> VMExecutable:
    """The two layers of the text on customised pipelines."""
    made = tvm.compile(exported(), target=TARGET, cache=False)
    assert isinstance(made, VMExecutable)
    code = made.codes["forward"].executable
    assert isinstance(code, CudaExecutable)
    (source,) = native_entries(exported())
    emulation.learn(code, source)
    return made


def test_a_function_runs_on_the_gpu(emulation: Emulation, stub: Stub) -> None:
    machine = relax.VirtualMachine(built(emulation), tvm.device("cuda", 0))
    rng = np.random.default_rng(0)
    shapes = ((1, 784), (256, 784), (256,), (10, 256))
    x, w, b, v = (rng.standard_normal(s).astype(np.float32) for s in shapes)

    y = machine["forward"](x, w, b, v)

    assert stub.count("cuLaunchKernel") > 0
    expected = np.maximum(x @ w.T + b, 0) @ v.T
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-4, atol=1e-2)


def test_the_other_device_is_refused(emulation: Emulation) -> None:
    made = built(emulation)
    with pytest.raises(CompileError, match="what runs there is compiled for `cuda`"):
        relax.VirtualMachine(made, tvm.cpu())
    other = tvm.compile(exported(), target="llvm", cache=False)
    with pytest.raises(CompileError, match="what runs there is compiled for `cpu`"):
        relax.VirtualMachine(other, tvm.device("cuda", 0))


def test_functions_on_a_gpu_are_not_saved_together(
    emulation: Emulation, tmp_path: Path
) -> None:
    with pytest.raises(UnsupportedError, match="`forward` is compiled for a GPU"):
        built(emulation).export_library(tmp_path / "layers.so")


@R.function(pure=False)
def printed(x: R.Tensor((3,), "float32")):  # pyright: ignore[reportInvalidTypeForm]
    R.print(x, format="{}")
    return x


def test_parts_in_python_stay_on_the_cpu() -> None:
    module = tvm.IRModule({"main": printed})

    with pytest.raises(UnsupportedError, match="parts of `main` run in Python"):
        tvm.compile(module, target=TARGET, cache=False)
