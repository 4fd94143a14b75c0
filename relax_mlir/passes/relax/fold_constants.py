"""``relax-fold-constants``: compile-time evaluation of operations on constants."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax.core import CallTirOp, ConstantOp, RelaxOperation
from relax_mlir.dialects.shapes import Expr
from relax_mlir.errors import PassError
from relax_mlir.ir import function_attributes
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import operations_of
from relax_mlir.passes.relax.folding_cost import (
    Budget,
    cost_of_program,
    cost_of_reference,
    result_bytes,
)
from relax_mlir.passes.relax.legalize import flat_operands
from relax_mlir.rewrite.functions import (
    dataflow_block_number,
    erase_unused_inline,
    graph_functions,
    pooled_constant,
)
from relax_mlir.rewrite.patterns import Pass, replace

__all__ = ["FoldConstants", "constant_value"]


# Runs a tensor program on arrays: the module, the call of the program, its inputs.
Evaluate = Callable[[IRModule, CallTirOp, Sequence[np.ndarray]], Sequence[np.ndarray]]


@dataclass(frozen=True)
class FoldConstants(Pass):
    """Replace operations on constants by their value, by the operators' numpy reference.

    A result may exceed the size of its operands by at most ``max_growth_bytes``, so that a
    broadcast scalar does not become megabytes of weights. The cost of an evaluation is
    estimated first; if it exceeds the budget of memory or time, the operation stays and is
    computed at run time.

    Args:
        max_growth_bytes: see above; -1 for any.
        max_bytes: peak memory of one evaluation; -1 for any.
        max_time_ms: of all evaluations together; -1 for any.
        in_dataflow: fold only operators inside dataflow blocks.
        evaluate: runs tensor programs; without it, their calls stay.
    """

    known_as = "FoldConstant"
    max_growth_bytes: int = 1 << 16
    max_bytes: int = 1 << 29
    max_time_ms: int = 5000
    in_dataflow: bool = False
    evaluate: Evaluate | None = field(
        default=None, repr=False, metadata={"text": False}
    )

    def run(self, module: IRModule) -> None:
        budget = self.budget()
        for function in graph_functions(module):
            if function_attributes.is_primitive(function):
                continue
            for op in operations_of(function):
                if isinstance(op, CallTirOp):
                    self._run_program(module, op, budget)
                elif not self.in_dataflow or dataflow_block_number(op) >= 0:
                    self._fold(module, op, budget)
            if self.in_dataflow:
                erase_unused_inline(function)

    def budget(self) -> Budget:
        """The budget of one run of the pass."""
        return Budget(self.max_bytes, self.max_time_ms / 1000)

    def _run_program(self, module: IRModule, op: CallTirOp, budget: Budget) -> None:
        arrays = _arrays(module, tensors.tuple_elements(op.args))
        size = result_bytes(op)
        if self.evaluate is None or arrays is None or size is None:
            return
        program = module.func_op(ir.FlatSymbolRefAttr(op.attributes["callee"]).value)
        if not budget.spend(cost_of_program(program, arrays, size)):
            return
        values = self.evaluate(module, op, arrays)
        with ir.InsertionPoint(op), op.location:
            folded = _constants(module, values)
            is_tuple = isinstance(op.result.type, ir.TupleType)
            replace(op, tensors.pack_tuple(folded) if is_tuple else folded[0])

    def _fold(self, module: IRModule, op: ir.OpView, budget: Budget) -> None:
        arrays = _constant_operands(module, op)
        if arrays is None:
            return
        attrs = op.python_attrs()
        if any(_is_symbolic(value) for value in attrs.values()):
            return
        if not self.fits(module, op, arrays, budget):
            return
        try:
            with np.errstate(all="ignore"):
                result = op.reference(*arrays, **attrs)
        except Exception as error:
            raise PassError(f"{op.location}: `{op.OPERATION_NAME}`: {error}") from error
        values = result if isinstance(result, tuple) else (result,)
        with ir.InsertionPoint(op), op.location:
            folded = _constants(module, values)
        replace(op, folded)

    def fits(
        self,
        module: IRModule,
        op: RelaxOperation,
        arrays: "list[np.ndarray | list[np.ndarray]]",
        budget: Budget,
    ) -> bool:
        """Whether the budget allows evaluating an operation; if so, its cost is spent."""
        flat = [
            a
            for group in arrays
            for a in (group if isinstance(group, list) else [group])
        ]
        after = result_bytes(op)
        if after is None:
            return False
        allowed = sum(a.nbytes for a in flat) + self.max_growth_bytes
        if self.max_growth_bytes >= 0 and allowed < after:
            return False
        cost = cost_of_reference(module, op, flat)
        return cost is not None and budget.spend(cost)


_MOST_OPERATIONS = 256  # visited by one call of `constant_value`
_LOOK_UP_TIME_MS = 1000  # budget of one call of `constant_value`


def constant_value(module: IRModule, value: ir.Value) -> np.ndarray | None:
    """The constant value of an SSA value, if a few foldable operations define it; else None.

    The module does not change.
    """
    found: dict[ir.Value, np.ndarray] = {}
    budget = FoldConstants(max_time_ms=_LOOK_UP_TIME_MS).budget()
    waiting, left = [value], _MOST_OPERATIONS
    while waiting:
        last = waiting[-1]
        owner = last.owner
        left -= 1
        if isinstance(owner, ir.Block) or left < 0:
            return None
        op = owner.opview
        if isinstance(op, ConstantOp):
            found[last] = op.array(module.constants)
        elif not _can_fold(op):
            return None
        elif missing := [o for o in flat_operands(op) if o not in found]:
            waiting += missing
            continue
        elif (array := _evaluated(module, op, found, budget)) is not None:
            found[last] = array
        else:
            return None
        waiting.pop()
    return found[value]


def _evaluated(
    module: IRModule,
    op: RelaxOperation,
    known: Mapping[ir.Value, np.ndarray],
    budget: Budget,
) -> np.ndarray | None:
    """The single result of an operation; None if it is too large or its reference fails."""
    arrays = [
        known[o] if isinstance(o, ir.Value) else [known[part] for part in o]
        for o in op.unpacked_operands()
    ]
    attrs = op.python_attrs()
    is_known = not any(map(_is_symbolic, attrs.values()))
    if len(op.results) != 1 or not is_known:
        return None
    if not FoldConstants().fits(module, op, arrays, budget):
        return None
    try:
        with np.errstate(all="ignore"):
            result = op.reference(*arrays, **attrs)
    except Exception:  # invalid operands are reported when the operation is compiled
        return None
    return np.asarray(result[0] if isinstance(result, tuple) else result)


def _can_fold(op: ir.OpView) -> bool:
    """Whether an operation may be replaced by its value once its operands are constants."""
    if not isinstance(op, RelaxOperation) or isinstance(op, ConstantOp):
        return False
    if not hasattr(op, "reference") or not hasattr(op, "legalize"):
        return False
    return not any(isinstance(r.type, ir.TupleType) for r in op.results)


def _is_symbolic(value: object) -> bool:
    """Whether an attribute's value contains a symbolic size."""
    if isinstance(value, tuple):
        return any(map(_is_symbolic, value))
    return isinstance(value, Expr)


def _constant_operands(
    module: IRModule, op: ir.OpView
) -> "list[np.ndarray | list[np.ndarray]] | None":
    """The arrays of all operands; None if any is not a constant."""
    if not isinstance(op, RelaxOperation) or not _can_fold(op):
        return None
    arrays: list[np.ndarray | list[np.ndarray]] = []
    for operand in op.unpacked_operands():
        is_one = isinstance(operand, ir.Value)
        values = _arrays(module, [operand] if is_one else operand)
        if values is None:
            return None
        arrays.append(values[0] if is_one else values)
    return arrays


def _arrays(module: IRModule, values: Sequence[ir.Value]) -> list[np.ndarray] | None:
    """The arrays of constant values; None if any is not a constant."""
    owners = [v.owner for v in values]
    views = [None if isinstance(o, ir.Block) else o.opview for o in owners]
    if not all(isinstance(view, ConstantOp) for view in views):
        return None
    return [view.array(module.constants) for view in views if view is not None]


def _constants(module: IRModule, values: Sequence[np.ndarray]) -> list[ir.Value]:
    return [
        pooled_constant(module, np.asarray(v), f"folded.{len(module.constants)}")
        for v in values
    ]
