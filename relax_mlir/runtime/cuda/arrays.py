"""Arrays in the memory of a GPU: ours, and those of other libraries, without copies.

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
from relax_mlir.runtime.cuda.dlpack import CUDA, CUDA_MANAGED, Borrowed, Bytes, capsule
from relax_mlir.runtime.cuda.memory import Memory, Pool, are_past, free_after
from relax_mlir.runtime.elements import element_type

__all__ = [
    "ALIGNMENT",
    "COPIED",
    "DeviceArray",
    "View",
    "are_apart",
    "device_view",
    "host_view",
    "meet",
    "row_major",
    "stream_number",
    "unwrapped",
]

ALIGNMENT = 16  # bytes: what kernels expect of every pointer

# What a read-only array is, for errors.
COPIED = "a copy of one that does not lie row after row from a multiple of 16 bytes on"

# The stream that all libraries share; the driver calls it 0 as well. 2 is one of the calling
# thread's own, others are handles: DLPack, the array interface and the driver agree.
_LEGACY_STREAM = 1
_COPIER = -1  # the number of copies between arrays: no model has it
_MOST_WORK = 10_000  # of finding out whether arrays share memory


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

    def check_writable(self, where: str) -> None:
        """Refuse what kernels cannot write to where it is.

        Raises:
            ValueError: it is such.
        """
        if self.ordinal is None or not self.is_plain or self.is_read_only:
            raise ValueError(
                f"{where}: expected an array on the GPU to write to, row after row from a "
                f"multiple of 16 bytes on, got {self}"
            )

    def __str__(self) -> str:
        """How it lies, for errors."""
        kind = "a read-only one" if self.is_read_only else "one"
        if self.ordinal is None:
            return f"{kind} on the host"
        place = f"address {self.address:#x} of GPU {self.ordinal}"
        return f"{kind} of shape {self.shape} with strides {self.strides} at {place}"


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of an array without gaps, in elements."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return tuple(strides)


def meet(a: View, b: View) -> bool:
    """Whether two arrays have a byte in common; where that is hard to tell, they may."""
    if (a.ordinal is None) != (b.ordinal is None):
        return False
    if a.is_plain and b.is_plain:  # the usual case
        ends = a.address + a.size_bytes, b.address + b.size_bytes
        return max(a.address, b.address) < min(ends)
    try:
        # numpy's types know only 0 and -1 of a number.
        limit: Any = _MOST_WORK
        return np.shares_memory(_bytes(a), _bytes(b), max_work=limit)
    except np.exceptions.TooHardError:
        return True


def are_apart(views: Sequence[View]) -> bool:
    """Whether arrays surely have no byte in common, without a look at every pair."""
    if not all(view.is_plain and view.ordinal is not None for view in views):
        return False
    spans = sorted((view.address, view.address + view.size_bytes) for view in views)
    return all(end <= begin for (_, end), (begin, _) in pairwise(spans))


def _bytes(view: View) -> np.ndarray:
    """An array that lies as a view does, even where the host has no memory."""
    return np.asarray(Bytes(view.address, view.shape, view.strides, view.item_bytes))


class DeviceArray:
    """An array in the memory of a GPU, row-major.

    Other libraries take it without a copy, by DLPack (``torch.from_dlpack(array)``) or the
    CUDA array interface; ``numpy()`` gives a copy. A call that made it may still be
    running.

    Attributes:
        shape, dtype: ``dtype`` by name.
        address: of the first element.
        is_read_only: whether it is a copy of another array, whose owner would not see what
            is written to it.

    Args:
        pool: that gets the memory when nobody holds the array, and nobody else has seen it.
    """

    def __init__(
        self,
        memory: Memory,
        shape: Sequence[int],
        dtype: str,
        pool: Pool | None = None,
        *,
        is_read_only: bool = False,
    ) -> None:
        self.memory, self.shape, self.dtype = memory, tuple(shape), dtype
        self.address = memory.address
        self.is_read_only = is_read_only
        self._pool = pool
        self._writer: int | None = None
        self._uses: dict[int, Event] = {}  # behind the last of every model
        self._noting = threading.Lock()  # of several models in threads

    def __del__(self) -> None:
        pool = getattr(self, "_pool", None)
        if pool is not None:
            pool.give(self.memory, self._uses.values())
        elif getattr(self, "_uses", None):
            free_after(self.memory, self._uses.values())

    def note_use(self, user: int, event: Event, *, is_written: bool = False) -> None:
        """Note that a call reads it, or writes to it.

        Args:
            user: number of a model, whose calls come one after the other.
            event: behind the call.
        """
        has_others = len(self._uses) > (user in self._uses)
        known = self._uses.copy() if has_others and not is_written else {}
        past = {other: last for other, last in known.items() if are_past([last])}
        with self._noting:
            for other, last in past.items():  # of models that may be gone
                if self._uses.get(other) is last:
                    del self._uses[other]
            if is_written:  # the call has waited for all others
                self._uses.clear()
                self._writer = user
            self._uses[user] = event

    def is_noted(self, user: int, event: Event) -> bool:
        """Whether this is the last use that is noted, and the only one."""
        return self._uses.get(user) is event and len(self._uses) == 1

    def let_wait(
        self, stream: int, *, is_written: bool = False, user: int | None = None
    ) -> None:
        """Let a stream wait until it can be read there, or written to.

        Args:
            user: number of the model that is to use it, whose calls have waited anyway.
        """
        for other, event in self._uses.copy().items():  # threads may note more
            if other != user and (is_written or other == self._writer):
                event.let_wait(stream)

    @cached_property
    def view(self) -> View:
        """It, as the runtime sees it; without an owner, who has the view has the array."""
        strides, where = row_major(self.shape), self.device.ordinal
        return View(
            self.address,
            self.dtype,
            self.shape,
            strides,
            where,
            None,
            self.is_read_only,
        )

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
        made = DeviceArray(Memory(device, array.nbytes), array.shape, array.dtype.name)
        made.write(array)
        return made

    def numpy(self) -> np.ndarray:
        """A copy in the host's memory, when what writes it is done."""
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
        """Overwrite all elements, when what uses them is done.

        Args:
            array: of the same shape and element type.

        Raises:
            ValueError: it is read-only.
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
        """Overwrite all elements on the GPU; the host does not wait.

        Args:
            other: of the same shape, element type and GPU, in other memory.

        Raises:
            ValueError: it is read-only.
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
            raise ValueError(f"expected an array to write to, got {COPIED}")

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        if copy is False:
            raise ValueError("an array on a GPU cannot become one of numpy uncopied")
        array = self.numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:  # Any: as it is specified
        typestr = element_type(self.dtype).str
        if typestr[1] == "V":
            raise UnknownAttributeError(f"element type `{self.dtype}` needs DLPack")
        self._pool = None  # from now on others use it, of which nobody tells
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

    def __dlpack__(self, **options: Any) -> Any:  # Any: as it is specified
        """A capsule for another library.

        Args:
            **options: ``stream``, on which it will be used, -1 if nobody has to wait. What
                newer libraries ask for, ``max_version``, ``dl_device`` and ``copy``, is
                what they get only if nothing has to be done for it.

        Raises:
            BufferError: it would have to be copied, is read-only, or DLPack has no such
                elements.
            ValueError: there is no such stream.
        """
        if self.is_read_only:  # which DLPack cannot say
            raise BufferError(f"expected an array that may be written to, got {COPIED}")
        # Newer libraries tell all that they know: one without a stream is on the host.
        if "copy" in options and "stream" not in options:
            raise BufferError(
                "an array on a GPU is none on the host. Hint: `array.numpy()` is a copy."
            )
        if options.get("copy") or options.get("dl_device") not in (
            None,
            self.__dlpack_device__(),
        ):
            raise BufferError("an array on a GPU is exported where it is, uncopied")
        stream = options.get("stream")
        view = self.view
        place = (self.shape, view.strides, self.address, self.device.ordinal)
        made = capsule(self, self.dtype, *place)
        self._pool = None
        if stream != -1:
            with self.device.current():
                self.let_wait(0 if stream is None else stream_number(stream))
        return made


