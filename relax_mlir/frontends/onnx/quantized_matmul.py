"""Rules for quantized matmuls.

Source: for com.microsoft onnxruntime, docs/ContribOperators.md.
"""

import numpy as np
from mlir import ir

from relax_mlir.dialects import dtypes, tensors
from relax_mlir.dialects.op_interface import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.arithmetic import (
    AddOp,
    MultiplyOp,
    SubtractOp,
)
from relax_mlir.dialects.relax.cast import AstypeOp
from relax_mlir.dialects.relax.manipulate import PermuteDimsOp, ReshapeOp
from relax_mlir.dialects.relax.matmul import DenseOp
from relax_mlir.dialects.relax.slicing import StridedSliceOp
from relax_mlir.frontends.onnx.node_form import require_input_shape
from relax_mlir.frontends.onnx.quantization import (
    as_f32,
    column_parameter,
    dynamically_quantized,
    integer_matmul,
    requantized,
    row_parameter,
    zero_point_operand,
)


@onnx_rule("MatMulInteger", since=10)
def matmul_integer(node: OnnxNode) -> ir.Value:
    """Integer matmul of the operands minus their zero points, in i32.

    Source: ONNX MatMulInteger-10.
    """
    a, b = node.input(0), node.input(1)
    a_zero = row_parameter(zero_point_operand(node, 2), a)
    return integer_matmul(
        node, a, b, a_zero, column_parameter(zero_point_operand(node, 3))
    )


@onnx_rule("QLinearMatMul", since=10)
def qlinear_matmul(node: OnnxNode) -> ir.Value:
    """Integer matmul, requantized to the type of the output's zero point.

    Source: ONNX QLinearMatMul-21.
    """
    a, b = node.input(0), node.input(3)
    a_zero = row_parameter(zero_point_operand(node, 2), a)
    accumulator = integer_matmul(
        node, a, b, a_zero, column_parameter(zero_point_operand(node, 5))
    )
    scales = row_parameter(node.input(1), a), column_parameter(node.input(4))
    scale = MultiplyOp(*map(as_f32, scales)).z
    return requantized(node, accumulator, scale, node.input(6), node.input(7))


@onnx_rule("com.microsoft::MatMulIntegerToFloat", since=1)
def matmul_integer_to_float(node: OnnxNode) -> ir.Value:
    """Integer matmul, dequantized, plus an optional bias.

    Source: com.microsoft MatMulIntegerToFloat-1.
    """
    a, b = node.input(0), node.input(1)
    a_zero = row_parameter(zero_point_operand(node, 4), a)
    accumulator = integer_matmul(
        node, a, b, a_zero, column_parameter(zero_point_operand(node, 5))
    )
    scales = row_parameter(node.input(2), a), column_parameter(node.input(3))
    return _scaled(node, accumulator, MultiplyOp(*scales).z, 6)


@onnx_rule("com.microsoft::DynamicQuantizeMatMul", since=1)
def dynamic_quantize_matmul(node: OnnxNode) -> ir.Value:
    """Integer matmul with a dynamically quantized first operand, dequantized.

    Source: com.microsoft DynamicQuantizeMatMul-1.
    """
    a, scale, zero = dynamically_quantized(node, node.input(0))
    b_zero = column_parameter(zero_point_operand(node, 3))
    accumulator = integer_matmul(node, a, node.input(1), zero, b_zero)
    scale = MultiplyOp(scale, column_parameter(node.input(2))).z
    return _scaled(node, accumulator, scale, 4)


@onnx_rule("com.microsoft::QGemm", since=1)
def qgemm(node: OnnxNode) -> ir.Value:
    """Quantized GEMM alpha * A' @ B' + C; requantized if an output scale is given.

    Source: com.microsoft QGemm-1.
    """
    a, b = _transposed(node, 0, "transA"), _transposed(node, 3, "transB")
    a_zero = column_parameter(zero_point_operand(node, 2))
    y = integer_matmul(
        node, a, b, a_zero, column_parameter(zero_point_operand(node, 5))
    )
    addend = node.optional(6)
    if addend is not None:
        y = AddOp(y, addend).z
    scale = MultiplyOp(
        column_parameter(node.input(1)), column_parameter(node.input(4))
    ).z
    alpha = node.attr("alpha", 1.0)
    if alpha != 1:
        scale = MultiplyOp(scale, node.constant(np.array(alpha, np.float32))).z
    if node.optional(7) is None:
        return MultiplyOp(as_f32(y), scale).z
    y_scale, y_zero = (
        column_parameter(node.input(7)),
        column_parameter(node.optional(8)),
    )
    if y_zero is None:
        y_zero = node.constant(np.zeros((), tensors.dtype_of(node.input(0)).numpy))
    return requantized(node, y, scale, y_scale, y_zero)


