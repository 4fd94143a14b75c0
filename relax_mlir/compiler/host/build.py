"""Compilation of modules with several functions, partly ahead of time, partly hosted."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from mlir import ir

from relax_mlir.compiler import driver
from relax_mlir.compiler.host.jit_signature import jit_signature
from relax_mlir.compiler.host.kernels import compile_kernel, compile_kernels
from relax_mlir.compiler.host.partition import NativePartition
from relax_mlir.compiler.host.writer import write_host
from relax_mlir.compiler.module_kind import ModuleKind, kind_of
from relax_mlir.compiler.options import CompileOptions
from relax_mlir.errors import ArgumentTypeError, RelaxError, short_repr
from relax_mlir.ir import function_attributes
from relax_mlir.ir.module import IRModule
from relax_mlir.objects.expr import GlobalVar
from relax_mlir.objects.expr.struct_info import StructInfo, TupleStructInfo
from relax_mlir.objects.function import Function
from relax_mlir.passes.relax.check_indices import drop_checks, has_checks
from relax_mlir.passes.relax.dead_code_elimination import erase_unreachable
from relax_mlir.pipeline import Pipeline
from relax_mlir.pipeline.named_pipelines import get_pipeline
from relax_mlir.runtime.compiled_model import CompiledModel
from relax_mlir.runtime.host.jit_model import JITModel
from relax_mlir.runtime.host.jit_options import JITOptions
from relax_mlir.runtime.host.kernels import KernelModule
from relax_mlir.runtime.host.vm_executable import (
    HostCode,
    NativeFunction,
    Nest,
    VMExecutable,
)
from relax_mlir.targets import target_device

__all__ = [
    "Build",
    "apply_user_pipelines",
    "compile_functions",
    "jit_options",
    "native_entry_modules",
    "with_index_checks",
]


def compile_functions(
    mod: IRModule, options: CompileOptions
) -> CompiledModel | VMExecutable | KernelModule:
    """Compile a module: to kernels, to a model, or to an executable of the virtual machine.

    See :func:`relax_mlir.compile`.
    """
    mod = prepared(mod, options)
    if kind_of(mod) is ModuleKind.KERNELS:
        return compile_kernels(mod, options)
    if is_native_model(mod):
        return driver.compile_model(mod, options)
    executable = Build(mod, options).run()
    signature = jit_signature(mod) if _entries(mod) == ["main"] else None
    if signature is None:
        return executable
    return JITModel(executable, signature)


def prepared(mod: IRModule, options: CompileOptions) -> IRModule:
    """A module after the passes that come before any other: index checks, the user's."""
    return apply_user_pipelines(with_index_checks(mod, options.checks), options)


def is_native_model(mod: IRModule) -> bool:
    """Whether a module is a model that compiles ahead of time as a whole."""
    entries = _entries(mod)
    return not entries or (
        entries == ["main"] and NativePartition(mod).compiles("main")
    )


def with_index_checks(mod: IRModule, checks: str) -> IRModule:
    """A module with index checks inserted or dropped, before any other pass.

    The partition between machine code and host depends on them: an ``if`` is converted to
    a select only if neither branch may raise.
    """
    if checks == "none" and not has_checks(mod):
        return mod
    checked = mod.clone()
    if checks == "indices":
        Pipeline.parse("relax-check-indices").run(checked)
    else:
        with checked.context:
            drop_checks(checked)
    return checked


def _entries(mod: IRModule) -> list[str]:
    """Names of the public Relax functions of a module."""
    return [
        f.name.value
        for f in mod.func_ops()
        if not (
            function_attributes.is_prim_func(f)
            or function_attributes.is_private(f)
            or f.is_external
        )
    ]


def _without_cpu_devices(mod: IRModule) -> IRModule:
    """Drops the virtual devices of a module if all of them are this machine's CPU."""
    devices = mod.global_infos.get("vdevice", ())
    if not devices or any(str(d.target).split(" ")[0] not in _CPUS for d in devices):
        return mod
    result = mod.clone()
    Pipeline.parse("relax-drop-devices").run(result)
    return result


_CPUS = ("llvm", "cpu", "c")


