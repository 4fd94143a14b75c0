"""The race detector is exact: compared with a check of all pairs of accesses."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relax_mlir.errors import EmulationError
from tests.ptx_emulator import races
from tests.ptx_emulator.races import Races, Touched, between

_BLOCKS, _PADDED = 2, 64
_THREADS = (0, 1, 40)  # of two warps
_NOBODY = (-1, -1)  # block and thread: what is read so must not be written at all
_BYTES, _GRANULE = 64, 4  # of each block's memory, and of a granule


@dataclass(frozen=True)
class _Access:
    """An access of some threads at once: block, thread and first byte of each."""

    is_written: bool
    is_constant: bool  # a non-coherent load of global memory
    size_bytes: int
    places: tuple[tuple[int, int, int], ...]  # block, thread, first byte


@st.composite
def _accesses(draw: st.DrawFn) -> _Access:
    size = draw(st.sampled_from([4, 8, 16]))
    everybody = [(b, t) for b in range(_BLOCKS) for t in _THREADS]
    who = draw(st.lists(st.sampled_from(everybody), min_size=1, unique=True))
    numbers = st.integers(0, _BYTES // size - 1)
    places = [(b, t, size * draw(numbers)) for b, t in sorted(who)]
    what = draw(st.sampled_from([(False, False), (True, False), (False, True)]))
    return _Access(*what, size, tuple(places))


# A number is a block whose threads meet.
_steps = st.lists(st.one_of(_accesses(), st.integers(0, _BLOCKS - 1)), max_size=12)


def _has_race(steps: list[_Access | int], *, is_own: bool) -> bool:
    """Whether two threads access a granule, one writes, and no barrier is in between."""
    epochs = [0] * _BLOCKS
    done: list[tuple[int, int, int, int, bool]] = []  # granule, block, thread, epoch
    for step in steps:
        if isinstance(step, int):
            epochs[step] += 1
            continue
        is_nobody = step.is_constant and not is_own
        now = [
            (
                (block * _BYTES * is_own + first) // _GRANULE + n,
                *(_NOBODY if is_nobody else (block, thread)),
            )
            for block, thread, first in step.places
            for n in range(step.size_bytes // _GRANULE)
        ]
        for granule, block, thread in now:
            for other, its_block, its_thread, then, is_written in done:
                if granule != other or (block, thread) == (its_block, its_thread):
                    continue
                is_past = block == its_block and then < epochs[block]
                if (is_written or step.is_written) and not is_past:
                    return True
        for n, (granule, *who) in enumerate(now):
            for other, *another in now[n + 1 :]:
                if step.is_written and granule == other and who != another:
                    return True
        done += [
            (g, b, t, 0 if b < 0 else epochs[b], step.is_written) for g, b, t in now
        ]
    return False


def _is_refused(steps: list[_Access | int], *, is_own: bool) -> bool:
    epochs = np.zeros(_BLOCKS, np.int64)
    size = _BYTES * _BLOCKS
    seen = Races(size, _GRANULE, _PADDED, epochs if is_own else None)
    try:
        for step in steps:
            if isinstance(step, int):
                epochs[step] += 1
                continue
            blocks, threads, first = np.array(step.places).T
            begin, end = between(first, step.size_bytes)
            places = first + blocks * _BYTES * is_own
            who, now = blocks * _PADDED + threads, epochs[blocks] << 32
            touched = Touched(places, step.size_bytes, begin, end, who, now)
            if step.is_constant and not is_own:
                touched = Touched.by_nobody(places, step.size_bytes)
            (seen.write if step.is_written else seen.read)(touched)
    except EmulationError:
        return True
    return False


@pytest.mark.parametrize("is_own", [True, False], ids=["shared", "global"])
@pytest.mark.parametrize("is_crowded", [False, True])
@given(steps=_steps)
def test_race_detection_is_exact(
    steps: list[_Access | int], *, is_own: bool, is_crowded: bool
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        if is_crowded:  # reads are noted, and spans joined, after a few
            patched.setattr(races, "_MOST_PENDING", 200)
            patched.setattr(races, "_MOST_SPANS", 2)
        assert _is_refused(steps, is_own=is_own) == _has_race(steps, is_own=is_own)
