"""Rules of products."""

from collections.abc import Mapping, Sequence
from typing import Any

from relax_mlir import te, topi
from relax_mlir.errors import MismatchError
from relax_mlir.objects import prim
from relax_mlir.objects.expr import Call, Expr
from relax_mlir.relax.block_builder import BlockBuilder
from relax_mlir.relax.transform.legalize_ops.calls import (
    LegalizeFunc,
    fields_of,
    passing,
    tensor_info,
)

__all__ = ["RULES", "transposed_product"]


def _is_one(size: Any) -> bool:
    return isinstance(size, prim.IntImm) and size.value == 1


def _batch_shape(a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
    """The dimensions before the last two of a product."""
    longer, shorter = (a, b) if len(a) >= len(b) else (b, a)
    offset = len(longer) - len(shorter)
    pairs = zip(longer[offset:], shorter, strict=True)
    return [*longer[:offset], *(y if _is_one(x) else x for x, y in pairs)]


def _own_places(
    mine: Sequence[Any], theirs: Sequence[Any], indices: Sequence[Any]
) -> list[Any]:
    """Where an operand is read: at 0 along what is broadcast."""
    missing = len(mine) - len(theirs)
    others = [None] * missing + list(theirs)[max(-missing, 0) :]
    places = list(indices)[len(indices) - len(mine) :]
    return [
        0 if _is_one(size) and other is not None and not _is_one(other) else place
        for size, other, place in zip(mine, others, places, strict=True)
    ]


class _Product:
    """A matrix product of two tensors; vectors are matrices of one row or column.

    Args:
        transposed: whether the rows of ``b`` are the columns of the second matrix.
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
        self.count = a.shape[-1]

    def shape(self) -> list[Any]:
        """Of the product."""
        rows = self.a.shape[-2:-1]
        last = self.b.shape[-2:-1] if self.transposed else self.b.shape[-1:]
        columns = last if self.b.ndim > 1 else ()
        return [*_batch_shape(*self.batches), *rows, *columns]

    def element(self, *i: Any) -> Any:
        """The sum over the dimension that both have."""
        k = te.reduce_axis((0, self.count), "k")
        inner = len(self.shape()) - len(_batch_shape(*self.batches))
        batch = i[: len(i) - inner]
        mine, theirs = self.batches
        row = (i[-inner],) if self.a.ndim > 1 else ()
        column = (i[-1],) if self.b.ndim > 1 else ()
        lhs = self.a(*_own_places(mine, theirs, batch), *row, k)
        place = (*column, k) if self.transposed else (k, *column)
        rhs = self.b(*_own_places(theirs, mine, batch), *place)
        if self.out_dtype:
            lhs, rhs = lhs.astype(self.out_dtype), rhs.astype(self.out_dtype)
        return te.sum(lhs * rhs, axis=k)


def transposed_product(a: te.Tensor, b: te.Tensor, out_dtype: str | None) -> te.Tensor:
    """The matrix product of ``a`` and of ``b`` with its last two dimensions swapped."""
    product = _Product(a, b, out_dtype, transposed=True)
    return te.compute(product.shape(), product.element, "NT_matmul")


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
        product = _Product(a, b, name)
        element: Any = product.element
        if isinstance(product.count, prim.IntImm) and product.count.value == 0:
            element = lambda *_: prim.const(0, dtype)  # noqa: E731
        return te.compute(product.shape(), element, "matmul")

    return builder.call_te(matmul, *call.args)


def _einsum(builder: BlockBuilder, call: Call) -> Expr:
    fields = fields_of(builder, call.args[0])
    return builder.call_te(topi.einsum, call.attrs["subscripts"], *fields)


def _outer(a: te.Tensor, b: te.Tensor) -> te.Tensor:
    return te.compute((a.shape[0], b.shape[0]), lambda i, j: a[i] * b[j], "outer")


RULES: Mapping[str, LegalizeFunc] = {
    "matmul": _matmul,
    "einsum": _einsum,
    "outer": passing(_outer, "outer"),
}
