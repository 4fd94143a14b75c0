"""``relax-bind-sizes``: what operations assume of symbolic sizes is made true, or kept."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import constraints, shapes, tensors
from relax_mlir.dialects.constraints import Constraint
from relax_mlir.dialects.relax.core import CallTirOp, RelaxOperation
from relax_mlir.dialects.relax.graph import CallOp
from relax_mlir.dialects.shapes import Dim
from relax_mlir.errors import PassError
from relax_mlir.graphs import substitute_sizes
from relax_mlir.module import IRModule
from relax_mlir.objects.names import place_of
from relax_mlir.passes.relax.infer_shapes import program_call
from relax_mlir.passes.relax.inline_calls import size_values
from relax_mlir.program_bounds import required_sizes
from relax_mlir.programs import argument_shape
from relax_mlir.rewriting import Pass
from relax_mlir.size_constraints import constraints_of, set_constraints
from relax_mlir.traversal import own_operations

__all__ = ["BindSizes"]


@dataclass(frozen=True)
class BindSizes(Pass):
    """Put in what sizes must be for the operations to fit, and list the checks that remain.

    Where [n] meets [5], ``n`` becomes 5 everywhere; where [n] meets [m], they become one.
    What no value of a symbol can express, such as ``min(n, 512) == n`` or that a window
    fits into ``n``, goes to the attribute ``relax.constraints`` of the module, and is
    checked in front of every run. Of a call of a tensor program, the operands and results
    must have the shapes of its buffers, and the buffers must be as large as its accesses
    need (:func:`relax_mlir.program_bounds.required_sizes`).

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
    """Lets the operations of a module say what they assume, inside ``collect``."""

    def __init__(self, module: IRModule) -> None:
        self._functions = {f.name.value: f for f in module.func_ops()}
        self._required: dict[str, tuple[Constraint, ...]] = {}  # by program

    def visit(self, function: func.FuncOp, values: Mapping[str, Dim]) -> None:
        """Visit the operations of a function, and of the kernels that it calls.

        Args:
            function: the function.
            values: its symbols in the sizes of the caller; those not named are the same.
        """
        for block in function.regions[0].blocks:
            for op in own_operations(block):
                self._located(op, values)

    def _located(self, op: ir.OpView, values: Mapping[str, Dim]) -> None:
        try:
            self._operation(op, values)
        except ValueError as error:
            name = op.operation.name
            raise PassError(f"{place_of(op)}: `{name}`: {error}") from error

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
        """Assume that what is passed has the shapes that the program works on."""
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
        """Assume that a fused function gets what it takes; visit it for these sizes."""
        operands = [v.type for v in tensors.elements(call.operands[0])]
        inner = size_values(list(callee.type.inputs), operands)
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
    """Assume that a tensor has the shape that a function takes."""
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
