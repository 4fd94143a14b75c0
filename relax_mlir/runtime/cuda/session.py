"""Device state of a model: weights, kernels, scratch memory, and specialised plans."""

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
from relax_mlir.runtime.cuda.arrays import DeviceArray
from relax_mlir.runtime.cuda.devices import Device, Event
from relax_mlir.runtime.cuda.kernel_arguments import Bases
from relax_mlir.runtime.cuda.launches import Launches
from relax_mlir.runtime.cuda.libraries import Libraries
from relax_mlir.runtime.cuda.memory import (
    Memory,
    MemoryPool,
    ScratchBuffer,
    allocate_rounded,
    release_completed,
    rounded_size,
)
from relax_mlir.runtime.cuda.modules import Kernels
from relax_mlir.runtime.cuda.plan import BoundPlan, Plan
from relax_mlir.runtime.cuda.plan_checks import check_bounds
from relax_mlir.runtime.elements import element_type

__all__ = ["Session", "SizeSpecialization"]

_KEPT_SIZES = 8
_POOL_FRACTION = 8  # the pool of outputs holds at most 1/8 of the device's memory
_MAX_PENDING_CALLS = 256  # calls whose arrays are kept alive
_WEIGHT_ALIGNMENT = 256  # bytes
_MAX_ROUNDING_BYTES = 2 << 20  # of an output
_numbers = count()


class SizeSpecialization:
    """Bound plan and staging memory of calls with the same sizes.

    Attributes:
        shapes: of the inputs; sizes: values of the symbolic sizes.
        output_shapes: shapes of the outputs.
        plan: the bound plan; arena_bytes: size of the arena.
    """

    def __init__(
        self,
        device: Device,
        shapes: tuple[tuple[int, ...], ...],
        sizes: Mapping[str, int],
        output_shapes: Sequence[tuple[int, ...]],
        plan: BoundPlan,
        arena_bytes: int,
    ) -> None:
        self._device, self.shapes = device, shapes
        self.sizes, self.output_shapes = sizes, output_shapes
        self.plan, self.arena_bytes = plan, arena_bytes
        self._staging: dict[tuple[str, int], Memory] = {}

    @property
    def has_staging(self) -> bool:
        """Whether staging memory is allocated."""
        return bool(self._staging)

    def staging(self, role: str, number: int, size_bytes: int, where: str) -> int:
        """Address of staging memory for an argument that kernels cannot use in place."""
        key = (role, number)
        if key not in self._staging:
            use = "copies of arguments"
            self._staging[key] = Memory(self._device, size_bytes, where, use)
        return self._staging[key].address

    def close(self) -> None:
        """Free the staging memory; no call may be using it."""
        staging, self._staging = self._staging, {}
        with ExitStack() as cleanup:
            for memory in staging.values():
                cleanup.callback(memory.free)


