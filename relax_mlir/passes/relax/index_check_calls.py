"""Lowering of index checks to runtime calls."""

import numpy as np
from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax.core import CallDpsPackedOp, ShapeToTensorOp
from relax_mlir.dialects.relax.index_check import CheckIndicesOp, describe_operand
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import operations_of
from relax_mlir.rewrite.functions import pooled_constant
from relax_mlir.rewrite.patterns import replace

__all__ = ["call_index_checks"]

_FUNCTION = "relax_mlir.check_indices"
_NO_LEAST, _NO_IGNORED = 1, 2  # bits of the runtime's mask of absent bounds


def call_index_checks(module: IRModule, function: func.FuncOp) -> None:
    """Replaces the index checks of a function by calls of the runtime.

    No pass removes or merges these calls. The result is the indices, so that users of the
    indices are ordered after the check.
    """
    for op in operations_of(function):
        if isinstance(op, CheckIndicesOp):
            _call(module, op)


def _call(module: IRModule, op: CheckIndicesOp) -> None:
    attrs = op.python_attrs()
    limits, least, ignored = (attrs[n] for n in ("limits", "least", "ignored"))
    missing = _NO_LEAST * (least is None) | _NO_IGNORED * (ignored is None)
    message = describe_operand(attrs["where"], attrs["operand"])
    with ir.InsertionPoint(op), op.location:
        if all(isinstance(limit, int) for limit in limits):
            sizes = pooled_constant(module, np.array(limits, np.int64), "index_limits")
        else:
            sizes = ShapeToTensorOp(dims=limits).y
        bounds = np.array([missing, least or 0, ignored or 0], np.int64)
        text = np.frombuffer(message.encode(), np.uint8)
        given = [
            op.indices,
            sizes,
            pooled_constant(module, bounds, "index_bounds"),
            pooled_constant(module, text, "index_message"),
        ]
        call = CallDpsPackedOp(
            tensors.pack_tuple(given), results=[op.y.type], callee=_FUNCTION
        )
    replace(op, call.result)
