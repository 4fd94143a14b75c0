# pyright: strict, reportMissingTypeStubs=false, reportUnknownMemberType=false
"""Running a pass manager through MLIR's C API.

``PassManager.run`` of the bindings ends the process when a pass reports an error and
succeeds all the same, and when an error is reported without the GIL.
"""

import ctypes
import functools
import sys
import threading
from collections.abc import Callable
from ctypes import c_int8, c_size_t, c_uint64, c_void_p
from pathlib import Path
from typing import Any  # capsules, and function pointers of ctypes

from mlir import _mlir_libs, ir
from mlir.passmanager import PassManager

__all__ = ["run_pass_manager"]

_SEVERITY_ERROR = 0  # MlirDiagnosticError
_NOT_HANDLED, _HANDLED = 0, 1  # MlirLogicalResult, a struct of one byte


class _Object(ctypes.Structure):
    """Any handle of the C API: passed by value."""

    _fields_ = (("pointer", c_void_p),)


class _Text(ctypes.Structure):
    """``MlirStringRef``."""

    _fields_ = (("data", c_void_p), ("length", c_size_t))


_Write = ctypes.CFUNCTYPE(None, _Text, c_void_p)
_Handler = ctypes.CFUNCTYPE(c_int8, c_void_p, c_void_p)
_Delete = ctypes.CFUNCTYPE(None, c_void_p)


def run_pass_manager(
    manager: PassManager, module: ir.OpView, *, release_gil: bool
) -> list[str] | None:
    """Run all passes of ``manager``.

    Args:
        manager: the passes; of the context of ``module``, whose own threads are off.
        module: what to change.
        release_gil: whether other threads may run meanwhile. They must leave the
            context alone: it is not locked.

    Returns:
        What is wrong, ``location: message`` each; None if all went well.
    """
    errors: list[str] = []
    thread = threading.get_ident()

    def collect(pointer: int, _: object) -> int:
        diagnostic = _Object(pointer)
        if threading.get_ident() != thread:
            return _NOT_HANDLED
        if _function("mlirDiagnosticGetSeverity")(diagnostic) != _SEVERITY_ERROR:
            return _NOT_HANDLED
        location = _Object(_function("mlirDiagnosticGetLocation")(diagnostic))
        where = _printed("mlirLocationPrint", location)
        errors.append(f"{where}: {_printed('mlirDiagnosticPrint', diagnostic)}")
        return _HANDLED

    context = _Object(_pointer(module.context._CAPIPtr))
    handler = _Handler(collect)
    attached = _function("mlirContextAttachDiagnosticHandler", release_gil=True)(
        context, handler, None, _Delete()
    )
    try:
        succeeded = _function("mlirPassManagerRunOnOp", release_gil=release_gil)(
            _Object(_pointer(manager._CAPIPtr)),
            _Object(_pointer(module.operation._CAPIPtr)),
        )
    finally:
        detach = _function("mlirContextDetachDiagnosticHandler", release_gil=True)
        detach(context, attached)
    return errors if errors or not succeeded else None


_SIGNATURES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "mlirContextAttachDiagnosticHandler": (
        c_uint64,
        (_Object, _Handler, c_void_p, _Delete),
    ),
    "mlirContextDetachDiagnosticHandler": (None, (_Object, c_uint64)),
    "mlirDiagnosticGetLocation": (c_void_p, (_Object,)),
    "mlirDiagnosticGetSeverity": (ctypes.c_int, (_Object,)),
    "mlirDiagnosticPrint": (None, (_Object, _Write, c_void_p)),
    "mlirLocationPrint": (None, (_Object, _Write, c_void_p)),
    "mlirPassManagerRunOnOp": (c_int8, (_Object, _Object)),
}


@functools.cache
def _function(name: str, *, release_gil: bool = False) -> Callable[..., Any]:
    suffix = "dylib" if sys.platform == "darwin" else "so"
    folder = Path(next(iter(_mlir_libs.__path__)))
    path = str(folder / f"libMLIRPythonCAPI.{suffix}")
    library = ctypes.CDLL(path) if release_gil else ctypes.PyDLL(path)
    function = getattr(library, name)
    function.restype, function.argtypes = _SIGNATURES[name]
    return function


def _pointer(capsule: Any) -> int:
    """The C++ object behind a handle of the bindings."""
    name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(
        ("PyCapsule_GetName", ctypes.pythonapi)
    )
    get = ctypes.PYFUNCTYPE(c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    return get(capsule, name(capsule))


def _printed(function: str, value: _Object) -> str:
    """What one of MLIR's printing functions writes."""
    parts: list[bytes] = []

    def write(text: _Text, _: object) -> None:
        parts.append(ctypes.string_at(text.data, text.length))

    _function(function)(value, _Write(write), None)
    return b"".join(parts).decode(errors="replace")
