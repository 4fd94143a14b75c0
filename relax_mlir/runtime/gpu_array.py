"""Arrays on GPUs, by the names that TVM's programs use."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from relax_mlir.errors import OutOfMemoryError
from relax_mlir.runtime.cuda import devices
from relax_mlir.runtime.cuda.arrays import (
    COPIED,
    DeviceArray,
    View,
    device_view,
    meet,
    unwrapped,
)
from relax_mlir.runtime.cuda.copies import copy_in
from relax_mlir.runtime.cuda.memory import Memory
from relax_mlir.runtime.elements import element_type
from relax_mlir.runtime.ndarray import Device, NDArray, as_numpy, is_on_gpu
from relax_mlir.runtime.ndarray import shared as shared_anywhere

__all__ = ["GPUArray", "borrowed", "described", "empty", "shared", "uploaded"]

_DEVICE_ORDINAL = 9  # the driver's number of what it tells about an address
_MOST_BYTES = 2**63 - 1  # that a number of the driver's can say


class GPUArray(NDArray):
    """An array in the memory of a GPU, row after row.

    Its elements are read and written through the host: ``numpy()`` and indexing copy all
    of them.

    Attributes:
        data: the memory, and who uses it.
    """

    def __init__(self, data: DeviceArray) -> None:
        self.data = data
        self.device = Device("cuda", data.device.ordinal)

    @property
    def __relax_array__(self) -> DeviceArray:
        return self.data

    @property
    def shape(self) -> tuple[int, ...]:
        """Its sizes."""
        return self.data.shape

    @property
    def dtype(self) -> str:
        """The name of its element type."""
        return self.data.dtype

    @property
    def element_type(self) -> np.dtype:
        """Its element type."""
        return element_type(self.dtype)

    def numpy(self) -> np.ndarray:
        """A copy in the host's memory, when what writes it is done."""
        return self.data.numpy()

    def on_host(self) -> np.ndarray:
        """A copy of the elements, to read only: what is written there would be lost."""
        array = self.data.numpy()
        array.flags.writeable = False
        return array

    def shares_memory(self, other: NDArray) -> bool:
        """Whether some of its elements may lie where some of another array do."""
        return isinstance(other, GPUArray) and meet(self.data.view, other.data.view)

    def copyfrom(self, source: Any) -> NDArray:
        """Overwrite all elements.

        Raises:
            ValueError: another shape; or it is a copy of somebody else's array, who would
                not see it.
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
        """Whether it is a copy of somebody else's array, who would not see a change."""
        return self.data.is_read_only

    def copied(self) -> NDArray:
        """An array of its own with the same elements, on the same device."""
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
    def __cuda_array_interface__(self) -> dict[str, Any]:  # Any: as it is specified
        return self.data.__cuda_array_interface__

    def __repr__(self) -> str:
        return f"<NDArray shape={self.shape}, {self.device}>\n{self.on_host()!r}"


def uploaded(array: np.ndarray, where: Device) -> GPUArray:
    """A copy of an array on a GPU.

    Raises:
        DeviceError, OutOfMemoryError: there is no such GPU, or no memory for it.
    """
    return GPUArray(DeviceArray.of(array, devices.device(where.index)))


def empty(shape: Sequence[int], dtype: str, where: Device) -> GPUArray:
    """An array whose elements are not set.

    Raises:
        ValueError: a size is negative, or there is no such element type.
        DeviceError, OutOfMemoryError: there is no such GPU, or no memory for it.
    """
    if any(size < 0 for size in shape):
        raise ValueError(f"`empty`: expected sizes of 0 or more, got {tuple(shape)}")
    device = devices.device(where.index)
    return GPUArray(DeviceArray(_memory(shape, dtype, device), shape, dtype))


def _memory(
    shape: Sequence[int], dtype: str, device: devices.Device, what: str = "`empty`"
) -> Memory:
    """Memory of a device for an array; ``what`` asks for it, for errors."""
    size_bytes = math.prod(shape) * element_type(dtype).itemsize
    if size_bytes > _MOST_BYTES:
        raise OutOfMemoryError(
            f"{what}: out of memory for {size_bytes} bytes of arrays"
        )
    return Memory(device, size_bytes, what, "arrays")


def shared(source: Any) -> GPUArray:  # Any: whatever is on a GPU
    """An array of somebody else: uncopied, or a copy to read only; see `borrowed`."""
    found = borrowed(source)
    return _copied(source) if found is None else found


def borrowed(source: Any) -> GPUArray | None:  # Any: as above
    """An array of somebody else, uncopied.

    None if it does not lie row after row from a multiple of 16 bytes on, or is read-only.
    """
    source = unwrapped(source)
    if isinstance(source, DeviceArray):
        return GPUArray(source)
    view = _view(source)
    if not view.is_plain or view.is_read_only:
        return None
    return GPUArray(DeviceArray(_Lent(view), view.shape, view.dtype))


def described(source: Any) -> str:  # Any: as above
    """How an array lies, for errors."""
    source = unwrapped(source)
    if isinstance(source, DeviceArray) and source.is_read_only:
        return COPIED
    return str(_view(source))


def _view(source: Any) -> View:  # Any: as above
    device = devices.device(_ordinal(source))
    with device.current():
        view = device_view(source, device, 0)
    assert view is not None
    return view


def _ordinal(source: Any) -> int:  # Any: as above
    """The number of the GPU that an array is on."""
    if hasattr(source, "__dlpack_device__"):
        return int(source.__dlpack_device__()[1])
    address, _ = source.__cuda_array_interface__["data"]
    if not address:  # of an array without elements
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


class _Lent(Memory):
    """Memory of somebody else, who is told when nobody here uses it."""

    def __init__(self, view: View) -> None:
        assert view.ordinal is not None
        super().__init__(devices.device(view.ordinal), 0)
        self.address, self.size_bytes = view.address, view.size_bytes
        self._owner = view.owner

    def free(self) -> None:
        self.address, self._owner = 0, None
