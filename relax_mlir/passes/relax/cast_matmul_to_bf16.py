"""``relax-cast-matmul-to-bf16``: mixed precision for matmuls and convolutions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import tensors
from relax_mlir.dialects.dtypes import DType, dtype
from relax_mlir.dialects.relax.cast import AstypeOp
from relax_mlir.dialects.relax.concat_split import ConcatOp
from relax_mlir.dialects.relax.conv import Conv1dOp, Conv2dOp, Conv3dOp
from relax_mlir.dialects.relax.core import ConstantOp, RelaxOperation
from relax_mlir.dialects.relax.manipulate import PermuteDimsOp, ReshapeOp
from relax_mlir.dialects.relax.matmul import DenseOp, MatmulOp
from relax_mlir.dialects.relax.padding import PadOp
from relax_mlir.dialects.relax.pool import MaxPool1dOp, MaxPool2dOp, MaxPool3dOp
from relax_mlir.dialects.relax.slicing import StridedSliceOp
from relax_mlir.dialects.relax.squeeze import ExpandDimsOp, FlattenOp, SqueezeOp
from relax_mlir.dialects.shapes import Dim
from relax_mlir.errors import PassError, near_misses
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import operations_of
from relax_mlir.rewrite.functions import bind_next_to, emit_next_to, graph_functions
from relax_mlir.rewrite.patterns import Pass, erase, has_uses

__all__ = ["CastMatmulToBf16"]

_Convolution = (Conv1dOp, Conv2dOp, Conv3dOp)
# Data movement only: the cast may be hoisted above these.
_DATA_MOVEMENT = (
    *(ReshapeOp, PermuteDimsOp, ExpandDimsOp, SqueezeOp, FlattenOp, StridedSliceOp),
    *(ConcatOp, PadOp, MaxPool1dOp, MaxPool2dOp, MaxPool3dOp),
)
_F32 = dtype("float32")
_FEW_ROWS = 4  # M up to which a matmul of activations is bound by bandwidth
_LEAST_REDUCTION = 16  # K; for less, the casts cost what the narrow operands save


@dataclass(frozen=True)
class CastMatmulToBf16(Pass):
    """Cast the operands of matmuls and convolutions to 16 bits, and accumulate in f32.

    A value that a matmul reads is cast where it is computed; its other users still read it in
    f32, so that errors do not add up along the residual stream. Normalisations, softmax and
    other functions are computed in f32 as before.

    The relative error of a rounded value is at most 1/256 in bf16, and 1/2048 in f16 if its
    magnitude is between 6e-5 and 65504. A constant that overflows the narrow type stays f32,
    and so do matmuls of a few rows with activations, which read each element about once.

    Args:
        to: ``bfloat16`` or ``float16``.
        weights_only: cast constants only, which halves their memory, and multiply in f32:
            for machines whose 16-bit multiplications are no faster.
    """

    to: str = "bfloat16"
    weights_only: bool = False

    def run(self, module: IRModule) -> None:
        if self.to not in _TYPES:
            raise PassError(
                f"unknown type `{self.to}`: expected {' or '.join(_TYPES)}."
                f"{near_misses(self.to, _TYPES)}"
            )
        for function in graph_functions(module):
            _MatmulCaster(module, function, dtype(self.to), self.weights_only).run()


_TYPES = ("bfloat16", "float16")


class _MatmulCaster:
    """Casts the operands of one function's matmuls and convolutions."""

    def __init__(
        self, module: IRModule, function: func.FuncOp, to: DType, weights_only: bool
    ) -> None:
        self._constants = module.constants
        self._function, self._to, self._weights_only = function, to, weights_only
        self._narrow: dict[ir.Value, AstypeOp] = {}

    def run(self) -> None:
        for op in list(operations_of(self._function)):
            if _is_profitable(op):
                self._rewrite(op)
        for value in list(self._narrow):
            self._hoist_cast(value)

    def _rewrite(self, op: ir.OpView) -> None:
        """Replaces a matmul or convolution by one of narrow operands with an f32 result."""
        assert isinstance(op, (MatmulOp, DenseOp, *_Convolution))
        operands = [
            self._rounded(v, op) if self._is_cast(v) else v
            for v in op.operation.operands
        ]
        with ir.InsertionPoint(op), op.location:
            attrs = {**op.python_attrs(), "out_dtype": _F32}
            made = emit_next_to(op, type(op).script_name(), *operands, **attrs)
        op.operation.results[0].replace_all_uses_with(made)
        erase(op)

    def _is_cast(self, value: ir.Value) -> bool:
        """Whether an operand is cast."""
        owner = None if isinstance(value.owner, ir.Block) else value.owner.opview
        if not isinstance(owner, ConstantOp):
            return not self._weights_only
        array = owner.array(self._constants)
        with np.errstate(over="ignore"):
            narrow = array.astype(self._to.numpy)
        return bool((np.isfinite(narrow) == np.isfinite(array)).all())

    def _rounded(self, value: ir.Value, reader: ir.OpView) -> ir.Value:
        """The cast of a value to 16 bits, inserted after its definition."""
        if value not in self._narrow:
            with _insertion_point_after(value), reader.location:
                made = AstypeOp(value, dtype=self._to)
                bind_next_to(made, reader)
            self._narrow[value] = made
        return self._narrow[value].operation.results[0]

    def _hoist_cast(self, value: ir.Value) -> None:
        """Hoists a cast above data movement that has no other user."""
        op = None if isinstance(value.owner, ir.Block) else value.owner.opview
        cast = self._narrow[value]
        others = [u for u in value.uses if u.owner.operation != cast.operation]
        if not isinstance(op, _DATA_MOVEMENT) or others:
            return
        if not all(tensors.dtype_of(v) == _F32 for v in _tensors(op)):
            return
        before = set(self._narrow)
        operands = [
            [self._rounded(v, op) for v in given]
            if isinstance(given, list)
            else self._rounded(given, op)
            for given in op.unpacked_operands()
        ]
        with ir.InsertionPoint(op), op.location:
            made = emit_next_to(
                op, type(op).script_name(), *operands, **op.python_attrs()
            )
        cast.operation.results[0].replace_all_uses_with(made)
        operands = op.operation.operands
        packs = [v.owner for v in operands if tensors.packed_values(v) is not None]
        erase(cast)
        erase(op)
        for pack in packs:
            if not any(map(has_uses, pack.results)):
                erase(pack)
        del self._narrow[value]
        for new in [v for v in self._narrow if v not in before]:
            self._hoist_cast(new)


