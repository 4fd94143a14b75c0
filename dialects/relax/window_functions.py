"""Window functions of signal processing."""

from typing import Any

import numpy as np
from mlir.ir import BoolAttr, FloatAttr, RankedTensorType, TypeAttr

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.dtypes import DType
from relax_mlir.dialects.ext import Attr, Result
from relax_mlir.dialects.op_interface import Case
from relax_mlir.dialects.relax.attribute_arguments import element_type
from relax_mlir.dialects.relax.scalar_attributes import ScalarAttributesOp
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = ["HammingWindowOp"]

_F32 = dtypes.dtype("float32")


class HammingWindowOp(ScalarAttributesOp, name="hamming_window"):
    """The generalised Hamming window: alpha - beta * cos(2 pi i / n).

    Attributes:
        window_size: number of elements; may be symbolic.
        periodic: whether n is ``window_size`` (one period of a periodic window), rather
            than ``window_size`` - 1 (a symmetric window).
        alpha, beta: the coefficients.
        dtype: the float type of y.
    Shapes:
        y: [window_size].
    Source: ONNX HammingWindow-17, with its alpha and beta.
    """

    y: Result[RankedTensorType]
    window_size: Attr
    periodic: BoolAttr
    alpha: FloatAttr
    beta: FloatAttr
    dtype: TypeAttr

    argument_attributes = ("window_size", "periodic", "alpha", "beta")
    number_attributes = ("window_size",)
    cases = (
        Case(window_size=9),
        Case(window_size=9, periodic=False),
        Case(window_size=4, alpha=0.5, beta=0.5, dtype=dtypes.dtype("float64")),
        Case(window_size=1, periodic=False),
    )

    @staticmethod
    def normalize_arguments(**attrs: Any) -> dict[str, Any]:  # Any: see the base
        return {**attrs, "dtype": element_type(attrs.get("dtype")) or _F32}

    @staticmethod
    def infer(
        window_size: Dim,
        periodic: bool = True,
        alpha: float = 0.54,
        beta: float = 0.46,
        dtype: DType = _F32,
    ) -> RankedTensorType:
        if not dtype.is_float:
            raise ValueError(f"dtype: expected floats, got {dtype}")
        if isinstance(window_size, int) and window_size <= 0:
            raise ValueError(f"window_size: expected 1 or more, got {window_size}")
        shapes.require_nonnegative((window_size,))
        return tensors.tensor_type((window_size,), dtype)

    @staticmethod
    def reference(
        window_size: int,
        periodic: bool = True,
        alpha: float = 0.54,
        beta: float = 0.46,
        dtype: DType = _F32,
    ) -> np.ndarray:
        steps = window_size if periodic else max(window_size - 1, 1)
        angle = 2 * np.pi * np.arange(window_size) / steps
        return (alpha - beta * np.cos(angle)).astype(dtype.numpy)

    def legalize(self, b: Builder) -> Buffer:
        shape, out = b.results[0]
        wide = dtypes.dtype("float64")
        size, periodic = b.dim(shape[0]), self.periodic.value
        alpha, beta = self.alpha.value, self.beta.value

        def body(i: Index) -> Scalar:
            count = Index(Index.value_of(size))
            steps = count if periodic else (count - 1).maximum(1)
            angle = i.to_scalar(wide) * (2 * np.pi) / steps.to_scalar(wide)
            return b.cast(b.constant(alpha, wide) - b.math("cos", angle) * beta, out)

        return b.compute(shape, body, out, "hamming_window")
