"""Calls the functions of a compiled module by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from relax_mlir.errors import CompileError, RunError
from relax_mlir.relax.vm.executable import Code, VMExecutable, in_order
from relax_mlir.relax.vm.host_values import to_value
from relax_mlir.relax.vm.staged_model import StagedModel
from relax_mlir.relax.vm.timing import Timing, time_calls
from relax_mlir.runtime.compiled_model import CompiledModel
from relax_mlir.runtime.ndarray import Device, cpu
from relax_mlir.runtime.ndarray import device as as_device

__all__ = ["VirtualMachine"]


class VirtualMachine:
    """Calls the functions of an executable: ``VirtualMachine(ex, cpu())["main"](x)``.

    Args:
        rt_mod: what ``build`` made, or an executable of :func:`relax_mlir.compile`.
        device: where it runs, or a list of which the first is taken.

    Raises:
        TypeError: ``rt_mod`` is something else.
        CompileError: this machine has no such device.
    """

    def __init__(
        self,
        rt_mod: Any,
        device: Device | Sequence[Device] | None = None,
        memory_cfg: object = None,
        profile: bool = False,
    ) -> None:
        if isinstance(rt_mod, StagedModel):
            rt_mod = rt_mod.executable
        if isinstance(rt_mod, CompiledModel):
            rt_mod = VMExecutable({"main": Code.of(rt_mod)})
        if not isinstance(rt_mod, VMExecutable):
            raise TypeError(
                "`VirtualMachine`: expected what `relax.build` made, got "
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
            arguments = in_order(name, function.params, args, named)
            return function.call(*map(to_value, arguments))

        call.__name__ = name
        return call

    def invoke_closure(self, closure: Callable[..., Any], *args: Any) -> Any:
        """Call a function that was given as a value."""
        return to_value(closure(*map(to_value, args)))

    def set_input(self, func_name: str, *args: Any, **named: Any) -> None:
        """Keep the inputs of a function for ``invoke_stateful``."""
        params = self.module.function(func_name).params
        self._inputs[func_name] = in_order(func_name, params, args, named)

    def invoke_stateful(self, func_name: str) -> None:
        """Call a function with the inputs that were set.

        Raises:
            ValueError: none were set.
        """
        if func_name not in self._inputs:
            raise ValueError(f"`{func_name}`: expected `set_input` before the call")
        arguments = map(to_value, self._inputs[func_name])
        self._outputs[func_name] = self.module.function(func_name).call(*arguments)

    def get_outputs(self, func_name: str) -> Any:
        """What the last ``invoke_stateful`` of a function gave.

        Raises:
            ValueError: there was none.
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
        """Give a function with its arguments a name of its own.

        Args:
            func_name: the function.
            saved_name: the name.
            args, named: the arguments.
            include_return: whether a call gives what the function gives.
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
        """A function that calls ``func_name`` often and tells how long it takes.

        Args:
            func_name: a function of the module, or ``invoke_stateful``, which then takes
                the function's name.
            dev: without effect: it runs where the machine does.
            number: calls per repetition.
            repeat: how many repetitions.
        """
        is_own = func_name == "invoke_stateful"
        function = self.invoke_stateful if is_own else self[func_name]
        return time_calls(function, _first_of(self.device), number, repeat)


def _first_of(where: Device | Sequence[Device] | str) -> Device:
    """The device, or the first of several.

    Raises:
        CompileError: this machine has no such device.
    """
    first = as_device(where if isinstance(where, (Device, str)) else where[0])
    if not first.exist:
        raise CompileError(
            f"`VirtualMachine`: device `{first}`: expected a device of this machine, "
            "such as `cpu()`"
        )
    return first
