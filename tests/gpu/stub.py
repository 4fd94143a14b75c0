"""The stub driver of tests, and kernels that the emulator runs on its memory."""

import ctypes
import hashlib
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

from relax_mlir import compiler
from relax_mlir.compiler import lower, remaining, run_stage, target_of
from relax_mlir.emulator.host import emulate_launch
from relax_mlir.module import IRModule
from relax_mlir.runtime.cuda.archive import Contents
from relax_mlir.runtime.cuda.executable import CudaExecutable
from relax_mlir.runtime.cuda.plan import Launch, Pointer, TensorMap
from relax_mlir.targets import stages
from relax_mlir.units import Unit, split

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
    """Compile the stub; it is called as the driver is."""
    return _compiled("stub_driver.c", folder / "libcuda.so.1", "-pthread")


def build_library(name: str, driver: Path) -> Path:
    """Compile the stub of a library, such as ``cublaslt``, beside that of the driver."""
    library = driver.with_name(f"libstub_{name}.so")
    return _compiled(f"stub_{name}.c", library, str(driver), "-lm")


def _compiled(source: str, library: Path, *linked: str) -> Path:
    flags = ["-std=c11", "-D_XOPEN_SOURCE=700", "-O1", "-fPIC", "-shared"]
    files = ["-o", str(library), str(Path(__file__).with_name(source))]
    subprocess.run(["cc", *flags, *files, *linked], check=True)
    return library


class Stub:
    """What tests tell the stub, and ask it."""

    def __init__(self, library: Path) -> None:
        self._library = ctypes.CDLL(str(library))
        self._library.stub_memory.argtypes = (ctypes.c_size_t,)
        self._library.stub_used.restype = ctypes.c_size_t
        self._callback: object = None
        self.text = b""  # of the program whose kernel runs
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

    def pointer_device(self, ordinal: int) -> None:
        """The GPU that all addresses are on, if somebody asks."""
        self._library.stub_pointer_device(ordinal)

    def run(self, stream: int) -> None:
        """Do what is in the queue of a stream, now."""
        assert self._library.stub_run(ctypes.c_void_p(stream)) == 0

    def run_all(self) -> None:
        """Do what is in all queues, now."""
        self._library.stub_run_all()

    def free_at_once(self) -> None:
        """Give memory back without waiting for queued work, as the driver may.

        Work, or a kernel, that is touched too late is a stray.
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

    def on_launch(
        self, function: Callable[[str, tuple[int, ...], list[int]], None]
    ) -> None:
        """Let a function stand for kernels: name, grid, and addresses of parameters."""

        # ctypes' own types; Any is what a checker knows of them
        def call(text, name, grid, block, shared, parameters) -> None:  # pyright: ignore[reportMissingParameterType]
            try:
                self.text = text
                self.launched.append(name.decode())
                function(name.decode(), tuple(grid[:3]), parameters)
            except BaseException as error:  # no exception crosses C
                self.errors.append(error)

        self._callback = _Launched(call)
        self._library.stub_on_launch(self._callback)


_Key: TypeAlias = tuple[str, str]


class Emulation:
    """Kernels of compiled models, run thread by thread on the stub's memory."""

    def __init__(self, stub: Stub) -> None:
        self._stub = stub
        # By the text of a program, and the name of a kernel in it.
        self._kernels: dict[_Key, tuple[Launch, int, Unit]] = {}
        self._modules: dict[str, IRModule] = {}
        self._policies: tuple[str, str] = ("f32", "never")

    def learn(
        self,
        model: CudaExecutable,
        source: IRModule,
        precision: str = "f32",
        library: str = "never",
    ) -> None:
        """Know the kernels of a model, and what they were made of.

        Args:
            precision, library: that it was compiled with.
        """
        self._policies = precision, library
        planned = lower(source, target=TARGET, to="planned", precision=precision)
        units = [unit for unit in split(planned) if unit.programs]
        self._learn(model.contents, units)

    def learn_all(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Know the kernels of all models that are compiled from now on."""
        make = compiler._contents

        def contents(module: IRModule, units: Sequence[Unit], *rest: Any) -> Contents:
            made = make(module, units, *rest)
            self._learn(made, units)
            return made

        monkeypatch.setattr(compiler, "_contents", contents)

    def _learn(self, contents: Contents, units: Sequence[Unit]) -> None:
        programs = contents.plan.programs[: len(units)]
        texts = contents.ptx[: len(units)]
        for unit, program, text in zip(units, programs, texts, strict=True):
            launches = [n for n in program.launches if isinstance(n, Launch)]
            for number, launch in enumerate(launches):
                self._kernels[_digest(text), launch.kernel] = launch, number, unit

    def run(self, name: str, grid: tuple[int, ...], parameters: list[int]) -> None:
        """Do what a kernel does."""
        launch, number, unit = self._kernels[_digest(self._stub.text), name]
        addresses: dict[tuple[str, int], int] = {}
        sizes: dict[str, int] = {}
        for place, argument in enumerate(launch.arguments):
            # Of a descriptor too: the stub begins it with the tensor's address.
            value = ctypes.c_uint64.from_address(parameters[place]).value
            if isinstance(argument, TensorMap):
                argument = argument.pointer
            if isinstance(argument, Pointer):
                assert argument.offset_bytes == 0
                addresses[argument.base, argument.number] = value
            elif isinstance(argument, str):
                sizes[argument] = value

        def memory(role: str, number: int, size_bytes: int) -> np.ndarray | None:
            address = addresses.get((role, number))
            if address is None:
                return None
            assert address % 16 == 0
            memory_type = ctypes.c_uint8 * size_bytes
            return np.ctypeslib.as_array(memory_type.from_address(address))

        module = self._at_loops(unit.text)
        emulate_launch(module, unit.symbol, number, grid, sizes, memory)

    def _at_loops(self, text: str) -> IRModule:
        if text not in self._modules:
            module = IRModule.parse(text)
            for stage in remaining(module, stages(target_of(TARGET), *self._policies)):
                run_stage(module, stage)
                if stage.level == "loops":
                    break
            self._modules[text] = module
        return self._modules[text]


def _digest(ptx: bytes) -> str:
    return hashlib.sha256(ptx.rstrip(b"\0")).hexdigest()
