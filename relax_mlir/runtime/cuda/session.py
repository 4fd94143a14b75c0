"""A model on a GPU: its weights and kernels there, and memory for calls."""

from __future__ import annotations

import math
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from itertools import count
from threading import RLock

import numpy as np

from relax_mlir.errors import DeviceError, ModelError, OutOfMemoryError
from relax_mlir.runtime.cuda.arguments import Bases
from relax_mlir.runtime.cuda.arrays import DeviceArray
from relax_mlir.runtime.cuda.devices import Device, Event
from relax_mlir.runtime.cuda.launches import Launches
from relax_mlir.runtime.cuda.libraries import Libraries
from relax_mlir.runtime.cuda.memory import (
    Memory,
    Pool,
    Scratch,
    rounded,
    sweep,
    take_rounded,
)
from relax_mlir.runtime.cuda.modules import Kernels
from relax_mlir.runtime.cuda.plan import KnownPlan, Plan
from relax_mlir.runtime.cuda.plan_checks import check_bounds
from relax_mlir.runtime.elements import element_type

__all__ = ["Prepared", "Session"]

_KEPT_SIZES = 8
_KEPT_SHARE = 8  # of the device's memory, one part of so many: idle memory of outputs
_MOST_BORROWED = 256  # calls whose arrays are kept until they are done
_WEIGHT_ALIGNMENT = 256  # bytes
_MOST_ROUNDED_BYTES = 2 << 20  # that an output has more than it needs
_numbers = count()


class Prepared:
    """What calls with the same sizes share.

    Attributes:
        shapes: of the inputs; sizes: by name, output_shapes: that follow from them.
        plan: for them; arena_bytes: of intermediate results.
    """

    def __init__(
        self,
        device: Device,
        shapes: tuple[tuple[int, ...], ...],
        sizes: Mapping[str, int],
        output_shapes: Sequence[tuple[int, ...]],
        plan: KnownPlan,
        arena_bytes: int,
    ) -> None:
        self._device, self.shapes = device, shapes
        self.sizes, self.output_shapes = sizes, output_shapes
        self.plan, self.arena_bytes = plan, arena_bytes
        self._staging: dict[tuple[str, int], Memory] = {}

    @property
    def has_staging(self) -> bool:
        """Whether some memory stands for arguments."""
        return bool(self._staging)

    def staging(self, role: str, number: int, size_bytes: int, where: str) -> int:
        """Memory that stands for an argument which kernels cannot use where it is."""
        key = (role, number)
        if key not in self._staging:
            use = "copies of arguments"
            self._staging[key] = Memory(self._device, size_bytes, where, use)
        return self._staging[key].address

    def close(self) -> None:
        """Give everything back; no call that uses it is under way."""
        staging, self._staging = self._staging, {}
        with ExitStack() as given_back:
            for memory in staging.values():
                given_back.callback(memory.free)


