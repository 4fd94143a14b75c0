"""ctypes bindings of LLVM's and MLIR's C API, on the libraries of the wheels.

Long calls release the GIL, short ones keep it: reacquiring it may take 5 ms while another
thread computes. Errors that the libraries would print, or abort the process with, become
:class:`CompileError`.
"""

from __future__ import annotations

import ctypes
import functools
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_uint, c_ulonglong, c_void_p
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from relax_mlir.errors import CompileError

if TYPE_CHECKING:
    from mlir import ir

__all__ = [
    "MlirObject",
    "builder",
    "calls_of",
    "directory",
    "functions",
    "llvm",
    "llvm_context",
    "mlir",
    "mlir_errors",
    "name_of",
    "operation_of",
    "parsed",
    "take_text",
    "users",
]

_TARGETS = ("X86", "AArch64", "NVPTX")
_TARGET_PARTS = ("TargetInfo", "Target", "TargetMC", "AsmPrinter", "AsmParser")
_SEVERITY_ERROR = 0  # LLVMDiagnosticSeverity

_DiagnosticHandler = ctypes.CFUNCTYPE(None, c_void_p, c_void_p)

# Calls that release the GIL: long ones, and those that take a lock of MLIR that another
# thread may hold while it waits for the GIL in a diagnostic handler.
_WITHOUT_GIL = {
    "LLVMContextDispose",
    "LLVMDisposeModule",
    "LLVMParseIRInContext",
    "LLVMRunPasses",
    "LLVMTargetMachineEmitToMemoryBuffer",
    "LLVMVerifyModule",
    "mlirContextAttachDiagnosticHandler",
    "mlirContextDetachDiagnosticHandler",
    "mlirOperationVerify",
    "mlirTranslateModuleToLLVMIR",
}

