"""``relax-decompose-ops-for-inference``: decomposes batch normalization."""

from dataclasses import dataclass

import numpy as np
from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax.batch_norm import BatchNormOp
from relax_mlir.dialects.relax.core import ConstantOp
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import operations_of
from relax_mlir.rewrite.functions import (
    copy_script_attributes,
    emit_next_to,
    graph_functions,
)
from relax_mlir.rewrite.patterns import Pass, replace

__all__ = ["DecomposeOpsForInference", "normalized_by_moments"]


@dataclass(frozen=True)
class DecomposeOpsForInference(Pass):
    """Decomposes batch normalization into arithmetic on its moving moments.

    Args:
        func_name: the function; all by default.
    """

    func_name: str | None = None

    def run(self, module: IRModule) -> None:
        for function in graph_functions(module):
            if self.func_name not in (None, function.name.value):
                continue
            for op in operations_of(function):
                if isinstance(op, BatchNormOp):
                    _decompose_batch_norm(op)


def _decompose_batch_norm(op: BatchNormOp) -> None:
    with ir.InsertionPoint(op), op.location:
        result = normalized_by_moments(op, op.moving_mean, op.moving_var)
        results = tensors.pack_tuple([result, op.moving_mean, op.moving_var])
    copy_script_attributes(op, results.owner.opview)
    replace(op, results)


def normalized_by_moments(
    op: BatchNormOp, mean: ir.Value, variance: ir.Value
) -> ir.Value:
    """Returns the normalized data for a mean and a variance."""
    attrs = op.python_attrs()
    rank = ir.RankedTensorType(op.data.type).rank
    axis = attrs["axis"] % rank
    others = [i for i in range(rank) if i != axis]
    dtype = tensors.dtype_of(op.data)

    def expand_to_rank(value: ir.Value) -> ir.Value:
        return emit_next_to(op, "expand_dims", value, axis=others)

    centered = emit_next_to(op, "subtract", op.data, expand_to_rank(mean))
    expanded_variance = expand_to_rank(variance)
    epsilon = ConstantOp.of(np.array(attrs["epsilon"], dtype.numpy), {}, "epsilon")
    deviation = emit_next_to(
        op, "sqrt", emit_next_to(op, "add", expanded_variance, epsilon)
    )
    result = emit_next_to(op, "divide", centered, deviation)
    if attrs["scale"]:
        result = emit_next_to(op, "multiply", result, expand_to_rank(op.gamma))
    if attrs["center"]:
        result = emit_next_to(op, "add", result, expand_to_rank(op.beta))
    return result
