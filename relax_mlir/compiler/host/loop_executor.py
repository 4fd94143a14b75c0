"""Loop executor: calls a body graph repeatedly with loop-carried values and scan slices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from relax_mlir.compiler.host.node_interpreter import Body
from relax_mlir.errors import OutOfMemoryError
from relax_mlir.runtime.cpu import array_of, tensor_of
from relax_mlir.runtime.cpu_features import memory_bytes
from relax_mlir.runtime.ndarray import NDArray, as_numpy
from relax_mlir.runtime.registry import get_global_func

__all__ = ["INVARIANT", "ITERATION", "SCAN_BACKWARD", "SCAN_FORWARD", "LoopExecutor"]

# Sources of a body argument other than a loop-carried result: a loop invariant, the
# iteration number, a slice along the first axis.
INVARIANT, ITERATION, SCAN_FORWARD, SCAN_BACKWARD = -1, -2, -3, -4

_NO_LIMIT = 1 << 62


@dataclass
class LoopExecutor:
    """Execution state of one loop.

    Attributes:
        body: the graph.
        values: values that it captures, by name.
        args: of the next iteration; for ``SCAN_FORWARD`` and ``SCAN_BACKWARD`` the whole
            array.
        sources: per argument, one of the constants above, or the index of a result.
        stacked: indices of the results that are stacked over all iterations.
        condition: index of the result that continues the loop; -1 if there is none.
        chunks: for each of ``stacked`` the results so far, along a new first axis.
    """

    body: Body
    values: Mapping[str, Any]
    args: list[Any]
    sources: Sequence[int]
    stacked: Sequence[int]
    condition: int = -1
    chunks: list[list[np.ndarray]] = field(init=False)
    _stacked_bytes: int = field(default=0, init=False)
    _is_native: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        """Start without stacked results."""
        self.chunks = [[] for _ in self.stacked]

    def run(self, limit: int | None) -> None:
        """Run iterations until the condition fails, at most ``limit`` of them.

        Raises:
            ValueError: the shape of a stacked result differs between iterations.
            OutOfMemoryError: the stacked results exceed the machine's memory.
        """
        step, continues = 0, True
        while continues and (limit is None or step < limit):
            max_steps = _NO_LIMIT if limit is None else limit - step
            done = self._run_native(step, max_steps) if self._is_native else None
            self._is_native = done is not None  # no retry once it fails
            count, continues = done or self._run_once(step)
            step += count

    def _run_once(self, step: int) -> tuple[int, bool]:
        """Run one iteration; returns the number of iterations, and whether to continue."""
        results = self.body(self._args_at(step), self.values)
        self._stack([as_numpy(results[n])[np.newaxis] for n in self.stacked])
        self._carry(results)
        is_last = self.condition >= 0 and not as_numpy(results[self.condition]).item()
        return 1, not is_last

    def _run_native(self, step: int, max_steps: int) -> tuple[int, bool] | None:
        """Run iterations in the native runtime; None if the body calls back into Python."""
        call = self.body.native(self._args_at(step), self.values)
        if call is None:
            return None
        sources = [*self.sources, *[INVARIANT] * (len(call.args) - len(self.sources))]
        if any(sources[n] != INVARIANT for n in call.static):
            return None
        args = [*self.args, *call.args[len(self.args) :]]
        operands = [tensor_of(as_numpy(args[n])) for n in call.dynamic]
        operands += [tensor_of(as_numpy(extra)) for extra in call.extra]
        operand_sources = [sources[n] for n in call.dynamic]
        operand_sources += [INVARIANT] * len(call.extra)
        count, continues, results, *chunks = get_global_func("relax_mlir.repeat")(
            call.function,
            operands,
            operand_sources,
            step,
            max_steps,
            self.condition,
            list(self.stacked),
        )
        self._stack([array_of(chunk) for chunk in chunks])
        self._carry([NDArray(array_of(result)) for result in results])
        return int(count), bool(continues)

    def _args_at(self, step: int) -> list[Any]:
        args = []
        for arg, source in zip(self.args, self.sources, strict=True):
            if source == ITERATION:
                arg = NDArray(np.array(step, np.int64))
            elif source in (SCAN_FORWARD, SCAN_BACKWARD):
                whole = as_numpy(arg)
                arg = NDArray(
                    np.asarray(whole[step if source == SCAN_FORWARD else -1 - step])
                )
            args.append(arg)
        return args

    def _stack(self, new: Sequence[np.ndarray]) -> None:
        for chunks, array in zip(self.chunks, new, strict=True):
            if chunks and chunks[0].shape[1:] != array.shape[1:]:
                raise ValueError(
                    "a scan output has to have the same shape in all iterations: expected "
                    f"{chunks[0].shape[1:]}, got {array.shape[1:]}"
                )
            chunks.append(array)
            self._stacked_bytes += array.nbytes
        if 2 * self._stacked_bytes > memory_bytes():  # the concatenation is a copy
            raise OutOfMemoryError(
                f"out of memory: the scan outputs of a loop have {self._stacked_bytes} "
                "bytes so far"
            )

    def _carry(self, results: Sequence[Any]) -> None:
        """Pass loop-carried results to the next iteration."""
        self.args = [
            results[source] if source >= 0 else arg
            for arg, source in zip(self.args, self.sources, strict=True)
        ]
