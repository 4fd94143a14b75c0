"""A compiled model: its machine code, its weights, and what it takes and returns."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from importlib import import_module
from typing import Any, BinaryIO

import numpy as np
import tvm_ffi

from relax_mlir.errors import CompileError, OutOfMemoryError, UnknownNameError
from relax_mlir.runtime import cpu, guard, objects, registry
from relax_mlir.runtime.archive import Contents, opened, read_archive, write_archive
from relax_mlir.runtime.compiled_model import CompiledModel
from relax_mlir.runtime.machine import Machine
from relax_mlir.runtime.model_file import ModelFile
from relax_mlir.runtime.ndarray import NDArray, as_numpy
from relax_mlir.runtime.process_exit import begin_call, counted, end_call
from relax_mlir.runtime.profile import KernelCall, Profile, Recorder
from relax_mlir.runtime.signature import Parameter, Signature
from relax_mlir.runtime.signing import KeySource
from relax_mlir.runtime.source_model import SourceModel

__all__ = [
    "CompiledModel",
    "Executable",
    "Parameter",
    "Signature",
    "load",
    "load_file",
]


class Executable(CompiledModel):
    """A compiled model that is all machine code; call it with arrays.

    Any numpy or DLPack array goes in; a tuple of numpy arrays comes out. Threads may
    call one executable at once.

    Code for another machine can be saved, but not called.

    Args:
        code: object files that define ``main`` and ``main_shapes``.
        signature: what it takes and returns.
        constants: the weights by key.
        machine: what the code is for.
        threads: how many may work on one call.
        kernels: that ``main`` calls, in order.

    Raises:
        CompileError: the code cannot be loaded, or a weight is not there.
        ValueError: ``threads`` is not a number of threads.
    """

    def __init__(
        self,
        code: Sequence[bytes],
        signature: Signature,
        constants: Mapping[str, np.ndarray],
        machine: Machine,
        *,
        threads: int = 1,
        kernels: Sequence[KernelCall] = (),
    ) -> None:
        self.threads = cpu.check_threads(threads)
        self.code = tuple(code)
        self.signature = signature
        self.machine = machine
        self.kernels = tuple(kernels)
        self.constants = _needed(constants, signature.constants)
        self._obstacle = machine.obstacle()
        self._function = self._refuse
        if self._obstacle is None:
            self._loaded = objects.load_objects(self.code, ["main", "main_shapes"])
            self._function = self._made(None)

    @property
    def size_bytes(self) -> int:
        """Of code and weights."""
        weights = sum(array.nbytes for array in self.constants.values())
        return weights + sum(map(len, self.code))

    def _made(self, recorder: Recorder | None) -> tvm_ffi.Function:
        library, address = self._loaded
        return make_function(
            self.signature, self.constants, address, self.threads, library, recorder
        )

    def _refuse(self, *arguments: object) -> Any:  # Any: never returns
        raise CompileError(f"`main`: {self._obstacle}")

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """The tvm-ffi function ``main``: tensors in, an array of tensors out.

        Raises:
            KeyError: another name.
        """
        if name != "main":
            raise UnknownNameError(f"executable has one function, `main`, got `{name}`")
        return self._function

    def __call__(
        self, *arrays: Any, out: Sequence[Any] | None = None, **named: Any
    ) -> tuple[np.ndarray, ...]:  # Any: whatever has DLPack
        if named:
            arrays = self._in_order(arrays, named)
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
        except BufferError:  # what DLPack does not know, such as strides in bytes
            if all(map(_crosses, arguments)):
                raise  # of a signal handler, while the code ran
            return self._function(*map(_through_numpy, arguments))
        except ValueError as error:
            raise registry.with_near_misses(error) from None
        except RuntimeError as error:
            raise guard.located(error, self.kernels) from None

    def _write(self, arguments: Sequence[Any], out: Sequence[Any]) -> None:
        """Call, and let the outputs be written to ``out``."""
        parameters = self.signature.outputs
        self._check_count(out)
        if all(map(_is_plain, out)):
            try:
                self._function(*arguments, *out)
                return
            except BufferError:
                if all(map(_crosses, (*arguments, *out))):
                    raise  # of a signal handler, while the code ran
        checked = [
            _as_output(a, f"`main`: output {n} `{p.name}`")
            for n, (a, p) in enumerate(zip(out, parameters, strict=True))
        ]
        self._function(*map(_through_numpy, arguments), *checked)

    @counted
    def profile(self, *arrays: Any, calls: int = 20, **named: Any) -> Profile:
        if calls < 1:
            raise ValueError(f"calls: expected 1 or more, got {calls}")
        if self._obstacle is not None:
            self._refuse()
        if named:
            arrays = self._in_order(arrays, named)
        arguments = [_through_numpy(as_tensor(a)) for a in arrays]
        recorder = Recorder(len(self.kernels))
        function = self._made(recorder)
        try:
            function(*arguments)  # takes memory and starts threads
            measured = [_measure(function, arguments, recorder) for _ in range(calls)]
        except MemoryError as error:
            raise OutOfMemoryError(str(error)) from error
        except ValueError as error:
            raise registry.with_near_misses(error) from None
        durations, totals = zip(*measured, strict=True)
        return Profile(self.kernels, np.array(durations), np.array(totals))

    def save(self, path: str | os.PathLike[str]) -> None:
        write_archive(path, self.contents())

    def write_to(self, file: BinaryIO) -> None:
        write_archive(file, self.contents())

    def contents(self) -> Contents:
        """What a file of it holds."""
        return Contents(
            self.code,
            asdict(self.signature),
            self.machine,
            self.constants | (self.source.constants() if self.source else {}),
            self.threads,
            self.kernels,
        )

    @staticmethod
    def of_contents(
        contents: Contents, where: str, threads: int | None = None
    ) -> "Executable":
        """What a file holds.

        Raises:
            CompileError: its code is for another machine, or cannot be loaded.
        """
        obstacle = contents.machine.obstacle()
        if obstacle is not None:
            raise CompileError(f"{where}: {obstacle}")
        made = Executable(
            contents.code,
            Signature.from_fields(contents.signature),
            contents.constants,
            contents.machine,
            threads=contents.threads if threads is None else threads,
            kernels=contents.kernels,
        )
        made.source = SourceModel.of_constants(contents.constants)
        return made


def _measure(
    function: tvm_ffi.Function, arguments: Sequence[Any], recorder: Recorder
) -> tuple[np.ndarray, int]:
    """Call it: how long every kernel took, and all of it, in nanoseconds."""
    start_ns = time.perf_counter_ns()
    function(*arguments)
    total_ns = time.perf_counter_ns() - start_ns
    return recorder.durations_ns(), total_ns


def _needed(
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
    """The function of tensors around loaded code; ``recorder`` gets its durations."""
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


def as_tensor(array: Any) -> Any:  # Any: whatever has DLPack
    """What the native runtime takes: DLPack arrays as they are, others through numpy."""
    if isinstance(array, NDArray):
        array = as_numpy(array)
    if _is_plain(array):
        return array
    if isinstance(array, np.ndarray):
        return cpu.tensor_of(array)
    return array if hasattr(array, "__dlpack__") else cpu.tensor_of(np.asarray(array))


def _is_native(error: Exception) -> bool:
    """Whether the native runtime raised it, and not a signal handler of the program."""
    return hasattr(error, "__tvm_ffi_error__")


def _crosses(array: Any) -> bool:  # Any: whatever has DLPack
    """Whether DLPack knows an array as it is."""
    try:
        tvm_ffi.from_dlpack(array)
    except BufferError:
        return False
    return True


# Of numpy's own types; `kind` takes some of ml_dtypes' for floats of numpy.
_PLAIN = frozenset("?bBhHiIlLqQefd")


def _is_plain(array: object) -> bool:
    """Whether it is an array that most likely crosses DLPack as it is."""
    is_array = isinstance(array, np.ndarray)
    return is_array and array.flags.writeable and array.dtype.char in _PLAIN


def _through_numpy(array: Any) -> Any:  # Any: whatever has DLPack
    found = as_numpy(array) if isinstance(array, NDArray) else array
    return cpu.tensor_of(found) if isinstance(found, np.ndarray) else found


def _as_output(array: Any, where: str) -> Any:  # Any: whatever has DLPack
    """What the native runtime writes to: the memory itself, never a copy.

    Raises:
        TypeError: it is no array.
        ValueError: it cannot be written to.
    """
    if not isinstance(array, np.ndarray):
        if hasattr(array, "__dlpack__"):
            return array
        raise TypeError(f"{where}: expected an array, got {type(array).__name__}")
    if not array.flags.writeable:
        raise ValueError(f"{where}: expected an array to write to, got a read-only one")
    if any(stride % array.itemsize for stride in array.strides):
        raise ValueError(
            f"{where}: expected strides of whole elements, got {array.strides} bytes"
        )
    return cpu.tensor_of(array)


# Modules that read files of other kinds, by the name of a member that only they have.
_LOADERS = {
    "cuda.json": "relax_mlir.runtime.cuda.loading",
    "vm.json": "relax_mlir.relax.vm.archive",
}


@counted
def load(
    path: str | os.PathLike[str],
    *,
    threads: int | None = None,
    trust: str | None = None,
    public_key: KeySource | None = None,
) -> Any:
    """Read what :meth:`Executable.save` wrote, or ``export_library``.

    A file of a compiled model is a program: loading it may run code that it holds, and
    calling the model does, with all that this process may do. Its checksums tell damage,
    not forgery. So load only files whose maker you trust: of your own, or signed with a key
    of somebody you trust (``relax-mlir sign``). ``relax-mlir inspect`` shows what is in a
    file without running any of it.

    Args:
        path: of the file.
        threads: how many may work on one call; as many as when it was written. Models
            for GPUs have none.
        trust: ``any`` loads any file; ``signed`` only one that is signed with
            ``public_key``. By default as the environment variable ``RELAX_MLIR_TRUST``
            says, else ``any``.
        public_key: the Ed25519 key that has to have signed the file, whatever ``trust``
            is: the path of a PEM file, or its bytes. By default, if only signed files are
            trusted, the file that ``RELAX_MLIR_PUBLIC_KEY`` names. Needs ``pip install
            relax_mlir[sign]``.

    Returns:
        What was written.

    Raises:
        ModelError: the file is damaged, or of another version.
        SignatureError: it is not signed with the key, or was changed since; or there is no
            key, or ``cryptography`` is missing.
        CompileError: its code is for another machine, or cannot be loaded.
        ValueError: ``trust`` is something else.
    """
    with ModelFile.open(path, trust, public_key) as file:
        return load_file(file, threads)


def load_file(file: ModelFile, threads: int | None = None) -> Any:
    """Read a file that is open, and trusted by whoever opened it; see :func:`load`."""
    with opened(file) as archive:
        members = archive.namelist()
    for member, module in _LOADERS.items():
        if member in members:
            return import_module(module).load(file, threads)
    return Executable.of_contents(read_archive(file), str(file), threads)
