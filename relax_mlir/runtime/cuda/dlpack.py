"""DLPack capsules of arrays on a GPU: export and import.

Source: DLPack 0.x (``DLManagedTensor``) and the Python specification.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import POINTER, c_int64, c_void_p
from typing import Any

import numpy as np

from relax_mlir.runtime.elements import dlpack_type, element_name

__all__ = ["CUDA", "CUDA_MANAGED", "ImportedTensor", "RawArray", "make_capsule"]

CUDA, CUDA_MANAGED = 2, 13  # DLDeviceType


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _DLManagedTensor(ctypes.Structure):
    pass


_DLManagedTensor._fields_ = [
    ("tensor", _DLTensor),
    ("context", c_void_p),
    ("deleter", ctypes.CFUNCTYPE(None, POINTER(_DLManagedTensor))),
]

_pointer_in = ctypes.PYFUNCTYPE(c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_SetName", ctypes.pythonapi)
)
_FRESH, _USED = b"dltensor", b"used_dltensor"


class RawArray:
    """Array interface of memory that the host must not access, for numpy's metadata.

    Args:
        strides: in elements.
        owner: lives as long as the array.
    """

    def __init__(
        self,
        address: int,
        shape: Sequence[int],
        strides: Sequence[int],
        item_bytes: int,
        owner: object = None,
    ) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "data": (address or 1, False),  # numpy takes 0 for memory of its own
            "shape": tuple(shape),
            "strides": tuple(n * item_bytes for n in strides),
            "typestr": np.dtype(f"u{item_bytes}").str,
            "version": 3,
        }


def make_capsule(
    owner: object,
    dtype: str,
    shape: Sequence[int],
    strides: Sequence[int],
    address: int,
    ordinal: int,
) -> Any:  # Any: a capsule
    """Export an array on a GPU as a capsule that keeps its owner alive.

    numpy creates the capsule, of an array with the same layout, so that its destructor is C
    code: a destructor in Python would clear a pending exception of the consumer.

    Raises:
        BufferError: the element type is not in DLPack.
    """
    code, bits = dlpack_type(dtype)
    array = np.asarray(RawArray(address, shape, strides, bits // 8, owner))
    capsule = array.__dlpack__()
    tensor = _managed(capsule).contents.tensor
    tensor.data, tensor.byte_offset = address, 0
    tensor.device_type, tensor.device_id = CUDA, ordinal
    tensor.code, tensor.bits = code, bits
    return capsule


def _managed(capsule: Any) -> Any:  # Any: a capsule; a pointer of ctypes
    return ctypes.cast(_pointer_in(capsule, _FRESH), POINTER(_DLManagedTensor))


class ImportedTensor:
    """The tensor of another library's capsule, released when the object is dropped.

    Attributes:
        address: of the first element.
        strides: in elements; None if C-contiguous.

    Raises:
        BufferError: it is not an unconsumed capsule.
        TypeError: its elements are sub-byte types, or vectors.
    """

    def __init__(self, capsule: Any) -> None:  # Any: a capsule
        try:
            self._managed = _managed(capsule)
        except (TypeError, ValueError) as error:
            raise BufferError(f"expected a capsule of DLPack: {error}") from None
        _rename(capsule, _USED)
        tensor = self._managed.contents.tensor
        self.dtype = element_name(tensor.code, tensor.bits)
        if tensor.lanes != 1 or tensor.bits % 8:
            raise TypeError(
                "expected scalar elements of whole bytes, got "
                f"{tensor.lanes} x {self.dtype}"
            )
        self.address = (tensor.data or 0) + tensor.byte_offset
        self.ordinal = tensor.device_id
        self.shape = tuple(tensor.shape[: tensor.ndim])
        self.strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else None

    def __del__(self) -> None:
        managed = getattr(self, "_managed", None)
        if managed is not None and managed.contents.deleter:
            managed.contents.deleter(managed)
