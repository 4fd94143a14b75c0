"""``relax-bind-sizes``: what operations assume of symbolic sizes is made true, or kept."""

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import constraints, shapes, tensors
from relax_mlir.dialects.relax.core import RelaxOperation
from relax_mlir.errors import PassError
from relax_mlir.graphs import substitute_sizes
from relax_mlir.module import IRModule
from relax_mlir.passes.relax.infer_shapes import has_infer
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
    checked in front of every run.

    Raises:
        PassError: no sizes satisfy the operations.
    """

    def run(self, module: IRModule) -> None:
        function = module.func_op("main")
        with constraints.collect() as found:
            constraints.assume(constraints_of(module))
            for block in function.regions[0].blocks:
                for op in own_operations(block):
                    if isinstance(op, RelaxOperation):
                        _infer(op)
        try:
            values, left = constraints.solve(found, _symbols(function))
        except ValueError as error:
            raise PassError(f"`main`: {error}") from error
        if values:
            substitute_sizes(function, values)
        set_constraints(module, left)


def _infer(op: RelaxOperation) -> None:
    """Let an operation say what it assumes."""
    if not has_infer(type(op)):  # a constant, a call
        return
    try:
        op.infer_again()
    except ValueError as error:
        raise PassError(f"{op.location}: `{op.OPERATION_NAME}`: {error}") from error


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
