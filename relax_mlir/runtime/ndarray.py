"""Arrays and devices with TVM's interface: ``nd.array``, ``cpu``, ``cuda``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from relax_mlir.errors import CompileError, near_misses, short_repr
from relax_mlir.runtime.elements import element_type, is_narrow

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

_DEVICE_TYPES = {"cpu": 1, "cuda": 2}  # DLDeviceType
_CUDA_MANAGED = 13  # kDLCUDAManaged: unified memory of GPU and host
_ALIASES = {"llvm": "cpu", "c": "cpu", "gpu": "cuda", "nvptx": "cuda"}


@dataclass(frozen=True)
class Device:
    """A device.

    Attributes:
        type: ``cpu`` or ``cuda``.
        index: ordinal among devices of its type.
    """

    type: str
    index: int = 0

    @property
    def device_type(self) -> int:
        """DLPack's number of the device type."""
        return _DEVICE_TYPES[self.type]

    @property
    def device_id(self) -> int:
        """Ordinal among devices of its type."""
        return self.index

    @property
    def exist(self) -> bool:
        """Whether this machine has the device."""
        if self.type == "cpu":
            return self.index == 0
        # Imported late: loads the CUDA driver.
        from relax_mlir.runtime.cuda.devices import compute_capability

        return compute_capability(self.index) is not None

    def sync(self, stream: object = None) -> None:
        """Wait for all work of the device.

        Raises:
            DeviceError: this machine lacks the GPU, or its work failed.
        """
        if self.type == "cuda":
            from relax_mlir.runtime.cuda.devices import device

            device(self.index).wait()

    def __str__(self) -> str:
        return f"{self.type}({self.index})"

    __repr__ = __str__


