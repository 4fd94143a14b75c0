"""GPUs of this machine, their contexts, streams and events."""

from __future__ import annotations

import ctypes
import functools
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from ctypes import byref, c_void_p
from typing import Any, Protocol

from relax_mlir.errors import DeviceError
from relax_mlir.runtime.cuda.driver import (
    COMPUTE_CAPABILITY,
    MAX_PITCH_BYTES,
    SHARED_BYTES_OPT_IN,
    Driver,
    driver,
)

__all__ = [
    "Device",
    "Event",
    "ReusableEvent",
    "compute_capability",
    "device",
    "device_names",
    "timed_events",
]


def device_names() -> list[str]:
    """Names of the GPUs; empty without a driver or device."""
    try:
        count = driver().device_count()
        return [device(ordinal).name for ordinal in range(count)]
    except DeviceError:
        return []


def compute_capability(ordinal: int = 0) -> int | None:
    """Compute capability of a device, such as 90; None if the device does not exist."""
    try:
        return device(ordinal).compute_capability
    except DeviceError:
        return None


class MemoryHolder(Protocol):
    """Holder of memory that can be reclaimed under memory pressure."""

    def give_back_idle(self) -> bool:
        """Free memory that no call uses; returns whether there was any."""
        ...


class Device:
    """A GPU with its primary context, shared with other libraries of the process.

    Attributes:
        idle_events: handles of events for reuse.
        holders: holders of reclaimable memory, by number.
        allocations: size and purpose of all allocations, by address.
        pending_frees: memory to free, with the events of calls that still use it.

    Args:
        ordinal: of the GPU.

    Raises:
        DeviceError: the GPU does not exist.
    """

    def __init__(self, driver: Driver, ordinal: int) -> None:
        count = driver.device_count()
        if not 0 <= ordinal < count:
            raise DeviceError(
                f"GPU {ordinal} does not exist: this machine has {count or 'none'}"
            )
        self.driver, self.ordinal = driver, ordinal
        self.idle_events: list[int] = []
        self.holders: dict[int, weakref.ref[MemoryHolder]] = {}
        self.allocations: dict[int, tuple[int, str]] = {}
        self.pending_frees: deque[tuple[Any, tuple[Event, ...]]] = deque()
        what = f"GPU {ordinal} cannot be used"
        self._handle = driver.handle("cuDeviceGet", ordinal, what=what)

    @property
    def name(self) -> str:
        """The product name."""
        text = ctypes.create_string_buffer(256)
        what = f"GPU {self.ordinal} has no name"
        self.driver.call("cuDeviceGetName", text, len(text), self._handle, what=what)
        return text.value.decode(errors="replace")

    @functools.cached_property
    def compute_capability(self) -> int:
        """The compute capability, such as 90."""
        major, minor = map(self.attribute, COMPUTE_CAPABILITY)
        return 10 * major + minor

    @functools.cached_property
    def shared_bytes(self) -> int:
        """Maximum shared memory per block, with opt-in."""
        return self.attribute(SHARED_BYTES_OPT_IN)

    @property
    def memory_bytes(self) -> int:
        """Total memory."""
        what = f"the memory of GPU {self.ordinal} cannot be queried"
        return self.driver.handle("cuDeviceTotalMem_v2", self._handle, what=what)

    def attribute(self, number: int) -> int:
        """A device attribute, by the driver's number."""
        what = f"attribute {number} of GPU {self.ordinal} cannot be queried"
        return self.driver.handle(
            "cuDeviceGetAttribute", number, self._handle, what=what
        )

    @functools.cached_property
    def max_pitch_bytes(self) -> int:
        """Maximum pitch of 2-D copies."""
        return self.attribute(MAX_PITCH_BYTES)

    @functools.cached_property
    def _current(self) -> _Current:
        what = f"GPU {self.ordinal} cannot be used"
        context = self.driver.handle(
            "cuDevicePrimaryCtxRetain", self._handle, what=what
        )
        return _Current(self.driver, context, what)

    def current(self) -> _Current:
        """Context manager that makes the device current for this thread."""
        return self._current

    def make(self, function: str, what: str, flags: int | None = None) -> int:
        """Create a stream or an event, by a function whose only argument is flags."""
        value = _FLAGS[function] if flags is None else flags
        with self.current():
            return self.driver.handle(function, value, what=what)

    def wait(self) -> None:
        """Wait for all work of the device.

        Raises:
            DeviceError: some of it failed.
        """
        with self.current():
            what = f"GPU {self.ordinal} fails"
            self.driver.call("cuCtxSynchronize", what=what)

    def check_stream(self, stream: int) -> None:
        """Check that a stream is not being captured into a CUDA graph.

        The graph would use memory of the model at unsynchronised times.

        Raises:
            DeviceError: the stream is being captured, or is invalid.
        """
        if not stream:  # the default stream cannot be captured
            return
        what, captured = "`main`: its stream cannot be used", ctypes.c_int()
        self.driver.call("cuStreamIsCapturing", stream, byref(captured), what=what)
        if captured.value:
            raise DeviceError(
                f"{what}: it is being captured into a graph. Hint: call the model "
                "outside; its calls become graphs by themselves."
            )

    def left_bytes(self) -> int:
        """Free memory of the device, over all processes."""
        what = f"the memory of GPU {self.ordinal} cannot be queried"
        total = ctypes.c_size_t()
        return self.driver.handle("cuMemGetInfo_v2", byref(total), what=what)


