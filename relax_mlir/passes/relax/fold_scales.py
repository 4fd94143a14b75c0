"""``relax-fold-scales``: normalisation with known statistics goes into the weights."""

from dataclasses import dataclass

from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.dtypes import DType, dtype
from relax_mlir.dialects.relax.arithmetic import AddOp, DivideOp, MultiplyOp, SubtractOp
from relax_mlir.dialects.relax.batch_norm import BatchNormOp
from relax_mlir.dialects.relax.cast import AstypeOp
from relax_mlir.dialects.relax.conv import ConvOp
from relax_mlir.dialects.relax.core import ConstantOp, TupleGetItemOp
from relax_mlir.dialects.relax.exponential import SqrtOp
from relax_mlir.dialects.relax.movement import ReshapeOp
from relax_mlir.dialects.shapes import Dim
from relax_mlir.module import IRModule
from relax_mlir.objects.effects import EffectAnalysis
from relax_mlir.rewriting import (
    Pass,
    erase_dead,
    is_read_once,
    pattern,
    rewrite_greedily,
)

__all__ = ["FoldScales"]

_F32 = dtype("float32")
_MOST_OPERATIONS = 64  # between a scale and the constants that it is made of


@dataclass(frozen=True)
class FoldScales(Pass):
    """Move scales and shifts by constants into the weights of the convolution before.

    Batch normalisation becomes a scale and a shift, in f32 for numbers of fewer bits, as
    they follow sums that are so. After a convolution, scales move in front of shifts and
    into the weights, and shifts join; elsewhere the order of sums and products stays,
    because it may be there for its rounding. What is left to compute is on constants, for
    ``relax-fold-constants``.
    """

    def run(self, module: IRModule) -> None:
        changed = True
        while changed:  # what is replaced would keep convolutions from being read once
            changed = rewrite_greedily(module, *_PATTERNS, rounds=1)
            effects = EffectAnalysis(module.mlir.operation)
            for function in module.func_ops():
                for block in function.regions[0].blocks:
                    erase_dead(block, effects.is_computation)


@pattern
def _expand_batch_norm(op: TupleGetItemOp) -> ir.Value | None:
    """gamma * (x - mean) / sqrt(var + epsilon) + beta as x * factor + shift."""
    norm = op.tuple_value.owner
    if not isinstance(norm, BatchNormOp) or op.index.value != 0:
        return None
    attrs = norm.python_attrs()
    known = (norm.gamma, norm.beta, norm.moving_mean, norm.moving_var)
    if attrs["training"] or not all(_is_of_constants(v) for v in known):
        return None
    kind = tensors.dtype_of(norm.moving_var)
    if kind != tensors.dtype_of(norm.data):
        return None
    wide = kind if kind.bits >= _F32.bits else _F32
    gamma, beta, mean, variance = (_widened(v, wide) for v in known)
    root = SqrtOp(AddOp(variance, ConstantOp.scalar(attrs["epsilon"], wide)).z).y
    factor = DivideOp(gamma if attrs["scale"] else ConstantOp.scalar(1.0, wide), root).z
    is_alone = is_read_once(norm.operation.results[0])
    data = _widened(norm.data, wide, is_alone=is_alone)
    scaled = MultiplyOp(data, _at_channels(factor, norm)).z
    shift = MultiplyOp(mean, factor).z
    if attrs["center"]:
        made = AddOp(scaled, _at_channels(SubtractOp(beta, shift).z, norm)).z
    else:
        made = SubtractOp(scaled, _at_channels(shift, norm)).z
    return made if wide == kind else AstypeOp(made, dtype=kind).y


def _widened(value: ir.Value, to: DType, *, is_alone: bool = True) -> ir.Value:
    """A value in a type of more bits: sums of products as they are before they are rounded.

    Args:
        is_alone: whether what reads it goes.
    """
    if tensors.dtype_of(value) == to:
        return value
    owner = value.owner
    if isinstance(owner, ConvOp) and is_alone and is_read_once(value):
        attrs = {**owner.python_attrs(), "out_dtype": to}
        return type(owner)(owner.data, owner.weight, **attrs).y
    return AstypeOp(value, dtype=to).y


