"""Who has read and written what, and when: what threads must not do without a barrier.

Memory is seen as granules, the smallest pieces that instructions of a kernel touch. What is
written is noted at once, granule by granule. What is read is noted when somebody writes near
it, and no barrier of all who see the memory is between: of most memory nobody does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from relax_mlir.emulator.lanes import happened_before
from relax_mlir.errors import EmulationError

__all__ = ["Races", "Touched", "between"]

_LATEST = 1 << 62
_MOST_PENDING = 1 << 20  # reads of threads
_MOST_SPANS = 64
_HELD = 64  # reads of threads that take as much memory as the rest of what is pending
_NOBODY = -1  # who is in no block: the copy engine, and caches that keep what they read


@dataclass(frozen=True)
class Touched:
    """What threads touch at once.

    Attributes:
        first: the first byte of each, in the memory; size_bytes: from each on.
        begin, end: bytes of each block's part of the memory, or of all, between which that is.
        who: numbers of threads, block after block; now: what each has waited for, as lanes
            tell.
    """

    first: np.ndarray
    size_bytes: int
    begin: int
    end: int
    who: np.ndarray
    now: np.ndarray

    @staticmethod
    def by_nobody(first: np.ndarray, size_bytes: int) -> Touched:
        """What is read that no thread of the launch may write, before or after."""
        begin, end = between(first, size_bytes)
        who = np.full(len(first), _NOBODY)
        return Touched(
            first, size_bytes, begin, end, who, np.zeros(len(first), np.int64)
        )


def between(first: np.ndarray, size_bytes: int) -> tuple[int, int]:
    """Where the first begins, and the last ends, of what has so many bytes each."""
    return int(first.min()), int(first.max()) + size_bytes


class Races:
    """Accesses to memory that several threads see.

    Args:
        size_bytes: of the memory; granule_bytes: of a granule.
        threads: of a block, in whole warps.
        epochs: by block, how many barriers its threads have passed, of memory of which each
            block sees its own part; none if all see the same.
    """

    def __init__(
        self,
        size_bytes: int,
        granule_bytes: int,
        threads: int,
        epochs: np.ndarray | None = None,
    ) -> None:
        self._granule_bytes, self._threads = granule_bytes, threads
        self._epochs = np.zeros(1, np.int64) if epochs is None else epochs
        count = -(-size_bytes // granule_bytes)
        # Numbers from 1 on: memory of zeros takes no room before it is written.
        self._writer, self._written = (np.zeros(count, np.int64) for _ in range(2))
        # The first and the last of those who read while nobody waited, by number.
        self._first, self._last = (np.zeros(count, np.int64) for _ in range(2))
        self._read = np.zeros(count, np.int64)
        self._reads, self._writes = _Spans(), _Spans()
        self._pending: list[Touched] = []
        self._pending_count = 0

    def read(self, touched: Touched) -> None:
        """Threads read memory.

        Raises:
            EmulationError: another may have written there just before, or after.
        """
        self.check_written(touched)
        self._reads.add(touched, self._latest)
        self._pending.append(touched)
        self._pending_count += len(touched.first) + _HELD
        if self._pending_count > _MOST_PENDING:
            self._note_reads()

    def write(self, touched: Touched) -> None:
        """Threads write memory.

        Raises:
            EmulationError: another may have read or written there just before, or after.
        """
        self._forget()
        places, who, now = self._granules(touched)
        if self._writes.meet(touched):
            self._check_written(places, who, now, "writes what another has written")
        if self._reads.meet(touched):
            self._note_reads()
            first, last = self._readers(places)
            others = (last >= 0) & ((first != who) | (last != who))
            _refuse(
                others & ~self._is_read_before(places, who, now),
                who,
                "writes what another has read",
            )
        self._writer[places], self._written[places] = who + 1, now
        _refuse(self._writer[places] != who + 1, who, "writes what another writes")
        self._writes.add(touched, self._latest)

    def check_written(self, touched: Touched) -> None:
        """Refuse that somebody reads what others may not have written yet.

        Raises:
            EmulationError: they may not.
        """
        self._forget()
        if self._writes.meet(touched):
            places, who, now = self._granules(touched)
            self._check_written(places, who, now, "reads what another has written")

    @property
    def _latest(self) -> int:
        return int(self._epochs.max())

    def _forget(self) -> None:
        """Forget what a barrier of all who see the memory has made safe."""
        passed = int(self._epochs.min())
        self._writes.forget(passed)
        if self._reads.forget(passed):
            self._pending.clear()
            self._pending_count = 0

    def _granules(self, touched: Touched) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The granules that are touched, by which threads, and when."""
        steps = np.arange(0, touched.size_bytes, self._granule_bytes)
        places = (touched.first[:, None] + steps) // self._granule_bytes
        who, now = (np.repeat(n, len(steps)) for n in (touched.who, touched.now))
        return places.reshape(-1), who, now

    def _note_reads(self) -> None:
        """Note the reads that nobody has looked at."""
        for touched in self._pending:
            places, who, now = self._granules(touched)
            is_old = self._is_read_before(places, who, now)
            self._first[places[is_old]] = self._last[places[is_old]] = 0
            np.maximum.at(self._first, places, _LATEST - who)
            np.maximum.at(self._last, places, who + 1)
            self._read[places] = now
        self._pending.clear()
        self._pending_count = 0

    def _readers(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The first and the last reader: the last is negative if there is none."""
        first = self._first[places]
        last = np.where(first > _LATEST, 0, self._last[places] - 1)
        return _LATEST - first, last

    def _is_past(
        self, then: np.ndarray, other: np.ndarray, now: np.ndarray, who: np.ndarray
    ) -> np.ndarray:
        """Whether what another did then is over for a thread now."""
        is_same_block = other // self._threads == who // self._threads
        return is_same_block & happened_before(then, other, now, who)

    def _is_read_before(
        self, places: np.ndarray, who: np.ndarray, now: np.ndarray
    ) -> np.ndarray:
        read = self._read[places]
        first, last = self._readers(places)
        return self._is_past(read, first, now, who) & self._is_past(
            read, last, now, who
        )

    def _check_written(
        self, places: np.ndarray, who: np.ndarray, now: np.ndarray, what: str
    ) -> None:
        writer = self._writer[places] - 1
        is_past = self._is_past(self._written[places], writer, now, who)
        _refuse((writer >= 0) & (writer != who) & ~is_past, who, what)


class _Spans:
    """Where memory has been touched since a barrier."""

    def __init__(self) -> None:
        self._spans: set[tuple[int, int]] = set()
        self._latest = -1

    def add(self, touched: Touched, latest: int) -> None:
        """Know of more; latest: the epoch of the last who touches it."""
        self._spans.add((touched.begin, touched.end))
        self._latest = latest
        if len(self._spans) > _MOST_SPANS:
            self._spans = _joined(self._spans, _MOST_SPANS // 2)

    def forget(self, passed: int) -> bool:
        """Forget all that is earlier than an epoch; whether it is."""
        is_over = self._latest < passed
        if is_over:
            self._spans.clear()
        return is_over

    def meet(self, touched: Touched) -> bool:
        """Whether some of it may be touched again."""
        begin, end = touched.begin, touched.end
        return any(b < end and begin < e for b, e in self._spans)


def _joined(spans: set[tuple[int, int]], most: int) -> set[tuple[int, int]]:
    """Fewer spans that cover all: those are joined that are nearest."""
    ordered = sorted(spans)
    ends = np.maximum.accumulate([end for _, end in ordered])
    begins = np.array([begin for begin, _ in ordered])
    gaps = np.maximum(begins[1:] - ends[:-1], 0)
    cuts = np.sort(np.argsort(-gaps, kind="stable")[: most - 1])
    starts, stops = begins[[0, *(cuts + 1)]], ends[[*cuts, -1]]
    return {(int(b), int(e)) for b, e in zip(starts, stops, strict=True)}


def _refuse(wrong: np.ndarray, numbers: np.ndarray, what: str) -> None:
    if wrong.any():
        number = int(numbers[wrong][0])
        if number == _NOBODY:
            raise EmulationError("race: what is read as constant has been written")
        raise EmulationError(f"race: thread {number} {what}, with no barrier between")
