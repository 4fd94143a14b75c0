"""Machine code of compiled models, and its loading into this process.

A saved model holds a shared library, which the system's loader maps. Code that was compiled in
this process, or saved where no linker was found, is object files. LLVM's JIT linker
(``apache-tvm-ffi-orcjit``) loads those, without MLIR and LLVM itself.
"""

from __future__ import annotations

import _ctypes
import ctypes
import itertools
import os
import platform
import struct
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import IO, BinaryIO

from relax_mlir.errors import CompileError
from relax_mlir.runtime.cpu import load_library
from relax_mlir.support.hooks import Hook

__all__ = [
    "LINK",
    "LOOKUP",
    "MachineCode",
    "as_file",
    "check_segments",
    "load_code",
]

LOOKUP = "relax_mlir_addresses"  # of tvm-ffi's calling convention, in `addresses`
_ELF_MACHINES = {"x86_64": 62, "aarch64": 183}  # e_machine


@dataclass(frozen=True)
class MachineCode:
    """Machine code for one machine.

    Attributes:
        library: a shared library; empty if the code is not linked.
        objects: relocatable object files; none if it is.
        addresses: an object file with a function that looks up addresses of symbols of
            the others (:func:`relax_mlir.codegen.object_code.address_object`).
    """

    library: bytes = b""
    objects: tuple[bytes, ...] = ()
    addresses: bytes = b""

    @property
    def size_bytes(self) -> int:
        """Size of the code."""
        return len(self.library) + sum(map(len, self.objects))


# Links objects to a shared library with the given symbols; None if no linker is found.
LINK: Hook[Callable[[MachineCode, str, Sequence[str]], MachineCode | None]] = Hook(
    "runtime.link"
)


def load_code(
    code: MachineCode, symbols: Sequence[str]
) -> tuple[object, Mapping[str, int]]:
    """Load code, and look up addresses of its symbols.

    Code calls libc, libm, tvm-ffi and the native runtime library. Symbols of one code are
    invisible to another.

    Returns:
        The loaded code, which must outlive all uses of the addresses, and the address of
        each symbol.

    Raises:
        CompileError: a symbol is undefined, or the code is corrupt.
    """
    if not code.library:
        return _load_objects(code.objects, symbols, code.addresses)
    load_library()
    try:
        library = _Library(code.library)
        return library, {name: library.address(name) for name in symbols}
    except (OSError, AttributeError) as error:
        raise CompileError(f"loading compiled code: {error}") from error


class _Library:
    """A shared library in memory; unloaded with the last reference."""

    def __init__(self, data: bytes) -> None:
        with as_file(data) as path:
            self._library = ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_LOCAL)
        end = weakref.finalize(self, _ctypes.dlclose, self._library._handle)
        end.atexit = False  # threads may still be inside

    def address(self, symbol: str) -> int:
        """The address of a symbol.

        Raises:
            AttributeError: it is undefined.
        """
        address = ctypes.cast(getattr(self._library, symbol), ctypes.c_void_p).value
        assert address is not None
        return address


@contextmanager
def as_file(data: bytes) -> Iterator[str]:
    """A new path of a file with some contents: in memory if the system allows it.

    For a path that was loaded before, the loader returns the library of that time.
    """
    with ExitStack() as stack:
        try:
            descriptor = os.memfd_create("relax_mlir")
            file: IO[bytes] = stack.enter_context(os.fdopen(descriptor, "wb"))
            path = _descriptor_path(descriptor)
        except (AttributeError, OSError):  # no Linux, or denied
            named = stack.enter_context(tempfile.NamedTemporaryFile(suffix=".so"))
            file, path = named.file, named.name  # mode 0600
        file.write(data)
        file.flush()
        yield path


_numbers = itertools.count()


def _descriptor_path(descriptor: int) -> str:
    """A new path of an open file, which spells a number in folders that change nothing.

    Raises:
        OSError: files are not reachable by descriptors.
    """
    folders = "".join("./" if bit == "0" else ".//" for bit in f"{next(_numbers):b}")
    path = f"/proc/self/{folders}fd/{descriptor}"
    os.stat(path)
    return path