# Functions of LLVM's C API: name -> (result, parameters). Strings allocated by LLVM are
# c_void_p, as ctypes would copy a c_char_p and drop the pointer that must be freed.
_LLVM_FUNCTIONS = {
    "LLVMAddTargetDependentFunctionAttr": (None, (c_void_p, c_char_p, c_char_p)),
    "LLVMBuildBitCast": (c_void_p, (c_void_p, c_void_p, c_void_p, c_char_p)),
    "LLVMBuildCall2": (
        c_void_p,
        (c_void_p, c_void_p, c_void_p, POINTER(c_void_p), c_uint, c_char_p),
    ),
    "LLVMBuildExtractElement": (c_void_p, (c_void_p, c_void_p, c_void_p, c_char_p)),
    "LLVMBuildFreeze": (c_void_p, (c_void_p, c_void_p, c_char_p)),
    "LLVMBuildGEP2": (
        c_void_p,
        (c_void_p, c_void_p, c_void_p, POINTER(c_void_p), c_uint, c_char_p),
    ),
    "LLVMBuildStore": (c_void_p, (c_void_p, c_void_p, c_void_p)),
    "LLVMConstInt": (c_void_p, (c_void_p, c_ulonglong, c_int)),
    "LLVMConstIntGetZExtValue": (c_ulonglong, (c_void_p,)),
    "LLVMContextCreate": (c_void_p, ()),
    "LLVMContextDispose": (None, (c_void_p,)),
    "LLVMContextSetDiagnosticHandler": (None, (c_void_p, _DiagnosticHandler, c_void_p)),
    "LLVMContextSetDiscardValueNames": (None, (c_void_p, c_int)),
    "LLVMCountBasicBlocks": (c_uint, (c_void_p,)),
    "LLVMCountIncoming": (c_uint, (c_void_p,)),
    "LLVMCreateBuilderInContext": (c_void_p, (c_void_p,)),
    "LLVMCreateMemoryBufferWithMemoryRangeCopy": (
        c_void_p,
        (c_char_p, c_size_t, c_char_p),
    ),
    "LLVMCreatePassBuilderOptions": (c_void_p, ()),
    "LLVMCreateTargetDataLayout": (c_void_p, (c_void_p,)),
    "LLVMCreateTargetMachine": (
        c_void_p,
        (c_void_p, c_char_p, c_char_p, c_char_p, c_int, c_int, c_int),
    ),
    "LLVMDisposeBuilder": (None, (c_void_p,)),
    "LLVMDisposeErrorMessage": (None, (c_void_p,)),
    "LLVMDisposeMemoryBuffer": (None, (c_void_p,)),
    "LLVMDisposeMessage": (None, (c_void_p,)),
    "LLVMDisposeModule": (None, (c_void_p,)),
    "LLVMDisposePassBuilderOptions": (None, (c_void_p,)),
    "LLVMDisposeTargetData": (None, (c_void_p,)),
    "LLVMDisposeTargetMachine": (None, (c_void_p,)),
    "LLVMGetAggregateElement": (c_void_p, (c_void_p, c_uint)),
    "LLVMGetBasicBlockTerminator": (c_void_p, (c_void_p,)),
    "LLVMGetBufferSize": (c_size_t, (c_void_p,)),
    "LLVMGetBufferStart": (c_void_p, (c_void_p,)),
    "LLVMGetDefaultTargetTriple": (c_void_p, ()),
    "LLVMGetDiagInfoDescription": (c_void_p, (c_void_p,)),
    "LLVMGetDiagInfoSeverity": (c_int, (c_void_p,)),
    "LLVMGetElementType": (c_void_p, (c_void_p,)),
    "LLVMGetErrorMessage": (c_void_p, (c_void_p,)),
    "LLVMGetFirstBasicBlock": (c_void_p, (c_void_p,)),
    "LLVMGetFirstFunction": (c_void_p, (c_void_p,)),
    "LLVMGetFirstInstruction": (c_void_p, (c_void_p,)),
    "LLVMGetFirstUse": (c_void_p, (c_void_p,)),
    "LLVMGetHostCPUFeatures": (c_void_p, ()),
    "LLVMGetHostCPUName": (c_void_p, ()),
    "LLVMGetInstructionOpcode": (c_int, (c_void_p,)),
    "LLVMGetInstructionParent": (c_void_p, (c_void_p,)),
    "LLVMGetIntrinsicDeclaration": (
        c_void_p,
        (c_void_p, c_uint, POINTER(c_void_p), c_size_t),
    ),
    "LLVMGetModuleContext": (c_void_p, (c_void_p,)),
    "LLVMGetNextBasicBlock": (c_void_p, (c_void_p,)),
    "LLVMGetNextFunction": (c_void_p, (c_void_p,)),
    "LLVMGetNextInstruction": (c_void_p, (c_void_p,)),
    "LLVMGetNextUse": (c_void_p, (c_void_p,)),
    "LLVMGetNumSuccessors": (c_uint, (c_void_p,)),
    "LLVMGetOperand": (c_void_p, (c_void_p, c_uint)),
    "LLVMGetSuccessor": (c_void_p, (c_void_p, c_uint)),
    "LLVMGetTargetFromTriple": (
        c_int,
        (c_char_p, POINTER(c_void_p), POINTER(c_void_p)),
    ),
    "LLVMGetTypeKind": (c_int, (c_void_p,)),
    "LLVMGetUser": (c_void_p, (c_void_p,)),
    "LLVMGetValueName2": (c_void_p, (c_void_p, POINTER(c_size_t))),
    "LLVMGetVectorSize": (c_uint, (c_void_p,)),
    "LLVMGlobalGetValueType": (c_void_p, (c_void_p,)),
    "LLVMInstructionEraseFromParent": (None, (c_void_p,)),
    "LLVMInt16TypeInContext": (c_void_p, (c_void_p,)),
    "LLVMInt64TypeInContext": (c_void_p, (c_void_p,)),
    "LLVMIsAConstantInt": (c_void_p, (c_void_p,)),
    "LLVMIsAInstruction": (c_void_p, (c_void_p,)),
    "LLVMIsConstant": (c_int, (c_void_p,)),
    "LLVMLookupIntrinsicID": (c_uint, (c_char_p, c_size_t)),
    "LLVMParseIRInContext": (
        c_int,
        (c_void_p, c_void_p, POINTER(c_void_p), POINTER(c_void_p)),
    ),
    "LLVMPositionBuilderBefore": (None, (c_void_p, c_void_p)),
    "LLVMReplaceAllUsesWith": (None, (c_void_p, c_void_p)),
    "LLVMRunPasses": (c_void_p, (c_void_p, c_char_p, c_void_p, c_void_p)),
    "LLVMSetAlignment": (None, (c_void_p, c_uint)),
    "LLVMSetInstrParamAlignment": (None, (c_void_p, c_uint, c_uint)),
    "LLVMSetModuleDataLayout": (None, (c_void_p, c_void_p)),
    "LLVMSetOperand": (None, (c_void_p, c_uint, c_void_p)),
    "LLVMSetTarget": (None, (c_void_p, c_char_p)),
    "LLVMTargetMachineEmitToMemoryBuffer": (
        c_int,
        (c_void_p, c_void_p, c_int, POINTER(c_void_p), POINTER(c_void_p)),
    ),
    "LLVMTypeOf": (c_void_p, (c_void_p,)),
    "LLVMVectorType": (c_void_p, (c_void_p, c_uint)),
    "LLVMVerifyModule": (c_int, (c_void_p, c_int, POINTER(c_void_p))),
}


