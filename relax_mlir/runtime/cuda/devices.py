"""GPUs: what there is, and streams and events of one."""

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
    "RepeatedEvent",
    "compute_capability",
    "device",
    "device_names",
    "timed_events",
]


def device_names() -> list[str]:
    """The names of the GPUs; empty where there is no driver or no device."""
    try:
        count = driver().device_count()
        return [device(ordinal).name for ordinal in range(count)]
    except DeviceError:
        return []


def compute_capability(ordinal: int = 0) -> int | None:
    """That of a device, such as 90; None if there is no such device."""
    try:
        return device(ordinal).compute_capability
    except DeviceError:
        return None


class Holder(Protocol):
    """Who holds memory that can be had when it is short."""

    def give_back_idle(self) -> bool:
        """Give back what no call uses; whether there was any."""
        ...


class Device:
    """A GPU, in its primary context, which other libraries of the process use as well.

    Attributes:
        idle_events: the driver's handles.
        holders: of memory, who are asked before there is none left, by number.
        taken: the bytes of all memory, and what for, by address.
        leaving: memory that goes back to the driver, and the calls that still use it.

    Args:
        ordinal: its number.

    Raises:
        DeviceError: there is no such GPU.
    """

    def __init__(self, driver: Driver, ordinal: int) -> None:
        count = driver.device_count()
        if not 0 <= ordinal < count:
            raise DeviceError(
                f"GPU {ordinal} is not there: this machine has {count or 'none'}"
            )
        self.driver, self.ordinal = driver, ordinal
        self.idle_events: list[int] = []
        self.holders: dict[int, weakref.ref[Holder]] = {}
        self.taken: dict[int, tuple[int, str]] = {}
        self.leaving: deque[tuple[Any, tuple[Event, ...]]] = deque()
        what = f"GPU {ordinal} cannot be used"
        self._handle = driver.handle("cuDeviceGet", ordinal, what=what)

    @property
    def name(self) -> str:
        """What NVIDIA calls it."""
        text = ctypes.create_string_buffer(256)
        what = f"GPU {self.ordinal} has no name"
        self.driver.call("cuDeviceGetName", text, len(text), self._handle, what=what)
        return text.value.decode(errors="replace")

    @functools.cached_property
    def compute_capability(self) -> int:
        """Such as 90."""
        major, minor = map(self.attribute, COMPUTE_CAPABILITY)
        return 10 * major + minor

    @functools.cached_property
    def shared_bytes(self) -> int:
        """The shared memory that a block may ask for."""
        return self.attribute(SHARED_BYTES_OPT_IN)

    @property
    def memory_bytes(self) -> int:
        """All of its memory."""
        what = f"GPU {self.ordinal} does not tell its memory"
        return self.driver.handle("cuDeviceTotalMem_v2", self._handle, what=what)

    def attribute(self, number: int) -> int:
        """A property of it, by the driver's number."""
        what = f"GPU {self.ordinal} does not tell attribute {number}"
        return self.driver.handle(
            "cuDeviceGetAttribute", number, self._handle, what=what
        )

    @functools.cached_property
    def max_pitch_bytes(self) -> int:
        """The largest distance of rows that a copy of many takes."""
        return self.attribute(MAX_PITCH_BYTES)

    @functools.cached_property
    def _current(self) -> _Current:
        what = f"GPU {self.ordinal} cannot be used"
        context = self.driver.handle(
            "cuDevicePrimaryCtxRetain", self._handle, what=what
        )
        return _Current(self.driver, context, what)

    def current(self) -> _Current:
        """Make it the device that calls of this thread are about, in a ``with``."""
        return self._current

    def make(self, function: str, what: str, flags: int | None = None) -> int:
        """A stream or an event: what a function without arguments but flags makes."""
        given = _FLAGS[function] if flags is None else flags
        with self.current():
            return self.driver.handle(function, given, what=what)

    def wait(self) -> None:
        """Wait until all is done that it was told.

        Raises:
            DeviceError: some of it fails.
        """
        with self.current():
            what = f"GPU {self.ordinal} fails"
            self.driver.call("cuCtxSynchronize", what=what)

    def check_stream(self, stream: int) -> None:
        """Refuse a stream whose work becomes a graph of somebody's instead of being done.

        The graph would use memory of the model whenever it is launched.

        Raises:
            DeviceError: it is such, or none.
        """
        if not stream:  # of all libraries: nobody captures it
            return
        what, captured = "`main`: its stream cannot be used", ctypes.c_int()
        self.driver.call("cuStreamIsCapturing", stream, byref(captured), what=what)
        if captured.value:
            raise DeviceError(
                f"{what}: it is being captured into a graph. Hint: call the model "
                "outside; its calls become graphs by themselves."
            )

    def left_bytes(self) -> int:
        """The memory that nobody has taken, of any program."""
        what = f"GPU {self.ordinal} does not tell its memory"
        whole = ctypes.c_size_t()
        return self.driver.handle("cuMemGetInfo_v2", byref(whole), what=what)


