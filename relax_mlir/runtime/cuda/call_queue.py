"""State of a call in progress, and the lock that serialises calls of a model."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from relax_mlir.errors import DeviceError
from relax_mlir.runtime.cuda.arrays import ArrayView
from relax_mlir.runtime.cuda.memory import Memory
from relax_mlir.runtime.cuda.session import SizeSpecialization
from relax_mlir.runtime.process_exit import begin_call, end_call

__all__ = ["CallLock", "Output", "PendingCall"]


@dataclass
class Output:
    """An output of a call.

    Attributes:
        address: destination of the kernels.
        result: the array of the caller.
        copied: final destination, if kernels cannot write there in place; else None.
    """

    address: int
    result: Any  # Any: an array of the caller
    copied: ArrayView | None = None


class PendingCall:
    """A call in progress.

    Attributes:
        borrowed: objects to keep alive until the stream has completed the call.
        taken: memory of new outputs.
    """

    def __init__(
        self,
        prepared: SizeSpecialization,
        stream: int,
        inputs: Sequence[ArrayView],
        targets: Sequence[ArrayView] | None,
        on_host: bool,
    ) -> None:
        self.prepared, self.stream, self.on_host = prepared, stream, on_host
        self.inputs, self.targets = inputs, targets
        self.taken: list[Memory] = []
        self.borrowed: list[object] = [
            view.owner
            for view in (*inputs, *(targets or ()))
            if view.owner is not None and view.ordinal is not None
        ]

    def give_back(self) -> None:
        """Free the memory of new outputs after a failure."""
        for memory in self.taken:  # the traceback would keep it alive
            memory.free()


class CallLock:
    """A lock that serialises calls, and rejects reentrant ones."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._is_held = False
        self._thread = 0  # the holder

    def __enter__(self) -> None:
        thread = begin_call()
        self.lock.acquire()
        if self._is_held:
            self.lock.release()
            end_call(thread)
            raise DeviceError(
                "`main`: reentrant call from a host function, while its memory is in use. "
                "Hint: `model.on(0)` is the same model with separate memory."
            )
        self._is_held, self._thread = True, thread

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._is_held, thread = False, self._thread  # the next holder sets its own
        self.lock.release()
        end_call(thread)
