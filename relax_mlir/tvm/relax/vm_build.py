"""``relax.build`` and ``tvm.build``: compilation with TVM's arguments."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from relax_mlir.compiler.host.build import (
    Build,
    apply_user_pipelines,
    has_only_prim_funcs,
    with_index_checks,
)
from relax_mlir.compiler.host.executable import VMExecutable
from relax_mlir.compiler.host.kernels import KernelModule, compile_kernels
from relax_mlir.errors import string_of_argument
from relax_mlir.ir.module import IRModule
from relax_mlir.objects.function import BaseFunc
from relax_mlir.support.argument_types import check_exports
from relax_mlir.targets import Target as TargetMachine
from relax_mlir.tvm.relax.pipeline import get_pipeline
from relax_mlir.tvm.relax.target import Target
from relax_mlir.tvm.relax.transform.passes.bind_params import BindParams

__all__ = ["VMExecutable", "build", "build_any"]


def build(
    mod: Any,  # Any: a module or a function
    target: Any = None,
    params: Mapping[str, Any] | None = None,
    *,
    exec_mode: str = "bytecode",
    relax_pipeline: Any = "default",
    tir_pipeline: Any = "default",
    system_lib: bool = False,
    threads: int = 1,
    cache: bool | str | os.PathLike[str] = True,
) -> VMExecutable:
    """Compile the public Relax functions of a module.

    Subgraphs that compute tensors of known shape become machine code. Calls of packed
    functions, branches, recursion, and operations on shapes and other objects become a
    host program that calls the machine code; see :meth:`VMExecutable.as_text`.

    Args:
        mod: the module.
        target: as for :func:`relax_mlir.compile`; ``llvm`` is the host machine.
        params: weights by parameter name, bound before compilation.
        exec_mode, system_lib: ignored; accepted for compatibility.
        relax_pipeline: a pass to run first, or the name of a pipeline; ``default`` is none.
        tir_pipeline: a pass to run first on the PrimFuncs, likewise.
        threads: number of threads per call.
        cache: keep compiled kernels on disk; True for the user's cache folder.

    Raises:
        RelaxError: the module cannot be compiled.
    """
    if isinstance(mod, BaseFunc):
        mod = IRModule({mod.name: mod})
    if not isinstance(mod, IRModule):
        raise TypeError(
            f"`build`: expected a module or a function, got {type(mod).__name__}"
        )
    if params:
        mod = BindParams("main", dict(params))(mod)
    mod = with_index_checks(mod, "none")
    mod = apply_user_pipelines(mod, _resolve_pipeline(relax_pipeline), tir_pipeline)
    target = _resolve_target(target)
    name = string_of_argument(target, "build: `target`", "a target")
    return Build(mod, {"target": name, "threads": threads, "cache": cache}).run()


def build_any(
    mod: Any,  # Any: modules and functions
    target: Any = None,
    **options: Any,  # Any: those of ``build``
) -> VMExecutable | KernelModule:
    """``tvm.build``: compile PrimFuncs to kernels, or a Relax module by :func:`build`."""
    module = IRModule({mod.name: mod}) if isinstance(mod, BaseFunc) else mod
    if not isinstance(module, IRModule):
        kind = type(mod).__name__
        raise TypeError(
            f"build: expected a module or a function, got `{kind}`. Hint: "
            "`te.create_prim_func` makes a function of tensor expressions."
        )
    if has_only_prim_funcs(module):
        target_option = _target_option(_resolve_target(target))
        return compile_kernels(module, {"target": target_option})
    return build(module, target, **options)


def _resolve_target(target: Any) -> Any:
    """The target argument, else the current target context, else the host machine."""
    is_given = target is not None and not (isinstance(target, str) and not target)
    return target if is_given else Target.current() or "cpu"


def _target_option(target: Any) -> Any:
    """Converts a target to the compiler's ``target`` option."""
    is_machine = isinstance(target, TargetMachine)
    return (
        target
        if is_machine
        else string_of_argument(target, "build: `target`", "a target")
    )


def _resolve_pipeline(pipeline: Any) -> Any:  # Any: a name, a pass, or nothing
    """Looks up a pipeline by name; ``default`` is the compiler's built-in one."""
    if not isinstance(pipeline, str) or pipeline == "default":
        return pipeline
    return get_pipeline(pipeline)


check_exports(globals())