@onnx_rule("com.microsoft::MatMulNBits", since=1)
def matmul_bits(node: OnnxNode) -> ir.Value:
    """Matmul with a weight of 2, 4 or 8 bits, quantized in blocks along K.

    Source: com.microsoft MatMulNBits-1.
    """
    bits, size = node.attr("bits", 4), node.attr("block_size")
    k, count = node.attr("K"), node.attr("N")
    if bits not in (2, 4, 8):
        raise NotImplementedError(f"bits: expected 2, 4 or 8, got {bits}")
    if node.optional(4) is not None:
        raise NotImplementedError(
            "input 4, `g_idx`: expected none, got a permutation of the groups"
        )
    x = node.input(0)
    type_ = tensors.dtype_of(x)
    blocks = -(-k // size)
    packed = node.known(1)
    if packed.shape != (count, blocks, size * bits // 8) or packed.dtype != np.uint8:
        raise ValueError(
            f"input 1: expected {count} rows of {blocks} blocks of {size} elements, "
            f"got {packed.dtype} of shape {list(packed.shape)}"
        )
    weight = _unpacked(packed, bits, (count, blocks, size))
    blocked = AstypeOp(node.constant(weight), dtype=type_).y
    blocked = SubtractOp(blocked, _block_zero_points(node, bits, (count, blocks))).z
    scales = ReshapeOp(node.input(2), shape=(count, blocks, 1)).y
    whole = ReshapeOp(MultiplyOp(blocked, scales).z, shape=(count, blocks * size)).y
    if blocks * size != k:
        whole = StridedSliceOp(whole, axes=(1,), begin=(0,), end=(k,)).y
    y = DenseOp(x, whole).z
    if node.optional(5) is None:
        return y
    require_input_shape(node, 5, (count,))
    return AddOp(y, node.input(5)).z


def _block_zero_points(node: OnnxNode, bits: int, shape: tuple[int, int]) -> ir.Value:
    """Zero points per block; the middle of the range by default."""
    type_ = tensors.dtype_of(node.input(0))
    given = node.optional(3)
    if given is None:
        return node.constant(np.full((), 1 << (bits - 1)).astype(type_.numpy))
    if tensors.dtype_of(given).is_float:
        return ReshapeOp(given, shape=(*shape, 1)).y
    per_byte = 8 // bits
    packed = node.known(3).reshape(shape[0], -1)
    if packed.shape[1] != -(-shape[1] // per_byte):
        raise ValueError(
            f"input 3: expected {shape[0]} rows for {shape[1]} blocks, got shape "
            f"{list(node.known(3).shape)}"
        )
    whole = _unpacked(packed, bits, (shape[0], packed.shape[1] * per_byte))
    zeros = whole[:, : shape[1], None].astype(np.int32).astype(type_.numpy)
    return node.constant(zeros)


def _unpacked(packed: np.ndarray, bits: int, shape: tuple[int, ...]) -> np.ndarray:
    """Unpack sub-byte elements, low bits first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    parts = packed.reshape(-1, 1) >> shifts & np.uint8((1 << bits) - 1)
    return parts.reshape(shape).view(dtypes.dtype(f"uint{bits}").numpy)


def _transposed(node: OnnxNode, index: int, flag: str) -> ir.Value:
    """A matrix operand, transposed if the attribute ``flag`` is set."""
    value = node.input(index)
    if not node.flag(flag, default=False):
        return value
    known = node.constant_or_none(index)
    if known is not None and known.ndim == 2:  # stays a constant, so that its sums fold
        return node.constant(np.ascontiguousarray(known.T))
    return PermuteDimsOp(value, axes=(1, 0)).y


def _scaled(node: OnnxNode, x: ir.Value, scale: ir.Value, bias: int) -> ir.Value:
    """An i32 accumulator, dequantized, plus an optional bias."""
    y = MultiplyOp(AstypeOp(x, dtype=tensors.dtype_of(scale)).y, scale).z
    addend = node.optional(bias)
    return y if addend is None else AddOp(y, addend).z
