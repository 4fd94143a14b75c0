"""GPU memory: allocation with reclamation, deferred frees, pooling and scratch buffers."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Iterable
from contextlib import suppress
from typing import TypeAlias

from relax_mlir.errors import DeviceError, OutOfMemoryError
from relax_mlir.runtime.cuda.devices import Device, Event

__all__ = [
    "Memory",
    "MemoryPool",
    "ScratchBuffer",
    "allocate_rounded",
    "are_complete",
    "free_after",
    "release_completed",
    "rounded_size",
]


class Memory:
    """An allocation on a device, freed with the object.

    Args:
        size_bytes: 0 allocates nothing.
        where: beginning of error messages; use: purpose, for errors.

    Raises:
        OutOfMemoryError: memory is insufficient, even after reclaiming idle memory.
    """

    def __init__(
        self, device: Device, size_bytes: int, where: str = "`main`", use: str = ""
    ) -> None:
        self.device, self.size_bytes = device, size_bytes
        self.address = 0
        if size_bytes:
            self.address = _allocate(device, size_bytes, where, use)
            device.allocations[self.address] = size_bytes, use or "arrays"

    def free(self) -> None:
        """Free the memory."""
        address, self.address = self.address, 0
        if address:
            self.device.allocations.pop(address, None)
            with suppress(DeviceError), self.device.current():
                self.device.driver.call("cuMemFree_v2", address, what="free")

    def __del__(self) -> None:
        if getattr(self, "address", 0):
            self.free()


def _allocate(device: Device, size_bytes: int, where: str, use: str) -> int:
    problem = f"{where}: out of memory for {size_bytes} bytes"
    problem += f" of {use}" if use else ""
    release_completed(device)
    with device.current():
        try:
            return device.driver.handle("cuMemAlloc_v2", size_bytes, what=problem)
        except OutOfMemoryError as error:
            if not _reclaim(device):
                raise OutOfMemoryError(f"{error}; {_usage(device)}") from None
        try:
            return device.driver.handle("cuMemAlloc_v2", size_bytes, what=problem)
        except OutOfMemoryError as error:
            raise OutOfMemoryError(f"{error}; {_usage(device)}") from None


def _reclaim(device: Device) -> bool:
    """Free all idle memory; returns whether there was any."""
    holders = [holder() for holder in list(device.holders.values())]
    freed = [holder.give_back_idle() for holder in holders if holder is not None]
    return release_completed(device, is_waiting=True) or any(freed)


def _usage(device: Device) -> str:
    """Memory usage of a device by purpose, for errors."""
    bytes_of: Counter[str] = Counter()
    for size_bytes, use in list(device.allocations.values()):
        bytes_of[use] += size_bytes
    held = ", ".join(f"{n} bytes of {use}" for use, n in bytes_of.most_common())
    return (
        f"GPU {device.ordinal} has {device.left_bytes()} of {device.memory_bytes} bytes "
        f"left, this process holds {held or 'none'}"
    )


class MemoryPool:
    """Pool of freed array memory, for reuse by arrays of the same size.

    The driver synchronises with the whole device on free. Calls that reuse pooled memory
    only wait for those that used it before.

    Args:
        limit_bytes: maximum size of the pool.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        # By size, the least recently freed first.
        self._idle: OrderedDict[int, list[_Idle]] = OrderedDict()
        self._count = self._idle_bytes = 0
        self._is_open = True
        self._lock = threading.Lock()

    def take(self, size_bytes: int) -> _Idle | None:
        """Memory of a size, and the events to wait for before writing to it."""
        with self._lock:
            return self._pop(size_bytes, -1) if size_bytes in self._idle else None

    def _pop(self, size_bytes: int, index: int) -> _Idle:
        idle = self._idle[size_bytes].pop(index)
        if not self._idle[size_bytes]:
            del self._idle[size_bytes]
        self._count -= 1
        self._idle_bytes -= size_bytes
        return idle

    def give(self, memory: Memory, uses: Iterable[Event]) -> None:
        """Add memory to the pool; calls may still be using it."""
        if not memory.address:
            return
        # Non-blocking: a garbage collection inside the pool may call this.
        if not self._lock.acquire(blocking=False):
            free_after(memory, uses)
            return
        try:
            size_bytes = memory.size_bytes
            self._idle.setdefault(size_bytes, []).append((memory, tuple(uses)))
            self._idle.move_to_end(size_bytes)
            self._count += 1
            self._idle_bytes += size_bytes
            limits = (_KEPT, self._limit_bytes) if self._is_open else (0, 0)
            dropped = self._drop(*limits)
        finally:
            self._lock.release()
        _free(dropped)

    def _drop(self, kept: int, kept_bytes: int) -> list[_Idle]:
        """Remove the oldest entries until the limits hold."""
        dropped: list[_Idle] = []
        while self._count > kept or self._idle_bytes > kept_bytes:
            dropped.append(self._pop(next(iter(self._idle)), 0))
        return dropped

    def clear(self) -> bool:
        """Free all entries; returns whether there was any."""
        with self._lock:
            dropped = self._drop(0, 0)
        _free(dropped)
        return bool(dropped)

    def close(self) -> None:
        """Free all entries, and pool nothing from now on."""
        self._is_open = False
        self.clear()


