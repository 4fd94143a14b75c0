"""Compilation of modules in the LLVM dialect to object code.

Compilation uses LLVM's C API with ctypes. Unlike MLIR's execution engine it returns object
files, supports all targets of the wheel, is faster, and releases the GIL, so that kernels
compile in parallel.
"""

from __future__ import annotations

import ctypes
import functools
import re
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from ctypes import byref, c_void_p
from typing import TYPE_CHECKING, Any

from relax_mlir.codegen import (
    freeze_branch_indices,
    llvm_c,
    masked_loads,
    masked_stores,
)
from relax_mlir.errors import CompileError, near_misses
from relax_mlir.ir.traversal import own_operations
from relax_mlir.runtime.cpu_features import refused_features
from relax_mlir.runtime.machine_code import LOOKUP, MachineCode

if TYPE_CHECKING:
    from mlir import ir

__all__ = [
    "address_object",
    "assemble",
    "assembly",
    "check_target",
    "compile_object",
    "host_cpu",
    "machine_code",
]

_ASSEMBLY, _OBJECT = 0, 1  # LLVMCodeGenFileType
_RELOC_PIC = 2  # LLVMRelocMode
_CODE_MODEL_DEFAULT = 0  # LLVMCodeModel
_RETURN_STATUS = 2  # LLVMVerifierFailureAction
# Target-specific families of intrinsics -> prefixes of the triples that have them.
_INTRINSICS = {
    "aarch64": ("aarch64", "arm64"),
    "amdgcn": ("amdgcn",),
    "arm": ("arm", "thumb"),
    "nvvm": ("nvptx",),
    "x86": ("x86_64", "i386", "i686"),
}
_LIST_PASSES = ("-print-pipeline-passes", "-disable-output")
_LISTING_S = 60.0  # timeout of ``opt``
_VECTORIZER = "loop-vectorize<"
_VECTORIZING = re.compile("^default<O[23sz]>")
_ANALYSES = "require<globals-aa>,function(invalidate<aa>),require<profile-summary>"


def compile_object(
    module: ir.Module,
    *,
    triple: str,
    cpu: str,
    features: str,
    opt_level: int = 2,
    passes: str | None = None,
) -> bytes:
    """Compile a module in the LLVM dialect to a relocatable object file.

    Thread-safe, also for modules of one context; the GIL is released in LLVM. The module is
    not modified. LLVM still aborts the process for an intrinsic of the target that needs a
    feature which ``features`` lacks.

    Args:
        module: Functions and globals of the ``llvm`` dialect (and translatable operations
            in their bodies, such as ``nvvm``).
        triple: For instance ``x86_64-unknown-linux-gnu``.
        cpu: LLVM's name of a processor of the triple, for instance ``znver3``.
        features: Signed features, ``+avx2,-avx512f``; may be empty.
        opt_level: 0 to 3, for code generation and the default of ``passes``.
        passes: LLVM's pipeline text; ``default<O2>`` at level 2.

    Raises:
        ValueError: The triple, cpu, features or level is unknown to LLVM.
        CompileError: The module is invalid or has other dialects, or LLVM cannot compile
            it; with the text of MLIR's or LLVM's errors.
    """
    target = (triple, cpu, features, opt_level)
    return _generate(module, _OBJECT, target, passes)


def assembly(
    module: ir.Module,
    *,
    triple: str,
    cpu: str,
    features: str,
    opt_level: int = 2,
    passes: str | None = None,
) -> str:
    """Compile a module in the LLVM dialect to assembly text; PTX for an NVPTX triple.

    Args:
        module, triple, cpu, features, opt_level, passes: As for :func:`compile_object`.

    Raises:
        ValueError, CompileError: As for :func:`compile_object`.
    """
    target = (triple, cpu, features, opt_level)
    return _generate(module, _ASSEMBLY, target, passes).decode()


