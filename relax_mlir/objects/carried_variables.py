"""Variables that stay the same objects when a pass changes the module around them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from mlir import ir
from mlir.dialects import func

from relax_mlir.objects import names
from relax_mlir.objects.expr import DataflowVar, Var
from relax_mlir.objects.scope import FunctionScope
from relax_mlir.objects.struct_info_types import from_mlir
from relax_mlir.traversal import own_operations

__all__ = ["carried_scope"]


def carried_scope(old: FunctionScope, function: func.FuncOp) -> FunctionScope:
    """The variables of a function, of which a scope before a pass knows some.

    A value is the variable that had its name, if only one had it, and only this value has
    it now; if it is as local as it was; and if no other is known of it. Needs the context.
    """
    made = FunctionScope()
    made.symbols = old.symbols
    known = _by_unique_name(old)
    values = list(_named_values(function))
    counted = Counter(name for name, _, _ in values)
    for name, value, is_local in values:
        var = known.get(name)
        if var is None or counted[name] > 1:
            continue
        same_kind = isinstance(var, DataflowVar) is is_local
        if same_kind and var.struct_info_or_none() == from_mlir(
            value.type, old.symbols
        ):
            made.remember(value, var)
    return made


def _by_unique_name(scope: FunctionScope) -> dict[str, Var]:
    variables = scope.variables()
    counted = Counter(var.name_hint for var in variables)
    return {v.name_hint: v for v in variables if counted[v.name_hint] == 1}


def _named_values(function: func.FuncOp) -> Iterator[tuple[str, ir.Value, bool]]:
    """Parameters and results with a name, and whether one is local to a dataflow block."""
    block = function.entry_block
    for name, argument in zip(names.arg_names(function), block.arguments, strict=True):
        if name is not None:
            yield name, argument, False
    for op in own_operations(block):
        attributes = op.operation.attributes
        results = list(op.operation.results)
        if names.NAME in attributes and len(results) == 1:
            is_inside = (
                names.BLOCK in attributes
                and ir.IntegerAttr(attributes[names.BLOCK]).value >= 0
            )
            name = ir.StringAttr(attributes[names.NAME]).value
            yield name, results[0], is_inside and names.OUTPUT not in attributes
