"""Legalization rules of matmul, einsum and outer product."""

from collections.abc import Mapping, Sequence
from typing import Any

from relax_mlir.errors import MismatchError
from relax_mlir.objects import prim
from relax_mlir.objects.block_builder import BlockBuilder
from relax_mlir.objects.expr import Call, Expr
from relax_mlir.tvm import te, topi
from relax_mlir.tvm.relax.transform.legalize_ops.calls import (
    LegalizeFunc,
    tensor_info,
    tuple_fields,
)

__all__ = ["RULES", "matmul_transposed_b"]


def _is_one(size: Any) -> bool:
    return isinstance(size, prim.IntImm) and size.value == 1


def _batch_shape(a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
    """Returns the broadcast batch dimensions of a matmul."""
    longer, shorter = (a, b) if len(a) >= len(b) else (b, a)
    offset = len(longer) - len(shorter)
    pairs = zip(longer[offset:], shorter, strict=True)
    return [*longer[:offset], *(y if _is_one(x) else x for x, y in pairs)]


def _broadcast_indices(
    own: Sequence[Any], other: Sequence[Any], indices: Sequence[Any]
) -> list[Any]:
    """Returns the batch indices of an operand: 0 along broadcast dimensions."""
    missing = len(own) - len(other)
    others = [None] * missing + list(other)[max(-missing, 0) :]
    own_indices = list(indices)[len(indices) - len(own) :]
    return [
        0 if _is_one(size) and peer is not None and not _is_one(peer) else index
        for size, peer, index in zip(own, others, own_indices, strict=True)
    ]


class _Matmul:
    """A matmul of two tensors; vectors are matrices of one row or column.

    Args:
        transposed: whether ``b`` is stored as [N, K] instead of [K, N].
    """

    def __init__(
        self,
        a: te.Tensor,
        b: te.Tensor,
        out_dtype: str | None,
        transposed: bool = False,
    ) -> None:
        self.a, self.b, self.out_dtype = a, b, out_dtype
        self.transposed = transposed
        self.batches = list(a.shape[:-2]), list(b.shape[:-2])
        self.k = a.shape[-1]

    def shape(self) -> list[Any]:
        """Returns the output shape."""
        rows = self.a.shape[-2:-1]
        last = self.b.shape[-2:-1] if self.transposed else self.b.shape[-1:]
        columns = last if self.b.ndim > 1 else ()
        return [*_batch_shape(*self.batches), *rows, *columns]

    def element(self, *i: Any) -> Any:
        """Returns the sum over K that defines one output element."""
        k = te.reduce_axis((0, self.k), "k")
        num_matrix_dims = len(self.shape()) - len(_batch_shape(*self.batches))
        batch = i[: len(i) - num_matrix_dims]
        lhs_batch, rhs_batch = self.batches
        row = (i[-num_matrix_dims],) if self.a.ndim > 1 else ()
        column = (i[-1],) if self.b.ndim > 1 else ()
        lhs = self.a(*_broadcast_indices(lhs_batch, rhs_batch, batch), *row, k)
        rhs_index = (*column, k) if self.transposed else (k, *column)
        rhs = self.b(*_broadcast_indices(rhs_batch, lhs_batch, batch), *rhs_index)
        if self.out_dtype:
            lhs, rhs = lhs.astype(self.out_dtype), rhs.astype(self.out_dtype)
        return te.sum(lhs * rhs, axis=k)


def matmul_transposed_b(a: te.Tensor, b: te.Tensor, out_dtype: str | None) -> te.Tensor:
    """Returns the matmul of ``a`` and ``b`` with ``b``'s last two dimensions swapped."""
    contraction = _Matmul(a, b, out_dtype, transposed=True)
    return te.compute(contraction.shape(), contraction.element, "NT_matmul")


def _matmul(builder: BlockBuilder, call: Call) -> Expr:
    for operand in call.args:
        info = tensor_info(operand)
        if info.dtype in ("", "void"):
            raise MismatchError(
                "To legalize R.matmul, expected operands of known dtype, got "
                f"`{operand!r}` of {info}"
            )
    out_dtype = call.attrs.get("out_dtype")
    name = str(out_dtype) if out_dtype else None
    dtype = tensor_info(call).dtype

    def matmul(a: te.Tensor, b: te.Tensor) -> te.Tensor:
        contraction = _Matmul(a, b, name)
        element: Any = contraction.element
        if isinstance(contraction.k, prim.IntImm) and contraction.k.value == 0:
            element = lambda *_: prim.const(0, dtype)  # noqa: E731
        return te.compute(contraction.shape(), element, "matmul")

    return builder.call_te(matmul, *call.args)


def _einsum(builder: BlockBuilder, call: Call) -> Expr:
    fields = tuple_fields(builder, call.args[0])
    return builder.call_te(topi.einsum, call.attrs["subscripts"], *fields)


RULES: Mapping[str, LegalizeFunc] = {
    "matmul": _matmul,
    "einsum": _einsum,
}
