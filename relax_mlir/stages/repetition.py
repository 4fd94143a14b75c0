"""Graphs that are called again and again with their own results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from relax_mlir.errors import OutOfMemoryError
from relax_mlir.runtime.cpu import array_of, tensor_of
from relax_mlir.runtime.machine import memory_bytes
from relax_mlir.runtime.ndarray import NDArray, as_numpy
from relax_mlir.runtime.registry import get_global_func
from relax_mlir.stages.host_node import Body

__all__ = ["BACKWARD", "FIXED", "FORWARD", "NUMBER", "Repetition"]

# Where an argument of a step comes from, if it is no result of the one before: from
# outside, always the same; the step's number; an element along a first axis.
FIXED, NUMBER, FORWARD, BACKWARD = -1, -2, -3, -4

_NO_LIMIT = 1 << 62


@dataclass
class Repetition:
    """A body, and where its arguments come from.

    Attributes:
        body: the graph.
        values: what it reads from outside, by name.
        args: of the step to come; for ``FORWARD`` and ``BACKWARD`` the whole array.
        sources: for each argument one of the above, or the number of a result.
        gathered: numbers of the results that are kept of all steps.
        condition: number of the result that says whether to go on; -1 if none does.
        parts: for each of ``gathered`` what was kept so far, along a first axis.
    """

    body: Body
    values: Mapping[str, Any]
    args: list[Any]
    sources: Sequence[int]
    gathered: Sequence[int]
    condition: int = -1
    parts: list[list[np.ndarray]] = field(init=False)
    _kept_bytes: int = field(default=0, init=False)
    _is_native: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        """Nothing is kept yet."""
        self.parts = [[] for _ in self.gathered]

    def run(self, limit: int | None) -> None:
        """Repeat it while it goes on, ``limit`` times at most.

        Raises:
            ValueError: what is kept has another shape in another step.
            OutOfMemoryError: it takes more memory than there is.
        """
        step, goes_on = 0, True
        while goes_on and (limit is None or step < limit):
            most = _NO_LIMIT if limit is None else limit - step
            done = self._run_native(step, most) if self._is_native else None
            self._is_native = done is not None  # a body that was not will not be
            count, goes_on = done or self._run_once(step)
            step += count

    def _run_once(self, step: int) -> tuple[int, bool]:
        """One step; how many that are, and whether to go on."""
        results = self.body(self._args_at(step), self.values)
        self._keep([as_numpy(results[n])[np.newaxis] for n in self.gathered])
        self._take(results)
        is_last = self.condition >= 0 and not as_numpy(results[self.condition]).item()
        return 1, not is_last

    def _run_native(self, step: int, most: int) -> tuple[int, bool] | None:
        """Some steps in native code; None if the body needs more than that."""
        call = self.body.native(self._args_at(step), self.values)
        if call is None:
            return None
        sources = [*self.sources, *[FIXED] * (len(call.args) - len(self.sources))]
        if any(sources[n] != FIXED for n in call.static):
            return None
        args = [*self.args, *call.args[len(self.args) :]]
        given = [tensor_of(as_numpy(args[n])) for n in call.taken]
        given += [tensor_of(as_numpy(extra)) for extra in call.extra]
        own = [*(sources[n] for n in call.taken), *[FIXED] * len(call.extra)]
        count, goes_on, results, *parts = get_global_func("relax_mlir.repeat")(
            call.function, given, own, step, most, self.condition, list(self.gathered)
        )
        self._keep([array_of(part) for part in parts])
        self._take([NDArray(array_of(result)) for result in results])
        return int(count), bool(goes_on)

    def _args_at(self, step: int) -> list[Any]:
        found = []
        for arg, source in zip(self.args, self.sources, strict=True):
            if source == NUMBER:
                arg = NDArray(np.array(step, np.int64))
            elif source in (FORWARD, BACKWARD):
                whole = as_numpy(arg)
                arg = NDArray(
                    np.asarray(whole[step if source == FORWARD else -1 - step])
                )
            found.append(arg)
        return found

    def _keep(self, new: Sequence[np.ndarray]) -> None:
        for part, array in zip(self.parts, new, strict=True):
            if part and part[0].shape[1:] != array.shape[1:]:
                raise ValueError(
                    "what a loop gives has to have one shape in all steps: expected "
                    f"{part[0].shape[1:]}, got {array.shape[1:]}"
                )
            part.append(array)
            self._kept_bytes += array.nbytes
        if 2 * self._kept_bytes > memory_bytes():  # they are joined in the end
            raise OutOfMemoryError(
                f"out of memory: the steps of a loop gave {self._kept_bytes} bytes so far"
            )

    def _take(self, results: Sequence[Any]) -> None:
        """Let results be arguments of the next step."""
        self.args = [
            results[source] if source >= 0 else arg
            for arg, source in zip(self.args, self.sources, strict=True)
        ]
