"""Checks of indices as calls of the runtime."""

import numpy as np
from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax.core import CallDpsPackedOp, ShapeToTensorOp
from relax_mlir.dialects.relax.index_check import CheckIndicesOp, describe_operand
from relax_mlir.graphs import constant, operations_of
from relax_mlir.module import IRModule
from relax_mlir.rewriting import replace

__all__ = ["call_index_checks"]

_FUNCTION = "relax_mlir.check_indices"
_NO_LEAST, _NO_IGNORED = 1, 2  # what is left out, as the runtime knows it


def call_index_checks(module: IRModule, function: func.FuncOp) -> None:
    """Put calls of the runtime in place of the checks in a function.

    They stay: passes of the compiler neither drop nor merge calls of functions. The
    result is the indices, so that what reads them comes after the check.
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
            sizes = constant(module, np.array(limits, np.int64), "index_limits")
        else:
            sizes = ShapeToTensorOp(dims=limits).y
        bounds = np.array([missing, least or 0, ignored or 0], np.int64)
        text = np.frombuffer(message.encode(), np.uint8)
        given = [
            op.indices,
            sizes,
            constant(module, bounds, "index_bounds"),
            constant(module, text, "index_message"),
        ]
        call = CallDpsPackedOp(
            tensors.pack(given), results=[op.y.type], callee=_FUNCTION
        )
    replace(op, call.result)
