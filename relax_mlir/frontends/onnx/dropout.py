"""Rule for dropout."""

from collections.abc import Sequence

import numpy as np
from mlir import ir

from relax_mlir.dialects import dtypes, tensors
from relax_mlir.dialects.op_interface import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.arithmetic import (
    MultiplyOp,
    ReciprocalOp,
    SubtractOp,
)
from relax_mlir.dialects.relax.cast import AstypeOp
from relax_mlir.dialects.relax.compare import GreaterEqualOp, WhereOp
from relax_mlir.dialects.relax.manipulate import BroadcastToOp, ReshapeOp
from relax_mlir.frontends.onnx.random_numbers import uniform_numbers

_F32 = dtypes.dtype("float32")


@onnx_rule("Dropout", since=1)
def dropout(node: OnnxNode) -> Sequence[ir.Value | None]:
    """Dropout: the identity at inference; in training, drops elements and rescales the rest.

    Source: ONNX Dropout-22; there is no training mode before opset 12, and before opset 10
    the mask has the type of the input.
    """
    x = node.input(0)
    shape, type_ = tensors.shape_of(x), tensors.dtype_of(x)
    is_training = node.optional(2) is not None and bool(node.scalar(2))
    if is_training:
        return _dropped(node, x)
    if not any(node.wanted[1:]):
        return [x]
    kind = np.bool_ if node.opset >= 10 else type_.numpy
    return [x, BroadcastToOp(node.constant(np.ones((), kind)), shape=shape).y]


def _dropped(node: OnnxNode, x: ir.Value) -> list[ir.Value]:
    shape, type_ = tensors.shape_of(x), tensors.dtype_of(x)
    given = node.optional(1)
    half = node.constant(np.array(0.5, np.float32))
    ratio = ReshapeOp(
        half if given is None else AstypeOp(given, dtype=_F32).y, shape=()
    ).y
    kept = GreaterEqualOp(uniform_numbers(node, shape), ratio).z
    one = node.constant(np.array(1, np.float32))
    scale = AstypeOp(ReciprocalOp(SubtractOp(one, ratio).z).y, dtype=type_).y
    zero = node.constant(np.zeros((), type_.numpy))
    return [WhereOp(kept, MultiplyOp(x, scale).z, zero).z, kept]
