"""A model on a GPU: its weights and kernels there, and memory for calls."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress

import numpy as np

from relax_mlir.errors import OutOfMemoryError, RelaxError
from relax_mlir.runtime.cuda.arrays import DeviceArray
from relax_mlir.runtime.cuda.devices import Device, Memory, Pool, Reservation
from relax_mlir.runtime.cuda.launches import Bases, Launches
from relax_mlir.runtime.cuda.modules import Kernels
from relax_mlir.runtime.cuda.plan import Plan
from relax_mlir.runtime.elements import element_type

__all__ = ["Prepared", "Session"]

_KEPT_SIZES = 8
_WEIGHT_ALIGNMENT = 256  # bytes


class Prepared:
    """What calls with the same sizes share: launches, and memory.

    Args:
        sizes: by name; output_shapes: that follow from them.
        arena_bytes: of intermediate results.
        reservation: gets the memory that is taken.

    Raises:
        OutOfMemoryError: there is not enough memory.
        DeviceError: a kernel cannot be prepared.
    """

    def __init__(
        self,
        session: Session,
        sizes: Mapping[str, int],
        output_shapes: Sequence[tuple[int, ...]],
        arena_bytes: int,
        reservation: Reservation,
    ) -> None:
        self.sizes, self.output_shapes = sizes, output_shapes
        self._session = session
        device = session.device
        known = session.plan.at(sizes)
        results = "intermediate results"
        take = reservation.take
        self._arena = take(session.allocate(arena_bytes, use=results))
        self._workspace = take(session.allocate(known.workspace_bytes, use=results))
        self._staging: dict[tuple[str, int], Memory] = {}
        self.launches = Launches(device, known, session.kernels, session.host)

    def bases(self, inputs: Sequence[int], outputs: Sequence[int]) -> Bases:
        """Where everything is in a call whose arrays are at these addresses."""
        return {
            "input": inputs,
            "output": outputs,
            "constant": self._session.weights,
            "arena": (self._arena.address,),
            "workspace": (self._workspace.address,),
        }

    def staging(self, role: str, number: int, size_bytes: int, where: str) -> int:
        """Memory that stands for an argument which kernels cannot use where it is."""
        key = (role, number)
        if key not in self._staging:
            self._staging[key] = self._session.allocate(size_bytes, where)
        return self._staging[key].address

    def close(self) -> None:
        """Give everything back; the driver waits for work that uses it."""
        self.launches.close()
        for memory in (self._arena, self._workspace, *self._staging.values()):
            memory.free()


class Session:
    """A model on a device.

    One thread at a time uses it, with the device current.

    Attributes:
        weights: their addresses.
        stream: for calls with arrays of the host.

    Args:
        ptx: of every program of the plan.
        names: of the kernels, as the model calls them.
        constants: the weights, in order.
        host: finds functions by name.

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
    ) -> None:
        self.device, self.plan, self.host = device, plan, host
        self._prepared: OrderedDict[tuple[tuple[int, ...], ...], Prepared] = (
            OrderedDict()
        )
        self._last_stream: int | None = None
        self._pool = Pool()
        with ExitStack() as taken:
            self.stream = self._made("cuStreamCreate", "cuStreamDestroy_v2", taken)
            self._event = self._made("cuEventCreate", "cuEventDestroy_v2", taken)
            self.weights = self._uploaded(constants, taken)
            self.kernels = Kernels(device, ptx, names)
            taken.callback(self.kernels.close)
            self._taken = taken.pop_all()

    def _made(self, make: str, destroy: str, taken: ExitStack) -> int:
        """A stream or an event, which is destroyed in the end."""
        made = self.device.make(make, "`main`: it cannot be prepared")
        what = "`main`: it cannot be given back"
        taken.callback(self.device.driver.call, destroy, made, what=what)
        return made

    def _uploaded(
        self, constants: Sequence[np.ndarray], taken: ExitStack
    ) -> tuple[int, ...]:
        """Addresses of the weights, in one piece of memory, each aligned."""
        offsets: list[int] = []
        total = 0
        for array in constants:
            offsets.append(total)
            total += -(-array.nbytes // _WEIGHT_ALIGNMENT) * _WEIGHT_ALIGNMENT
        memory = Memory(self.device, total, use="weights")
        taken.callback(memory.free)
        addresses = tuple(memory.address + offset for offset in offsets)
        driver, what = self.device.driver, "`main`: weights cannot be copied"
        for array, address in zip(constants, addresses, strict=True):
            if array.nbytes:
                copy = (address, array.ctypes.data, array.nbytes, self.stream)
                driver.call("cuMemcpyHtoDAsync_v2", *copy, what=what)
        driver.call("cuStreamSynchronize", self.stream, what=what)
        return addresses

    def allocate(self, size_bytes: int, where: str = "`main`", use: str = "") -> Memory:
        """Memory; if there is none left, idle memory of outputs is given back first.

        Raises:
            OutOfMemoryError: there is not so much.
        """
        try:
            return Memory(self.device, size_bytes, where, use)
        except OutOfMemoryError:
            if not self._pool.clear():
                raise
        return Memory(self.device, size_bytes, where, use)

    def new_array(
        self, shape: Sequence[int], dtype: str, stream: int, where: str
    ) -> DeviceArray:
        """An array for an output, whose elements are not set.

        Raises:
            OutOfMemoryError: there is no memory for it.
        """
        size_bytes = math.prod(shape) * element_type(dtype).itemsize
        memory = self._pool.take(size_bytes, stream)
        if memory is None:
            memory = self.allocate(size_bytes, where)
        return DeviceArray(memory, shape, dtype, stream, self._pool)

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
        arena_bytes: int,
    ) -> Prepared:
        """Prepare calls with inputs of these shapes; those of long ago are forgotten.

        Raises:
            OutOfMemoryError, DeviceError: as :class:`Prepared`; nothing is taken then.
        """
        with Reservation() as reservation:
            made = Prepared(self, sizes, output_shapes, arena_bytes, reservation)
        self._prepared[shapes] = made
        if len(self._prepared) > _KEPT_SIZES:
            _, oldest = self._prepared.popitem(last=False)
            self._settle()
            oldest.close()
        return made

    def _settle(self) -> None:
        """Wait for the last call, and so for all."""
        if self._last_stream is not None:
            what = "`main`: a call cannot be waited for"
            self.device.driver.call("cuEventSynchronize", self._event, what=what)

    @contextmanager
    def call(self, prepared: Prepared, stream: int) -> Iterator[None]:
        """A call on a stream, which waits for the one before: both use the same memory.

        If it is out of memory, what calls of its sizes share is given back.
        """
        driver, what = self.device.driver, "`main`: a stream cannot wait"
        # The number of a stream tells little: it may be another's that is gone.
        if self._last_stream is not None:
            driver.call("cuStreamWaitEvent", stream, self._event, 0, what=what)
        try:
            yield
        except BaseException as error:
            with suppress(RelaxError):  # the first error is the one to tell
                self._note(stream)
            if isinstance(error, OutOfMemoryError):
                kept = [(k, p) for k, p in self._prepared.items() if p is not prepared]
                self._prepared = OrderedDict(kept)
                prepared.close()
            raise
        self._note(stream)

    def _note(self, stream: int) -> None:
        """Note where a stream is when a call is on it."""
        self._last_stream = stream
        what = "`main`: a stream cannot be waited for"
        self.device.driver.call("cuEventRecord", self._event, stream, what=what)

    def close(self) -> None:
        """Give everything back, when the last call is done."""
        self._settle()
        for prepared in self._prepared.values():
            prepared.close()
        self._prepared.clear()
        self._pool.close()
        self._taken.close()
