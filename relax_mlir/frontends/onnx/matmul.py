"""Rules for Gemm and MatMul."""

import numpy as np
from mlir import ir

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.op_interface import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.arithmetic import AddOp, MultiplyOp
from relax_mlir.dialects.relax.manipulate import PermuteDimsOp
from relax_mlir.dialects.relax.matmul import MatmulOp
from relax_mlir.frontends.onnx.dequantized import dequantized_matmul


@onnx_rule("Gemm", since=7)
def gemm(node: OnnxNode) -> ir.Value:
    """GEMM: alpha * A' @ B' + beta * C, where A' is A or its transpose, and B' likewise.

    The transpose of a constant weight is left to constant folding, so that a model's
    weights stay views of its file.

    Source: ONNX Gemm-13.
    """
    x = _matrix(node, 0, "transA")
    y = _matrix(node, 1, "transB")
    z = _scaled(node, _matmul(node, x, y), node.attr("alpha", 1.0))
    addend = node.optional(2)
    beta = node.attr("beta", 1.0)
    if addend is None or beta == 0:
        return z
    shapes.broadcast_into(tensors.shape_of(z), tensors.shape_of(addend))
    return AddOp(z, _scaled(node, addend, beta)).z


@onnx_rule("MatMul", since=1)
def matmul(node: OnnxNode) -> ir.Value:
    """Matmul over the last two axes, batched over the others.

    Source: ONNX MatMul-13.
    """
    return _matmul(node, node.input(0), node.input(1))


def _matmul(node: OnnxNode, x: ir.Value, y: ir.Value) -> ir.Value:
    quantized = dequantized_matmul(node, x, y)
    return MatmulOp(x, y).z if quantized is None else quantized


def _matrix(node: OnnxNode, index: int, flag: str) -> ir.Value:
    value = node.input(index)
    rank = len(tensors.shape_of(value))
    if rank != 2:
        raise ValueError(
            f"input {index}: expected a matrix, got a tensor of rank {rank}"
        )
    return (
        PermuteDimsOp(value, axes=(1, 0)).y if node.flag(flag, default=False) else value
    )


def _scaled(node: OnnxNode, value: ir.Value, scale: float) -> ir.Value:
    if scale == 1:
        return value
    dtype = tensors.dtype_of(value)
    if dtype.is_integer and scale != int(scale):
        raise NotImplementedError(f"a scale of {scale} for integers is not supported")
    return MultiplyOp(value, node.constant(np.array(scale).astype(dtype.numpy))).z
