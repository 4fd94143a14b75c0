"""Dispatch of ``compile`` on its input: whole model, or module for the virtual machine."""

from collections.abc import Mapping
from typing import Any

from mlir import ir

from relax_mlir.compiler import driver
from relax_mlir.errors import string_of_argument
from relax_mlir.frontends.onnx import import_onnx
from relax_mlir.ir.module import IRModule
from relax_mlir.objects.function import BaseFunc
from relax_mlir.passes.relax.normalize import is_script
from relax_mlir.runtime.compiled_model import CompiledModel
from relax_mlir.runtime.source_model import SourceModel
from relax_mlir.targets import Target

__all__ = ["compile_module"]

_Options = Mapping[str, Any]  # Any: options of many types


def compile_module(
    mod: Any,  # Any: modules, functions, models
    options: _Options,
    pipelines: _Options,
    whole: _Options,
) -> Any:  # Any: see the caller
    """Compile a module; see :func:`relax_mlir.compile`.

    Args:
        options: compile options, inherited by JIT-compiled subgraphs.
        pipelines: ``relax_pipeline`` and ``tir_pipeline``.
        whole: options of models that are compiled ahead of time as a whole.
    """
    if isinstance(mod, BaseFunc):
        mod = IRModule({mod.name: mod})
    elif not isinstance(mod, IRModule):
        mod = import_onnx(mod)  # marks the subgraphs that are compiled at run time
    target = options["target"]
    parsed_target = (
        target
        if isinstance(target, Target)
        else string_of_argument(target, "compile: `target`", "a target")
    )
    options = {**options, "target": parsed_target}
    if options["tuning"] is None:
        del options["tuning"]
    if _needs_virtual_machine(mod):
        # Imported late: compiling plain models does not pay for loading it.
        from relax_mlir.compiler.host.build import compile_any

        compiled = compile_any(mod, options, **pipelines, **whole)
    else:
        compiled = driver.compile_model(mod, **options, **whole)
    if mod.source is not None and isinstance(compiled, CompiledModel):
        plain = {k: options[k] for k in ("precision", "library", "checks", "threads")}
        compiled.source = SourceModel(
            mod.source, plain | {"target": str(parsed_target)}
        )
    return compiled


def _needs_virtual_machine(mod: IRModule) -> bool:
    """Whether a module is more than an imported graph: several functions, PrimFuncs."""
    functions = [f for f in mod.func_ops() if not f.is_external]
    if driver.level_of(mod) is not None:
        return all("tir.prim_func" in f.attributes for f in functions)
    return (
        is_script(mod)
        or [f.name.value for f in functions] != ["main"]
        or any(not isinstance(t, ir.RankedTensorType) for t in functions[0].type.inputs)
    )
