"""Files of modules that are partitioned between host interpreter and native code."""

import platform

import numpy as np
import pytest

import relax_mlir
from relax_mlir.errors import CompileError
from relax_mlir.tvm.relax.vm import build
from relax_mlir.tvm.script import ir as I
from relax_mlir.tvm.script import relax as R
from tests.runtime.host.test_vm_executable import numbers

# ruff: noqa: N805, N812, RET504  scripts are not plain Python


def test_a_file_for_another_machine_is_not_damaged(tmp_path) -> None:
    @I.ir_module
    class Module:
        @R.function
        def plain(x: R.Tensor((2,), "float32")):
            return R.exp(x)

        @R.function
        def other(x: R.Tensor((2,), "float32")):
            return R.negative(x)

    path = tmp_path / "module.rxm"
    is_arm = platform.machine() in ("arm64", "aarch64")
    build(Module, target="cpu:znver3" if is_arm else "cpu:apple-m1").export_library(
        path
    )

    with pytest.raises(CompileError, match=r"compiled for .*, this machine is"):
        relax_mlir.load(path)


def test_constants_of_a_file_are_arguments_of_machine_code(tmp_path) -> None:
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((2,), "float32")):
            c = R.const([2.0, 3.0], "float32")
            a = R.call_pure_packed(
                "tests.vm.twice", x, sinfo_args=R.Tensor((2,), "float32")
            )
            b = R.multiply(a, c)
            return b

    path, x = tmp_path / "module.rxm", numbers(2)
    build(Module).export_library(path)

    result = relax_mlir.load(path)(x)

    np.testing.assert_allclose(result.numpy(), 2 * x * [2, 3], rtol=1e-6)
