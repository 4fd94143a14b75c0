"""Rules for region of interest pooling."""

from mlir import ir

from relax_mlir.dialects.op_interface import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.roi import RoiAlignOp, VisionRoiPoolOp


@onnx_rule("RoiAlign", since=10)
def roi_align_unshifted(node: OnnxNode) -> ir.Value:
    """RoiAlign without the half-pixel shift: interpolated samples of regions of interest.

    Source: ONNX RoiAlign-10.
    """
    return _roi_align(node, is_shifted=False)


@onnx_rule("RoiAlign", since=16)
def roi_align(node: OnnxNode) -> ir.Value:
    """RoiAlign: interpolated samples of regions of interest, pooled to one size.

    Source: ONNX RoiAlign-22.
    """
    mode = node.attr("coordinate_transformation_mode", "half_pixel")
    if mode not in ("half_pixel", "output_half_pixel"):
        raise ValueError(
            "bad coordinate_transformation_mode: expected half_pixel or "
            f"output_half_pixel, got {mode!r}"
        )
    return _roi_align(node, is_shifted=mode == "half_pixel")


def _roi_align(node: OnnxNode, *, is_shifted: bool) -> ir.Value:
    return RoiAlignOp(
        *(node.input(i) for i in range(3)),
        size=(node.attr("output_height", 1), node.attr("output_width", 1)),
        scale=node.attr("spatial_scale", 1.0),
        points=node.attr("sampling_ratio", 0),
        is_shifted=is_shifted,
        mode=node.attr("mode", "avg"),
    ).y


@onnx_rule("MaxRoiPool", since=1)
def max_roi_pool(node: OnnxNode) -> ir.Value:
    """Max pooling of regions of interest to one size.

    Source: ONNX MaxRoiPool-22.
    """
    scale = node.attr("spatial_scale", 1.0)
    if not scale > 0:
        raise ValueError(f"attribute `spatial_scale`: expected above 0, got {scale}")
    return VisionRoiPoolOp(
        node.input(0),
        node.input(1),
        pooled_size=node.attr("pooled_shape"),
        spatial_scale=scale,
    ).y
