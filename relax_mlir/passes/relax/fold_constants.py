"""``relax-fold-constants``: compute at compile time what depends on nothing."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax.core import CallTirOp, ConstantOp, RelaxOperation
from relax_mlir.dialects.shapes import Expr
from relax_mlir.errors import PassError
from relax_mlir.graphs import (
    block_number,
    constant,
    drop_unread,
    graph_functions,
    operations_of,
)
from relax_mlir.module import IRModule
from relax_mlir.passes.relax.folding_cost import (
    Budget,
    cost_of_program,
    cost_of_reference,
    result_bytes,
)
from relax_mlir.passes.relax.legalize import flat_operands
from relax_mlir.rewriting import Pass, replace

__all__ = ["FoldConstants", "known_array"]


# Runs a tensor program on arrays: the module, the call of the program, its inputs.
Evaluate = Callable[[IRModule, CallTirOp, Sequence[np.ndarray]], Sequence[np.ndarray]]


@dataclass(frozen=True)
class FoldConstants(Pass):
    """Replace operations on constants by their value, by the operators' numpy definitions.

    A result may be larger than its operands by ``max_growth_bytes`` at most, so that a
    broadcast of one number does not become megabytes of weights. What an evaluation takes is
    estimated before it runs; beyond the budget of memory or time, the operation stays
    and is computed at run time.

    Args:
        max_growth_bytes: see above; -1 for any.
        max_bytes: peak memory of one evaluation; -1 for any.
        max_time_ms: of all evaluations together; -1 for any.
        in_dataflow: only fold operators that stand in dataflow blocks.
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
            if "relax.primitive" in function.attributes:
                continue
            for op in operations_of(function):
                if isinstance(op, CallTirOp):
                    self._run_program(module, op, budget)
                elif not self.in_dataflow or block_number(op) >= 0:
                    self._fold(module, op, budget)
            if self.in_dataflow:
                drop_unread(function)

    def budget(self) -> Budget:
        """What one run may cost."""
        return Budget(self.max_bytes, self.max_time_ms / 1000)

    def _run_program(self, module: IRModule, op: CallTirOp, budget: Budget) -> None:
        arrays = _arrays(module, tensors.elements(op.args))
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
            replace(op, tensors.pack(folded) if is_tuple else folded[0])

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
        """Whether an operation may be evaluated; takes its cost off the budget."""
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


_MOST_OPERATIONS = 256  # that one value is looked for in
_LOOK_UP_TIME_MS = 1000  # of one look-up


def known_array(module: IRModule, value: ir.Value) -> np.ndarray | None:
    """What a value is, if constants alone tell it by a few operations; changes nothing."""
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
    """The only result of an operation; None if it is too large, or cannot be computed."""
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
    except Exception:  # what it does not take is told where it is compiled
        return None
    return np.asarray(result[0] if isinstance(result, tuple) else result)


def _can_fold(op: ir.OpView) -> bool:
    """Whether an operation may be replaced by its value, if its operands are known."""
    if not isinstance(op, RelaxOperation) or isinstance(op, ConstantOp):
        return False
    if not hasattr(op, "reference") or not hasattr(op, "legalize"):
        return False
    return not any(isinstance(r.type, ir.TupleType) for r in op.results)


def _is_symbolic(value: object) -> bool:
    """Whether an attribute's value mentions a size that is known only at run time."""
    if isinstance(value, tuple):
        return any(map(_is_symbolic, value))
    return isinstance(value, Expr)


def _constant_operands(
    module: IRModule, op: ir.OpView
) -> "list[np.ndarray | list[np.ndarray]] | None":
    """The arrays of all operands, or None where one is computed."""
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
    """The arrays that values are constants of; None where one is none."""
    owners = [v.owner for v in values]
    views = [None if isinstance(o, ir.Block) else o.opview for o in owners]
    if not all(isinstance(view, ConstantOp) for view in views):
        return None
    return [view.array(module.constants) for view in views if view is not None]


def _constants(module: IRModule, values: Sequence[np.ndarray]) -> list[ir.Value]:
    return [
        constant(module, np.asarray(v), f"folded.{len(module.constants)}")
        for v in values
    ]
