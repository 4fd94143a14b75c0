"""``relax-fold-batchnorm-to-conv2d``: folds batch normalization into conv2d weights."""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax.batch_norm import BatchNormOp
from relax_mlir.dialects.relax.conv import Conv2dOp
from relax_mlir.dialects.relax.core import ConstantOp, RelaxOperation, TupleGetItemOp
from relax_mlir.ir import function_attributes
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import operations_of
from relax_mlir.rewrite.functions import (
    copy_script_attributes,
    emit_next_to,
    graph_functions,
)
from relax_mlir.rewrite.patterns import Pass, erase, has_uses, replace

__all__ = ["FoldBatchnormToConv2d"]

Kind = TypeVar("Kind", bound=RelaxOperation)

# Output channel axis of the weights: number of axes before, sizes of those after.
_CHANNEL_SHAPES = {"OIHW": (0, (1, 1, 1)), "IOHW": (1, (1, 1))}


@dataclass(frozen=True)
class FoldBatchnormToConv2d(Pass):
    """Folds a batch normalization into the weights of the preceding conv2d.

    Weights and moments must be constants; one addition remains. `FoldConstant` evaluates
    the arithmetic on constants.
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
    norm = _producer(op.tuple_value, BatchNormOp)
    conv = None if norm is None else _producer(norm.data, Conv2dOp)
    if norm is None or conv is None:
        return
    operands = [conv.weight, norm.gamma, norm.beta, norm.moving_mean, norm.moving_var]
    layout = conv.python_attrs()["kernel_layout"]
    if layout not in _CHANNEL_SHAPES or any(
        _producer(v, ConstantOp) is None for v in operands
    ):
        return
    with ir.InsertionPoint(op), op.location:
        result = _folded_conv(op, norm, conv, layout)
    copy_script_attributes(op, result.owner.opview)
    replace(op, result)
    for unused in (norm, conv):
        if not has_uses(unused.operation.results[0]):
            erase(unused)


def _producer(value: ir.Value, kind: type[Kind]) -> Kind | None:
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name == tensors.TUPLE_PACK:
        return None
    return owner.opview if isinstance(owner.opview, kind) else None


def _folded_conv(
    op: ir.OpView, norm: BatchNormOp, conv: Conv2dOp, layout: str
) -> ir.Value:
    """Returns the convolution with scaled weights, plus the bias."""
    dtype = tensors.dtype_of(norm.data)
    epsilon_array = np.array(norm.python_attrs()["epsilon"], dtype.numpy)
    epsilon = ConstantOp.of(epsilon_array, {}, "epsilon")
    deviation = emit_next_to(
        op, "sqrt", emit_next_to(op, "add", norm.moving_var, epsilon)
    )
    scale = emit_next_to(op, "divide", norm.gamma, deviation)
    shift = emit_next_to(
        op, "subtract", norm.beta, emit_next_to(op, "multiply", norm.moving_mean, scale)
    )
    (channels,) = tensors.shape_of(norm.gamma)
    before, after = _CHANNEL_SHAPES[layout]
    shape = (*([1] * before), channels, *after)
    weight = emit_next_to(
        op, "multiply", conv.weight, emit_next_to(op, "reshape", scale, shape=shape)
    )
    bias = emit_next_to(op, "reshape", shift, shape=(1, channels, 1, 1))
    convolved = emit_next_to(op, "nn.conv2d", conv.data, weight, **conv.python_attrs())
    return emit_next_to(op, "add", convolved, bias)
