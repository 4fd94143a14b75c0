"""GPUs: what there is, and memory, streams and events of one."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from relax_mlir.errors import DeviceError
from relax_mlir.runtime.cuda.driver import (
    COMPUTE_CAPABILITY,
    SHARED_BYTES_OPT_IN,
    Driver,
    driver,
)

__all__ = [
    "Device",
    "Memory",
    "Pool",
    "Reservation",
    "compute_capability",
    "device",
    "device_names",
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


class Device:
    """A GPU, in its primary context, which other libraries of the process use as well.

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
    def _context(self) -> int:
        what = f"GPU {self.ordinal} cannot be used"
        return self.driver.handle("cuDevicePrimaryCtxRetain", self._handle, what=what)

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make it the device that calls of this thread are about."""
        what = f"GPU {self.ordinal} cannot be used"
        self.driver.call("cuCtxPushCurrent_v2", self._context, what=what)
        try:
            yield
        finally:
            self.driver.handle("cuCtxPopCurrent_v2", what=what)

    def make(self, function: str, what: str) -> int:
        """A stream or an event: what a function without arguments but flags makes."""
        with self.current():
            return self.driver.handle(function, _FLAGS[function], what=what)


# Streams that do not wait for others; events.
_FLAGS = {"cuStreamCreate": 1, "cuEventCreate": 0}


class Memory:
    """Bytes of a device, for as long as the object lives.

    Args:
        size_bytes: of 0 none are taken.
        where: they are needed, for errors; use: what for.

    Raises:
        OutOfMemoryError: there are not so many.
    """

    def __init__(
        self, device: Device, size_bytes: int, where: str = "`main`", use: str = ""
    ) -> None:
        self.device, self.size_bytes = device, size_bytes
        self.address = 0
        if size_bytes:
            problem = f"{where}: out of memory for {size_bytes} bytes"
            problem += f" of {use}" if use else ""
            with device.current():
                self.address = device.driver.handle(
                    "cuMemAlloc_v2", size_bytes, what=problem
                )

    def free(self) -> None:
        """Give it back; the driver waits for work that uses it."""
        address, self.address = self.address, 0
        if address:
            with suppress(DeviceError), self.device.current():
                self.device.driver.call("cuMemFree_v2", address, what="free")

    def __del__(self) -> None:
        if getattr(self, "address", 0):
            self.free()


class Pool:
    """Memory of arrays that nobody holds any more, for new ones of the same size.

    The driver waits for the whole device when memory is given back. Memory from here is
    used again on the stream where its array was written, behind all work on it.
    """

    def __init__(self) -> None:
        self._idle: dict[tuple[int, int], list[Memory]] = {}
        self._is_open = True

    def take(self, size_bytes: int, stream: int) -> Memory | None:
        """Memory of a size, last used on a stream, if there is some."""
        idle = self._idle.get((size_bytes, stream))
        return idle.pop() if idle else None

    def give(self, memory: Memory, stream: int) -> None:
        """Keep memory that all work on a stream is done with when that gets to it."""
        idle = self._idle.setdefault((memory.size_bytes, stream), [])
        if self._is_open and memory.address and len(idle) < _KEPT:
            idle.append(memory)

    def clear(self) -> bool:
        """Give all back; whether there was any."""
        # Arrays may be given back meanwhile, by other threads.
        found = [memory for idle in list(self._idle.values()) for memory in idle]
        self._idle.clear()
        for memory in found:
            memory.free()
        return bool(found)

    def close(self) -> None:
        """Give all back, and keep nothing from now on."""
        self._is_open = False
        self.clear()


_KEPT = 4  # pieces of memory of one size


class Reservation:
    """Memory that is given back if not all of it can be had: use it in a ``with``."""

    def __init__(self) -> None:
        self._taken: list[Memory] = []

    def take(self, memory: Memory) -> Memory:
        """Note some memory."""
        self._taken.append(memory)
        return memory

    def __enter__(self) -> Reservation:  # noqa: PYI034  Self is newer than Python 3.10
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is not None:  # the error would keep the memory alive
            for memory in self._taken:
                memory.free()


@functools.cache
def _device(driver: Driver, ordinal: int) -> Device:
    return Device(driver, ordinal)


def device(ordinal: int = 0) -> Device:
    """A GPU of this machine.

    Raises:
        DeviceError: there is no driver, or no such GPU.
    """
    return _device(driver(), ordinal)
