"""Graphs that are repeated: Loop and Scan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import helper

from relax_mlir.errors import RunError
from relax_mlir.runtime.ndarray import NDArray, as_numpy
from relax_mlir.stages.host_node import Body, HostNode
from relax_mlir.stages.repetition import BACKWARD, FORWARD, NUMBER, Repetition

__all__ = ["RUNNERS"]

_MOST_STEPS = 1 << 32  # of a loop that cannot end before; they take an hour or more


def loop(node: HostNode, values: Mapping[str, Any]) -> Sequence[Any]:
    """Repeat a graph a number of times, or while a condition holds.

    Source: ONNX Loop-25.
    """
    limit, condition = node.scalar(values, 0), node.scalar(values, 1)
    states = [values.get(name) for name in node.inputs[2:]]
    body = node.bodies["body"]
    node.check_body(body, 2 + len(states), 1 + len(states))
    goes_on = condition is None or bool(condition)
    if goes_on and body.passes_on(0, 1) and (limit is None or limit > _MOST_STEPS):
        raise RunError(
            f"{node}: nothing ends it: expected {_MOST_STEPS} steps at most where the "
            f"condition stays as it is, got {'no number' if limit is None else limit}"
        )
    own = range(1, 1 + len(states))
    args = [NDArray(np.array(0, np.int64)), NDArray(np.array(True)), *states]
    node.check_elements(body, args)
    gathered = range(1 + len(states), len(body.outputs))
    repetition = Repetition(body, values, args, [NUMBER, 0, *own], gathered, 0)
    repetition.run(limit if goes_on else 0)
    empty = _EmptyResults(node, body, args)
    joined = [
        _joined(part, 0) if part else empty.result(number, 0)
        for part, number in zip(repetition.parts, gathered, strict=True)
    ]
    return [*repetition.args[2:], *joined]


def scan(node: HostNode, values: Mapping[str, Any]) -> Sequence[Any]:
    """Repeat a graph for every element along an axis.

    Source: ONNX Scan-9.
    """
    if node.opset < 9:
        return _scan_batch(node, values)
    given = [values[name] for name in node.inputs]
    return _scan(node, values, given, node.attrs)


def _scan(
    node: HostNode,
    values: Mapping[str, Any],
    given: Sequence[Any],
    attrs: Mapping[str, Any],
) -> list[Any]:
    body, scanned = node.bodies["body"], int(attrs["num_scan_inputs"])
    if not 1 <= scanned <= len(given):
        raise RunError(
            f"{node}: num_scan_inputs: expected 1 to {len(given)}, got {scanned}"
        )
    states, sources = list(given[:-scanned]), given[-scanned:]
    node.check_body(body, len(given), len(states))
    node.check_elements(body, given)
    gathered = range(len(states), len(body.outputs))
    axes = attrs.get("scan_input_axes", [0] * scanned)
    backward = attrs.get("scan_input_directions", [0] * scanned)
    _check_count(node, "scan_input_axes", axes, scanned)
    _check_count(node, "scan_input_directions", backward, scanned)
    for source, axis in zip(sources, axes, strict=True):
        node.check_axis(axis, as_numpy(source).ndim)
    slices = [
        np.ascontiguousarray(np.moveaxis(as_numpy(source), axis, 0))
        for source, axis in zip(sources, axes, strict=True)
    ]
    for name in ("scan_input_directions", "scan_output_directions"):
        if set(attrs.get(name, ())) - {0, 1}:
            raise RunError(f"{node}: {name}: expected 0 or 1, got {attrs[name]}")
    lengths = {len(array) for array in slices}
    if len(lengths) != 1:
        raise ValueError(
            f"{node}: expected inputs of one length, got {sorted(lengths)}"
        )
    out_axes = attrs.get("scan_output_axes", [0] * len(gathered))
    out_backward = attrs.get("scan_output_directions", [0] * len(gathered))
    _check_count(node, "scan_output_axes", out_axes, len(gathered))
    _check_count(node, "scan_output_directions", out_backward, len(gathered))
    repetition = Repetition(
        body,
        values,
        [*states, *map(NDArray, slices)],
        [*range(len(states)), *(BACKWARD if b else FORWARD for b in backward)],
        gathered,
    )
    repetition.run(lengths.pop())
    for part, axis in zip(repetition.parts, out_axes, strict=True):
        if part:
            node.check_axis(axis, part[0].ndim)
    made = zip(repetition.parts, out_axes, out_backward, gathered, strict=True)
    empty = _EmptyResults(node, body, states)
    joined = [
        _joined(part, axis, is_backward=bool(is_backward))
        if part
        else empty.result(number, axis)
        for part, axis, is_backward, number in made
    ]
    return [*repetition.args[: len(states)], *joined]


def _check_count(
    node: HostNode, attribute: str, given: Sequence[int], count: int
) -> None:
    """Check that an attribute says something of each input or output."""
    if len(given) != count:
        raise RunError(
            f"{node}: {attribute}: expected {count} numbers, got {len(given)}"
        )


def _scan_batch(node: HostNode, values: Mapping[str, Any]) -> list[Any]:
    """Every element of a batch by itself.

    Source: ONNX Scan-8.
    """
    _, *names = node.inputs
    lengths = node.value(values, 0)
    given = [as_numpy(values[name]) for name in names]
    attrs = dict(node.attrs)
    backward = attrs.pop("directions", None)
    if backward is not None:
        attrs["scan_input_directions"] = backward
    count = int(attrs["num_scan_inputs"])
    results: list[list[Any]] = []
    for number in range(len(given[0])):
        own = [array[number] for array in given]
        if lengths is not None:
            length = int(as_numpy(lengths)[number])
            own[-count:] = [array[:length] for array in own[-count:]]
        results.append(_scan(node, values, list(map(NDArray, own)), attrs))
    return [
        _padded([as_numpy(part) for part in parts])
        for parts in zip(*results, strict=True)
    ]


def _padded(parts: Sequence[np.ndarray]) -> NDArray:
    """Arrays next to each other; zeros follow what is shorter."""
    shape = [max(sizes) for sizes in zip(*(part.shape for part in parts), strict=True)]
    whole = np.zeros((len(parts), *shape), parts[0].dtype)
    for target, part in zip(whole, parts, strict=True):
        target[tuple(map(slice, part.shape))] = part
    return NDArray(whole)


def _joined(
    parts: Sequence[np.ndarray], axis: int, *, is_backward: bool = False
) -> NDArray:
    """Results of all steps along a new axis, from parts along a first one."""
    whole = np.concatenate(parts) if len(parts) > 1 else parts[0]
    whole = np.moveaxis(whole[:: -1 if is_backward else 1], 0, axis)
    return NDArray(np.ascontiguousarray(whole).reshape(whole.shape))


@dataclass(frozen=True)
class _EmptyResults:
    """The results of no step of a graph.

    Attributes:
        node: the node; body: its graph.
        args: what the graph would take first.
    """

    node: HostNode
    body: Body
    args: Sequence[Any]

    def result(self, number: int, axis: int) -> NDArray:
        """Result ``number``, of no elements along a new axis.

        Raises:
            RunError: nothing tells the type of an element.
        """
        tensor = self.body.result_types(self.args)[number].tensor_type
        if not tensor.elem_type:
            raise RunError(
                f"{self.node}: output `{self.body.outputs[number].name}` of its graph: "
                "expected a type where no step is taken, got none"
            )
        sizes = [dim.dim_value for dim in tensor.shape.dim]
        sizes.insert(axis if axis >= 0 else axis + len(sizes) + 1, 0)
        dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        return NDArray(np.empty(sizes, dtype))


def sequence_map(node: HostNode, values: Mapping[str, Any]) -> Sequence[Any]:
    """Apply a graph to every element of sequences; other inputs stay the same.

    Source: ONNX SequenceMap-17.
    """
    body = node.bodies["body"]
    given = [node.sequence(values, 0), *(values[name] for name in node.inputs[1:])]
    node.check_body(body, len(given), 1)
    lengths = {len(part) for part in given if isinstance(part, list)}
    if len(lengths) != 1:
        raise RunError(
            f"{node}: expected sequences of one length, got {sorted(lengths)}"
        )
    made: list[list[Any]] = [[] for _ in body.outputs]
    for number in range(lengths.pop()):
        own = [part[number] if isinstance(part, list) else part for part in given]
        node.check_elements(body, own)
        for part, result in zip(made, body(own, values), strict=True):
            part.append(result)
    return made


RUNNERS: Mapping[str, Callable[[HostNode, Mapping[str, Any]], Sequence[Any]]] = {
    "Loop": loop,
    "Scan": scan,
    "SequenceMap": sequence_map,
}
