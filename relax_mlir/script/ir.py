"""Modules in scripts: the namespace ``I``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any

from relax_mlir.argument_types import caller_of, check_exports
from relax_mlir.errors import ArgumentTypeError, shown
from relax_mlir.files import read_json_object
from relax_mlir.objects.array_text import read_array
from relax_mlir.objects.expr import Constant, GlobalVar
from relax_mlir.objects.global_info import DummyGlobalInfo
from relax_mlir.objects.prim import Range
from relax_mlir.objects.struct_info import VDevice
from relax_mlir.script.builder import ModuleFrame, current_frame, innermost_frame
from relax_mlir.script.parser.entry import parse_class
from relax_mlir.script.parser.function import MetaVar

__all__ = [
    "DummyGlobalInfo",
    "GlobalVar",
    "Range",
    "decl_function",
    "def_function",
    "dummy_global_info",
    "ir_module",
    "load_metadata",
    "lookup_vdevice",
    "meta_var",
    "module_attrs",
    "module_get_attr",
    "module_global_infos",
    "module_set_attr",
    "pyfunc",
    "vdevice",
]


class _Decorator(ModuleFrame):
    """What ``I.ir_module(...)`` gives: a decorator, or a frame for ``with``."""

    def __init__(self, *, check_well_formed: bool) -> None:
        super().__init__()
        self._check_well_formed = check_well_formed

    def __call__(self, mod: type) -> Any:
        """Parse the class."""
        return self.parse(mod, _caller())

    def parse(self, mod: type, frame: FrameType) -> Any:
        """Parse a class that is defined in ``frame``."""
        if not inspect.isclass(mod):
            raise TypeError(f"I.ir_module: expected a class, got {shown(mod)}")
        return parse_class(mod, frame, check_well_formed=self._check_well_formed)


def _caller() -> FrameType:
    """The frame that called who calls this."""
    frame = inspect.currentframe()
    assert frame is not None
    return caller_of(caller_of(frame))


def ir_module(
    mod: type | None = None, check_well_formed: bool = True, s_tir: bool = False
) -> Any:
    """Make a module of a Python class that is written as a script.

    Args:
        mod: the class; None if the decorator is written with arguments, or to write a
            module inside of ``with I.ir_module(): ...``.
        check_well_formed: whether to check what its functions compute.
        s_tir: of no effect: all tensor programs may be scheduled.

    Raises:
        ScriptError: it is no such script.
    """
    decorator = _Decorator(check_well_formed=check_well_formed)
    if mod is None:
        return decorator
    return decorator.parse(mod, _caller())


def pyfunc(func: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a Python function of a module: it is kept as it is.

    Raises:
        ArgumentTypeError: it is no function that was written in Python.
    """
    try:
        func.dispatch_token = "pyfunc"  # pyright: ignore[reportFunctionMemberAccess]
    except (AttributeError, TypeError):
        raise ArgumentTypeError(
            f"pyfunc: `func`: expected a function of Python, got {shown(func)}"
        ) from None
    return func


pyfunc.dispatch_token = "pyfunc"  # pyright: ignore[reportFunctionMemberAccess]


def meta_var(value: Any) -> MetaVar:
    """A Python value that an assignment in a script leaves as it is."""
    return MetaVar(value)


def module_attrs(attrs: Mapping[str, Any], allow_overwrite: bool = False) -> None:
    """Give the module its attributes."""
    frame = innermost_frame(ModuleFrame)
    if frame is not None:  # else Python runs the class before it is parsed
        frame.attrs.update(attrs)


def module_get_attr(name: str) -> Any:
    """An attribute of the module, or None."""
    return current_frame(ModuleFrame, "I.module_get_attr").attrs.get(name)


def module_set_attr(name: str, value: Any, allow_overwrite: bool = False) -> None:
    """Give the module an attribute.

    Raises:
        ValueError: it has it already.
    """
    attrs = current_frame(ModuleFrame, "I.module_set_attr").attrs
    if name in attrs and not allow_overwrite:
        raise ValueError(f"the module has an attribute `{name}` already")
    attrs[name] = value


def module_global_infos(infos: Mapping[str, Sequence[Any]]) -> None:
    """Say what the functions refer to by number: devices, ..."""
    frame = innermost_frame(ModuleFrame)
    if frame is not None:  # else Python runs the class before it is parsed
        frame.global_infos.update({n: list(values) for n, values in infos.items()})


def dummy_global_info() -> DummyGlobalInfo:
    """What functions may refer to that is nothing."""
    return DummyGlobalInfo()


def vdevice(
    target: Any = None, vdevice_id: int = 0, memory_scope: str = "global"
) -> VDevice:
    """A device that tensors live on."""
    return VDevice(target, vdevice_id, memory_scope)


def lookup_vdevice(target_kind: str = "vdevice", device_index: int = -1) -> VDevice:
    """A device of the open module: the one with a number, of all or of one kind.

    Raises:
        ValueError: the module has no such device.
    """
    frame = current_frame(ModuleFrame, "I.lookup_vdevice")
    return frame.vdevice(f"{target_kind}:{max(device_index, 0)}")


def decl_function(name: str, signature: Any) -> GlobalVar:
    """Say that the open module will have a function."""
    frame = current_frame(ModuleFrame, "I.decl_function")
    variable = frame.declare(name, signature.struct_info_or_none())
    if getattr(signature, "name", None) is not None:
        frame.define(name, signature)
    return variable


def def_function(name: str, function: Any) -> None:
    """Say what a function of the open module is."""
    current_frame(ModuleFrame, "I.def_function").define(name, function)


def load_metadata(text: str) -> dict[str, list[Constant]]:
    """The arrays that a printed script refers to by number."""
    return {
        kind: [Constant(read_array(entry)) for entry in entries]
        for kind, entries in read_json_object(text, "load_metadata").items()
    }


check_exports(globals())
