"""What a module is compiled as: a model, kernels, or functions of the virtual machine."""

import pytest

from relax_mlir import IRModule, import_onnx, lower
from relax_mlir.compiler.module_kind import ModuleKind, kind_of, module_of
from relax_mlir.tvm import relax
from tests.compiler.test_options import hosted, kernels, model, primfunc

_LEVELS = ("relax", "tir", "planned", "linalg", "loops", "llvm")


@pytest.mark.parametrize("level", _LEVELS)
def test_a_model_stays_one_at_every_level(level: str) -> None:
    module = import_onnx(model())
    assert kind_of(module) is ModuleKind.MODEL

    assert kind_of(lower(module, to=level)) is ModuleKind.MODEL


def test_primfuncs_alone_are_kernels() -> None:
    assert kind_of(kernels()) is ModuleKind.KERNELS
    assert kind_of(module_of(primfunc())) is ModuleKind.KERNELS


def test_declarations_are_no_graphs() -> None:
    module = kernels()
    text = str(module).rstrip().removesuffix("}")
    declared = f"{text}  func.func private @erf(f32) -> f32\n}}\n"

    assert kind_of(IRModule.parse(declared)) is ModuleKind.KERNELS


def test_other_modules_are_scripts() -> None:
    script = hosted()
    assert kind_of(script) is ModuleKind.SCRIPT
    assert kind_of(module_of(script["main"])) is ModuleKind.SCRIPT

    graph = str(import_onnx(model()))
    assert kind_of(IRModule.parse(graph)) is ModuleKind.MODEL
    renamed = IRModule.parse(graph.replace("@main", "@other"))
    assert kind_of(renamed) is ModuleKind.SCRIPT


def test_both_functions_and_primfuncs_are_a_script() -> None:
    module = hosted()
    module.update_func(relax.GlobalVar("double"), primfunc())

    assert kind_of(module) is ModuleKind.SCRIPT


def test_nothing_is_a_model_without_main() -> None:
    assert kind_of(IRModule({})) is ModuleKind.MODEL
