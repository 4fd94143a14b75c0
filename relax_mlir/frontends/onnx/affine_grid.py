"""Rule for AffineGrid."""

from mlir import ir

from relax_mlir.dialects import shapes
from relax_mlir.dialects.op_interface import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.affine_grid import AffineGridOp
from relax_mlir.dialects.relax.manipulate import PermuteDimsOp
from relax_mlir.frontends.onnx.node_form import input_shape


@onnx_rule("AffineGrid", since=20)
def affine_grid(node: OnnxNode) -> ir.Value:
    """Sampling grid of an image (2D) or a volume (3D) under an affine transform.

    Source: ONNX AffineGrid-20.
    """
    theta, size = node.input(0), node.dims(1)
    if len(size) not in (4, 5):
        raise ValueError(
            f"size: expected [n, c, h, w] or [n, c, d, h, w], got {len(size)} numbers"
        )
    batch, *_ = input_shape(node, 0, "n", "r", "r + 1")
    shapes.unify(batch, size[0])
    spatial = size[2:]
    grid = AffineGridOp(
        theta, size=spatial, align_corners=node.flag("align_corners", default=False)
    ).y
    rank = len(spatial)
    return PermuteDimsOp(grid, axes=(0, *range(2, 2 + rank), 1)).y
