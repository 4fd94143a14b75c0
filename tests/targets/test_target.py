"""Kinds of targets besides ``cpu`` and ``cuda``."""

import sys
from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest

import relax_mlir
from relax_mlir import IRModule
from relax_mlir.compiler.driver import target_of
from relax_mlir.errors import PipelineError, UnsupportedError
from relax_mlir.targets import cpu, target, target_device

_TEXT = """
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %y = "relax.nn_relu"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}
"""


@pytest.fixture
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Registers the kind ``plain``: CPUs, with the minimal pipeline."""
    kind = ModuleType("relax_mlir.targets.plain")
    vars(kind).update(
        target=lambda model, host: replace(cpu.target(model, host), kind="plain"),
        stages=lambda machine, _: cpu.plain_stages(machine),
    )
    monkeypatch.setitem(sys.modules, kind.__name__, kind)
    monkeypatch.setattr(target, "_KINDS", {**target._KINDS, "plain": "cpu"})


@pytest.mark.parametrize(
    ("text", "device"),
    [
        ("cpu:znver3", "cpu"),
        ("llvm -mcpu=znver3", "cpu"),
        ("cuda:sm_90", "cuda"),
        ("plain", "cpu"),
        ("tpu:v5", "tpu"),
    ],
)
@pytest.mark.usefixtures("_plain")
def test_the_device_of_a_target_needs_no_hardware(text: str, device: str) -> None:
    assert target_device(text) == device


@pytest.mark.usefixtures("_plain")
def test_a_kind_that_runs_on_cpus_is_verified_and_executed() -> None:
    module = IRModule.parse(_TEXT)
    x = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)

    compiled = relax_mlir.compile(module, target="plain", verify="each-pass")

    np.testing.assert_array_equal(compiled(x)[0], np.maximum(x, 0))
    assert target_of("plain").device == "cpu"


@pytest.mark.parametrize("name", ["target", "stages"])
@pytest.mark.usefixtures("_plain")
def test_a_kind_that_lacks_a_function_is_refused_by_its_name(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(sys.modules["relax_mlir.targets.plain"], name)

    with pytest.raises(PipelineError, match=f"targets.plain: .* called `{name}`"):
        relax_mlir.compile(IRModule.parse(_TEXT), target="plain")


def test_a_gpu_is_not_verified() -> None:
    with pytest.raises(UnsupportedError, match="`verify`: expected a target that this"):
        relax_mlir.compile(
            IRModule.parse(_TEXT), target="cuda:sm_90", verify="each-pass"
        )


@pytest.mark.usefixtures("_plain")
def test_an_unknown_model_of_a_kind_is_refused() -> None:
    with pytest.raises(target.TargetError, match="unknown target `plain:nosuch`"):
        target_of("plain:nosuch")


@pytest.mark.parametrize(
    ("processor", "unit"),
    [
        ("x86-64-v2", "vector-bits=128"),
        ("x86-64-v3", "vector-bits=256"),
        ("x86-64-v4", "vector-bits=512"),
        ("skylake-avx512", "vector-bits=512"),
        ("cascadelake", "vector-bits=512 int8-dot=true"),
        ("alderlake", "vector-bits=256 int8-dot=true"),
        ("znver4", "vector-bits=512 int8-dot=true bf16-dot=true"),
        ("sapphirerapids", "vector-bits=512 int8-dot=true amx=true"),
        ("neoverse-n1", "vector-bits=128"),
    ],
)
def test_vector_features_are_those_of_the_processor(processor: str, unit: str) -> None:
    assert str(target_of(f"cpu:{processor}").unit) == unit
