"""``relax-fold-constants``: compute at compile time what depends on nothing."""

from dataclasses import dataclass

import numpy as np
from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax.core import ConstantOp, RelaxOperation
from relax_mlir.dialects.shapes import Expr
from relax_mlir.errors import PassError
from relax_mlir.module import IRModule
from relax_mlir.rewriting import Pass, replace

__all__ = ["FoldConstants"]


@dataclass(frozen=True)
class FoldConstants(Pass):
    """Replace operations on constants by their value, by the operators' numpy definitions.

    A result may be larger than its operands by ``max_growth_bytes`` at most, so that a
    broadcast of one number does not become megabytes of weights.
    """

    max_growth_bytes: int = 1 << 16

    def run(self, module: IRModule) -> None:
        for function in module.functions():
            if "tir.prim_func" in function.attributes:
                continue
            for block in function.regions[0].blocks:
                for op in list(block.operations):
                    self._fold(module, op)

    def _fold(self, module: IRModule, op: ir.OpView) -> None:
        arrays = _constant_operands(module, op)
        if arrays is None or not self._fits(op, arrays):
            return
        attrs = op.python_attrs()
        if any(_is_symbolic(value) for value in attrs.values()):
            return
        try:
            with np.errstate(all="ignore"):
                result = op.reference(*arrays, **attrs)
        except Exception as error:
            raise PassError(f"{op.location}: `{op.OPERATION_NAME}`: {error}") from error
        values = result if isinstance(result, tuple) else (result,)
        with ir.InsertionPoint(op), op.location:
            folded = [
                ConstantOp.of(
                    np.asarray(v), module.constants, f"folded.{len(module.constants)}"
                )
                for v in values
            ]
        replace(op, folded)

    def _fits(
        self, op: ir.OpView, arrays: "list[np.ndarray | list[np.ndarray]]"
    ) -> bool:
        flat = [
            a
            for group in arrays
            for a in (group if isinstance(group, list) else [group])
        ]
        before = sum(a.nbytes for a in flat)
        after = 0
        for result in op.results:
            size = tensors.dtype_of(result).size_bytes
            for dim in tensors.shape_of(result):
                if not isinstance(dim, int):
                    return False
                size *= dim
            after += size
        return after <= before + self.max_growth_bytes


def _is_symbolic(value: object) -> bool:
    """Whether an attribute's value mentions a size that is known only at run time."""
    if isinstance(value, tuple):
        return any(map(_is_symbolic, value))
    return isinstance(value, Expr)


def _constant_operands(
    module: IRModule, op: ir.OpView
) -> "list[np.ndarray | list[np.ndarray]] | None":
    """The arrays of all operands, or None where one is computed."""
    if not isinstance(op, RelaxOperation) or isinstance(op, ConstantOp):
        return None
    if not hasattr(op, "reference") or not hasattr(op, "legalize"):
        return None
    arrays: list[np.ndarray | list[np.ndarray]] = []
    for operand in op.unpacked_operands():
        group = [operand] if isinstance(operand, ir.Value) else operand
        owners = [v.owner for v in group]
        if not all(
            isinstance(o, ir.OpView) and isinstance(o, ConstantOp) for o in owners
        ):
            return None
        values = [o.array(module.constants) for o in owners]
        arrays.append(values[0] if isinstance(operand, ir.Value) else values)
    return arrays
