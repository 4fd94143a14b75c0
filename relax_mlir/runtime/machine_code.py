"""Machine code of compiled models, and its loading into this process.

A saved model holds a shared library, which the system's loader maps. Code that was compiled in
this process, or saved where no linker was found, is object files. LLVM's JIT linker
(``apache-tvm-ffi-orcjit``) loads those, without MLIR and LLVM itself.
"""

from __future__ import annotations

import _ctypes
import ctypes
import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from relax_mlir.errors import CompileError
from relax_mlir.runtime.cpu import load_library
from relax_mlir.runtime.elf import as_file, symbols_of
from relax_mlir.support.hooks import Hook

__all__ = [
    "LINK",
    "LOOKUP",
    "MachineCode",
    "load_code",
]

LOOKUP = "relax_mlir_addresses"  # of tvm-ffi's calling convention, in `addresses`


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
    defined, undefined = symbols_of(objects)
    if absent := [f"`{name}`" for name in symbols if name not in defined]:
        raise CompileError(f"no object defines {', '.join(absent)}")
    missing = _not_in_process(undefined)
    if missing:
        load_library()
        missing = _not_in_process(missing)
    if missing:
        names = ", ".join(f"`{name}`" for name in sorted(missing))
        raise CompileError(f"compiled code calls undefined functions: {names}")


def _not_in_process(names: set[str]) -> set[str]:
    process = ctypes.CDLL(None)
    made_by_loader = {"_GLOBAL_OFFSET_TABLE_", "__dso_handle"}
    return {n for n in names if n not in made_by_loader and not hasattr(process, n)}
