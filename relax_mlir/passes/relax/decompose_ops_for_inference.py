"""``relax-decompose-ops-for-inference``: operators that training alone needs go apart."""

from dataclasses import dataclass

import numpy as np
from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax.batch_norm import BatchNormOp
from relax_mlir.dialects.relax.core import ConstantOp
from relax_mlir.graphs import (
    copy_script_attributes,
    emit,
    graph_functions,
    operations_of,
)
from relax_mlir.module import IRModule
from relax_mlir.rewriting import Pass, replace

__all__ = ["DecomposeOpsForInference", "normalized_by_moments"]


@dataclass(frozen=True)
class DecomposeOpsForInference(Pass):
    """Write a batch normalization as arithmetic on its moving mean and variance.

    Args:
        func_name: the function; all if it is left out.
    """

    func_name: str | None = None

    def run(self, module: IRModule) -> None:
        for function in graph_functions(module):
            if self.func_name not in (None, function.name.value):
                continue
            for op in operations_of(function):
                if isinstance(op, BatchNormOp):
                    _decompose(op)


def _decompose(op: BatchNormOp) -> None:
    with ir.InsertionPoint(op), op.location:
        result = normalized_by_moments(op, op.moving_mean, op.moving_var)
        whole = tensors.pack([result, op.moving_mean, op.moving_var])
    copy_script_attributes(op, whole.owner.opview)
    replace(op, whole)


def normalized_by_moments(
    op: BatchNormOp, mean: ir.Value, variance: ir.Value
) -> ir.Value:
    """What a batch normalization gives for a mean and a variance."""
    attrs = op.python_attrs()
    rank = ir.RankedTensorType(op.data.type).rank
    axis = attrs["axis"] % rank
    others = [i for i in range(rank) if i != axis]
    dtype = tensors.dtype_of(op.data)

    def spread(value: ir.Value) -> ir.Value:
        return emit(op, "expand_dims", value, axis=others)

    centred = emit(op, "subtract", op.data, spread(mean))
    wide = spread(variance)
    epsilon = ConstantOp.of(np.array(attrs["epsilon"], dtype.numpy), {}, "epsilon")
    deviation = emit(op, "sqrt", emit(op, "add", wide, epsilon))
    result = emit(op, "divide", centred, deviation)
    if attrs["scale"]:
        result = emit(op, "multiply", result, spread(op.gamma))
    if attrs["center"]:
        result = emit(op, "add", result, spread(op.beta))
    return result
