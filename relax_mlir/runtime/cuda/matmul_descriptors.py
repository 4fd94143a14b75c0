"""Matmul descriptors of launch plans, for cuBLASLt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from relax_mlir.runtime.cuda.pointers import (
    Expression,
    Json,
    Pointer,
    Sizes,
    evaluate,
    evaluate_all,
)

__all__ = ["ACTIVATIONS", "ITEM_BYTES", "BatchedMatrix", "Matmul"]

ACTIVATIONS = ("none", "relu")
ITEM_BYTES = {"f16": 2, "bf16": 2, "f32": 4, "f64": 8}  # by element type


@dataclass(frozen=True)
class BatchedMatrix:
    """A batch of matrices.

    Attributes:
        pointer: to the first.
        element: its type, such as ``f16``.
        leading: leading dimension, in elements; step: batch stride.
        is_transposed: whether it is stored transposed.
    """

    pointer: Pointer
    element: str
    leading: Expression
    step: Expression = 0
    is_transposed: bool = False

    def fields(self) -> Json:
        """The JSON form."""
        numbers = self.leading, self.step
        return [self.pointer.fields(), self.element, *numbers, self.is_transposed]

    @staticmethod
    def from_fields(fields: Json) -> BatchedMatrix:
        """Inverse of :meth:`fields`."""
        pointer, element, leading, step, is_transposed = fields
        return BatchedMatrix(
            Pointer.from_fields(pointer), element, leading, step, is_transposed
        )

    def at(self, sizes: Sizes) -> BatchedMatrix:
        """The matrices for values of the symbolic sizes."""
        pointer = self.pointer.at(sizes)
        leading, step = evaluate_all((self.leading, self.step), sizes)
        return replace(self, pointer=pointer, leading=leading, step=step)

    def memory_shape(self, rows: int, columns: int) -> tuple[int, int, int]:
        """Rows, columns and leading dimension in memory; for bound sizes.

        Args:
            rows, columns: logical shape.
        """
        if self.is_transposed:
            rows, columns = columns, rows
        # The leading dimension of a single row is arbitrary.
        return rows, columns, max(self.leading, columns) if rows == 1 else self.leading

    def size_bytes(self, batch: int, rows: int, columns: int) -> int:
        """Bytes from the first element to the end of the last; for bound sizes."""
        rows, columns, leading = self.memory_shape(rows, columns)
        elements = (batch - 1) * self.step + (rows - 1) * leading + columns
        return elements * ITEM_BYTES[self.element]


@dataclass(frozen=True)
class Matmul:
    """Batched matmul, ``result = activation(lhs @ rhs + bias)``.

    Accumulates in f32, or f64 for f64 operands; the result is rounded once.

    Attributes:
        sizes: batch, M, N, K.
        bias: [N], of the type of the result.
        tf32: whether f32 operands may be rounded to TF32 (11 significant bits).
        activation: one of :data:`ACTIVATIONS`.
    """

    sizes: tuple[Expression, ...]
    lhs: BatchedMatrix
    rhs: BatchedMatrix
    result: BatchedMatrix
    bias: Pointer | None = None
    tf32: bool = False
    activation: str = "none"

    def fields(self) -> Json:
        """The JSON form."""
        return {
            "sizes": list(self.sizes),
            "matrices": [m.fields() for m in (self.lhs, self.rhs, self.result)],
            "bias": None if self.bias is None else self.bias.fields(),
            "tf32": self.tf32,
            "activation": self.activation,
        }

    @staticmethod
    def from_fields(fields: Json) -> Matmul:
        """Inverse of :meth:`fields`."""
        lhs, rhs, result = map(BatchedMatrix.from_fields, fields["matrices"])
        bias = fields["bias"]
        pointer = None if bias is None else Pointer.from_fields(bias)
        options = fields["tf32"], fields["activation"]
        return Matmul(tuple(fields["sizes"]), lhs, rhs, result, pointer, *options)

    def at(self, sizes: Sizes) -> Matmul:
        """The matmul for values of the symbolic sizes."""
        return replace(
            self,
            sizes=tuple(evaluate(s, sizes) for s in self.sizes),
            lhs=self.lhs.at(sizes),
            rhs=self.rhs.at(sizes),
            result=self.result.at(sizes),
            bias=None if self.bias is None else self.bias.at(sizes),
        )

    @property
    def is_empty(self) -> bool:
        """Whether the result has no elements; for bound sizes."""
        return not all(self.sizes[:3])

    @property
    def pointers(self) -> tuple[Pointer, ...]:
        """Pointers to the matrices, and to the bias if there is one."""
        matrices = (m.pointer for m in (self.lhs, self.rhs, self.result))
        return (*matrices, *(() if self.bias is None else (self.bias,)))

    def with_pointers(self, translate: Callable[[Pointer], Pointer]) -> Matmul:
        """The matmul with translated pointers."""
        lhs, rhs, result = (
            replace(m, pointer=translate(m.pointer))
            for m in (self.lhs, self.rhs, self.result)
        )
        bias = None if self.bias is None else translate(self.bias)
        return replace(self, lhs=lhs, rhs=rhs, result=result, bias=bias)

    def spans(self) -> list[tuple[Pointer, int]]:
        """Accessed memory: pointers and sizes in bytes; for bound sizes."""
        batch, m, n, k = self.sizes
        spans = [
            (self.lhs.pointer, self.lhs.size_bytes(batch, m, k)),
            (self.rhs.pointer, self.rhs.size_bytes(batch, k, n)),
            (self.result.pointer, self.result.size_bytes(batch, m, n)),
        ]
        if self.bias is not None:
            spans.append((self.bias, n * ITEM_BYTES[self.result.element]))
        return spans
