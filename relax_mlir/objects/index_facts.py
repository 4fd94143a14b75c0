"""What is known of the indices of a tensor program.

A script has no type of indices: int32 and int64 terms of loop variables, axes and sizes are
written as MLIR's ``index``, see :mod:`.index_writer`, and all others as what they are.
"""

from __future__ import annotations

from collections.abc import Collection

from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.tir import BlockOp, marks
from relax_mlir.indexing import constant_of, selected_divisor

__all__ = ["IndexFacts", "is_never_negative"]

# Operations whose result is not negative where their operands are not.
_KEEPS_SIGN = frozenset(
    {
        *("arith.addi", "arith.muli", "arith.minsi", "arith.floordivsi"),
        *("arith.divsi", "arith.remsi", "arith.remui", "arith.divui", "tir.let"),
    }
)
# Operations that are written as such where their operands are indices.
_OF_INDICES = frozenset(
    {
        *("arith.addi", "arith.subi", "arith.muli", "arith.minsi", "arith.maxsi"),
        *("arith.floordivsi", "arith.divsi", "arith.remsi", "arith.divui"),
        "arith.remui",
    }
)
_VARIABLES = ("arith.constant", "tir.let", "tir.undefined")


def is_never_negative(
    value: ir.Value,
    sizes: Collection[ir.Value],
    known: dict[ir.Value, bool] | None = None,
) -> bool:
    """Whether an index is surely not negative.

    Args:
        sizes: arguments that are not.
        known: what was found, here or before.
    """
    known = {} if known is None else known
    if value not in known:
        known[value] = _is_never_negative(value, sizes, known)
    return known[value]


def _is_never_negative(
    value: ir.Value, sizes: Collection[ir.Value], known: dict[ir.Value, bool]
) -> bool:
    owner = value.owner
    if isinstance(owner, ir.Block):
        return value in sizes or _starts_at_size(value, owner, sizes, known)
    operands = list(owner.operands)
    number = constant_of(value)
    if number is not None:
        return number >= 0
    if owner.operation.name == "arith.maxsi":
        return any(is_never_negative(v, sizes, known) for v in operands)
    return owner.operation.name in _KEEPS_SIGN and all(
        is_never_negative(v, sizes, known) for v in operands
    )


def _starts_at_size(
    variable: ir.Value,
    block: ir.Block,
    sizes: Collection[ir.Value],
    known: dict[ir.Value, bool],
) -> bool:
    """Whether what a loop or an axis runs over begins at 0 or above."""
    op = block.owner.operation
    number = ir.BlockArgument(variable).arg_number
    if op.name == "scf.for":
        return number == 0 and is_never_negative(op.operands[0], sizes, known)
    if op.name != BlockOp.OPERATION_NAME:
        return False
    if marks.AXIS_STARTS not in op.attributes:
        return True
    start = tensors.python_value(op.attributes[marks.AXIS_STARTS])[number]
    return isinstance(start, int) and start >= 0


class IndexFacts:
    """What a reader knows of indices.

    Attributes:
        sizes: arguments that are not negative.
    """

    def __init__(self) -> None:
        self.sizes: set[ir.Value] = set()
        self._signs: dict[ir.Value, bool] = {}
        self._pure: dict[ir.Value, bool] = {}

    def is_never_negative(self, value: ir.Value) -> bool:
        """Whether an index is surely not negative."""
        return is_never_negative(value, self.sizes, self._signs)

    def is_pure(self, value: ir.Value) -> bool:
        """Whether an index depends on variables alone, so that its term is one, too."""
        if value not in self._pure:
            self._pure[value] = self._depends_on_variables(value)
        return self._pure[value]

    def _depends_on_variables(self, value: ir.Value) -> bool:
        owner = value.owner
        if isinstance(owner, ir.Block):
            # What steps of a loop hand on is an element of a buffer in a script.
            is_loop = owner.owner.operation.name == "scf.for"
            return not is_loop or ir.BlockArgument(value).arg_number == 0
        if owner.operation.name in _VARIABLES:
            return True
        stripped = self.divisor(value)
        if stripped != value:
            return self.is_pure(stripped)
        return owner.operation.name in _OF_INDICES and all(
            map(self.is_pure, owner.operands)
        )

    def divisor(self, value: ir.Value) -> ir.Value:
        """What an index is divided by, without what makes 1 of a 0."""
        owner = value.owner
        if isinstance(owner, ir.Block):
            return value
        operands = list(owner.operands)
        if owner.operation.name == "arith.maxsi" and constant_of(operands[1]) == 1:
            return operands[0] if self.is_never_negative(operands[0]) else value
        selected = selected_divisor(value)
        return value if selected is None else selected
