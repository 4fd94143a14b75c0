"""Rule for MelWeightMatrix."""

import math

import numpy as np
from mlir import ir

from relax_mlir.dialects import dtypes, shapes
from relax_mlir.dialects.op_interface import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.arithmetic import (
    AddOp,
    DivideOp,
    FloorDivideOp,
    MaximumOp,
    MultiplyOp,
    SubtractOp,
)
from relax_mlir.dialects.relax.bitwise import LogicalAndOp
from relax_mlir.dialects.relax.cast import AstypeOp, onnx_type
from relax_mlir.dialects.relax.compare import EqualOp, GreaterOp, LessOp, WhereOp
from relax_mlir.dialects.relax.core import ShapeToTensorOp
from relax_mlir.dialects.relax.creation import ArangeOp
from relax_mlir.dialects.relax.exp_log import ExpOp, LogOp
from relax_mlir.dialects.relax.manipulate import ReshapeOp
from relax_mlir.frontends.onnx.slicing import crop

_F64, _INT64 = dtypes.dtype("float64"), dtypes.dtype("int64")


@onnx_rule("MelWeightMatrix", since=17)
def mel_weight_matrix(node: OnnxNode) -> ir.Value:
    """Mel filter bank: triangular filters, equally spaced on the mel scale.

    Source: ONNX MelWeightMatrix-17.
    """
    bands, length = node.dim(0), node.dim(1)
    rate, *edges = (_wide_scalar(node.input(i)) for i in range(2, 5))
    low, high = (_mel(node, edge) for edge in edges)
    number = AstypeOp(ArangeOp(start=0, end=bands + 2, dtype=_INT64).y, dtype=_F64).y
    count = AstypeOp(ShapeToTensorOp(dims=(bands + 2,)).y, dtype=_F64).y
    step = DivideOp(SubtractOp(high, low).z, count).z
    hertz = _hertz(node, AddOp(MultiplyOp(number, step).z, low).z)
    bins = AstypeOp(ShapeToTensorOp(dims=(length + 1,)).y, dtype=_F64).y
    corners = FloorDivideOp(MultiplyOp(bins, hertz).z, rate).z
    left, top, right = (_edge(corners, i) for i in range(3))
    half = shapes.floordiv(length, 2) + 1
    indices = AstypeOp(ArangeOp(start=0, end=half, dtype=_INT64).y, dtype=_F64).y
    column = ReshapeOp(indices, shape=(half, 1)).y
    falling = _ramp(node, SubtractOp(right, column).z, SubtractOp(right, top).z)
    rising = _ramp(node, SubtractOp(column, left).z, SubtractOp(top, left).z)
    weights = WhereOp(LessOp(column, top).z, rising, falling).z
    peak = WhereOp(EqualOp(column, top).z, _number(node, 1.0), weights).z
    return AstypeOp(peak, dtype=onnx_type(node.attr("output_datatype", 1))).y


def _edge(x: ir.Value, begin: int) -> ir.Value:
    """Elements ``begin`` to ``begin + n - 2`` of n: one edge of every filter."""
    return crop(x, [-begin, begin - 2])


def _wide_scalar(x: ir.Value) -> ir.Value:
    return ReshapeOp(AstypeOp(x, dtype=_F64).y, shape=()).y


def _number(node: OnnxNode, value: float) -> ir.Value:
    return node.constant(np.array(value, np.float64))


def _mel(node: OnnxNode, hertz: ir.Value) -> ir.Value:
    """Mel of a frequency: 2595 log10(1 + hertz / 700)."""
    ratio = AddOp(DivideOp(hertz, _number(node, 700.0)).z, _number(node, 1.0)).z
    return MultiplyOp(LogOp(ratio).y, _number(node, 2595 / math.log(10))).z


def _hertz(node: OnnxNode, mel: ir.Value) -> ir.Value:
    """Frequency of a mel; the inverse of :func:`_mel`."""
    power = ExpOp(MultiplyOp(mel, _number(node, math.log(10) / 2595)).z).y
    return MultiplyOp(SubtractOp(power, _number(node, 1.0)).z, _number(node, 700.0)).z


def _ramp(node: OnnxNode, above: ir.Value, width: ir.Value) -> ir.Value:
    """above / width where both are positive, else 0: one flank of a filter."""
    zero, one = _number(node, 0.0), _number(node, 1.0)
    share = DivideOp(above, MaximumOp(width, one).z).z
    is_inside = LogicalAndOp(GreaterOp(above, zero).z, GreaterOp(width, zero).z).z
    return WhereOp(is_inside, share, zero).z