@functools.cache
def host_cpu() -> tuple[str, str, str]:
    """Triple, processor name and signed features of the host.

    Features that the operating system denies to this process are disabled.
    """
    triple, name, features = _system_cpu()
    refused = refused_features()
    signed = [f"-{f[1:]}" if f[1:] in refused else f for f in features.split(",")]
    return triple, name, ",".join(signed)


def _system_cpu() -> tuple[str, str, str]:
    """Triple, processor name and features as LLVM detects them."""
    llvm = llvm_c.llvm()
    names = (
        "LLVMGetDefaultTargetTriple",
        "LLVMGetHostCPUName",
        "LLVMGetHostCPUFeatures",
    )
    triple, cpu, features = (llvm_c.take_text(getattr(llvm, name)()) for name in names)
    return triple, cpu, features


def address_object(
    symbols: Sequence[str], *, triple: str, cpu: str, features: str
) -> bytes:
    """Compile an object that looks up addresses of symbols.

    The loader exposes only functions of tvm-ffi's calling convention. This object defines
    one that returns an entry of a table of addresses.

    Args:
        symbols: Names of functions or data defined by other objects.
        triple, cpu, features: Of those objects, as for :func:`compile_object`.

    Raises:
        ValueError: A symbol is not a plain C name, or the target is unknown.
    """
    for symbol in symbols:
        if not re.fullmatch(r"[A-Za-z_.$][\w.$]*", symbol):
            raise ValueError(f"`{symbol}`: not a symbol: expected a C name")
    names = dict.fromkeys(symbols)
    text = (
        "\n".join(f"@{name} = external global i8" for name in names)
        + f"""
@table = private constant [{len(symbols)} x ptr] [{", ".join(f"ptr @{s}" for s in symbols)}]
define i32 @__tvm_ffi_{LOOKUP}(ptr %self, ptr %args, i32 %count, ptr %result) {{
  %value = getelementptr i8, ptr %args, i64 8
  %index = load i64, ptr %value
  %entry = getelementptr ptr, ptr @table, i64 %index
  %address = load ptr, ptr %entry
  store i64 1, ptr %result
  %slot = getelementptr i8, ptr %result, i64 8
  store ptr %address, ptr %slot
  ret i32 0
}}
"""
    )
    return assemble(text, (triple, cpu, features, 0))


def machine_code(
    objects: Sequence[bytes],
    symbols: Sequence[str],
    target: tuple[str, str, str] | None = None,
) -> MachineCode:
    """Object files with the :func:`address_object` of their symbols.

    Args:
        target: triple, processor and features of the objects; by default the host's.
    """
    addresses = _address_object(tuple(symbols), *(target or host_cpu()))
    return MachineCode(objects=tuple(objects), addresses=addresses)


@functools.lru_cache(maxsize=64)
def _address_object(
    symbols: tuple[str, ...], triple: str, cpu: str, features: str
) -> bytes:
    return address_object(symbols, triple=triple, cpu=cpu, features=features)


_Target = tuple[str, str, str, int]  # triple, cpu, features, optimization level


def _generate(
    module: ir.Module, kind: int, target: _Target, passes: str | None
) -> bytes:
    check_target(*target)
    for op in own_operations(module.body):
        if not op.operation.name.startswith("llvm."):
            raise CompileError(
                f"`{op.operation.name}`: not in the LLVM dialect. Lower it first"
            )
    llvm = llvm_c.llvm()
    with ExitStack() as cleanup, llvm_c.llvm_context(cleanup) as context:
        llvm.LLVMContextSetDiscardValueNames(context, kind == _OBJECT)
        code = _translate(module, context)
        cleanup.callback(llvm.LLVMDisposeModule, code)
        return _emit(code, kind, target, passes or f"default<O{target[3]}>")


def assemble(text: str, target: tuple[str, str, str, int]) -> bytes:
    """Compile trusted LLVM IR text.

    Args:
        text: of a module.
        target: triple, processor, features and optimization level.
    """
    check_target(*target)
    with llvm_c.parsed(text) as code:
        return _emit(code, _OBJECT, target, "default<O0>")


