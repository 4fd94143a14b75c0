"""Classification of what is compiled: a model, kernels, or a script."""

import sys
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any

from mlir import ir

from relax_mlir.compiler.levels import level_of
from relax_mlir.errors import ArgumentTypeError
from relax_mlir.frontends.onnx import import_onnx
from relax_mlir.frontends.onnx.importer import Values
from relax_mlir.ir import function_attributes
from relax_mlir.ir.module import IRModule
from relax_mlir.objects.function import BaseFunc
from relax_mlir.passes.relax.normalize import is_script
from relax_mlir.support.hooks import Hook

__all__ = ["TORCH_IMPORTER", "ModuleKind", "kind_of", "module_of"]

# Imports an `ExportedProgram`, or an `nn.Module` with example inputs.
TORCH_IMPORTER: Hook[Callable[[Any, Sequence[Any] | None], IRModule]] = Hook(
    "compiler.torch_importer"
)


class ModuleKind(Enum):
    """The kinds of modules, which are compiled in different ways."""

    MODEL = "one graph `main` of tensors, or what it is lowered to"
    KERNELS = "PrimFuncs alone"
    SCRIPT = "functions that may need the virtual machine"


def module_of(
    value: Any,  # Any: modules, functions, models
    *,
    shapes: Mapping[str, Sequence[int | str]] | None = None,
    values: Values | None = None,
    example_inputs: Sequence[Any] | None = None,
) -> IRModule:
    """The module of a function, a model of ONNX or torch, or of what is a module already.

    Args:
        shapes, values: of an ONNX model; see :func:`relax_mlir.import_onnx`.
        example_inputs: of a ``torch.nn.Module``, which is traced with them.

    Raises:
        ModelError: the model cannot be read.
        UnsupportedError: it has operators without a rule.
        ArgumentTypeError: an argument is given that this kind of model does not have.
    """
    is_torch = _is_of_torch(value)
    is_onnx = not is_torch and not isinstance(value, (BaseFunc, IRModule))
    given = {"shapes": shapes, "values": values, "example_inputs": example_inputs}
    for name, argument in given.items():
        expected = "a model of torch" if name == "example_inputs" else "an ONNX model"
        if argument and not (is_torch if name == "example_inputs" else is_onnx):
            raise ArgumentTypeError(
                f"compile: `{name}`: expected {expected}, got {type(value).__name__}"
            )
    if is_torch:
        return TORCH_IMPORTER.get()(value, example_inputs)
    if isinstance(value, BaseFunc):
        return IRModule({value.name: value})
    if isinstance(value, IRModule):
        return value
    # The importer marks subgraphs that are compiled at run time.
    return import_onnx(value, shapes=shapes, values=values)


def _is_of_torch(value: object) -> bool:
    """Whether a value is a program or a module of torch, which then has been imported."""
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    program = getattr(getattr(torch, "export", None), "ExportedProgram", None)
    classes = [c for c in (program, torch.nn.Module) if isinstance(c, type)]
    return isinstance(value, tuple(classes))


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
