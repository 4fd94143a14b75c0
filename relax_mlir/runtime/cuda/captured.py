"""A call with arrays that stay where they are: one launch, started again and again."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

from relax_mlir.errors import DeviceError
from relax_mlir.runtime.cuda.arrays import DeviceArray, View, are_apart, meet
from relax_mlir.runtime.cuda.devices import Device, RepeatedEvent
from relax_mlir.runtime.cuda.launches import Graph
from relax_mlir.runtime.cuda.session import Prepared, Session

if TYPE_CHECKING:
    from relax_mlir.runtime.cuda.calls import Turn

__all__ = ["CapturedCall", "check_captured"]


class CapturedCall:
    """A call of a model that needs no more than to be started.

    Kernels read the inputs and write the outputs where they are; what is in them may
    change from call to call. Calls of this process on arrays of ours wait for each other
    on the GPU. Other libraries have to use the same stream, or to wait by themselves.

    Attributes:
        outputs: that a call writes to.

    Args:
        held: what has to live as long: the model, its stream, other libraries' arrays.
        turn: of the model; session: of it; prepared: for the sizes.
        arrays: inputs and outputs, that :func:`check_captured` has seen; addresses: of
            them; outputs: as the caller gave them.

    Raises:
        OutOfMemoryError: there is no memory left for intermediate results.
        DeviceError: the driver refuses it.
    """

    def __init__(
        self,
        held: object,
        turn: Turn,
        session: Session,
        prepared: Prepared,
        arrays: Sequence[Any],  # Any: whatever has memory on a GPU
        addresses: Sequence[int],
        outputs: Sequence[Any],
        stream: int,
    ) -> None:
        self.outputs = tuple(outputs)
        self._held, self._stream = held, stream
        self._turn, self._session, self._prepared = turn, session, prepared
        count = len(arrays) - len(outputs)
        self._inputs, self._results = addresses[:count], addresses[count:]
        self._arrays = [
            (array, number >= count)
            for number, array in enumerate(arrays)
            if isinstance(array, DeviceArray)
        ]
        self._graphs: list[Graph] = []  # one, from the first capture on
        self._seen: tuple[int, int] | None = None  # when it was the right one
        device = session.device
        with device.current():
            self._event = RepeatedEvent(device, stream)
        ending = weakref.finalize(self, _destroy, device, self._graphs, self._event)
        ending.atexit = False  # the driver takes all back by itself
        self._run(is_started=False)

    def __call__(self) -> tuple[Any, ...]:  # Any: as the caller gave them
        """Start it.

        Returns:
            The outputs, which are written when the stream gets there.

        Raises:
            OutOfMemoryError: there is no memory left for intermediate results.
            DeviceError: the driver refuses it, or the stream is being captured.
        """
        self._run(is_started=True)
        return self.outputs

    def _run(self, *, is_started: bool) -> None:
        """Have a graph that is right, and put it on the stream."""
        session, stream, event = self._session, self._stream, self._event
        number = session.number
        with self._turn, session.device.current():
            session.device.check_stream(stream)
            session.begin(self._prepared, stream, event)
            try:
                for array, is_written in self._arrays:
                    if not array.is_noted(number, event):
                        array.let_wait(stream, is_written=is_written, user=number)
                        array.note_use(number, event, is_written=is_written)
                if self._seen != (session.moves, session.launches.parts):
                    self._capture()
                if is_started:
                    session.launches.start(self._graphs[0], stream)
                event.record()
                session.end(event, ())
            except BaseException as error:
                session.abandon(stream, error, ())
                raise

    def _capture(self) -> None:
        """Have the graph for where intermediate results are now."""
        session, before = self._session, next(iter(self._graphs), None)
        session.keep(self._prepared)
        bases = session.bases(self._inputs, self._results)
        made = session.launches.captured(self._prepared.plan, bases, before)
        self._graphs[:] = [made]
        self._seen = session.moves, session.launches.parts


def check_captured(inputs: Sequence[View], outputs: Sequence[View]) -> None:
    """Refuse arrays that cannot be used where they are.

    Raises:
        ValueError: one is such.
    """
    views = (*inputs, *outputs)
    for view in views:
        if view.ordinal is None or not view.is_plain:
            raise ValueError(
                "`main`: expected arrays on the GPU that lie row after row from a multiple "
                f"of 16 bytes on, got {view}"
            )
    if not are_apart(views) and any(meet(a, b) for a in inputs for b in outputs):
        raise ValueError("`main`: an input shares memory with an output")


def _destroy(device: Device, graphs: list[Graph], event: RepeatedEvent) -> None:
    with suppress(DeviceError), device.current(), ExitStack() as given_back:
        for graph in graphs:
            given_back.callback(graph.destroy)
        event.wait()
