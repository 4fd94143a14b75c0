"""Rule for one-hot encoding."""

import numpy as np
from mlir import ir

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.op_interface import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.arithmetic import AddOp
from relax_mlir.dialects.relax.cast import AstypeOp
from relax_mlir.dialects.relax.compare import LessOp, WhereOp
from relax_mlir.dialects.relax.core import ShapeToTensorOp
from relax_mlir.dialects.relax.gather import TakeOp
from relax_mlir.dialects.relax.manipulate import ReshapeOp
from relax_mlir.dialects.relax.one_hot import OneHotOp
from relax_mlir.dialects.shapes import Dim
from relax_mlir.frontends.onnx.node_form import input_shape

_INT64 = dtypes.dtype("int64")


@onnx_rule("OneHot", since=9)
def one_hot(node: OnnxNode) -> ir.Value:
    """One-hot vectors of indices; negative indices count from the end.

    Source: ONNX OneHot-11.
    """
    known = node.constant_or_none(1)
    depth = node.dim(1) if known is None else int(node.scalar(1))
    indices, axis = _nonnegative(node, depth), node.attr("axis", -1)
    shapes.unify(input_shape(node, 2, "values")[0], 2)
    values = node.constant_or_none(2)
    if values is not None:
        off, on = values.reshape(-1)
        return OneHotOp(indices, on_value=on, off_value=off, depth=depth, axis=axis).y
    off, on = (
        TakeOp(node.input(2), node.constant(np.array(index, np.int64)), axis=0).y
        for index in range(2)
    )
    is_on = OneHotOp(indices, on_value=True, off_value=False, depth=depth, axis=axis).y
    return WhereOp(is_on, on, off).z


def _nonnegative(node: OnnxNode, depth: Dim) -> ir.Value:
    """The indices, with the depth added to negative ones."""
    indices = node.input(0)
    if tensors.dtype_of(indices).kind == "u":
        return indices
    wide = AstypeOp(indices, dtype=_INT64).y
    zero = node.constant(np.array(0, np.int64))
    if isinstance(depth, int):
        size = node.constant(np.array(depth, np.int64))
    else:
        size = ReshapeOp(ShapeToTensorOp(dims=(depth,)).y, shape=()).y
    return WhereOp(LessOp(wide, zero).z, AddOp(wide, size).z, wide).z
