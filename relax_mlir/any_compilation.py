"""Compiling whatever can be compiled, in the form that it allows."""

from collections.abc import Mapping
from typing import Any

from mlir import ir

from relax_mlir import compiler
from relax_mlir.errors import text_of
from relax_mlir.frontends.onnx import import_onnx
from relax_mlir.module import IRModule
from relax_mlir.objects.function import BaseFunc
from relax_mlir.passes.relax.normalize import is_script
from relax_mlir.runtime.compiled_model import CompiledModel
from relax_mlir.runtime.source_model import SourceModel
from relax_mlir.targets import Target

__all__ = ["compile_whatever"]

_Options = Mapping[str, Any]  # Any: options of many types


def compile_whatever(
    mod: Any,  # Any: modules, functions, models
    options: _Options,
    pipelines: _Options,
    whole: _Options,
) -> Any:  # Any: see the caller
    """Compile a module; see :func:`relax_mlir.compile`.

    Args:
        options: how it is compiled, piece by piece if it has pieces.
        pipelines: ``relax_pipeline`` and ``tir_pipeline``.
        whole: options of what is machine code as a whole.
    """
    if isinstance(mod, BaseFunc):
        mod = IRModule({mod.name: mod})
    elif not isinstance(mod, IRModule):
        mod = import_onnx(mod)  # what of it is compiled only when it runs is found here
    target = options["target"]
    chosen = (
        target
        if isinstance(target, Target)
        else text_of(target, "compile: `target`", "a target")
    )
    options = {**options, "target": chosen}
    if options["tuning"] is None:
        del options["tuning"]
    if _is_written_by_hand(mod):
        # Loaded here: who compiles models alone does not wait for it.
        from relax_mlir.relax.vm import compile_any

        made = compile_any(mod, options, **pipelines, **whole)
    else:
        made = compiler.compile_model(mod, **options, **whole)
    if mod.source is not None and isinstance(made, CompiledModel):
        plain = {k: options[k] for k in ("precision", "library", "checks", "threads")}
        made.source = SourceModel(mod.source, plain | {"target": str(chosen)})
    return made


def _is_written_by_hand(mod: IRModule) -> bool:
    """Whether a module may hold more than a model: functions, programs, objects."""
    functions = [f for f in mod.func_ops() if not f.is_external]
    if compiler.level_of(mod) is not None:
        return all("tir.prim_func" in f.attributes for f in functions)
    return (
        is_script(mod)
        or [f.name.value for f in functions] != ["main"]
        or any(not isinstance(t, ir.RankedTensorType) for t in functions[0].type.inputs)
    )
