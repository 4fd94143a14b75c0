"""Rules for matrix products of several operations."""

import numpy as np
from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.hooks import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.arithmetic import AddOp, MultiplyOp
from relax_mlir.dialects.relax.matmul import MatmulOp
from relax_mlir.dialects.relax.movement import PermuteDimsOp


@onnx_rule("Gemm", since=7)
def gemm(node: OnnxNode) -> ir.Value:
    """alpha * A' @ B' + beta * C, where A' and B' may be transposed.

    A transposed constant weight is left to constant folding, so that a model's weights
    stay views of its file.

    Source: ONNX Gemm-13.
    """
    x = _matrix(node, 0, "transA")
    y = _matrix(node, 1, "transB")
    product = _scaled(node, MatmulOp(x, y).z, node.attr("alpha", 1.0))
    addend = node.optional(2)
    beta = node.attr("beta", 1.0)
    if addend is None or beta == 0:
        return product
    return AddOp(product, _scaled(node, addend, beta)).z


def _matrix(node: OnnxNode, index: int, flag: str) -> ir.Value:
    value = node.input(index)
    rank = len(tensors.shape_of(value))
    if rank != 2:
        raise ValueError(
            f"input {index}: expected a matrix, got a tensor of rank {rank}"
        )
    return PermuteDimsOp(value, axes=(1, 0)).y if node.attr(flag, 0) else value


def _scaled(node: OnnxNode, value: ir.Value, factor: float) -> ir.Value:
    if factor == 1:
        return value
    dtype = tensors.dtype_of(value)
    if dtype.is_integer and factor != int(factor):
        raise NotImplementedError(f"a factor of {factor} for integers is not supported")
    return MultiplyOp(value, node.constant(np.array(factor).astype(dtype.numpy))).z
