"""Matmuls by registered library functions (``tvm.contrib.cblas``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from relax_mlir.objects.prim import PrimExpr
from relax_mlir.support.argument_types import of_rank
from relax_mlir.tvm.script.tir_calls import call_packed
from relax_mlir.tvm.te.extern import extern
from relax_mlir.tvm.te.tensor import Tensor

__all__ = ["batch_matmul", "matmul"]


def matmul(
    lhs: Tensor, rhs: Tensor, transa: bool = False, transb: bool = False, **kwargs: Any
) -> Tensor:
    """A matmul by the registered function ``tvm.contrib.cblas.matmul``.

    Args:
        lhs, rhs: the operands [M, K] and [K, N].
        transa, transb: whether each operand is transposed.
        **kwargs: further arguments of ``te.extern``, such as ``dtype``.
    """
    rows = lhs.shape[1] if transa else lhs.shape[0]
    columns = rhs.shape[0] if transb else rhs.shape[1]
    name = "tvm.contrib.cblas.matmul"
    return _call_library(name, (rows, columns), (lhs, rhs, transa, transb), kwargs)


def batch_matmul(
    lhs: Annotated[Tensor, of_rank(3)],
    rhs: Annotated[Tensor, of_rank(3)],
    transa: bool = False,
    transb: bool = False,
    iterative: bool = False,
    **kwargs: Any,
) -> Tensor:
    """A batched matmul by the registered function ``tvm.contrib.cblas.batch_matmul``.

    Args:
        lhs, rhs: the operands [B, M, K] and [B, K, N].
        transa, transb: whether the matrices of each operand are transposed.
        iterative: whether to call the variant that loops over the batch.
        **kwargs: further arguments of ``te.extern``, such as ``dtype``.
    """
    rows = lhs.shape[2] if transa else lhs.shape[1]
    columns = rhs.shape[1] if transb else rhs.shape[2]
    name = "tvm.contrib.cblas.batch_matmul" + "_iterative" * iterative
    shape = (lhs.shape[0], rows, columns)
    return _call_library(name, shape, (lhs, rhs, transa, transb), kwargs)


def _call_library(
    function: str,
    shape: Sequence[PrimExpr],
    arguments: tuple[Tensor, Tensor, bool, bool],
    options: Mapping[str, Any],
) -> Tensor:
    lhs, rhs, transa, transb = arguments

    def call(read: Sequence[Any], written: Sequence[Any]) -> PrimExpr:
        return call_packed(function, *read, written[0], transa, transb)

    return extern(shape, [lhs, rhs], call, name="C", **options)
