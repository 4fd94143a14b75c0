"""Arrays and devices by the names that TVM's programs use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from relax_mlir.errors import CompileError, near_misses

__all__ = ["Device", "NDArray", "array", "convert", "cpu", "cuda", "device", "empty"]

_KINDS = {"cpu": 1, "cuda": 2}
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
        """Wait until it has done what it was told."""

    def __str__(self) -> str:
        return f"{self.type}({self.index})"

    __repr__ = __str__


def device(name: str | int | Device, index: int = 0) -> Device:
    """The device called ``name``, such as ``cpu`` or ``cuda:1``, or of DLPack's number.

    Raises:
        ValueError: there is no such kind of device.
    """
    if isinstance(name, Device):
        return name
    if isinstance(name, int):
        name = next((kind for kind, n in _KINDS.items() if n == name), str(name))
    kind, _, number = str(name).partition(":")
    kind = _OTHER_NAMES.get(kind.split(" ")[0], kind)
    if kind not in _KINDS:
        raise ValueError(
            f"unknown device `{name}`: expected {' or '.join(_KINDS)}."
            f"{near_misses(kind, _KINDS)}"
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
    def shape(self) -> tuple[int, ...]:
        """Its sizes."""
        return self._data.shape

    @property
    def dtype(self) -> str:
        """The name of its element type."""
        return _name(self._data.dtype)

    @property
    def ndim(self) -> int:
        """Its rank."""
        return self._data.ndim

    @property
    def ctx(self) -> Device:
        """An older name of ``device``."""
        return self.device

    def numpy(self) -> np.ndarray:
        """The elements as a numpy array of their own."""
        return self._data.copy()

    asnumpy = numpy

    def shares_memory(self, other: NDArray) -> bool:
        """Whether some of its elements may lie where some of another array do."""
        return np.may_share_memory(self._data, other._data)

    def copyfrom(self, source: Any) -> NDArray:
        """Overwrite all elements.

        Raises:
            ValueError: another shape.
        """
        new = as_numpy(source)
        if new.shape != self.shape:
            raise ValueError(
                f"expected an array of shape {self.shape}, got {new.shape}"
            )
        self._data[...] = new.astype(self._data.dtype)
        return self

    def copyto(self, target: Any, mem_scope: object = None) -> NDArray:
        """Copy to another array, or to a device as a new one."""
        if isinstance(target, NDArray):
            return target.copyfrom(self)
        return NDArray(self._data.copy(), device(target))

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
    """The elements of anything that is an array, shared where possible."""
    if isinstance(source, NDArray):
        return source._data
    if isinstance(source, np.ndarray):
        return source
    if hasattr(source, "__dlpack__"):
        return np.from_dlpack(source)
    return np.asarray(source)


def array(arr: Any, device: Any = None, mem_scope: object = None) -> NDArray:
    """A copy of an array, or of nested lists of numbers, on a device.

    Raises:
        TypeError: it is no array of numbers.
        CompileError: this machine has no such device.
    """
    where = device if isinstance(device, Device) else cpu()
    if where.type != "cpu":
        raise CompileError(
            f"device `{where}`: arrays of `nd` are in the host's memory. Hint: models for "
            "GPUs take them, and copy them; `relax_mlir.runtime.cuda` has arrays there"
        )
    if not where.exist:
        raise CompileError(
            f"device `{where}`: expected a device of this machine, got none"
        )
    copied = np.array(as_numpy(arr))
    if copied.dtype.kind not in "biufcV":
        raise TypeError(f"`array`: expected numbers, got {arr!r:.60}")
    return NDArray(np.ascontiguousarray(copied).reshape(copied.shape), where)


def empty(
    shape: Sequence[int],
    dtype: Any = "float32",
    device: Any = None,
    mem_scope: object = None,
) -> NDArray:
    """An array whose elements are not set."""
    name = str(dtype)
    kind = getattr(ml_dtypes, name, None) or name
    return NDArray(np.empty(tuple(map(int, shape)), kind), device or cpu())


def shared(source: Any) -> NDArray:
    """An array that shares its elements with whatever has DLPack."""
    return source if isinstance(source, NDArray) else NDArray(as_numpy(source))


def convert(value: Any) -> Any:
    """A value as functions of a program give it: arrays as :class:`NDArray`, deeply."""
    if isinstance(value, (list, tuple)):
        return [convert(part) for part in value]
    return shared(value) if hasattr(value, "__dlpack__") else value
