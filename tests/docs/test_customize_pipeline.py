"""What the text on customised pipelines does beyond the CPU; later work turns these on."""

import pytest

from relax_mlir import tvm
from relax_mlir.errors import CompileError
from relax_mlir.tvm import relax
from relax_mlir.tvm.relax.frontend import nn


class Model(nn.Module):
    """Two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(784, 256)
        self.relu1 = nn.ReLU()
        self.fc2 = nn.Linear(256, 10, bias=False)

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        return self.fc2(self.relu1(self.fc1(x)))


def exported() -> tvm.IRModule:
    """The model as a module."""
    inputs = {"x": nn.spec.Tensor((1, 784), "float32")}
    mod, _ = Model().export_tvm({"forward": inputs})
    return mod


def test_a_layer_is_given_to_cublas() -> None:
    assert tvm.get_global_func("relax.ext.cublas", True)
    name = "cublas.matmul_transposed_bias_relu"
    patterns = [relax.backend.get_pattern(name)]
    fuse = relax.transform.FuseOpsByPattern(patterns, annotate_codegen=True)
    mod = relax.transform.RunCodegen()(fuse(exported()))
    called = "fused_relax_permute_dims_relax_matmul_relax_add_relax_nn_relu_cublas"
    text = mod.script()
    assert f'I.module_attrs({{"external_mods": [["{called}"]]}})' in text
    assert f'R.call_dps_packed("{called}", (fc1_weight, x, fc1_bias), ' in text
    assert text.count("R.matmul(") == 1  # of the second layer


def test_the_rest_is_tuned(tmp_path: object) -> None:
    legal = relax.transform.LegalizeOps()(exported())
    tune = relax.transform.MetaScheduleTuneTIR(work_dir=tmp_path, max_trials_global=2)
    relax.transform.MetaScheduleApplyDatabase(tmp_path)(tune(legal))


def test_rules_schedule_all_programs() -> None:
    rules = tvm.dlight.gpu
    schedule = tvm.dlight.ApplyDefaultSchedule(rules.GEMV(), rules.Fallback())
    mod = schedule(relax.transform.LegalizeOps()(exported()))
    assert "threadIdx.x" in mod.script()


def test_the_machine_on_a_gpu_needs_one() -> None:
    executable = tvm.compile(exported(), target="cuda:sm_90")
    if tvm.device("cuda", 0).exist:
        pytest.skip("this machine has a GPU: see tests/gpu/test_virtual_machine.py")
    with pytest.raises(CompileError, match=r"device `cuda\(0\)`: expected a device of"):
        relax.VirtualMachine(executable, tvm.device("cuda", 0))
    with pytest.raises(CompileError, match="expected `cuda`, for which"):
        relax.VirtualMachine(executable, tvm.cpu())
