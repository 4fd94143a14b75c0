"""Classification of what is compiled: a model, kernels, or a script."""

from enum import Enum
from typing import Any

from mlir import ir

from relax_mlir.compiler.levels import level_of
from relax_mlir.frontends.onnx import import_onnx
from relax_mlir.ir import function_attributes
from relax_mlir.ir.module import IRModule
from relax_mlir.objects.function import BaseFunc
from relax_mlir.passes.relax.normalize import is_script

__all__ = ["ModuleKind", "kind_of", "module_of"]


class ModuleKind(Enum):
    """The kinds of modules, which are compiled in different ways."""

    MODEL = "one graph `main` of tensors, or what it is lowered to"
    KERNELS = "PrimFuncs alone"
    SCRIPT = "functions that may need the virtual machine"


def module_of(value: Any) -> IRModule:  # Any: modules, functions, models
    """The module of a function, an ONNX model, or of what is a module already.

    Raises:
        ModelError: the model cannot be read.
    """
    if isinstance(value, BaseFunc):
        return IRModule({value.name: value})
    # The importer marks subgraphs that are compiled at run time.
    return value if isinstance(value, IRModule) else import_onnx(value)


def kind_of(module: IRModule) -> ModuleKind:
    """The kind of a module of any level."""
    functions = [f for f in module.func_ops() if not f.is_external]
    if functions and all(map(function_attributes.is_prim_func, functions)):
        return ModuleKind.KERNELS
    if level_of(module) is not None:
        return ModuleKind.MODEL
    is_graph = (
        [f.name.value for f in functions] == ["main"]
        and all(isinstance(t, ir.RankedTensorType) for t in functions[0].type.inputs)
        and not is_script(module)
    )
    return ModuleKind.MODEL if is_graph else ModuleKind.SCRIPT
