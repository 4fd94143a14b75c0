"""The effects of operators by name, of operations, and of functions that are called."""

from __future__ import annotations

from collections.abc import Iterator

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects.effects import Effects
from relax_mlir.dialects.ext import Operation
from relax_mlir.dialects.relax import graph
from relax_mlir.objects import names
from relax_mlir.objects.expr import Op
from relax_mlir.objects.operators import operation_class
from relax_mlir.objects.sizes import Symbols
from relax_mlir.objects.struct_info import FuncStructInfo
from relax_mlir.objects.struct_info_types import from_mlir
from relax_mlir.traversal import own_operations

__all__ = [
    "EffectAnalysis",
    "effects_of_operator",
    "is_scalar_arithmetic",
    "may_stop",
]

_TERMINATORS = ("gpu.yield", "func.return", "scf.yield")
_ARITHMETIC = ("arith.", "math.")
# Operations of MLIR's dialects that modules hold.
_UPSTREAM = {
    "builtin.unrealized_conversion_cast": Effects.NONE,
    "memref.load": Effects.READS,
    "memref.store": Effects.WRITES,
    "memref.subview": Effects.NONE,
    "vector.broadcast": Effects.NONE,
    **dict.fromkeys(_TERMINATORS, Effects.NONE),
    **dict.fromkeys(("scf.for", "scf.if", "scf.while", "scf.parallel"), Effects.NONE),
}


def is_scalar_arithmetic(op: ir.OpView | ir.Operation) -> bool:
    """Whether an operation computes scalars of scalars, and does nothing else."""
    return op.operation.name.startswith(_ARITHMETIC)


def effects_of_operator(name: str) -> Effects:
    """The effects of an operator of Relax.

    What a program registers as ``FPurity`` counts first. An operator of which nothing is
    known is pure.

    Args:
        name: such as ``relax.add``.
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
    """Whether an operator of Relax stops the program unless something holds."""
    return bool(effects_of_operator(name) & Effects.CHECKS)


class EffectAnalysis:
    """The effects of the operations of one module.

    Args:
        root: of the module; None where calls of its functions are not asked for, which
            then may do anything.
    """

    def __init__(self, root: ir.Operation | ir.OpView | None = None) -> None:
        self._functions: dict[str, func.FuncOp] = {}
        self._known: dict[str, Effects] = {}
        if root is not None:
            for op in own_operations(root.regions[0].blocks[0]):
                if isinstance(op, func.FuncOp):
                    self._functions[op.name.value] = op

    def of(self, op: ir.OpView | ir.Operation) -> Effects:
        """The effects of an operation and of what is inside it."""
        view = op.operation.opview
        if isinstance(view, graph.CallOperatorOp):
            return effects_of_operator(ir.StringAttr(view.attributes["operator"]).value)
        if isinstance(view, graph.CallOp):
            return self._of_function(
                ir.FlatSymbolRefAttr(view.attributes["callee"]).value
            )
        if isinstance(view, graph.CallValueOp):
            return self._of_value(view.function)
        own = self._own(view)
        if isinstance(view, graph.FunctionOp):
            return own  # it runs where it is called
        for inner in _operations_inside(view):
            own |= self.of(inner)
        return own

    def is_removable(self, op: ir.OpView | ir.Operation) -> bool:
        """Whether an operation whose results nothing reads need not run."""
        return self.of(op).is_removable

    def is_mergeable(self, op: ir.OpView | ir.Operation) -> bool:
        """Whether an equal operation in front of it makes the same results.

        No operation that may write to a result is among its users.
        """
        return self.of(op).is_mergeable and not any(
            self._is_written(result) for result in op.operation.results
        )

    def is_computation(self, op: ir.OpView | ir.Operation) -> bool:
        """Whether the compiler knows all that an operation does: it computes its results.

        A registered function that is said to be pure may yet give random numbers, so the
        passes of the compiler neither drop nor merge calls of one.
        """
        return self.of(op).is_speculatable

    def is_speculatable(self, op: ir.OpView | ir.Operation) -> bool:
        """Whether an operation may run where the program does not run it."""
        return self.of(op).is_speculatable

    def _own(self, view: ir.OpView) -> Effects:
        if isinstance(view, Operation):
            return view.effects
        if is_scalar_arithmetic(view):
            return Effects.NONE
        return _UPSTREAM.get(view.operation.name, Effects.UNKNOWN)

    def _of_function(self, name: str) -> Effects:
        """The effects of a call of a function.

        A graph function declares its purity. What it allocates may be what it returns.
        """
        function = self._functions.get(name)
        if function is None:
            return Effects.UNKNOWN
        if name not in self._known:
            self._known[name] = Effects.CALLS  # in a call of itself
            self._known[name] = self._called(function)
        return self._known[name]

    def _of_value(self, function: ir.Value) -> Effects:
        """The effects of a call of a value: what its type says, and its body if it is here."""
        info = from_mlir(function.type, Symbols())
        if not isinstance(info, FuncStructInfo) or not info.purity:
            return Effects.UNKNOWN
        source = function.owner
        if isinstance(source, ir.Block) or not isinstance(
            source.opview, graph.FunctionOp
        ):
            return Effects.CALLS | Effects.ALLOCATES
        return self._inside(source.opview)

    def _inside(self, function: ir.OpView) -> Effects:
        """The effects of a call of a function that declares that it is pure."""
        found = Effects.CALLS
        for op in _operations_inside(function):
            found |= self.of(op) & (Effects.ALLOCATES | Effects.OVERWRITES)
        return found

    def _called(self, function: func.FuncOp) -> Effects:
        if names.IMPURE in function.attributes:
            return Effects.UNKNOWN
        if names.is_prim_func(function):
            return Effects.WRITES if _has_buffers(function) else Effects.CALLS
        return self._inside(function)

    def _is_written(self, value: ir.Value) -> bool:
        """Whether memory that a value is, alone or in a tuple, may be written to."""
        for use in value.uses:
            user = use.owner
            if user.operation.name in _ALIASING:
                if any(map(self._is_written, user.operation.results)):
                    return True
            elif self.of(user).may_write:
                return True
        return False


# What has the memory of its operand.
_ALIASING = frozenset(
    {
        *("builtin.unrealized_conversion_cast", "relax.tuple_get_item"),
        *("relax.bind", "relax.match_cast"),
    }
)


def _has_buffers(program: func.FuncOp) -> bool:
    return any(isinstance(t, ir.MemRefType) for t in program.type.inputs)


def _operations_inside(op: ir.OpView) -> Iterator[ir.OpView]:
    for region in op.regions:
        for block in region.blocks:
            yield from own_operations(block)
