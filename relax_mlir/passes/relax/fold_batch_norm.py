"""``relax-fold-batch-norm``: inference batch normalisation folded into convolution weights."""

from dataclasses import dataclass

from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.dtypes import DType, dtype
from relax_mlir.dialects.relax.arithmetic import AddOp, DivideOp, MultiplyOp, SubtractOp
from relax_mlir.dialects.relax.batch_norm import BatchNormOp
from relax_mlir.dialects.relax.cast import AstypeOp
from relax_mlir.dialects.relax.conv import ConvOp
from relax_mlir.dialects.relax.core import ConstantOp, TupleGetItemOp
from relax_mlir.dialects.relax.exp_log import SqrtOp
from relax_mlir.dialects.relax.manipulate import ReshapeOp
from relax_mlir.dialects.shapes import Dim
from relax_mlir.ir.module import IRModule
from relax_mlir.objects.effects import EffectAnalysis
from relax_mlir.rewrite.patterns import (
    Pass,
    erase_dead,
    has_one_use,
    pattern,
    rewrite_greedily,
)

__all__ = ["FoldBatchNorm", "add_channel_shift", "at_axis", "channel_scale"]

_F32 = dtype("float32")
_MOST_OPERATIONS = 64  # visited between a value and the constants it is computed from


@dataclass(frozen=True)
class FoldBatchNorm(Pass):
    """Fold batch normalisation and constant scales and shifts into the preceding convolution.

    Batch normalisation becomes a scale and a shift, computed in f32 for narrower types, since
    they apply to f32 accumulators. After a convolution, scales move before shifts and into
    the weights, and consecutive shifts are added; elsewhere the order of additions and
    multiplications stays, because the model may rely on its rounding. The remaining
    arithmetic is on constants, for ``relax-fold-constants``.
    """

    def run(self, module: IRModule) -> None:
        changed = True
        while changed:  # dead operations would count as further users of convolutions
            changed = rewrite_greedily(module, *_PATTERNS, rounds=1)
            effects = EffectAnalysis(module.mlir.operation)
            for function in module.func_ops():
                for block in function.regions[0].blocks:
                    erase_dead(block, effects.is_computation)


@pattern
def _expand_batch_norm(op: TupleGetItemOp) -> ir.Value | None:
    """gamma * (x - mean) / sqrt(var + epsilon) + beta as x * scale + shift."""
    norm = op.tuple_value.owner
    if not isinstance(norm, BatchNormOp) or op.index.value != 0:
        return None
    attrs = norm.python_attrs()
    statistics = (norm.gamma, norm.beta, norm.moving_mean, norm.moving_var)
    if attrs["training"] or not all(_is_constant_expression(v) for v in statistics):
        return None
    dtype_ = tensors.dtype_of(norm.moving_var)
    if dtype_ != tensors.dtype_of(norm.data):
        return None
    wide = dtype_ if dtype_.bits >= _F32.bits else _F32
    scale = channel_scale(norm, wide)
    is_alone = has_one_use(norm.operation.results[0])
    data = _widened(norm.data, wide, is_alone=is_alone)
    scaled = MultiplyOp(data, _at_channels(scale, norm)).z
    made = add_channel_shift(norm, scaled, scale)
    return made if wide == dtype_ else AstypeOp(made, dtype=dtype_).y


def channel_scale(norm: BatchNormOp, wide: DType) -> ir.Value:
    """Emits gamma / sqrt(var + epsilon), by which a normalisation scales each channel.

    Args:
        norm: the normalisation, with moving statistics.
        wide: the type to compute it in.

    Shapes:
        result: [channels]
    """
    attrs = norm.python_attrs()
    gamma, variance = _widened(norm.gamma, wide), _widened(norm.moving_var, wide)
    root = SqrtOp(AddOp(variance, ConstantOp.scalar(attrs["epsilon"], wide)).z).y
    return DivideOp(gamma if attrs["scale"] else ConstantOp.scalar(1.0, wide), root).z


def add_channel_shift(norm: BatchNormOp, scaled: ir.Value, scale: ir.Value) -> ir.Value:
    """Emits the rest of a normalisation of scaled data: + beta - mean * scale."""
    wide = tensors.dtype_of(scale)
    shift = MultiplyOp(_widened(norm.moving_mean, wide), scale).z
    if not norm.python_attrs()["center"]:
        return SubtractOp(scaled, _at_channels(shift, norm)).z
    beta = _widened(norm.beta, wide)
    return AddOp(scaled, _at_channels(SubtractOp(beta, shift).z, norm)).z


