"""Rules that make indices."""

import math
from typing import Any

import numpy as np
from mlir import ir

from relax_mlir.dialects import dtypes, tensors
from relax_mlir.dialects.dtypes import DType
from relax_mlir.dialects.hooks import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.arithmetic import AddOp, MultiplyOp
from relax_mlir.dialects.relax.cast import AstypeOp
from relax_mlir.dialects.relax.compare import LessOp, WhereOp
from relax_mlir.dialects.relax.core import ShapeToTensorOp
from relax_mlir.dialects.relax.creation import ArangeOp
from relax_mlir.dialects.relax.indexing import TakeOp
from relax_mlir.dialects.relax.movement import ReshapeOp
from relax_mlir.dialects.relax.one_hot import OneHotOp
from relax_mlir.dialects.shapes import Dim

_MATERIALISED = 4096  # elements; a longer range is made when the model runs
_F64, _INT64 = dtypes.dtype("float64"), dtypes.dtype("int64")


@onnx_rule("Range", since=11)
def make_range(node: OnnxNode) -> "ir.Value | np.ndarray":
    """Numbers from a start up to a limit, a step apart.

    Source: ONNX Range-11, by its formula; its body adds step to step, and so rounds more.
    """
    type_ = tensors.dtype_of(node.input(0))
    known = [node.constant_or_none(i) for i in range(3)]
    if type_.is_float or all(array is not None for array in known):
        numbers = [node.known(i).item() for i in range(3)]
        return _known_range(node, *numbers, type_=type_)
    (start,), (limit,), (step,) = (node.dims(i) for i in range(3))
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
    numbers = ArangeOp(start=0, end=count, dtype=_F64).y  # of which f32 has too few
    factor, shift = (node.constant(np.array(v, np.float64)) for v in (step, start))
    return AstypeOp(AddOp(MultiplyOp(numbers, factor).z, shift).z, dtype=type_).y


@onnx_rule("OneHot", since=9)
def one_hot(node: OnnxNode) -> ir.Value:
    """Vectors that are "on" at one place, which may count from the end.

    Source: ONNX OneHot-11.
    """
    known = node.constant_or_none(1)
    depth = node.dims(1)[0] if known is None else int(known.reshape(-1)[0])
    indices, axis = _from_front(node, depth), node.attr("axis", -1)
    values = node.constant_or_none(2)
    if values is not None:
        off, on = values.reshape(-1)
        return OneHotOp(indices, on_value=on, off_value=off, depth=depth, axis=axis).y
    off, on = (
        TakeOp(node.input(2), node.constant(np.array(place, np.int64)), axis=0).y
        for place in range(2)
    )
    is_on = OneHotOp(indices, on_value=True, off_value=False, depth=depth, axis=axis).y
    return WhereOp(is_on, on, off).z


def _from_front(node: OnnxNode, depth: Dim) -> ir.Value:
    """The indices, those that count from the end counted from the front."""
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
