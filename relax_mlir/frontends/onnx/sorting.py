"""Rules for TopK."""

from collections.abc import Sequence

import numpy as np
from mlir import ir
from mlir.ir import TupleType

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.op_interface import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.core import CallDpsPackedOp, TupleGetItemOp
from relax_mlir.dialects.relax.sorting import TopkOp
from relax_mlir.dialects.shapes import Dim

_MAX_PAIRWISE = 32  # elements along the axis for ranking by comparing all pairs
_INT64 = dtypes.dtype("int64")


@onnx_rule("TopK", since=1)
def top_k_attribute(node: OnnxNode) -> Sequence[ir.Value]:
    """The k largest elements; k is an attribute.

    Source: ONNX TopK-1.
    """
    return _top_k(node, node.attr("k"), largest=True)


@onnx_rule("TopK", since=10)
def top_k(node: OnnxNode) -> Sequence[ir.Value]:
    """The k largest or smallest elements; k is an input.

    Source: ONNX TopK-24; always sorted, which ``sorted=0`` permits.
    """
    return _top_k(node, node.dim(1), largest=node.flag("largest", default=True))


def _top_k(node: OnnxNode, k: Dim, *, largest: bool) -> Sequence[ir.Value]:
    x = node.input(0)
    shape = list(tensors.shape_of(x))
    axis = shapes.check_axis(node.attr("axis", -1), len(shape))
    size = shape[axis]
    if isinstance(k, int) and isinstance(size, int) and not 0 <= k <= size:
        raise ValueError(f"k: expected 0 to {size}, the size of axis {axis}, got {k}")
    is_short = isinstance(size, int) and size <= _MAX_PAIRWISE
    if is_short and isinstance(k, int) and k > 0:
        found = TopkOp(x, k=k, axis=axis, largest=largest, dtype=_INT64).y
    else:
        shapes.require_at_least(size, k)
        shape[axis] = k
        found = _host_top_k(node, x, shape, axis, largest)
    return [TupleGetItemOp(found, index=i).result for i in range(2)]


def _host_top_k(
    node: OnnxNode, x: ir.Value, shape: Sequence[Dim], axis: int, largest: bool
) -> ir.Value:
    """A call of the runtime's top-k, for long axes."""
    flags = [node.constant(np.array(flag, np.int64)) for flag in (axis, largest)]
    values = tensors.tensor_type(shape, tensors.dtype_of(x))
    indices = tensors.tensor_type(shape, _INT64)
    return CallDpsPackedOp(
        tensors.pack_tuple([x, *flags]),
        results=[TupleType.get_tuple([values, indices])],
        callee="relax_mlir.topk",
    ).result
