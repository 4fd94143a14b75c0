"""Executables for CPUs: object code, weights and signature of a compiled model."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np

from relax_mlir.errors import CompileError, OutOfMemoryError, UnknownNameError
from relax_mlir.runtime import cpu, guard, registry
from relax_mlir.runtime.archive import (
    Contents,
    read_archive,
    write_archive,
)
from relax_mlir.runtime.compiled_model import CompiledModel
from relax_mlir.runtime.cpu_features import Machine
from relax_mlir.runtime.derived_constants import Derivation
from relax_mlir.runtime.machine_code import LINK, MachineCode, load_code
from relax_mlir.runtime.model_file import ModelFile
from relax_mlir.runtime.ndarray import NDArray, as_numpy
from relax_mlir.runtime.process_exit import awaited_at_exit, begin_call, end_call
from relax_mlir.runtime.profile import KernelCall, Profile, Recorder
from relax_mlir.runtime.signature import Parameter, Signature
from relax_mlir.runtime.source_model import SourceModel
from relax_mlir.support.ffi import tvm_ffi

__all__ = [
    "SYMBOLS",
    "CompiledModel",
    "Executable",
    "Parameter",
    "Signature",
    "load",
]


SYMBOLS = ("main", "main_shapes")  # of the code of a model


class Executable(CompiledModel):
    """A model that is compiled ahead of time as a whole; call it with arrays.

    Takes numpy or DLPack arrays, and returns a tuple of numpy arrays. Concurrent calls are
    allowed. Code for another machine can be saved, but not called.

    Args:
        code: machine code that defines ``main`` and ``main_shapes``.
        signature: of ``main``.
        constants: the weights by key.
        machine: the target of the code.
        threads: maximum number of threads per call.
        kernels: kernel calls of ``main``, in order.
        derivations: of weights, by key; files do not store those with the weights as source.
        functions: names of the registered functions that the code calls.

    Raises:
        CompileError: the code cannot be loaded, or a weight is missing.
        ValueError: ``threads`` is out of range.
    """

    def __init__(
        self,
        code: MachineCode,
        signature: Signature,
        constants: Mapping[str, np.ndarray],
        machine: Machine,
        *,
        threads: int = 1,
        kernels: Sequence[KernelCall] = (),
        derivations: Mapping[str, Derivation] | None = None,
        functions: Sequence[str] = (),
    ) -> None:
        self.threads = cpu.check_threads(threads)
        self.code = code
        self.signature = signature
        self.machine = machine
        self.kernels = tuple(kernels)
        self.functions = tuple(functions)
        self.constants = _select_constants(constants, signature.constants)
        self._derivations = {
            key: derivation
            for key, derivation in (derivations or {}).items()
            if key in self.constants and derivation.source in self.constants
        }
        self._obstacle = machine.obstacle()
        self._function = self._refuse
        if self._obstacle is None:
            self._loaded = load_code(code, SYMBOLS)
            self._function = self._wrapped(None)

    @property
    def size_bytes(self) -> int:
        """Size of code and weights."""
        weights = sum(array.nbytes for array in self.constants.values())
        return weights + self.code.size_bytes

    def _wrapped(self, recorder: Recorder | None) -> tvm_ffi.Function:
        library, address = self._loaded
        return make_function(
            self.signature, self.constants, address, self.threads, library, recorder
        )

    def _refuse(self, *arguments: object) -> Any:  # Any: never returns
        raise CompileError(f"`main`: {self._obstacle}")

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """The tvm-ffi function ``main``, from tensors to an array of tensors.

        Raises:
            KeyError: the name is not ``main``.
        """
        if name != "main":
            raise UnknownNameError(f"executable has one function, `main`, got `{name}`")
        return self._function

    def __call__(
        self, *arrays: Any, out: Sequence[Any] | None = None, **named: Any
    ) -> tuple[np.ndarray, ...]:  # Any: DLPack arrays
        arrays, out = self._bound(arrays, out, named)
        thread = begin_call()
        try:
            arguments = [as_tensor(a) for a in arrays]
            if out is not None:
                self._write(arguments, out)
                return tuple(out)
            return tuple(map(cpu.array_of, self._call(arguments)))
        except MemoryError as error:
            raise OutOfMemoryError(str(error)) from error
        except ValueError as error:
            if not _is_native(error):
                raise
            return self._broadcast(arrays, out, error)
        finally:
            end_call(thread)

    def _call(self, arguments: Sequence[Any]) -> Any:  # Any: an array of tensors
        try:
            return self._function(*arguments)
        except BufferError:  # unsupported by DLPack, such as strides in bytes
            if all(map(_is_importable, arguments)):
                raise  # raised by a signal handler while the code ran
            return self._function(*map(_through_numpy, arguments))
        except ValueError as error:
            raise registry.with_near_misses(error) from None
        except RuntimeError as error:
            raise guard.with_kernel_name(error, self.kernels) from None

    def _write(self, arguments: Sequence[Any], out: Sequence[Any]) -> None:
        """Call the function with outputs in ``out``."""
        parameters = self.signature.outputs
        self._check_count(out)
        if all(map(_is_plain, out)):
            try:
                self._function(*arguments, *out)
                return
            except BufferError:
                if all(map(_is_importable, (*arguments, *out))):
                    raise  # raised by a signal handler while the code ran
        checked = [
            _as_output(a, f"`main`: output {n} `{p.name}`")
            for n, (a, p) in enumerate(zip(out, parameters, strict=True))
        ]
        self._function(*map(_through_numpy, arguments), *checked)

    @awaited_at_exit
    def profile(self, *arrays: Any, calls: int = 20, **named: Any) -> Profile:
        if calls < 1:
            raise ValueError(f"calls: expected 1 or more, got {calls}")
        if self._obstacle is not None:
            self._refuse()
        arrays, _ = self._bound(arrays, None, named)
        arguments = [_through_numpy(as_tensor(a)) for a in arrays]
        recorder = Recorder(len(self.kernels))
        function = self._wrapped(recorder)
        try:
            function(*arguments)  # warm-up: allocates memory and starts threads
            measured = [_measure(function, arguments, recorder) for _ in range(calls)]
        except MemoryError as error:
            raise OutOfMemoryError(str(error)) from error
        except ValueError as error:
            raise registry.with_near_misses(error) from None
        durations, totals = zip(*measured, strict=True)
        return Profile(self.kernels, np.array(durations), np.array(totals))

    def save(self, path: str | os.PathLike[str] | BinaryIO) -> None:
        write_archive(path, self.contents())

    def contents(self) -> Contents:
        """The contents of the file that :meth:`save` writes: linked, if possible."""
        if self.code.objects:
            self.code = _linked(self.code, self.machine.triple)
        return Contents(
            self.code,
            self.signature.to_fields(),
            self.machine,
            self.constants | (self.source.constants() if self.source else {}),
            self.threads,
            self.kernels,
            self._derivations,
            self.functions,
        )

    @staticmethod
    def of_contents(
        contents: Contents, where: str, threads: int | None = None
    ) -> "Executable":
        """Creates an executable from the contents of a file.

        Raises:
            CompileError: the code is for another machine, or cannot be loaded.
        """
        obstacle = contents.machine.obstacle()
        if obstacle is not None:
            raise CompileError(f"{where}: {obstacle}")
        executable = Executable.for_any_machine(contents, threads)
        executable.source = SourceModel.of_constants(contents.constants)
        return executable

    @staticmethod
    def for_any_machine(contents: Contents, threads: int | None = None) -> "Executable":
        """Creates an executable, which on another machine can only be saved.

        Raises:
            CompileError: the code cannot be loaded.
        """
        return Executable(
            contents.code,
            Signature.from_fields(contents.signature),
            contents.constants,
            contents.machine,
            threads=contents.threads if threads is None else threads,
            kernels=contents.kernels,
            derivations=contents.derivations,
            functions=contents.functions,
        )


def _linked(code: MachineCode, triple: str) -> MachineCode:
    """Object files as a library; as they are, without a linker or the compiler."""
    try:
        link = LINK.get()
    except ImportError:
        return code
    return link(code, triple, SYMBOLS) or code


def _measure(
    function: tvm_ffi.Function, arguments: Sequence[Any], recorder: Recorder
) -> tuple[np.ndarray, int]:
    """Durations of every kernel, and of the whole call, in nanoseconds."""
    start_ns = time.perf_counter_ns()
    function(*arguments)
    total_ns = time.perf_counter_ns() - start_ns
    return recorder.durations_ns(), total_ns


def _select_constants(
    constants: Mapping[str, np.ndarray], keys: Sequence[str]
) -> dict[str, np.ndarray]:
    missing = [f"`{key}`" for key in keys if key not in constants]
    if missing:
        names = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
        raise CompileError(f"the module's constants lack {names}")
    return {key: np.asarray(constants[key], order="C") for key in keys}


def make_function(
    signature: Signature,
    constants: Mapping[str, np.ndarray],
    address: Mapping[str, int],
    threads: int,
    library: object,
    recorder: Recorder | None = None,
) -> tvm_ffi.Function:
    """Wrap loaded code as a function of tensors; ``recorder`` receives its durations."""
    arrays = [constants[k] for k in signature.constants]
    return cpu.make_executable(
        address["main"],
        address["main_shapes"],
        "main",
        signature.native(signature.inputs),
        signature.native(signature.outputs),
        [*signature.symbols, *signature.derived],
        signature.binders(),
        signature.checks(),
        signature.size(signature.arena),
        [a.ctypes.data for a in arrays],
        threads,
        (library, arrays, recorder),
        0 if recorder is None else recorder.address,
    )


def as_tensor(array: Any) -> Any:  # Any: DLPack arrays
    """An argument for the native runtime: DLPack arrays unchanged, others by numpy."""
    if isinstance(array, NDArray):
        array = as_numpy(array)
    if _is_plain(array):
        return array
    if isinstance(array, np.ndarray):
        return cpu.tensor_of(array)
    return array if hasattr(array, "__dlpack__") else cpu.tensor_of(np.asarray(array))


def _is_native(error: Exception) -> bool:
    """Whether the native runtime raised an error, rather than a signal handler."""
    return hasattr(error, "__tvm_ffi_error__")


def _is_importable(array: Any) -> bool:  # Any: DLPack arrays
    """Whether DLPack can exchange an array without conversion."""
    try:
        tvm_ffi.from_dlpack(array)
    except BufferError:
        return False
    return True


# Type characters of numpy's own types; `kind` is ambiguous for some of ml_dtypes.
_PLAIN = frozenset("?bBhHiIlLqQefd")


def _is_plain(array: object) -> bool:
    """Whether an object is an array that DLPack very likely exchanges."""
    is_array = isinstance(array, np.ndarray)
    return is_array and array.flags.writeable and array.dtype.char in _PLAIN


def _through_numpy(array: Any) -> Any:  # Any: DLPack arrays
    if isinstance(array, NDArray):
        array = as_numpy(array)
    return cpu.tensor_of(array) if isinstance(array, np.ndarray) else array


def _as_output(array: Any, where: str) -> Any:  # Any: DLPack arrays
    """An output argument for the native runtime, which shares memory with the array.

    Raises:
        TypeError: the argument is not an array.
        ValueError: the array is not writable, or has unaligned strides.
    """
    if not isinstance(array, np.ndarray):
        if hasattr(array, "__dlpack__"):
            return array
        raise TypeError(f"{where}: expected an array, got {type(array).__name__}")
    if not array.flags.writeable:
        raise ValueError(f"{where}: expected an array to write to, got a read-only one")
    if any(stride % array.itemsize for stride in array.strides):
        raise ValueError(
            f"{where}: expected strides that are multiples of the element size, got {array.strides} bytes"
        )
    return cpu.tensor_of(array)


def load(file: ModelFile, threads: int | None) -> Executable:
    """Load a model file for CPUs.

    Raises:
        ModelError: the file is damaged, or of another version.
        CompileError: the code is for another machine, or cannot be loaded.
    """
    return Executable.of_contents(read_archive(file), str(file), threads)
