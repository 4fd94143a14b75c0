"""Operands that hold indices, where no operator that reads them says their range."""

from mlir import ir

from relax_mlir.dialects.hooks import OnnxNode
from relax_mlir.dialects.relax.index_check import CheckIndicesOp
from relax_mlir.dialects.shapes import Dim

__all__ = ["checked"]


def checked(node: OnnxNode, indices: ir.Value, operand: str, limit: Dim) -> ir.Value:
    """Indices from 0 to below a limit; models that do not check indices drop the check.

    Args:
        node: that reads them.
        indices: an operand, or what is computed from it.
        operand: what the node's schema calls it.
        limit: one more than the largest index.
    """
    where = f"`{node.name}` ({node.op_type})"
    return CheckIndicesOp(
        indices, limits=(limit,), least=0, where=where, operand=operand
    ).y
