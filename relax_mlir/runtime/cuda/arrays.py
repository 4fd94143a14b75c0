"""Arrays in the memory of a GPU: ours, and those of other libraries, without copies.

Source: DLPack 0.x (``DLManagedTensor``, the Python specification) and the CUDA array
interface, version 3.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from ctypes import POINTER, c_int64, c_void_p
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from relax_mlir.runtime.cuda.devices import Device, Memory, Pool
from relax_mlir.runtime.elements import dlpack_type, element_name, element_type

__all__ = [
    "ALIGNMENT",
    "DeviceArray",
    "View",
    "device_view",
    "host_view",
    "meet",
    "row_major",
    "wait",
]

ALIGNMENT = 16  # bytes: what kernels expect of every pointer

_CUDA, _CUDA_MANAGED = 2, 13  # DLPack's kinds of devices
_LEGACY_STREAM = 1  # as DLPack and the array interface number it


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


_Deleter = ctypes.CFUNCTYPE(None, POINTER(_DLManagedTensor))
_DLManagedTensor._fields_ = [
    ("tensor", _DLTensor),
    ("context", c_void_p),
    ("deleter", _Deleter),
]

# By address rather than as objects: the destructor of a capsule must not revive it.
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)
_pointer_in = ctypes.PYFUNCTYPE(c_void_p, c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_rename = ctypes.PYFUNCTYPE(ctypes.c_int, c_void_p, ctypes.c_char_p)(
    ("PyCapsule_SetName", ctypes.pythonapi)
)
_Destructor = ctypes.PYFUNCTYPE(None, c_void_p)
_new_capsule = ctypes.PYFUNCTYPE(
    ctypes.py_object, c_void_p, ctypes.c_char_p, _Destructor
)(("PyCapsule_New", ctypes.pythonapi))

_FRESH, _USED = b"dltensor", b"used_dltensor"


@dataclass(frozen=True)
class View:
    """An array of anyone, as the runtime sees it.

    Attributes:
        address: of the first element.
        strides: in elements.
        ordinal: of the GPU; None in the host's memory.
        owner: keeps the memory alive.
        is_read_only: whether it must not be written to.
    """

    address: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    ordinal: int | None
    owner: object
    is_read_only: bool = False

    @cached_property
    def item_bytes(self) -> int:
        """Bytes of an element."""
        return element_type(self.dtype).itemsize

    @cached_property
    def size_bytes(self) -> int:
        """Bytes of all elements."""
        return math.prod(self.shape) * self.item_bytes

    @cached_property
    def is_plain(self) -> bool:
        """Whether kernels can take it as it is: row-major, without gaps, and aligned."""
        if self.size_bytes == 0:
            return True
        expected = row_major(self.shape)
        is_dense = all(
            a == b or n == 1
            for n, a, b in zip(self.shape, self.strides, expected, strict=True)
        )
        return is_dense and self.address % ALIGNMENT == 0


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of an array without gaps, in elements."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return tuple(strides)


def meet(a: View, b: View) -> bool:
    """Whether two arrays have a byte in common."""
    if (a.ordinal is None) != (b.ordinal is None):
        return False
    if a.is_plain and b.is_plain:  # the usual case
        ends = a.address + a.size_bytes, b.address + b.size_bytes
        return max(a.address, b.address) < min(ends)
    return np.shares_memory(_shadow(a), _shadow(b))


class _Shadow:
    """What numpy makes an array of that nobody may read."""

    def __init__(self, view: View) -> None:
        self.__array_interface__ = {
            "data": (view.address or 1, True),
            "shape": (*view.shape, view.item_bytes),
            "strides": (*(n * view.item_bytes for n in view.strides), 1),
            "typestr": "|u1",
            "version": 3,
        }


def _shadow(view: View) -> np.ndarray:
    """An array that lies as a view does, even where the host has no memory."""
    return np.asarray(_Shadow(view))


class DeviceArray:
    """An array in the memory of a GPU, row-major.

    Other libraries take it without a copy, by DLPack (``torch.from_dlpack(array)``) or the
    CUDA array interface; ``numpy()`` gives a copy. A call that made it may still be
    running on its stream.

    Attributes:
        shape, dtype: ``dtype`` by name.
        address: of the first element.
        view: it, as the runtime sees it.
        stream: the driver's handle of the stream that writes it.

    Args:
        pool: that gets the memory when nobody holds the array, and nobody else has seen it.
    """

    def __init__(
        self,
        memory: Memory,
        shape: Sequence[int],
        dtype: str,
        stream: int = 0,
        pool: Pool | None = None,
    ) -> None:
        self.memory, self.shape, self.dtype = memory, tuple(shape), dtype
        self.address, self.stream = memory.address, stream
        self._pool = pool
        strides, ordinal = row_major(self.shape), memory.device.ordinal
        # Without an owner: who has the view has the array.
        self.view = View(self.address, dtype, self.shape, strides, ordinal, None)

    def __del__(self) -> None:
        pool = getattr(self, "_pool", None)
        if pool is not None:
            pool.give(self.memory, self.stream)

    def used_on(self, stream: int | None) -> None:
        """Note that work elsewhere than on its stream may use it, of which nobody tells."""
        if stream != self.stream:
            self._pool = None

    @property
    def device(self) -> Device:
        """The GPU that it is on."""
        return self.memory.device

    def __repr__(self) -> str:
        """What it is; not what is in it."""
        shape = ", ".join(map(str, self.shape))
        return f"<DeviceArray {self.dtype}[{shape}] on GPU {self.device.ordinal}>"

    @staticmethod
    def of(array: np.ndarray, device: Device) -> DeviceArray:
        """A copy of an array on a GPU.

        Raises:
            TypeError: its elements are in another byte order.
            ValueError: they are no numbers.
        """
        _check_byte_order(array.dtype)
        element_type(array.dtype.name)
        source = np.ascontiguousarray(array)
        made = DeviceArray(Memory(device, source.nbytes), array.shape, array.dtype.name)
        if source.nbytes:
            driver, what = device.driver, "an array cannot be copied"
            copy = (made.address, source.ctypes.data, source.nbytes, made.stream)
            with device.current():
                driver.call("cuMemcpyHtoDAsync_v2", *copy, what=what)
                driver.call("cuStreamSynchronize", made.stream, what=what)
        return made

    def numpy(self) -> np.ndarray:
        """A copy in the host's memory, when what writes it is done."""
        array = np.empty(self.shape, element_type(self.dtype))
        driver, what = self.device.driver, "an array cannot be read"
        if array.nbytes:
            copy = (array.ctypes.data, self.address, array.nbytes, self.stream)
            with self.device.current():
                driver.call("cuMemcpyDtoHAsync_v2", *copy, what=what)
                driver.call("cuStreamSynchronize", self.stream, what=what)
        return array

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        if copy is False:
            raise ValueError("an array on a GPU cannot become one of numpy uncopied")
        array = self.numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:  # Any: as it is specified
        self.used_on(None)
        typestr = element_type(self.dtype).str
        if typestr[1] == "V":
            raise AttributeError(f"element type `{self.dtype}` needs DLPack")
        return {
            "shape": self.shape,
            "typestr": typestr,
            "data": (self.address, False),
            "strides": None,
            "version": 3,
            "stream": self.stream or _LEGACY_STREAM,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CUDA, self.device.ordinal

    def __dlpack__(self, *, stream: int | None = None, **options: Any) -> Any:
        """A capsule for another library.

        Args:
            stream: on which it will be used; -1 if nobody has to wait.
            **options: what newer libraries ask for, ``max_version``, ``dl_device`` and
                ``copy``, is what they get only if nothing has to be done for it.
        """
        if options.get("copy") or options.get("dl_device") not in (
            None,
            self.__dlpack_device__(),
        ):
            raise BufferError("an array on a GPU is exported where it is, uncopied")
        self.used_on(None)
        if stream != -1:
            wait(self.device, self.stream, _own_number(stream))
        return _capsule(self)


def _own_number(stream: int | None) -> int:
    """The driver's handle of a stream, as DLPack and the array interface number it."""
    return 0 if stream in (None, 0, _LEGACY_STREAM) else stream


def wait(device: Device, first: int, then: int) -> None:
    """Let work on one stream wait for what has been put on another so far."""
    if first == then:
        return
    driver, what = device.driver, "a stream cannot wait for another"
    event = device.make("cuEventCreate", what)
    with device.current():
        try:
            driver.call("cuEventRecord", event, first, what=what)
            driver.call("cuStreamWaitEvent", then, event, 0, what=what)
        finally:
            driver.call("cuEventDestroy_v2", event, what=what)


# What other libraries hold, by the address of its structure.
_exported: dict[int, tuple[object, ...]] = {}


@_Deleter
def _release(managed: Any) -> None:  # Any: a pointer of ctypes
    _exported.pop(ctypes.addressof(managed.contents), None)


@_Destructor
def _drop(capsule: int) -> None:
    """Nobody has taken what is in a capsule."""
    if _is_valid(capsule, _FRESH):
        _exported.pop(_pointer_in(capsule, _FRESH), None)


def _capsule(array: DeviceArray) -> Any:  # Any: a capsule
    code, bits = dlpack_type(array.dtype)
    numbers = c_int64 * max(1, len(array.shape))
    shape, strides = numbers(*array.shape), numbers(*row_major(array.shape))
    managed = _DLManagedTensor()
    managed.tensor = _DLTensor(
        *(array.address, _CUDA, array.device.ordinal, len(array.shape)),
        *(code, bits, 1, shape, strides, 0),
    )
    managed.deleter = _release
    address = ctypes.addressof(managed)
    _exported[address] = (managed, array, shape, strides)
    return _new_capsule(address, _FRESH, _drop)


class _Borrowed:
    """What is in somebody else's capsule, given back when it is dropped."""

    def __init__(self, capsule: Any) -> None:  # Any: a capsule
        address = id(capsule)
        self.managed = ctypes.cast(
            _pointer_in(address, _FRESH), POINTER(_DLManagedTensor)
        )
        _rename(address, _USED)

    def __del__(self) -> None:
        deleter = self.managed.contents.deleter
        if deleter:
            deleter(self.managed)


def device_view(
    array: Any, device: Device, stream: int
) -> View | None:  # Any: whatever it may be
    """An array on a GPU as it is; None of what is elsewhere, or is no array.

    Args:
        device: that it is on, if it does not tell.
        stream: on which it will be used; work that writes it is waited for there.
    """
    if isinstance(array, DeviceArray):
        wait(array.device, array.stream, stream)
        array.used_on(stream)
        return array.view
    if isinstance(array, np.ndarray):
        return None
    if hasattr(array, "__dlpack_device__"):
        kind, _ = array.__dlpack_device__()
        if int(kind) in (_CUDA, _CUDA_MANAGED):
            return _of_dlpack(array, stream)
        return None
    if hasattr(array, "__cuda_array_interface__"):
        return _of_interface(array, device, stream)
    return None


def _of_dlpack(array: Any, stream: int) -> View:
    owner = _Borrowed(array.__dlpack__(stream=stream or _LEGACY_STREAM))
    tensor = owner.managed.contents.tensor
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else None
    return View(
        (tensor.data or 0) + tensor.byte_offset,
        element_name(tensor.code, tensor.bits),
        shape,
        row_major(shape) if strides is None else strides,
        tensor.device_id,
        owner,
    )


def _of_interface(array: Any, device: Device, stream: int) -> View:
    fields = array.__cuda_array_interface__
    if fields.get("mask") is not None:
        raise TypeError("expected an array without a mask")
    if fields.get("stream"):
        wait(device, _own_number(fields["stream"]), stream)
    dtype, shape = np.dtype(fields["typestr"]), tuple(fields["shape"])
    _check_byte_order(dtype)
    given = fields.get("strides")
    if given is not None and any(n % dtype.itemsize for n in given):
        raise ValueError(f"expected strides of whole elements, got {given} bytes")
    strides = (
        row_major(shape) if given is None else (n // dtype.itemsize for n in given)
    )
    address, is_read_only = fields["data"]
    where = device.ordinal
    return View(address, dtype.name, shape, tuple(strides), where, array, is_read_only)


def _check_byte_order(dtype: np.dtype) -> None:
    """Refuse elements that no machine here reads.

    Raises:
        TypeError: they are not in the byte order of this machine.
    """
    if not dtype.isnative:
        order = f"expected elements in native byte order, got `{dtype.str}`"
        raise TypeError(f"{order}. Hint: `array.astype({dtype.name!r})`.")


def host_view(array: Any) -> View:  # Any: whatever numpy takes
    """An array in the host's memory.

    Raises:
        TypeError: its elements are not in the byte order of this machine.
    """
    found = array if isinstance(array, np.ndarray) else _of_host(array)
    _check_byte_order(found.dtype)
    if any(step % found.itemsize for step in found.strides):
        found = found.copy()
    strides = tuple(step // found.itemsize for step in found.strides)
    is_read_only = not found.flags.writeable
    return View(
        found.ctypes.data,
        found.dtype.name,
        found.shape,
        strides,
        None,
        found,
        is_read_only,
    )


def _of_host(array: Any) -> np.ndarray:
    return np.from_dlpack(array) if hasattr(array, "__dlpack__") else np.asarray(array)
