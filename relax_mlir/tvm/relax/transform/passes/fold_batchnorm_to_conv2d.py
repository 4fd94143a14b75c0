"""``relax-fold-batchnorm-to-conv2d``: folds batch normalization into conv2d weights."""

from dataclasses import dataclass

from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax.arithmetic import MultiplyOp
from relax_mlir.dialects.relax.batch_norm import BatchNormOp
from relax_mlir.dialects.relax.conv import Conv2dOp
from relax_mlir.dialects.relax.core import ConstantOp, TupleGetItemOp
from relax_mlir.ir import function_attributes
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import operations_of, own_operations
from relax_mlir.passes.relax.fold_batch_norm import (
    add_channel_shift,
    at_axis,
    channel_scale,
)
from relax_mlir.rewrite.functions import (
    bind_next_to,
    copy_script_attributes,
    graph_functions,
)
from relax_mlir.rewrite.patterns import Pass, erase, has_uses, replace

__all__ = ["FoldBatchnormToConv2d"]


@dataclass(frozen=True)
class FoldBatchnormToConv2d(Pass):
    """Folds a batch normalization into the weights of the preceding conv2d.

    Weights and moments must be constants; one addition remains. `FoldConstant` evaluates
    the arithmetic on constants. As in TVM, the moments are the moving ones even if
    ``training`` is set, and narrow types are not widened; `FoldBatchNorm` differs in both.
    """

    known_as = "FoldBatchnormToConv2D"

    def run(self, module: IRModule) -> None:
        for function in graph_functions(module):
            if function_attributes.is_primitive(function):
                continue
            for op in operations_of(function):
                if isinstance(op, TupleGetItemOp) and op.python_attrs()["index"] == 0:
                    _fold(op)


def _fold(op: TupleGetItemOp) -> None:
    norm = op.tuple_value.owner
    conv = norm.data.owner if isinstance(norm, BatchNormOp) else None
    if not isinstance(conv, Conv2dOp) or not _is_foldable(norm, conv):
        return
    before = set(own_operations(op.operation.block))
    with ir.InsertionPoint(op), op.location:
        result = _folded(norm, conv)
    for new in own_operations(op.operation.block):
        if new not in before and not isinstance(new, ConstantOp):
            bind_next_to(new, op)
    copy_script_attributes(op, result.owner.opview)
    replace(op, result)
    for unused in (norm, conv):
        if not has_uses(unused.operation.results[0]):
            erase(unused)


def _is_foldable(norm: BatchNormOp, conv: Conv2dOp) -> bool:
    operands = [conv.weight, norm.gamma, norm.beta, norm.moving_mean, norm.moving_var]
    channel = conv.layouts(conv.python_attrs()).out.order.index(1)
    is_channel = norm.axis.value % norm.data.type.rank == channel
    return is_channel and all(isinstance(v.owner, ConstantOp) for v in operands)


def _folded(norm: BatchNormOp, conv: Conv2dOp) -> ir.Value:
    """Emits the convolution with scaled weights, plus the bias."""
    attrs = conv.python_attrs()
    scale = channel_scale(norm, tensors.dtype_of(norm.data))
    axis = conv.layouts(attrs).kernel.order.index(0)
    scaled = MultiplyOp(conv.weight, at_axis(scale, axis, conv.weight.type.rank)).z
    convolved = Conv2dOp(conv.data, scaled, **attrs).y
    return add_channel_shift(norm, convolved, scale)
