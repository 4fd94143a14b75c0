"""``relax-quantize-matmul-to-fp8``: dynamic fp8 quantisation of matmuls with weights."""

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
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import operations_of
from relax_mlir.rewrite.functions import emit_next_to, graph_functions, pooled_constant
from relax_mlir.rewrite.patterns import Pass, erase

__all__ = ["QuantizeMatmulToFp8"]

_F32, _F8 = dtype("float32"), dtype("float8_e4m3fn")
_LARGEST = 448.0  # finite float8_e4m3fn
_LEAST_SCALE = 1e-30  # of an all-zero row; large enough that no quotient underflows
# Tensor-core loads read this many elements of K; other K gain nothing.
_GROUP = 16


@dataclass(frozen=True)
class QuantizeMatmulToFp8(Pass):
    """Quantise matmuls with constant weights to fp8 (E4M3), and accumulate in f32.

    Symmetric scales map the largest magnitude of each row of activations and of each column
    of weights to 448, the largest E4M3 value; the result is multiplied by both scales. Scales
    of weights are computed at compile time, those of activations per row at run time (dynamic
    quantisation). Matmuls of two activations stay as they are.

    The error of an element is at most 1/16 of its magnitude, or 1/450000 of its row's
    maximum. A row with an infinite element becomes NaN.
    """

    def run(self, module: IRModule) -> None:
        for function in graph_functions(module):
            _Quantizer(module, function).run()


class _Quantizer:
    """Quantises the matmuls of one function."""

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
        """The weights ``[n, k]`` of a matmul that fp8 accelerates; None for others."""
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
        k_major = array.T if isinstance(op, MatmulOp) else array
        k = k_major.shape[1]
        return k_major if k and k % _GROUP == 0 else None

    def _rewrite(self, op: MatmulOp | DenseOp, weights: np.ndarray) -> None:
        with ir.InsertionPoint(op), op.location:
            lhs, row_scales = self._quantized(op.operation.operands[0], op)
            scales = np.abs(weights).max(axis=1, keepdims=True) / np.float32(_LARGEST)
            scales = np.maximum(scales, np.float32(_LEAST_SCALE))
            narrow = (weights / scales).astype(ml_dtypes.float8_e4m3fn)
            rhs = pooled_constant(self._module, np.ascontiguousarray(narrow), "weights")
            column_scales = pooled_constant(self._module, scales.reshape(-1), "steps")
            matmul = emit_next_to(op, "nn.dense", lhs, rhs, out_dtype=_F32)
            matmul = emit_next_to(op, "multiply", matmul, row_scales)
            made = emit_next_to(op, "multiply", matmul, column_scales)
        op.operation.results[0].replace_all_uses_with(made)
        erase(op)

    def _quantized(self, x: ir.Value, op: ir.OpView) -> tuple[ir.Value, ir.Value]:
        """The activations in fp8 and the scale of each row, computed before a matmul."""
        if x not in self._rows:
            # Elementwise work precedes the maximum, so that one kernel fuses both.
            magnitudes = emit_next_to(op, "abs", x)
            magnitudes = emit_next_to(
                op, "multiply", magnitudes, self._number(1 / _LARGEST)
            )
            magnitudes = emit_next_to(
                op, "maximum", magnitudes, self._number(_LEAST_SCALE)
            )
            scales = emit_next_to(op, "max", magnitudes, axis=(-1,), keepdims=True)
            narrow = emit_next_to(
                op, "astype", emit_next_to(op, "divide", x, scales), dtype=_F8
            )
            self._rows[x] = narrow, scales
        return self._rows[x]

    def _number(self, value: float) -> ir.Value:
        return ConstantOp.scalar(value, _F32)
