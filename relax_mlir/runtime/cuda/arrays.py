"""Arrays in GPU memory, and zero-copy exchange with other libraries.

Source: DLPack 0.x (the Python specification) and the CUDA array interface, version 3.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from relax_mlir.errors import UnknownAttributeError
from relax_mlir.runtime.cuda.devices import Device, Event
from relax_mlir.runtime.cuda.dlpack import (
    CUDA,
    CUDA_MANAGED,
    ImportedTensor,
    RawArray,
    make_capsule,
)
from relax_mlir.runtime.cuda.memory import Memory, MemoryPool, are_complete, free_after
from relax_mlir.runtime.elements import element_type

__all__ = [
    "ALIGNMENT",
    "COPY_DESCRIPTION",
    "ArrayView",
    "DeviceArray",
    "are_disjoint",
    "device_view",
    "host_view",
    "overlap",
    "row_major_strides",
    "stream_number",
    "unwrap",
]

ALIGNMENT = 16  # bytes; kernels rely on it for every pointer

# Description of a read-only array, for errors.
COPY_DESCRIPTION = "a copy of one that is not C-contiguous and aligned to 16 bytes"

# The legacy default stream; the driver accepts 0 for it, too. 2 is the per-thread default
# stream, others are handles: DLPack, the array interface and the driver agree.
_LEGACY_STREAM = 1
_COPIER = -1  # user number of copies between arrays, distinct from those of models
_MAX_OVERLAP_WORK = 10_000  # effort limit of numpy's overlap check


@dataclass(frozen=True)
class ArrayView:
    """Address and layout of an array of any library.

    Attributes:
        address: of the first element.
        strides: in elements.
        ordinal: of the GPU; None for host memory.
        owner: keeps the memory alive.
        is_read_only: whether the memory must not be written to.
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
        """Whether kernels can use it in place: C-contiguous and aligned."""
        if self.size_bytes == 0:
            return True
        expected = row_major_strides(self.shape)
        is_dense = all(
            a == b or n == 1
            for n, a, b in zip(self.shape, self.strides, expected, strict=True)
        )
        return is_dense and self.address % ALIGNMENT == 0

    def check_writable(self, where: str) -> None:
        """Check that kernels can write to the array in place.

        Raises:
            ValueError: they cannot.
        """
        if self.ordinal is None or not self.is_plain or self.is_read_only:
            raise ValueError(
                f"{where}: expected a writable C-contiguous array on the GPU, aligned to 16 "
                f"bytes, got {self}"
            )

    def __str__(self) -> str:
        """The layout, for errors."""
        kind = "a read-only one" if self.is_read_only else "one"
        if self.ordinal is None:
            return f"{kind} on the host"
        address = f"address {self.address:#x} of GPU {self.ordinal}"
        return f"{kind} of shape {self.shape} with strides {self.strides} at {address}"


def row_major_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a C-contiguous array, in elements."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return tuple(strides)


def overlap(a: ArrayView, b: ArrayView) -> bool:
    """Whether the memory of two arrays overlaps; conservatively true if hard to decide."""
    if (a.ordinal is None) != (b.ordinal is None):
        return False
    if a.is_plain and b.is_plain:  # fast path
        ends = a.address + a.size_bytes, b.address + b.size_bytes
        return max(a.address, b.address) < min(ends)
    try:
        # numpy's stubs allow only the literals 0 and -1.
        limit: Any = _MAX_OVERLAP_WORK
        return np.shares_memory(_bytes(a), _bytes(b), max_work=limit)
    except np.exceptions.TooHardError:
        return True


def are_disjoint(views: Sequence[ArrayView]) -> bool:
    """Whether arrays are certainly disjoint, in O(n log n)."""
    if not all(view.is_plain and view.ordinal is not None for view in views):
        return False
    spans = sorted((view.address, view.address + view.size_bytes) for view in views)
    return all(end <= begin for (_, end), (begin, _) in pairwise(spans))


