"""Rules for padding; negative pads crop first."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from mlir import ir

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.op_interface import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.arithmetic import AddOp, SubtractOp
from relax_mlir.dialects.relax.padding import PadOp, pad_widths
from relax_mlir.dialects.relax.slicing import optional_constant, optional_constant_ints
from relax_mlir.dialects.shapes import Dim
from relax_mlir.frontends.onnx.slicing import crop

# ONNX modes to Relax modes.
_MODES = {
    "constant": "constant",
    "reflect": "reflect",
    "edge": "replicate",
    "wrap": "circular",
}


@onnx_rule("Pad", since=2)
def pad_attribute(node: OnnxNode) -> ir.Value:
    """Padding by widths that are an attribute.

    Source: ONNX Pad-2.
    """
    return _padded(node, node.attr("pads"), node.attr("value", 0.0))


@onnx_rule("Pad", since=11)
def pad(node: OnnxNode) -> ir.Value:
    """Padding by widths that are an input.

    Source: ONNX Pad-19.
    """
    rank = len(tensors.shape_of(node.input(0)))
    given = node.dims(1)
    axes = optional_constant_ints(node, 3)
    axes = list(range(rank)) if axes is None else shapes.normalize_axes(axes, rank)
    if len(given) != 2 * len(axes):
        raise ValueError(
            f"wrong number of pads: expected {2 * len(axes)}, got {len(given)}"
        )
    pads: list[Dim] = [0] * (2 * rank)
    for position, axis in enumerate(axes):
        pads[axis], pads[rank + axis] = given[position], given[len(axes) + position]
    value = optional_constant(node, 2)
    if value is None:
        return _padded(node, pads, 0.0)
    if value.size != 1:
        raise ValueError(f"input 2: expected one number, got {value.size}")
    number = value[0]
    if value.dtype.kind not in "iu" or int(float(number)) == int(number):
        return _padded(node, pads, float(number))
    return _padded_exactly(node, pads, number)


def _padded_exactly(node: OnnxNode, pads: Sequence[Dim], value: np.integer) -> ir.Value:
    """Padding by an integer that is not exact in float64, the type of the attribute.

    Pads x - value by 0, and adds the value; overflow in the difference wraps back.
    """
    shift = node.constant(np.array(value))
    x = SubtractOp(node.input(0), shift).z
    return AddOp(_padded(replace(node, inputs=[x]), pads, 0.0), shift).z


def _padded(node: OnnxNode, pads: Sequence[Dim], value: float) -> ir.Value:
    """Padding of an input; modes that copy elements copy from the cropped tensor."""
    x, mode = node.input(0), node.attr("mode", "constant")
    if mode not in _MODES:
        raise ValueError(f"bad mode: expected {', '.join(_MODES)}, got `{mode}`")
    if mode != "constant" and not all(shapes.is_known_le(0, pad) for pad in pads):
        x = crop(x, [shapes.minimum(pad, 0) for pad in pads])
        pads = [shapes.maximum(pad, 0) for pad in pads]
    widths = pad_widths(pads)
    return PadOp(x, pad_width=widths, pad_mode=_MODES[mode], pad_value=value).y
