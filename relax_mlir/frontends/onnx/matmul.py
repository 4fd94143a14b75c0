"""Rules for matrix products."""

import numpy as np
from mlir import ir

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.hooks import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.arithmetic import AddOp, MultiplyOp
from relax_mlir.dialects.relax.matmul import MatmulOp
from relax_mlir.dialects.relax.movement import PermuteDimsOp
from relax_mlir.frontends.onnx.dequantized import dequantized_product


@onnx_rule("Gemm", since=7)
def gemm(node: OnnxNode) -> ir.Value:
    """alpha * A' @ B' + beta * C, where A' and B' may be transposed.

    A transposed constant weight is left to constant folding, so that a model's weights
    stay views of its file.

    Source: ONNX Gemm-13.
    """
    x = _matrix(node, 0, "transA")
    y = _matrix(node, 1, "transB")
    product = _scaled(node, _product(node, x, y), node.attr("alpha", 1.0))
    addend = node.optional(2)
    beta = node.attr("beta", 1.0)
    if addend is None or beta == 0:
        return product
    shapes.broadcast_into(tensors.shape_of(product), tensors.shape_of(addend))
    return AddOp(product, _scaled(node, addend, beta)).z


@onnx_rule("MatMul", since=1)
def matmul(node: OnnxNode) -> ir.Value:
    """Matrix product over the last two axes.

    Source: ONNX MatMul-13.
    """
    return _product(node, node.input(0), node.input(1))


def _product(node: OnnxNode, x: ir.Value, y: ir.Value) -> ir.Value:
    of_integers = dequantized_product(node, x, y)
    return MatmulOp(x, y).z if of_integers is None else of_integers


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


def _scaled(node: OnnxNode, value: ir.Value, factor: float) -> ir.Value:
    if factor == 1:
        return value
    dtype = tensors.dtype_of(value)
    if dtype.is_integer and factor != int(factor):
        raise NotImplementedError(f"a factor of {factor} for integers is not supported")
    return MultiplyOp(value, node.constant(np.array(factor).astype(dtype.numpy))).z
