"""Memory traffic: coalescing of global accesses, bank conflicts of shared ones.

Global memory is accessed in sectors of 32 bytes; shared memory has 32 banks of 4-byte
words, each of which serves one word at a time.

Source: NVIDIA, CUDA C++ Programming Guide, "Global Memory", "Shared Memory"; accesses of 8
and 16 bytes are split into those of half and quarter warps.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from tests.ptx_emulator.lanes import WARP
from tests.ptx_emulator.program import Instruction

__all__ = ["Accesses", "Traffic"]

_SECTOR_BYTES, _WORD_BYTES, _BANKS = 32, 4, 32


@dataclass
class Accesses:
    """The accesses of an instruction of a kernel.

    Attributes:
        kernel: its name; space: ``global`` or ``shared``.
        text: of the instruction; size_bytes: per thread.
        parts: number of sectors, or of bank cycles.
        least: the same for contiguous accesses.
    """

    kernel: str
    space: str
    text: str
    size_bytes: int
    parts: int = 0
    least: int = 0

    @property
    def ratio(self) -> float:
        """Ratio to the least possible number."""
        return _ratio([self])


def _ratio(accesses: Collection[Accesses]) -> float:
    least = sum(a.least for a in accesses)
    return sum(a.parts for a in accesses) / least if least else 1.0


class Traffic:
    """Memory accesses, by instruction."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, int], Accesses] = {}

    @property
    def accesses(self) -> list[Accesses]:
        """Accesses by instruction, the least efficient first."""
        return sorted(self._found.values(), key=lambda a: a.least - a.parts)

    def ratio(self, space: str, kernel: str | None = None) -> float:
        """Ratio to the least possible number in a space, of a kernel or of all."""
        own = [
            a
            for a in self._found.values()
            if a.space == space and kernel in (None, a.kernel)
        ]
        return _ratio(own)

    def note(
        self,
        kernel: str,
        instruction: Instruction,
        space: str,
        addresses: np.ndarray,
        threads: np.ndarray,
        size_bytes: int,
    ) -> None:
        """Counts accesses.

        Args:
            addresses: of the threads that take part; threads: numbers of these, such that
                those of a warp are neighbours.
        """
        key = kernel, space, id(instruction)
        if key not in self._found:
            text = instruction.text
            self._found[key] = Accesses(kernel, space, text, size_bytes)
        count = _sectors if space == "global" else _turns
        parts, least = count(addresses, threads, size_bytes)
        self._found[key].parts += parts
        self._found[key].least += least


def _sectors(
    addresses: np.ndarray, threads: np.ndarray, size_bytes: int
) -> tuple[int, int]:
    """Number of sectors that warps access, and the least possible."""
    warps = threads // WARP
    touched = np.unique(np.stack([warps, addresses // _SECTOR_BYTES]), axis=1)
    places = np.unique(np.stack([warps, addresses]), axis=1)
    bytes_ = np.bincount(places[0] - places[0].min()) * size_bytes
    return touched.shape[1], int((-(-bytes_ // _SECTOR_BYTES)).sum())


def _turns(
    addresses: np.ndarray, threads: np.ndarray, size_bytes: int
) -> tuple[int, int]:
    """Number of bank cycles that warps need, and the least possible."""
    words = max(1, size_bytes // _WORD_BYTES)
    at_once = WARP // words  # threads
    groups = np.unique(threads // at_once, return_inverse=True)[1]
    first = addresses // _WORD_BYTES
    asked = first[:, None] + np.arange(words)
    pairs = np.stack([np.repeat(groups, words), asked.reshape(-1)])
    group, word = np.unique(pairs, axis=1)
    count = int(groups.max()) + 1
    by_bank = np.bincount(group * _BANKS + word % _BANKS, minlength=count * _BANKS)
    by_bank = by_bank.reshape(count, _BANKS)
    least = -(-by_bank.sum(axis=1) // _BANKS)
    return int(by_bank.max(axis=1).sum()), int(least.sum())
