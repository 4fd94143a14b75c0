# pyright: strict, reportMissingTypeStubs=false, reportUnknownMemberType=false
"""Execution of a pass manager through MLIR's C API.

``PassManager.run`` of the bindings aborts the process if a pass reports an error and still
succeeds, or if an error is reported without the GIL.
"""

import ctypes
import functools
import sys
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
    """A handle of the C API, passed by value."""

    _fields_ = (("pointer", c_void_p),)


class _Text(ctypes.Structure):
    """``MlirStringRef``."""

    _fields_ = (("data", c_void_p), ("length", c_size_t))


_Write = ctypes.CFUNCTYPE(None, _Text, c_void_p)
_Handler = ctypes.CFUNCTYPE(c_int8, c_void_p, c_void_p)
_Delete = ctypes.CFUNCTYPE(None, c_void_p)


def run_pass_manager(manager: PassManager, module: ir.OpView) -> list[str] | None:
    """Run a pass manager on a module; multithreading of its context must be disabled.

    The GIL is held: releasing it does not make compilation measurably faster, because
    most of the time is spent in Python and in LLVM, and would permit data races between
    threads that share a context.

    Returns:
        The reported errors, ``location: message`` each; None on success.
    """
    errors: list[str] = []

    def collect(pointer: int, _: object) -> int:
        diagnostic = _Object(pointer)
        if _function("mlirDiagnosticGetSeverity")(diagnostic) != _SEVERITY_ERROR:
            return _NOT_HANDLED
        location = _Object(_function("mlirDiagnosticGetLocation")(diagnostic))
        where = _printed("mlirLocationPrint", location)
        errors.append(f"{where}: {_printed('mlirDiagnosticPrint', diagnostic)}")
        return _HANDLED

    context = _Object(_pointer(module.context._CAPIPtr))
    handler = _Handler(collect)
    attach = _function("mlirContextAttachDiagnosticHandler")
    attached = attach(context, handler, None, _Delete())
    try:
        succeeded = _function("mlirPassManagerRunOnOp")(
            _Object(_pointer(manager._CAPIPtr)),
            _Object(_pointer(module.operation._CAPIPtr)),
        )
    finally:
        _function("mlirContextDetachDiagnosticHandler")(context, attached)
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
def _function(name: str) -> Callable[..., Any]:
    suffix = "dylib" if sys.platform == "darwin" else "so"
    folder = Path(next(iter(_mlir_libs.__path__)))
    library = ctypes.PyDLL(str(folder / f"libMLIRPythonCAPI.{suffix}"))
    function = getattr(library, name)
    function.restype, function.argtypes = _SIGNATURES[name]
    return function


_name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(
    ("PyCapsule_GetName", ctypes.pythonapi)
)
_pointer_in = ctypes.PYFUNCTYPE(c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def _pointer(capsule: Any) -> int:
    """The C++ pointer in a capsule of the bindings."""
    return _pointer_in(capsule, _name_of(capsule))


def _printed(function: str, value: _Object) -> str:
    """The output of one of MLIR's printing functions."""
    parts: list[bytes] = []

    def write(text: _Text, _: object) -> None:
        parts.append(ctypes.string_at(text.data, text.length))

    _function(function)(value, _Write(write), None)
    return b"".join(parts).decode(errors="replace")
