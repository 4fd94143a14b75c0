"""``relax-narrow-products``: matrix products and convolutions of numbers of 16 bits."""

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
from relax_mlir.dialects.relax.conv import Conv1dOp, Conv2dOp, Conv3dOp
from relax_mlir.dialects.relax.core import ConstantOp, RelaxOperation
from relax_mlir.dialects.relax.joining import ConcatOp
from relax_mlir.dialects.relax.matmul import DenseOp, MatmulOp
from relax_mlir.dialects.relax.movement import PermuteDimsOp, ReshapeOp
from relax_mlir.dialects.relax.padding import PadOp
from relax_mlir.dialects.relax.pool import MaxPool1dOp, MaxPool2dOp, MaxPool3dOp
from relax_mlir.dialects.relax.slicing import StridedSliceOp
from relax_mlir.dialects.relax.squeeze import ExpandDimsOp, FlattenOp, SqueezeOp
from relax_mlir.dialects.shapes import Dim
from relax_mlir.errors import PassError, near_misses
from relax_mlir.graphs import (
    PACK,
    emit,
    graph_functions,
    operations_of,
    stand_beside,
)
from relax_mlir.module import IRModule
from relax_mlir.rewriting import Pass, erase, has_uses

__all__ = ["NarrowProducts"]

_Convolution = (Conv1dOp, Conv2dOp, Conv3dOp)
# What they give is what they are given, in other places: rounding may come first.
_MOVERS = (
    *(ReshapeOp, PermuteDimsOp, ExpandDimsOp, SqueezeOp, FlattenOp, StridedSliceOp),
    *(ConcatOp, PadOp, MaxPool1dOp, MaxPool2dOp, MaxPool3dOp),
)
_F32 = dtype("float32")
_FEW_ROWS = 4  # that share what is read of computed columns
_LEAST_TERMS = 16  # of a sum; rounding the factors of shorter ones costs what it saves


@dataclass(frozen=True)
class NarrowProducts(Pass):
    """Round the factors of products to 16 bits, and sum the products up in f32.

    A number that some product takes is rounded where it is computed; what else reads it
    still gets all of it, so that errors do not add up along the sums that run past the
    layers. Normalisations, softmax and other functions are computed in f32 as before.

    In bf16, a rounded number is off by at most 1/256 of itself; in f16 by 1/2048, if its
    size is between 6e-5 and 65504. A constant with numbers beyond that stays f32, and so do
    products of a few rows with what is computed, whose numbers are read about once.

    Args:
        to: ``bfloat16`` or ``float16``.
        weights_only: round constants, which then take half the memory, and multiply in
            f32: for machines that do not multiply such numbers faster.
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
            _Narrowing(module, function, dtype(self.to), self.weights_only).run()


_TYPES = ("bfloat16", "float16")


class _Narrowing:
    """Rounds the factors of one function's products."""

    def __init__(
        self, module: IRModule, function: func.FuncOp, to: DType, weights_only: bool
    ) -> None:
        self._constants = module.constants
        self._function, self._to, self._weights_only = function, to, weights_only
        self._narrow: dict[ir.Value, AstypeOp] = {}

    def run(self) -> None:
        for op in list(operations_of(self._function)):
            if _gains(op):
                self._rewrite(op)
        for value in list(self._narrow):
            self._move_up(value)

    def _rewrite(self, op: ir.OpView) -> None:
        """Let a product take rounded factors."""
        assert isinstance(op, (MatmulOp, DenseOp, *_Convolution))
        factors = [
            self._rounded(v, op) if self._takes(v) else v for v in op.operation.operands
        ]
        with ir.InsertionPoint(op), op.location:
            attrs = {**op.python_attrs(), "out_dtype": _F32}
            made = emit(op, type(op).script_name(), *factors, **attrs)
        op.operation.results[0].replace_all_uses_with(made)
        erase(op)

    def _takes(self, value: ir.Value) -> bool:
        """Whether a factor is rounded."""
        owner = None if isinstance(value.owner, ir.Block) else value.owner.opview
        if not isinstance(owner, ConstantOp):
            return not self._weights_only
        array = owner.array(self._constants)
        with np.errstate(over="ignore"):
            narrow = array.astype(self._to.numpy)
        return bool((np.isfinite(narrow) == np.isfinite(array)).all())

    def _rounded(self, value: ir.Value, reader: ir.OpView) -> ir.Value:
        """A value in 16 bits, from behind where it is computed."""
        if value not in self._narrow:
            with _behind(value), reader.location:
                made = AstypeOp(value, dtype=self._to)
                stand_beside(made, reader)
            self._narrow[value] = made
        return self._narrow[value].operation.results[0]

    def _move_up(self, value: ir.Value) -> None:
        """Round what only moves numbers before they are moved, if nothing else reads them."""
        op = None if isinstance(value.owner, ir.Block) else value.owner.opview
        cast = self._narrow[value]
        others = [u for u in value.uses if u.owner.operation != cast.operation]
        if not isinstance(op, _MOVERS) or others:
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
            made = emit(op, type(op).script_name(), *operands, **op.python_attrs())
        cast.operation.results[0].replace_all_uses_with(made)
        packs = [v.owner for v in op.operation.operands if _is_pack(v)]
        erase(cast)
        erase(op)
        for pack in packs:
            if not any(map(has_uses, pack.results)):
                erase(pack)
        del self._narrow[value]
        for new in [v for v in self._narrow if v not in before]:
            self._move_up(new)


