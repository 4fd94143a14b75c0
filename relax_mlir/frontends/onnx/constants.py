"""Rules for Constant, Shape and Size."""

import numpy as np
from mlir import ir

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.op_interface import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.core import ShapeToTensorOp
from relax_mlir.dialects.relax.manipulate import ReshapeOp

_INT64_MAX = 2**63 - 1
_SCALARS = {"value_float": np.float32, "value_int": np.int64}
_VECTORS = {"value_floats": np.float32, "value_ints": np.int64}


@onnx_rule("Constant", since=1)
def constant(node: OnnxNode) -> np.ndarray:
    """The constant that an attribute holds.

    Source: ONNX Constant-13.
    """
    if "value" in node.attrs:
        return node.attrs["value"]
    for name, dtype in {**_SCALARS, **_VECTORS}.items():
        if name in node.attrs:
            return np.array(node.attrs[name], dtype)
    raise NotImplementedError(f"expected a tensor or numbers, got {list(node.attrs)}")


@onnx_rule("Shape", since=1)
def shape(node: OnnxNode) -> ir.Value:
    """The dimensions of a tensor, or a slice of them, as a vector.

    Source: ONNX Shape-21.
    """
    start, end = node.attr("start", 0), node.attr("end", _INT64_MAX)
    return ShapeToTensorOp(dims=tensors.shape_of(node.input(0))[start:end]).y


@onnx_rule("Size", since=1)
def size(node: OnnxNode) -> ir.Value:
    """The number of elements of a tensor.

    Source: ONNX Size-21.
    """
    count = shapes.product(tensors.shape_of(node.input(0)))
    return ReshapeOp(ShapeToTensorOp(dims=(count,)).y, shape=()).y
