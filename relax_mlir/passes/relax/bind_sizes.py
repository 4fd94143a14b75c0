"""``relax-bind-sizes``: what operations assume of symbolic sizes is made true, or kept."""

from collections.abc import Iterable
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import constraints, shapes, tensors
from relax_mlir.dialects.constraints import Constraint
from relax_mlir.dialects.relax.core import RelaxOperation
from relax_mlir.dialects.shapes import Dim
from relax_mlir.errors import PassError
from relax_mlir.module import IRModule
from relax_mlir.passes.relax.infer_shapes import has_infer
from relax_mlir.rewriting import Pass

__all__ = ["BindSizes", "constraints_of", "set_constraints"]


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
        function = module.function("main")
        with constraints.collect() as found:
            constraints.assume(constraints_of(module))
            for block in function.regions[0].blocks:
                for op in block.operations:
                    if isinstance(op, RelaxOperation):
                        _infer(op)
        try:
            values, left = constraints.solve(found, _symbols(function))
        except ValueError as error:
            raise PassError(f"`main`: {error}") from error
        if values:
            _substitute(function, values)
        set_constraints(module, left)


_CONSTRAINTS = "relax.constraints"


def constraints_of(module: IRModule) -> list[Constraint]:
    """What must hold of the sizes of a module, beside its types."""
    attributes = module.mlir.operation.attributes
    if _CONSTRAINTS not in attributes:
        return []
    return [Constraint.parse(text.value) for text in attributes[_CONSTRAINTS]]


def set_constraints(module: IRModule, found: Iterable[Constraint]) -> None:
    """Say what must hold of the sizes of a module, in place of what was said."""
    texts = [ir.StringAttr.get(str(c), module.context) for c in found]
    attributes = module.mlir.operation.attributes
    if texts:
        attributes[_CONSTRAINTS] = ir.ArrayAttr.get(texts, module.context)
    elif _CONSTRAINTS in attributes:
        del attributes[_CONSTRAINTS]


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
        values += [r for op in block.operations for r in op.results]
    for value in values:
        if isinstance(value.type, ir.RankedTensorType):
            for dim in tensors.shape_of(value):
                found.update((name, None) for name in shapes.symbols_of(dim))
    return list(found)


def _substitute(function: func.FuncOp, values: dict[str, Dim]) -> None:
    """Put sizes in place of symbols, in all types and attributes of a function."""
    with function.context:
        for block in function.regions[0].blocks:
            for value in block.arguments:
                value.set_type(tensors.substitute_type(value.type, values))
            for op in block.operations:
                for value in op.results:
                    value.set_type(tensors.substitute_type(value.type, values))
                for name in list(op.attributes):
                    found = tensors.python_value(op.attributes[name])
                    if _is_shape(found):
                        dims = [shapes.substitute(d, values) for d in found]
                        op.attributes[name] = tensors.shape_attr(dims)
        types = [
            [tensors.substitute_type(t, values) for t in part]
            for part in (function.type.inputs, function.type.results)
        ]
        type_ = ir.FunctionType.get(*types)
        function.attributes["function_type"] = ir.TypeAttr.get(type_)


def _is_shape(value: object) -> bool:
    return isinstance(value, tuple) and any(isinstance(d, shapes.Expr) for d in value)
