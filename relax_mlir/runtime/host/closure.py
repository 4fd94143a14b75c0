"""Closures of host functions, and the interpreter loop over their steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from relax_mlir.errors import RunError

__all__ = ["Closure", "Entry", "Frame", "LinkedBlock", "Step"]

Frame = list[Any]  # Any: values of the program
"""The registers of a call."""

_MAX_CALLS = 20_000  # nested calls and branches; each takes less than a kilobyte


class LinkedBlock:
    """A linked block.

    Attributes:
        steps: linked instructions, run in order on a frame.
        result: the register that the block yields.
        is_flat: whether no step enters another block.
    """

    __slots__ = ("is_flat", "result", "steps")

    def __init__(self, steps: Sequence[Step], result: int, is_flat: bool) -> None:
        self.steps, self.result, self.is_flat = steps, result, is_flat


Entry = tuple[LinkedBlock, Frame, int]
"""A block to run before the next step, its frame, and the register for its result."""

Step = Callable[[Frame], "Entry | None"]
"""A linked instruction: operates on a frame, and may request to enter a block."""


class Closure:
    """A host function with captured values.

    Attributes:
        name: for errors.
        code: the body.
        param_count: number of arguments.
        rest: initial values of the registers after the arguments.
    """

    __slots__ = ("code", "name", "param_count", "rest")

    def __init__(
        self, name: str, param_count: int, code: LinkedBlock, rest: Sequence[Any]
    ) -> None:
        self.name, self.param_count = name, param_count
        self.code, self.rest = code, rest

    def frame(self, args: Sequence[Any]) -> Frame:
        """The initial registers of a call.

        Raises:
            TypeError: the number of arguments is wrong.
        """
        if len(args) != self.param_count:
            raise TypeError(
                f"`{self.name}`: expected {self.param_count} arguments, got {len(args)}"
            )
        return [*args, *self.rest]

    def __call__(self, *args: Any) -> Any:
        frame, code = self.frame(args), self.code
        if not code.is_flat:
            return _run(code, frame, self.name)
        for step in code.steps:
            step(frame)
        return frame[code.result]


def _run(code: LinkedBlock, frame: Frame, name: str) -> Any:
    """Run a block, and the blocks that it enters, on an explicit stack.

    Raises:
        RunError: the stack is too deep.
    """
    callers: list[tuple[Iterator[Step], Frame, int, int]] = []
    steps, result = iter(code.steps), code.result
    while True:
        for step in steps:
            entry = step(frame)
            if entry is not None:
                code, inner, target = entry
                callers.append((steps, frame, result, target))
                if len(callers) > _MAX_CALLS:
                    raise RunError(
                        f"`{name}`: expected at most {_MAX_CALLS} nested calls and "
                        "branches, got more. Hint: check for unbounded recursion."
                    )
                steps, frame, result = iter(code.steps), inner, code.result
                break
        else:
            value = frame[result]
            if not callers:
                return value
            steps, frame, result, target = callers.pop()
            frame[target] = value