# Non-blocking streams; events without timing.
_FLAGS = {"cuStreamCreate": 1, "cuEventCreate": 2}
_TIMED = 0  # flags of events with timing


class _Current:
    """Pushes and pops a context; stateless, so it can be shared by threads."""

    def __init__(self, driver: Driver, context: int, what: str) -> None:
        self._driver, self._context, self._what = driver, c_void_p(context), what
        self._push = driver.library.cuCtxPushCurrent_v2
        self._pop = driver.library.cuCtxPopCurrent_v2
        self._popped = byref(c_void_p())

    def __enter__(self) -> None:
        status = self._push(self._context)
        if status:
            raise self._driver.error(status, f"{self._what}: cuCtxPushCurrent_v2")

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        status = self._pop(self._popped)
        if status:
            raise self._driver.error(status, f"{self._what}: cuCtxPopCurrent_v2")


class Event:
    """An event after all work that is enqueued on a stream so far.

    Unlike a stream handle, it stays valid when the stream is destroyed or its handle reused,
    and denotes the same stream in all threads.

    Args:
        stream: of the current device.

    Raises:
        DeviceError: the stream is invalid.
    """

    __slots__ = ("_device", "_handle", "_is_complete")

    def __init__(self, device: Device, stream: int) -> None:
        what = "`main`: a stream cannot be waited for"
        self._device, self._is_complete = device, False
        try:
            self._handle = device.idle_events.pop()
        except IndexError:
            self._handle = device.make("cuEventCreate", what)
        device.driver.call("cuEventRecord", self._handle, stream, what=what)

    def __del__(self) -> None:
        handle = getattr(self, "_handle", None)
        if handle is not None:  # pending waits refer to the recorded state
            self._device.idle_events.append(handle)

    def let_wait(self, stream: int) -> None:
        """Make a stream wait for the work."""
        if not self._is_complete:
            what = "`main`: a stream cannot wait"
            self._device.driver.call(
                "cuStreamWaitEvent", stream, self._handle, 0, what=what
            )

    def is_complete(self) -> bool:
        """Whether the work is done."""
        if not self._is_complete:
            what = "`main`: a call cannot be waited for"
            self._is_complete = self._device.driver.is_event_complete(
                self._handle, what
            )
        return self._is_complete

    def now(self) -> Event:
        """An event that stays at the work enqueued so far."""
        return self

    def wait(self) -> None:
        """Wait until the work is done."""
        if not self._is_complete:
            what = "`main`: a call cannot be waited for"
            self._device.driver.call("cuEventSynchronize", self._handle, what=what)
            self._is_complete = True


@contextmanager
def timed_events(device: Device, count: int, what: str) -> Iterator[list[int]]:
    """Events with timing, destroyed at the end.

    Args:
        what: beginning of error messages.
    """
    events: list[int] = []
    with ExitStack() as cleanup:
        for _ in range(count):
            events.append(device.make("cuEventCreate", what, _TIMED))
            cleanup.callback(_destroy, device, events[-1], what)
        yield events


def _destroy(device: Device, event: int, what: str) -> None:
    with device.current():
        device.driver.call("cuEventDestroy_v2", event, what=what)


class ReusableEvent(Event):
    """An event that is recorded repeatedly; waits refer to the last record."""

    __slots__ = ("_stream",)

    def __init__(self, device: Device, stream: int) -> None:
        super().__init__(device, stream)
        self._stream = stream

    def now(self) -> Event:
        return Event(self._device, self._stream)

    def record(self) -> None:
        """Record the event after all work that is enqueued so far.

        Raises:
            DeviceError: the stream is invalid.
        """
        what = "`main`: a stream cannot be waited for"
        self._device.driver.call("cuEventRecord", self._handle, self._stream, what=what)

    def is_complete(self) -> bool:
        what = "`main`: a call cannot be waited for"
        return self._device.driver.is_event_complete(self._handle, what)

    def wait(self) -> None:
        what = "`main`: a call cannot be waited for"
        self._device.driver.call("cuEventSynchronize", self._handle, what=what)


@functools.cache
def _device(driver: Driver, ordinal: int) -> Device:
    return Device(driver, ordinal)


def device(ordinal: int = 0) -> Device:
    """A GPU of this machine.

    Raises:
        DeviceError: there is no driver, or the GPU does not exist.
    """
    return _device(driver(), ordinal)
