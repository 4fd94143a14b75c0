"""What recurrent networks share: the types of their operands, the loop over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from mlir import ir

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.dtypes import dtype
from relax_mlir.dialects.relax.elementwise import require
from relax_mlir.dialects.relax.recurrent_program import block_width
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir.lanes import lanes_for

__all__ = ["check_shape", "repeat", "result_types", "unpacked"]


def result_types(
    gates: int,
    x: ir.RankedTensorType,
    r: ir.RankedTensorType,
    states: Sequence[ir.RankedTensorType],
    lengths: ir.RankedTensorType,
    direction: str,
) -> ir.TupleType:
    """The types of y and of the last states; see the operators for the shapes.

    Raises:
        ValueError: operands that do not fit.
    """
    type_ = require("f", x, r, *states)
    if type_.bits < 32:
        raise ValueError(f"expected float32 or float64, got {type_}")
    ranks = [len(tensors.shape_of(t)) for t in (x, r, *states, lengths)]
    if ranks != [4, 5, *[3] * len(states), 1]:
        raise ValueError(f"expected ranks 4, 5, 3 for each state and 1, got {ranks}")
    time, batch, directions, columns = tensors.shape_of(x)
    size = tensors.shape_of(states[0])[2]
    if not isinstance(size, int) or size < 1:
        raise ValueError(
            f"expected a known number of hidden units, at least 1, got `{size}`"
        )
    known = {"forward": 1, "reverse": 1, "bidirectional": 2}
    if direction not in known:
        raise ValueError(
            f"direction: expected one of {', '.join(known)}, got `{direction}`"
        )
    check_shape("x", (directions, columns), (known[direction], gates * size))
    width = block_width(size, lanes_for(type_))
    packed = (directions, gates, -(-size // width), size, width)
    check_shape("r", tensors.shape_of(r), packed)
    for state in states:
        check_shape("state", tensors.shape_of(state), (directions, batch, size))
    if tensors.dtype_of(lengths) != dtype("int32"):
        raise ValueError(f"lengths: expected int32, got {tensors.dtype_of(lengths)}")
    if tensors.shape_of(lengths) != (0,):
        check_shape("lengths", tensors.shape_of(lengths), (batch,))
    y = tensors.tensor_type((time, directions, batch, size), type_)
    return ir.TupleType.get_tuple([y, *states])


def check_shape(name: str, found: Sequence[Dim], expected: Sequence[Dim]) -> None:
    """Check the shape of an operand.

    Raises:
        ValueError: it is another one.
    """
    try:
        for ours, theirs in zip(found, expected, strict=True):
            shapes.unify(ours, theirs)
    except ValueError as error:
        raise ValueError(
            f"{name}: expected {shapes.format_shape(expected)}, got "
            f"{shapes.format_shape(found)}"
        ) from error


def unpacked(r: np.ndarray, size: int) -> np.ndarray:
    """Weights as they are multiplied with: [d, h, gates h]."""
    directions, gates = r.shape[:2]
    columns = r.transpose(0, 3, 1, 2, 4).reshape(directions, size, gates, -1)
    return columns[..., :size].reshape(directions, size, gates * size)


def repeat(
    x: np.ndarray,
    states: Sequence[np.ndarray],
    lengths: np.ndarray,
    direction: str,
    step: Callable[[int, np.ndarray, list[np.ndarray]], Sequence[np.ndarray]],
) -> list[np.ndarray]:
    """y and the last states, by numpy.

    Args:
        step: gets the direction, an element of x, and the states before it; returns
            those after it, of which the first is an element of y.
    """
    time, batch, directions, _ = x.shape
    y = np.zeros((time, directions, batch, states[0].shape[2]), x.dtype)
    states = [state.copy() for state in states]
    for k, n in np.ndindex(directions, batch):
        length = int(lengths[n].clip(0, time)) if len(lengths) else time
        is_backward = k == 1 or direction == "reverse"
        for place in range(length)[:: -1 if is_backward else 1]:
            after = step(k, x[place, n, k], [state[k, n] for state in states])
            for state, new in zip(states, after, strict=True):
                state[k, n] = new
            y[place, k, n] = after[0]
    return [y, *states]
