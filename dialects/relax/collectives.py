"""Collective communication among workers that run the same program (SPMD)."""

from mlir.ir import BoolAttr, IntegerAttr, RankedTensorType, StringAttr

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.symbolic import dims

__all__ = [
    "AllgatherOp",
    "AllreduceOp",
    "BroadcastFromWorker0Op",
    "ScatterFromWorker0Op",
]

_REDUCTIONS = ("sum", "prod", "min", "max", "avg")


class AllreduceOp(Relax.Operation, name="ccl_allreduce"):
    """All-reduce: the elementwise reduction of the tensors of all workers, on all of them.

    Attributes:
        op_type: ``sum``, ``prod``, ``min``, ``max`` or ``avg``.
        in_group: whether it runs within the worker's group only.
    Shapes:
        x, y: any shape.
    """

    x: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    op_type: StringAttr
    in_group: BoolAttr

    @staticmethod
    def infer(
        x: RankedTensorType, op_type: str = "sum", in_group: bool = True
    ) -> RankedTensorType:
        if op_type not in _REDUCTIONS:
            raise ValueError(
                f"op_type: expected one of {', '.join(_REDUCTIONS)}, got `{op_type}`"
            )
        return x


class AllgatherOp(Relax.Operation, name="ccl_allgather"):
    """All-gather: the concatenation of the tensors of all workers, on all of them.

    Attributes:
        num_workers: number of workers.
        in_group: whether it runs within the worker's group only.
    Shapes:
        x: [n, ...]; y: [n * num_workers, ...].
    """

    x: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    num_workers: IntegerAttr
    in_group: BoolAttr

    @staticmethod
    def infer(
        x: RankedTensorType, num_workers: int, in_group: bool = True
    ) -> RankedTensorType:
        if not x.rank:
            raise ValueError("expected rank 1 or more, got 0")
        first, *others = tensors.shape_of(x)
        shape = (shapes.product((first, num_workers)), *others)
        return tensors.tensor_type(shape, tensors.dtype_of(x))


class BroadcastFromWorker0Op(Relax.Operation, name="ccl_broadcast_from_worker0"):
    """Broadcast: the tensor of worker 0, on all workers."""

    x: Operand[RankedTensorType]
    y: Result[RankedTensorType]

    @staticmethod
    def infer(x: RankedTensorType) -> RankedTensorType:
        return x


class ScatterFromWorker0Op(Relax.Operation, name="ccl_scatter_from_worker0"):
    """Scatter: equal parts of the tensor of worker 0, one for each worker.

    Attributes:
        num_workers: number of workers.
        axis: the axis along which the tensor is split.
    Shapes:
        x: [..., n, ...]; y: [..., n / num_workers, ...].
    """

    x: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    num_workers: IntegerAttr
    axis: IntegerAttr

    @staticmethod
    def infer(x: RankedTensorType, num_workers: int, axis: int = 0) -> RankedTensorType:
        axis = shapes.check_axis(axis, x.rank)
        sizes = list(tensors.shape_of(x))
        shapes.require_multiple(sizes[axis], num_workers, f"size of axis {axis}")
        sizes[axis] = dims.floordiv(sizes[axis], num_workers)
        return tensors.tensor_type(sizes, tensors.dtype_of(x))
