"""Rule for MaxUnpool."""

from collections.abc import Sequence

from mlir import ir

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.op_interface import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.cast import AstypeOp
from relax_mlir.dialects.relax.creation import ZerosOp
from relax_mlir.dialects.relax.manipulate import ReshapeOp
from relax_mlir.dialects.relax.padding import PadOp
from relax_mlir.dialects.relax.scatter import ScatterElementsOp
from relax_mlir.dialects.shapes import Dim
from relax_mlir.frontends.onnx.indices import checked_indices
from relax_mlir.frontends.onnx.node_form import input_shape

_INT64 = dtypes.dtype("int64")


@onnx_rule("MaxUnpool", since=9)
def max_unpool(node: OnnxNode) -> ir.Value:
    """Max unpooling: scatters the maxima to their indices, with zeros elsewhere.

    Indices refer to the inferred shape; a larger ``output_shape`` pads with zeros.

    Source: ONNX MaxUnpool-22.
    """
    x, shape = node.input(0), input_shape(node, 0, "n", "c", "windows...")
    inferred = _inferred_shape(node, shape)
    indices = checked_indices(node, node.input(1), "I", shapes.product(inferred))
    indices = AstypeOp(indices, dtype=_INT64).y
    count = (shapes.product(shape),)
    zeros = ZerosOp(shape=(shapes.product(inferred),), dtype=tensors.dtype_of(x)).y
    flat = ScatterElementsOp(
        zeros, ReshapeOp(indices, shape=count).y, ReshapeOp(x, shape=count).y, axis=0
    ).y
    y = ReshapeOp(flat, shape=inferred).y
    if node.optional(2) is None:
        return y
    wanted = node.dims(2)
    if len(wanted) != len(shape):
        raise ValueError(
            f"output_shape: expected {len(shape)} sizes, got {len(wanted)}"
        )
    widths = [
        w for old, new in zip(inferred, wanted, strict=True) for w in (0, new - old)
    ]
    return PadOp(y, pad_width=widths).y


def _inferred_shape(node: OnnxNode, shape: Sequence[Dim]) -> list[Dim]:
    """The smallest shape that the pooling attributes map to ``shape``."""
    batch, channels, *sizes = shape
    kernel = node.attr("kernel_shape")
    rank = len(sizes)
    strides = node.attr("strides", [1] * rank)
    pads = node.attr("pads", [0] * (2 * rank))
    if not len(kernel) == len(strides) == len(pads) // 2 == rank:
        raise ValueError(
            f"expected kernel_shape, strides and pads for {rank} axes, got "
            f"{kernel}, {strides} and {pads}"
        )
    found = [
        (size - 1) * strides[a] - pads[a] - pads[rank + a] + kernel[a]
        for a, size in enumerate(sizes)
    ]
    return [batch, channels, *found]
