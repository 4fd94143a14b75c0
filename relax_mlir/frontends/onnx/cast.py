"""Rules for element type conversions."""

import ml_dtypes
from mlir import ir
from onnx import TensorProto

from relax_mlir.dialects import dtypes, tensors
from relax_mlir.dialects.dtypes import DType
from relax_mlir.dialects.op_interface import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.arithmetic import ClipOp
from relax_mlir.dialects.relax.cast import AstypeOp, onnx_type
from relax_mlir.dialects.relax.cast_scale import CastScaleOp

__all__ = ["saturated"]

_F32 = dtypes.dtype("float32")


@onnx_rule("Cast", since=1)
def cast_to_name(node: OnnxNode) -> ir.Value:
    """Cast to the element type named by ``to``.

    Source: ONNX Cast-1.
    """
    name = str(node.attr("to"))
    numbers = dict(TensorProto.DataType.items())
    if name.upper() not in numbers:
        raise ValueError(f"to: expected the name of an element type, got `{name}`")
    return _cast(node, onnx_type(numbers[name.upper()]))


@onnx_rule("Cast", since=6)
def cast(node: OnnxNode) -> ir.Value:
    """Cast to the element type whose ``TensorProto.DataType`` is ``to``.

    Source: ONNX Cast-25.
    """
    return _cast(node, onnx_type(node.attr("to")))


@onnx_rule("CastLike", since=15)
def cast_like(node: OnnxNode) -> ir.Value:
    """Cast to the element type of the second input.

    Source: ONNX CastLike-25.
    """
    return _cast(node, tensors.dtype_of(node.input(1)))


def _cast(node: OnnxNode, to: DType) -> ir.Value:
    x = node.input(0)
    saturate = node.flag("saturate", default=True)
    if tensors.dtype_of(x) != to and to.name == "float8_e8m0fnu":
        mode = node.attr("round_mode", "up")
        return CastScaleOp(_as_float(x), round_mode=mode, saturate=saturate).y
    return saturated(x, to) if saturate else AstypeOp(x, dtype=to).y


def saturated(x: ir.Value, to: DType) -> ir.Value:
    """``x`` cast to another type; 8-bit floats saturate to their largest finite value."""
    is_float8 = to.is_float and to.bits == 8
    if is_float8 and tensors.dtype_of(x) != to:
        x = _as_float(x)
        top = float(ml_dtypes.finfo(to.numpy).max)
        x = ClipOp(x, min=-top, max=top).y
    return AstypeOp(x, dtype=to).y


def _as_float(x: ir.Value) -> ir.Value:
    """``x`` as f32, unless it is f16, bf16 or f32 already."""
    type_ = tensors.dtype_of(x)
    is_kept = type_.is_float and type_.bits in (16, 32)
    return x if is_kept else AstypeOp(x, dtype=_F32).y