def _translate(module: ir.Module, context: int) -> int:
    """Translate to an LLVM module, which the caller has to dispose of."""
    mlir = llvm_c.mlir()
    operation = llvm_c.operation_of(module)
    with llvm_c.mlir_errors(mlir.mlirOperationGetContext(operation)) as errors:
        if not mlir.mlirOperationVerify(operation):
            raise CompileError("\n".join(errors) or "the module is invalid")
        code = mlir.mlirTranslateModuleToLLVMIR(operation, context)
    if not code:
        raise CompileError("\n".join(errors) or "translation to LLVM IR failed")
    return code


def _emit(code: object, kind: int, target: _Target, passes: str) -> bytes:
    """Optimize an LLVM module in place, and generate code."""
    llvm = llvm_c.llvm()
    triple = target[0].encode()
    message, buffer = c_void_p(), c_void_p()
    with ExitStack() as cleanup:
        machine = _create_target_machine(*target)
        cleanup.callback(llvm.LLVMDisposeTargetMachine, machine)
        layout = llvm.LLVMCreateTargetDataLayout(machine)
        cleanup.callback(llvm.LLVMDisposeTargetData, layout)
        llvm.LLVMSetTarget(code, triple)
        llvm.LLVMSetModuleDataLayout(code, layout)
        failed = llvm.LLVMVerifyModule(code, _RETURN_STATUS, byref(message))
        text = llvm_c.take_text(message.value)
        if failed:
            raise CompileError(text)
        _check_intrinsics(code, target[0])
        _set_scheduling_model(code, target[1])
        options = llvm.LLVMCreatePassBuilderOptions()
        cleanup.callback(llvm.LLVMDisposePassBuilderOptions, options)
        for number, part in enumerate(_split_pipeline(passes, target[0])):
            if number:
                freeze_branch_indices.freeze_branch_phis(code)
            if error := llvm.LLVMRunPasses(code, part.encode(), machine, options):
                text = llvm.LLVMGetErrorMessage(error)
                cleanup.callback(llvm.LLVMDisposeErrorMessage, text)
                raise CompileError(f"`{passes}`: {ctypes.string_at(text).decode()}")
        masked_loads.legalize_bf16_masked_loads(code)
        masked_stores.scalarize_truncated_masked_stores(code)
        if llvm.LLVMTargetMachineEmitToMemoryBuffer(
            machine, code, kind, byref(message), byref(buffer)
        ):
            raise CompileError(llvm_c.take_text(message.value))
        cleanup.callback(llvm.LLVMDisposeMemoryBuffer, buffer)
        start = llvm.LLVMGetBufferStart(buffer)
        return ctypes.string_at(start, llvm.LLVMGetBufferSize(buffer))


_split_pipelines: dict[tuple[str, str], tuple[str, str]] = {}  # by pipeline and triple


def _split_pipeline(passes: str, triple: str) -> tuple[str, ...]:
    """Split a default pipeline before the loop vectorizer; others are not split.

    The C API cannot list the passes of ``default<O2>``; ``opt`` of the same wheel can, in
    20 ms. If the tool is missing or fails, ``default<O1>`` is used, which has no loop
    vectorizer: :mod:`freeze_branch_indices` has to run before that.
    """
    without_vectorizer = _VECTORIZING.sub("default<O1>", passes)
    if without_vectorizer == passes or triple.startswith("nvptx"):
        return (passes,)
    if (passes, triple) not in _split_pipelines:
        opt = llvm_c.directory() / "bin" / "opt"
        command = [opt, f"-mtriple={triple}", f"-passes={passes}", *_LIST_PASSES]
        options: dict[str, Any] = {"capture_output": True, "text": True, "check": True}
        try:
            listing = subprocess.run(command, input="", timeout=_LISTING_S, **options)
        except (OSError, subprocess.SubprocessError):
            return (without_vectorizer,)
        text = listing.stdout.strip().removesuffix(",verify")
        before, vectorizer, after = text.partition(f",{_VECTORIZER}")
        if not vectorizer:
            return (without_vectorizer,)
        rest = f"{_ANALYSES},function<eager-inv>({_VECTORIZER}{after}"
        _split_pipelines[passes, triple] = f"{before})", rest
    return _split_pipelines[passes, triple]


