"""Captured calls: a call on fixed arrays as a CUDA graph that is launched repeatedly."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

from relax_mlir.errors import DeviceError
from relax_mlir.runtime.cuda.arrays import ArrayView, DeviceArray, are_disjoint, overlap
from relax_mlir.runtime.cuda.devices import Device, ReusableEvent
from relax_mlir.runtime.cuda.launches import Graph
from relax_mlir.runtime.cuda.session import Session, SizeSpecialization

if TYPE_CHECKING:
    from relax_mlir.runtime.cuda.call_queue import CallLock

__all__ = ["CapturedCall", "check_capturable"]


class CapturedCall:
    """A captured call of a model.

    Kernels access the arrays in place; their elements may change between calls. Calls of
    this process on arrays of this package are ordered on the GPU. Other libraries have to
    use the same stream, or to synchronise.

    Attributes:
        outputs: of each call.

    Args:
        held: objects to keep alive: the model, its stream, arrays of other libraries.
        lock: of the model; session: of the model; prepared: for the sizes.
        arrays: inputs and outputs, validated by :func:`check_capturable`; addresses: of
            the arrays; outputs: in the form of the caller.

    Raises:
        OutOfMemoryError: there is no memory for intermediate results.
        DeviceError: the driver reports an error.
    """

    def __init__(
        self,
        held: object,
        lock: CallLock,
        session: Session,
        prepared: SizeSpecialization,
        arrays: Sequence[Any],  # Any: arrays on a GPU
        addresses: Sequence[int],
        outputs: Sequence[Any],
        stream: int,
    ) -> None:
        self.outputs = tuple(outputs)
        self._held, self._stream = held, stream
        self._lock, self._session, self._prepared = lock, session, prepared
        count = len(arrays) - len(outputs)
        self._inputs, self._results = addresses[:count], addresses[count:]
        self._arrays = [
            (array, number >= count)
            for number, array in enumerate(arrays)
            if isinstance(array, DeviceArray)
        ]
        self._graphs: list[Graph] = []  # at most one
        self._valid_for: tuple[int, int] | None = None  # versions of scratch and plans
        device = session.device
        with device.current():
            self._event = ReusableEvent(device, stream)
        finalizer = weakref.finalize(self, _destroy, device, self._graphs, self._event)
        finalizer.atexit = False  # the driver frees everything at exit
        self._run(is_launched=False)

    def __call__(self) -> tuple[Any, ...]:  # Any: in the form of the caller
        """Launch the graph.

        Returns:
            The outputs, valid in stream order.

        Raises:
            OutOfMemoryError: there is no memory for intermediate results.
            DeviceError: the driver reports an error, or the stream is being captured.
        """
        self._run(is_launched=True)
        return self.outputs

    def _run(self, *, is_launched: bool) -> None:
        """Capture again if the graph is stale, and launch it on the stream."""
        session, stream, event = self._session, self._stream, self._event
        number = session.number
        with self._lock, session.device.current():
            session.device.check_stream(stream)
            session.begin(self._prepared, stream, event)
            try:
                for array, is_written in self._arrays:
                    if not array.is_noted(number, event):
                        array.let_wait(stream, is_written=is_written, user=number)
                        array.note_use(number, event, is_written=is_written)
                if self._valid_for != (session.moves, session.launches.version):
                    self._capture()
                if is_launched:
                    session.launches.start(self._graphs[0], stream)
                event.record()
                session.end(event, ())
            except BaseException as error:
                session.abandon(stream, error, ())
                raise

    def _capture(self) -> None:
        """Capture the graph for the current addresses of intermediate results."""
        session, previous = self._session, next(iter(self._graphs), None)
        session.keep(self._prepared)
        bases = session.bases(self._inputs, self._results)
        graph = session.launches.captured(self._prepared.plan, bases, previous)
        self._graphs[:] = [graph]
        self._valid_for = session.moves, session.launches.version


def check_capturable(inputs: Sequence[ArrayView], outputs: Sequence[ArrayView]) -> None:
    """Check that kernels can access arrays in place.

    Raises:
        ValueError: they cannot access one.
    """
    views = (*inputs, *outputs)
    for view in views:
        if view.ordinal is None or not view.is_plain:
            raise ValueError(
                "`main`: expected C-contiguous arrays on the GPU, aligned to 16 bytes, got "
                f"{view}"
            )
    if not are_disjoint(views) and any(overlap(a, b) for a in inputs for b in outputs):
        raise ValueError("`main`: an input shares memory with an output")


def _destroy(device: Device, graphs: list[Graph], event: ReusableEvent) -> None:
    with suppress(DeviceError), device.current(), ExitStack() as cleanup:
        for graph in graphs:
            cleanup.callback(graph.destroy)
        event.wait()
