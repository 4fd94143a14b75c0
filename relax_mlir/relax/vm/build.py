"""Compile all functions of a module."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlir import ir

from relax_mlir import compiler
from relax_mlir.errors import RelaxError, text_of
from relax_mlir.module import IRModule
from relax_mlir.objects import names
from relax_mlir.objects.expr import GlobalVar
from relax_mlir.objects.function import BaseFunc, Function
from relax_mlir.passes.relax.check_indices import drop_checks, has_checks
from relax_mlir.passes.relax.dead_code_elimination import erase_unreachable
from relax_mlir.pipeline import Pipeline
from relax_mlir.relax.target import Target
from relax_mlir.relax.vm.executable import (
    Code,
    HostCode,
    VMExecutable,
    nest_of,
)
from relax_mlir.relax.vm.host_writer import write_host
from relax_mlir.relax.vm.kernels import KernelModule, compile_kernel, compile_kernels
from relax_mlir.relax.vm.native import Native
from relax_mlir.relax.vm.stage_options import StageOptions
from relax_mlir.relax.vm.staged_model import StagedModel, staged_signature
from relax_mlir.runtime.compiled_model import CompiledModel
from relax_mlir.targets import Target as TargetMachine

__all__ = ["build", "build_any", "compile_any", "native_entries"]


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
    """Compile the public functions of Relax in a module.

    What computes tensors of known sizes becomes machine code; what calls functions that
    are registered, chooses, recurs, or works on shapes and other objects becomes a host
    program that calls it: see :meth:`VMExecutable.as_text`.

    Args:
        mod: the module.
        target: what for, as for :func:`relax_mlir.compile`; ``llvm`` is this machine.
        params: weights by the names of parameters, bound before.
        exec_mode, system_lib: accepted and without effect.
        relax_pipeline: a pass to run first, or the name of a pipeline; ``default`` is none.
        tir_pipeline: a pass to run first on the tensor programs, likewise.
        threads: how many may work on one call.
        cache: keep compiled kernels on disk; True for the user's cache folder.

    Raises:
        RelaxError: it cannot be compiled.
    """
    if isinstance(mod, BaseFunc):
        mod = IRModule({mod.name: mod})
    if not isinstance(mod, IRModule):
        raise TypeError(
            f"`build`: expected a module or a function, got {type(mod).__name__}"
        )
    if params:
        from relax_mlir.relax.transform import BindParams

        mod = BindParams("main", dict(params))(mod)
    mod = _with_checks(mod, "none")
    mod = _changed(mod, relax_pipeline, tir_pipeline)
    chosen = text_of(_chosen(target), "build: `target`", "a target")
    return _Build(mod, {"target": chosen, "threads": threads, "cache": cache}).run()


def compile_any(
    mod: IRModule,
    options: Mapping[str, Any],
    *,
    relax_pipeline: Any = "default",
    tir_pipeline: Any = "default",
    **whole: Any,  # Any: options of compiler.compile for what is machine code as a whole
) -> CompiledModel | VMExecutable | KernelModule:
    """Compile a module in the form that it allows; see :func:`relax_mlir.compile`."""
    mod = _with_checks(mod, options.get("checks", "none"))
    mod = _changed(mod, relax_pipeline, tir_pipeline)
    if _has_programs_alone(mod):
        return compile_kernels(mod, options)
    entries = [op.name.value for op in mod.func_ops() if _is_entry(op)]
    is_model = not entries or (entries == ["main"] and Native(mod).takes("main"))
    if is_model:
        return compiler.compile_model(mod, **options, **whole)
    made = _Build(mod, options, whole).run()
    signature = staged_signature(mod) if entries == ["main"] else None
    if signature is None:
        return made
    return StagedModel(made, signature)


def _with_checks(mod: IRModule, checks: str) -> IRModule:
    """A module that checks indices, before anything else changes its operators.

    What is machine code and what runs on the host depends on it: both branches of a
    choice are computed only where neither may fail.
    """
    if checks == "none" and not has_checks(mod):
        return mod
    made = mod.clone()
    if checks == "indices":
        Pipeline.parse("relax-check-indices").run(made)
    else:
        with made.context:
            drop_checks(made)
    return made


def build_any(
    mod: Any,  # Any: modules and functions
    target: Any = None,
    **options: Any,  # Any: those of ``build``
) -> VMExecutable | KernelModule:
    """``tvm.build``: tensor programs, or a module of Relax; see :func:`build`."""
    made = IRModule({mod.name: mod}) if isinstance(mod, BaseFunc) else mod
    if not isinstance(made, IRModule):
        kind = type(mod).__name__
        raise TypeError(
            f"build: expected a module or a function, got `{kind}`. Hint: "
            "`te.create_prim_func` makes a function of tensor expressions."
        )
    if _has_programs_alone(made):
        chosen = _chosen(target)
        return compile_kernels(made, {"target": _target(chosen)})
    return build(made, target, **options)


def _has_programs_alone(mod: IRModule) -> bool:
    functions = list(mod.func_ops())
    return bool(functions) and all(map(names.is_prim_func, functions))


def _chosen(target: Any) -> Any:
    """A target that is given, or whose ``with`` is open, or this machine."""
    is_given = target is not None and not (isinstance(target, str) and not target)
    return target if is_given else Target.current() or "cpu"


def _target(target: Any) -> Any:
    """A target as the compiler takes it."""
    is_machine = isinstance(target, TargetMachine)
    return target if is_machine else text_of(target, "build: `target`", "a target")


def _is_entry(op: Any) -> bool:
    return not (names.is_prim_func(op) or names.is_private(op) or op.is_external)


def _on_one_device(mod: IRModule) -> IRModule:
    """A module whose virtual devices are all this machine's CPU says none."""
    devices = mod.global_infos.get("vdevice", ())
    if not devices or any(str(d.target).split(" ")[0] not in _CPUS for d in devices):
        return mod
    made = mod.clone()
    Pipeline.parse("relax-drop-devices").run(made)
    return made


