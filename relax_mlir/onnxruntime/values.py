"""Devices, and values on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx

from relax_mlir.onnxruntime.errors import InvalidArgument
from relax_mlir.onnxruntime.types import element_name

__all__ = ["OrtDevice", "OrtValue", "array_at", "check_device"]


class OrtDevice:
    """A device: the CPU, where models run.

    Args:
        kind: ``cpu``.
        index: ignored.
    """

    def __init__(
        self, kind: str = "cpu", memory: object = None, index: int = 0
    ) -> None:
        check_device(kind)
        self._index = index

    @staticmethod
    def cpu() -> int:
        """The number of this kind of device."""
        return 0

    @staticmethod
    def default_memory() -> int:
        """The number of this kind of memory."""
        return 0

    def device_type(self) -> str:
        """The name of the kind."""
        return "cpu"

    def device_id(self) -> int:
        """The number of the device."""
        return self._index


def check_device(kind: object) -> None:
    """Refuse devices that are not the CPU.

    Raises:
        InvalidArgument: it is another.
    """
    if str(kind).lower() not in ("cpu", "0"):
        raise InvalidArgument(f"device `{kind}`: expected `cpu`, where sessions run")


class OrtValue:
    """A value in memory of the CPU: an array, a list of them, or nothing.

    Args:
        value: the array, which is shared.
    """

    def __init__(self, value: Any) -> None:
        self._value = value

    @staticmethod
    def ortvalue_from_numpy(
        numpy_obj: np.ndarray, device_type: str = "cpu", device_id: int = 0
    ) -> OrtValue:
        """A value that shares the memory of an array."""
        check_device(device_type)
        return OrtValue(np.asarray(numpy_obj))

    @staticmethod
    def ortvalue_from_shape_and_type(
        shape: Sequence[int],
        element_type: Any,
        device_type: str = "cpu",
        device_id: int = 0,
    ) -> OrtValue:
        """A value of a shape and an element type of numpy, or the number of one of ONNX."""
        check_device(device_type)
        if isinstance(element_type, int):
            element_type = onnx.helper.tensor_dtype_to_np_dtype(element_type)
        return OrtValue(np.empty(tuple(shape), element_type))

    @staticmethod
    def from_dlpack(data: Any, is_bool_tensor: bool = False) -> OrtValue:
        """A value that shares the memory of a tensor with DLPack."""
        array = np.from_dlpack(data)
        return OrtValue(array.view(bool) if is_bool_tensor else array)

    def __dlpack__(self, **options: Any) -> Any:
        return self.numpy().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.numpy().__dlpack_device__()

    def numpy(self) -> np.ndarray:
        """The array, which shares memory with the value.

        Raises:
            InvalidArgument: the value is no tensor.
        """
        if not self.is_tensor():
            raise InvalidArgument("OrtValue: expected a tensor, got another value")
        return self._value

    def value(self) -> Any:
        """The array, or the list of arrays."""
        return self._value

    def update_inplace(self, np_arr: np.ndarray) -> None:
        """Copy an array of the same shape and type into the value.

        Raises:
            InvalidArgument: the shape or type differs.
        """
        mine, given = self.numpy(), np.asarray(np_arr)
        if (mine.shape, mine.dtype) != (given.shape, given.dtype):
            raise InvalidArgument(
                f"update_inplace: expected {mine.dtype}{list(mine.shape)}, got "
                f"{given.dtype}{list(given.shape)}"
            )
        np.copyto(mine, given)

    def is_tensor(self) -> bool:
        """Whether it is one array."""
        return isinstance(self._value, np.ndarray)

    def is_tensor_sequence(self) -> bool:
        """Whether it is a list of arrays."""
        return isinstance(self._value, list)

    def is_sparse_tensor(self) -> bool:
        """Whether it is a sparse tensor: never."""
        return False

    def has_value(self) -> bool:
        """Whether it is anything at all."""
        return self._value is not None

    def shape(self) -> list[int]:
        """The shape of the array."""
        return list(self.numpy().shape)

    def element_type(self) -> int:
        """ONNX's number of the element type."""
        return onnx.helper.np_dtype_to_tensor_dtype(self.numpy().dtype)

    def data_type(self) -> str:
        """The type, such as ``tensor(float)``."""
        if self.is_tensor_sequence():
            return (
                f"seq({OrtValue(self._value[0]).data_type()})" if self._value else "seq"
            )
        return f"tensor({element_name(self.element_type())})"

    def device_name(self) -> str:
        """``cpu``."""
        return "cpu"

    def data_ptr(self) -> int:
        """The address of the first element."""
        return self.numpy().ctypes.data

    def tensor_size_in_bytes(self) -> int:
        """Size of the elements."""
        return self.numpy().nbytes


def array_at(address: int, shape: Sequence[int], element_type: Any) -> np.ndarray:
    """An array on memory of the caller."""
    if isinstance(element_type, int):
        element_type = onnx.helper.tensor_dtype_to_np_dtype(element_type)
    dtype = np.dtype(element_type)
    described = {
        "shape": tuple(shape),
        "typestr": f"|V{dtype.itemsize}",
        "data": (address, False),
        "version": 3,
    }
    holder = type("Memory", (), {"__array_interface__": described})()
    return np.asarray(holder).view(dtype)
