"""Linking of a compiled model to one shared library with a C interface.

The library holds the code of several variants of the model for processors with different
features, their weights, and the native part of the runtime (``runtime/native/exported``).
"""

from __future__ import annotations

import ctypes
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template

import numpy as np

import relax_mlir.runtime
from relax_mlir.codegen import llvm_c
from relax_mlir.codegen.exported_weights import ALIGNMENT, write_weights
from relax_mlir.codegen.linker import LINK_OPTIONS, linker_command, run_tool
from relax_mlir.codegen.object_code import assemble
from relax_mlir.errors import CompileError
from relax_mlir.runtime.cpu_features import Machine
from relax_mlir.runtime.derived_constants import Derivation
from relax_mlir.runtime.elements import dlpack_numbers
from relax_mlir.runtime.signature import Parameter, Signature

__all__ = ["Variant", "c_header", "link_exported"]

_RUNTIME = Path(relax_mlir.runtime.__file__).with_name("exported_model.o")
_TVM_FFI = "__tvm_ffi_main"  # the function `main` of tvm-ffi's modules
_FUNCTIONS = ("signature", "error", "output_shapes", "run")
_FORMATS = {"x86_64": "elf64-x86-64", "aarch64": "elf64-littleaarch64"}
_TIMEOUT_S = 600.0


@dataclass(frozen=True)
class Variant:
    """A model that is compiled for one kind of processor.

    Attributes:
        objects: object files that define ``main`` and ``main_shapes``.
        machine: the processor, with the features that the code needs.
        signature: of ``main``; inputs and outputs are those of the other variants.
        constants: the weights by key, and those that they are derived from.
        derivations: of weights, by key.
        rules: schedule rules of its kernels, in order.
    """

    objects: tuple[bytes, ...]
    machine: Machine
    signature: Signature
    constants: Mapping[str, np.ndarray]
    derivations: Mapping[str, Derivation]
    rules: Sequence[str]


def link_exported(
    variants: Sequence[Variant],
    output: Path,
    soname: str,
    prefix: str,
    signature: str,
) -> None:
    """Write a shared library.

    Args:
        variants: the most demanding one first; all for the same system.
        output: the file.
        soname: the name by which programs that are linked with it look for it.
        prefix: of the names of its functions, a C identifier.
        signature: of the model in JSON, for callers.

    Raises:
        CompileError: there is no linker, or the code cannot be linked.
    """
    machine = variants[-1].machine
    command = linker_command(machine.triple)
    if command is None:
        raise CompileError(
            f"export: no linker of ELF files for {machine.triple} is installed. Hint: "
            "`pip install ziglang`, or install binutils or lld"
        )
    with tempfile.TemporaryDirectory(prefix="relax_mlir-export-") as name:
        folder = Path(name)
        weights = write_weights(variants, folder / "weights")
        _convert_weights(folder, machine.triple)
        objects = ["weights.o", _RUNTIME.as_posix()]
        for number, variant in enumerate(variants):
            objects.append(_merge(variant, number, folder, command))
        text = _description(variants, weights, signature)
        target = (machine.triple, machine.cpu, "", 0)
        (folder / "description.o").write_bytes(assemble(text, target))
        names = [f"{prefix}_{f}" for f in _FUNCTIONS]
        exported = [f"relax_mlir_{f}" for f in _FUNCTIONS]
        symbols = "; ".join([*names, *exported, _TVM_FFI])
        (folder / "exports").write_text(f"{{ global: {symbols}; local: *; }};\n")
        aliases = [
            f"--defsym={n}={e}" for n, e in zip(names, exported, strict=True) if n != e
        ]
        # Threads of the pool are in its code until the process ends, so it stays mapped.
        options = [*LINK_OPTIONS, *aliases, "--gc-sections", "--eh-frame-hdr"]
        options += ["-z", "nodelete"]
        options += ["-soname", soname, "--version-script=exports"]
        objects += ["description.o", *map(_system_library, ("libm.so.6", "libc.so.6"))]
        run_tool([*command, *options, "-o", str(output.absolute()), *objects], folder)


def _convert_weights(folder: Path, triple: str) -> None:
    section = ".rodata.weights"
    _objcopy(
        folder,
        *("-I", "binary", "-O", _FORMATS[triple.partition("-")[0]]),
        f"--rename-section=.data={section},alloc,load,readonly,data,contents",
        f"--set-section-alignment={section}={ALIGNMENT}",
        "--redefine-sym=_binary_weights_start=relax_mlir_weights",
        *("weights", "weights.o"),
    )


def _merge(variant: Variant, number: int, folder: Path, command: Sequence[str]) -> str:
    """Merge the objects of a variant to one, whose functions are local but for two."""
    names = [f"{number}.{n}.o" for n, _ in enumerate(variant.objects)]
    for name, data in zip(names, variant.objects, strict=True):
        (folder / name).write_bytes(data)
    merged, renamed = f"{number}.merged.o", f"{number}.o"
    run_tool([*command, "-r", "-o", merged, *names], folder)
    entries = {n: f"relax_mlir_{n}_{number}" for n in ("main", "main_shapes")}
    _objcopy(
        folder,
        *(f"--keep-global-symbol={old}" for old in entries),
        *(f"--redefine-sym={old}={new}" for old, new in entries.items()),
        *(merged, renamed),
    )
    return renamed