_CPUS = ("llvm", "cpu", "c")


class _Build:
    """Compiles one module.

    Args:
        mod: the module.
        options: of compiler.compile for all machine code.
        shown: those of its options that show how it is compiled.
    """

    def __init__(
        self,
        mod: IRModule,
        options: Mapping[str, Any],
        shown: Mapping[str, Any] | None = None,
    ) -> None:
        self._mod, self._options = _on_one_device(mod), options
        self._shown = {k: v for k, v in (shown or {}).items() if v is not None}
        if "inputs" in self._shown:
            raise RelaxError(
                "`inputs`: expected a model that is machine code as a whole, got one of "
                "which parts run on the host or are compiled when it runs"
            )
        self._native = Native(self._mod)

    def run(self) -> VMExecutable:
        entries = [op.name.value for op in self._mod.func_ops() if _is_entry(op)]
        codes = {n: self._code(n) for n in entries if self._native.takes(n)}
        hosted = [n for n in entries if n not in codes]
        written = write_host(self._mod, hosted, self._native)
        # Tensor programs read no indices that operators know of.
        plain = {k: v for k, v in self._options.items() if k != "checks"}
        host = HostCode(
            written.program,
            {n: self._segment(n, f) for n, f in written.segments.items()},
            {n: compile_kernel(self._mod, n, plain) for n in written.programs},
            written.constants,
        )
        shown = {n: [p.name_hint for p in self._mod[n].params] for n in hosted}
        options = StageOptions.of(self._options)
        return VMExecutable(codes, host, shown, options)

    def _code(self, name: str) -> Code:
        function = self._mod[name]
        code = self._compiled(_with_entry(self._mod, name), name)
        called = [p.name_hint for p in function.params]
        return Code(code, called, nest_of(function.ret_struct_info))

    def _segment(self, name: str, function: Function) -> Code:
        kept = {v: f for v, f in self._mod.functions.items() if v.name_hint != "main"}
        alone = IRModule({**kept, GlobalVar(name): function}, attrs=self._mod.attrs)
        code = self._compiled(_with_entry(alone, name), name)
        called = [p.name_hint for p in function.params]
        return Code(code, called, nest_of(function.ret_struct_info))

    def _compiled(self, mod: IRModule, name: str) -> CompiledModel:
        shown = dict(self._shown)
        if "dump" in shown:
            shown["dump"] = Path(shown["dump"]) / name
        return compiler.compile_model(mod, **self._options, **shown)


def _with_entry(mod: IRModule, name: str) -> IRModule:
    """A copy in which ``name`` is ``main``, and other functions are private."""
    if name == "main":
        made = mod.clone()
    else:
        kept = {k: f for k, f in mod.functions.items() if k.name_hint != "main"}
        made = IRModule(kept, attrs=mod.attrs)
    with made.context:
        for op in made.func_ops():
            is_entry = op.name.value == name
            if is_entry and name != "main":
                op.attributes["sym_name"] = ir.StringAttr.get("main")
            elif not is_entry:
                op.attributes["sym_visibility"] = ir.StringAttr.get("private")
        erase_unreachable(made, ("main",))
    return made


def native_entries(mod: IRModule) -> list[IRModule]:
    """A copy for each public function that is all machine code, in which it is ``main``."""
    native = Native(mod)
    entries = [op.name.value for op in mod.func_ops() if _is_entry(op)]
    return [_with_entry(mod, name) for name in entries if native.takes(name)]


def _changed(mod: IRModule, relax_pipeline: Any, tir_pipeline: Any) -> IRModule:
    """What the passes that run first make of a module.

    Raises:
        TypeError: one gives no module.
    """
    pipelines = {"relax_pipeline": _named(relax_pipeline), "tir_pipeline": tir_pipeline}
    for name, pipeline in pipelines.items():
        if callable(pipeline):
            made = pipeline(mod)
            if not isinstance(made, IRModule):
                kind = type(made).__name__
                raise TypeError(
                    f"`{name}`: expected it to give an IRModule, got {kind}"
                )
            mod = made
    return mod


def _named(pipeline: Any) -> Any:  # Any: a name, a pass, or nothing
    """The pass that a name means; the compiler's own pipeline needs none in front."""
    if not isinstance(pipeline, str) or pipeline == "default":
        return pipeline
    from relax_mlir.relax.pipeline import get_pipeline

    return get_pipeline(pipeline)