class MlirObject(ctypes.Structure):
    """A handle of MLIR's C API, passed by value: operation, context, location, diagnostic."""

    _fields_ = (("pointer", c_void_p),)


class _MlirString(ctypes.Structure):
    """``MlirStringRef``."""

    _fields_ = (("data", c_void_p), ("length", c_size_t))


_MlirStringCallback = ctypes.CFUNCTYPE(None, _MlirString, c_void_p)
# The result is a struct of one byte, returned like a byte.
_MlirDiagnosticHandler = ctypes.CFUNCTYPE(ctypes.c_int8, c_void_p, c_void_p)

_MLIR_FUNCTIONS = {
    "mlirContextAttachDiagnosticHandler": (
        ctypes.c_uint64,
        (MlirObject, _MlirDiagnosticHandler, c_void_p, c_void_p),
    ),
    "mlirContextDetachDiagnosticHandler": (None, (MlirObject, ctypes.c_uint64)),
    "mlirDiagnosticGetLocation": (MlirObject, (MlirObject,)),
    "mlirDiagnosticPrint": (None, (MlirObject, _MlirStringCallback, c_void_p)),
    "mlirLocationPrint": (None, (MlirObject, _MlirStringCallback, c_void_p)),
    "mlirOperationGetContext": (MlirObject, (MlirObject,)),
    "mlirOperationVerify": (ctypes.c_bool, (MlirObject,)),
    "mlirTranslateModuleToLLVMIR": (c_void_p, (MlirObject, c_void_p)),
}


def operation_of(module: ir.Module) -> MlirObject:
    """The C handle of a module's operation; the module must outlive it."""
    mlir()  # declares the functions of Python's C API
    capsule = module.operation._CAPIPtr
    name = ctypes.pythonapi.PyCapsule_GetName(capsule)
    return MlirObject(ctypes.pythonapi.PyCapsule_GetPointer(capsule, name))


@contextmanager
def llvm_context(cleanup: ExitStack) -> Iterator[int]:
    """An LLVM context whose errors are raised at the end of the ``with`` block.

    Without a diagnostic handler, LLVM prints an error (such as an unknown instruction in
    inline assembly) and exits the process.

    Args:
        cleanup: Disposes of the context when it is closed.

    Raises:
        CompileError: LLVM reported errors within the block; with their text.
    """
    library = llvm()
    errors: list[str] = []

    def collect(diagnostic: int, _: object) -> None:
        if library.LLVMGetDiagInfoSeverity(diagnostic) == _SEVERITY_ERROR:
            errors.append(take_text(library.LLVMGetDiagInfoDescription(diagnostic)))

    handler = _DiagnosticHandler(collect)
    context = library.LLVMContextCreate()
    cleanup.callback(library.LLVMContextDispose, context)
    library.LLVMContextSetDiagnosticHandler(context, handler, None)
    yield context
    if errors:
        raise CompileError("\n".join(errors))


@contextmanager
def parsed(text: str) -> Iterator[c_void_p]:
    """The LLVM module parsed from text, in a context of its own.

    Raises:
        CompileError: The text is invalid, or LLVM reported an error while it was open.
    """
    library, source = llvm(), text.encode()
    with ExitStack() as cleanup, llvm_context(cleanup) as context:
        buffer = library.LLVMCreateMemoryBufferWithMemoryRangeCopy(
            source, len(source), b"ir"
        )
        code, message = c_void_p(), c_void_p()
        # Takes ownership of the buffer, also on failure.
        if library.LLVMParseIRInContext(
            context, buffer, ctypes.byref(code), ctypes.byref(message)
        ):
            raise CompileError(take_text(message.value))
        cleanup.callback(library.LLVMDisposeModule, code)
        yield code


@contextmanager
def mlir_errors(context: MlirObject) -> Iterator[list[str]]:
    """Collect the diagnostics of this thread's calls, instead of printing them.

    The handlers of the Python bindings touch Python objects without the GIL.
    """
    library = mlir()
    errors: list[str] = []
    thread = threading.get_ident()

    def collect(pointer: int, _: object) -> int:
        if threading.get_ident() != thread:
            return 0  # failure(): left to the thread that compiles in this context
        diagnostic = MlirObject(pointer)
        location = library.mlirDiagnosticGetLocation(diagnostic)
        where = _printed(library.mlirLocationPrint, location)
        errors.append(f"{where}: {_printed(library.mlirDiagnosticPrint, diagnostic)}")
        return 1

    handler = _MlirDiagnosticHandler(collect)
    number = library.mlirContextAttachDiagnosticHandler(context, handler, None, None)
    try:
        yield errors
    finally:
        library.mlirContextDetachDiagnosticHandler(context, number)