def _load_objects(
    objects: Sequence[bytes], symbols: Sequence[str], addresses: bytes
) -> tuple[object, Mapping[str, int]]:
    """Link object files in this process, and look up addresses of their symbols.

    Args:
        objects: relocatable object files for this machine.
        symbols: C symbols that they define.
        addresses: as in :class:`MachineCode`, of these symbols.

    Returns:
        As :func:`load_code`.

    Raises:
        CompileError: a symbol is undefined or multiply defined, an object is corrupt, or
            the JIT linker is missing.
    """
    try:
        import tvm_ffi_orcjit
    except ImportError as error:
        raise CompileError(
            "loading compiled code: it is object files, which need the package "
            "`apache-tvm-ffi-orcjit`. Hint: `pip install relax-mlir-runtime[objects]`, or "
            "save the model where a linker is installed"
        ) from error
    _check_symbols(objects, symbols)
    try:
        # The loader runs the C++ compiler to find its runtime library, which our objects
        # do not need; os.devnull as compiler fails at once.
        library = tvm_ffi_orcjit.default_session().load_module(
            [*objects, addresses], cxx=os.devnull
        )
        address = library[LOOKUP]
    except (RuntimeError, AttributeError) as error:
        raise CompileError(f"loading compiled code: {error}") from error
    return library, {symbol: address(index) for index, symbol in enumerate(symbols)}


def _check_symbols(objects: Sequence[bytes], symbols: Sequence[str]) -> None:
    """Report undefined symbols, which the loader prints to stderr only."""
    if not all(data.startswith(b"\x7fELF") for data in objects):
        return  # Mach-O: left to the loader
    defined, undefined = _symbols(objects)
    if absent := [f"`{name}`" for name in symbols if name not in defined]:
        raise CompileError(f"no object defines {', '.join(absent)}")
    missing = _not_in_process(undefined)
    if missing:
        load_library()
        missing = _not_in_process(missing)
    if missing:
        names = ", ".join(f"`{name}`" for name in sorted(missing))
        raise CompileError(f"compiled code calls undefined functions: {names}")


def check_segments(file: BinaryIO) -> None:
    """Check that a 64-bit little-endian ELF file is complete: mapping more of it ends the process.

    Raises:
        ValueError: it is not.
    """
    header = file.read(64)
    size = file.seek(0, os.SEEK_END)
    try:
        offset, entry, count = struct.unpack_from("<32xQ14xHH", header)
        file.seek(offset)
        table = file.read(entry * count)
        for number in range(count):
            begin, length = struct.unpack_from("<8xQ16xQ", table, number * entry)
            if begin + length > size:
                raise ValueError(f"expected {begin + length} bytes or more, got {size}")
    except (struct.error, OSError) as error:
        raise ValueError(f"the header is damaged: {error}") from error


def _symbols(objects: Sequence[bytes]) -> tuple[set[str], set[str]]:
    """The symbols that ELF objects define, and those that none of them does.

    Raises:
        CompileError: an object is corrupt, or for another machine.
    """
    defined: set[str] = set()
    used: set[str] = set()
    try:
        for data in objects:
            for name, is_defined in _elf_symbols(data):
                (defined if is_defined else used).add(name)
    except (struct.error, IndexError, ValueError) as error:
        raise CompileError(f"an object is corrupt: {error}") from error
    return defined, used - defined


def _not_in_process(names: set[str]) -> set[str]:
    process = ctypes.CDLL(None)
    made_by_loader = {"_GLOBAL_OFFSET_TABLE_", "__dso_handle"}
    return {n for n in names if n not in made_by_loader and not hasattr(process, n)}


def _elf_symbols(data: bytes) -> Iterator[tuple[str, bool]]:
    """Global symbols of a 64-bit little-endian ELF object, and whether it defines them.

    Weak references are omitted, as they may stay undefined. Source: System V ABI, ELF-64.
    """
    machine = _ELF_MACHINES.get(platform.machine())
    (object_machine,) = struct.unpack_from("<18xH", data)
    if machine is not None and object_machine != machine:
        raise CompileError(
            f"an object is for another machine: expected ELF machine {machine} "
            f"({platform.machine()}), got {object_machine}"
        )
    sections_offset, size, count = struct.unpack_from("<40xQ10xHH", data)[0:3]
    sections = [
        struct.unpack_from("<IIQQQQIIQQ", data, sections_offset + i * size)
        for i in range(count)
    ]
    for _, kind, _, _, offset, length, link, _, _, entry in sections:
        if kind != 2:  # SHT_SYMTAB
            continue
        strings = sections[link][4]
        for position in range(offset + entry, offset + length, entry):
            name, info, _, index = struct.unpack_from("<IBBH", data, position)
            binding, is_defined = info >> 4, index != 0
            if binding == 1 or (binding == 2 and is_defined):  # STB_GLOBAL, STB_WEAK
                end = data.index(b"\0", strings + name)
                yield data[strings + name : end].decode(), is_defined