def _at_channels(numbers: ir.Value, norm: BatchNormOp) -> ir.Value:
    """A number per channel, in a shape that broadcasts to what is normalised."""
    (channels,), rank = tensors.shape_of(numbers), norm.data.type.rank
    axis = norm.axis.value % rank
    shape = [channels if i == axis else 1 for i in range(rank)]
    return ReshapeOp(numbers, shape=shape).y


@pattern
def _scale_weights(op: MultiplyOp) -> ir.Value | None:
    """conv(x, w) * c is conv(x, w * c) for one factor per output channel."""
    for conv, factor in ((op.x1, op.x2), (op.x2, op.x1)):
        owner = conv.owner
        if not isinstance(owner, ConvOp) or not _is_of_constants(owner.weight):
            continue
        element = tensors.dtype_of(conv)
        if element.bits < 32 or tensors.dtype_of(owner.weight) != element:
            continue  # the weights have no room: they would be rounded once more
        if not _is_of_constants(factor) or not is_read_once(conv):
            continue
        shape = _channel_shape(factor, owner)
        if shape is None:
            continue
        weight = MultiplyOp(owner.weight, ReshapeOp(factor, shape=shape).y).z
        return type(owner)(owner.data, weight, **owner.python_attrs()).y
    return None


def _channel_shape(factor: ir.Value, conv: ConvOp) -> list[Dim] | None:
    """The factor's shape next to the weight, if it is one number per output channel."""
    shape = tensors.shape_of(factor)
    weight = tensors.shape_of(conv.weight)
    rank = len(weight)
    padded = (1,) * (rank - len(shape)) + shape
    layouts = conv.layouts(conv.python_attrs())
    channel, own = layouts.out.order.index(1), layouts.kernel.order.index(0)
    if len(padded) != rank or any(d != 1 for i, d in enumerate(padded) if i != channel):
        return None
    if padded[channel] not in (1, weight[own]):
        return None
    return [padded[channel] if i == own else 1 for i in range(rank)]


@pattern
def _scale_before_shift(op: MultiplyOp) -> ir.Value | None:
    """(y + a) * b is y * b + a * b for a convolution y, constants a, b."""
    for total, factor in ((op.x1, op.x2), (op.x2, op.x1)):
        shifted = _shifted(total)
        if shifted is None or not _is_of_constants(factor):
            continue
        y, shift = shifted
        if y.type != op.z.type:
            return None
        return AddOp(MultiplyOp(y, factor).z, MultiplyOp(shift, factor).z).z
    return None


@pattern
def _join_shifts(op: AddOp) -> ir.Value | None:
    """(y + a) + b is y + (a + b) for a convolution y, constants a, b."""
    for total, other in ((op.x1, op.x2), (op.x2, op.x1)):
        shifted = _shifted(total)
        if shifted is not None and _is_of_constants(other):
            y, shift = shifted
            if y.type != op.z.type:
                return None
            return AddOp(y, AddOp(shift, other).z).z
    return None


_PATTERNS = (_expand_batch_norm, _scale_weights, _scale_before_shift, _join_shifts)


def _shifted(value: ir.Value) -> tuple[ir.Value, ir.Value] | None:
    """``y`` and the constant, if ``value`` is convolution + constant and read once."""
    owner = value.owner
    if not isinstance(owner, AddOp) or not is_read_once(value):
        return None
    for y, shift in ((owner.x1, owner.x2), (owner.x2, owner.x1)):
        if isinstance(y.owner, ConvOp) and _is_of_constants(shift):
            return y, shift
    return None


def _is_of_constants(value: ir.Value) -> bool:
    """Whether a value depends on constants alone, as far as one looks."""
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
