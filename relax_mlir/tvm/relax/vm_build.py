"""``relax.build`` and ``tvm.build``: compilation with TVM's arguments."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from relax_mlir.compiler.host.build import (
    Build,
    apply_user_pipelines,
    with_index_checks,
)
from relax_mlir.compiler.host.kernels import compile_kernels
from relax_mlir.compiler.module_kind import ModuleKind, kind_of, module_of
from relax_mlir.compiler.options import CompileOptions
from relax_mlir.ir.module import IRModule
from relax_mlir.objects.function import BaseFunc
from relax_mlir.runtime.host.kernels import KernelModule
from relax_mlir.runtime.host.vm_executable import VMExecutable
from relax_mlir.support.argument_types import check_exports
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
        tir_pipeline: a pass to run first on the PrimFuncs; ``default`` is none.
        threads: number of threads per call.
        cache: keep compiled kernels on disk; True for the user's cache folder.

    Raises:
        RelaxError: the module cannot be compiled.
    """
    mod = _module_of(mod, "`build`")
    if params:
        mod = BindParams("main", dict(params))(mod)
    options = CompileOptions(
        target=_resolve_target(target),
        threads=threads,
        cache=cache,
        relax_pipeline=relax_pipeline,
        tir_pipeline=tir_pipeline,
    )
    mod = with_index_checks(mod, options.checks)
    return Build(apply_user_pipelines(mod, options), options).run()


def build_any(
    mod: Any,  # Any: modules and functions
    target: Any = None,
    **options: Any,  # Any: those of ``build``
) -> VMExecutable | KernelModule:
    """``tvm.build``: compile PrimFuncs to kernels, or a Relax module by :func:`build`.

    Args:
        mod: the module, or one function.
        target: as for :func:`build`.
        options: those of :func:`build`; PrimFuncs have no ``params`` to bind, and their
            ``name``, an option of older TVM, is ignored.

    Raises:
        RelaxError: the module cannot be compiled.
        TypeError: an option is unknown.
    """
    hint = ". Hint: `te.create_prim_func` makes a function of tensor expressions."
    module = _module_of(mod, "build", hint)
    if kind_of(module) is not ModuleKind.KERNELS:
        return build(module, target, **options)
    kept = {k: v for k, v in options.items() if k not in _IGNORED}
    chosen = CompileOptions(target=_resolve_target(target), **kept)
    return compile_kernels(apply_user_pipelines(module, chosen), chosen)


_IGNORED = ("exec_mode", "system_lib", "name")


def _module_of(mod: Any, where: str, hint: str = "") -> IRModule:
    """The module to build.

    Raises:
        TypeError: it is neither a module nor a function.
    """
    if not isinstance(mod, (BaseFunc, IRModule)):
        raise TypeError(
            f"{where}: expected a module or a function, got `{type(mod).__name__}`{hint}"
        )
    return module_of(mod)


def _resolve_target(target: Any) -> Any:
    """The target argument, else the current target context, else the host machine."""
    is_given = target is not None and not (isinstance(target, str) and not target)
    return target if is_given else Target.current() or "cpu"


check_exports(globals())
