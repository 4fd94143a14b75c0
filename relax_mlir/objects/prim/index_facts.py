"""Sign and purity analysis of ``index`` values of a tensor program.

TVMScript has no index type: int32 and int64 expressions of loop variables, axes and sizes
are written as MLIR's ``index`` (see :mod:`relax_mlir.objects.write.index`), all others in
their own type.
"""

from __future__ import annotations

from collections.abc import Collection

from mlir import ir

from relax_mlir.analysis.index_maps import constant_of, selected_divisor
from relax_mlir.dialects import tensors
from relax_mlir.dialects.tir import BlockOp, attribute_names

__all__ = ["IndexFacts", "is_never_negative"]

# Operations whose result is non-negative if all operands are.
_KEEPS_SIGN = frozenset(
    {
        *("arith.addi", "arith.muli", "arith.minsi", "arith.floordivsi"),
        *("arith.divsi", "arith.remsi", "arith.remui", "arith.divui", "tir.let"),
    }
)
# Operations that are written on `index` if their operands are indices.
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
    """Whether an index is provably non-negative.

    Args:
        sizes: function arguments that are non-negative.
        known: memoized results, updated in place.
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
    """Whether the range of a loop or an axis starts at 0 or above."""
    op = block.owner.operation
    number = ir.BlockArgument(variable).arg_number
    if op.name == "scf.for":
        return number == 0 and is_never_negative(op.operands[0], sizes, known)
    if op.name != BlockOp.OPERATION_NAME:
        return False
    if attribute_names.AXIS_STARTS not in op.attributes:
        return True
    start = tensors.python_value(op.attributes[attribute_names.AXIS_STARTS])[number]
    return isinstance(start, int) and start >= 0


class IndexFacts:
    """Memoized facts about the indices of one function.

    Attributes:
        sizes: function arguments that are non-negative.
    """

    def __init__(self) -> None:
        self.sizes: set[ir.Value] = set()
        self._signs: dict[ir.Value, bool] = {}
        self._pure: dict[ir.Value, bool] = {}

    def is_never_negative(self, value: ir.Value) -> bool:
        """Whether an index is provably non-negative."""
        return is_never_negative(value, self.sizes, self._signs)

    def is_pure(self, value: ir.Value) -> bool:
        """Whether an index depends only on variables: it can be read as a pure expression."""
        if value not in self._pure:
            self._pure[value] = self._depends_on_variables(value)
        return self._pure[value]

    def _depends_on_variables(self, value: ir.Value) -> bool:
        owner = value.owner
        if isinstance(owner, ir.Block):
            # Loop-carried values (iter_args) are elements of a buffer in a script.
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
        """The divisor without the guard that replaces 0 by 1."""
        owner = value.owner
        if isinstance(owner, ir.Block):
            return value
        operands = list(owner.operands)
        if owner.operation.name == "arith.maxsi" and constant_of(operands[1]) == 1:
            return operands[0] if self.is_never_negative(operands[0]) else value
        selected = selected_divisor(value)
        return value if selected is None else selected
