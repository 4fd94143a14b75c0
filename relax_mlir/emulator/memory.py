"""Memory that emulated threads read and write, and what they must not do to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from relax_mlir.emulator.lanes import Lanes, happened_before
from relax_mlir.errors import RelaxError

__all__ = ["Buffer", "EmulationError", "Memory", "poison"]


class EmulationError(RelaxError):
    """An emulated kernel does what it must not: races, or leaves its memory."""


class Memory:
    """Elements of one type in a row.

    Args:
        array: of one dimension.
        size: elements that one instance has; all of them if there is one.
        instance: by lane, which instance it sees; None if there is one.
        is_shared: whether threads of a block exchange values through it.
        address: where it begins in the block's memory, in bytes, if it is shared.
    """

    def __init__(
        self,
        array: np.ndarray,
        size: int | None = None,
        instance: np.ndarray | None = None,
        is_shared: bool = False,
        address: int = 0,
    ) -> None:
        self.array, self.address, self.is_shared = array, address, is_shared
        self.size = len(array) if size is None else size
        self._base = None if instance is None else instance * self.size
        self._races = _Races(len(array)) if is_shared else None
        self._writers: _Writers | None = None

    def forget_writers(self) -> None:
        """A new launch begins."""
        self._writers = None

    def places(
        self, offsets: np.ndarray, count: int, mask: np.ndarray | None, lanes: Lanes
    ) -> np.ndarray:
        """Where ``count`` neighbours from some offsets on are in the array.

        Raises:
            EmulationError: a lane that is active leaves the memory.
        """
        if count != 1:
            offsets = offsets[:, None] + np.arange(count)
        outside = (offsets < 0) | (offsets >= self.size)
        if mask is not None:
            active = (
                mask
                if offsets.ndim == 1
                else mask.reshape(-1, *[1] * (offsets.ndim - 1))
            )
            outside = outside & active
            offsets = np.where(active, offsets, 0)
        if outside.any():
            where = np.argwhere(np.broadcast_to(outside, outside.shape))[0]
            lane = int(where[0]) if outside.shape[0] > 1 else 0
            wrong = int(offsets[tuple(where)])
            raise EmulationError(
                f"block {lanes.block[lane]}, thread {lanes.thread[lane]}: element {wrong} "
                f"of a buffer of {self.size}"
            )
        if self._base is not None:
            base = self._base if offsets.ndim == 1 else self._base[:, None]
            offsets = offsets + base
        return offsets

    def read(
        self, places: np.ndarray, mask: np.ndarray | None, lanes: Lanes
    ) -> np.ndarray:
        """The elements at some places."""
        if self._races is not None:
            self._races.read(places, mask, lanes)
        elif self._base is None and self._writers is not None:
            self._writers.read(places, mask, lanes)
        return self.array[places]

    def read_as_nobody(self, places: np.ndarray) -> np.ndarray:
        """What the copy engine reads.

        Raises:
            EmulationError: a thread of the launch has written there.
        """
        if self._writers is not None and (self._writers.writer[places] >= 0).any():
            raise EmulationError("a copy reads what the launch has written")
        return self.array[places]

    def write(
        self,
        places: np.ndarray,
        values: np.ndarray,
        mask: np.ndarray | None,
        lanes: Lanes,
    ) -> None:
        """Write elements at some places."""
        shape = (lanes.count, *places.shape[1:])
        places, values = (np.broadcast_to(a, shape) for a in (places, values))
        if self._races is not None:
            self._races.write(places, mask, lanes)
        elif self._base is None:
            if self._writers is None:
                self._writers = _Writers(len(self.array))
            self._writers.write(places, mask, lanes)
        active = slice(None) if mask is None else mask
        self.array[places[active]] = values[active]


class _Writers:
    """Which thread of a launch has written each element, and when."""

    def __init__(self, count: int) -> None:
        self.writer = np.full(count, -1, np.int64)
        self._written = np.full(count, -1, np.int64)

    def read(self, places: np.ndarray, mask: np.ndarray | None, lanes: Lanes) -> None:
        """Refuse what another thread has written, but for one of the block before a barrier."""
        places, who, now = _spread(places, mask, lanes, lanes.global_numbers)
        wrong = self._conflicts(places, who, now, lanes)
        if wrong.any():
            raise EmulationError(
                f"a thread reads element {int(places[wrong][0])} of a buffer, which another "
                "one of the launch has written"
            )

    def write(self, places: np.ndarray, mask: np.ndarray | None, lanes: Lanes) -> None:
        """Refuse what another thread has written, or writes, likewise."""
        places, who, now = _spread(places, mask, lanes, lanes.global_numbers)
        wrong = self._conflicts(places, who, now, lanes)
        self.writer[places], self._written[places] = who, now
        wrong |= self.writer[places] != who
        if wrong.any():
            place = int(places[wrong][0])
            raise EmulationError(f"two threads write element {place} of a buffer")

    def _conflicts(
        self, places: np.ndarray, who: np.ndarray, now: np.ndarray, lanes: Lanes
    ) -> np.ndarray:
        writer, threads = self.writer[places], lanes.team.threads
        is_past = writer // threads == who // threads
        is_past &= happened_before(self._written[places], writer, now, who)
        return (writer >= 0) & (writer != who) & ~is_past


class _Races:
    """Who has read and written each element, and when."""

    def __init__(self, count: int) -> None:
        self._writer, self._written = (np.full(count, -1, np.int64) for _ in range(2))
        # The first and the last of those who read while nobody waited, by number.
        self._first, self._last = (np.full(count, -1, np.int64) for _ in range(2))
        self._read = np.full(count, -1, np.int64)

    def read(self, places: np.ndarray, mask: np.ndarray | None, lanes: Lanes) -> None:
        places, who, now = _spread(places, mask, lanes, lanes.identity)
        self._check(places, who, now, "reads what another has just written")
        is_old = self._is_read_before(places, who, now)
        self._first[places[is_old]], self._last[places[is_old]] = 1 << 62, -1
        np.minimum.at(self._first, places, who)
        np.maximum.at(self._last, places, who)
        self._read[places] = now

    def write(self, places: np.ndarray, mask: np.ndarray | None, lanes: Lanes) -> None:
        places, who, now = _spread(places, mask, lanes, lanes.identity)
        self._check(places, who, now, "writes what another has just written")
        others = (self._first[places] != who) | (self._last[places] != who)
        _refuse(
            others & ~self._is_read_before(places, who, now),
            who,
            "writes what another has just read",
        )
        self._writer[places], self._written[places] = who, now
        _refuse(self._writer[places] != who, who, "writes what another writes")

    def _is_read_before(
        self, places: np.ndarray, who: np.ndarray, now: np.ndarray
    ) -> np.ndarray:
        read = self._read[places]
        return happened_before(read, self._first[places], now, who) & happened_before(
            read, self._last[places], now, who
        )

    def _check(
        self, places: np.ndarray, who: np.ndarray, now: np.ndarray, what: str
    ) -> None:
        writer, written = self._writer[places], self._written[places]
        is_new = (writer != who) & ~happened_before(written, writer, now, who)
        _refuse(is_new, who, what)


def _spread(
    places: np.ndarray, mask: np.ndarray | None, lanes: Lanes, numbers: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every place that is touched, by whom, and when.

    Args:
        numbers: of the threads.
    """
    shape = (lanes.count, *places.shape[1:])
    column = (-1, *[1] * (places.ndim - 1))
    places = np.broadcast_to(places, shape)
    who, now = (np.broadcast_to(a.reshape(column), shape) for a in (numbers, lanes.now))
    if mask is not None:
        places, who, now = places[mask], who[mask], now[mask]
    return places.reshape(-1), who.reshape(-1), now.reshape(-1)


