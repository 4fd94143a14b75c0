"""Compiled PrimFuncs: kernels in destination-passing style, called with arrays."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, BinaryIO

import numpy as np

from relax_mlir.errors import (
    RunError,
    UnknownAttributeError,
    near_misses,
)
from relax_mlir.runtime import ndarray
from relax_mlir.runtime.compiled_model import CompiledModel
from relax_mlir.runtime.cuda.executable import CudaExecutable
from relax_mlir.runtime.cuda.gpu_array import GPUArray, borrow, describe_layout, upload
from relax_mlir.runtime.host.devices import model_on_device
from relax_mlir.runtime.host.interpreter import link_function
from relax_mlir.runtime.host.program import HostFunction
from relax_mlir.runtime.host.timing import Timing, time_calls
from relax_mlir.runtime.ndarray import Device, NDArray, is_array, is_on_gpu, shared
from relax_mlir.runtime.serializable import Serializable

__all__ = ["Kernel", "KernelModule"]


@dataclass(frozen=True)
class Kernel:
    """A compiled PrimFunc, which writes its results to parameters.

    A kernel for a GPU takes host arrays, too: they are uploaded, and written ones are
    downloaded. A call returns when its work is enqueued on the default stream.

    Attributes:
        name: of the PrimFunc.
        code: its machine code; the inputs are the parameters.
        written: indices of the parameters that it writes to.
        asserted: check of the leading assertions of the PrimFunc; None if it has none.
    """

    name: str
    code: CompiledModel
    written: tuple[int, ...]
    asserted: HostFunction | None = None

    def __post_init__(self) -> None:
        count = len(self.code.signature.inputs)
        if not all(0 <= number < count for number in self.written):
            raise ValueError(
                f"Kernel: `written`: expected indices of {count} parameters, got "
                f"{self.written}"
            )

    @cached_property
    def _check_asserted(self) -> Callable[..., Any] | None:
        asserted = self.asserted
        return None if asserted is None else link_function(self.name, asserted)

    def on(self, device: Device) -> Kernel:
        """The kernel on a device.

        Raises:
            CompileError: the kernel is compiled for another kind of device.
        """
        code = model_on_device(self.code, device)
        return self if code is self.code else replace(self, code=code)

    def __call__(self, *args: Any) -> None:
        """Run the kernel.

        Args:
            *args: arrays of numpy, or with DLPack, and numbers.

        Raises:
            TypeError, ValueError: an argument does not match its parameter.
            RunError: a written argument is read-only, or aliases another.
            AssertionError: a leading assertion of the PrimFunc fails.
        """
        parameters = self.code.signature.inputs
        if len(args) != len(parameters):
            expected = ", ".join(map(str, parameters)) or "nothing"
            raise TypeError(
                f"`{self.name}`: expected {len(parameters)} arguments ({expected}), got "
                f"{len(args)}"
            )
        arrays = [
            self._scalar(index, value) if isinstance(value, (int, float)) else value
            for index, value in enumerate(args)
        ]
        views = list(map(_view, arrays))
        for index in self.written:
            self._check_written(index, arrays, views)
        if self._check_asserted is not None:
            self._check_asserted(*args)
        if isinstance(self.code, CudaExecutable):
            self._run_on_gpu(self.code, arrays, views)
        else:
            self.code(*arrays)

    def _scalar(self, index: int, value: float) -> np.ndarray:
        """A Python number as an argument."""
        parameter = self.code.signature.inputs[index]
        where = f"`{self.name}`: argument {index} `{parameter.name}`"
        if isinstance(value, float) and "int" in parameter.dtype:
            raise TypeError(f"{where}: expected an integer, got {value}")
        try:
            return np.array(value, parameter.dtype)
        except OverflowError:
            expected = f"expected a number of {parameter.dtype}"
            raise ValueError(f"{where}: {expected}, got {value}") from None

    def _run_on_gpu(
        self,
        code: CudaExecutable,
        arrays: Sequence[Any],
        views: Sequence[NDArray | None],
    ) -> None:
        """Run the kernel on device copies of host arrays."""
        device = ndarray.cuda(code.ordinal)
        pairs = zip(arrays, views, strict=True)
        arguments = [value if view is None else view for value, view in pairs]
        for index in self.written:
            view = views[index]
            if view is not None and not isinstance(view, GPUArray):
                arguments[index] = upload(view.on_host(), device)
        code(*arguments, stay=True, written=self.written)
        for index in self.written:
            view, result = views[index], arguments[index]
            if view is not None and view is not result:
                view.copyfrom(result)

    def _check_written(
        self, index: int, arrays: Sequence[Any], views: Sequence[NDArray | None]
    ) -> None:
        name = self.code.signature.inputs[index].name
        where = f"`{self.name}`: argument {index} `{name}`"
        view = views[index]
        if view is None and not is_on_gpu(arrays[index]):
            kind = type(arrays[index]).__name__
            raise TypeError(f"{where}: expected an array to write to, got {kind}")
        got, is_valid = "", False
        if isinstance(view, GPUArray):
            if not isinstance(self.code, CudaExecutable):  # it would write to a copy
                raise RunError(
                    f"{where}: expected an array on the CPU to write to, where the kernel "
                    f"runs, got one on {view.device}. Hint: `array.copyto(cpu())`."
                )
            is_valid = not view.is_read_only
        elif view is not None:
            array = view.on_host()
            is_valid = array.flags.c_contiguous and not view.is_read_only
            got = f"strides {array.strides} of shape {array.shape}"
        if view is None or not is_valid:
            raise RunError(
                f"{where}: expected a writable C-contiguous array, on a GPU aligned to 16 "
                f"bytes, got {got or describe_layout(arrays[index])}"
            )
        for other, value in enumerate(views):
            if other != index and value is not None and view.shares_memory(value):
                raise RunError(
                    f"{where}: expected memory of its own, got that of argument {other}"
                )

    def time_evaluator(
        self, dev: object = None, number: int = 10, repeat: int = 1, **options: Any
    ) -> Callable[..., Timing]:
        """A function that measures the run time of the kernel.

        Args:
            dev: ignored: the kernel runs on the device that it is compiled for.
            number: calls per repetition.
            repeat: number of repetitions.
            options: TVM's measurement options; ignored.
        """
        code = self.code
        is_gpu = isinstance(code, CudaExecutable)
        device = ndarray.cuda(code.ordinal) if is_gpu else ndarray.cpu()
        return time_calls(self, device, number, repeat)


def _view(value: Any) -> NDArray | None:
    """An argument as an array that shares its memory; None if that is impossible."""
    if not isinstance(value, NDArray) and is_on_gpu(value):
        return borrow(value)
    return shared(value) if is_array(value) else None


class KernelModule(Serializable):
    """The compiled kernels of a module.

    A call of the module calls ``main``, or the first kernel.

    Args:
        kernels: by name.
    """

    def __init__(self, kernels: Mapping[str, Kernel]) -> None:
        self._kernels = dict(kernels)

    @property
    def mod(self) -> KernelModule:
        """The module itself; for compatibility with TVM."""
        return self

    @property
    def kernels(self) -> Mapping[str, Kernel]:
        """The kernels by name."""
        return self._kernels

    def save(self, path: str | os.PathLike[str] | BinaryIO) -> None:
        from relax_mlir.runtime.host.archive import save

        save(path, self)

    @property
    def entry_name(self) -> str:
        """Name of the kernel that a call of the module calls."""
        if not self._kernels:
            raise UnknownAttributeError("module has no function: expected one to call")
        return "main" if "main" in self._kernels else next(iter(self._kernels))

    @property
    def entry_func(self) -> Kernel:
        """The kernel that a call of the module calls."""
        return self._kernels[self.entry_name]

    def __getitem__(self, name: str) -> Kernel:
        """The kernel called ``name``; ``__tvm_main__`` is the entry.

        Raises:
            AttributeError: there is none.
        """
        if name in ("__tvm_main__", "__tvm_ffi_main"):
            return self.entry_func
        if name not in self._kernels:
            known = self._kernels
            raise UnknownAttributeError(
                f"module has no function `{name}`: expected one of "
                f"{', '.join(known) or 'none'}."
                f"{near_misses(name, known)}"
            )
        return self._kernels[name]

    get_function = __getitem__

    def implements_function(self, name: str, query_imports: bool = False) -> bool:
        """Whether the module has a kernel of this name."""
        return name in self._kernels

    def jit(self) -> KernelModule:
        """The module itself, which is compiled already; for compatibility with TVM."""
        return self

    def __call__(self, *args: Any) -> None:
        """Call the entry kernel; see :class:`Kernel`.

        Raises:
            RunError: there is none, of a manually constructed module.
        """
        kernel: Any = self.entry_func
        if not isinstance(kernel, Kernel):
            raise RunError(
                f"`{self.entry_name}`: expected a kernel, got {kernel!r:.60}"
            )
        kernel(*args)

    def time_evaluator(
        self,
        func_name: str,
        dev: object = None,
        number: int = 10,
        repeat: int = 1,
        **options: Any,
    ) -> Callable[..., Timing]:
        """A function that measures a kernel; see :meth:`Kernel.time_evaluator`."""
        return self[func_name].time_evaluator(dev, number, repeat)

    def __repr__(self) -> str:
        """The signatures of the kernels."""
        listed = (f"{n}{k.code.signature}" for n, k in self._kernels.items())
        return f"<KernelModule {', '.join(listed)}>"
