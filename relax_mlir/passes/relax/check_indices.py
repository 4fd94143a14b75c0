"""``relax-check-indices``: bounds checks of the indices that operators read."""

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import dtypes, tensors
from relax_mlir.dialects.index_ranges import (
    IndexOperand,
    IndexRange,
    out_of_range_message,
)
from relax_mlir.dialects.relax.cast import AstypeOp
from relax_mlir.dialects.relax.core import RelaxOperation
from relax_mlir.dialects.relax.index_check import CheckIndicesOp, describe_operand
from relax_mlir.dialects.relax.slicing import StridedSliceOp
from relax_mlir.errors import IndexOutOfRangeError
from relax_mlir.ir import function_attributes
from relax_mlir.ir.function_attributes import location_of, onnx_nodes
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import operations_of
from relax_mlir.passes.relax.fold_constants import constant_value
from relax_mlir.passes.relax.legalize import flat_types
from relax_mlir.passes.relax.refine_operators import refine_operators
from relax_mlir.rewrite.functions import bind_next_to, graph_functions
from relax_mlir.rewrite.patterns import Pass, replace

__all__ = [
    "CheckIndices",
    "drop_checks",
    "has_checks",
    "insert_index_checks",
    "keep_checks",
]

_INT64 = dtypes.dtype("int64")
_KEPT = "relax.keep_checks"


@dataclass(frozen=True)
class CheckIndices(Pass):
    """Insert ``relax.check_indices`` before operators that read indices.

    The operators' ``index_operands`` name these operands and their ranges. Constant indices
    are checked at compile time, except inside branches.
    """

    repairs_types = True

    def run(self, module: IRModule) -> None:
        for function in graph_functions(module):
            if not function_attributes.is_primitive(function):
                refine_operators(module, function)
                insert_index_checks(module, function)


def insert_index_checks(module: IRModule, function: func.FuncOp) -> None:
    """Inserts bounds checks for the index operands of a function's operators.

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
    """Whether any graph function has index checks."""
    return any(
        isinstance(op, CheckIndicesOp)
        for function in graph_functions(module)
        for op in operations_of(function)
    )


def keep_checks(module: IRModule) -> None:
    """Marks the module so that ``drop_checks`` keeps its index checks."""
    module.mlir.operation.attributes[_KEPT] = ir.UnitAttr.get()


def drop_checks(module: IRModule) -> None:
    """Removes all index checks, unless the module is marked to keep them."""
    if _KEPT in module.mlir.operation.attributes:
        return
    for function in graph_functions(module):
        for op in operations_of(function):
            if isinstance(op, CheckIndicesOp):
                replace(op, op.indices)


def _has_known_sizes(op: RelaxOperation) -> bool:
    """Whether all operands are tensors, or tuples of tensors, of static or symbolic sizes."""
    return all(
        isinstance(t, ir.RankedTensorType) and tensors.has_known_shape(t)
        for t in flat_types(op.operands)
    )


def _check_operand(
    module: IRModule, op: RelaxOperation, name: str, operand: IndexOperand
) -> None:
    """Inserts checks of one operand's tensors and makes the operation read the checked ones."""
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
        op.operation.operands[number] = tensors.pack_tuple(parts)


def _column(op: RelaxOperation, value: ir.Value, column: int) -> ir.Value:
    """One column of a matrix, cast to int64."""
    place = {"axes": (1,), "begin": (column,), "end": (column + 1,)}
    part = StridedSliceOp(value, **place)
    whole = AstypeOp(part.y, dtype=_INT64)
    for made in (part, whole):
        bind_next_to(made, op)
    return whole.y


def _checked(
    module: IRModule,
    op: RelaxOperation,
    name: str,
    indices: ir.Value,
    allowed: IndexRange,
) -> ir.Value:
    """The result of a check of the indices, or the indices if they are known to be in range."""
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
    bind_next_to(made, op)
    return indices if _drop_known(module, made) else made.y


def _drop_known(module: IRModule, check: CheckIndicesOp) -> bool:
    """Removes a check of constants that are in range; returns whether it did.

    In a branch, an out-of-range constant is an error only if the branch runs.

    Raises:
        IndexOutOfRangeError: a constant is out of range.
    """
    attrs = check.python_attrs()
    limits = attrs["limits"]
    array = constant_value(module, check.indices)
    if array is None or not all(isinstance(limit, int) for limit in limits):
        return False
    wrong = out_of_range_message(array, limits, attrs["least"], attrs["ignored"])
    if wrong is None:
        replace(check, check.indices)
        return True
    if isinstance(check.operation.parent.opview, func.FuncOp):
        operand = describe_operand(attrs["where"], attrs["operand"])
        raise IndexOutOfRangeError(f"{operand}: {wrong}")
    return False


def _is_checked(indices: ir.Value, allowed: IndexRange) -> bool:
    """Whether the indices are the result of a check against this range or a narrower one."""
    owner = indices.owner
    if isinstance(owner, ir.Block) or not isinstance(owner.opview, CheckIndicesOp):
        return False
    attrs = owner.opview.python_attrs()
    least = attrs["least"]
    is_narrower = allowed.least is None and least is not None and least >= 0
    same = attrs["limits"] == allowed.limits and attrs["ignored"] == allowed.ignored
    return same and (least == allowed.least or is_narrower)


def _where(op: RelaxOperation) -> str:
    """The name of an operation in error messages: its ONNX node, or its source location."""
    nodes: Sequence[tuple[str, str]] = list(onnx_nodes(op.location))
    if nodes:
        name, operator = nodes[0]
        return f"`{name}` ({operator})"
    return f"{location_of(op)} (relax.{op.script_name()})"