def unwrapped(array: Any) -> Any:  # Any: whatever it may be
    """The array of numpy, or of this module, that an ``NDArray`` has; others as they are.

    Found by a name: files of models carry no such class.
    """
    return getattr(array, "__relax_array__", array)


def stream_number(stream: int) -> int:
    """The number of a stream, which the driver and libraries have in common.

    Raises:
        ValueError: it is 0, which those leave undefined, or negative.
    """
    if stream < _LEGACY_STREAM:
        raise ValueError(
            f"`stream`: expected 1, the stream that all share, 2, one of the thread's own, "
            f"or the driver's handle, got {stream}"
        )
    return stream


def device_view(
    array: Any,  # Any: whatever it may be
    device: Device,
    stream: int,
    *,
    is_written: bool = False,
    user: int | None = None,
) -> View | None:
    """An array on a GPU as it is; None of what is elsewhere, or is no array.

    Args:
        device: that it is on, if it does not tell.
        stream: on which it will be used; work that writes it is waited for there.
        is_written: whether it will be written to; work that reads it is waited for, too.
        user: number of the model that is to use it, whose calls wait for each other.
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


def _of_dlpack(array: Any, stream: int) -> View:
    found = Borrowed(array.__dlpack__(stream=stream or _LEGACY_STREAM))
    strides = row_major(found.shape) if found.strides is None else found.strides
    where = found.ordinal
    return View(found.address, found.dtype, found.shape, strides, where, found)


def _of_interface(array: Any, device: Device, stream: int) -> View:
    fields = array.__cuda_array_interface__
    if fields.get("mask") is not None:
        raise TypeError("expected an array without a mask")
    writing = fields.get("stream")
    if writing is not None and stream_number(writing) != stream:
        Event(device, stream_number(writing)).let_wait(stream)
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