def device(name: Any, index: int = 0) -> Device:  # Any: or a Device
    """The device called ``name``, such as ``cpu`` or ``cuda:1``, or with DLPack's number.

    Raises:
        ValueError: the device type is unknown.
    """
    if isinstance(name, Device):
        return name
    if isinstance(name, int):
        name = next((kind for kind, n in _DEVICE_TYPES.items() if n == name), str(name))
    text = name if isinstance(name, str) else short_repr(name)
    kind, _, number = text.partition(":")
    kind = _ALIASES.get(kind.split(" ")[0], kind)
    if kind not in _DEVICE_TYPES:
        raise ValueError(
            f"unknown device `{text}`: expected {' or '.join(_DEVICE_TYPES)}."
            f"{near_misses(kind, _DEVICE_TYPES)}"
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
    """An array that imports and exports memory by DLPack without copies.

    Attributes:
        device: of its memory.
    """

    def __init__(self, data: np.ndarray, where: Device | None = None) -> None:
        self._data = data
        self.device = where or cpu()

    @property
    def __relax_array__(self) -> Any:  # Any: of numpy, or on a GPU
        """The wrapped array; see :func:`relax_mlir.runtime.cuda.arrays.unwrap`."""
        return self._data

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape."""
        return self._data.shape

    @property
    def dtype(self) -> str:
        """The name of its element type."""
        return _name(self._data.dtype)

    @property
    def element_type(self) -> np.dtype:
        """The element type; types compare faster than their names."""
        return self._data.dtype

    @property
    def ndim(self) -> int:
        """The rank."""
        return len(self.shape)

    @property
    def ctx(self) -> Device:
        """TVM's older name of ``device``."""
        return self.device

    def numpy(self) -> np.ndarray:
        """The elements as a new numpy array."""
        return self._data.copy()

    def asnumpy(self) -> np.ndarray:
        """TVM's older name of ``numpy``."""
        return self.numpy()

    def on_host(self) -> np.ndarray:
        """The elements in host memory: shared, or a read-only copy."""
        return self._data

    def shares_memory(self, other: NDArray) -> bool:
        """Whether its memory may overlap with that of another array."""
        is_here = other.device.type == "cpu"
        return is_here and np.may_share_memory(self._data, other._data)

    def copyfrom(self, source: Any) -> NDArray:
        """Overwrite all elements.

        Raises:
            TypeError: the source is not an array of numbers.
            ValueError: the shape differs.
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
        """Whether its memory is read-only."""
        return not self._data.flags.writeable

    def copied(self) -> NDArray:
        """A copy on the same device."""
        return NDArray(self._data.copy(), self.device)

    def copyto(self, target: Any, mem_scope: object = None) -> NDArray:
        """Copy to another array, or to a new array on a device."""
        if isinstance(target, NDArray):
            return target.copyfrom(self)
        return array(self, device(target))

    def to(self, target: Any) -> NDArray:
        """A copy on a device."""
        return self.copyto(target)

    def same_as(self, other: object) -> bool:
        """Whether two references are identical."""
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
    """The name of a type, cached, since numpy constructs it on each access."""
    return dtype.name


def as_numpy(source: Any) -> np.ndarray:
    """Any array as a numpy array, sharing memory if possible.

    Arrays on a GPU are downloaded to a read-only copy.
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
        raise TypeError(
            f"expected an array of numbers, got {short_repr(source)}"
        ) from error


def _numbers(source: Any, where: str) -> np.ndarray:
    """An array, or nested lists of numbers, as a numpy array.

    Raises:
        TypeError: the source is neither.
    """
    try:
        result = as_numpy(source)
    except TypeError:  # ragged nested lists
        result = None
    if result is None or result.dtype.kind not in "biufcV":
        raise TypeError(
            f"{where}: expected an array of numbers, got {short_repr(source)}"
        )
    return result


def array(arr: Any, device: Any = None, mem_scope: object = None) -> NDArray:
    """A copy of an array, or of nested lists of numbers, on a device.

    Raises:
        TypeError: the source is not an array of numbers.
        ValueError: the device type is unknown.
        CompileError: this machine lacks the device.
    """
    where = _existing(device)
    if isinstance(arr, NDArray) and where == arr.device != cpu():
        return arr.copied()
    copied = np.array(_numbers(arr, "array: `arr`"))
    dense = np.ascontiguousarray(copied).reshape(copied.shape)
    return NDArray(dense, where) if where.type == "cpu" else _gpu().upload(dense, where)


def _existing(where: Any) -> Device:  # Any: a device, or None
    """A device of this machine; the CPU by default.

    Raises:
        ValueError: the device type is unknown.
        CompileError: this machine lacks the device.
    """
    chosen = cpu() if where is None else device(where)
    if not chosen.exist:
        raise CompileError(
            f"device `{chosen}`: expected a device of this machine, got none"
        )
    return chosen


def _gpu() -> Any:  # Any: a module
    """The module of GPU arrays, imported late, since it imports this one."""
    from relax_mlir.runtime.cuda import gpu_array

    return gpu_array


def empty(
    shape: Sequence[int],
    dtype: Any = "float32",
    device: Any = None,
    mem_scope: object = None,
) -> NDArray:
    """An uninitialised array.

    Raises:
        ValueError: a size is negative, or the device type is unknown.
        CompileError: this machine lacks the device.
    """
    name, sizes = str(dtype), tuple(map(int, shape))
    if any(size < 0 for size in sizes):
        raise ValueError(f"empty: expected sizes of at least 0, got {sizes}")
    try:
        element = element_type(name) if is_narrow(name) else np.dtype(name)
    except (TypeError, ValueError, SyntaxError):
        raise TypeError(
            f"empty: expected an element type, got {short_repr(dtype)}"
        ) from None
    where = _existing(device)
    if where.type != "cpu":
        return _gpu().empty(sizes, element.name, where)
    return NDArray(np.empty(sizes, element), where)


def shared(source: Any) -> NDArray:
    """An array that shares memory with a DLPack array, or an array on a GPU.

    Arrays on a GPU that are not C-contiguous, or not aligned to 16 bytes, are copied on the
    device, to a read-only array.
    """
    if isinstance(source, NDArray):
        return source
    if is_on_gpu(source):
        return _gpu().shared(source)
    return NDArray(as_numpy(source))


def is_on_gpu(source: Any) -> bool:
    """Whether an array is in the memory of an NVIDIA GPU."""
    if isinstance(source, np.ndarray):
        return False
    if hasattr(source, "__dlpack_device__"):
        return int(source.__dlpack_device__()[0]) in (
            _DEVICE_TYPES["cuda"],
            _CUDA_MANAGED,
        )
    return hasattr(source, "__cuda_array_interface__")


def is_array(value: Any) -> bool:  # Any: any object
    """Whether an object is an array that :func:`shared` accepts."""
    return hasattr(value, "__dlpack__") or is_on_gpu(value)


def convert(value: Any) -> Any:
    """A value of a program: arrays become :class:`NDArray`, recursively."""
    if isinstance(value, (list, tuple)):
        return [convert(part) for part in value]
    return shared(value) if is_array(value) else value
