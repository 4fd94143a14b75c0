"""Cost model of constant folding: time and memory of an evaluation before it runs.

The work of an operation is the number of points in the iteration domains of its tensor program:
outputs times window elements for a pooling, ``m * n * k`` for a matmul. The rate at which the
numpy reference processes these points, and its scratch memory per point, are class attributes of
the operator.

Work linear in the size of the constants is free: transposing or casting large weights costs no
more than reading them, and leaving it would cost every run. The budget limits superlinear work.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from mlir import ir
from mlir.dialects import func

from relax_mlir.analysis.index_maps import constant_of
from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax.core import RelaxOperation
from relax_mlir.dialects.tir import BlockOp
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import own_operations
from relax_mlir.passes.relax.legalize import emit_program, flat_types

__all__ = ["Budget", "Cost", "cost_of_program", "cost_of_reference", "result_bytes"]

# Live copies of operands and results in a reference: f32 as f64, and one more.
_COPIES = 4
_FREE_COPIES = 16  # copies of the operands that count as linear memory
_FREE_POINTS = 8  # points per element that count as linear time
_LOOP_RATE = 1e6  # points per second; below, a reference is a loop in Python
_FEW_POINTS = 1 << 16  # below, no tensor program is built to count them
_COMPILED_RATE = 1e8  # points per second of compiled code without a schedule


@dataclass(frozen=True)
class Cost:
    """An upper bound of the cost of one evaluation.

    Attributes:
        size_bytes: peak memory.
        free_bytes: memory that every budget allows, linear in the constants.
        time_s: time beyond that linear in the constants.
    """

    size_bytes: float
    free_bytes: float
    time_s: float


@dataclass
class Budget:
    """The remaining budget of constant folding.

    Attributes:
        size_bytes: of one evaluation; time_s: of all further ones. Negative for no limit.
    """

    size_bytes: float
    time_s: float

    def spend(self, cost: Cost) -> bool:
        """Subtracts an evaluation's time from the budget; False if it exceeds time or memory."""
        allowed = max(self.size_bytes, cost.free_bytes)
        if self.size_bytes >= 0 and allowed < cost.size_bytes:
            return False
        if 0 <= self.time_s < cost.time_s:
            return False
        if self.time_s >= 0:
            self.time_s -= cost.time_s
        return True


def cost_of_reference(
    module: IRModule, op: RelaxOperation, arrays: Sequence[np.ndarray]
) -> Cost | None:
    """The cost of an operator's reference; None if sizes are symbolic or unknown.

    Args:
        module: the module that provides the context.
        op: an operation of constant operands; arrays: their values.
    """
    results = result_bytes(op)
    if results is None:
        return None
    points, rate = _reference_points(module, op, arrays), type(op).reference_rate
    operands = sum(a.nbytes for a in arrays)
    held = _COPIES * (operands + results)
    scratch = points * type(op).reference_scratch_bytes
    elements = sum(a.size for a in arrays) + _elements(op)
    free_points = _FREE_POINTS * elements if rate > _LOOP_RATE else 0
    return Cost(
        held + scratch,
        _free_bytes(operands, results),
        max(0, points - free_points) / rate,
    )


def cost_of_program(
    program: func.FuncOp, arrays: Sequence[np.ndarray], results: int
) -> Cost:
    """The cost of compiling and running a tensor program on constants.

    Args:
        arrays: its inputs; results: bytes of its outputs.
    """
    operands = sum(a.nbytes for a in arrays)
    free_points = _FREE_POINTS * (sum(a.size for a in arrays) + results)
    points = max(0, _points_in(program.entry_block) - free_points)
    size = operands + results
    return Cost(size, _free_bytes(operands, results), points / _COMPILED_RATE)


def _free_bytes(operands: int, results: int) -> int:
    """Memory linear in the constants; results count up to the size of the operands."""
    return _FREE_COPIES * (operands + min(operands, results))


def _elements(op: ir.OpView) -> int:
    return sum(math.prod(t.shape) for t in flat_types(op.results))


def result_bytes(op: ir.OpView) -> int | None:
    """The size of all results in bytes; None if a dimension is dynamic."""
    total = 0
    for type_ in flat_types(op.results):
        if not isinstance(type_, ir.RankedTensorType) or not type_.has_static_shape:
            return None
        total += math.prod(type_.shape) * tensors.dtype_of(type_).size_bytes
    return total


def _reference_points(
    module: IRModule, op: RelaxOperation, arrays: Sequence[np.ndarray]
) -> float:
    elements = sum(a.size for a in arrays)
    results = _elements(op)
    # Outputs times inputs times windows bounds the points of every program.
    windows = math.prod(max(1, abs(n)) for n in _integers(op.python_attrs().values()))
    if max(1, elements) * max(1, results) * windows <= _FEW_POINTS:
        return elements + results
    scratch = module.alone()
    with ir.InsertionPoint(scratch.mlir.body), op.location:
        try:
            program, _ = emit_program(op, "program")
        except ValueError:  # an invalid operation; legalization reports the error
            return math.inf
    return elements + results + _points_in(program.entry_block)


def _integers(values: Iterable[object]) -> list[int]:
    found: list[int] = []
    for value in values:
        if isinstance(value, tuple):
            found += _integers(value)
        elif isinstance(value, int):
            found.append(value)
    return found


def _points_in(block: ir.Block) -> float:
    """The points of all iteration domains; infinite if an extent is dynamic."""
    total = 0.0
    for op in own_operations(block):
        inner = sum(_points_in(b) for r in op.operation.regions for b in r.blocks)
        if isinstance(op, BlockOp):
            sizes = list(ir.DenseI64ArrayAttr(op.static_extents))
            if min(sizes, default=0) < 0:
                return math.inf
            # Explicit loops already count the points of a block with bindings.
            inner = max(1.0, inner) * (1 if len(op.bindings) else math.prod(sizes))
        elif op.operation.name == "scf.for":
            begin, end, step = (constant_of(v) for v in list(op.operands)[:3])
            if begin is None or end is None or not step:
                return math.inf
            inner = max(1.0, inner) * max(0, -(-(end - begin) // step))
        total += inner
    return total
