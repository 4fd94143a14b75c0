"""Namespace ``I`` of scripts: modules."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any

from relax_mlir.errors import ArgumentTypeError, short_repr
from relax_mlir.objects.array_text import decode_array
from relax_mlir.objects.expr import Constant, GlobalVar
from relax_mlir.objects.expr.struct_info import VDevice
from relax_mlir.objects.global_info import DummyGlobalInfo
from relax_mlir.objects.prim import Range
from relax_mlir.support.argument_types import caller_of, check_exports
from relax_mlir.support.files import read_json_object
from relax_mlir.tvm.script.builder import ModuleFrame, current_frame, innermost_frame
from relax_mlir.tvm.script.parser.entry import parse_class
from relax_mlir.tvm.script.parser.function import MetaVar

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
    """The value of ``I.ir_module(...)``: a class decorator and a context manager."""

    def __init__(self, *, check_well_formed: bool) -> None:
        super().__init__()
        self._check_well_formed = check_well_formed

    def __call__(self, mod: type) -> Any:
        """Parses the class."""
        return self.parse(mod, _caller())

    def parse(self, mod: type, frame: FrameType) -> Any:
        """Parses a class that is defined in ``frame``."""
        if not inspect.isclass(mod):
            raise TypeError(f"I.ir_module: expected a class, got {short_repr(mod)}")
        return parse_class(mod, frame, check_well_formed=self._check_well_formed)


def _caller() -> FrameType:
    """Returns the frame of the caller's caller."""
    frame = inspect.currentframe()
    assert frame is not None
    return caller_of(caller_of(frame))


def ir_module(
    mod: type | None = None, check_well_formed: bool = True, s_tir: bool = False
) -> Any:
    """Parses a Python class as a module.

    Args:
        mod: the class; None if the decorator has arguments, or to build a module with
            ``with I.ir_module(): ...``.
        check_well_formed: whether to verify the module.
        s_tir: ignored: all PrimFuncs can be scheduled.

    Raises:
        ScriptError: the class is not a valid script.
    """
    decorator = _Decorator(check_well_formed=check_well_formed)
    if mod is None:
        return decorator
    return decorator.parse(mod, _caller())


def pyfunc(func: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a member of a module as a Python function, which is not parsed.

    Raises:
        ArgumentTypeError: ``func`` is not a Python function.
    """
    try:
        func.dispatch_token = "pyfunc"  # pyright: ignore[reportFunctionMemberAccess]
    except (AttributeError, TypeError):
        raise ArgumentTypeError(
            f"pyfunc: `func`: expected a Python function, got {short_repr(func)}"
        ) from None
    return func


pyfunc.dispatch_token = "pyfunc"  # pyright: ignore[reportFunctionMemberAccess]


def meta_var(value: Any) -> MetaVar:
    """Wraps a Python value that an assignment binds without emitting a binding."""
    return MetaVar(value)


def module_attrs(attrs: Mapping[str, Any], allow_overwrite: bool = False) -> None:
    """Sets attributes of the module."""
    frame = innermost_frame(ModuleFrame)
    if frame is not None:  # None while Python runs the class body, before parsing
        frame.attrs.update(attrs)


def module_get_attr(name: str) -> Any:
    """Returns an attribute of the module, or None."""
    return current_frame(ModuleFrame, "I.module_get_attr").attrs.get(name)


def module_set_attr(name: str, value: Any, allow_overwrite: bool = False) -> None:
    """Sets an attribute of the module.

    Raises:
        ValueError: the attribute is set already, and ``allow_overwrite`` is false.
    """
    attrs = current_frame(ModuleFrame, "I.module_set_attr").attrs
    if name in attrs and not allow_overwrite:
        raise ValueError(f"the module has an attribute `{name}` already")
    attrs[name] = value


def module_global_infos(infos: Mapping[str, Sequence[Any]]) -> None:
    """Sets global infos of the module: virtual devices, ..."""
    frame = innermost_frame(ModuleFrame)
    if frame is not None:  # None while Python runs the class body, before parsing
        frame.global_infos.update({n: list(values) for n, values in infos.items()})


def dummy_global_info() -> DummyGlobalInfo:
    """Makes a placeholder global info."""
    return DummyGlobalInfo()


def vdevice(
    target: Any = None, vdevice_id: int = 0, memory_scope: str = "global"
) -> VDevice:
    """Makes a virtual device."""
    return VDevice(target, vdevice_id, memory_scope)


def lookup_vdevice(target_kind: str = "vdevice", device_index: int = -1) -> VDevice:
    """Looks up a virtual device of the current module by its index, of one kind or of all.

    Raises:
        ValueError: the module has no such device.
    """
    frame = current_frame(ModuleFrame, "I.lookup_vdevice")
    return frame.vdevice(f"{target_kind}:{max(device_index, 0)}")


def decl_function(name: str, signature: Any) -> GlobalVar:
    """Declares a function of the module under construction."""
    frame = current_frame(ModuleFrame, "I.decl_function")
    variable = frame.declare(name, signature.struct_info_or_none())
    if getattr(signature, "name", None) is not None:
        frame.define(name, signature)
    return variable


def def_function(name: str, function: Any) -> None:
    """Defines a function of the module under construction."""
    current_frame(ModuleFrame, "I.def_function").define(name, function)


def load_metadata(text: str) -> dict[str, list[Constant]]:
    """Parses the constants of a printed script, which refers to them by number."""
    return {
        kind: [Constant(decode_array(entry)) for entry in entries]
        for kind, entries in read_json_object(text, "load_metadata").items()
    }


check_exports(globals())
