"""Arrays on GPUs, by the names that TVM's programs use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from relax_mlir.runtime import ndarray
from relax_mlir.runtime.cuda import devices
from relax_mlir.runtime.cuda.arrays import DeviceArray, View, device_view, meet
from relax_mlir.runtime.cuda.copies import copy_in
from relax_mlir.runtime.cuda.memory import Memory
from relax_mlir.runtime.elements import element_type
from relax_mlir.runtime.ndarray import Device, NDArray, as_numpy

__all__ = ["GPUArray", "borrowed", "empty", "shared", "uploaded"]


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
    def shape(self) -> tuple[int, ...]:
        """Its sizes."""
        return self.data.shape

    @property
    def dtype(self) -> str:
        """The name of its element type."""
        return self.data.dtype

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
            ValueError: another shape.
        """
        new = as_numpy(source)
        if new.shape != self.shape:
            raise ValueError(
                f"expected an array of shape {self.shape}, got {new.shape}"
            )
        self.data.write(new.astype(element_type(self.dtype)))
        return self

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
    """An array whose elements are not set; raises as :func:`uploaded`."""
    size_bytes = int(np.prod(shape, dtype=np.int64)) * element_type(dtype).itemsize
    memory = Memory(devices.device(where.index), size_bytes, "`empty`", "arrays")
    return GPUArray(DeviceArray(memory, shape, dtype))


def shared(source: Any) -> GPUArray:  # Any: whatever is on a GPU
    """An array of somebody else: uncopied, if it lies row after row."""
    found = borrowed(source)
    return _copied(source) if found is None else found


def borrowed(source: Any) -> GPUArray | None:  # Any: as above
    """An array of somebody else, uncopied; None if it does not lie row after row."""
    if isinstance(source, DeviceArray):
        return GPUArray(source)
    view = _view(source)
    if not view.is_plain or view.is_read_only:
        return None
    return GPUArray(DeviceArray(_Lent(view), view.shape, view.dtype))


def _view(source: Any) -> View:  # Any: as above
    _, ordinal = source.__dlpack_device__()
    device = devices.device(int(ordinal))
    with device.current():
        view = device_view(source, device, 0)
    assert view is not None
    return view


def _copied(source: Any) -> GPUArray:  # Any: as above
    view = _view(source)
    assert view.ordinal is not None
    made = empty(view.shape, view.dtype, ndarray.cuda(view.ordinal))
    device = made.data.device
    with device.current():
        copy_in(device, view, made.data.address, 0, is_waited_for=True)
        what = "an array cannot be copied"
        device.driver.call("cuStreamSynchronize", 0, what=what)
    return made


class _Lent(Memory):
    """Memory of somebody else, who is told when nobody here uses it."""

    def __init__(self, view: View) -> None:
        assert view.ordinal is not None
        super().__init__(devices.device(view.ordinal), 0)
        self.address, self.size_bytes = view.address, view.size_bytes
        self._owner = view.owner

    def free(self) -> None:
        self.address, self._owner = 0, None
