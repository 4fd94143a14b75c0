"""Arrays and devices by the names that TVM's programs use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from relax_mlir.errors import CompileError, near_misses, shown

__all__ = [
    "Device",
    "NDArray",
    "array",
    "as_numpy",
    "convert",
    "cpu",
    "cuda",
    "device",
    "empty",
    "is_array",
    "is_on_gpu",
    "shared",
]

_KINDS = {"cpu": 1, "cuda": 2}
_MANAGED = 13  # DLPack's number of memory that a GPU of NVIDIA and the host share
_OTHER_NAMES = {"llvm": "cpu", "c": "cpu", "gpu": "cuda", "nvptx": "cuda"}


@dataclass(frozen=True)
class Device:
    """A device.

    Attributes:
        type: ``cpu`` or ``cuda``.
        index: which of several.
    """

    type: str
    index: int = 0

    @property
    def device_type(self) -> int:
        """DLPack's number of its type."""
        return _KINDS[self.type]

    @property
    def device_id(self) -> int:
        """Which of several."""
        return self.index

    @property
    def exist(self) -> bool:
        """Whether this machine has it."""
        if self.type == "cpu":
            return self.index == 0
        # The driver is looked for when somebody asks.
        from relax_mlir.runtime.cuda.devices import compute_capability

        return compute_capability(self.index) is not None

    def sync(self, stream: object = None) -> None:
        """Wait until it has done what it was told.

        Raises:
            DeviceError: this machine has no such GPU, or what it was told fails.
        """
        if self.type == "cuda":
            from relax_mlir.runtime.cuda.devices import device

            device(self.index).wait()

    def __str__(self) -> str:
        return f"{self.type}({self.index})"

    __repr__ = __str__


def device(name: Any, index: int = 0) -> Device:  # Any: or a Device
    """The device called ``name``, such as ``cpu`` or ``cuda:1``, or of DLPack's number.

    Raises:
        ValueError: there is no such kind of device.
    """
    if isinstance(name, Device):
        return name
    if isinstance(name, int):
        name = next((kind for kind, n in _KINDS.items() if n == name), str(name))
    text = name if isinstance(name, str) else shown(name)
    kind, _, number = text.partition(":")
    kind = _OTHER_NAMES.get(kind.split(" ")[0], kind)
    if kind not in _KINDS:
        raise ValueError(
            f"unknown device `{text}`: expected {' or '.join(_KINDS)}."
            f"{near_misses(kind, _KINDS)}"
        )
    if number and not (number.isascii() and number.isdigit()):
        raise ValueError(
            f"device `{text}`: expected a number after `:`, got `{number}`"
        )
    return Device(kind, int(number) if number else index)


def cpu(index: int = 0) -> Device:
    """The CPU."""
    return Device("cpu", index)


def cuda(index: int = 0) -> Device:
    """An NVIDIA GPU."""
    return Device("cuda", index)