def _bytes(view: ArrayView) -> np.ndarray:
    """A numpy array with the layout of a view, for address arithmetic only."""
    return np.asarray(RawArray(view.address, view.shape, view.strides, view.item_bytes))


class DeviceArray:
    """A C-contiguous array in GPU memory.

    Other libraries use it without a copy, by DLPack (``torch.from_dlpack(array)``) or the
    CUDA array interface; ``numpy()`` downloads a copy. The call that computes it may still
    be running.

    Attributes:
        shape, dtype: ``dtype`` by name.
        address: of the first element.
        is_read_only: whether it is a copy of another library's array, whose owner would
            not see changes.

    Args:
        pool: receives the memory when the array is dropped without having been exported.
    """

    def __init__(
        self,
        memory: Memory,
        shape: Sequence[int],
        dtype: str,
        pool: MemoryPool | None = None,
        *,
        is_read_only: bool = False,
    ) -> None:
        self.memory, self.shape, self.dtype = memory, tuple(shape), dtype
        self.address = memory.address
        self.is_read_only = is_read_only
        self._pool = pool
        self._writer: int | None = None
        self._uses: dict[int, Event] = {}  # after the last use by each model
        self._noting = threading.Lock()  # against concurrent calls of several models

    def __del__(self) -> None:
        pool = getattr(self, "_pool", None)
        if pool is not None:
            pool.give(self.memory, self._uses.values())
        elif getattr(self, "_uses", None):
            free_after(self.memory, self._uses.values())

    def note_use(self, user: int, event: Event, *, is_written: bool = False) -> None:
        """Record that a call reads the array, or writes to it.

        Args:
            user: number of a model, whose calls are ordered.
            event: after the call.
        """
        has_others = len(self._uses) > (user in self._uses)
        uses = self._uses.copy() if has_others and not is_written else {}
        complete = {other: last for other, last in uses.items() if are_complete([last])}
        with self._noting:
            for other, last in complete.items():  # of models that may be gone
                if self._uses.get(other) is last:
                    del self._uses[other]
            if is_written:  # the call waits for all others
                self._uses.clear()
                self._writer = user
            self._uses[user] = event

    def is_noted(self, user: int, event: Event) -> bool:
        """Whether this use is the latest, and the only one."""
        return self._uses.get(user) is event and len(self._uses) == 1

    def let_wait(
        self, stream: int, *, is_written: bool = False, user: int | None = None
    ) -> None:
        """Make a stream wait until the array can be read, or written to.

        Args:
            user: number of the model that will use it, whose own calls are ordered anyway.
        """
        for other, event in self._uses.copy().items():  # concurrent calls may add uses
            if other != user and (is_written or other == self._writer):
                event.let_wait(stream)

    @cached_property
    def view(self) -> ArrayView:
        """Its view, without an owner: holders of the view also hold the array."""
        strides = row_major_strides(self.shape)
        return ArrayView(
            self.address,
            self.dtype,
            self.shape,
            strides,
            self.device.ordinal,
            None,
            self.is_read_only,
        )

    @property
    def device(self) -> Device:
        """The GPU of its memory."""
        return self.memory.device

    def __repr__(self) -> str:
        """Element type, shape and device, without elements."""
        shape = ", ".join(map(str, self.shape))
        return f"<DeviceArray {self.dtype}[{shape}] on GPU {self.device.ordinal}>"

    @staticmethod
    def of(array: np.ndarray, device: Device) -> DeviceArray:
        """Upload a copy of an array.

        Raises:
            TypeError: the elements are not in native byte order.
            ValueError: the elements are not numbers.
        """
        _check_byte_order(array.dtype)
        element_type(array.dtype.name)
        memory = Memory(device, array.nbytes)
        copy = DeviceArray(memory, array.shape, array.dtype.name)
        copy.write(array)
        return copy

    def numpy(self) -> np.ndarray:
        """Download a copy, after the work that writes the array."""
        array = np.empty(self.shape, element_type(self.dtype))
        driver, what = self.device.driver, "an array cannot be read"
        if array.nbytes:
            copy = (array.ctypes.data, self.address, array.nbytes, 0)
            with self.device.current():
                self.let_wait(0)
                driver.call("cuMemcpyDtoHAsync_v2", *copy, what=what)
                driver.call("cuStreamSynchronize", 0, what=what)
        return array

    def write(self, array: np.ndarray) -> None:
        """Overwrite all elements, after the work that uses the array.

        Args:
            array: of the same shape and element type.

        Raises:
            ValueError: the array is read-only.
        """
        self._check_writable()
        source = np.ascontiguousarray(array)
        driver, what = self.device.driver, "an array cannot be written to"
        if source.nbytes:
            copy = (self.address, source.ctypes.data, source.nbytes, 0)
            with self.device.current():
                self.let_wait(0, is_written=True)
                driver.call("cuMemcpyHtoDAsync_v2", *copy, what=what)
                driver.call("cuStreamSynchronize", 0, what=what)

    def copy_from(self, other: DeviceArray) -> None:
        """Overwrite all elements on the GPU, asynchronously.

        Args:
            other: of the same shape, element type and GPU, in disjoint memory.

        Raises:
            ValueError: the array is read-only.
        """
        self._check_writable()
        if not self.view.size_bytes:
            return
        copy = (self.address, other.address, self.view.size_bytes, 0)
        what = "an array cannot be copied on the device"
        with self.device.current():
            other.let_wait(0)
            self.let_wait(0, is_written=True)
            self.device.driver.call("cuMemcpyDtoDAsync_v2", *copy, what=what)
            event = Event(self.device, 0)
            other.note_use(_COPIER, event)
            self.note_use(_COPIER, event, is_written=True)

    def _check_writable(self) -> None:
        if self.is_read_only:
            raise ValueError(f"expected an array to write to, got {COPY_DESCRIPTION}")

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        if copy is False:
            raise ValueError("an array on a GPU cannot become one of numpy uncopied")
        array = self.numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:  # Any: by the specification
        typestr = element_type(self.dtype).str
        if typestr[1] == "V":
            raise UnknownAttributeError(f"element type `{self.dtype}` needs DLPack")
        self._pool = None  # exported: further uses are unknown
        with self.device.current():
            self.let_wait(0)
        return {
            "shape": self.shape,
            "typestr": typestr,
            "data": (self.address, self.is_read_only),
            "strides": None,
            "version": 3,
            "stream": _LEGACY_STREAM,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, self.device.ordinal

    def __dlpack__(self, **options: Any) -> Any:  # Any: by the specification
        """Export the array as a DLPack capsule.

        Args:
            **options: ``stream`` of the consumer, -1 for no synchronisation. The newer
                ``max_version``, ``dl_device`` and ``copy`` are supported only if they
                need no conversion.

        Raises:
            BufferError: the array would have to be copied, is read-only, or its element
                type is not in DLPack.
            ValueError: the stream is invalid.
        """
        if self.is_read_only:  # DLPack before 1.0 cannot express it
            raise BufferError(f"expected a writable array, got {COPY_DESCRIPTION}")
        # Newer consumers pass all options: one without a stream wants a host array.
        if "copy" in options and "stream" not in options:
            raise BufferError(
                "an array on a GPU is not in host memory. Hint: `array.numpy()` is a copy."
            )
        if options.get("copy") or options.get("dl_device") not in (
            None,
            self.__dlpack_device__(),
        ):
            raise BufferError("an array on a GPU is exported in place, without a copy")
        stream = options.get("stream")
        view = self.view
        layout = (self.shape, view.strides, self.address, self.device.ordinal)
        capsule = make_capsule(self, self.dtype, *layout)
        self._pool = None
        if stream != -1:
            with self.device.current():
                self.let_wait(0 if stream is None else stream_number(stream))
        return capsule


def unwrap(array: Any) -> Any:  # Any: any object
    """The numpy or device array inside an ``NDArray``; other objects unchanged.

    By attribute, since model files do not bundle the class.
    """
    return getattr(array, "__relax_array__", array)


def stream_number(stream: int) -> int:
    """Validate a stream number of DLPack or the CUDA array interface.

    Raises:
        ValueError: the number is negative, or 0, which both leave undefined.
    """
    if stream < _LEGACY_STREAM:
        raise ValueError(
            f"`stream`: expected 1, the default stream, 2, the per-thread default stream, "
            f"or the driver's handle, got {stream}"
        )
    return stream


def device_view(
    array: Any,  # Any: any object
    device: Device,
    stream: int,
    *,
    is_written: bool = False,
    user: int | None = None,
) -> ArrayView | None:
    """The view of an array on a GPU; None for other objects.

    Args:
        device: of the array, if the protocol does not have it.
        stream: of the consumer, which waits for pending writes.
        is_written: whether the consumer writes; the stream then waits for reads, too.
        user: number of the consuming model, whose own calls are ordered.
    """
    if isinstance(array, DeviceArray):
        array.let_wait(stream, is_written=is_written, user=user)
        return array.view
    if isinstance(array, np.ndarray):
        return None
    if hasattr(array, "__dlpack_device__"):
        kind, _ = array.__dlpack_device__()
        if int(kind) in (CUDA, CUDA_MANAGED):
            return _of_dlpack(array, stream)
        return None
    if hasattr(array, "__cuda_array_interface__"):
        return _of_interface(array, device, stream)
    return None


def _of_dlpack(array: Any, stream: int) -> ArrayView:
    tensor = ImportedTensor(array.__dlpack__(stream=stream or _LEGACY_STREAM))
    strides = tensor.strides
    if strides is None:
        strides = row_major_strides(tensor.shape)
    layout = tensor.dtype, tensor.shape, strides, tensor.ordinal
    return ArrayView(tensor.address, *layout, tensor)


def _of_interface(array: Any, device: Device, stream: int) -> ArrayView:
    fields = array.__cuda_array_interface__
    if fields.get("mask") is not None:
        raise TypeError("expected an array without a mask")
    producer = fields.get("stream")
    if producer is not None and stream_number(producer) != stream:
        Event(device, stream_number(producer)).let_wait(stream)
    dtype, shape = np.dtype(fields["typestr"]), tuple(fields["shape"])
    _check_byte_order(dtype)
    byte_strides = fields.get("strides")
    if byte_strides is not None and any(n % dtype.itemsize for n in byte_strides):
        raise ValueError(
            f"expected strides that are multiples of the element size, got {byte_strides} bytes"
        )
    strides = (
        row_major_strides(shape)
        if byte_strides is None
        else (n // dtype.itemsize for n in byte_strides)
    )
    address, is_read_only = fields["data"]
    where = device.ordinal
    return ArrayView(
        address, dtype.name, shape, tuple(strides), where, array, is_read_only
    )


def _check_byte_order(dtype: np.dtype) -> None:
    """Check that elements are in native byte order.

    Raises:
        TypeError: they are not.
    """
    if not dtype.isnative:
        order = f"expected elements in native byte order, got `{dtype.str}`"
        raise TypeError(f"{order}. Hint: `array.astype({dtype.name!r})`.")


def host_view(array: Any) -> ArrayView:  # Any: any array-like
    """The view of an array in host memory.

    Raises:
        TypeError: the elements are not in native byte order.
    """
    host = array if isinstance(array, np.ndarray) else _as_numpy(array)
    _check_byte_order(host.dtype)
    if any(step % host.itemsize for step in host.strides):
        host = host.copy()
    strides = tuple(step // host.itemsize for step in host.strides)
    is_read_only = not host.flags.writeable
    return ArrayView(
        host.ctypes.data,
        host.dtype.name,
        host.shape,
        strides,
        None,
        host,
        is_read_only,
    )


def _as_numpy(array: Any) -> np.ndarray:
    return np.from_dlpack(array) if hasattr(array, "__dlpack__") else np.asarray(array)