# Streams that do not wait for others; events that measure no times.
_FLAGS = {"cuStreamCreate": 1, "cuEventCreate": 2}
_TIMED = 0  # flags of events that do


class _Current:
    """A context that is pushed and popped; without state of its own, for all threads."""

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
    """A place in a stream, behind all work that has been put there so far.

    It says more than the stream: that may be gone, and its number another stream's; or
    be a number that means another stream in every thread.

    Args:
        stream: of a device that is current.

    Raises:
        DeviceError: it is no stream.
    """

    __slots__ = ("_device", "_handle", "_is_past")

    def __init__(self, device: Device, stream: int) -> None:
        what = "`main`: a stream cannot be waited for"
        self._device, self._is_past = device, False
        try:
            self._handle = device.idle_events.pop()
        except IndexError:
            self._handle = device.make("cuEventCreate", what)
        device.driver.call("cuEventRecord", self._handle, stream, what=what)

    def __del__(self) -> None:
        handle = getattr(self, "_handle", None)
        if handle is not None:  # whoever waits for it waits for what it has been
            self._device.idle_events.append(handle)

    def let_wait(self, stream: int) -> None:
        """Let a stream wait until the work is done."""
        if not self._is_past:
            what = "`main`: a stream cannot wait"
            self._device.driver.call(
                "cuStreamWaitEvent", stream, self._handle, 0, what=what
            )

    def is_past(self) -> bool:
        """Whether the work is done."""
        if not self._is_past:
            what = "`main`: a call cannot be waited for"
            self._is_past = self._device.driver.has_passed(self._handle, what)
        return self._is_past

    def now(self) -> Event:
        """One that stays behind the work that has been put there so far."""
        return self

    def wait(self) -> None:
        """Wait until the work is done."""
        if not self._is_past:
            what = "`main`: a call cannot be waited for"
            self._device.driver.call("cuEventSynchronize", self._handle, what=what)
            self._is_past = True


@contextmanager
def timed_events(device: Device, count: int, what: str) -> Iterator[list[int]]:
    """Events that measure times, destroyed at the end.

    Args:
        what: is wrong if it fails: how the message begins.
    """
    events: list[int] = []
    with ExitStack() as given_back:
        for _ in range(count):
            events.append(device.make("cuEventCreate", what, _TIMED))
            given_back.callback(_destroy, device, events[-1], what)
        yield events


def _destroy(device: Device, event: int, what: str) -> None:
    with device.current():
        device.driver.call("cuEventDestroy_v2", event, what=what)


class RepeatedEvent(Event):
    """A place in a stream that moves on: whoever waits waits for the last one."""

    __slots__ = ("_stream",)

    def __init__(self, device: Device, stream: int) -> None:
        super().__init__(device, stream)
        self._stream = stream

    def now(self) -> Event:
        return Event(self._device, self._stream)

    def record(self) -> None:
        """Be behind all work that has been put there so far.

        Raises:
            DeviceError: it is no stream.
        """
        what = "`main`: a stream cannot be waited for"
        self._device.driver.call("cuEventRecord", self._handle, self._stream, what=what)

    def is_past(self) -> bool:
        what = "`main`: a call cannot be waited for"
        return self._device.driver.has_passed(self._handle, what)

    def wait(self) -> None:
        what = "`main`: a call cannot be waited for"
        self._device.driver.call("cuEventSynchronize", self._handle, what=what)


@functools.cache
def _device(driver: Driver, ordinal: int) -> Device:
    return Device(driver, ordinal)


def device(ordinal: int = 0) -> Device:
    """A GPU of this machine.

    Raises:
        DeviceError: there is no driver, or no such GPU.
    """
    return _device(driver(), ordinal)