class Session:
    """Device state of a model.

    Not thread-safe; the device must be current. Calls are also ordered on the device,
    across streams, since they share scratch memory.

    Attributes:
        stream: for calls with host arrays.
        launches: the prepared steps.
        number: unique number of the session.

    Args:
        ptx: of every program of the plan.
        names: of the model's kernel calls, in order.
        constants: the weights, in order.
        host: looks up host functions.
        lock: held by callers.

    Raises:
        OutOfMemoryError: the weights cannot be allocated.
        DeviceError: the driver rejects the kernels.
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
        self._prepared: OrderedDict[tuple[tuple[int, ...], ...], SizeSpecialization] = (
            OrderedDict()
        )
        self._running: SizeSpecialization | None = None
        self._last: Event | None = None
        # Objects that pending calls use, with the event after the call.
        self._borrowed: deque[tuple[Event, object]] = deque()
        self._pool = MemoryPool(device.memory_bytes // _POOL_FRACTION)
        self._resources = ExitStack()
        self._resources.callback(self._pool.close)
        # The arena, and the workspace.
        self._scratch = [
            ScratchBuffer(device, "intermediate results") for _ in range(2)
        ]
        self._held: Mapping[str, Sequence[int]] = {}  # sizes of the last bounds check
        libraries = Libraries(device)
        self._resources.callback(libraries.close)
        try:
            self._load(ptx, names, constants)
            arguments = device, plan, self._kernels, host, libraries, self._settle
            self.launches = Launches(*arguments)
        except BaseException:
            with suppress(DeviceError):  # report the first error
                self._resources.close()
            raise
        device.holders[self.number] = weakref.ref(self)

    def _load(
        self,
        ptx: Sequence[bytes],
        names: Sequence[str],
        constants: Sequence[np.ndarray],
    ) -> None:
        """Create the stream, and load weights and kernels."""
        driver, resources = self.device.driver, self._resources
        what = "`main`: a stream cannot be created"
        self.stream = self.device.make("cuStreamCreate", what)
        what = "`main`: a stream cannot be destroyed"
        resources.callback(driver.call, "cuStreamDestroy_v2", self.stream, what=what)
        self._weight_bytes = [array.nbytes for array in constants]
        self._weights = self._uploaded(constants)
        self._kernels = Kernels(self.device, ptx, names)
        resources.callback(self._kernels.close)

    def _uploaded(self, constants: Sequence[np.ndarray]) -> tuple[int, ...]:
        """Upload the weights to one allocation; returns their addresses."""
        offsets: list[int] = []
        total = 0
        for array in constants:
            offsets.append(total)
            total += -(-array.nbytes // _WEIGHT_ALIGNMENT) * _WEIGHT_ALIGNMENT
        memory = Memory(self.device, total, use="weights")
        self._resources.callback(memory.free)
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
        """An uninitialised array for an output of a call on a stream.

        Raises:
            OutOfMemoryError: the array cannot be allocated.
        """
        size_bytes = math.prod(shape) * element_type(dtype).itemsize
        # Rounding lets results that grow slowly share a size class.
        pooled = self._pool.take(rounded_size(size_bytes, _MAX_ROUNDING_BYTES))
        if pooled is None:
            options = where, "outputs", _MAX_ROUNDING_BYTES
            memory = allocate_rounded(self.device, size_bytes, *options)
        else:
            memory, uses = pooled
            for event in uses:
                if event is not self._last:
                    event.let_wait(stream)
        return DeviceArray(memory, shape, dtype, self._pool)

    def known(self, shapes: tuple[tuple[int, ...], ...]) -> SizeSpecialization | None:
        """The specialisation for input shapes, if an earlier call prepared it."""
        known = self._prepared.get(shapes)
        if known is not None:
            self._prepared.move_to_end(shapes)
        return known

    def prepare(
        self,
        shapes: tuple[tuple[int, ...], ...],
        sizes: Mapping[str, int],
        output_shapes: Sequence[tuple[int, ...]],
        held_bytes: Mapping[str, Sequence[int]],
    ) -> SizeSpecialization:
        """Specialise the plan for input shapes; evicts the least recently used one.

        Args:
            sizes: values of the symbolic sizes; output_shapes: shapes of the outputs.
            held_bytes: sizes of inputs, outputs and the arena.

        Raises:
            ModelError: the plan accesses memory out of bounds.
        """
        plan = self._plan.at(sizes)
        self._check(plan, held_bytes)
        (arena_bytes,) = held_bytes["arena"]
        arguments = self.device, shapes, sizes, output_shapes, plan, arena_bytes
        prepared = SizeSpecialization(*arguments)
        self._add(prepared)
        return prepared

    def _add(self, prepared: SizeSpecialization) -> None:
        self._prepared[prepared.shapes] = prepared
        if len(self._prepared) > _KEPT_SIZES:
            _, oldest = self._prepared.popitem(last=False)
            if oldest.has_staging:
                self._settle()
            oldest.close()

    def _check(self, plan: BoundPlan, held_bytes: Mapping[str, Sequence[int]]) -> None:
        """Check the bounds of a plan.

        Size-independent steps need no new check if all memory is at least as large.
        """
        own = {"constant": self._weight_bytes, "workspace": [plan.workspace_bytes]}
        held = {**held_bytes, **own}
        is_less = not self._held or any(
            has < had
            for base, before in self._held.items()
            for has, had in zip(held[base], before, strict=True)
        )
        steps = range(len(plan.steps)) if is_less else plan.dynamic
        try:
            check_bounds(plan, held, steps)
        except ValueError as error:
            raise ModelError(f"`main`: its plan is out of bounds: {error}") from error
        if is_less:
            self._held = held

    def keep(self, prepared: SizeSpecialization) -> None:
        """Keep a specialisation in the cache, and reserve memory for it.

        Raises:
            OutOfMemoryError: memory is insufficient.
        """
        if prepared.shapes not in self._prepared:
            self._add(prepared)
        self._prepared.move_to_end(prepared.shapes)
        self.reserve()

    @property
    def moves(self) -> int:
        """Number of reallocations of arena and workspace."""
        arena, workspace = self._scratch
        return arena.moves + workspace.moves

    def reserve(self) -> None:
        """Resize arena and workspace for all cached specialisations.

        Raises:
            OutOfMemoryError: memory is insufficient.
        """
        kept = self._prepared.values()
        needs = (
            max(n.arena_bytes for n in kept),
            max(n.plan.workspace_bytes for n in kept),
        )
        for scratch, size_bytes in zip(self._scratch, needs, strict=True):
            scratch.fit(size_bytes, self._last)

    def bases(self, inputs: Sequence[int], outputs: Sequence[int]) -> Bases:
        """All addresses of a call, given those of its arrays."""
        arena, workspace = ((scratch.address,) for scratch in self._scratch)
        return {
            "input": inputs,
            "output": outputs,
            "constant": self._weights,
            "arena": arena,
            "workspace": workspace,
        }

    def _settle(self) -> None:
        """Wait for the last call, and thereby for all."""
        if self._last is not None:
            self._last.wait()

    def begin(
        self, prepared: SizeSpecialization, stream: int, behind: Event | None = None
    ) -> None:
        """Begin a call on a stream, ordered after the previous call.

        Args:
            behind: an event of the same stream, which needs no wait.
        """
        self._running = prepared
        if self._last is not None and self._last is not behind:
            self._last.let_wait(stream)

    def end(self, event: Event, borrowed: Sequence[object]) -> None:
        """End a call whose work is enqueued.

        Args:
            event: after the call; borrowed: objects to keep alive until then.
        """
        self._running = None
        self._last = event
        pending = self._borrowed
        if len(pending) >= _MAX_PENDING_CALLS:
            pending[0][0].wait()
        while pending and pending[0][0].is_complete():
            pending.popleft()
        if borrowed:
            pending.append((event, borrowed))
        if self.device.pending_frees:
            release_completed(self.device)

    def abandon(
        self, stream: int, error: BaseException, borrowed: Sequence[object]
    ) -> None:
        """End a call that failed midway.

        After an out-of-memory error, the specialisation of its sizes is freed.
        """
        prepared = self._running
        with suppress(DeviceError):  # report the first error
            self.end(Event(self.device, stream), borrowed)
            self._settle()  # so that its resources are freed now
        if isinstance(error, OutOfMemoryError):
            kept = [(k, p) for k, p in self._prepared.items() if p is not prepared]
            dropped = [p for p in self._prepared.values() if p is prepared]
            self._prepared = OrderedDict(kept)
            with suppress(DeviceError):
                self._close_all(dropped)
                self._free_scratch()

    def _close_all(self, dropped: Sequence[SizeSpecialization]) -> None:
        with ExitStack() as cleanup:
            for prepared in dropped:
                cleanup.callback(prepared.close)
            cleanup.callback(self._settle)

    def _free_scratch(self) -> None:
        for scratch in self._scratch:
            scratch.free(self._last)

    def give_back_idle(self) -> bool:
        """Free pooled outputs, and specialisations for sizes other than the running call's.

        If another thread is in a call, frees only pooled outputs.

        Returns:
            Whether there was any memory to free.
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
        """Release everything after the last call; idempotent."""
        prepared = list(self._prepared.values())
        self._prepared.clear()
        self.device.holders.pop(self.number, None)
        with self._resources, ExitStack() as cleanup:
            cleanup.callback(release_completed, self.device)
            cleanup.callback(self._free_scratch)
            cleanup.callback(self.launches.close)
            cleanup.callback(self._close_all, prepared)
