"""Rules for random numbers, which are the same in every run.

A node without a seed gets one from its name, so that nodes differ.
"""

import math
import struct
import zlib
from collections.abc import Sequence

import numpy as np
from mlir import ir

from relax_mlir.dialects import dtypes, tensors
from relax_mlir.dialects.dtypes import DType
from relax_mlir.dialects.hooks import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.arithmetic import (
    AddOp,
    MultiplyOp,
    SubtractOp,
)
from relax_mlir.dialects.relax.cast import AstypeOp, onnx_type
from relax_mlir.dialects.relax.compare import LessOp
from relax_mlir.dialects.relax.creation import ArangeOp
from relax_mlir.dialects.relax.exponential import LogOp, SqrtOp
from relax_mlir.dialects.relax.movement import BroadcastToOp, ReshapeOp
from relax_mlir.dialects.relax.norm import SoftmaxOp
from relax_mlir.dialects.relax.random_numbers import RandomUniformOp
from relax_mlir.dialects.relax.sampling import MultinomialFromUniformOp
from relax_mlir.dialects.relax.trigonometry import CosOp
from relax_mlir.dialects.shapes import Dim

__all__ = ["uniform"]

_F32 = dtypes.dtype("float32")


@onnx_rule("RandomUniform", since=1)
def random_uniform(node: OnnxNode) -> ir.Value:
    """Numbers of a range, each as likely as any other.

    Source: ONNX RandomUniform-22.
    """
    return _in_range(node, node.attr("shape"), _type(node, _F32))


@onnx_rule("RandomUniformLike", since=1)
def random_uniform_like(node: OnnxNode) -> ir.Value:
    """Likewise, in the shape of another tensor.

    Source: ONNX RandomUniformLike-22.
    """
    return _in_range(node, *_like(node))


@onnx_rule("RandomNormal", since=1)
def random_normal(node: OnnxNode) -> ir.Value:
    """Numbers of a normal distribution.

    Source: ONNX RandomNormal-22.
    """
    return _normal(node, node.attr("shape"), _type(node, _F32))


@onnx_rule("RandomNormalLike", since=1)
def random_normal_like(node: OnnxNode) -> ir.Value:
    """Likewise, in the shape of another tensor.

    Source: ONNX RandomNormalLike-22.
    """
    return _normal(node, *_like(node))


@onnx_rule("Bernoulli", since=15)
def bernoulli(node: OnnxNode) -> ir.Value:
    """One with a probability that every element has, else zero.

    Source: ONNX Bernoulli-22.
    """
    x = node.input(0)
    below = LessOp(uniform(node, tensors.shape_of(x)), _wide(x)).z
    return AstypeOp(below, dtype=_type(node, tensors.dtype_of(x))).y


@onnx_rule("Multinomial", since=7)
def multinomial(node: OnnxNode) -> ir.Value:
    """Numbers of columns, by the probabilities whose logarithms a row has.

    Source: ONNX Multinomial-22.
    """
    x, count = node.input(0), node.attr("sample_size", 1)
    shape = tensors.shape_of(x)
    if len(shape) != 2:
        raise ValueError(f"expected rank 2, got {len(shape)}")
    batch, total = shape[0], shape[0] * count
    numbers = ArangeOp(start=0, end=batch, dtype=dtypes.dtype("int64")).y
    column = ReshapeOp(numbers, shape=(batch, 1)).y
    rows = BroadcastToOp(column, shape=(batch, count)).y
    chosen = MultinomialFromUniformOp(
        SoftmaxOp(_wide(x), axis=1).y,
        uniform(node, (total, 1)),
        ReshapeOp(rows, shape=(total, 1)).y,
        dtype=_type(node, dtypes.dtype("int32")),
    ).y
    return ReshapeOp(chosen, shape=(batch, count)).y


def _like(node: OnnxNode) -> tuple[tuple[Dim, ...], DType]:
    x = node.input(0)
    return tensors.shape_of(x), _type(node, tensors.dtype_of(x))


def _type(node: OnnxNode, otherwise: DType) -> DType:
    """The element type of the result."""
    return onnx_type(node.attr("dtype")) if node.attr("dtype", 0) else otherwise


def _wide(x: ir.Value) -> ir.Value:
    return AstypeOp(x, dtype=_F32).y


def uniform(node: OnnxNode, shape: Sequence[Dim], stream: int = 0) -> ir.Value:
    """Numbers from 0 to 1, by the seed of the node."""
    if "seed" in node.attrs:
        seed = int.from_bytes(struct.pack("<f", node.attr("seed")), "little")
    else:
        seed = zlib.crc32(node.name.encode())
    return RandomUniformOp(shape=tuple(shape), seed=seed, stream=stream).y


def _in_range(node: OnnxNode, shape: Sequence[Dim], type_: DType) -> ir.Value:
    low, high = node.attr("low", 0.0), node.attr("high", 1.0)
    return _moved(node, uniform(node, shape), low, high - low, type_)


def _normal(node: OnnxNode, shape: Sequence[Dim], type_: DType) -> ir.Value:
    """Source: Box and Muller, A Note on the Generation of Random Normal Deviates, 1958."""
    one, circle, factor = (
        node.constant(np.array(v, np.float32)) for v in (1, 2 * math.pi, -2)
    )
    first, second = (uniform(node, shape, stream) for stream in (0, 1))
    logarithm = LogOp(SubtractOp(one, first).z).y
    radius = SqrtOp(MultiplyOp(logarithm, factor).z).y
    number = MultiplyOp(radius, CosOp(MultiplyOp(second, circle).z).y).z
    return _moved(node, number, node.attr("mean", 0.0), node.attr("scale", 1.0), type_)


def _moved(
    node: OnnxNode, x: ir.Value, shift: float, scale: float, type_: DType
) -> ir.Value:
    factor, offset = (node.constant(np.array(v, np.float32)) for v in (scale, shift))
    return AstypeOp(AddOp(MultiplyOp(x, factor).z, offset).z, dtype=type_).y
