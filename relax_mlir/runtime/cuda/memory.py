"""Memory of a GPU: who holds how much, and what is given back when it is short."""

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
    "Pool",
    "Scratch",
    "are_past",
    "free_after",
    "rounded",
    "sweep",
    "take_rounded",
]


class Memory:
    """Bytes of a device, for as long as the object lives.

    Args:
        size_bytes: of 0 none are taken.
        where: they are needed, for errors; use: what for.

    Raises:
        OutOfMemoryError: there are not so many, even without all that is idle.
    """

    def __init__(
        self, device: Device, size_bytes: int, where: str = "`main`", use: str = ""
    ) -> None:
        self.device, self.size_bytes = device, size_bytes
        self.address = 0
        if size_bytes:
            self.address = _allocated(device, size_bytes, where, use)
            device.taken[self.address] = size_bytes, use or "arrays"

    def free(self) -> None:
        """Give it back."""
        address, self.address = self.address, 0
        if address:
            self.device.taken.pop(address, None)
            with suppress(DeviceError), self.device.current():
                self.device.driver.call("cuMemFree_v2", address, what="free")

    def __del__(self) -> None:
        if getattr(self, "address", 0):
            self.free()


def _allocated(device: Device, size_bytes: int, where: str, use: str) -> int:
    problem = f"{where}: out of memory for {size_bytes} bytes"
    problem += f" of {use}" if use else ""
    sweep(device)
    with device.current():
        try:
            return device.driver.handle("cuMemAlloc_v2", size_bytes, what=problem)
        except OutOfMemoryError as error:
            if not _reclaimed(device):
                raise OutOfMemoryError(f"{error}; {_held(device)}") from None
        try:
            return device.driver.handle("cuMemAlloc_v2", size_bytes, what=problem)
        except OutOfMemoryError as error:
            raise OutOfMemoryError(f"{error}; {_held(device)}") from None


def _reclaimed(device: Device) -> bool:
    """Give back all that no call uses; whether there was any."""
    holders = [holder() for holder in list(device.holders.values())]
    given_back = [holder.give_back_idle() for holder in holders if holder is not None]
    return sweep(device, is_waiting=True) or any(given_back)


def _held(device: Device) -> str:
    """Where the memory of a device is."""
    bytes_of: Counter[str] = Counter()
    for size_bytes, use in list(device.taken.values()):
        bytes_of[use] += size_bytes
    ours = ", ".join(f"{n} bytes of {use}" for use, n in bytes_of.most_common())
    return (
        f"GPU {device.ordinal} has {device.left_bytes()} of {device.memory_bytes} bytes "
        f"left, this process holds {ours or 'none'}"
    )


