"""Rule for GridSample."""

from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.op_interface import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.grid_sample import GridSampleOp
from relax_mlir.dialects.relax.manipulate import PermuteDimsOp

_METHODS = {"linear": "bilinear", "cubic": "bicubic"}
_LAYOUTS = {4: "NCHW", 5: "NCDHW"}


@onnx_rule("GridSample", since=16)
def grid_sample(node: OnnxNode) -> ir.Value:
    """Samples of images or volumes at normalized coordinates in [-1, 1].

    Source: ONNX GridSample-22; opset 20 renamed the modes.
    """
    x, grid = node.input(0), node.input(1)
    rank = len(tensors.shape_of(x))
    if rank not in _LAYOUTS:
        raise NotImplementedError(f"expected 2 or 3 spatial axes, got {rank - 2}")
    mode = node.attr("mode", "linear")
    return GridSampleOp(
        x,
        PermuteDimsOp(grid, axes=(0, rank - 1, *range(1, rank - 1))).y,
        method=_METHODS.get(mode, mode),
        layout=_LAYOUTS[rank],
        padding_mode=node.attr("padding_mode", "zeros"),
        align_corners=node.flag("align_corners", default=False),
    ).y
