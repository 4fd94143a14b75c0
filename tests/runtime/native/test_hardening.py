"""The native library as it is shipped: what its ELF headers say."""

import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from relax_mlir.runtime import cpu

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads ELF")

_LOAD, _DYNAMIC, _STACK, _RELRO = 1, 2, 0x6474E551, 0x6474E552
_EXECUTABLE = 1
_NEEDED, _STRTAB, _SYMTAB, _STRSZ, _RPATH, _RUNPATH = 1, 5, 6, 10, 15, 29
_TEXTREL, _BIND_NOW, _FLAGS, _FLAGS_1 = 22, 24, 30, 0x6FFFFFFB
_DF_BIND_NOW, _DF_1_NOW = 8, 1


class Segment(NamedTuple):
    kind: int
    flags: int
    offset: int
    address: int
    size_bytes: int


class Elf:
    """A 64-bit little-endian ELF file."""

    def __init__(self, data: bytes) -> None:
        assert data[:6] == b"\x7fELF\2\1"
        self.data = data
        (start,) = struct.unpack_from("<Q", data, 32)
        size, count = struct.unpack_from("<HH", data, 54)
        self.segments = [self._segment(start + n * size) for n in range(count)]
        self.dynamic = list(self._dynamic())

    def _segment(self, place: int) -> Segment:
        kind, flags, offset, address, _, size = struct.unpack_from(
            "<IIQQQQ", self.data, place
        )
        return Segment(kind, flags, offset, address, size)

    def _dynamic(self) -> Iterator[tuple[int, int]]:
        (table,) = (s for s in self.segments if s.kind == _DYNAMIC)
        for place in range(table.offset, table.offset + table.size_bytes, 16):
            yield struct.unpack_from("<qQ", self.data, place)

    def values(self, tag: int) -> list[int]:
        return [value for found, value in self.dynamic if found == tag]

    def names(self, tag: int) -> list[str]:
        """Texts that entries of the dynamic section point to."""
        return [self._text(value) for value in self.values(tag)]

    def has_flag(self, tag: int, flag: int) -> bool:
        return any(value & flag for value in self.values(tag))

    def undefined_symbols(self) -> set[str]:
        """Names that the library takes from others; its symbol table ends where names begin."""
        (symbols,), (strings,) = self.values(_SYMTAB), self.values(_STRTAB)
        found: set[str] = set()
        for place in range(self._offset(symbols), self._offset(strings), 24):
            name, _, _, section = struct.unpack_from("<IBBH", self.data, place)
            if not section:
                found.add(self._text(name))
        return found

    def _offset(self, address: int) -> int:
        for s in self.segments:
            if s.kind == _LOAD and s.address <= address < s.address + s.size_bytes:
                return address - s.address + s.offset
        raise ValueError(f"no segment has {address:#x}")

    def _text(self, name: int) -> str:
        start = self._offset(self.values(_STRTAB)[0]) + name
        return self.data[start : self.data.index(0, start)].decode()


@pytest.fixture(scope="module")
def library() -> Elf:
    return Elf(Path(cpu.library_path()).read_bytes())


def test_what_the_loader_has_resolved_is_read_only(library: Elf) -> None:
    """Full RELRO: all symbols are resolved at once, and their table is then protected."""
    assert _RELRO in {segment.kind for segment in library.segments}
    assert library.has_flag(_FLAGS, _DF_BIND_NOW) or library.values(_BIND_NOW)
    assert library.has_flag(_FLAGS_1, _DF_1_NOW)
    assert not library.values(_TEXTREL)


def test_no_memory_is_both_written_and_executed(library: Elf) -> None:
    (stack,) = (s for s in library.segments if s.kind == _STACK)
    assert not stack.flags & _EXECUTABLE
    assert all(s.flags & 3 != 3 for s in library.segments if s.kind == _LOAD)


def test_no_path_of_the_building_machine_is_searched(library: Elf) -> None:
    assert library.names(_RPATH) == []
    assert library.names(_RUNPATH) == ["$ORIGIN/../../tvm_ffi/lib"]
    assert "libtvm_ffi.so" in library.names(_NEEDED)


def test_no_path_of_the_building_machine_is_told(library: Elf) -> None:
    for path in (Path(__file__).parents[3], Path(sys.prefix)):
        assert f"{path}/".encode() not in library.data


def test_overruns_end_the_process(library: Elf) -> None:
    """Stack protectors and fortified functions are called."""
    undefined = library.undefined_symbols()
    assert "__stack_chk_fail" in undefined
    assert any(s.startswith("__") and s.endswith("_chk") for s in undefined)


def test_the_reader_of_elf_agrees_with_readelf(library: Elf) -> None:
    try:
        command = ["readelf", "-dW", cpu.library_path()]
        printed = subprocess.run(command, capture_output=True, text=True, check=True)
    except FileNotFoundError:
        pytest.skip("needs readelf")
    for name in (*library.names(_NEEDED), *library.names(_RUNPATH), "BIND_NOW"):
        assert name in printed.stdout
