"""``relax-bind-sizes``: solves the constraints that operations put on symbolic sizes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import func

from relax_mlir.analysis.access_bounds import required_sizes
from relax_mlir.analysis.prim_func_verifier import argument_shape
from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.relax.core import CallTirOp, RelaxOperation
from relax_mlir.dialects.relax.graph import CallOp
from relax_mlir.dialects.shapes import Dim
from relax_mlir.errors import PassError
from relax_mlir.ir.function_attributes import location_of
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.size_constraints import constraints_of, set_constraints
from relax_mlir.ir.traversal import own_operations
from relax_mlir.passes.relax.infer_shapes import program_call
from relax_mlir.passes.relax.inline_calls import match_symbols
from relax_mlir.rewrite.functions import substitute_sizes
from relax_mlir.rewrite.patterns import Pass
from relax_mlir.symbolic import constraints
from relax_mlir.symbolic.constraints import Constraint

__all__ = ["BindSizes"]


@dataclass(frozen=True)
class BindSizes(Pass):
    """Substitute symbolic sizes that operations determine, and record other constraints.

    Where [n] meets [5], ``n`` becomes 5 everywhere; where [n] meets [m], one symbol replaces
    the other. A constraint that no substitution expresses, such as ``min(n, 512) == n`` or
    that a window fits into ``n``, goes to the module attribute ``relax.constraints`` and is
    checked before every run. The operands and results of a call of a tensor program must have
    the shapes of its buffers, and the buffers must be as large as its accesses need
    (:func:`relax_mlir.analysis.access_bounds.required_sizes`).

    Raises:
        PassError: no sizes satisfy the operations.
    """

    def run(self, module: IRModule) -> None:
        function = module.func_op("main")
        with constraints.collect() as found:
            constraints.assume(constraints_of(module))
            _Assumptions(module).visit(function, {})
        try:
            values, left = constraints.solve(found, _symbols(function))
        except ValueError as error:
            raise PassError(f"`main`: {error}") from error
        if values:
            substitute_sizes(function, values)
        set_constraints(module, left)


class _Assumptions:
    """Collects, inside ``collect``, the size constraints of the operations of a module."""

    def __init__(self, module: IRModule) -> None:
        self._functions = {f.name.value: f for f in module.func_ops()}
        self._required: dict[str, tuple[Constraint, ...]] = {}  # by program

    def visit(self, function: func.FuncOp, values: Mapping[str, Dim]) -> None:
        """Visits the operations of a function and of the fused functions that it calls.

        Args:
            function: the function.
            values: its symbols in terms of the caller's sizes; symbols not in it are the same.
        """
        for block in function.regions[0].blocks:
            for op in own_operations(block):
                self._located(op, values)

    def _located(self, op: ir.OpView, values: Mapping[str, Dim]) -> None:
        try:
            self._operation(op, values)
        except ValueError as error:
            name = op.operation.name
            raise PassError(f"{location_of(op)}: `{name}`: {error}") from error

    def _operation(self, op: ir.OpView, values: Mapping[str, Dim]) -> None:
        if isinstance(op, CallTirOp):
            self._program(op, values)
        elif isinstance(op, CallOp):
            callee = self._functions.get(op.attributes["callee"].value)
            if callee is not None and not callee.is_external:
                self._kernel(op, callee, values)
        elif isinstance(op, RelaxOperation) and op.has_infer():
            op.infer_again()

    def _program(self, call: CallTirOp, values: Mapping[str, Dim]) -> None:
        """Requires the operands and results of a call to have the shapes of its buffers."""
        program, sizes, types = program_call(call, self._functions)
        sizes = {n: shapes.substitute(d, values) for n, d in sizes.items()}
        for number, type_ in enumerate(types):
            _require_shape(
                f"`{program.name.value}`: buffer {number}",
                [shapes.substitute(d, sizes) for d in argument_shape(program, number)],
                [shapes.substitute(d, values) for d in tensors.shape_of(type_)],
            )
        for constraint in self._requirements(program):
            now = constraint.substituted(sizes)
            if now.is_impossible:
                raise ValueError(
                    f"`{program.name.value}` accesses its buffers out of bounds: expected "
                    f"`{constraint}`, got `{now}`"
                )
            constraints.require_at_least(now.lhs, now.rhs)

    def _requirements(self, program: func.FuncOp) -> tuple[Constraint, ...]:
        name = program.name.value
        if name not in self._required:
            self._required[name] = required_sizes(program)
        return self._required[name]

    def _kernel(
        self, call: CallOp, callee: func.FuncOp, values: Mapping[str, Dim]
    ) -> None:
        """Requires the operands to fit a fused function's parameters, and visits its body."""
        operands = [v.type for v in tensors.tuple_elements(call.operands[0])]
        inner = match_symbols(list(callee.type.inputs), operands)
        inner = {n: shapes.substitute(d, values) for n, d in inner.items()}
        for number, (param, type_) in enumerate(
            zip(callee.type.inputs, operands, strict=True)
        ):
            _require_shape(
                f"`{callee.name.value}`: argument {number}",
                [shapes.substitute(d, inner) for d in tensors.shape_of(param)],
                [shapes.substitute(d, values) for d in tensors.shape_of(type_)],
            )
        self.visit(callee, inner)


def _require_shape(where: str, expected: Sequence[Dim], got: Sequence[Dim]) -> None:
    """Requires a tensor to have the shape of the parameter it is passed to."""
    if len(expected) != len(got):
        raise ValueError(f"{where}: expected rank {len(expected)}, got {len(got)}")
    for number, (lhs, rhs) in enumerate(zip(expected, got, strict=True)):
        if shapes.is_known_unequal(lhs, rhs):
            raise ValueError(
                f"{where}: dimension {number}: expected `{lhs}`, got `{rhs}`"
            )
        constraints.require_equal(lhs, rhs)


def _symbols(function: func.FuncOp) -> list[str]:
    """The symbols of a function: those of its parameters in order, then others."""
    found: dict[str, None] = {}
    values = [*function.regions[0].blocks[0].arguments]
    for block in function.regions[0].blocks:
        values += [r for op in own_operations(block) for r in op.results]
    for value in values:
        if isinstance(value.type, ir.RankedTensorType):
            for dim in tensors.shape_of(value):
                found.update((name, None) for name in shapes.symbols_of(dim))
    return list(found)