class NDArray:
    """An array in memory that DLPack shares without a copy, both ways.

    Attributes:
        device: where it lives.
    """

    def __init__(self, data: np.ndarray, where: Device | None = None) -> None:
        self._data = data
        self.device = where or cpu()

    @property
    def __relax_array__(self) -> Any:  # Any: of numpy, or of a GPU
        """What it has; see :func:`relax_mlir.runtime.cuda.arrays.unwrapped`."""
        return self._data

    @property
    def shape(self) -> tuple[int, ...]:
        """Its sizes."""
        return self._data.shape

    @property
    def dtype(self) -> str:
        """The name of its element type."""
        return _name(self._data.dtype)

    @property
    def element_type(self) -> np.dtype:
        """Its element type; types compare faster than their names."""
        return self._data.dtype

    @property
    def ndim(self) -> int:
        """Its rank."""
        return len(self.shape)

    @property
    def ctx(self) -> Device:
        """An older name of ``device``."""
        return self.device

    def numpy(self) -> np.ndarray:
        """The elements as a numpy array of their own."""
        return self._data.copy()

    def asnumpy(self) -> np.ndarray:
        """An older name of ``numpy``."""
        return self.numpy()

    def on_host(self) -> np.ndarray:
        """The elements where numpy finds them: shared, or a copy to read only."""
        return self._data

    def shares_memory(self, other: NDArray) -> bool:
        """Whether some of its elements may lie where some of another array do."""
        is_here = other.device.type == "cpu"
        return is_here and np.may_share_memory(self._data, other._data)

    def copyfrom(self, source: Any) -> NDArray:
        """Overwrite all elements.

        Raises:
            TypeError: it is no array of numbers.
            ValueError: another shape.
        """
        new = _numbers(source, "NDArray.copyfrom: `source`")
        if new.shape != self.shape:
            raise ValueError(
                f"expected an array of shape {self.shape}, got {new.shape}"
            )
        self._data[...] = new.astype(self._data.dtype)
        return self

    @property
    def is_read_only(self) -> bool:
        """Whether it must not be written to."""
        return not self._data.flags.writeable

    def copied(self) -> NDArray:
        """An array of its own with the same elements, on the same device."""
        return NDArray(self._data.copy(), self.device)

    def copyto(self, target: Any, mem_scope: object = None) -> NDArray:
        """Copy to another array, or to a device as a new one."""
        if isinstance(target, NDArray):
            return target.copyfrom(self)
        return array(self, device(target))

    def to(self, target: Any) -> NDArray:
        """The array on a device."""
        return self.copyto(target)

    def same_as(self, other: object) -> bool:
        """Whether it is the same array."""
        return self is other

    def __getitem__(self, index: Any) -> Any:  # Any: numpy's own
        return self._data[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self._data[index] = as_numpy(value)

    def __len__(self) -> int:
        return len(self._data)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.array(self._data, dtype=dtype, copy=copy)

    def __dlpack__(self, **options: Any) -> Any:
        return self._data.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (int(self.device.device_type), self.device.index)

    def __repr__(self) -> str:
        return f"<NDArray shape={self.shape}, {self.device}>\n{self._data!r}"


@cache
def _name(dtype: np.dtype) -> str:
    """The name of a type, which numpy puts together anew each time."""
    return dtype.name


def as_numpy(source: Any) -> np.ndarray:
    """The elements of anything that is an array, shared where possible.

    Those on a GPU are copied, to read only.
    """
    if isinstance(source, NDArray):
        return source.on_host()
    if isinstance(source, np.ndarray):
        return source
    if is_on_gpu(source):
        return shared(source).on_host()
    if hasattr(source, "__dlpack__"):
        return np.from_dlpack(source)
    try:
        return np.asarray(source)
    except (TypeError, ValueError) as error:
        raise TypeError(f"expected an array of numbers, got {shown(source)}") from error


def _numbers(source: Any, where: str) -> np.ndarray:
    """The elements of an array, or of nested lists of numbers.

    Raises:
        TypeError: it is neither.
    """
    try:
        found = as_numpy(source)
    except TypeError:  # nested lists of several lengths
        found = None
    if found is None or found.dtype.kind not in "biufcV":
        raise TypeError(f"{where}: expected an array of numbers, got {shown(source)}")
    return found


def array(arr: Any, device: Any = None, mem_scope: object = None) -> NDArray:
    """A copy of an array, or of nested lists of numbers, on a device.

    Raises:
        TypeError: it is no array of numbers.
        ValueError: there is no such kind of device.
        CompileError: this machine has no such device.
    """
    where = _present(device)
    if isinstance(arr, NDArray) and where == arr.device != cpu():
        return arr.copied()
    copied = np.array(_numbers(arr, "array: `arr`"))
    dense = np.ascontiguousarray(copied).reshape(copied.shape)
    return (
        NDArray(dense, where) if where.type == "cpu" else _gpu().uploaded(dense, where)
    )


def _present(where: Any) -> Device:  # Any: a device, or nothing
    """A device that this machine has; the CPU if none is named.

    Raises:
        ValueError: there is no such kind of device.
        CompileError: it has no such one.
    """
    found = cpu() if where is None else device(where)
    if not found.exist:
        raise CompileError(
            f"device `{found}`: expected a device of this machine, got none"
        )
    return found


def _gpu() -> Any:  # Any: a module
    """What has arrays on GPUs, which itself loads this module."""
    from relax_mlir.runtime import gpu_array

    return gpu_array


def empty(
    shape: Sequence[int],
    dtype: Any = "float32",
    device: Any = None,
    mem_scope: object = None,
) -> NDArray:
    """An array whose elements are not set.

    Raises:
        ValueError: a size is negative, or there is no such kind of device.
        CompileError: this machine has no such device.
    """
    name, sizes = str(dtype), tuple(map(int, shape))
    if any(size < 0 for size in sizes):
        raise ValueError(f"empty: expected sizes of at least 0, got {sizes}")
    try:
        element = np.dtype(getattr(ml_dtypes, name, None) or name)
    except (TypeError, ValueError, SyntaxError):
        raise TypeError(
            f"empty: expected an element type, got {shown(dtype)}"
        ) from None
    where = _present(device)
    if where.type != "cpu":
        return _gpu().empty(sizes, element.name, where)
    return NDArray(np.empty(sizes, element), where)


def shared(source: Any) -> NDArray:
    """An array that shares its elements with whatever has DLPack, or is on a GPU.

    What lies on a GPU in another way than row after row from a multiple of 16 bytes on is
    copied there, to read only.
    """
    if isinstance(source, NDArray):
        return source
    if is_on_gpu(source):
        return _gpu().shared(source)
    return NDArray(as_numpy(source))


def is_on_gpu(source: Any) -> bool:
    """Whether an array is in the memory of a GPU of NVIDIA."""
    if isinstance(source, np.ndarray):
        return False
    if hasattr(source, "__dlpack_device__"):
        return int(source.__dlpack_device__()[0]) in (_KINDS["cuda"], _MANAGED)
    return hasattr(source, "__cuda_array_interface__")


def is_array(value: Any) -> bool:  # Any: whatever it may be
    """Whether something is an array that :func:`shared` takes."""
    return hasattr(value, "__dlpack__") or is_on_gpu(value)


def convert(value: Any) -> Any:
    """A value as functions of a program give it: arrays as :class:`NDArray`, deeply."""
    if isinstance(value, (list, tuple)):
        return [convert(part) for part in value]
    return shared(value) if is_array(value) else value
