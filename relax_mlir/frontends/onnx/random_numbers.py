"""Rules for random number generation, deterministic across runs.

A node without a seed gets one from its name, so that different nodes draw different
numbers.
"""

import math
import struct
import zlib
from collections.abc import Sequence

import numpy as np
from mlir import ir

from relax_mlir.dialects import dtypes, tensors
from relax_mlir.dialects.dtypes import DType
from relax_mlir.dialects.op_interface import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.arithmetic import (
    AddOp,
    MultiplyOp,
    SubtractOp,
)
from relax_mlir.dialects.relax.cast import AstypeOp, onnx_type
from relax_mlir.dialects.relax.compare import LessOp
from relax_mlir.dialects.relax.creation import ArangeOp
from relax_mlir.dialects.relax.exp_log import LogOp, SqrtOp
from relax_mlir.dialects.relax.manipulate import BroadcastToOp, ReshapeOp
from relax_mlir.dialects.relax.random import RandomUniformOp
from relax_mlir.dialects.relax.sampling import MultinomialFromUniformOp
from relax_mlir.dialects.relax.softmax import SoftmaxOp
from relax_mlir.dialects.relax.trigonometry import CosOp
from relax_mlir.dialects.shapes import Dim

__all__ = ["uniform_numbers"]

_F32 = dtypes.dtype("float32")


@onnx_rule("RandomUniform", since=1)
def random_uniform(node: OnnxNode) -> ir.Value:
    """Uniform random numbers of a given shape.

    Source: ONNX RandomUniform-22.
    """
    return _uniform(node, node.attr("shape"), _type(node, _F32))


@onnx_rule("RandomUniformLike", since=1)
def random_uniform_like(node: OnnxNode) -> ir.Value:
    """Uniform random numbers in the shape of another tensor.

    Source: ONNX RandomUniformLike-22.
    """
    return _uniform(node, *_like(node))


@onnx_rule("RandomNormal", since=1)
def random_normal(node: OnnxNode) -> ir.Value:
    """Normally distributed random numbers of a given shape.

    Source: ONNX RandomNormal-22.
    """
    return _normal(node, node.attr("shape"), _type(node, _F32))


@onnx_rule("RandomNormalLike", since=1)
def random_normal_like(node: OnnxNode) -> ir.Value:
    """Normally distributed random numbers in the shape of another tensor.

    Source: ONNX RandomNormalLike-22.
    """
    return _normal(node, *_like(node))


@onnx_rule("Bernoulli", since=15)
def bernoulli(node: OnnxNode) -> ir.Value:
    """Bernoulli samples; the elements are the probabilities of 1.

    Source: ONNX Bernoulli-22.
    """
    x = node.input(0)
    below = LessOp(uniform_numbers(node, tensors.shape_of(x)), _wide(x)).z
    return AstypeOp(below, dtype=_type(node, tensors.dtype_of(x))).y


@onnx_rule("Multinomial", since=7)
def multinomial(node: OnnxNode) -> ir.Value:
    """Multinomial samples: column indices, by unnormalized log-probabilities per row.

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
    samples = MultinomialFromUniformOp(
        SoftmaxOp(_wide(x), axis=1).y,
        uniform_numbers(node, (total, 1)),
        ReshapeOp(rows, shape=(total, 1)).y,
        dtype=_type(node, dtypes.dtype("int32")),
    ).y
    return ReshapeOp(samples, shape=(batch, count)).y


def _like(node: OnnxNode) -> tuple[tuple[Dim, ...], DType]:
    x = node.input(0)
    return tensors.shape_of(x), _type(node, tensors.dtype_of(x))


def _type(node: OnnxNode, otherwise: DType) -> DType:
    """The element type of the result."""
    return onnx_type(node.attr("dtype")) if node.attr("dtype", 0) else otherwise


def _wide(x: ir.Value) -> ir.Value:
    return AstypeOp(x, dtype=_F32).y


def uniform_numbers(node: OnnxNode, shape: Sequence[Dim], stream: int = 0) -> ir.Value:
    """Uniform random numbers in [0, 1), seeded by the node; streams are independent."""
    if "seed" in node.attrs:
        seed = int.from_bytes(struct.pack("<f", node.attr("seed")), "little")
    else:
        seed = zlib.crc32(node.name.encode())
    return RandomUniformOp(shape=tuple(shape), seed=seed, stream=stream).y


def _uniform(node: OnnxNode, shape: Sequence[Dim], type_: DType) -> ir.Value:
    low, high = node.attr("low", 0.0), node.attr("high", 1.0)
    return _scale_and_shift(node, uniform_numbers(node, shape), low, high - low, type_)


def _normal(node: OnnxNode, shape: Sequence[Dim], type_: DType) -> ir.Value:
    """Normally distributed numbers by the Box-Muller transform.

    Source: Box and Muller, A Note on the Generation of Random Normal Deviates, 1958.
    """
    one, circle, factor = (
        node.constant(np.array(v, np.float32)) for v in (1, 2 * math.pi, -2)
    )
    first, second = (uniform_numbers(node, shape, stream) for stream in (0, 1))
    logarithm = LogOp(SubtractOp(one, first).z).y
    radius = SqrtOp(MultiplyOp(logarithm, factor).z).y
    number = MultiplyOp(radius, CosOp(MultiplyOp(second, circle).z).y).z
    return _scale_and_shift(
        node, number, node.attr("mean", 0.0), node.attr("scale", 1.0), type_
    )


def _scale_and_shift(
    node: OnnxNode, x: ir.Value, shift: float, scale: float, type_: DType
) -> ir.Value:
    factor, offset = (node.constant(np.array(v, np.float32)) for v in (scale, shift))
    return AstypeOp(AddOp(MultiplyOp(x, factor).z, offset).z, dtype=type_).y
