"""Compile the methods of a module, and call them with arrays."""

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
        ValueError: a parameter has no elements, or there is no such format.
        RelaxError: it cannot be compiled.
    """
    from relax_mlir.relax.target import Target
    from relax_mlir.relax.vm import VirtualMachine, build

    convert = _format(out_format)
    whole = specs.ModuleSpec.from_raw(spec, module)
    made, parameters, external = Exporter(debug=debug).build(whole)
    weights = _elements(parameters)
    for extern in external:
        extern.load()
    place = device(where)
    code = build(made, Target.from_device(place), relax_pipeline=pipeline)
    return CompiledModule(whole, VirtualMachine(code, place), weights, convert)


class CompiledModule:
    """The compiled methods of a module: ``model["forward"](x)``.

    Attributes:
        spec: what they take.
        vm: what runs them.
        params: the elements of the parameters.
        effects: the state of the effects, or None if there are none.
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
    """An argument of a method as the compiled function takes it.

    Raises:
        TypeError: it is of another kind.
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
            f"parameters have no elements: {', '.join(missing)}. Set their `data`."
        )
    return [data for _, data in known if data is not None]


def _torch(array: NDArray) -> Any:
    return import_module("torch").from_dlpack(array)


def _numpy(array: NDArray) -> np.ndarray:
    return np.from_dlpack(array)


_FORMATS: Mapping[str, Callable[[NDArray], Any]] = {"torch": _torch, "numpy": _numpy}


def _format(name: str) -> Callable[[NDArray], Any]:
    """What makes a result of an array.

    Raises:
        ValueError: there is no such format.
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
