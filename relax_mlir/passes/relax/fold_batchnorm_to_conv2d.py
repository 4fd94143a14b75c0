"""``relax-fold-batchnorm-to-conv2d``: a normalization with known numbers scales weights."""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax.batch_norm import BatchNormOp
from relax_mlir.dialects.relax.core import ConstantOp, RelaxOperation, TupleGetItemOp
from relax_mlir.graphs import (
    PACK,
    copy_script_attributes,
    emit,
    graph_functions,
    operations_of,
)
from relax_mlir.module import IRModule
from relax_mlir.objects.operators import operation_class
from relax_mlir.rewriting import Pass, erase, has_uses, replace

__all__ = ["FoldBatchnormToConv2d"]

Kind = TypeVar("Kind", bound=RelaxOperation)

# Where the channels of the result lie in the weights.
_CHANNEL_SHAPES = {"OIHW": (0, (1, 1, 1)), "IOHW": (1, (1, 1))}


@dataclass(frozen=True)
class FoldBatchnormToConv2d(Pass):
    """Scale the weights of a convolution as the batch normalization after it does.

    Weights and moments are constants; what remains of the normalization is one addition.
    The arithmetic on constants stays for `FoldConstant`.
    """

    known_as = "FoldBatchnormToConv2D"

    def run(self, module: IRModule) -> None:
        for function in graph_functions(module):
            if "relax.primitive" in function.attributes:
                continue
            for op in operations_of(function):
                if isinstance(op, TupleGetItemOp) and op.python_attrs()["index"] == 0:
                    _fold(op)


def _fold(op: TupleGetItemOp) -> None:
    norm = _made_by(op.tuple_value, BatchNormOp)
    kind = operation_class("relax.nn.conv2d")
    assert kind is not None
    conv = None if norm is None else _made_by(norm.data, kind)
    if norm is None or conv is None:
        return
    known = [conv.weight, norm.gamma, norm.beta, norm.moving_mean, norm.moving_var]
    layout = conv.python_attrs()["kernel_layout"]
    if layout not in _CHANNEL_SHAPES or any(
        _made_by(v, ConstantOp) is None for v in known
    ):
        return
    with ir.InsertionPoint(op), op.location:
        result = _scaled(op, norm, conv, layout)
    copy_script_attributes(op, result.owner.opview)
    replace(op, result)
    for unused in (norm, conv):
        if not has_uses(unused.operation.results[0]):
            erase(unused)


def _made_by(value: ir.Value, kind: type[Kind]) -> Kind | None:
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name == PACK:
        return None
    return owner.opview if isinstance(owner.opview, kind) else None


def _scaled(
    op: ir.OpView, norm: BatchNormOp, conv: RelaxOperation, layout: str
) -> ir.Value:
    """The convolution with scaled weights, and what is added."""
    dtype = tensors.dtype_of(norm.data)
    number = np.array(norm.python_attrs()["epsilon"], dtype.numpy)
    epsilon = ConstantOp.of(number, {}, "epsilon")
    deviation = emit(op, "sqrt", emit(op, "add", norm.moving_var, epsilon))
    scale = emit(op, "divide", norm.gamma, deviation)
    shift = emit(
        op, "subtract", norm.beta, emit(op, "multiply", norm.moving_mean, scale)
    )
    (channels,) = tensors.shape_of(norm.gamma)
    before, after = _CHANNEL_SHAPES[layout]
    shape = (*([1] * before), channels, *after)
    weight = emit(op, "multiply", conv.weight, emit(op, "reshape", scale, shape=shape))
    added = emit(op, "reshape", shift, shape=(1, channels, 1, 1))
    convolved = emit(op, "nn.conv2d", conv.data, weight, **conv.python_attrs())
    return emit(op, "add", convolved, added)
