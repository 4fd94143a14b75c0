"""Compile all functions of a module, and call them by name."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from mlir import ir

from relax_mlir import compiler
from relax_mlir.errors import IRError, near_misses
from relax_mlir.module import IRModule
from relax_mlir.objects import names
from relax_mlir.objects.function import BaseFunc
from relax_mlir.objects.struct_info import (
    ObjectStructInfo,
    StructInfo,
    TupleStructInfo,
)
from relax_mlir.relax.target import Target
from relax_mlir.runtime.executable import Executable
from relax_mlir.runtime.ndarray import Device, NDArray, cpu, shared
from relax_mlir.targets import Target as TargetMachine

__all__ = ["VMExecutable", "VirtualMachine", "build", "compile"]


@dataclass
class _Compiled:
    """One function.

    Attributes:
        code: its machine code.
        result: what it gives, to nest what the code gives flat.
    """

    code: Executable
    params: Sequence[str]
    result: StructInfo


class VMExecutable:
    """The public functions of a module as machine code."""

    def __init__(self, functions: Mapping[str, _Compiled], module: IRModule) -> None:
        self._functions = dict(functions)
        self._module = module

    @property
    def mod(self) -> VMExecutable:
        """Itself."""
        return self

    def function(self, name: str) -> _Compiled:
        """The function called ``name``.

        Raises:
            AttributeError: there is none.
        """
        if name not in self._functions:
            known = self._functions
            raise AttributeError(
                f"executable has no function `{name}`: expected one of "
                f"{', '.join(known)}.{near_misses(name, known)}"
            )
        return self._functions[name]

    def function_names(self) -> list[str]:
        """All functions that can be called."""
        return list(self._functions)

    def __getitem__(self, name: str) -> Callable[..., Any]:
        return VirtualMachine(self, cpu())[name]

    def as_text(self) -> str:
        """What was compiled, as a script."""
        return self._module.script()

    def stats(self) -> str:
        """A line per function: what it takes and gives."""
        return "\n".join(f"{n}: {f.code!r}" for n, f in self._functions.items())

    def export_library(self, path: str | os.PathLike[str], **options: Any) -> None:
        """Write the code of a module with one function to a file.

        Raises:
            IRError: the module has several public functions.
        """
        if len(self._functions) != 1:
            raise IRError(
                "export: expected a module with one public function, got "
                f"{', '.join(self._functions)}"
            )
        (only,) = self._functions.values()
        only.code.save(path)


def build(
    mod: Any,  # Any: a module or a function
    target: Any = None,
    params: Mapping[str, Any] | None = None,
    *,
    exec_mode: str = "bytecode",
    relax_pipeline: Any = "default",
    tir_pipeline: Any = "default",
    system_lib: bool = False,
    **options: Any,
) -> VMExecutable:
    """Compile the public functions of Relax in a module.

    Args:
        mod: the module.
        target: what for, as for :func:`relax_mlir.compile`; ``llvm`` is this machine.
        params: weights by the names of parameters, bound before.
        exec_mode, tir_pipeline, system_lib: accepted and without effect: all is machine
            code here.
        relax_pipeline: a pass to run first, by the name of a pipeline or as a pass.

    Raises:
        RelaxError: it cannot be compiled.
    """
    if not isinstance(mod, IRModule):
        mod = IRModule({mod.name: mod})
    if callable(relax_pipeline):
        mod = relax_pipeline(mod)
    if params:
        from relax_mlir.relax.transform import BindParams

        mod = BindParams("main", params)(mod)
    entries = [op.name.value for op in mod.func_ops() if _is_entry(op)]
    compiled = {name: _compiled(mod, name, target) for name in entries}
    return VMExecutable(compiled, mod)


def compile(
    mod: Any, target: Any = "cpu", **options: Any
) -> Any:  # Any: modules and functions in, two kinds of executables out
    """Compile a module.

    Args:
        mod: a module, one function of Relax, or an ONNX model as
            :func:`relax_mlir.import_onnx` takes it.
        target: ``cpu`` is this machine, ``cpu:znver3`` another; TVM's ``llvm``, or a
            :class:`Target`, say the same.
        options: those of :func:`relax_mlir.compiler.compile`.

    Returns:
        If ``main`` is the only public function, what can be called with arrays; else an
        executable of which functions are called by name.

    Raises:
        RelaxError: it cannot be compiled.
    """
    if isinstance(mod, BaseFunc):
        mod = IRModule({mod.name: mod})
    if not isinstance(mod, IRModule) or compiler.level_of(mod) is not None:
        return compiler.compile(mod, target=_target(target), **options)
    entries = [op.name.value for op in mod.func_ops() if _is_entry(op)]
    if entries in (["main"], []):
        return compiler.compile(mod, target=_target(target), **options)
    return build(mod, target, **options)


def _target(target: Any) -> Any:
    """A target as the compiler takes it."""
    return target if isinstance(target, TargetMachine) else str(target)


def _is_entry(op: Any) -> bool:
    return not (names.is_prim_func(op) or names.is_private(op) or op.is_external)


def _compiled(mod: IRModule, name: str, target: Any) -> _Compiled:
    function = mod[name]
    alone = _with_entry(mod, name)
    code = compiler.compile(alone, target=str(target or Target.current() or "cpu"))
    called = [p.name_hint for p in function.params]
    return _Compiled(code, called, function.ret_struct_info)


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
    return made


class VirtualMachine:
    """Calls the functions of an executable: ``VirtualMachine(ex, cpu())["main"](x)``.

    Args:
        rt_mod: what ``build`` made, or an executable of :func:`relax_mlir.compile`.
        device: where it runs, or a list of which the first is taken.
    """

    def __init__(
        self,
        rt_mod: Any,
        device: Device | Sequence[Device] | None = None,
        memory_cfg: object = None,
        profile: bool = False,
    ) -> None:
        self.module = rt_mod
        self.device = device or cpu()
        self._inputs: dict[str, tuple[Any, ...]] = {}
        self._outputs: dict[str, Any] = {}
        self._saved: dict[str, Callable[..., Any]] = {}

    def _function(self, name: str) -> _Compiled:
        if isinstance(self.module, Executable):
            outputs = [ObjectStructInfo() for _ in self.module.output_names]
            result = outputs[0] if len(outputs) == 1 else TupleStructInfo(outputs)
            return _Compiled(self.module, self.module.input_names, result)
        return self.module.function(name)

    def __getitem__(self, name: str) -> Callable[..., Any]:
        if name in self._saved:
            return self._saved[name]
        compiled = self._function(name)

        def call(*args: Any, **named: Any) -> Any:
            flat = list(_flattened(args))
            return _nested(compiled, compiled.code(*flat, **named))

        call.__name__ = name
        return call

    def invoke_closure(self, closure: Callable[..., Any], *args: Any) -> Any:
        """Call a function that was given as a value."""
        return closure(*args)

    def set_input(self, func_name: str, *args: Any, **named: Any) -> None:
        """Keep the inputs of a function for ``invoke_stateful``."""
        params = self._function(func_name).params
        self._inputs[func_name] = (*args, *(named[p] for p in params[len(args) :]))

    def invoke_stateful(self, func_name: str) -> None:
        """Call a function with the inputs that were set.

        Raises:
            ValueError: none were set.
        """
        if func_name not in self._inputs:
            raise ValueError(f"`{func_name}`: expected `set_input` before the call")
        self._outputs[func_name] = self[func_name](*self._inputs[func_name])

    def get_outputs(self, func_name: str) -> Any:
        """What the last ``invoke_stateful`` of a function gave.

        Raises:
            ValueError: there was none.
        """
        if func_name not in self._outputs:
            raise ValueError(f"`{func_name}`: expected `invoke_stateful` before")
        return self._outputs[func_name]

    def save_function(
        self, func_name: str, saved_name: str, *args: Any, **named: Any
    ) -> None:
        """Give a function with its arguments a name of its own."""
        function = self[func_name]
        self._saved[saved_name] = lambda: function(*args, **named)

    def time_evaluator(
        self,
        func_name: str,
        dev: object = None,
        number: int = 10,
        repeat: int = 1,
        **options: Any,
    ) -> Callable[..., Timing]:
        """A function that calls ``func_name`` often and tells how long it takes."""
        function = self[func_name]

        def evaluate(*args: Any) -> Timing:
            results = []
            for _ in range(repeat):
                start = time.perf_counter()
                for _ in range(number):
                    function(*args)
                results.append((time.perf_counter() - start) / number)
            return Timing(results)

        return evaluate


@dataclass(frozen=True)
class Timing:
    """How long calls took.

    Attributes:
        results: seconds per call, one mean per repetition.
    """

    results: Sequence[float]

    @property
    def mean(self) -> float:
        """Mean of the repetitions, in seconds."""
        return float(np.mean(self.results))

    @property
    def median(self) -> float:
        """Median of the repetitions, in seconds."""
        return float(np.median(self.results))


def _flattened(values: Sequence[Any]) -> Any:
    for value in values:
        if isinstance(value, (tuple, list)):
            yield from _flattened(value)
        else:
            yield shared(value) if isinstance(value, NDArray) else value


def _nested(compiled: _Compiled, outputs: Sequence[Any]) -> Any:
    """The outputs of the code as the function's result is nested."""
    return _nest(compiled.result, iter([shared(o) for o in outputs]))


def _nest(info: StructInfo, arrays: Any) -> Any:
    if isinstance(info, TupleStructInfo):
        return [_nest(field, arrays) for field in info.fields]
    return next(arrays)
