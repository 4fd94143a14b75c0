"""Side effects of operators, operations and calls."""

from __future__ import annotations

from collections.abc import Iterator

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import tensors
from relax_mlir.dialects.effects import Effects
from relax_mlir.dialects.ext import Operation
from relax_mlir.dialects.relax import graph
from relax_mlir.ir import function_attributes
from relax_mlir.ir.traversal import own_operations
from relax_mlir.objects.expr import Op
from relax_mlir.objects.expr.struct_info import FuncStructInfo
from relax_mlir.objects.expr.struct_info_types import from_mlir
from relax_mlir.objects.operators import operation_class
from relax_mlir.objects.prim.symbolic_sizes import Symbols

__all__ = [
    "EffectAnalysis",
    "effects_of_operator",
    "is_scalar_arithmetic",
    "may_stop",
]

_TERMINATORS = ("gpu.yield", "func.return", "scf.yield")
_ARITHMETIC = ("arith.", "math.")
# Effects of upstream operations.
_UPSTREAM = {
    tensors.TUPLE_PACK: Effects.NONE,
    "memref.load": Effects.READS,
    "memref.store": Effects.WRITES,
    "memref.subview": Effects.NONE,
    "vector.broadcast": Effects.NONE,
    **dict.fromkeys(_TERMINATORS, Effects.NONE),
    **dict.fromkeys(("scf.for", "scf.if", "scf.while", "scf.parallel"), Effects.NONE),
}


def is_scalar_arithmetic(op: ir.OpView | ir.Operation) -> bool:
    """Whether an operation is pure arithmetic on scalars."""
    return op.operation.name.startswith(_ARITHMETIC)


def effects_of_operator(name: str) -> Effects:
    """The effects of a Relax operator.

    A registered ``FPurity`` attribute overrides its declared purity. Unknown operators are
    pure.

    Args:
        name: the operator name, such as ``relax.add``.
    """
    kind = operation_class(name)
    own = (
        graph.OPERATOR_EFFECTS.get(name, Effects.NONE) if kind is None else kind.effects
    )
    is_pure = Op.of(name).get_attr("FPurity")
    if is_pure is None or bool(is_pure) == own.is_pure:
        return own
    return Effects.NONE if is_pure else Effects.UNKNOWN


def may_stop(name: str) -> bool:
    """Whether a Relax operator checks a condition at run time and may abort."""
    return bool(effects_of_operator(name) & Effects.CHECKS)


class EffectAnalysis:
    """The effects of the operations of one module.

    Args:
        root: the module; None if calls of its functions may be treated as unknown.
    """

    def __init__(self, root: ir.Operation | ir.OpView | None = None) -> None:
        self._functions: dict[str, func.FuncOp] = {}
        self._known: dict[str, Effects] = {}
        if root is not None:
            for op in own_operations(root.regions[0].blocks[0]):
                if isinstance(op, func.FuncOp):
                    self._functions[op.name.value] = op

    def of(self, op: ir.OpView | ir.Operation) -> Effects:
        """The effects of an operation, including nested operations."""
        view = op.operation.opview
        if isinstance(view, graph.CallOperatorOp):
            return effects_of_operator(ir.StringAttr(view.attributes["operator"]).value)
        if isinstance(view, graph.CallOp):
            return self._of_global_call(
                ir.FlatSymbolRefAttr(view.attributes["callee"]).value
            )
        if isinstance(view, graph.CallValueOp):
            return self._of_value_call(view.function)
        own = self._own_effects(view)
        if isinstance(view, graph.FunctionOp):
            return own  # a local function has effects only when called
        for inner in _operations_inside(view):
            own |= self.of(inner)
        return own

    def is_removable(self, op: ir.OpView | ir.Operation) -> bool:
        """Whether an operation may be removed if its results are unused."""
        return self.of(op).is_removable

    def is_mergeable(self, op: ir.OpView | ir.Operation) -> bool:
        """Whether an operation may be replaced by an equal one before it.

        No user of its results may write to them.
        """
        return self.of(op).is_mergeable and not any(
            self._is_written(result) for result in op.operation.results
        )

    def is_computation(self, op: ir.OpView | ir.Operation) -> bool:
        """Whether the compiler knows an operation to be a pure function of its operands.

        A registered function that is declared pure may still be random, so compiler passes
        neither remove nor merge calls of it.
        """
        return self.of(op).is_speculatable

    def is_speculatable(self, op: ir.OpView | ir.Operation) -> bool:
        """Whether an operation may be executed speculatively."""
        return self.of(op).is_speculatable

    def _own_effects(self, view: ir.OpView) -> Effects:
        if isinstance(view, Operation):
            return view.effects
        if is_scalar_arithmetic(view):
            return Effects.NONE
        return _UPSTREAM.get(view.operation.name, Effects.UNKNOWN)

    def _of_global_call(self, name: str) -> Effects:
        """The effects of a call of a function of the module.

        Relax functions declare their purity. Allocations may escape in the result.

        """
        function = self._functions.get(name)
        if function is None:
            return Effects.UNKNOWN
        if name not in self._known:
            self._known[name] = Effects.CALLS  # for recursive calls
            self._known[name] = self._of_function_body(function)
        return self._known[name]

    def _of_value_call(self, function: ir.Value) -> Effects:
        """The effects of a call of a function value, by its type and, if visible, its body."""
        info = from_mlir(function.type, Symbols())
        if not isinstance(info, FuncStructInfo) or not info.purity:
            return Effects.UNKNOWN
        source = function.owner
        if isinstance(source, ir.Block) or not isinstance(
            source.opview, graph.FunctionOp
        ):
            return Effects.CALLS | Effects.ALLOCATES
        return self._of_pure_body(source.opview)

    def _of_pure_body(self, function: ir.OpView) -> Effects:
        """The effects of a call of a function that is declared pure."""
        found = Effects.CALLS
        for op in _operations_inside(function):
            found |= self.of(op) & (Effects.ALLOCATES | Effects.OVERWRITES)
        return found

    def _of_function_body(self, function: func.FuncOp) -> Effects:
        if function_attributes.IMPURE in function.attributes:
            return Effects.UNKNOWN
        if function_attributes.is_prim_func(function):
            return Effects.WRITES if _has_buffers(function) else Effects.CALLS
        return self._of_pure_body(function)

    def _is_written(self, value: ir.Value) -> bool:
        """Whether a value's memory may be written to, directly or through aliases."""
        for use in value.uses:
            user = use.owner
            if user.operation.name in _ALIASING:
                if any(map(self._is_written, user.operation.results)):
                    return True
            elif self.of(user).may_write:
                return True
        return False


# Operations whose result aliases their operand.
_ALIASING = frozenset(
    {
        *(tensors.TUPLE_PACK, "relax.tuple_get_item"),
        *("relax.bind", "relax.match_cast"),
    }
)


def _has_buffers(program: func.FuncOp) -> bool:
    return any(isinstance(t, ir.MemRefType) for t in program.type.inputs)


def _operations_inside(op: ir.OpView) -> Iterator[ir.OpView]:
    for region in op.regions:
        for block in region.blocks:
            yield from own_operations(block)
