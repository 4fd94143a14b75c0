"""Sequences, and values that may be left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import onnx
from onnx import helper

from relax_mlir.errors import RunError
from relax_mlir.runtime.ndarray import NDArray, as_numpy
from relax_mlir.stages.host_node import HostNode
from relax_mlir.stages.stage import Stage

__all__ = ["RUNNERS"]

_MOST = 64  # tensors that are joined at once; programs of more take long to compile
Values = Mapping[str, Any]


def construct(node: HostNode, values: Values) -> Sequence[Any]:
    """Source: ONNX SequenceConstruct-11."""
    return [[values[name] for name in node.inputs]]


def empty(node: HostNode, values: Values) -> Sequence[Any]:
    """Source: ONNX SequenceEmpty-11."""
    return [[]]


def insert(node: HostNode, values: Values) -> Sequence[Any]:
    """Source: ONNX SequenceInsert-11."""
    made = list(node.sequence(values, 0))
    place = node.scalar(values, 2)
    number = len(made) if place is None else _place(node, place, len(made), 1)
    made.insert(number, node.value(values, 1))
    return [made]


def erase(node: HostNode, values: Values) -> Sequence[Any]:
    """Source: ONNX SequenceErase-11."""
    made = list(node.sequence(values, 0))
    place = node.scalar(values, 1)
    del made[-1 if place is None else _place(node, place, len(made))]
    return [made]


def at(node: HostNode, values: Values) -> Sequence[Any]:
    """Source: ONNX SequenceAt-11."""
    sequence = node.sequence(values, 0)
    return [sequence[_place(node, node.scalar(values, 1), len(sequence))]]


def length(node: HostNode, values: Values) -> Sequence[Any]:
    """Source: ONNX SequenceLength-11."""
    return [NDArray(np.array(len(node.sequence(values, 0)), np.int64))]


def _place(node: HostNode, place: int, count: int, behind: int = 0) -> int:
    """A place in a sequence, or behind it; negative ones count from the end."""
    last = count - 1 + behind
    if not -count <= place <= last:
        raise RunError(f"{node}: place {place}: expected {-count} to {last}")
    return place if place >= 0 else place + count


def concatenate(node: HostNode, values: Values) -> Sequence[Any]:
    """Source: ONNX ConcatFromSequence-11."""
    parts = node.sequence(values, 0)
    axis = int(node.attrs["axis"])
    if not parts:
        raise RunError(f"{node}: expected a sequence of one tensor or more, got none")
    if not node.flag("new_axis", default=False):
        node.check_axis(axis, as_numpy(parts[0]).ndim)
        return [_joined(parts, axis)]
    arrays = list(map(as_numpy, parts))
    node.check_axis(axis, arrays[0].ndim + 1)
    return [NDArray(np.stack(arrays, axis))]


def _joined(parts: Sequence[Any], axis: int) -> Any:
    """Tensors one after the other along an axis, some at a time."""
    while len(parts) > 1:
        groups = [parts[n : n + _MOST] for n in range(0, len(parts), _MOST)]
        parts = [_concat(len(g), axis)(g) if len(g) > 1 else g[0] for g in groups]
    return parts[0]


def split(node: HostNode, values: Values) -> Sequence[Any]:
    """Source: ONNX SplitToSequence-24."""
    array = as_numpy(node.tensor(values, 0))
    axis = int(node.attrs.get("axis", 0))
    node.check_axis(axis, array.ndim)
    sizes = node.value(values, 1)
    along = np.moveaxis(array, axis, 0)
    if sizes is None and not node.attrs.get("keepdims", 1):
        return [[_copied(part) for part in along]]
    stops = _stops(
        node,
        as_numpy(node.tensor(values, 1)) if sizes is not None else None,
        len(along),
    )
    pairs = pairwise(stops)
    return [[_copied(np.moveaxis(along[a:b], 0, axis)) for a, b in pairs]]


def _stops(node: HostNode, sizes: np.ndarray | None, count: int) -> list[int]:
    """Where parts of so many elements begin, and where the last one ends."""
    if sizes is None:
        return list(range(count + 1))
    if sizes.ndim == 0:
        size = int(sizes)
        if size < 1:
            raise RunError(f"{node}: split: expected 1 or more, got {size}")
        return [*range(0, count, size), count]
    given = sizes.reshape(-1).tolist()
    if min(given, default=0) < 0 or sum(given) != count:
        shown = f"{given}" if len(given) < 9 else f"{len(given)} sizes"
        raise RunError(
            f"{node}: split: expected sizes from 0 on that add up to {count}, got {shown}"
        )
    return list(accumulate(given, initial=0))


def _copied(array: np.ndarray) -> NDArray:
    return NDArray(np.ascontiguousarray(array).reshape(array.shape))


@lru_cache(4 * _MOST)
def _concat(count: int, axis: int) -> Stage:
    """Joins so many tensors along an axis."""
    names = [f"x{n}" for n in range(count)]
    node = helper.make_node("Concat", names, ["y"], axis=axis)
    graph = onnx.GraphProto(name="Concat", node=[node])
    graph.input.extend(onnx.ValueInfoProto(name=name) for name in names)
    graph.output.add(name="y")
    opset = [helper.make_opsetid("", 21)]
    return Stage(onnx.ModelProto(ir_version=10, graph=graph, opset_import=opset))


def optional(node: HostNode, values: Values) -> Sequence[Any]:
    """Source: ONNX Optional-15."""
    if not any(node.inputs[:1]) and "type" not in node.attrs:
        raise RunError(f"{node}: expected an input, or the attribute `type`")
    return [node.value(values, 0)]


def element(node: HostNode, values: Values) -> Sequence[Any]:
    """Source: ONNX OptionalGetElement-18."""
    found = node.value(values, 0)
    if found is None:
        raise RunError(f"{node}: expected a value, got none")
    return [found]


def has_element(node: HostNode, values: Values) -> Sequence[Any]:
    """Source: ONNX OptionalHasElement-18."""
    return [NDArray(np.array(node.value(values, 0) is not None))]


RUNNERS: Mapping[str, Callable[[HostNode, Values], Sequence[Any]]] = {
    "ConcatFromSequence": concatenate,
    "Optional": optional,
    "OptionalGetElement": element,
    "OptionalHasElement": has_element,
    "SequenceAt": at,
    "SequenceConstruct": construct,
    "SequenceEmpty": empty,
    "SequenceErase": erase,
    "SequenceInsert": insert,
    "SequenceLength": length,
    "SplitToSequence": split,
}
