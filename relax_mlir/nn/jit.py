"""JIT compilation of a module's methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from relax_mlir.errors import near_misses
from relax_mlir.nn import spec as specs
from relax_mlir.nn.exporter import Exporter
from relax_mlir.nn.module import Module
from relax_mlir.nn.tensor import Parameter
from relax_mlir.runtime.ndarray import NDArray, device, shared

__all__ = ["CompiledModule", "compile_module"]

_INITIALIZE = "_initialize_effect"


def compile_module(
    module: Module,
    spec: Any,
    where: Any,
    pipeline: Any,
    *,
    out_format: str,
    debug: bool,
) -> CompiledModule:
    """Compile methods of a module; see :meth:`Module.jit`.

    Raises:
        ValueError: a parameter has no data, or the format is unknown.
        RelaxError: the module cannot be compiled.
    """
    from relax_mlir.tvm.relax.target import Target
    from relax_mlir.tvm.relax.vm import VirtualMachine, build

    convert = _format(out_format)
    module_spec = specs.ModuleSpec.from_raw(spec, module)
    exported, parameters, external = Exporter(debug=debug).build(module_spec)
    weights = _elements(parameters)
    for extern in external:
        extern.load()
    dev = device(where)
    code = build(exported, Target.from_device(dev), relax_pipeline=pipeline)
    return CompiledModule(module_spec, VirtualMachine(code, dev), weights, convert)


class CompiledModule:
    """The compiled methods of a module: ``model["forward"](x)``.

    Attributes:
        spec: the signatures of the methods.
        vm: the virtual machine that runs them.
        params: the data of the parameters.
        effects: the states of the effects, or None without effects.
    """

    def __init__(
        self,
        spec: specs.ModuleSpec,
        vm: Any,
        params: list[NDArray],
        convert: Callable[[NDArray], Any],
    ) -> None:
        self.spec = spec
        self.vm = vm
        self.params = params
        self._convert = convert
        has_effects = _INITIALIZE in vm.module.function_names()
        self.effects: Any = vm[_INITIALIZE]() if has_effects else None

    def __getitem__(self, method_name: str) -> Callable[..., Any]:
        names = self.spec.method_names
        if method_name not in names:
            raise ValueError(
                f"method `{method_name}` is not compiled: expected one of "
                f"{', '.join(names)}.{near_misses(method_name, names)}"
            )
        spec = self.spec.method_specs[names.index(method_name)]
        function = self.vm[method_name]

        def call(*args: Any) -> Any:
            if len(args) != len(spec.arg_names):
                raise TypeError(
                    f"{spec.text(method_name)}: expected {len(spec.arg_names)} arguments, "
                    f"got {len(args)}"
                )
            named = zip(spec.arg_names, spec.arg_specs, args, strict=True)
            values = [_argument(name, kind, value) for name, kind, value in named]
            if self.effects is None:
                return self._result(function(*values, *self.params))
            result, self.effects = function(*values, *self.effects, *self.params)
            return self._result(result)

        call.__name__ = method_name
        return call

    def _result(self, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [self._result(v) for v in value]
        return self._convert(value)


def _argument(name: str, kind: Any, value: Any) -> Any:
    """An argument of a method, converted for the compiled function.

    Raises:
        TypeError: it is of a wrong type.
    """
    if isinstance(kind, specs.Tensor):
        if not hasattr(value, "__dlpack__"):
            raise TypeError(
                f"argument `{name}`: expected a tensor, got {type(value).__name__}"
            )
        return shared(value)
    if isinstance(kind, specs.Int):
        if not isinstance(value, int):
            raise TypeError(
                f"argument `{name}`: expected an int, got {type(value).__name__}"
            )
        return (value,)
    if isinstance(kind, specs.Tuple):
        parts = enumerate(zip(kind.elements, value, strict=True))
        return [_argument(f"{name}[{i}]", k, v) for i, (k, v) in parts]
    return value


def _elements(parameters: Sequence[tuple[str, Parameter]]) -> list[NDArray]:
    known = [(name, parameter.data) for name, parameter in parameters]
    missing = [name for name, data in known if data is None]
    if missing:
        raise ValueError(
            f"parameters have no data: {', '.join(missing)}. Set their `data`."
        )
    return [data for _, data in known if data is not None]


def _torch(array: NDArray) -> Any:
    return import_module("torch").from_dlpack(array)


def _numpy(array: NDArray) -> np.ndarray:
    return np.from_dlpack(array)


_FORMATS: Mapping[str, Callable[[NDArray], Any]] = {"torch": _torch, "numpy": _numpy}


def _format(name: str) -> Callable[[NDArray], Any]:
    """The conversion of an array to an output format.

    Raises:
        ValueError: the format is unknown.
        ModuleNotFoundError: its package is not installed.
    """
    if name not in _FORMATS:
        raise ValueError(
            f"Unknown out_format: {name}: expected {' or '.join(_FORMATS)}"
        )
    try:
        import_module(name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f'out_format="{name}": package `{name}` is not installed. '
            '`out_format="numpy"` gives arrays.',
            name=name,
        ) from error
    return _FORMATS[name]