class Pool:
    """Memory of arrays that nobody holds any more, for new ones of the same size.

    The driver waits for the whole device when memory is given back. Memory from here is
    used again by calls that wait for those which have used it.

    Args:
        limit_bytes: that are kept at most.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        # By size, that which was given longest ago first.
        self._idle: OrderedDict[int, list[_Idle]] = OrderedDict()
        self._count = self._idle_bytes = 0
        self._is_open = True
        self._lock = threading.Lock()

    def take(self, size_bytes: int) -> _Idle | None:
        """Memory of a size, and what is to be waited for before it is written to."""
        with self._lock:
            return self._popped(size_bytes, -1) if size_bytes in self._idle else None

    def _popped(self, size_bytes: int, place: int) -> _Idle:
        found = self._idle[size_bytes].pop(place)
        if not self._idle[size_bytes]:
            del self._idle[size_bytes]
        self._count -= 1
        self._idle_bytes -= size_bytes
        return found

    def give(self, memory: Memory, uses: Iterable[Event]) -> None:
        """Keep memory, which some calls may still be using."""
        if not memory.address:
            return
        # The pool may be in use: by other threads, or below, where garbage is collected.
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
        """Take out the oldest, until there is not more than this."""
        dropped: list[_Idle] = []
        while self._count > kept or self._idle_bytes > kept_bytes:
            dropped.append(self._popped(next(iter(self._idle)), 0))
        return dropped

    def clear(self) -> bool:
        """Give all back; whether there was any."""
        with self._lock:
            dropped = self._drop(0, 0)
        _free(dropped)
        return bool(dropped)

    def close(self) -> None:
        """Give all back, and keep nothing from now on."""
        self._is_open = False
        self.clear()


_KEPT = 256  # pieces of memory
_Idle: TypeAlias = tuple[Memory, tuple[Event, ...]]


def free_after(memory: Memory, uses: Iterable[Event]) -> None:
    """Give memory back when calls that use it are done; nobody has to wait for that.

    The driver only may wait by itself when memory is given back.
    """
    pending = tuple(uses)
    memory.device.leaving.append((memory, pending))
    sweep(memory.device)


def sweep(device: Device, *, is_waiting: bool = False) -> bool:
    """Give memory back whose calls are done by now; whether there was any.

    It goes in the order in which it has left: what is behind calls that take longer waits
    with them.

    Args:
        is_waiting: whether to wait for all of them.
    """
    leaving = device.leaving
    if not leaving:
        return False
    was_any = False
    with device.current(), suppress(IndexError):  # other threads do so, too
        while leaving:
            memory, uses = leaving.popleft()
            if is_waiting:
                _wait_for(uses)
            elif not are_past(uses):
                leaving.appendleft((memory, uses))
                break
            memory.free()
            was_any = True
    return was_any


def are_past(uses: Iterable[Event]) -> bool:
    """Whether nobody has to wait for any of these any more."""
    try:
        return all(event.is_past() for event in uses)
    except DeviceError:  # a call that has failed is over as well
        return True


def _wait_for(uses: Iterable[Event]) -> None:
    with suppress(DeviceError):  # a call that has failed is over as well
        for event in uses:
            event.wait()


def _free(dropped: Iterable[_Idle]) -> None:
    for memory, uses in dropped:
        free_after(memory, uses)


class Scratch:
    """Memory that calls use in turn, about as much as the largest of some needs.

    Attributes:
        moves: how often it has gone elsewhere, or been given back.

    Args:
        use: what for, for errors.
    """

    def __init__(self, device: Device, use: str) -> None:
        self._device, self._use = device, use
        self._memory = Memory(device, 0)
        self.moves = 0

    @property
    def address(self) -> int:
        """Where it is; 0 if there is none."""
        return self._memory.address

    def fit(self, size_bytes: int, last: Event | None) -> None:
        """Have at least so many bytes, and not more than about twice as many.

        Args:
            last: behind all calls that use it.

        Raises:
            OutOfMemoryError: there are not so many; then it has none.
        """
        has_bytes = self._memory.size_bytes
        if size_bytes <= has_bytes <= 2 * rounded(size_bytes):
            return
        self.free(last)
        if has_bytes:  # what grows once will grow again
            self._memory = take_rounded(self._device, size_bytes, use=self._use)
        else:
            self._memory = Memory(self._device, size_bytes, use=self._use)

    def free(self, last: Event | None) -> None:
        """Give it back, when the last call is done."""
        memory, self._memory = self._memory, Memory(self._device, 0)
        self.moves += 1
        if memory.address:
            uses = [] if last is None or are_past([last]) else [last.now()]
            free_after(memory, uses)


def take_rounded(
    device: Device,
    size_bytes: int,
    where: str = "`main`",
    use: str = "",
    most: int | None = None,
) -> Memory:
    """Memory of a rounded size, or of the very size if there is no more.

    Args:
        where, use: as of :class:`Memory`; most: as of :func:`rounded`.

    Raises:
        OutOfMemoryError: there is not so much.
    """
    try:
        return Memory(device, rounded(size_bytes, most), where, use)
    except OutOfMemoryError:
        return Memory(device, size_bytes, where, use)


def rounded(size_bytes: int, most: int | None = None) -> int:
    """A size or somewhat more, an eighth or 512 bytes, so that many sizes are one.

    Args:
        most: bytes that it may be more.
    """
    step = max(_GRANULE_BYTES, 1 << max(0, size_bytes.bit_length() - 4))
    step = step if most is None else min(step, most)
    return -(-size_bytes // step) * step


_GRANULE_BYTES = 512  # that the driver gives at least
