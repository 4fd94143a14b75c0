"""Race detector: accesses of threads to shared locations without a barrier in between.

Memory is divided into granules of the smallest access size of the kernel. Writes are
recorded at once, granule by granule. Reads are recorded lazily, when a write occurs nearby
without a barrier of all threads in between: most memory is never written so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from relax_mlir.errors import EmulationError
from tests.ptx_emulator.lanes import happened_before

__all__ = ["Races", "Touched", "between"]

_LATEST = 1 << 62
_MOST_PENDING = 1 << 20  # reads of threads
_MOST_SPANS = 64
_HELD = 64  # reads of threads that take as much memory as the rest of what is pending
_NOBODY = -1  # id of accesses by no thread: TMA and non-coherent caches


@dataclass(frozen=True)
class Touched:
    """An access of several threads at once.

    Attributes:
        first: start address of each thread; size_bytes: of each access.
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
        """An access to memory that no thread of the launch may write."""
        begin, end = between(first, size_bytes)
        who = np.full(len(first), _NOBODY)
        return Touched(
            first, size_bytes, begin, end, who, np.zeros(len(first), np.int64)
        )


def between(first: np.ndarray, size_bytes: int) -> tuple[int, int]:
    """The range that accesses of a size span."""
    return int(first.min()), int(first.max()) + size_bytes


class Races:
    """Access log of a shared memory range.

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
        # First and last reader since the last barrier.
        self._first, self._last = (np.zeros(count, np.int64) for _ in range(2))
        self._read = np.zeros(count, np.int64)
        self._reads, self._writes = _Spans(), _Spans()
        self._pending: list[Touched] = []
        self._pending_count = 0

    def read(self, touched: Touched) -> None:
        """Records and checks a read.

        Raises:
            EmulationError: it races with a write.
        """
        self.check_written(touched)
        self._reads.add(touched, self._latest)
        self._pending.append(touched)
        self._pending_count += len(touched.first) + _HELD
        if self._pending_count > _MOST_PENDING:
            self._note_reads()

    def write(self, touched: Touched) -> None:
        """Records and checks a write.

        Raises:
            EmulationError: it races with another access.
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
                "writes what another thread has read",
            )
        self._writer[places], self._written[places] = who + 1, now
        _refuse(
            self._writer[places] != who + 1, who, "writes what another thread writes"
        )
        self._writes.add(touched, self._latest)

    def check_written(self, touched: Touched) -> None:
        """Checks that a read is ordered after the writes.

        Raises:
            EmulationError: it is not.
        """
        self._forget()
        if self._writes.meet(touched):
            places, who, now = self._granules(touched)
            self._check_written(
                places, who, now, "reads what another thread has written"
            )

    @property
    def _latest(self) -> int:
        return int(self._epochs.max())

    def _forget(self) -> None:
        """Drops entries that a barrier of all threads has ordered."""
        passed = int(self._epochs.min())
        self._writes.forget(passed)
        if self._reads.forget(passed):
            self._pending.clear()
            self._pending_count = 0

    def _granules(self, touched: Touched) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The granules of an access, with threads and times."""
        steps = np.arange(0, touched.size_bytes, self._granule_bytes)
        places = (touched.first[:, None] + steps) // self._granule_bytes
        who, now = (np.repeat(n, len(steps)) for n in (touched.who, touched.now))
        return places.reshape(-1), who, now

    def _note_reads(self) -> None:
        """Records the pending reads."""
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
        """The first and the last reader; the last is negative if there is none."""
        first = self._first[places]
        last = np.where(first > _LATEST, 0, self._last[places] - 1)
        return _LATEST - first, last

    def _is_past(
        self, then: np.ndarray, other: np.ndarray, now: np.ndarray, who: np.ndarray
    ) -> np.ndarray:
        """Whether an earlier access happened before the current one."""
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
    """Address ranges accessed since a barrier."""

    def __init__(self) -> None:
        self._spans: set[tuple[int, int]] = set()
        self._latest = -1

    def add(self, touched: Touched, latest: int) -> None:
        """Adds ranges; ``latest`` is the epoch of the last access."""
        self._spans.add((touched.begin, touched.end))
        self._latest = latest
        if len(self._spans) > _MOST_SPANS:
            self._spans = _joined(self._spans, _MOST_SPANS // 2)

    def forget(self, passed: int) -> bool:
        """Drops all ranges if they are older than an epoch; returns whether they are."""
        is_over = self._latest < passed
        if is_over:
            self._spans.clear()
        return is_over

    def meet(self, touched: Touched) -> bool:
        """Whether an access may overlap one of the ranges."""
        begin, end = touched.begin, touched.end
        return any(b < end and begin < e for b, e in self._spans)


def _joined(spans: set[tuple[int, int]], most: int) -> set[tuple[int, int]]:
    """Merges the nearest ranges to keep their number small."""
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
            raise EmulationError("race: a non-coherent load of written memory")
        raise EmulationError(
            f"race: thread {number} {what}, without a barrier in between"
        )