_KEPT = 256  # maximum number of entries
_Idle: TypeAlias = tuple[Memory, tuple[Event, ...]]


def free_after(memory: Memory, uses: Iterable[Event]) -> None:
    """Free memory after the calls that use it, without waiting for them.

    Only the driver may synchronise on free.
    """
    pending = tuple(uses)
    memory.device.pending_frees.append((memory, pending))
    release_completed(memory.device)


def release_completed(device: Device, *, is_waiting: bool = False) -> bool:
    """Free memory whose uses are complete; returns whether there was any.

    Frees are in order: memory behind a longer-running use waits with it.

    Args:
        is_waiting: whether to wait for all uses.
    """
    pending = device.pending_frees
    if not pending:
        return False
    was_any = False
    with device.current(), suppress(IndexError):  # concurrent with other threads
        while pending:
            memory, uses = pending.popleft()
            if is_waiting:
                _wait_for(uses)
            elif not are_complete(uses):
                pending.appendleft((memory, uses))
                break
            memory.free()
            was_any = True
    return was_any


def are_complete(uses: Iterable[Event]) -> bool:
    """Whether all events are complete."""
    try:
        return all(event.is_complete() for event in uses)
    except DeviceError:  # a failed call is complete, too
        return True


def _wait_for(uses: Iterable[Event]) -> None:
    with suppress(DeviceError):  # a failed call is complete, too
        for event in uses:
            event.wait()


def _free(dropped: Iterable[_Idle]) -> None:
    for memory, uses in dropped:
        free_after(memory, uses)


class ScratchBuffer:
    """A scratch buffer that calls use in order, resized to about the largest need.

    Attributes:
        moves: number of reallocations and frees.

    Args:
        use: purpose, for errors.
    """

    def __init__(self, device: Device, use: str) -> None:
        self._device, self._use = device, use
        self._memory = Memory(device, 0)
        self.moves = 0

    @property
    def address(self) -> int:
        """The address; 0 if nothing is allocated."""
        return self._memory.address

    def fit(self, size_bytes: int, last: Event | None) -> None:
        """Resize to at least ``size_bytes``, and at most about twice as much.

        Args:
            last: event after all calls that use the buffer.

        Raises:
            OutOfMemoryError: memory is insufficient; the buffer is then empty.
        """
        has_bytes = self._memory.size_bytes
        if size_bytes <= has_bytes <= 2 * rounded_size(size_bytes):
            return
        self.free(last)
        if has_bytes:  # rounded, in expectation of further growth
            self._memory = allocate_rounded(self._device, size_bytes, use=self._use)
        else:
            self._memory = Memory(self._device, size_bytes, use=self._use)

    def free(self, last: Event | None) -> None:
        """Free the buffer after the last call."""
        memory, self._memory = self._memory, Memory(self._device, 0)
        self.moves += 1
        if memory.address:
            uses = [] if last is None or are_complete([last]) else [last.now()]
            free_after(memory, uses)


def allocate_rounded(
    device: Device,
    size_bytes: int,
    where: str = "`main`",
    use: str = "",
    most: int | None = None,
) -> Memory:
    """Allocate a rounded size, or the exact size if memory is short.

    Args:
        where, use: as for :class:`Memory`; most: as for :func:`rounded_size`.

    Raises:
        OutOfMemoryError: memory is insufficient.
    """
    try:
        return Memory(device, rounded_size(size_bytes, most), where, use)
    except OutOfMemoryError:
        return Memory(device, size_bytes, where, use)


def rounded_size(size_bytes: int, most: int | None = None) -> int:
    """Round a size up by at most an eighth or 512 bytes, to form size classes.

    Args:
        most: maximum number of added bytes.
    """
    step = max(_GRANULE_BYTES, 1 << max(0, size_bytes.bit_length() - 4))
    step = step if most is None else min(step, most)
    return -(-size_bytes // step) * step


_GRANULE_BYTES = 512  # allocation granularity of the driver