def _system_library(name: str) -> str:
    """The path of a library of the system.

    The linker takes the versions of symbols from it. Of references without a version, the
    loader takes the oldest one: of ``pthread_cond_signal``, one for another layout.
    """
    library = ctypes.CDLL(name)
    entry = ctypes.POINTER(_LinkMap)()
    if library.dlinfo(ctypes.c_void_p(library._handle), _LINK_MAP, ctypes.byref(entry)):
        raise CompileError(f"export: `{name}`: its path is unknown")
    return os.fsdecode(entry.contents.name)


class _LinkMap(ctypes.Structure):
    """The beginning of ``struct link_map`` of ``<link.h>``."""

    _fields_ = (("address", ctypes.c_void_p), ("name", ctypes.c_char_p))


_LINK_MAP = 2  # RTLD_DI_LINKMAP


def _objcopy(folder: Path, *arguments: str) -> None:
    tool = llvm_c.directory() / "bin" / "llvm-objcopy"
    run_tool([str(tool), *arguments], folder, _TIMEOUT_S)


def _description(
    variants: Sequence[Variant], weights: Sequence[Sequence[int]], signature: str
) -> str:
    """LLVM IR of the constants that ``native/exported/description.h`` declares."""
    lines = [
        f"@relax_mlir_signature_text = constant {_c_string(signature)}",
        f"@relax_mlir_variant_count = constant i64 {len(variants)}",
    ]
    rows: list[str] = []
    for number, (variant, table) in enumerate(zip(variants, weights, strict=True)):
        lines += [
            f"@relax_mlir_{function}_{number} = external global i8"
            for function in ("main", "main_shapes")
        ]
        features = ",".join(variant.machine.features)
        lines.append(f"@features{number} = private constant {_c_string(features)}")
        names, numbers = _encode(variant.signature)
        numbers += table
        for place, name in enumerate(names):
            lines.append(f"@name{number}.{place} = private constant {_c_string(name)}")
        pointers = ", ".join(f"ptr @name{number}.{p}" for p in range(len(names)))
        lines.append(
            f"@names{number} = private constant [{len(names)} x ptr] [{pointers}]"
        )
        values = ", ".join(f"i64 {n}" for n in numbers)
        lines.append(
            f"@numbers{number} = private constant [{len(numbers)} x i64] [{values}]"
        )
        fields = [f"features{number}", f"relax_mlir_main_{number}"]
        fields += [f"relax_mlir_main_shapes_{number}", f"numbers{number}"]
        fields.append(f"names{number}")
        rows.append(f"%variant {{ {', '.join(f'ptr @{f}' for f in fields)} }}")
    return "\n".join(
        [
            "%variant = type { ptr, ptr, ptr, ptr, ptr }",
            *lines,
            f"@relax_mlir_variants = constant [{len(rows)} x %variant] [{', '.join(rows)}]\n",
        ]
    )


def _c_string(text: str) -> str:
    data = text.encode() + b"\0"
    escaped = "".join(
        chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}" for b in data
    )
    return f'[{len(data)} x i8] c"{escaped}"'


def _encode(signature: Signature) -> tuple[list[str], list[int]]:
    """A signature as names and numbers, in the order of ``ReadModel``."""
    names, numbers = ["main"], list[int]()

    def add(parameters: Sequence[Parameter]) -> None:
        numbers.append(len(parameters))
        for name, dtype, dims in signature.native(parameters):
            names.append(name)
            numbers.extend([*dlpack_numbers(dtype), len(dims) // 2, *dims])

    add(signature.inputs)
    add(signature.outputs)
    sizes = [*signature.symbols, *signature.derived]
    names += sizes
    numbers += [len(sizes), len(signature.symbols), *signature.binders()]
    checks = signature.checks()
    numbers += [len(checks) // 5, *checks, *signature.size(signature.arena)]
    return names, numbers


def c_header(prefix: str, signature: Signature) -> str:
    """The header of an exported library."""
    template = Path(__file__).with_name("exported_library.h.template").read_text()
    names = {"prefix": prefix, "guard": f"{prefix.upper()}_H_"}
    return Template(template).substitute(
        names,
        inputs="\n".join(_listed(signature.inputs)),
        outputs="\n".join(_listed(signature.outputs)),
        input_count=len(signature.inputs),
        output_count=len(signature.outputs),
    )


def _listed(parameters: Sequence[Parameter]) -> Iterator[str]:
    for number, parameter in enumerate(parameters):
        text = re.sub(r"\*/|[\r\n]", "?", str(parameter))
        yield f" *   {number}: {text}"
