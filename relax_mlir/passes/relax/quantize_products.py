"""``relax-quantize-products``: matrix products with weights, of numbers of 8 bits."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np
from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import tensors
from relax_mlir.dialects.dtypes import dtype
from relax_mlir.dialects.relax.core import ConstantOp
from relax_mlir.dialects.relax.matmul import DenseOp, MatmulOp
from relax_mlir.graphs import constant, emit, graph_functions, operations_of
from relax_mlir.module import IRModule
from relax_mlir.rewriting import Pass, erase

__all__ = ["QuantizeProducts"]

_F32, _F8 = dtype("float32"), dtype("float8_e4m3fn")
_LARGEST = 448.0  # number of that type
_LEAST_STEP = 1e-30  # of a row of zeros; far from where a quotient is rounded to 0
# Terms that are read at once: products of other numbers of them gain nothing.
_GROUP = 16


@dataclass(frozen=True)
class QuantizeProducts(Pass):
    """Round factors of products with weights to 8 bits, and sum the products up in f32.

    Each row of activations, and each column of weights, is divided by a step, so that its
    largest number is the largest that 8 bits (E4M3: three of them after the point) have;
    the sums are multiplied by both. The steps of weights are known; those of activations
    are computed row by row. Products of two activations stay as they are.

    A number is off by at most 1/16 of itself, or by 1/450000 of the largest of its row. A
    row with an infinite number becomes one of NaNs.
    """

    def run(self, module: IRModule) -> None:
        for function in graph_functions(module):
            _Quantizer(module, function).run()


class _Quantizer:
    """Rounds the factors of one function's products."""

    def __init__(self, module: IRModule, function: func.FuncOp) -> None:
        self._module, self._function = module, function
        self._rows: dict[ir.Value, tuple[ir.Value, ir.Value]] = {}

    def run(self) -> None:
        for op in list(operations_of(self._function)):
            if isinstance(op, (MatmulOp, DenseOp)):
                weights = self._weights(op)
                if weights is not None:
                    self._rewrite(op, weights)

    def _weights(self, op: MatmulOp | DenseOp) -> np.ndarray | None:
        """``[column, term]`` of a product that gains; None of others."""
        x, w = op.operation.operands
        owner = None if isinstance(w.owner, ir.Block) else w.owner.opview
        results = [x, w, op.operation.results[0]]
        if any(tensors.dtype_of(v) != _F32 for v in results):
            return None
        if not isinstance(owner, ConstantOp) or len(tensors.shape_of(x)) < 2:
            return None
        array = owner.array(self._module.constants)
        if array.ndim != 2 or not np.isfinite(array).all():
            return None
        turned = array.T if isinstance(op, MatmulOp) else array
        terms = turned.shape[1]
        return turned if terms and terms % _GROUP == 0 else None

    def _rewrite(self, op: MatmulOp | DenseOp, weights: np.ndarray) -> None:
        with ir.InsertionPoint(op), op.location:
            rows, row_steps = self._quantized(op.operation.operands[0], op)
            steps = np.abs(weights).max(axis=1, keepdims=True) / np.float32(_LARGEST)
            steps = np.maximum(steps, np.float32(_LEAST_STEP))
            narrow = (weights / steps).astype(ml_dtypes.float8_e4m3fn)
            columns = constant(self._module, np.ascontiguousarray(narrow), "weights")
            column_steps = constant(self._module, steps.reshape(-1), "steps")
            sums = emit(op, "nn.dense", rows, columns, out_dtype=_F32)
            sums = emit(op, "multiply", sums, row_steps)
            made = emit(op, "multiply", sums, column_steps)
        op.operation.results[0].replace_all_uses_with(made)
        erase(op)

    def _quantized(self, x: ir.Value, op: ir.OpView) -> tuple[ir.Value, ir.Value]:
        """A factor in 8 bits, and the step of each of its rows, in front of a product."""
        if x not in self._rows:
            # All that can comes before the largest is taken: one kernel does it.
            sizes = emit(op, "abs", x)
            sizes = emit(op, "multiply", sizes, self._number(1 / _LARGEST))
            sizes = emit(op, "maximum", sizes, self._number(_LEAST_STEP))
            steps = emit(op, "max", sizes, axis=(-1,), keepdims=True)
            narrow = emit(op, "astype", emit(op, "divide", x, steps), dtype=_F8)
            self._rows[x] = narrow, steps
        return self._rows[x]

    def _number(self, value: float) -> ir.Value:
        return ConstantOp.scalar(value, _F32)
