"""Host kernels of control flow with a body graph: Loop, Scan and SequenceMap."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import helper

from relax_mlir.compiler.host.loop_executor import (
    ITERATION,
    SCAN_BACKWARD,
    SCAN_FORWARD,
    LoopExecutor,
)
from relax_mlir.compiler.host.node_interpreter import Body, HostNode
from relax_mlir.errors import RunError
from relax_mlir.runtime.ndarray import NDArray, as_numpy

__all__ = ["RUNNERS"]

_MAX_STEPS = 1 << 32  # of a loop with a constant condition; they take an hour or more


def loop(node: HostNode, values: Mapping[str, Any]) -> Sequence[Any]:
    """Run a body graph a number of times, or while a condition holds.

    Source: ONNX Loop-25.
    """
    limit, condition = node.scalar(values, 0), node.scalar(values, 1)
    states = [values.get(name) for name in node.inputs[2:]]
    body = node.bodies["body"]
    node.check_body(body, 2 + len(states), 1 + len(states))
    starts = condition is None or bool(condition)
    if starts and body.forwards(0, 1) and (limit is None or limit > _MAX_STEPS):
        raise RunError(
            f"{node}: infinite loop: expected at most {_MAX_STEPS} iterations with a "
            f"constant condition, got {'no limit' if limit is None else limit}"
        )
    carried = range(1, 1 + len(states))
    args = [NDArray(np.array(0, np.int64)), NDArray(np.array(True)), *states]
    node.check_element_types(body, args)
    stacked = range(1 + len(states), len(body.outputs))
    executor = LoopExecutor(body, values, args, [ITERATION, 0, *carried], stacked, 0)
    executor.run(limit if starts else 0)
    empty = _EmptyResults(node, body, args)
    scan_outputs = [
        _concatenated(chunks, 0) if chunks else empty.result(index, 0)
        for chunks, index in zip(executor.chunks, stacked, strict=True)
    ]
    return [*executor.args[2:], *scan_outputs]


def scan(node: HostNode, values: Mapping[str, Any]) -> Sequence[Any]:
    """Run a body graph for every slice along an axis.

    Source: ONNX Scan-9.
    """
    if node.opset < 9:
        return _scan_batch(node, values)
    inputs = [values[name] for name in node.inputs]
    return _scan(node, values, inputs, node.attrs)


def _scan(
    node: HostNode,
    values: Mapping[str, Any],
    inputs: Sequence[Any],
    attrs: Mapping[str, Any],
) -> list[Any]:
    body, scanned = node.bodies["body"], int(attrs["num_scan_inputs"])
    if not 1 <= scanned <= len(inputs):
        raise RunError(
            f"{node}: num_scan_inputs: expected 1 to {len(inputs)}, got {scanned}"
        )
    states, sources = list(inputs[:-scanned]), inputs[-scanned:]
    node.check_body(body, len(inputs), len(states))
    node.check_element_types(body, inputs)
    stacked = range(len(states), len(body.outputs))
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
            f"{node}: expected scan inputs of equal length, got {sorted(lengths)}"
        )
    out_axes = attrs.get("scan_output_axes", [0] * len(stacked))
    out_backward = attrs.get("scan_output_directions", [0] * len(stacked))
    _check_count(node, "scan_output_axes", out_axes, len(stacked))
    _check_count(node, "scan_output_directions", out_backward, len(stacked))
    executor = LoopExecutor(
        body,
        values,
        [*states, *map(NDArray, slices)],
        [
            *range(len(states)),
            *(SCAN_BACKWARD if b else SCAN_FORWARD for b in backward),
        ],
        stacked,
    )
    executor.run(lengths.pop())
    for chunks, axis in zip(executor.chunks, out_axes, strict=True):
        if chunks:
            node.check_axis(axis, chunks[0].ndim)
    outputs = zip(executor.chunks, out_axes, out_backward, stacked, strict=True)
    empty = _EmptyResults(node, body, states)
    scan_outputs = [
        _concatenated(chunks, axis, is_backward=bool(is_backward))
        if chunks
        else empty.result(index, axis)
        for chunks, axis, is_backward, index in outputs
    ]
    return [*executor.args[: len(states)], *scan_outputs]


def _check_count(
    node: HostNode, attribute: str, numbers: Sequence[int], count: int
) -> None:
    """Check the length of an attribute with a number per input or output."""
    if len(numbers) != count:
        raise RunError(
            f"{node}: {attribute}: expected {count} numbers, got {len(numbers)}"
        )


def _scan_batch(node: HostNode, values: Mapping[str, Any]) -> list[Any]:
    """Scan of opset 8: every element of a batch is scanned separately.

    Source: ONNX Scan-8.
    """
    _, *names = node.inputs
    lengths = node.value(values, 0)
    inputs = [as_numpy(values[name]) for name in names]
    attrs = dict(node.attrs)
    backward = attrs.pop("directions", None)
    if backward is not None:
        attrs["scan_input_directions"] = backward
    count = int(attrs["num_scan_inputs"])
    results: list[list[Any]] = []
    for number in range(len(inputs[0])):
        own = [array[number] for array in inputs]
        if lengths is not None:
            length = int(as_numpy(lengths)[number])
            own[-count:] = [array[:length] for array in own[-count:]]
        results.append(_scan(node, values, list(map(NDArray, own)), attrs))
    return [
        _padded([as_numpy(part) for part in parts])
        for parts in zip(*results, strict=True)
    ]


def _padded(parts: Sequence[np.ndarray]) -> NDArray:
    """Stacks arrays along a new first axis, padded with zeros to a common shape."""
    shape = [max(sizes) for sizes in zip(*(part.shape for part in parts), strict=True)]
    stacked = np.zeros((len(parts), *shape), parts[0].dtype)
    for target, part in zip(stacked, parts, strict=True):
        target[tuple(map(slice, part.shape))] = part
    return NDArray(stacked)


def _concatenated(
    chunks: Sequence[np.ndarray], axis: int, *, is_backward: bool = False
) -> NDArray:
    """Concatenates the results of all iterations, and moves the first axis to ``axis``."""
    whole = np.concatenate(chunks) if len(chunks) > 1 else chunks[0]
    whole = np.moveaxis(whole[:: -1 if is_backward else 1], 0, axis)
    return NDArray(np.ascontiguousarray(whole).reshape(whole.shape))


@dataclass(frozen=True)
class _EmptyResults:
    """Scan outputs of a loop without iterations.

    Attributes:
        node: the node; body: its graph.
        args: arguments that the first iteration would have.
    """

    node: HostNode
    body: Body
    args: Sequence[Any]

    def result(self, number: int, axis: int) -> NDArray:
        """Result ``number``, with size 0 along a new axis.

        Raises:
            RunError: its element type is unknown.
        """
        tensor = self.body.result_types(self.args)[number].tensor_type
        if not tensor.elem_type:
            raise RunError(
                f"{self.node}: output `{self.body.outputs[number].name}` of its graph: "
                "expected a type, since the loop has no iterations, got none"
            )
        sizes = [dim.dim_value for dim in tensor.shape.dim]
        sizes.insert(axis if axis >= 0 else axis + len(sizes) + 1, 0)
        dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        return NDArray(np.empty(sizes, dtype))


def sequence_map(node: HostNode, values: Mapping[str, Any]) -> Sequence[Any]:
    """Apply a graph to every element of sequences; other inputs are loop invariants.

    Source: ONNX SequenceMap-17.
    """
    body = node.bodies["body"]
    inputs = [node.sequence(values, 0), *(values[name] for name in node.inputs[1:])]
    node.check_body(body, len(inputs), 1)
    lengths = {len(part) for part in inputs if isinstance(part, list)}
    if len(lengths) != 1:
        raise RunError(
            f"{node}: expected sequences of equal length, got {sorted(lengths)}"
        )
    outputs: list[list[Any]] = [[] for _ in body.outputs]
    for number in range(lengths.pop()):
        args = [part[number] if isinstance(part, list) else part for part in inputs]
        node.check_element_types(body, args)
        for output, result in zip(outputs, body(args, values), strict=True):
            output.append(result)
    return outputs


RUNNERS: Mapping[str, Callable[[HostNode, Mapping[str, Any]], Sequence[Any]]] = {
    "Loop": loop,
    "Scan": scan,
    "SequenceMap": sequence_map,
}
