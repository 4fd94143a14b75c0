"""Range checks of index operands, for operators that do not check them themselves."""

from mlir import ir

from relax_mlir.dialects.op_interface import OnnxNode
from relax_mlir.dialects.relax.index_check import CheckIndicesOp
from relax_mlir.dialects.shapes import Dim

__all__ = ["checked_indices"]


def checked_indices(
    node: OnnxNode, indices: ir.Value, operand: str, limit: Dim
) -> ir.Value:
    """Indices checked at run time to be in [0, limit); optional, see ``check_indices``.

    Args:
        node: the node that reads them.
        indices: an operand, or a value computed from it.
        operand: the operand's name in the node's schema.
        limit: the exclusive upper bound.
    """
    where = f"`{node.name}` ({node.op_type})"
    return CheckIndicesOp(
        indices, limits=(limit,), least=0, where=where, operand=operand
    ).y
