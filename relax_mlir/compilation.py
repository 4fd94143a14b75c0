"""``relax_mlir.compile``: whatever can be compiled, in the form that it allows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from mlir import ir

from relax_mlir import compiler
from relax_mlir.frontends.onnx import import_onnx
from relax_mlir.module import IRModule
from relax_mlir.objects.function import BaseFunc
from relax_mlir.passes.relax.normalize import is_script
from relax_mlir.pipeline import Progress
from relax_mlir.targets import Target

if TYPE_CHECKING:
    from relax_mlir.runtime.executable import CompiledModel

__all__ = ["compile"]


def compile(
    mod: Any,  # Any: modules, functions, models
    target: Any = "cpu",
    *,
    relax_pipeline: Any = "default",
    tir_pipeline: Any = "default",
    threads: int = 1,
    cache: bool | str | os.PathLike[str] = True,
    dump: str | os.PathLike[str] | None = None,
    verify: str | None = None,
    inputs: Sequence[np.ndarray] | None = None,
    progress: Progress | None = None,
) -> CompiledModel | Any:  # Any: who names a module's functions knows what they get
    """Compile a module.

    Args:
        mod: a module, one function of Relax or tensor program, or an ONNX model as
            :func:`relax_mlir.import_onnx` takes it.
        target: ``cpu`` is this machine, ``cpu:znver3`` another; TVM's ``llvm``, or a
            :class:`Target`, say the same.
        relax_pipeline, tir_pipeline: as for :func:`relax_mlir.relax.build`.
        threads: how many may work on one call.
        cache: keep compiled kernels on disk; True for the user's cache folder.
        dump: a folder that gets the module after every stage, numbered; a model in
            pieces has a folder for each.
        verify: ``each-pass`` runs the module after every pass and compares.
        inputs: what to run it on then, if it is machine code as a whole; random by
            default.
        progress: is told of every stage, pass by pass, and of every kernel.

    Returns:
        Of a model, what can be called with arrays: machine code as a whole
        (:class:`relax_mlir.runtime.executable.Executable`), or compiled further when it
        runs (:class:`relax_mlir.relax.vm.StagedModel`). Any module whose only public
        function is ``main``, all of it machine code, is such a model. For tensor programs
        alone, what writes into the arrays it is called with
        (:class:`relax_mlir.relax.vm.KernelModule`); else an executable of which functions
        are called by name (:class:`relax_mlir.relax.vm.VMExecutable`).

    Raises:
        RelaxError: it cannot be compiled.
    """
    if isinstance(mod, BaseFunc):
        mod = IRModule({mod.name: mod})
    elif not isinstance(mod, IRModule):
        mod = import_onnx(mod)  # what of it is compiled only when it runs is found here
    chosen = target if isinstance(target, Target) else str(target)
    options = {"target": chosen, "threads": threads, "cache": cache}
    whole = {"dump": dump, "verify": verify, "inputs": inputs, "progress": progress}
    if _is_written_by_hand(mod):
        # Loaded here: who compiles models alone does not wait for it.
        from relax_mlir.relax.vm import compile_any

        pipelines = {"relax_pipeline": relax_pipeline, "tir_pipeline": tir_pipeline}
        return compile_any(mod, options, **pipelines, **whole)
    return compiler.compile(mod, **options, **whole)


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
