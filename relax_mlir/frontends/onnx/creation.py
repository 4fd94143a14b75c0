"""Rules for tensor creation: ConstantOfShape, EyeLike and Range."""

import math
from typing import Any

import numpy as np
from mlir import ir

from relax_mlir.dialects import dtypes, tensors
from relax_mlir.dialects.dtypes import DType
from relax_mlir.dialects.op_interface import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.arithmetic import AddOp, MultiplyOp
from relax_mlir.dialects.relax.cast import AstypeOp, onnx_type
from relax_mlir.dialects.relax.creation import ArangeOp, EyeLikeOp
from relax_mlir.dialects.relax.manipulate import BroadcastToOp

_MATERIALISED = 4096  # elements; longer ranges are computed at run time
_F64 = dtypes.dtype("float64")


@onnx_rule("ConstantOfShape", since=9)
def constant_of_shape(node: OnnxNode) -> ir.Value:
    """A tensor filled with one value.

    Source: ONNX ConstantOfShape-20.
    """
    value = np.asarray(node.attr("value", np.zeros(1, np.float32)))
    if value.size != 1:
        raise ValueError(f"expected one value, got {value.size}")
    scalar = node.constant(value.reshape(()))
    return BroadcastToOp(scalar, shape=node.dims(0)).y


@onnx_rule("EyeLike", since=9)
def eye_like(node: OnnxNode) -> ir.Value:
    """A matrix with ones on a diagonal.

    Source: ONNX EyeLike-22.
    """
    type_ = onnx_type(node.attr("dtype")) if "dtype" in node.attrs else None
    return EyeLikeOp(node.input(0), k=node.attr("k", 0), dtype=type_).y


@onnx_rule("Range", since=11)
def make_range(node: OnnxNode) -> "ir.Value | np.ndarray":
    """Evenly spaced numbers: start + i * step, below a limit.

    Source: ONNX Range-11, by its formula; its function body accumulates the steps, and so
    rounds more.
    """
    type_ = tensors.dtype_of(node.input(0))
    known = [node.constant_or_none(i) for i in range(3)]
    if type_.is_float or all(array is not None for array in known):
        numbers = [node.scalar(i) for i in range(3)]
        return _known_range(node, *numbers, type_=type_)
    start, limit, step = (node.dim(i) for i in range(3))
    if not isinstance(step, int) or step == 0:
        raise ValueError(f"the step must be a number other than 0, got `{step}`")
    return ArangeOp(start=start, end=limit, step=step, dtype=type_).y


def _known_range(
    node: OnnxNode, start: Any, limit: Any, step: Any, type_: DType
) -> "ir.Value | np.ndarray":  # Any: int or float
    if step == 0 or not all(map(math.isfinite, (start, limit, step))):
        raise ValueError(
            "expected finite numbers and a step other than 0, got "
            f"{start}, {limit} and {step}"
        )
    if not type_.is_float:
        count = len(range(start, limit, step))
    else:
        count = max(0, math.ceil((limit - start) / step))
    if count <= _MATERIALISED:
        return np.arange(start, limit, step).astype(type_.numpy)
    if not type_.is_float:
        return ArangeOp(start=start, end=limit, step=step, dtype=type_).y
    numbers = ArangeOp(
        start=0, end=count, dtype=_F64
    ).y  # f32 cannot represent all indices
    scale, shift = (node.constant(np.array(v, np.float64)) for v in (step, start))
    return AstypeOp(AddOp(MultiplyOp(numbers, scale).z, shift).z, dtype=type_).y