def _printed(print_object: Callable[..., None], value: MlirObject) -> str:
    """The output of one of MLIR's print functions."""
    parts: list[bytes] = []

    def write(text: _MlirString, _: object) -> None:
        parts.append(ctypes.string_at(text.data, text.length))

    print_object(value, _MlirStringCallback(write), None)
    return b"".join(parts).decode(errors="replace")


def take_text(text: int | None) -> str:
    """Copy and free a string allocated by LLVM."""
    if not text:
        return ""
    copy = ctypes.string_at(text).decode(errors="replace")
    llvm().LLVMDisposeMessage(text)
    return copy


def directory() -> Path:
    """The installation folder of the LLVM wheel, with ``bin`` and ``lib``."""
    import llvm

    return Path(next(iter(llvm.__path__)))


@functools.cache
def llvm() -> SimpleNamespace:
    """LLVM's C API with declared signatures and initialized targets."""
    path = directory() / "lib" / _library_name("LLVM")
    library = ctypes.CDLL(str(path))
    for target in _TARGETS:
        for part in _TARGET_PARTS:
            # NVPTX has no AsmParser.
            if initialize := getattr(library, f"LLVMInitialize{target}{part}", None):
                initialize()
    return _declare(path, _LLVM_FUNCTIONS)


def functions(code: object) -> Iterator[c_void_p]:
    """All functions of an LLVM module, including declarations."""
    function = llvm().LLVMGetFirstFunction(code)
    while function:
        yield c_void_p(function)
        function = llvm().LLVMGetNextFunction(c_void_p(function))


def users(value: c_void_p) -> Iterator[c_void_p]:
    """The users of an LLVM value, one per use; uses must not change during iteration."""
    use = llvm().LLVMGetFirstUse(value)
    while use:
        yield c_void_p(llvm().LLVMGetUser(c_void_p(use)))
        use = llvm().LLVMGetNextUse(c_void_p(use))


def calls_of(code: object, name: re.Pattern[str]) -> list[c_void_p]:
    """The calls in an LLVM module of the functions whose full names match."""
    called = [f for f in functions(code) if name.fullmatch(name_of(f))]
    return [call for function in called for call in users(function)]


@contextmanager
def builder(code: object) -> Iterator[c_void_p]:
    """An IR builder for an LLVM module."""
    context = c_void_p(llvm().LLVMGetModuleContext(code))
    handle = c_void_p(llvm().LLVMCreateBuilderInContext(context))
    try:
        yield handle
    finally:
        llvm().LLVMDisposeBuilder(handle)


def name_of(value: c_void_p) -> str:
    """The name of a global value, such as a function."""
    length = c_size_t()
    data = llvm().LLVMGetValueName2(value, ctypes.byref(length))
    return ctypes.string_at(data, length.value).decode()


@functools.cache
def mlir() -> SimpleNamespace:
    """MLIR's C API with declared signatures, for calls that must release the GIL."""
    from mlir import _mlir_libs

    python = ctypes.pythonapi
    python.PyCapsule_GetName.restype = c_char_p
    python.PyCapsule_GetName.argtypes = (ctypes.py_object,)
    python.PyCapsule_GetPointer.restype = c_void_p
    python.PyCapsule_GetPointer.argtypes = (ctypes.py_object, c_char_p)
    libraries = Path(next(iter(_mlir_libs.__path__)))
    return _declare(libraries / _library_name("MLIRPythonCAPI"), _MLIR_FUNCTIONS)


def _library_name(stem: str) -> str:
    return f"lib{stem}.{'dylib' if sys.platform == 'darwin' else 'so'}"


def _declare(
    path: Path, functions: Mapping[str, tuple[Any, tuple[Any, ...]]]
) -> SimpleNamespace:
    with_gil, without_gil = ctypes.PyDLL(str(path)), ctypes.CDLL(str(path))
    declared = SimpleNamespace()
    for name, (result, parameters) in functions.items():
        function = getattr(without_gil if name in _WITHOUT_GIL else with_gil, name)
        function.restype, function.argtypes = result, parameters
        setattr(declared, name, function)
    return declared
