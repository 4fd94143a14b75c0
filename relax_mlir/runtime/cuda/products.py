"""Products of matrices that a library computes, as plans hold them."""

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

__all__ = ["ACTIVATIONS", "ITEM_BYTES", "Matrix", "Product"]

ACTIVATIONS = ("none", "relu")
ITEM_BYTES = {"f16": 2, "bf16": 2, "f32": 4, "f64": 8}  # by types of elements


@dataclass(frozen=True)
class Matrix:
    """A matrix for each product of a batch.

    Attributes:
        pointer: to the first.
        element: its type, such as ``f16``.
        leading: elements between rows in memory; step: between matrices.
        is_turned: whether it lies in memory with rows and columns exchanged.
    """

    pointer: Pointer
    element: str
    leading: Expression
    step: Expression = 0
    is_turned: bool = False

    def fields(self) -> Json:
        """As JSON holds it."""
        numbers = self.leading, self.step
        return [self.pointer.fields(), self.element, *numbers, self.is_turned]

    @staticmethod
    def from_fields(fields: Json) -> Matrix:
        """What :meth:`fields` made."""
        pointer, element, leading, step, is_turned = fields
        where = Pointer.from_fields(pointer)
        return Matrix(where, element, leading, step, is_turned)

    def at(self, sizes: Sizes) -> Matrix:
        """It, when sizes are known."""
        pointer = self.pointer.at(sizes)
        leading, step = evaluate_all((self.leading, self.step), sizes)
        return replace(self, pointer=pointer, leading=leading, step=step)

    def lying(self, rows: int, columns: int) -> tuple[int, int, int]:
        """Of a known matrix: how many rows and columns lie in memory, and how far apart.

        Args:
            rows, columns: that it has.
        """
        if self.is_turned:
            rows, columns = columns, rows
        # Of one row nobody asks where the next one is.
        return rows, columns, max(self.leading, columns) if rows == 1 else self.leading

    def size_bytes(self, batch: int, rows: int, columns: int) -> int:
        """From the first element of a known matrix to the end of the last."""
        rows, columns, leading = self.lying(rows, columns)
        elements = (batch - 1) * self.step + (rows - 1) * leading + columns
        return elements * ITEM_BYTES[self.element]


@dataclass(frozen=True)
class Product:
    """``result = activation(lhs @ rhs + bias)``, for each of a batch.

    Sums are f32, or f64 of such factors; the result is rounded once.

    Attributes:
        sizes: how many products, rows, columns, and terms of a sum.
        bias: one number per column, of the type of the result.
        tf32: whether factors in f32 may be rounded to 11 bits.
        activation: one of :data:`ACTIVATIONS`.
    """

    sizes: tuple[Expression, ...]
    lhs: Matrix
    rhs: Matrix
    result: Matrix
    bias: Pointer | None = None
    tf32: bool = False
    activation: str = "none"

    def fields(self) -> Json:
        """As JSON holds it."""
        return {
            "sizes": list(self.sizes),
            "matrices": [m.fields() for m in (self.lhs, self.rhs, self.result)],
            "bias": None if self.bias is None else self.bias.fields(),
            "tf32": self.tf32,
            "activation": self.activation,
        }

    @staticmethod
    def from_fields(fields: Json) -> Product:
        """What :meth:`fields` made."""
        lhs, rhs, result = map(Matrix.from_fields, fields["matrices"])
        bias = fields["bias"]
        where = None if bias is None else Pointer.from_fields(bias)
        how = fields["tf32"], fields["activation"]
        return Product(tuple(fields["sizes"]), lhs, rhs, result, where, *how)

    def at(self, sizes: Sizes) -> Product:
        """It, when sizes are known."""
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
        """Whether nothing is to be written, when sizes are known."""
        return not all(self.sizes[:3])

    @property
    def pointers(self) -> tuple[Pointer, ...]:
        """To the matrices, and to the bias if there is one."""
        matrices = (m.pointer for m in (self.lhs, self.rhs, self.result))
        return (*matrices, *(() if self.bias is None else (self.bias,)))

    def placed(self, place: Callable[[Pointer], Pointer]) -> Product:
        """It, with other pointers."""
        lhs, rhs, result = (
            replace(m, pointer=place(m.pointer))
            for m in (self.lhs, self.rhs, self.result)
        )
        bias = None if self.bias is None else place(self.bias)
        return replace(self, lhs=lhs, rhs=rhs, result=result, bias=bias)

    def spans(self) -> list[tuple[Pointer, int]]:
        """What it reads and writes, when sizes are known: from where, how many bytes."""
        batch, rows, columns, terms = self.sizes
        found = [
            (self.lhs.pointer, self.lhs.size_bytes(batch, rows, terms)),
            (self.rhs.pointer, self.rhs.size_bytes(batch, terms, columns)),
            (self.result.pointer, self.result.size_bytes(batch, rows, columns)),
        ]
        if self.bias is not None:
            found.append((self.bias, columns * ITEM_BYTES[self.result.element]))
        return found