def _refuse(wrong: np.ndarray, numbers: np.ndarray, what: str) -> None:
    if wrong.any():
        raise EmulationError(
            f"race: thread {int(numbers[wrong][0])} of these blocks {what}, with no "
            "barrier between"
        )


@dataclass(frozen=True)
class Buffer:
    """A view of a memory: what a memref is.

    Attributes:
        offset, sizes, strides: in elements, by lane where they differ.
    """

    memory: Memory
    offset: np.ndarray
    sizes: tuple[np.ndarray | int, ...]
    strides: tuple[np.ndarray | int, ...]

    @staticmethod
    def of(memory: Memory, shape: Sequence[int]) -> Buffer:
        """Row-major."""
        strides = [1] * len(shape)
        for axis in range(len(shape) - 2, -1, -1):
            strides[axis] = strides[axis + 1] * shape[axis + 1]
        return Buffer(memory, np.zeros(1, np.int64), tuple(shape), tuple(strides))

    def at(self, indices: Sequence[np.ndarray | int]) -> np.ndarray:
        """The offset of an element."""
        total = self.offset
        for index, stride in zip(indices, self.strides, strict=True):
            total = total + index * stride
        return total


def poison(count: int, dtype: np.dtype) -> np.ndarray:
    """Memory that nobody has written: numbers that show."""
    array = np.full(count * dtype.itemsize, 0xAB, np.uint8)
    if dtype == np.bool_:
        return np.ones(count, bool)
    made = array.view(dtype)
    return np.full(count, np.nan, dtype) if dtype.kind in "fV" else made
