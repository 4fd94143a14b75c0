"""ELF files in memory: their symbols, and paths to map them by."""

from __future__ import annotations

import itertools
import os
import platform
import struct
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import IO, BinaryIO

from relax_mlir.errors import CompileError

__all__ = ["as_file", "check_segments", "symbols_of"]

_MACHINES = {"x86_64": 62, "aarch64": 183}  # e_machine


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


def symbols_of(objects: Sequence[bytes]) -> tuple[set[str], set[str]]:
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


def _elf_symbols(data: bytes) -> Iterator[tuple[str, bool]]:
    """Global symbols of a 64-bit little-endian ELF object, and whether it defines them.

    Weak references are omitted, as they may stay undefined. Source: System V ABI, ELF-64.
    """
    machine = _MACHINES.get(platform.machine())
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
