"""Convolutions that a library computes, as plans hold them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from relax_mlir.dialects.convolution_shapes import ConvolutionShape
from relax_mlir.runtime.cuda.pointers import (
    Expression,
    Json,
    Pointer,
    Sizes,
    evaluate,
)
from relax_mlir.runtime.cuda.products import ITEM_BYTES

__all__ = ["Convolution"]


@dataclass(frozen=True)
class Convolution:
    """``result = activation(convolution(picture, weights) + bias + residual)``.

    Sums are f32, or f64 of such factors; the result is rounded once.

    Attributes:
        shape: what is computed of each picture; batch: how many there are.
        element: the type of all elements, such as ``f16``.
        bias: one number per filter; residual: one per result, which lies as that does.
        tf32: whether factors in f32 may be rounded to 11 bits.
        activation: one of :data:`ACTIVATIONS`.
    """

    shape: ConvolutionShape
    batch: Expression
    element: str
    picture: Pointer
    weights: Pointer
    result: Pointer
    bias: Pointer | None = None
    residual: Pointer | None = None
    tf32: bool = False
    activation: str = "none"

    def fields(self) -> Json:
        """As JSON holds it."""
        operands = self.picture, self.weights, self.result, self.bias, self.residual
        return {
            "convolution": self.shape.fields(),
            "batch": self.batch,
            "element": self.element,
            "operands": [None if p is None else p.fields() for p in operands],
            "tf32": self.tf32,
            "activation": self.activation,
        }

    @staticmethod
    def from_fields(fields: Json) -> Convolution:
        """What :meth:`fields` made."""
        shape = ConvolutionShape.from_fields(fields["convolution"])
        picture, weights, result, bias, residual = (
            None if given is None else Pointer.from_fields(given)
            for given in fields["operands"]
        )
        if picture is None or weights is None or result is None:
            raise ValueError("a convolution lacks an operand")
        what = shape, fields["batch"], fields["element"]
        how = fields["tf32"], fields["activation"]
        return Convolution(*what, picture, weights, result, bias, residual, *how)

    def at(self, sizes: Sizes) -> Convolution:
        """It, when sizes are known."""
        made = self.placed(lambda pointer: pointer.at(sizes))
        return replace(made, batch=evaluate(self.batch, sizes))

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be written, when sizes are known."""
        return self.batch == 0

    @property
    def pointers(self) -> tuple[Pointer, ...]:
        """To all of its operands, and to its result."""
        operands = self.picture, self.weights, self.result, self.bias, self.residual
        return tuple(pointer for pointer in operands if pointer is not None)

    def placed(self, place: Callable[[Pointer], Pointer]) -> Convolution:
        """It, with other pointers."""
        bias, residual = (
            None if pointer is None else place(pointer)
            for pointer in (self.bias, self.residual)
        )
        return replace(
            self,
            picture=place(self.picture),
            weights=place(self.weights),
            result=place(self.result),
            bias=bias,
            residual=residual,
        )

    def spans(self) -> list[tuple[Pointer, int]]:
        """What it reads and writes, when sizes are known: from where, how many bytes."""
        shape, item_bytes = self.shape, ITEM_BYTES[self.element]
        written = shape.result_elements(self.batch)
        found = [
            (self.picture, shape.picture_elements(self.batch)),
            (self.weights, shape.weight_elements),
            (self.result, written),
        ]
        if self.bias is not None:
            found.append((self.bias, shape.filters))
        if self.residual is not None:
            found.append((self.residual, written))
        return [(pointer, count * item_bytes) for pointer, count in found]
