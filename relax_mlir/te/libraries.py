"""Products of matrices that a library computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from relax_mlir.argument_types import of_rank
from relax_mlir.objects.prim import PrimExpr
from relax_mlir.script.tir_calls import call_packed
from relax_mlir.te.extern import extern
from relax_mlir.te.tensor import Tensor

__all__ = ["batch_matmul", "matmul"]


def matmul(
    lhs: Tensor, rhs: Tensor, transa: bool = False, transb: bool = False, **kwargs: Any
) -> Tensor:
    """The product of two matrices, by the registered ``tvm.contrib.cblas.matmul``.

    Args:
        lhs, rhs: the matrices.
        transa, transb: whether each is read with its axes exchanged.
        **kwargs: what else ``te.extern`` takes, such as ``dtype``.
    """
    rows = lhs.shape[1] if transa else lhs.shape[0]
    columns = rhs.shape[0] if transb else rhs.shape[1]
    name = "tvm.contrib.cblas.matmul"
    return _product(name, (rows, columns), (lhs, rhs, transa, transb), kwargs)


def batch_matmul(
    lhs: Annotated[Tensor, of_rank(3)],
    rhs: Annotated[Tensor, of_rank(3)],
    transa: bool = False,
    transb: bool = False,
    iterative: bool = False,
    **kwargs: Any,
) -> Tensor:
    """The products of the matrices of two batches, by ``tvm.contrib.cblas.batch_matmul``.

    Args:
        lhs, rhs: the batches, whose first axis counts the matrices.
        transa, transb: whether the matrices of each are read with their axes exchanged.
        iterative: whether the function is the one that takes a matrix after another.
        **kwargs: what else ``te.extern`` takes, such as ``dtype``.
    """
    rows = lhs.shape[2] if transa else lhs.shape[1]
    columns = rhs.shape[1] if transb else rhs.shape[2]
    name = "tvm.contrib.cblas.batch_matmul" + "_iterative" * iterative
    sizes = (lhs.shape[0], rows, columns)
    return _product(name, sizes, (lhs, rhs, transa, transb), kwargs)


def _product(
    function: str,
    shape: Sequence[PrimExpr],
    given: tuple[Tensor, Tensor, bool, bool],
    options: Mapping[str, Any],
) -> Tensor:
    lhs, rhs, transa, transb = given

    def call(read: Sequence[Any], written: Sequence[Any]) -> PrimExpr:
        return call_packed(function, *read, written[0], transa, transb)

    return extern(shape, [lhs, rhs], call, name="C", **options)
