"""Convolution descriptors of launch plans, for cuDNN."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from relax_mlir.runtime.cuda.matmul_descriptors import ITEM_BYTES
from relax_mlir.runtime.cuda.pointers import (
    Expression,
    Json,
    Pointer,
    Sizes,
    evaluate,
)
from relax_mlir.symbolic.convolution_shapes import ConvolutionShape

__all__ = ["Convolution"]


@dataclass(frozen=True)
class Convolution:
    """``result = activation(convolution(image, weights) + bias + residual)``.

    Accumulates in f32, or f64 for f64 operands; the result is rounded once.

    Attributes:
        shape: of the convolution of one image; batch: number of images.
        element: type of all elements, such as ``f16``.
        bias: [filters]; residual: with the shape and layout of the result.
        tf32: whether f32 operands may be rounded to TF32 (11 significant bits).
        activation: one of :data:`ACTIVATIONS`.
    """

    shape: ConvolutionShape
    batch: Expression
    element: str
    image: Pointer
    weights: Pointer
    result: Pointer
    bias: Pointer | None = None
    residual: Pointer | None = None
    tf32: bool = False
    activation: str = "none"

    def fields(self) -> Json:
        """The JSON form."""
        operands = self.image, self.weights, self.result, self.bias, self.residual
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
        """Inverse of :meth:`fields`."""
        shape = ConvolutionShape.from_fields(fields["convolution"])
        image, weights, result, bias, residual = (
            None if pointer is None else Pointer.from_fields(pointer)
            for pointer in fields["operands"]
        )
        if image is None or weights is None or result is None:
            raise ValueError("a convolution lacks an operand")
        head = shape, fields["batch"], fields["element"]
        options = fields["tf32"], fields["activation"]
        return Convolution(*head, image, weights, result, bias, residual, *options)

    def at(self, sizes: Sizes) -> Convolution:
        """The convolution for values of the symbolic sizes."""
        bound = self.with_pointers(lambda pointer: pointer.at(sizes))
        return replace(bound, batch=evaluate(self.batch, sizes))

    @property
    def is_empty(self) -> bool:
        """Whether the result has no elements; for bound sizes."""
        return self.batch == 0

    @property
    def pointers(self) -> tuple[Pointer, ...]:
        """Pointers to all operands and the result."""
        operands = self.image, self.weights, self.result, self.bias, self.residual
        return tuple(pointer for pointer in operands if pointer is not None)

    def with_pointers(self, translate: Callable[[Pointer], Pointer]) -> Convolution:
        """The convolution with translated pointers."""
        bias, residual = (
            None if pointer is None else translate(pointer)
            for pointer in (self.bias, self.residual)
        )
        return replace(
            self,
            image=translate(self.image),
            weights=translate(self.weights),
            result=translate(self.result),
            bias=bias,
            residual=residual,
        )

    def spans(self) -> list[tuple[Pointer, int]]:
        """Accessed memory: pointers and sizes in bytes; for bound sizes."""
        shape, item_bytes = self.shape, ITEM_BYTES[self.element]
        result_elements = shape.result_elements(self.batch)
        elements = [
            (self.image, shape.image_elements(self.batch)),
            (self.weights, shape.weight_elements),
            (self.result, result_elements),
        ]
        if self.bias is not None:
            elements.append((self.bias, shape.filters))
        if self.residual is not None:
            elements.append((self.residual, result_elements))
        return [(pointer, count * item_bytes) for pointer, count in elements]
