"""The stub driver, with kernels executed by the PTX emulator on its memory."""

import ctypes
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tests.ptx_emulator.launch import launch
from tests.ptx_emulator.memory import DeviceMemory
from tests.ptx_emulator.program import Program
from tests.ptx_emulator.text import parse

TARGET = "cuda:sm_90"

_Launched = ctypes.CFUNCTYPE(
    None,
    ctypes.c_char_p,
    ctypes.c_char_p,
    ctypes.POINTER(ctypes.c_uint),
    ctypes.POINTER(ctypes.c_uint),
    ctypes.c_uint,
    ctypes.POINTER(ctypes.c_void_p),
)


def build(folder: Path) -> Path:
    """Builds the stub driver; it has the driver's file name."""
    return _compiled("stub_driver.c", folder / "libcuda.so.1", "-pthread")


def build_library(name: str, driver: Path) -> Path:
    """Builds the stub of a library, such as ``cublaslt``, next to that of the driver."""
    library = driver.with_name(f"libstub_{name}.so")
    return _compiled(f"stub_{name}.c", library, str(driver), "-lm")


def _compiled(source: str, library: Path, *linked: str) -> Path:
    flags = ["-std=c11", "-D_XOPEN_SOURCE=700", "-O1", "-fPIC", "-shared"]
    files = ["-o", str(library), str(Path(__file__).with_name(source))]
    subprocess.run(["cc", *flags, *files, *linked], check=True)
    return library


class DriverLaunch(NamedTuple):
    """A kernel launch of the driver.

    Attributes:
        text: PTX of its module; grid, threads: extents along x, y and z.
        parameters: addresses of the arguments.
    """

    text: bytes
    kernel: str
    grid: tuple[int, ...]
    threads: tuple[int, ...]
    shared_bytes: int
    parameters: Sequence[int]


class Stub:
    """Control interface of the stub for tests."""

    def __init__(self, library: Path) -> None:
        self._library = ctypes.CDLL(str(library))
        self._library.stub_memory.argtypes = (ctypes.c_size_t,)
        self._library.stub_used.restype = ctypes.c_size_t
        self._library.stub_memory_at.restype = ctypes.c_void_p
        self._callback: object = None
        self.errors: list[BaseException] = []
        self.launched: list[str] = []

    def reset(self) -> None:
        self._library.stub_reset()
        self.errors.clear()
        self.launched.clear()

    def count(self, function: str) -> int:
        return self._library.stub_count(function.encode())

    def fail(self, function: str, error: int, nth: int = 1) -> None:
        self._library.stub_fail(function.encode(), nth, error)

    def device(self, count: int = 1, sm: int = 90) -> None:
        self._library.stub_device(count, sm)

    @property
    def overlapping(self) -> int:
        """Kernels that may have started before the previous one had completed."""
        return self._library.stub_overlapping()

    def driver_version(self, version: int) -> None:
        """The CUDA version that the driver reports: 12020 is 12.2."""
        self._library.stub_driver_version(version)

    def pointer_device(self, ordinal: int) -> None:
        """The device that pointer queries report."""
        self._library.stub_pointer_device(ordinal)

    def run(self, stream: int) -> None:
        """Runs all queued work of a stream."""
        assert self._library.stub_run(ctypes.c_void_p(stream)) == 0

    def run_all(self) -> None:
        """Runs all queued work of all streams."""
        self._library.stub_run_all()

    def free_at_once(self) -> None:
        """Frees memory without waiting for queued work, as the driver may.

        A later access by queued work or a kernel is a use after free.
        """
        self._library.stub_free_waits(0)

    @property
    def strays(self) -> int:
        return self._library.stub_strays()

    @property
    def used_bytes(self) -> int:
        return self._library.stub_used()

    def limit(self, size_bytes: int) -> None:
        self._library.stub_memory(size_bytes)

    def memory_at(self, address: int) -> tuple[int, np.ndarray] | None:
        """Start address and bytes of the allocation around an address; None if there is none."""
        size_bytes = ctypes.c_size_t()
        begin = self._library.stub_memory_at(
            ctypes.c_void_p(address), ctypes.byref(size_bytes)
        )
        if begin is None:
            return None
        memory_type = ctypes.c_uint8 * size_bytes.value
        return begin, np.ctypeslib.as_array(memory_type.from_address(begin))

    def on_launch(self, function: Callable[[DriverLaunch], None]) -> None:
        """Sets the function that runs kernels."""

        # ctypes' own types; Any is what a checker knows of them
        def call(text, name, grid, block, shared, parameters) -> None:  # pyright: ignore[reportMissingParameterType]
            try:
                self.launched.append(name.decode())
                extents = tuple(grid[:3]), tuple(block[:3])
                function(
                    DriverLaunch(text, name.decode(), *extents, shared, parameters)
                )
            except BaseException as error:  # no exception crosses C
                self.errors.append(error)

        self._callback = _Launched(call)
        self._library.stub_on_launch(self._callback)


class Emulation:
    """Emulates kernels on the stub's memory, from the PTX that the driver received."""

    def __init__(self, stub: Stub) -> None:
        self._stub = stub
        self._programs: dict[bytes, Program] = {}

    def run(self, started: DriverLaunch) -> None:
        """Runs a kernel."""
        program = self._programs.get(started.text)
        if program is None:
            program = parse(started.text.decode())
            self._programs[started.text] = program
        kernel = program.kernels[started.kernel]
        values = [
            ctypes.string_at(started.parameters[number], size)
            for number, (_, size) in enumerate(kernel.parameters)
        ]
        launch(
            program,
            started.kernel,
            started.grid,
            started.threads,
            started.shared_bytes,
            kernel.packed(values),
            DeviceMemory(self._stub.memory_at),
        )
