"""Descriptors of tensors that the copy engine of a GPU reads, as kernels get them.

Source: CUDA driver API, ``cuTensorMapEncodeTiled``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from relax_mlir.errors import DeviceError
from relax_mlir.runtime.cuda.driver import Driver
from relax_mlir.runtime.cuda.plan import TensorMap

__all__ = ["encode", "map_memory"]

_MAP_BYTES, _ALIGNMENT = 128, 64

# The driver's numbers.
_ELEMENTS = ("UINT8", "UINT16", "UINT32", "INT32", "UINT64", "INT64")
_ELEMENTS += ("FLOAT16", "FLOAT32", "FLOAT64", "BFLOAT16", "FLOAT32_FTZ", "TFLOAT32")
_SWIZZLES = ("NONE", "32B", "64B", "128B")
_NO_INTERLEAVE, _PROMOTE_TO_128B, _FILL_WITH_ZEROS = 0, 2, 0


def map_memory() -> Any:  # Any: an array of ctypes
    """Memory for a descriptor, aligned as it must be; it lives as long as the object."""
    whole = (ctypes.c_char * (_MAP_BYTES + _ALIGNMENT))()
    begin = -ctypes.addressof(whole) % _ALIGNMENT
    return (ctypes.c_char * _MAP_BYTES).from_buffer(whole, begin)


def encode(driver: Driver, memory: Any, tensor: TensorMap, address: int) -> None:
    """Write the descriptor of a tensor whose sizes are known and which is at an address.

    Raises:
        DeviceError: the tensor cannot be described; the message tells it.
    """
    what = (
        f"`main`: no descriptor for a tensor of {tensor.element}: sizes {tensor.sizes}, "
        f"strides {tensor.strides_bytes} bytes, box {tensor.box}, swizzle {tensor.swizzle}"
    )
    if tensor.element not in _ELEMENTS or tensor.swizzle not in _SWIZZLES:
        raise DeviceError(f"{what}: unknown element type or swizzle")
    rank = len(tensor.sizes)
    driver.call(
        "cuTensorMapEncodeTiled",
        ctypes.addressof(memory),
        _ELEMENTS.index(tensor.element),
        rank,
        address,
        _numbers(ctypes.c_uint64, tensor.sizes),
        _numbers(ctypes.c_uint64, tensor.strides_bytes),
        _numbers(ctypes.c_uint32, tensor.box),
        _numbers(ctypes.c_uint32, (1,) * rank),
        _NO_INTERLEAVE,
        _SWIZZLES.index(tensor.swizzle),
        _PROMOTE_TO_128B,
        _FILL_WITH_ZEROS,
        what=what,
    )


def _numbers(kind: Any, values: Sequence[int]) -> Any:  # Any: types of ctypes
    return (kind * max(1, len(values)))(*values)
