"""``ReorderTakeAfterMatmul``: moves ``take`` from a matmul operand to its result."""

from __future__ import annotations

from dataclasses import dataclass

from relax_mlir.objects.expr import Call, Expr, ShapeExpr, Tuple
from relax_mlir.objects.expr.struct_info import TensorStructInfo
from relax_mlir.objects.function import Function
from relax_mlir.tvm.relax import op
from relax_mlir.tvm.relax.dpl import is_op, wildcard
from relax_mlir.tvm.relax.dpl.structure import DFPattern
from relax_mlir.tvm.relax.transform.function_rewriting import (
    FunctionRewriting,
    PatternMatches,
    PatternRewriter,
    shape_of,
)

__all__ = ["ReorderTakeAfterMatmul"]


@dataclass(frozen=True)
class ReorderTakeAfterMatmul(FunctionRewriting):
    """Multiplies by the whole weight table, then takes from the result.

    Applies to columns of one matrix (``take`` along its last axis), and to one matrix of
    several per batch element.
    """

    def rule(self, function: Function) -> tuple[DFPattern, PatternRewriter]:
        """Matches a matmul with taken weights; takes from the result instead."""
        x, table, indices = wildcard(), wildcard(), wildcard()
        taken = is_op("relax.take")(table, indices)
        matmul = is_op("relax.matmul")(x, taken)

        def reordered(expr: Expr, matches: PatternMatches) -> Expr:
            take = matches[taken]
            assert isinstance(take, Call)
            axis = take.attrs["axis"]
            operands = matches[x], matches[table], matches[indices]
            ranks = [_rank(part) for part in (*operands, expr)]
            if axis is None or -1 in ranks or ranks[2] != 1:
                return expr
            if axis + 1 == ranks[1]:
                out = op.matmul(operands[0], operands[1])
                return op.take(out, operands[2], axis=ranks[3] - 1)
            if axis == 0 and ranks[:2] == [3, 3]:
                return _matrix_per_element(*operands) or expr
            return expr

        return matmul, reordered


def _rank(expr: Expr) -> int:
    info = expr.struct_info_or_none()
    return info.ndim if isinstance(info, TensorStructInfo) else -1


def _matrix_per_element(x: Expr, table: Expr, indices: Expr) -> Expr | None:
    """Computes ``x[i] @ table[indices[i]]`` as a part of the matmul with all matrices.

    Shapes:
        x: [batch, rows, k]; table: [count, k, columns]; indices: [batch].
    """
    sizes, matrices = shape_of(x), shape_of(table)
    if sizes is None or matrices is None:
        return None
    batch, rows, _ = sizes
    count, k, columns = matrices
    stacked = op.permute_dims(table, [1, 0, 2])
    weights = op.reshape(stacked, ShapeExpr([k, count * columns]))
    matmul = op.matmul(x, weights)
    unstacked = op.reshape(matmul, ShapeExpr([batch, rows, count, columns]))
    return op.einsum(Tuple([op.take(unstacked, indices, axis=2)]), "ijik->ijk")
