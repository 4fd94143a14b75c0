"""Sequences, and values that may be left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import onnx
from onnx import helper

from relax_mlir.errors import RunError
from relax_mlir.runtime.ndarray import NDArray, as_numpy
from relax_mlir.stages.host_node import HostNode
from relax_mlir.stages.stage import Stage

__all__ = ["RUNNERS"]

Values = Mapping[str, Any]


def construct(node: HostNode, values: Values) -> Sequence[Any]:
    """Source: ONNX SequenceConstruct-11."""
    return [[values[name] for name in node.inputs]]


def empty(node: HostNode, values: Values) -> Sequence[Any]:
    """Source: ONNX SequenceEmpty-11."""
    return [[]]


def insert(node: HostNode, values: Values) -> Sequence[Any]:
    """Source: ONNX SequenceInsert-11."""
    made = list(node.value(values, 0))
    place = node.value(values, 2)
    number = len(made) if place is None else _place(node, place, len(made), 1)
    made.insert(number, node.value(values, 1))
    return [made]


def erase(node: HostNode, values: Values) -> Sequence[Any]:
    """Source: ONNX SequenceErase-11."""
    made = list(node.value(values, 0))
    place = node.value(values, 1)
    del made[-1 if place is None else _place(node, place, len(made))]
    return [made]


def at(node: HostNode, values: Values) -> Sequence[Any]:
    """Source: ONNX SequenceAt-11."""
    sequence = node.value(values, 0)
    return [sequence[_place(node, node.value(values, 1), len(sequence))]]


def length(node: HostNode, values: Values) -> Sequence[Any]:
    """Source: ONNX SequenceLength-11."""
    return [NDArray(np.array(len(node.value(values, 0)), np.int64))]


def _place(node: HostNode, value: NDArray, count: int, behind: int = 0) -> int:
    """A place in a sequence, or behind it; negative ones count from the end."""
    place = int(as_numpy(value).item())
    last = count - 1 + behind
    if not -count <= place <= last:
        raise RunError(f"{node}: place {place}: expected {-count} to {last}")
    return place if place >= 0 else place + count


def concatenate(node: HostNode, values: Values) -> Sequence[Any]:
    """Source: ONNX ConcatFromSequence-11."""
    parts = node.value(values, 0)
    axis = int(node.attrs["axis"])
    if not node.attrs.get("new_axis", 0):
        return [_compiled("Concat", len(parts), axis=axis)(parts)]
    return [NDArray(np.stack(list(map(as_numpy, parts)), axis))]


def split(node: HostNode, values: Values) -> Sequence[Any]:
    """Source: ONNX SplitToSequence-24."""
    source, sizes = node.value(values, 0), node.value(values, 1)
    array = as_numpy(source)
    axis = int(node.attrs.get("axis", 0)) % array.ndim
    count = array.shape[axis]
    if sizes is None:
        stops = list(range(count + 1))
    elif as_numpy(sizes).ndim == 0:
        stops = [*range(0, count, int(as_numpy(sizes))), count]
    else:
        stops = [0, *np.cumsum(as_numpy(sizes)).tolist()]
    along = np.moveaxis(array, axis, 0)
    if sizes is None and not node.attrs.get("keepdims", 1):
        return [[_copied(part) for part in along]]
    pairs = pairwise(stops)
    return [[_copied(np.moveaxis(along[a:b], 0, axis)) for a, b in pairs]]


def _copied(array: np.ndarray) -> NDArray:
    return NDArray(np.ascontiguousarray(array).reshape(array.shape))


def _compiled(operator: str, count: int, **attrs: Any) -> Stage:
    """An operator on so many tensors."""
    names = [f"x{n}" for n in range(count)]
    node = helper.make_node(operator, names, ["y"], **attrs)
    graph = onnx.GraphProto(name=operator, node=[node])
    graph.input.extend(onnx.ValueInfoProto(name=name) for name in names)
    graph.output.add(name="y")
    opset = [helper.make_opsetid("", 21)]
    return Stage(onnx.ModelProto(ir_version=10, graph=graph, opset_import=opset))


def optional(node: HostNode, values: Values) -> Sequence[Any]:
    """Source: ONNX Optional-15, OptionalGetElement-18."""
    return [node.value(values, 0)]


def has_element(node: HostNode, values: Values) -> Sequence[Any]:
    """Source: ONNX OptionalHasElement-18."""
    return [NDArray(np.array(node.value(values, 0) is not None))]


RUNNERS: Mapping[str, Callable[[HostNode, Values], Sequence[Any]]] = {
    "ConcatFromSequence": concatenate,
    "Optional": optional,
    "OptionalGetElement": optional,
    "OptionalHasElement": has_element,
    "SequenceAt": at,
    "SequenceConstruct": construct,
    "SequenceEmpty": empty,
    "SequenceErase": erase,
    "SequenceInsert": insert,
    "SequenceLength": length,
    "SplitToSequence": split,
}
