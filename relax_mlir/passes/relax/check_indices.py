"""``relax-check-indices``: indices are checked against the sizes that they index."""

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import dtypes, tensors
from relax_mlir.dialects.index_ranges import (
    IndexOperand,
    IndexRange,
    out_of_range,
)
from relax_mlir.dialects.relax.cast import AstypeOp
from relax_mlir.dialects.relax.core import RelaxOperation
from relax_mlir.dialects.relax.index_check import CheckIndicesOp, describe_operand
from relax_mlir.dialects.relax.slicing import StridedSliceOp
from relax_mlir.errors import IndexOutOfRangeError
from relax_mlir.graphs import graph_functions, operations_of, stand_beside
from relax_mlir.module import IRModule
from relax_mlir.objects.names import nodes_in, place_of
from relax_mlir.passes.relax.fold_constants import known_array
from relax_mlir.passes.relax.known_operators import write_known_operators
from relax_mlir.passes.relax.legalize import flat_types
from relax_mlir.rewriting import Pass, replace

__all__ = ["CheckIndices", "check_operands", "drop_checks", "has_checks", "keep_checks"]

_INT64 = dtypes.dtype("int64")
_KEPT = "relax.keep_checks"


@dataclass(frozen=True)
class CheckIndices(Pass):
    """Insert ``relax.check_indices`` in front of operators that read indices.

    Which operands those are, and what they may hold, the operators' ``index_operands``
    say. Constant indices are checked here, unless a branch reads them.
    """

    repairs_types = True

    def run(self, module: IRModule) -> None:
        for function in graph_functions(module):
            if "relax.primitive" not in function.attributes:
                write_known_operators(module, function)
                check_operands(module, function)


def check_operands(module: IRModule, function: func.FuncOp) -> None:
    """Check the indices that the operators of a function read.

    Raises:
        IndexOutOfRangeError: a constant index is out of range.
    """
    for op in operations_of(function):
        if not isinstance(op, RelaxOperation) or not _has_known_sizes(op):
            continue
        if isinstance(op, CheckIndicesOp):
            _drop_known(module, op)
            continue
        for name, operand in op.index_operands.items():
            with ir.InsertionPoint(op), op.location:
                _check_operand(module, op, name, operand)


def has_checks(module: IRModule) -> bool:
    """Whether graphs check indices."""
    return any(
        isinstance(op, CheckIndicesOp)
        for function in graph_functions(module)
        for op in operations_of(function)
    )


def keep_checks(module: IRModule) -> None:
    """Let the checks of a module stay, however it is lowered further."""
    module.mlir.operation.attributes[_KEPT] = ir.UnitAttr.get()


def drop_checks(module: IRModule) -> None:
    """Drop all checks of indices that are not to be kept."""
    if _KEPT in module.mlir.operation.attributes:
        return
    for function in graph_functions(module):
        for op in operations_of(function):
            if isinstance(op, CheckIndicesOp):
                replace(op, op.indices)


def _has_known_sizes(op: RelaxOperation) -> bool:
    """Whether every operand is tensors whose sizes are numbers or have names."""
    return all(
        isinstance(t, ir.RankedTensorType) and tensors.has_known_sizes(t)
        for t in flat_types(op.operands)
    )


def _check_operand(
    module: IRModule, op: RelaxOperation, name: str, operand: IndexOperand
) -> None:
    """Check the tensors of one operand, which the operation then reads."""
    unpacked = op.unpacked_operands()
    types = [
        o.type if isinstance(o, ir.Value) else tuple(e.type for e in o)
        for o in unpacked
    ]
    allowed = operand.ranges(*types, **op.python_attrs())
    if allowed is None:
        return
    number = list(op.operand_fields).index(name)
    given = unpacked[number]
    if isinstance(given, ir.Value):
        assert isinstance(allowed, IndexRange)
        if operand.column is not None:
            _checked(module, op, name, _column(op, given, operand.column), allowed)
            return
        checked = _checked(module, op, name, given, allowed)
        if checked != given:
            op.operation.operands[number] = checked
        return
    assert not isinstance(allowed, IndexRange)
    parts = [
        _checked(module, op, f"{name}[{place}]", value, range_)
        for place, (value, range_) in enumerate(zip(given, allowed, strict=True))
    ]
    if parts != given:
        op.operation.operands[number] = tensors.pack(parts)


def _column(op: RelaxOperation, value: ir.Value, column: int) -> ir.Value:
    """One column of a matrix, as integers."""
    place = {"axes": (1,), "begin": (column,), "end": (column + 1,)}
    part = StridedSliceOp(value, **place)
    whole = AstypeOp(part.y, dtype=_INT64)
    for made in (part, whole):
        stand_beside(made, op)
    return whole.y


def _checked(
    module: IRModule,
    op: RelaxOperation,
    name: str,
    indices: ir.Value,
    allowed: IndexRange,
) -> ir.Value:
    """The indices, checked when the model runs unless they are known to be in range."""
    if 0 in tensors.shape_of(indices) or _is_checked(indices, allowed):
        return indices
    made = CheckIndicesOp(
        indices,
        limits=allowed.limits,
        least=allowed.least,
        ignored=allowed.ignored,
        where=_where(op),
        operand=name,
    )
    stand_beside(made, op)
    return indices if _drop_known(module, made) else made.y


def _drop_known(module: IRModule, check: CheckIndicesOp) -> bool:
    """Drop a check of constants that are in range; whether it was one.

    In a branch, constants out of range are left to the run.

    Raises:
        IndexOutOfRangeError: a constant is out of range.
    """
    attrs = check.python_attrs()
    limits = attrs["limits"]
    array = known_array(module, check.indices)
    if array is None or not all(isinstance(limit, int) for limit in limits):
        return False
    wrong = out_of_range(array, limits, attrs["least"], attrs["ignored"])
    if wrong is None:
        replace(check, check.indices)
        return True
    if isinstance(check.operation.parent.opview, func.FuncOp):
        operand = describe_operand(attrs["where"], attrs["operand"])
        raise IndexOutOfRangeError(f"{operand}: {wrong}")
    return False


def _is_checked(indices: ir.Value, allowed: IndexRange) -> bool:
    """Whether the indices are the result of a check for this range, or a smaller one."""
    owner = indices.owner
    if isinstance(owner, ir.Block) or not isinstance(owner.opview, CheckIndicesOp):
        return False
    attrs = owner.opview.python_attrs()
    least = attrs["least"]
    is_narrower = allowed.least is None and least is not None and least >= 0
    same = attrs["limits"] == allowed.limits and attrs["ignored"] == allowed.ignored
    return same and (least == allowed.least or is_narrower)


def _where(op: RelaxOperation) -> str:
    """What an error calls an operation: a node of a model, or where it stands."""
    nodes: Sequence[tuple[str, str]] = list(nodes_in(op.location))
    if nodes:
        name, operator = nodes[0]
        return f"`{name}` ({operator})"
    return f"{place_of(op)} (relax.{op.script_name()})"
