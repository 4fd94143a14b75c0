"""Address spaces of PTX: global, shared, local, param, const.

Source: NVIDIA, PTX ISA: state spaces, generic addressing, alignment of vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from relax_mlir.errors import EmulationError
from tests.ptx_emulator.busy import refuse_busy
from tests.ptx_emulator.descriptors import DESCRIPTOR_BYTES
from tests.ptx_emulator.lanes import WARP, Lanes, Team, chosen
from tests.ptx_emulator.program import GLOBALS_ADDRESS, Instruction, Kernel
from tests.ptx_emulator.races import Races, Touched, between
from tests.ptx_emulator.traffic import Traffic

__all__ = [
    "POISON",
    "WINDOWS",
    "DeviceMemory",
    "LaunchMemory",
    "SharedMemory",
    "Spaces",
    "poison",
]

WINDOWS = {"global": 0, "shared": 1 << 60, "local": 1 << 61, "param": 1 << 62}
"""Where spaces are among generic addresses."""

POISON = 0xFF
"""Bytes that nobody has written: floats that are no numbers, and integers of -1."""

_SPACE_AT = {address >> 60: space for space, address in WINDOWS.items()}
_ALIGNMENT = 256  # of arrays
_ROOM_BYTES = 4096  # between them, so that no kernel reaches over
_MAP_ALIGNMENT = 64

Mask = np.ndarray | None
Found = tuple[int, np.ndarray]


def poison(count: int, dtype: np.dtype) -> np.ndarray:
    """The poison value of uninitialized elements."""
    if dtype == np.bool_:
        return np.ones(count, bool)
    return np.full(count * dtype.itemsize, POISON, np.uint8).view(dtype)


class DeviceMemory:
    """Global memory: arrays at addresses.

    Args:
        find: start address and bytes of the array around an address, for memory that is
            not registered yet; None if there is none.
    """

    def __init__(
        self, find: Callable[[int], Found | None] = lambda address: None
    ) -> None:
        self._find, self._known = find, list[Found]()
        self._next = 1 << 20

    def place(self, array: np.ndarray) -> int:
        """Maps an array at an address aligned to 256; kernels write into the array."""
        address = self._next
        self.add(address, array.reshape(-1).view(np.uint8))
        self._next += array.nbytes + _ROOM_BYTES
        self._next += -self._next % _ALIGNMENT
        return address

    def add(self, address: int, bytes_: np.ndarray) -> None:
        """Maps bytes at an address aligned to 16."""
        assert address % 16 == 0
        self._known.append((address, bytes_))

    def around(self, address: int) -> Found:
        """Where the bytes around an address begin, and they; none where nothing is."""
        for number, (begin, bytes_) in enumerate(self._known):
            if begin <= address < begin + len(bytes_):
                # The next address is probably there too.
                self._known.insert(0, self._known.pop(number))
                return begin, bytes_
        found = self._find(address)
        if found is None:
            return address, np.empty(0, np.uint8)
        self.add(*found)
        return found

    def elements(self, address: int, dtype: np.dtype) -> np.ndarray:
        """The elements from an address to the end of its array."""
        begin, bytes_ = self.around(address)
        rest = bytes_[address - begin :]
        return rest[: len(rest) // dtype.itemsize * dtype.itemsize].view(dtype)


class LaunchMemory:
    """Global memory as seen by a launch, with race detection.

    Args:
        variables: of the module; threads: per block; parameters: their bytes.

    Attributes:
        is_early: whether it may start before the previous grid has completed.
    """

    def __init__(
        self,
        device: DeviceMemory,
        variables: np.ndarray,
        kernel: Kernel,
        threads: int,
        parameters: bytes,
        *,
        is_early: bool,
    ) -> None:
        self._device, self._variables = device, variables
        self._written: set[int] | None = None
        if kernel.stored is not None:
            self._written = {
                self.around(int.from_bytes(parameters[n : n + 8], "little"))[0]
                for n in kernel.stored
            }
        self.is_early = is_early
        self._granule_bytes = kernel.granule_bytes["global"]
        self._threads = -(-threads // WARP) * WARP
        self._races: dict[int, Races] = {}

    def around(self, address: int) -> Found:
        """Where the bytes around an address begin, and they; none where nothing is."""
        if address >= GLOBALS_ADDRESS:
            return GLOBALS_ADDRESS, self._variables
        return self._device.around(address)

    def races(self, begin: int, bytes_: np.ndarray) -> Races | None:
        """The access log of an array; None if it is read-only."""
        if self._written is not None and begin not in self._written:
            return None
        if begin not in self._races:
            self._races[begin] = Races(len(bytes_), self._granule_bytes, self._threads)
        return self._races[begin]

    def copied(self, address: int, places: np.ndarray, size_bytes: int) -> np.ndarray:
        """The bytes that TMA reads.

        Raises:
            EmulationError: they are unmapped, or written by a thread of the launch.
        """
        begin, bytes_ = self.around(address)
        if int(places.max()) + size_bytes > begin + len(bytes_):
            raise EmulationError("a box is outside of all arrays")
        races, first = self.races(begin, bytes_), places - begin
        if races is not None:
            races.read(Touched.by_nobody(first, size_bytes))
        return bytes_[first[:, None] + np.arange(size_bytes)]


class SharedMemory:
    """Shared memory of each block."""

    def __init__(self, team: Team, size_bytes: int, kernel: Kernel) -> None:
        self.size_bytes = size_bytes
        self.row_bytes = size_bytes + -size_bytes % 16
        rows = (len(team.blocks), self.row_bytes)
        self.rows = np.full(rows, POISON, np.uint8)
        self.races = Races(
            self.rows.size,
            kernel.granule_bytes["shared"],
            team.padded_threads,
            team.epochs,
        )


@dataclass
class _Part:
    """The backing storage of an access by some threads.

    Attributes:
        which: of those that look for something; bytes: in which, and at which places.
        begin, end: of what each block sees, or all do, between which that is.
        races: of threads that see the same.
    """

    which: slice | np.ndarray
    bytes: np.ndarray
    places: np.ndarray
    begin: int
    end: int
    races: Races | None


class Spaces:
    """All address spaces of some threads.

    Attributes:
        instruction: the current one.
    """

    def __init__(
        self,
        kernel: Kernel,
        lanes: Lanes,
        launch: LaunchMemory,
        shared: SharedMemory,
        parameters: np.ndarray,
        traffic: Traffic | None,
    ) -> None:
        self._traffic = traffic
        self.instruction: Instruction | None = None
        self.launch, self.shared, self.parameters = launch, shared, parameters
        self._lanes, self._name = lanes, kernel.name
        self._local_bytes = kernel.local_bytes
        row_bytes = kernel.local_bytes + -kernel.local_bytes % 16
        self._local = np.full((lanes.count, row_bytes), POISON, np.uint8)

    def load(
        self,
        space: str,
        addresses: np.ndarray,
        dtype: np.dtype,
        count: int,
        mask: Mask,
        *,
        is_constant: bool = False,
    ) -> np.ndarray:
        """Loads a vector of elements, as ``[lanes, count]`` or ``[1, count]``.

        Args:
            is_constant: whether nobody may write them as long as the launch goes on.

        Raises:
            EmulationError: a thread reads out of bounds or misaligned, or races with a
                write.
        """
        size_bytes = dtype.itemsize * count
        space, addresses = self._in_space(space, addresses, mask)
        is_one = len(addresses) == 1 and self._is_one(space)
        own, lanes = (addresses, None) if is_one else self._own(addresses, mask)
        self._count(space, own, lanes, size_bytes)
        self.refuse_early(space, addresses, mask, is_constant=is_constant)
        values = np.empty((len(own), count), dtype)
        for part in self._parts(space, own, size_bytes, lanes, is_written=False):
            if part.races is not None:
                part.races.read(
                    Touched.by_nobody(part.places, size_bytes)
                    if is_constant
                    else self._touched(space, part, size_bytes, mask)
                )
            whole = part.bytes[: len(part.bytes) // size_bytes * size_bytes]
            rows = whole.view(dtype).reshape(-1, count)
            values[part.which] = rows.take(part.places // size_bytes, axis=0)
        if lanes is None:
            return values
        spread = np.zeros((self._lanes.count, count), dtype)
        spread[lanes] = values
        return spread

    def store(
        self,
        space: str,
        addresses: np.ndarray,
        values: np.ndarray,
        mask: Mask,
        *,
        is_counted: bool = True,
    ) -> None:
        """Stores a vector of elements, ``[lanes, count]`` or ``[1, count]``.

        Args:
            is_counted: whether it counts as traffic.

        Raises:
            EmulationError: a thread writes out of bounds or misaligned, or races with
                another access.
        """
        size_bytes = values.dtype.itemsize * values.shape[1]
        space, addresses = self._in_space(space, addresses, mask)
        if space in ("param", "const"):
            raise EmulationError("a thread writes to constant memory")
        self.refuse_early(space, addresses, mask)
        own, lanes = self._own(addresses, mask)
        if is_counted:
            self._count(space, own, lanes, size_bytes)
        if len(values) > 1 and lanes is not None:
            values = values[lanes]
        values = np.broadcast_to(values, (len(own), values.shape[1]))
        for part in self._parts(space, own, size_bytes, lanes, is_written=True):
            if not part.bytes.flags.writeable:
                raise EmulationError(
                    "a thread writes to a constant variable of the module"
                )
            if part.races is not None:
                part.races.write(self._touched(space, part, size_bytes, mask))
            elif space == "global":
                raise EmulationError("a thread writes to an array of another parameter")
            whole = part.bytes[: len(part.bytes) // size_bytes * size_bytes]
            pieces = whole.view(f"V{size_bytes}")
            given = np.ascontiguousarray(values[part.which])
            pieces[part.places // size_bytes] = given.view(pieces.dtype)[:, 0]

    def _count(
        self, space: str, own: np.ndarray, lanes: np.ndarray | None, size_bytes: int
    ) -> None:
        """Counts traffic, if enabled."""
        instruction = self.instruction
        if self._traffic is None or instruction is None:
            return
        if space not in ("global", "shared"):
            return
        numbers = self._lanes.identity
        if len(own) == 1 and lanes is None:  # one that all look at
            numbers = numbers[:1]
        elif lanes is not None:
            numbers = numbers[lanes]
        self._traffic.note(self._name, instruction, space, own, numbers, size_bytes)

    def refuse_early(
        self,
        space: str,
        addresses: np.ndarray,
        mask: Mask,
        *,
        is_constant: bool = False,
    ) -> None:
        """Checks that an access does not race with the previous grid.

        Module variables are read-only.

        Args:
            is_constant: whether nobody may write it as long as this launch goes on.

        Raises:
            EmulationError: a thread has not waited for the previous grid.
        """
        if space != "global" or not self.launch.is_early:
            return
        is_late = chosen(self._lanes.is_late, mask).all()
        if is_late and not is_constant:
            return
        if (chosen(addresses, mask) >= GLOBALS_ADDRESS).all():
            return
        if not is_late:
            raise EmulationError("race: a thread has not waited for the previous grid")
        raise EmulationError("race: the previous grid may write this constant memory")

    def refuse_outside(self, addresses: np.ndarray, mask: Mask) -> None:
        """Checks that global addresses are mapped.

        Raises:
            EmulationError: one is not.
        """
        own, lanes = self._own(addresses, mask)
        for _ in self._in_device(own, 1, lanes):
            pass

    def refuse_written(self, addresses: np.ndarray, size_bytes: int) -> None:
        """Checks that a collective matmul reads no bytes whose write is not ordered before it.

        Raises:
            EmulationError: it does.
        """
        lanes, races = self._lanes, self.shared.races
        first = addresses.reshape(-1)
        begin, end = between(first, size_bytes)
        who, now = (np.full(len(first), n[0]) for n in (lanes.identity, lanes.now))
        races.check_written(Touched(first, size_bytes, begin, end, who, now))

    def tensor_map(self, address: int) -> bytes:
        """The tensor map at a generic address, among the parameters.

        Raises:
            EmulationError: there is none.
        """
        begin = address - WINDOWS["param"]
        end = len(self.parameters) - DESCRIPTOR_BYTES
        if begin % _MAP_ALIGNMENT or not 0 <= begin <= end:
            raise EmulationError("expected a tensor map among the parameters")
        return bytes(self.parameters[begin : begin + DESCRIPTOR_BYTES])

    def _in_space(
        self, space: str, addresses: np.ndarray, mask: Mask
    ) -> tuple[str, np.ndarray]:
        """The space of generic addresses, and the addresses in it."""
        if space:
            return space, addresses
        active = chosen(addresses, mask)
        tops = active >> 60
        if (tops != tops[0]).any():
            raise EmulationError("generic addresses of several spaces at once")
        space = _SPACE_AT.get(int(tops[0]), "")
        if not space:
            raise EmulationError(f"unmapped address {int(active[0]):#x}")
        return space, addresses - WINDOWS[space]

    def _is_one(self, space: str) -> bool:
        """Whether a space is shared by all threads."""
        if space == "shared":
            return len(self._lanes.team.blocks) == 1
        return space != "local"

    def _own(
        self, addresses: np.ndarray, mask: Mask
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """The addresses of the active threads, and their indices; None for all."""
        addresses = np.broadcast_to(addresses, self._lanes.count)
        if mask is None:
            return addresses, None
        return addresses[mask], np.flatnonzero(mask)

    def _touched(self, space: str, part: _Part, size_bytes: int, mask: Mask) -> Touched:
        """The log entry of an access: bytes, threads, time."""
        lanes = self._lanes
        threads = lanes.identity if space == "shared" else lanes.global_numbers
        now = lanes.now
        if mask is not None:
            threads, now = threads[mask], now[mask]
        if not isinstance(part.which, slice) and len(part.which) == len(threads):
            threads, now = threads[part.which], now[part.which]
        places = np.broadcast_to(part.places, len(threads))  # one that all look at
        return Touched(places, size_bytes, part.begin, part.end, threads, now)

    def _parts(
        self,
        space: str,
        own: np.ndarray,
        size_bytes: int,
        lanes: np.ndarray | None,
        *,
        is_written: bool,
    ) -> Iterator[_Part]:
        """The backing storage of an access."""
        if int(np.bitwise_or.reduce(own)) % size_bytes:  # a power of two
            wrong = own % size_bytes != 0
            self._refuse(wrong, own, lanes, f"not a multiple of {size_bytes} bytes")
        if space in ("global", "const"):
            yield from self._in_device(own, size_bytes, lanes)
            return
        limit, row_bytes, bytes_ = {
            "shared": (
                self.shared.size_bytes,
                self.shared.row_bytes,
                self.shared.rows,
            ),
            "local": (self._local_bytes, self._local.shape[1], self._local),
            "param": (len(self.parameters), 0, self.parameters),
        }[space]
        begin, end = between(own, size_bytes)
        if begin < 0 or end > limit:
            wrong = (own < 0) | (own + size_bytes > limit)
            what = f"outside of {limit} bytes of memory `{space}`"
            self._refuse(wrong, own, lanes, what)
        if space == "shared" and len(bytes_) == 1:
            refuse_busy(self._lanes.team, own, size_bytes, is_written=is_written)
        elif space != "param":
            rows = self._lanes.place if space == "shared" else self._lanes.numbers
            own = own + (rows if lanes is None else rows[lanes]) * row_bytes
        races = self.shared.races if space == "shared" else None
        yield _Part(slice(None), bytes_.reshape(-1), own, begin, end, races)

    def _in_device(
        self,
        own: np.ndarray,
        size_bytes: int,
        lanes: np.ndarray | None,
    ) -> Iterator[_Part]:
        left = np.ones(len(own), bool)
        while left.any():
            first = int(left.argmax())
            begin, bytes_ = self.launch.around(int(own[first]))
            inside = left & (own >= begin) & (own + size_bytes <= begin + len(bytes_))
            if not inside[first]:
                self._refuse(left, own, lanes, "outside of all arrays")
            which = slice(None) if inside.all() else inside
            places = own[which] - begin
            races = self.launch.races(begin, bytes_)
            yield _Part(which, bytes_, places, *between(places, size_bytes), races)
            left &= ~inside

    def _refuse(
        self, wrong: np.ndarray, own: np.ndarray, lanes: np.ndarray | None, what: str
    ) -> None:
        number = int(wrong.argmax())
        lane = number if lanes is None else int(lanes[number])
        raise EmulationError(
            f"block {self._lanes.block[lane]}, thread {self._lanes.thread[lane]}: address "
            f"{int(own[number]):#x} is {what}"
        )