def _check_intrinsics(code: object, triple: str) -> None:
    """Reject intrinsics of other targets, for which code generation aborts the process."""
    for function in llvm_c.functions(code):
        name = llvm_c.name_of(function)
        family = name.split(".")[1] if name.startswith("llvm.") else None
        if family in _INTRINSICS and not triple.startswith(_INTRINSICS[family]):
            raise CompileError(f"`{name}`: not an intrinsic of {triple}")


# With LLVM's scheduling models of these CPUs, accumulators of large register tiles are
# spilled: docs/decisions/0019-scheduling-model.md.
_SCHEDULED_AS = {"znver4": "generic", "znver5": "generic"}


def _set_scheduling_model(code: object, cpu: str) -> None:
    """Override the instruction scheduling model of a CPU that is bad for register tiles."""
    if cpu not in _SCHEDULED_AS:
        return
    for function in llvm_c.functions(code):
        if llvm_c.llvm().LLVMCountBasicBlocks(function):
            llvm_c.llvm().LLVMAddTargetDependentFunctionAttr(
                function, b"tune-cpu", _SCHEDULED_AS[cpu].encode()
            )


def _create_target_machine(triple: str, cpu: str, features: str, opt_level: int) -> int:
    llvm = llvm_c.llvm()
    target = c_void_p(_find_target(triple))
    options = (opt_level, _RELOC_PIC, _CODE_MODEL_DEFAULT)
    names = (name.encode() for name in (triple, cpu, features))
    machine = llvm.LLVMCreateTargetMachine(target, *names, *options)
    if not machine:
        raise CompileError(f"`{triple}`: LLVM has no code generator for this target")
    return machine


def _find_target(triple: str) -> int | None:
    target, message = c_void_p(), c_void_p()
    if llvm_c.llvm().LLVMGetTargetFromTriple(
        triple.encode(), byref(target), byref(message)
    ):
        raise ValueError(llvm_c.take_text(message.value).strip())
    return target.value


@functools.lru_cache(maxsize=64)
def check_target(triple: str, cpu: str, features: str, opt_level: int) -> None:
    """Check a target for which LLVM would print to stderr or abort the process.

    Args:
        triple, cpu, features, opt_level: As for :func:`compile_object`.

    Raises:
        ValueError: The triple, cpu, features or level is unknown to LLVM.
    """
    if opt_level not in range(4):
        raise ValueError(f"optimization level: expected 0 to 3, got {opt_level}")
    if (triple, cpu, features) == host_cpu():
        return
    _find_target(triple)
    known_cpus, known_features = _known_names(triple)
    if cpu and cpu not in known_cpus:
        hint = near_misses(cpu, known_cpus)
        raise ValueError(f"`{cpu}`: no such processor for {triple}.{hint}")
    for feature in features.split(",") if features else ():
        if feature[:1] not in ("+", "-") or feature[1:] not in known_features:
            hint = near_misses(feature.lstrip("+-"), known_features)
            raise ValueError(
                f"`{feature}`: expected + or - and a feature of {triple}.{hint}"
            )


@functools.lru_cache(maxsize=16)
def _known_names(triple: str) -> tuple[frozenset[str], frozenset[str]]:
    """Names of the processors and features that LLVM supports for a triple.

    The C API cannot list them; ``llc`` of the same wheel can, in 15 ms.
    """
    llc = llvm_c.directory() / "bin" / "llc"
    command = [llc, f"-mtriple={triple}", "-mcpu=help", "-mattr=help"]
    listing = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
    )
    cpus, _, features = listing.stderr.partition("Available features")
    names = re.compile(r"^  (\S+) +- ", re.MULTILINE)
    return frozenset(names.findall(cpus)), frozenset(names.findall(features))