class Session:
    """A model on a device.

    One thread at a time uses it, with the device current. Calls come one after the other
    on the device as well, whatever their streams: all use the same memory.

    Attributes:
        stream: for calls with arrays of the host.
        launches: what calls do.
        number: no other session has it.

    Args:
        ptx: of every program of the plan.
        names: of the kernels, as the model calls them.
        constants: the weights, in order.
        host: finds functions by name.
        lock: is held by who uses it.

    Raises:
        OutOfMemoryError: the weights need more memory than there is.
        DeviceError: the driver refuses the kernels.
    """

    def __init__(
        self,
        device: Device,
        plan: Plan,
        ptx: Sequence[bytes],
        names: Sequence[str],
        constants: Sequence[np.ndarray],
        host: Callable[[str], Callable[..., object]],
        lock: RLock,
    ) -> None:
        self.device, self._plan = device, plan
        self.number, self._lock = next(_numbers), lock
        self._prepared: OrderedDict[tuple[tuple[int, ...], ...], Prepared] = (
            OrderedDict()
        )
        self._running: Prepared | None = None
        self._last: Event | None = None
        # What calls use that others may take back, behind the call that does.
        self._borrowed: deque[tuple[Event, object]] = deque()
        self._pool = Pool(device.memory_bytes // _KEPT_SHARE)
        self._taken = ExitStack()
        self._taken.callback(self._pool.close)
        # Of intermediate results, and of programs' own buffers.
        self._scratch = [Scratch(device, "intermediate results") for _ in range(2)]
        self._held: Mapping[str, Sequence[int]] = {}  # by a call that has been checked
        libraries = Libraries(device)
        self._taken.callback(libraries.close)
        try:
            self._load(ptx, names, constants)
            given = device, plan, self._kernels, host, libraries, self._settle
            self.launches = Launches(*given)
        except BaseException:
            with suppress(DeviceError):  # the first error is the one to tell
                self._taken.close()
            raise
        device.holders[self.number] = weakref.ref(self)

    def _load(
        self,
        ptx: Sequence[bytes],
        names: Sequence[str],
        constants: Sequence[np.ndarray],
    ) -> None:
        """Take what all calls share; what has been taken is noted."""
        driver, taken = self.device.driver, self._taken
        self.stream = self.device.make(
            "cuStreamCreate", "`main`: it cannot be prepared"
        )
        what = "`main`: it cannot be given back"
        taken.callback(driver.call, "cuStreamDestroy_v2", self.stream, what=what)
        self._weight_bytes = [array.nbytes for array in constants]
        self._weights = self._uploaded(constants)
        self._kernels = Kernels(self.device, ptx, names)
        taken.callback(self._kernels.close)

    def _uploaded(self, constants: Sequence[np.ndarray]) -> tuple[int, ...]:
        """Addresses of the weights, in one piece of memory, each aligned."""
        offsets: list[int] = []
        total = 0
        for array in constants:
            offsets.append(total)
            total += -(-array.nbytes // _WEIGHT_ALIGNMENT) * _WEIGHT_ALIGNMENT
        memory = Memory(self.device, total, use="weights")
        self._taken.callback(memory.free)
        addresses = tuple(memory.address + offset for offset in offsets)
        driver, what = self.device.driver, "`main`: weights cannot be copied"
        for array, address in zip(constants, addresses, strict=True):
            if array.nbytes:
                copy = (address, array.ctypes.data, array.nbytes, self.stream)
                driver.call("cuMemcpyHtoDAsync_v2", *copy, what=what)
        driver.call("cuStreamSynchronize", self.stream, what=what)
        return addresses

    def new_array(
        self, shape: Sequence[int], dtype: str, stream: int, where: str
    ) -> DeviceArray:
        """An array for an output of a call on a stream, whose elements are not set.

        Raises:
            OutOfMemoryError: there is no memory for it.
        """
        size_bytes = math.prod(shape) * element_type(dtype).itemsize
        # Results that grow from call to call are of one size for many calls.
        found = self._pool.take(rounded(size_bytes, _MOST_ROUNDED_BYTES))
        if found is None:
            more = where, "outputs", _MOST_ROUNDED_BYTES
            memory = take_rounded(self.device, size_bytes, *more)
        else:
            memory, uses = found
            for event in uses:
                if event is not self._last:
                    event.let_wait(stream)
        return DeviceArray(memory, shape, dtype, self._pool)

    def known(self, shapes: tuple[tuple[int, ...], ...]) -> Prepared | None:
        """What an earlier call with inputs of these shapes has prepared."""
        found = self._prepared.get(shapes)
        if found is not None:
            self._prepared.move_to_end(shapes)
        return found

    def prepare(
        self,
        shapes: tuple[tuple[int, ...], ...],
        sizes: Mapping[str, int],
        output_shapes: Sequence[tuple[int, ...]],
        held_bytes: Mapping[str, Sequence[int]],
    ) -> Prepared:
        """Prepare calls with inputs of these shapes; those of long ago are forgotten.

        Args:
            sizes: by name; output_shapes: that follow from them.
            held_bytes: of every input and output, and of intermediate results.

        Raises:
            ModelError: the plan reaches outside of its memory.
        """
        plan = self._plan.at(sizes)
        self._check(plan, held_bytes)
        (arena_bytes,) = held_bytes["arena"]
        own = self.device, shapes, sizes, output_shapes, plan, arena_bytes
        made = Prepared(*own)
        self._add(made)
        return made

    def _add(self, prepared: Prepared) -> None:
        self._prepared[prepared.shapes] = prepared
        if len(self._prepared) > _KEPT_SIZES:
            _, oldest = self._prepared.popitem(last=False)
            if oldest.has_staging:
                self._settle()
            oldest.close()

    def _check(self, plan: KnownPlan, held_bytes: Mapping[str, Sequence[int]]) -> None:
        """Refuse a call that reaches outside of its memory.

        Steps that do not depend on sizes stay where they are when there is more memory.
        """
        own = {"constant": self._weight_bytes, "workspace": [plan.workspace_bytes]}
        held = {**held_bytes, **own}
        is_less = not self._held or any(
            has < had
            for base, before in self._held.items()
            for has, had in zip(held[base], before, strict=True)
        )
        steps = range(len(plan.steps)) if is_less else plan.open
        try:
            check_bounds(plan, held, steps)
        except ValueError as error:
            raise ModelError(f"`main`: its plan leaves its memory: {error}") from error
        if is_less:
            self._held = held

    def keep(self, prepared: Prepared) -> None:
        """Count sizes among those that are kept, and have memory for them.

        Raises:
            OutOfMemoryError: there is not so much.
        """
        if prepared.shapes not in self._prepared:
            self._add(prepared)
        self._prepared.move_to_end(prepared.shapes)
        self.reserve()

    @property
    def moves(self) -> int:
        """How often intermediate results have gone elsewhere."""
        arena, workspace = self._scratch
        return arena.moves + workspace.moves

    def reserve(self) -> None:
        """Have memory for intermediate results of all sizes that are kept.

        Raises:
            OutOfMemoryError: there is not so much.
        """
        kept = self._prepared.values()
        needs = (
            max(n.arena_bytes for n in kept),
            max(n.plan.workspace_bytes for n in kept),
        )
        for scratch, size_bytes in zip(self._scratch, needs, strict=True):
            scratch.fit(size_bytes, self._last)

    def bases(self, inputs: Sequence[int], outputs: Sequence[int]) -> Bases:
        """Where everything is in a call whose arrays are at these addresses."""
        arena, workspace = ((scratch.address,) for scratch in self._scratch)
        return {
            "input": inputs,
            "output": outputs,
            "constant": self._weights,
            "arena": arena,
            "workspace": workspace,
        }

    def _settle(self) -> None:
        """Wait for the last call, and so for all."""
        if self._last is not None:
            self._last.wait()

    def begin(
        self, prepared: Prepared, stream: int, behind: Event | None = None
    ) -> None:
        """Begin a call on a stream, which waits for the one before.

        Args:
            behind: an event that the stream need not wait for, as it is its own.
        """
        self._running = prepared
        if self._last is not None and self._last is not behind:
            self._last.let_wait(stream)

    def end(self, event: Event, borrowed: Sequence[object]) -> None:
        """End a call, whose work is on its stream.

        Args:
            event: behind it; borrowed: what must live until then.
        """
        self._running = None
        self._last = event
        waiting = self._borrowed
        if len(waiting) >= _MOST_BORROWED:
            waiting[0][0].wait()
        while waiting and waiting[0][0].is_past():
            waiting.popleft()
        if borrowed:
            waiting.append((event, borrowed))
        if self.device.leaving:
            sweep(self.device)

    def abandon(
        self, stream: int, error: BaseException, borrowed: Sequence[object]
    ) -> None:
        """End a call that has failed half way.

        If it is out of memory, what calls of its sizes share is given back.
        """
        prepared = self._running
        with suppress(DeviceError):  # the first error is the one to tell
            self.end(Event(self.device, stream), borrowed)
            self._settle()  # what it has taken is given back now
        if isinstance(error, OutOfMemoryError):
            kept = [(k, p) for k, p in self._prepared.items() if p is not prepared]
            dropped = [p for p in self._prepared.values() if p is prepared]
            self._prepared = OrderedDict(kept)
            with suppress(DeviceError):
                self._close_all(dropped)
                self._free_scratch()

    def _close_all(self, dropped: Sequence[Prepared]) -> None:
        with ExitStack() as given_back:
            for prepared in dropped:
                given_back.callback(prepared.close)
            given_back.callback(self._settle)

    def _free_scratch(self) -> None:
        for scratch in self._scratch:
            scratch.free(self._last)

    def give_back_idle(self) -> bool:
        """Give back idle memory of outputs, and what calls of other sizes share.

        Returns:
            Whether there was any; not if another thread is in a call.
        """
        if not self._lock.acquire(blocking=False):
            return self._pool.clear()
        try:
            had_idle = self._pool.clear()
            kept = [(k, p) for k, p in self._prepared.items() if p is self._running]
            dropped = [p for p in self._prepared.values() if p is not self._running]
            self._prepared = OrderedDict(kept)
            self._close_all(dropped)
            if self._running is None:
                had_idle |= any(scratch.address for scratch in self._scratch)
                self.launches.drop_graphs()
                self._free_scratch()
            return had_idle or bool(dropped)
        finally:
            self._lock.release()

    def close(self) -> None:
        """Give everything back, when the last call is done; once."""
        prepared = list(self._prepared.values())
        self._prepared.clear()
        self.device.holders.pop(self.number, None)
        with self._taken, ExitStack() as given_back:
            given_back.callback(sweep, self.device)
            given_back.callback(self._free_scratch)
            given_back.callback(self.launches.close)
            given_back.callback(self._close_all, prepared)
