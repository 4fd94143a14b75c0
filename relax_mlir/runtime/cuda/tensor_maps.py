"""Descriptors of tensors that the copy engine of a GPU reads, as kernels get them.

What is read outside of a tensor is zero. Reads take lines of 128 bytes to the L2 cache.

Source: CUDA driver API, ``cuTensorMapEncodeTiled``, and what it requires.
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
    "problem_of",
    "spans",
    "steps_of",
]

_MAP_BYTES, _ALIGNMENT = 128, 128
_KEPT = 256  # descriptors

# In the order of the driver's numbers. 8-bit floats are ``UINT8`` to it.
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

_MOST_DIMENSIONS, _MOST_IN_BOX, _MOST_STEP = 5, 256, 8
_MOST_ELEMENTS, _MOST_STRIDE_BYTES = 1 << 32, 1 << 40
_GRANULE_BYTES = 16  # of addresses, strides and rows of a box


class TensorMaps:
    """Descriptors by what they are made from: a tensor whose sizes are known, an address.

    One thread at a time uses it.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._made: OrderedDict[tuple[TensorMap, int], Any] = OrderedDict()

    def at(self, tensor: TensorMap, address: int) -> Any:  # Any: an array of ctypes
        """The descriptor of a tensor that is at an address; aligned as it must be.

        Of an empty tensor, which the driver does not describe, and no kernel reads: zeros.

        Raises:
            DeviceError: the tensor cannot be described; the message tells why.
        """
        key = tensor, address
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = _map_memory()
            try:
                if all(tensor.sizes):
                    _encode(self._driver, found, tensor, address)
            except DeviceError:
                del self._made[key]
                raise
            if len(self._made) > _KEPT:
                self._made.popitem(last=False)
        self._made.move_to_end(key)
        return found


def _map_memory() -> Any:  # Any: an array of ctypes
    """Memory for a descriptor; it lives as long as the object."""
    whole = (ctypes.c_char * (_MAP_BYTES + _ALIGNMENT))()
    begin = -ctypes.addressof(whole) % _ALIGNMENT
    return (ctypes.c_char * _MAP_BYTES).from_buffer(whole, begin)


def problem_of(tensor: TensorMap, address: int) -> str | None:
    """What the driver would refuse of a tensor at an address, and says no more of.

    Returns:
        What it expects; None if it would describe the tensor.
    """
    item_bytes = ELEMENT_BYTES.get(tensor.element)
    span_bytes = SWIZZLE_BYTES.get(tensor.swizzle)
    if item_bytes is None or span_bytes is None:
        return "unknown element type or swizzle"
    row_bytes = tensor.box[0] * item_bytes
    strides = tensor.strides_bytes
    checks = {
        f"at most {_MOST_DIMENSIONS} dimensions": len(tensor.sizes) <= _MOST_DIMENSIONS,
        f"an address at a multiple of {_GRANULE_BYTES}, got {address:#x}": (
            address % _GRANULE_BYTES == 0
        ),
        f"sizes from 1 to {_MOST_ELEMENTS}": all(
            1 <= n <= _MOST_ELEMENTS for n in tensor.sizes
        ),
        f"strides that are multiples of {_GRANULE_BYTES} bytes": not any(
            n % _GRANULE_BYTES for n in strides
        ),
        f"strides from 0 to below {_MOST_STRIDE_BYTES} bytes": all(
            0 <= n < _MOST_STRIDE_BYTES for n in strides
        ),
        f"a box of 1 to {_MOST_IN_BOX} in every dimension": all(
            1 <= n <= _MOST_IN_BOX for n in spans(tensor)
        ),
        f"steps from 1 to {_MOST_STEP}, and 1 of the innermost dimension": all(
            1 <= n <= _MOST_STEP for n in tensor.steps
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


def steps_of(tensor: TensorMap) -> tuple[int, ...]:
    """Of each dimension a box takes each so many-th element."""
    return tensor.steps or (1,) * len(tensor.box)


def spans(tensor: TensorMap) -> list[int]:
    """What a box spans, from its first element to its last."""
    return [(n - 1) * s + 1 for n, s in zip(tensor.box, steps_of(tensor), strict=True)]


def _encode(driver: Driver, memory: Any, tensor: TensorMap, address: int) -> None:
    what = (
        f"`main`: no descriptor for a tensor of {tensor.element}: sizes {tensor.sizes}, "
        f"strides {tensor.strides_bytes} bytes, box {tensor.box}, steps {steps_of(tensor)}, "
        f"swizzle {tensor.swizzle}"
    )
    problem = problem_of(tensor, address)
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
        _numbers(ctypes.c_uint32, spans(tensor)),
        _numbers(ctypes.c_uint32, steps_of(tensor)),
        _NO_INTERLEAVE,
        list(SWIZZLE_BYTES).index(tensor.swizzle),
        _PROMOTE_TO_128B,
        _FILL_WITH_ZEROS,
        what=what,
    )


def _numbers(kind: Any, values: Sequence[int]) -> Any:  # Any: types of ctypes
    return (kind * max(1, len(values)))(*values)
