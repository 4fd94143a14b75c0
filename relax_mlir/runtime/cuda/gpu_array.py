"""GPU arrays with TVM's interface."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from relax_mlir.errors import OutOfMemoryError
from relax_mlir.runtime.cuda import devices
from relax_mlir.runtime.cuda.arrays import (
    COPY_DESCRIPTION,
    ArrayView,
    DeviceArray,
    device_view,
    overlap,
    unwrap,
)
from relax_mlir.runtime.cuda.memory import Memory
from relax_mlir.runtime.cuda.strided_copy import copy_in
from relax_mlir.runtime.elements import element_type
from relax_mlir.runtime.ndarray import Device, NDArray, as_numpy, is_on_gpu
from relax_mlir.runtime.ndarray import shared as shared_anywhere

__all__ = ["GPUArray", "borrow", "describe_layout", "empty", "shared", "upload"]

_DEVICE_ORDINAL = 9  # CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
_MAX_BYTES = 2**63 - 1


class GPUArray(NDArray):
    """A C-contiguous array in GPU memory.

    Element access goes through the host: ``numpy()`` and indexing copy all elements.

    Attributes:
        data: the array, with its pending uses.
    """

    def __init__(self, data: DeviceArray) -> None:
        self.data = data
        self.device = Device("cuda", data.device.ordinal)

    @property
    def __relax_array__(self) -> DeviceArray:
        return self.data

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape."""
        return self.data.shape

    @property
    def dtype(self) -> str:
        """The name of its element type."""
        return self.data.dtype

    @property
    def element_type(self) -> np.dtype:
        """The element type."""
        return element_type(self.dtype)

    def numpy(self) -> np.ndarray:
        """Download a copy, after the work that writes the array."""
        return self.data.numpy()

    def on_host(self) -> np.ndarray:
        """Download a copy, read-only since changes would be lost."""
        array = self.data.numpy()
        array.flags.writeable = False
        return array

    def shares_memory(self, other: NDArray) -> bool:
        """Whether its memory may overlap with that of another array."""
        return isinstance(other, GPUArray) and overlap(self.data.view, other.data.view)

    def copyfrom(self, source: Any) -> NDArray:
        """Overwrite all elements.

        Raises:
            ValueError: the shape differs, or the array is read-only.
        """
        new = (
            shared_anywhere(source) if is_on_gpu(source) else NDArray(as_numpy(source))
        )
        if new.shape != self.shape:
            raise ValueError(
                f"expected an array of shape {self.shape}, got {new.shape}"
            )
        is_same = (new.device, new.dtype) == (self.device, self.dtype)
        if isinstance(new, GPUArray) and is_same and not self.shares_memory(new):
            self.data.copy_from(new.data)
        else:
            self.data.write(new.on_host().astype(self.element_type))
        return self

    @property
    def is_read_only(self) -> bool:
        """Whether it is a copy of another library's array, whose owner sees no changes."""
        return self.data.is_read_only

    def copied(self) -> NDArray:
        """A copy on the same device."""
        return empty(self.shape, self.dtype, self.device).copyfrom(self)

    def __getitem__(self, index: Any) -> Any:  # Any: numpy's own
        return self.on_host()[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        changed = self.numpy()
        changed[index] = as_numpy(value)
        self.data.write(changed)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without dimensions has no length")
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self.data.__array__(dtype, copy)

    def __dlpack__(self, **options: Any) -> Any:
        return self.data.__dlpack__(**options)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:  # Any: by the specification
        return self.data.__cuda_array_interface__

    def __repr__(self) -> str:
        return f"<NDArray shape={self.shape}, {self.device}>\n{self.on_host()!r}"


def upload(array: np.ndarray, where: Device) -> GPUArray:
    """Upload a copy of an array to a GPU.

    Raises:
        DeviceError, OutOfMemoryError: the GPU does not exist, or is out of memory.
    """
    return GPUArray(DeviceArray.of(array, devices.device(where.index)))


def empty(shape: Sequence[int], dtype: str, where: Device) -> GPUArray:
    """An uninitialised array.

    Raises:
        ValueError: a size is negative, or the element type is unknown.
        DeviceError, OutOfMemoryError: the GPU does not exist, or is out of memory.
    """
    if any(size < 0 for size in shape):
        raise ValueError(f"`empty`: expected sizes of 0 or more, got {tuple(shape)}")
    device = devices.device(where.index)
    return GPUArray(DeviceArray(_memory(shape, dtype, device), shape, dtype))


def _memory(
    shape: Sequence[int], dtype: str, device: devices.Device, what: str = "`empty`"
) -> Memory:
    """Allocate memory for an array; ``what`` names the caller in errors."""
    size_bytes = math.prod(shape) * element_type(dtype).itemsize
    if size_bytes > _MAX_BYTES:
        raise OutOfMemoryError(
            f"{what}: out of memory for {size_bytes} bytes of arrays"
        )
    return Memory(device, size_bytes, what, "arrays")


def shared(source: Any) -> GPUArray:  # Any: an array on a GPU
    """Import an array of another library: shared if possible, else a read-only copy."""
    array = borrow(source)
    return _copied(source) if array is None else array


def borrow(source: Any) -> GPUArray | None:  # Any: as above
    """Import an array of another library without a copy.

    None if it is not C-contiguous, not aligned to 16 bytes, or read-only.
    """
    source = unwrap(source)
    if isinstance(source, DeviceArray):
        return GPUArray(source)
    view = _view(source)
    if not view.is_plain or view.is_read_only:
        return None
    return GPUArray(DeviceArray(_BorrowedMemory(view), view.shape, view.dtype))


def describe_layout(source: Any) -> str:  # Any: as above
    """The layout of an array, for errors."""
    source = unwrap(source)
    if isinstance(source, DeviceArray) and source.is_read_only:
        return COPY_DESCRIPTION
    return str(_view(source))


def _view(source: Any) -> ArrayView:  # Any: as above
    device = devices.device(_ordinal(source))
    with device.current():
        view = device_view(source, device, 0)
    assert view is not None
    return view


def _ordinal(source: Any) -> int:  # Any: as above
    """The ordinal of the GPU of an array."""
    if hasattr(source, "__dlpack_device__"):
        return int(source.__dlpack_device__()[1])
    address, _ = source.__cuda_array_interface__["data"]
    if not address:  # an empty array
        return 0
    first, what = devices.device(0), "an array on a GPU cannot be used"
    with first.current():
        return first.driver.handle(
            "cuPointerGetAttribute", _DEVICE_ORDINAL, address, what=what
        )


def _copied(source: Any) -> GPUArray:  # Any: as above
    view = _view(source)
    assert view.ordinal is not None
    device = devices.device(view.ordinal)
    memory = _memory(view.shape, view.dtype, device, "a copy of an array")
    with device.current():
        copy_in(device, view, memory.address, 0, is_waited_for=True)
        what = "an array cannot be copied"
        device.driver.call("cuStreamSynchronize", 0, what=what)
    return GPUArray(DeviceArray(memory, view.shape, view.dtype, is_read_only=True))


class _BorrowedMemory(Memory):
    """Memory of another library, whose owner is released on free."""

    def __init__(self, view: ArrayView) -> None:
        assert view.ordinal is not None
        super().__init__(devices.device(view.ordinal), 0)
        self.address, self.size_bytes = view.address, view.size_bytes
        self._owner = view.owner

    def free(self) -> None:
        self.address, self._owner = 0, None
