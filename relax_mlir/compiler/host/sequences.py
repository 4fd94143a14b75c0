"""Host kernels of operators on sequences and optionals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import onnx
from onnx import helper

from relax_mlir.compiler.host.node_interpreter import HostNode
from relax_mlir.compiler.host.subgraph import JITSubgraph
from relax_mlir.errors import RunError
from relax_mlir.runtime.ndarray import NDArray, as_numpy

__all__ = ["RUNNERS"]

_MAX_CONCAT = 64  # operands per kernel, which bounds compile time
Values = Mapping[str, Any]


def construct(node: HostNode, values: Values) -> Sequence[Any]:
    """Source: ONNX SequenceConstruct-11."""
    return [[values[name] for name in node.inputs]]


def empty(node: HostNode, values: Values) -> Sequence[Any]:
    """Source: ONNX SequenceEmpty-11."""
    return [[]]


def insert(node: HostNode, values: Values) -> Sequence[Any]:
    """Source: ONNX SequenceInsert-11."""
    result = list(node.sequence(values, 0))
    position = node.scalar(values, 2)
    if position is None:
        position = len(result)
    result.insert(
        _normalized(node, position, len(result), is_end_valid=True),
        node.value(values, 1),
    )
    return [result]


def erase(node: HostNode, values: Values) -> Sequence[Any]:
    """Source: ONNX SequenceErase-11."""
    result = list(node.sequence(values, 0))
    position = node.scalar(values, 1)
    del result[-1 if position is None else _normalized(node, position, len(result))]
    return [result]


def at(node: HostNode, values: Values) -> Sequence[Any]:
    """Source: ONNX SequenceAt-11."""
    sequence = node.sequence(values, 0)
    return [sequence[_normalized(node, node.scalar(values, 1), len(sequence))]]


def length(node: HostNode, values: Values) -> Sequence[Any]:
    """Source: ONNX SequenceLength-11."""
    return [NDArray(np.array(len(node.sequence(values, 0)), np.int64))]


def _normalized(
    node: HostNode, position: int, count: int, *, is_end_valid: bool = False
) -> int:
    """A position in a sequence; negative ones count from the end."""
    last = count if is_end_valid else count - 1
    if not -count <= position <= last:
        raise RunError(f"{node}: position {position}: expected {-count} to {last}")
    return position if position >= 0 else position + count


def concatenate(node: HostNode, values: Values) -> Sequence[Any]:
    """Source: ONNX ConcatFromSequence-11."""
    parts = node.sequence(values, 0)
    axis = int(node.attrs["axis"])
    if not parts:
        raise RunError(f"{node}: expected a sequence of one tensor or more, got none")
    if not node.flag("new_axis", default=False):
        node.check_axis(axis, as_numpy(parts[0]).ndim)
        return [_concatenated(parts, axis)]
    arrays = list(map(as_numpy, parts))
    node.check_axis(axis, arrays[0].ndim + 1)
    return [NDArray(np.stack(arrays, axis))]


def _concatenated(parts: Sequence[Any], axis: int) -> Any:
    """Concatenate tensors along an axis, as a tree of kernels."""
    while len(parts) > 1:
        groups = [parts[n : n + _MAX_CONCAT] for n in range(0, len(parts), _MAX_CONCAT)]
        parts = [_concat(len(g), axis)(g) if len(g) > 1 else g[0] for g in groups]
    return parts[0]


def split(node: HostNode, values: Values) -> Sequence[Any]:
    """Source: ONNX SplitToSequence-24."""
    array = as_numpy(node.tensor(values, 0))
    axis = int(node.attrs.get("axis", 0))
    node.check_axis(axis, array.ndim)
    sizes = node.value(values, 1)
    moved = np.moveaxis(array, axis, 0)
    if sizes is None and not node.attrs.get("keepdims", 1):
        return [[_copied(part) for part in moved]]
    boundaries = _split_boundaries(
        node,
        as_numpy(node.tensor(values, 1)) if sizes is not None else None,
        len(moved),
    )
    pairs = pairwise(boundaries)
    return [[_copied(np.moveaxis(moved[a:b], 0, axis)) for a, b in pairs]]


def _split_boundaries(
    node: HostNode, sizes: np.ndarray | None, count: int
) -> list[int]:
    """Start of each part, and the end of the last."""
    if sizes is None:
        return list(range(count + 1))
    if sizes.ndim == 0:
        size = int(sizes)
        if size < 1:
            raise RunError(f"{node}: split: expected 1 or more, got {size}")
        return [*range(0, count, size), count]
    lengths = sizes.reshape(-1).tolist()
    if min(lengths, default=0) < 0 or sum(lengths) != count:
        got = f"{lengths}" if len(lengths) < 9 else f"{len(lengths)} sizes"
        raise RunError(
            f"{node}: split: expected non-negative sizes with sum {count}, got {got}"
        )
    return list(accumulate(lengths, initial=0))


def _copied(array: np.ndarray) -> NDArray:
    return NDArray(np.ascontiguousarray(array).reshape(array.shape))


@lru_cache(4 * _MAX_CONCAT)
def _concat(count: int, axis: int) -> JITSubgraph:
    """Concatenation of ``count`` tensors along an axis, JIT-compiled."""
    names = [f"x{n}" for n in range(count)]
    node = helper.make_node("Concat", names, ["y"], axis=axis)
    graph = onnx.GraphProto(name="Concat", node=[node])
    graph.input.extend(onnx.ValueInfoProto(name=name) for name in names)
    graph.output.add(name="y")
    opset = [helper.make_opsetid("", 21)]
    return JITSubgraph(onnx.ModelProto(ir_version=10, graph=graph, opset_import=opset))


def optional(node: HostNode, values: Values) -> Sequence[Any]:
    """Source: ONNX Optional-15."""
    if not any(node.inputs[:1]) and "type" not in node.attrs:
        raise RunError(f"{node}: expected an input, or the attribute `type`")
    return [node.value(values, 0)]


def element(node: HostNode, values: Values) -> Sequence[Any]:
    """Source: ONNX OptionalGetElement-18."""
    value = node.value(values, 0)
    if value is None:
        raise RunError(f"{node}: expected a value, got none")
    return [value]


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
