"""Virtual machine: calls the functions of an executable by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from relax_mlir.errors import CompileError, RunError
from relax_mlir.runtime.compiled_model import CompiledModel
from relax_mlir.runtime.host.instructions import to_value
from relax_mlir.runtime.host.jit_model import JITModel
from relax_mlir.runtime.host.timing import Timing, time_calls
from relax_mlir.runtime.host.vm_executable import (
    NativeFunction,
    VMExecutable,
    bind_arguments,
)
from relax_mlir.runtime.ndarray import Device, cpu
from relax_mlir.runtime.ndarray import device as as_device

__all__ = ["VirtualMachine"]


class VirtualMachine:
    """Virtual machine of an executable: ``VirtualMachine(ex, cpu())["main"](x)``.

    Args:
        rt_mod: a result of ``build``, or of :func:`relax_mlir.compile`.
        device: to run on, or a list whose first element is used.

    Raises:
        TypeError: ``rt_mod`` has another type.
        CompileError: this machine lacks the device.
    """

    def __init__(
        self,
        rt_mod: Any,
        device: Device | Sequence[Device] | None = None,
        memory_cfg: object = None,
        profile: bool = False,
    ) -> None:
        if isinstance(rt_mod, JITModel):
            rt_mod = rt_mod.executable
        if isinstance(rt_mod, CompiledModel):
            rt_mod = VMExecutable({"main": NativeFunction.of(rt_mod)})
        if not isinstance(rt_mod, VMExecutable):
            raise TypeError(
                "`VirtualMachine`: expected a result of `relax.build`, got "
                f"{type(rt_mod).__name__}"
            )
        self.device = device or cpu()
        self.module = rt_mod.on(_first_of(self.device))
        self._inputs: dict[str, tuple[Any, ...]] = {}
        self._outputs: dict[str, Any] = {}
        self._saved: dict[str, Callable[..., Any]] = {}

    def __repr__(self) -> str:
        return f"<VirtualMachine of {self.module!r}>"

    def __getitem__(self, name: str) -> Callable[..., Any]:
        if name in self._saved:
            return self._saved[name]
        function = self.module.function(name)

        def call(*args: Any, **named: Any) -> Any:
            if name in self._inputs and not (args or named):
                raise RunError(
                    f"`{name}`: its inputs are set: expected `invoke_stateful`, or "
                    "arguments"
                )
            arguments = bind_arguments(name, function.params, args, named)
            return function.call(*map(to_value, arguments))

        call.__name__ = name
        return call

    def invoke_closure(self, closure: Callable[..., Any], *args: Any) -> Any:
        """Call a closure."""
        return to_value(closure(*map(to_value, args)))

    def set_input(self, func_name: str, *args: Any, **named: Any) -> None:
        """Set the inputs of a function for ``invoke_stateful``."""
        params = self.module.function(func_name).params
        self._inputs[func_name] = bind_arguments(func_name, params, args, named)

    def invoke_stateful(self, func_name: str) -> None:
        """Call a function with the inputs of ``set_input``.

        Raises:
            ValueError: no inputs are set.
        """
        if func_name not in self._inputs:
            raise ValueError(f"`{func_name}`: expected `set_input` before the call")
        arguments = map(to_value, self._inputs[func_name])
        self._outputs[func_name] = self.module.function(func_name).call(*arguments)

    def get_outputs(self, func_name: str) -> Any:
        """Outputs of the last ``invoke_stateful`` of a function.

        Raises:
            ValueError: there was no such call.
        """
        if func_name not in self._outputs:
            raise ValueError(f"`{func_name}`: expected `invoke_stateful` before")
        return self._outputs[func_name]

    def save_function(
        self,
        func_name: str,
        saved_name: str,
        *args: Any,
        include_return: bool = True,
        **named: Any,
    ) -> None:
        """Save a function with bound arguments under a new name.

        Args:
            func_name: the function.
            saved_name: the new name.
            args, named: the arguments.
            include_return: whether a call returns the result of the function.
        """
        function = self[func_name]

        def call() -> Any:
            result = function(*args, **named)
            return result if include_return else None

        self._saved[saved_name] = call

    def time_evaluator(
        self,
        func_name: str,
        dev: object = None,
        number: int = 10,
        repeat: int = 1,
        **options: Any,
    ) -> Callable[..., Timing]:
        """A function that measures the run time of ``func_name``.

        Args:
            func_name: a function of the module, or ``invoke_stateful``, whose argument is
                the function's name.
            dev: ignored: the device of the virtual machine is used.
            number: calls per repetition.
            repeat: number of repetitions.
        """
        is_own = func_name == "invoke_stateful"
        function = self.invoke_stateful if is_own else self[func_name]
        return time_calls(function, _first_of(self.device), number, repeat)


def _first_of(device: Device | Sequence[Device] | str) -> Device:
    """The device, or the first of several.

    Raises:
        CompileError: this machine lacks the device.
    """
    first = as_device(device if isinstance(device, (Device, str)) else device[0])
    if not first.exist:
        raise CompileError(
            f"`VirtualMachine`: device `{first}`: expected a device of this machine, "
            "such as `cpu()`"
        )
    return first