class Build:
    """Compilation of one module to an executable of the virtual machine.

    Args:
        mod: the module.
        options: user-defined pipelines are not applied.

    Raises:
        RelaxError: inputs of differential verification are given.
    """

    def __init__(self, mod: IRModule, options: CompileOptions) -> None:
        self._mod, self._options = _without_cpu_devices(mod), options
        if options.inputs is not None:
            raise RelaxError(
                "`inputs`: expected a model that is compiled ahead of time as a whole, got "
                "one with nodes that are interpreted, or compiled at run time"
            )
        self._native = NativePartition(self._mod)

    def run(self) -> VMExecutable:
        entries = _entries(self._mod)
        codes = {n: self._code(n) for n in entries if self._native.compiles(n)}
        hosted = [n for n in entries if n not in codes]
        written = write_host(self._mod, hosted, self._native)
        # Only graphs have index checks, and results to verify.
        plain = replace(self._options, checks="none", verify=None)
        host = HostCode(
            written.program,
            {n: self._segment(n, f) for n, f in written.segments.items()},
            {n: compile_kernel(self._mod, n, plain) for n in written.programs},
            written.constants,
        )
        public = {n: [p.name_hint for p in self._mod[n].params] for n in hosted}
        return VMExecutable(codes, host, public, jit_options(self._options))

    def _code(self, name: str) -> NativeFunction:
        function = self._mod[name]
        code = self._compiled(_with_entry(self._mod, name), name)
        params = [p.name_hint for p in function.params]
        return NativeFunction(code, params, _nesting_of(function.ret_struct_info))

    def _segment(self, name: str, function: Function) -> NativeFunction:
        kept = {v: f for v, f in self._mod.functions.items() if v.name_hint != "main"}
        alone = IRModule({**kept, GlobalVar(name): function}, attrs=self._mod.attrs)
        code = self._compiled(_with_entry(alone, name), name)
        params = [p.name_hint for p in function.params]
        return NativeFunction(code, params, _nesting_of(function.ret_struct_info))

    def _compiled(self, mod: IRModule, name: str) -> CompiledModel:
        return driver.compile_model(mod, self._options.in_folder(name))


def _with_entry(mod: IRModule, name: str) -> IRModule:
    """A copy in which ``name`` is renamed to ``main``, and other functions are private."""
    if name == "main":
        copy = mod.clone()
    else:
        kept = {k: f for k, f in mod.functions.items() if k.name_hint != "main"}
        copy = IRModule(kept, attrs=mod.attrs)
    with copy.context:
        for op in copy.func_ops():
            is_entry = op.name.value == name
            if is_entry and name != "main":
                op.attributes["sym_name"] = ir.StringAttr.get("main")
            elif not is_entry:
                op.attributes["sym_visibility"] = ir.StringAttr.get("private")
        erase_unreachable(copy, ("main",))
    return copy


def native_entry_modules(mod: IRModule) -> list[IRModule]:
    """A module per public function that compiles ahead of time, as its ``main``."""
    native = NativePartition(mod)
    return [_with_entry(mod, name) for name in _entries(mod) if native.compiles(name)]


def apply_user_pipelines(mod: IRModule, options: CompileOptions) -> IRModule:
    """Apply user pipelines to a module.

    Raises:
        ValueError: a name of a pipeline is unknown.
        TypeError: a pipeline is not a pass, or does not return a module.
    """
    pipelines = {
        "relax_pipeline": _relax_pipeline(options.relax_pipeline),
        "tir_pipeline": options.tir_pipeline,
    }
    for name, pipeline in pipelines.items():
        if pipeline is None or (isinstance(pipeline, str) and pipeline == "default"):
            continue
        if not callable(pipeline):
            raise ArgumentTypeError(
                f"compile: `{name}`: expected `default` or a pass, got "
                f"{short_repr(pipeline)}"
            )
        result = pipeline(mod)
        if not isinstance(result, IRModule):
            kind = type(result).__name__
            raise TypeError(f"`{name}`: expected it to return an IRModule, got {kind}")
        mod = result
    return mod


def _relax_pipeline(pipeline: Any) -> Any:  # Any: a name, a pass, or nothing
    """Looks up a pipeline by name; ``default`` is the compiler's built-in one."""
    if not isinstance(pipeline, str) or pipeline == "default":
        return pipeline
    return get_pipeline(pipeline)


def jit_options(options: CompileOptions) -> JITOptions:
    """The options that JIT-compiled subgraphs inherit from a compilation."""
    inherited = CompileOptions(**options.inherited())
    return JITOptions(
        threads=options.threads,
        device=target_device(options.target),
        text=json.dumps(options.to_fields()),
        inherited=inherited,
    )


def _nesting_of(info: StructInfo) -> Nest:
    """Tuple structure of a value with a given struct info."""
    if isinstance(info, TupleStructInfo):
        return [_nesting_of(field) for field in info.fields]
    return None
