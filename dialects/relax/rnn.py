"""Shape inference and numpy reference shared by the recurrent networks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from mlir import ir

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.dtypes import dtype
from relax_mlir.dialects.relax.elementwise import require_element_type
from relax_mlir.dialects.relax.rnn_program import panel_width
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir.vectors import vector_lanes

__all__ = ["check_operand_shape", "rnn_reference", "rnn_result_types", "unpack_weights"]


def rnn_result_types(
    gates: int,
    x: ir.RankedTensorType,
    r: ir.RankedTensorType,
    states: Sequence[ir.RankedTensorType],
    lengths: ir.RankedTensorType,
    direction: str,
) -> ir.TupleType:
    """The types of y and of the final states; see the operators for the shapes.

    Raises:
        ValueError: the types of the operands are invalid.
    """
    type_ = require_element_type("f", x, r, *states)
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
    check_operand_shape("x", (directions, columns), (known[direction], gates * size))
    width = panel_width(size, vector_lanes(type_))
    packed = (directions, gates, -(-size // width), size, width)
    check_operand_shape("r", tensors.shape_of(r), packed)
    for state in states:
        check_operand_shape("state", tensors.shape_of(state), (directions, batch, size))
    if tensors.dtype_of(lengths) != dtype("int32"):
        raise ValueError(f"lengths: expected int32, got {tensors.dtype_of(lengths)}")
    if tensors.shape_of(lengths) != (0,):
        check_operand_shape("lengths", tensors.shape_of(lengths), (batch,))
    y = tensors.tensor_type((time, directions, batch, size), type_)
    return ir.TupleType.get_tuple([y, *states])


def check_operand_shape(
    name: str, found: Sequence[Dim], expected: Sequence[Dim]
) -> None:
    """Checks the shape of an operand.

    Raises:
        ValueError: the shape differs from the expected one.
    """
    try:
        for actual, wanted in zip(found, expected, strict=True):
            shapes.unify(actual, wanted)
    except ValueError as error:
        raise ValueError(
            f"{name}: expected {shapes.format_shape(expected)}, got "
            f"{shapes.format_shape(found)}"
        ) from error


def unpack_weights(r: np.ndarray, size: int) -> np.ndarray:
    """Unpacks the recurrent weights from panels to [directions, h, gates * h]."""
    directions, gates = r.shape[:2]
    columns = r.transpose(0, 3, 1, 2, 4).reshape(directions, size, gates, -1)
    return columns[..., :size].reshape(directions, size, gates * size)


def rnn_reference(
    x: np.ndarray,
    states: Sequence[np.ndarray],
    lengths: np.ndarray,
    direction: str,
    step: Callable[[int, np.ndarray, list[np.ndarray]], Sequence[np.ndarray]],
) -> list[np.ndarray]:
    """The numpy reference of a recurrent network: y and the final states.

    Args:
        x: the input contributions to the gates, [time, batch, directions, columns].
        states: the initial states, [directions, batch, h] each.
        lengths: the length of every sequence, or empty for the whole time.
        direction: ``forward``, ``reverse`` or ``bidirectional``.
        step: the cell: takes the direction, an element of x and the previous states;
            returns the next states, the first of which is an element of y.
    """
    time, batch, directions, _ = x.shape
    y = np.zeros((time, directions, batch, states[0].shape[2]), x.dtype)
    states = [state.copy() for state in states]
    for k, n in np.ndindex(directions, batch):
        length = int(lengths[n].clip(0, time)) if len(lengths) else time
        is_backward = k == 1 or direction == "reverse"
        for t in range(length)[:: -1 if is_backward else 1]:
            following = step(k, x[t, n, k], [state[k, n] for state in states])
            for state, new in zip(states, following, strict=True):
                state[k, n] = new
            y[t, k, n] = following[0]
    return [y, *states]
