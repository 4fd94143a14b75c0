"""Who has read and written what, and when: what threads must not do without a barrier.

Memory is seen as granules, the smallest pieces that instructions of a kernel touch.
"""

from __future__ import annotations

import numpy as np

from relax_mlir.emulator.lanes import happened_before
from relax_mlir.errors import EmulationError

__all__ = ["Races"]

_LATEST = 1 << 62
_MOST_UNSEEN = 1 << 20  # reads
_NOBODY = -1  # who is in no block: the copy engine, and caches that keep what they read


class Races:
    """Accesses to memory that several threads see.

    Args:
        size_bytes: of the memory; granule_bytes: of a granule.
        threads: of a block, in whole warps.
    """

    def __init__(self, size_bytes: int, granule_bytes: int, threads: int) -> None:
        self._granule_bytes, self._threads = granule_bytes, threads
        count = -(-size_bytes // granule_bytes)
        # Numbers from 1 on: memory of zeros takes no room before it is written.
        self._writer, self._written = (np.zeros(count, np.int64) for _ in range(2))
        # The first and the last of those who read while nobody waited, by number.
        self._first, self._last = (np.zeros(count, np.int64) for _ in range(2))
        self._read = np.zeros(count, np.int64)
        self._is_written = False
        self._unseen: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self._unseen_count = 0

    def granules(self, first: np.ndarray, size_bytes: int) -> np.ndarray:
        """Numbers of the granules that so many bytes from some places on are, a row each."""
        steps = np.arange(0, size_bytes, self._granule_bytes)
        return (first[:, None] + steps) // self._granule_bytes

    def read(self, places: np.ndarray, who: np.ndarray, now: np.ndarray) -> None:
        """Threads read granules.

        Args:
            places: numbers of granules; who: numbers of threads, block after block; now:
                what each has waited for, as lanes tell; all of one length.

        Raises:
            EmulationError: another may have written there just before, or after.
        """
        if self._is_written:
            self._note(places, who, now)
            return
        # Of most memory nobody writes anything: reads are looked at when somebody does.
        self._unseen.append((places, who, now))
        self._unseen_count += len(places)
        if self._unseen_count > _MOST_UNSEEN:
            self._see()

    def _see(self) -> None:
        """Note the reads that nobody has looked at."""
        for places, who, now in self._unseen:
            self._note(places, who, now)
        self._unseen.clear()
        self._unseen_count = 0

    def _note(self, places: np.ndarray, who: np.ndarray, now: np.ndarray) -> None:
        self.check_written(places, who, now)
        is_old = self._is_read_before(places, who, now)
        self._first[places[is_old]] = self._last[places[is_old]] = 0
        self._note_readers(places, who)
        self._read[places] = now

    def write(self, places: np.ndarray, who: np.ndarray, now: np.ndarray) -> None:
        """Threads write granules, as :meth:`read`.

        Raises:
            EmulationError: another may have read or written there just before, or after.
        """
        self._see()
        self._is_written = True
        self.check_written(places, who, now, "writes what another has written")
        first, last = self._readers(places)
        others = (last >= 0) & ((first != who) | (last != who))
        _refuse(
            others & ~self._is_read_before(places, who, now),
            who,
            "writes what another has read",
        )
        self._writer[places], self._written[places] = who + 1, now
        _refuse(self._writer[places] != who + 1, who, "writes what another writes")

    def read_as_constant(self, places: np.ndarray) -> None:
        """Granules are read that no thread of the launch may write, before or after.

        Raises:
            EmulationError: one has written there.
        """
        self.read(
            places, np.full(len(places), _NOBODY), np.zeros(len(places), np.int64)
        )

    def _note_readers(self, places: np.ndarray, who: np.ndarray) -> None:
        np.maximum.at(self._first, places, _LATEST - who)
        np.maximum.at(self._last, places, who + 1)

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

    def check_written(
        self,
        places: np.ndarray,
        who: np.ndarray,
        now: np.ndarray,
        what: str = "reads what another has written",
    ) -> None:
        """Refuse that threads touch what others may not have written yet.

        Args:
            what: they do then.

        Raises:
            EmulationError: they do.
        """
        writer = self._writer[places] - 1
        is_past = self._is_past(self._written[places], writer, now, who)
        _refuse((writer >= 0) & (writer != who) & ~is_past, who, what)


def _refuse(wrong: np.ndarray, numbers: np.ndarray, what: str) -> None:
    if wrong.any():
        number = int(numbers[wrong][0])
        if number == _NOBODY:
            raise EmulationError("race: what is read as constant has been written")
        raise EmulationError(f"race: thread {number} {what}, with no barrier between")
