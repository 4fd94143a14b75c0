"""Encoding and cache of TMA descriptors (tensor maps).

Out-of-bounds reads are zero. Reads are promoted to 128 bytes in the L2 cache.

Source: CUDA driver API, ``cuTensorMapEncodeTiled``, and its requirements.
"""

from __future__ import annotations

import ctypes
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from relax_mlir.errors import DeviceError
from relax_mlir.runtime.cuda.driver import Driver
from relax_mlir.runtime.cuda.plan import TensorMap

__all__ = [
    "ELEMENT_BYTES",
    "SWIZZLE_BYTES",
    "TensorMaps",
    "box_spans",
    "element_strides",
    "unsupported_reason",
]

_MAP_BYTES, _ALIGNMENT = 128, 128
_KEPT = 256  # descriptors

# In the order of CUtensorMapDataType. 8-bit floats are ``UINT8``.
ELEMENT_BYTES = {
    "UINT8": 1,
    "UINT16": 2,
    "UINT32": 4,
    "INT32": 4,
    "UINT64": 8,
    "INT64": 8,
    "FLOAT16": 2,
    "FLOAT32": 4,
    "FLOAT64": 8,
    "BFLOAT16": 2,
    "FLOAT32_FTZ": 4,
    "TFLOAT32": 4,
}
SWIZZLE_BYTES = {"NONE": 0, "32B": 32, "64B": 64, "128B": 128}
_NO_INTERLEAVE, _PROMOTE_TO_128B, _FILL_WITH_ZEROS = 0, 2, 0

_MAX_RANK, _MAX_BOX, _MAX_STEP = 5, 256, 8
_MAX_ELEMENTS, _MAX_STRIDE_BYTES = 1 << 32, 1 << 40
_GRANULE_BYTES = 16  # of addresses, strides and rows of a box


class TensorMaps:
    """LRU cache of descriptors by tensor, with bound sizes, and address.

    Not thread-safe.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._descriptors: OrderedDict[tuple[TensorMap, int], Any] = OrderedDict()

    def at(self, tensor: TensorMap, address: int) -> Any:  # Any: an array of ctypes
        """The descriptor of a tensor at an address, with the required alignment.

        Zeros for an empty tensor, which the driver rejects, and no kernel reads.

        Raises:
            DeviceError: the tensor is unsupported; the message has the reason.
        """
        key = tensor, address
        descriptor = self._descriptors.get(key)
        if descriptor is None:
            descriptor = self._descriptors[key] = _map_memory()
            try:
                if all(tensor.sizes):
                    _encode(self._driver, descriptor, tensor, address)
            except DeviceError:
                del self._descriptors[key]
                raise
            if len(self._descriptors) > _KEPT:
                self._descriptors.popitem(last=False)
        self._descriptors.move_to_end(key)
        return descriptor


def _map_memory() -> Any:  # Any: an array of ctypes
    """Aligned memory for a descriptor."""
    memory = (ctypes.c_char * (_MAP_BYTES + _ALIGNMENT))()
    begin = -ctypes.addressof(memory) % _ALIGNMENT
    return (ctypes.c_char * _MAP_BYTES).from_buffer(memory, begin)


def unsupported_reason(tensor: TensorMap, address: int) -> str | None:
    """Reason why the driver rejects a tensor at an address, which it does not report.

    Returns:
        The violated requirement; None if there is none.
    """
    item_bytes = ELEMENT_BYTES.get(tensor.element)
    span_bytes = SWIZZLE_BYTES.get(tensor.swizzle)
    if item_bytes is None or span_bytes is None:
        return "unknown element type or swizzle"
    row_bytes = tensor.box[0] * item_bytes
    strides = tensor.strides_bytes
    checks = {
        f"at most {_MAX_RANK} dimensions": len(tensor.sizes) <= _MAX_RANK,
        f"an address at a multiple of {_GRANULE_BYTES}, got {address:#x}": (
            address % _GRANULE_BYTES == 0
        ),
        f"sizes from 1 to {_MAX_ELEMENTS}": all(
            1 <= n <= _MAX_ELEMENTS for n in tensor.sizes
        ),
        f"strides that are multiples of {_GRANULE_BYTES} bytes": not any(
            n % _GRANULE_BYTES for n in strides
        ),
        f"strides from 0 to below {_MAX_STRIDE_BYTES} bytes": all(
            0 <= n < _MAX_STRIDE_BYTES for n in strides
        ),
        f"a box of 1 to {_MAX_BOX} in every dimension": all(
            1 <= n <= _MAX_BOX for n in box_spans(tensor)
        ),
        f"steps from 1 to {_MAX_STEP}, and 1 of the innermost dimension": all(
            1 <= n <= _MAX_STEP for n in tensor.steps
        )
        and (*tensor.steps, 1)[0] == 1,
        f"rows of the box of a multiple of {_GRANULE_BYTES} bytes, got {row_bytes}": (
            row_bytes % _GRANULE_BYTES == 0
        ),
        f"rows of the box up to the swizzle's {span_bytes} bytes, got {row_bytes}": (
            span_bytes == 0 or row_bytes <= span_bytes
        ),
    }
    return next(
        (f"expected {text}" for text, is_met in checks.items() if not is_met), None
    )


def element_strides(tensor: TensorMap) -> tuple[int, ...]:
    """Element strides of the box, per dimension."""
    return tensor.steps or (1,) * len(tensor.box)


def box_spans(tensor: TensorMap) -> list[int]:
    """Extent of the box per dimension, from its first element to its last."""
    return [
        (n - 1) * s + 1
        for n, s in zip(tensor.box, element_strides(tensor), strict=True)
    ]


def _encode(driver: Driver, memory: Any, tensor: TensorMap, address: int) -> None:
    what = (
        f"`main`: unsupported descriptor of a tensor of {tensor.element}: sizes {tensor.sizes}, "
        f"strides {tensor.strides_bytes} bytes, box {tensor.box}, steps {element_strides(tensor)}, "
        f"swizzle {tensor.swizzle}"
    )
    problem = unsupported_reason(tensor, address)
    if problem is not None:
        raise DeviceError(f"{what}: {problem}")
    rank = len(tensor.sizes)
    driver.call(
        "cuTensorMapEncodeTiled",
        ctypes.addressof(memory),
        list(ELEMENT_BYTES).index(tensor.element),
        rank,
        address,
        _numbers(ctypes.c_uint64, tensor.sizes),
        _numbers(ctypes.c_uint64, tensor.strides_bytes),
        _numbers(ctypes.c_uint32, box_spans(tensor)),
        _numbers(ctypes.c_uint32, element_strides(tensor)),
        _NO_INTERLEAVE,
        list(SWIZZLE_BYTES).index(tensor.swizzle),
        _PROMOTE_TO_128B,
        _FILL_WITH_ZEROS,
        what=what,
    )


def _numbers(kind: Any, values: Sequence[int]) -> Any:  # Any: types of ctypes
    return (kind * max(1, len(values)))(*values)