def _tensors(op: RelaxOperation) -> Iterator[ir.Value]:
    for given in op.unpacked_operands():
        yield from given if isinstance(given, list) else [given]


def _insertion_point_after(value: ir.Value) -> ir.InsertionPoint:
    owner = value.owner
    if isinstance(owner, ir.Block):
        return ir.InsertionPoint.at_block_begin(owner)
    return ir.InsertionPoint.after(owner)


def _is_profitable(op: ir.OpView) -> bool:
    """Whether an operation is an f32 contraction whose reduction is long enough to gain."""
    if not isinstance(op, (MatmulOp, DenseOp, *_Convolution)):
        return False
    values = [*op.operation.operands, op.operation.results[0]]
    if any(tensors.dtype_of(v) != _F32 for v in values):
        return False
    size = _reduction_size(op)
    is_large = not isinstance(size, int) or size >= _LEAST_REDUCTION
    return is_large and not _is_bandwidth_bound(op)


def _is_bandwidth_bound(op: ir.OpView) -> bool:
    """Whether a matmul reads activations and reuses each element a few times only.

    Its time is that of reading them, and a cast reads them once more: attention of one query
    token over the KV cache is of this kind.
    """
    operands = list(op.operation.operands)
    if not isinstance(op, MatmulOp) or any(map(_is_constant, operands)):
        return False
    x, y = (tensors.shape_of(operand) for operand in operands)
    batches = zip(x[-3::-1], (*y[-3::-1], *(1,) * len(x)), strict=False)
    shared = [n for n, m in batches if m == 1]  # batch dimensions that share one RHS
    reuse = math.prod([*x[-2:-1], *shared])
    return len(y) > 1 and isinstance(reuse, int) and reuse <= _FEW_ROWS


def _is_constant(value: ir.Value) -> bool:
    owner = value.owner
    return not isinstance(owner, ir.Block) and isinstance(owner.opview, ConstantOp)


def _reduction_size(op: ir.OpView) -> Dim:
    """The size of the contiguous reduction dimension: K, or the channels per group."""
    x, y = (tensors.shape_of(v) for v in list(op.operation.operands)[:2])
    if isinstance(op, _Convolution):
        attrs = op.python_attrs()
        channels = op.layouts(attrs).kernel.to_plain(y)[1]
        return channels if isinstance(channels, int) else 0
    return x[-1]