def _widened(value: ir.Value, to: DType, *, is_alone: bool = True) -> ir.Value:
    """A value in a wider type; a convolution returns its accumulator without rounding it.

    Args:
        is_alone: whether the only user of the value is being replaced.
    """
    if tensors.dtype_of(value) == to:
        return value
    owner = value.owner
    if isinstance(owner, ConvOp) and is_alone and has_one_use(value):
        attrs = {**owner.python_attrs(), "out_dtype": to}
        return type(owner)(owner.data, owner.weight, **attrs).y
    return AstypeOp(value, dtype=to).y


def _at_channels(numbers: ir.Value, norm: BatchNormOp) -> ir.Value:
    """A vector over channels, reshaped to broadcast against the normalised tensor."""
    rank = norm.data.type.rank
    return at_axis(numbers, norm.axis.value % rank, rank)


def at_axis(numbers: ir.Value, axis: int, rank: int) -> ir.Value:
    """Emits the reshape of a vector to the shape [1, ..., n, ..., 1], with n at ``axis``."""
    (count,) = tensors.shape_of(numbers)
    shape = [count if i == axis else 1 for i in range(rank)]
    return ReshapeOp(numbers, shape=shape).y


@pattern
def _scale_weights(op: MultiplyOp) -> ir.Value | None:
    """conv(x, w) * c is conv(x, w * c) for one scale per output channel."""
    for conv, scale in ((op.x1, op.x2), (op.x2, op.x1)):
        owner = conv.owner
        if not isinstance(owner, ConvOp) or not _is_constant_expression(owner.weight):
            continue
        element = tensors.dtype_of(conv)
        if element.bits < 32 or tensors.dtype_of(owner.weight) != element:
            continue  # scaled 16-bit weights would be rounded a second time
        if not _is_constant_expression(scale) or not has_one_use(conv):
            continue
        shape = _channel_shape(scale, owner)
        if shape is None:
            continue
        weight = MultiplyOp(owner.weight, ReshapeOp(scale, shape=shape).y).z
        return type(owner)(owner.data, weight, **owner.python_attrs()).y
    return None


def _channel_shape(scale: ir.Value, conv: ConvOp) -> list[Dim] | None:
    """The scale's shape for broadcasting with the weight, if it is one value per output channel."""
    shape = tensors.shape_of(scale)
    weight = tensors.shape_of(conv.weight)
    rank = len(weight)
    padded = (1,) * (rank - len(shape)) + shape
    layouts = conv.layouts(conv.python_attrs())
    channel, out_axis = layouts.out.order.index(1), layouts.kernel.order.index(0)
    if len(padded) != rank or any(d != 1 for i, d in enumerate(padded) if i != channel):
        return None
    if padded[channel] not in (1, weight[out_axis]):
        return None
    return [padded[channel] if i == out_axis else 1 for i in range(rank)]


@pattern
def _scale_before_shift(op: MultiplyOp) -> ir.Value | None:
    """(y + a) * b is y * b + a * b for a convolution y, constants a, b."""
    for total, scale in ((op.x1, op.x2), (op.x2, op.x1)):
        shifted = _match_shifted_conv(total)
        if shifted is None or not _is_constant_expression(scale):
            continue
        y, shift = shifted
        if y.type != op.z.type:
            return None
        return AddOp(MultiplyOp(y, scale).z, MultiplyOp(shift, scale).z).z
    return None


@pattern
def _join_shifts(op: AddOp) -> ir.Value | None:
    """(y + a) + b is y + (a + b) for a convolution y, constants a, b."""
    for total, other in ((op.x1, op.x2), (op.x2, op.x1)):
        shifted = _match_shifted_conv(total)
        if shifted is not None and _is_constant_expression(other):
            y, shift = shifted
            if y.type != op.z.type:
                return None
            return AddOp(y, AddOp(shift, other).z).z
    return None


_PATTERNS = (_expand_batch_norm, _scale_weights, _scale_before_shift, _join_shifts)


def _match_shifted_conv(value: ir.Value) -> tuple[ir.Value, ir.Value] | None:
    """``y`` and ``shift``, if ``value`` is convolution ``y`` + constant ``shift``, used once."""
    owner = value.owner
    if not isinstance(owner, AddOp) or not has_one_use(value):
        return None
    for y, shift in ((owner.x1, owner.x2), (owner.x2, owner.x1)):
        if isinstance(y.owner, ConvOp) and _is_constant_expression(shift):
            return y, shift
    return None


def _is_constant_expression(value: ir.Value) -> bool:
    """Whether a value is computed from constants alone, by a bounded number of operations."""
    waiting, seen = [value], {value}
    while waiting:
        owner = waiting.pop().owner
        if isinstance(owner, ConstantOp):
            continue
        if isinstance(owner, ir.Block) or not owner.name.startswith("relax."):
            return False
        operands = list(owner.operands)
        waiting += [v for v in operands if v not in seen]
        seen.update(operands)
        if not operands or len(seen) > _MOST_OPERATIONS:
            return False
    return True
