"""``relax-fold-scales``: normalisation with known statistics goes into the weights."""

from dataclasses import dataclass

from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax.arithmetic import AddOp, DivideOp, MultiplyOp, SubtractOp
from relax_mlir.dialects.relax.conv import ConvOp
from relax_mlir.dialects.relax.core import ConstantOp
from relax_mlir.dialects.relax.exponential import SqrtOp
from relax_mlir.dialects.relax.movement import ReshapeOp
from relax_mlir.dialects.relax.norm import BatchNormOp
from relax_mlir.dialects.shapes import Dim
from relax_mlir.module import IRModule
from relax_mlir.passes.relax.simplify import is_pure
from relax_mlir.rewriting import Pass, erase_dead, pattern, rewrite_greedily

__all__ = ["FoldScales"]


@dataclass(frozen=True)
class FoldScales(Pass):
    """Move scales and shifts by constants into the weights of the convolution before.

    Batch normalisation becomes a scale and a shift. After a convolution, scales move in
    front of shifts and into the weights, and shifts join; elsewhere the order of sums and
    products stays, because it may be there for its rounding. What is left to compute is on
    constants, for ``relax-fold-constants``.
    """

    def run(self, module: IRModule) -> None:
        changed = True
        while changed:  # what is replaced would keep convolutions from being read once
            changed = rewrite_greedily(module, *_PATTERNS, rounds=1)
            for function in module.functions():
                for block in function.regions[0].blocks:
                    erase_dead(block, is_pure)


@pattern
def _expand_batch_norm(op: BatchNormOp) -> ir.Value | None:
    """scale * (x - mean) / sqrt(var + epsilon) + bias as x * factor + shift."""
    if not all(_is_constant(v) for v in (op.scale, op.bias, op.mean, op.var)):
        return None
    dtype = tensors.dtype_of(op.var)
    if dtype != tensors.dtype_of(op.x) or dtype.bits < 32:
        return None
    epsilon = ConstantOp.scalar(op.python_attrs()["epsilon"], dtype)
    factor = DivideOp(op.scale, SqrtOp(AddOp(op.var, epsilon).z).y).z
    shift = SubtractOp(op.bias, MultiplyOp(op.mean, factor).z).z
    shape = [-1 if i == 1 else 1 for i in range(op.x.type.rank)]
    channels = tensors.shape_of(op.scale)[0]
    shape = [channels if s == -1 else 1 for s in shape]
    scaled = MultiplyOp(op.x, ReshapeOp(factor, shape=shape).y).z
    return AddOp(scaled, ReshapeOp(shift, shape=shape).y).z


@pattern
def _scale_weights(op: MultiplyOp) -> ir.Value | None:
    """conv(x, w) * c is conv(x, w * c) for one factor per output channel."""
    for conv, factor in ((op.x, op.y), (op.y, op.x)):
        owner = conv.owner
        if not isinstance(owner, ConvOp) or not _is_constant(owner.weight):
            continue
        if (
            tensors.dtype_of(conv).bits < 32
        ):  # rounding the weights once more would show
            continue
        if not _is_constant(factor) or not _is_read_once(conv):
            continue
        shape = _channel_shape(factor, owner)
        if shape is None:
            continue
        weight = MultiplyOp(owner.weight, ReshapeOp(factor, shape=shape).y).z
        return ConvOp(owner.x, weight, **owner.python_attrs()).y
    return None


def _channel_shape(factor: ir.Value, conv: ConvOp) -> list[Dim] | None:
    """The factor's shape next to the weight, if it is one number per output channel."""
    shape = tensors.shape_of(factor)
    weight = tensors.shape_of(conv.weight)
    rank = len(weight)
    padded = (1,) * (rank - len(shape)) + shape
    if len(padded) != rank or any(d != 1 for i, d in enumerate(padded) if i != 1):
        return None
    if padded[1] not in (1, weight[0]):
        return None
    return [padded[1], *[1] * (rank - 1)]


@pattern
def _scale_before_shift(op: MultiplyOp) -> ir.Value | None:
    """(y + a) * b is y * b + a * b for a convolution y, constants a, b."""
    for total, factor in ((op.x, op.y), (op.y, op.x)):
        shifted = _shifted(total)
        if shifted is None or not _is_constant(factor):
            continue
        y, shift = shifted
        if y.type != op.z.type:
            return None
        return AddOp(MultiplyOp(y, factor).z, MultiplyOp(shift, factor).z).z
    return None


@pattern
def _join_shifts(op: AddOp) -> ir.Value | None:
    """(y + a) + b is y + (a + b) for a convolution y, constants a, b."""
    for total, other in ((op.x, op.y), (op.y, op.x)):
        shifted = _shifted(total)
        if shifted is not None and _is_constant(other):
            y, shift = shifted
            if y.type != op.z.type:
                return None
            return AddOp(y, AddOp(shift, other).z).z
    return None


_PATTERNS = (_expand_batch_norm, _scale_weights, _scale_before_shift, _join_shifts)


def _shifted(value: ir.Value) -> tuple[ir.Value, ir.Value] | None:
    """``y`` and the constant, if ``value`` is convolution + constant and read once."""
    owner = value.owner
    if not isinstance(owner, AddOp) or not _is_read_once(value):
        return None
    for y, shift in ((owner.x, owner.y), (owner.y, owner.x)):
        if _is_constant(shift) and isinstance(y.owner, ConvOp):
            return y, shift
    return None


def _is_constant(value: ir.Value) -> bool:
    """Whether a value depends on constants alone."""
    owner = value.owner
    if isinstance(owner, ir.Block) or not owner.name.startswith("relax."):
        return False
    if isinstance(owner, ConstantOp):
        return True
    return bool(list(owner.operands)) and all(_is_constant(v) for v in owner.operands)


def _is_read_once(value: ir.Value) -> bool:
    return len(list(value.uses)) == 1