def _is_pack(value: ir.Value) -> bool:
    return not isinstance(value.owner, ir.Block) and value.owner.name == PACK


def _tensors(op: RelaxOperation) -> Iterator[ir.Value]:
    for given in op.unpacked_operands():
        yield from given if isinstance(given, list) else [given]


def _behind(value: ir.Value) -> ir.InsertionPoint:
    owner = value.owner
    if isinstance(owner, ir.Block):
        return ir.InsertionPoint.at_block_begin(owner)
    return ir.InsertionPoint.after(owner)


def _gains(op: ir.OpView) -> bool:
    """Whether an operation is a sum of products of f32 that is long enough."""
    if not isinstance(op, (MatmulOp, DenseOp, *_Convolution)):
        return False
    values = [*op.operation.operands, op.operation.results[0]]
    if any(tensors.dtype_of(v) != _F32 for v in values):
        return False
    terms = _terms(op)
    is_long = not isinstance(terms, int) or terms >= _LEAST_TERMS
    return is_long and not _reads_once(op)


def _reads_once(op: ir.OpView) -> bool:
    """Whether a product reads numbers that are computed, and uses each a few times.

    It takes as long as reading them does, of which rounding them would be another one: so
    do queries of one token with the keys of all before.
    """
    factors = list(op.operation.operands)
    if not isinstance(op, MatmulOp) or any(map(_is_constant, factors)):
        return False
    x, y = (tensors.shape_of(factor) for factor in factors)
    batches = zip(x[-3::-1], (*y[-3::-1], *(1,) * len(x)), strict=False)
    shared = [n for n, m in batches if m == 1]  # that read the same columns
    reads = math.prod([*x[-2:-1], *shared])
    return len(y) > 1 and isinstance(reads, int) and reads <= _FEW_ROWS


def _is_constant(value: ir.Value) -> bool:
    owner = value.owner
    return not isinstance(owner, ir.Block) and isinstance(owner.opview, ConstantOp)


def _terms(op: ir.OpView) -> Dim:
    """How many terms a sum has that lie side by side in a row."""
    x, y = (tensors.shape_of(v) for v in list(op.operation.operands)[:2])
    if isinstance(op, _Convolution):
        attrs = op.python_attrs()
        channels = op.layouts(attrs).kernel.to_plain(y)[1]
        return channels if isinstance(channels, int) else 0
    return x[-1]
