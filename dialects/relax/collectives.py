"""Tensors that several workers, each with the same program, exchange."""

from mlir.ir import BoolAttr, IntegerAttr, RankedTensorType, StringAttr

from relax_mlir.dialects import dims, shapes, tensors
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.relax.core import Relax

__all__ = [
    "AllgatherOp",
    "AllreduceOp",
    "BroadcastFromWorker0Op",
    "ScatterFromWorker0Op",
]

_REDUCTIONS = ("sum", "prod", "min", "max", "avg")


class AllreduceOp(Relax.Operation, name="ccl_allreduce"):
    """The tensors of all workers combined, for all of them.

    Attributes:
        op_type: ``sum``, ``prod``, ``min``, ``max`` or ``avg``.
        in_group: whether among the workers of a group alone.
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
    """The tensors of all workers one after the other, for all of them.

    Attributes:
        num_workers: how many there are.
        in_group: whether among the workers of a group alone.
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
    """The tensor of the first worker, for all of them."""

    x: Operand[RankedTensorType]
    y: Result[RankedTensorType]

    @staticmethod
    def infer(x: RankedTensorType) -> RankedTensorType:
        return x


class ScatterFromWorker0Op(Relax.Operation, name="ccl_scatter_from_worker0"):
    """A part of the tensor of the first worker for each of them.

    Attributes:
        num_workers: how many there are.
        axis: along which the tensor is cut.
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
