"""Calls of a model on their way: what they work on, and whose turn it is."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from relax_mlir.errors import DeviceError
from relax_mlir.runtime.cuda.arrays import View
from relax_mlir.runtime.cuda.memory import Memory
from relax_mlir.runtime.cuda.session import Prepared
from relax_mlir.runtime.process_exit import begin_call, end_call

__all__ = ["Call", "Output", "Turn"]


@dataclass
class Output:
    """Where an output is written, and where it goes.

    Attributes:
        address: that kernels write to.
        result: what the caller gets.
        copied: what it is copied to afterwards, if kernels cannot write there.
    """

    address: int
    result: Any  # Any: whatever the caller gave
    copied: View | None = None


class Call:
    """A call on its way: what it works on.

    Attributes:
        borrowed: what must live until its stream has passed it.
        taken: memory of new outputs.
    """

    def __init__(
        self,
        prepared: Prepared,
        stream: int,
        inputs: Sequence[View],
        targets: Sequence[View] | None,
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
        """Give memory of outputs back that nobody will see; the call is over."""
        for memory in self.taken:  # the error would keep it alive
            memory.free()


class Turn:
    """One call at a time: those of other threads wait, one inside another is refused."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._is_taken = False
        self._thread = 0  # that has the turn

    def __enter__(self) -> None:
        thread = begin_call()
        self.lock.acquire()
        if self._is_taken:
            self.lock.release()
            end_call(thread)
            raise DeviceError(
                "`main`: a function on the host that it calls calls it again: its memory "
                "is in use. Hint: `model.on(0)` is the same model with memory of its own."
            )
        self._is_taken, self._thread = True, thread

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._is_taken = False
        self.lock.release()
        end_call(self._thread)
