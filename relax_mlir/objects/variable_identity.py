"""Keeps the identity of variables when a pass changes the module."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from mlir import ir
from mlir.dialects import func

from relax_mlir.ir import function_attributes
from relax_mlir.ir.traversal import own_operations
from relax_mlir.objects.expr import DataflowVar, Var
from relax_mlir.objects.expr.struct_info_types import from_mlir
from relax_mlir.objects.scope import FunctionScope

__all__ = ["scope_after_pass"]


def scope_after_pass(old: FunctionScope, function: func.FuncOp) -> FunctionScope:
    """The scope of a function after a pass, with variables of the scope before it.

    A value takes over a variable if both have the same name, which is unique before and
    after, the same locality (dataflow or not) and the same struct info. Needs the context.
    """
    scope = FunctionScope()
    scope.symbols = old.symbols
    known = _by_unique_name(old)
    values = list(_named_values(function))
    counts = Counter(name for name, _, _ in values)
    for name, value, is_local in values:
        var = known.get(name)
        if var is None or counts[name] > 1:
            continue
        same_kind = isinstance(var, DataflowVar) is is_local
        if same_kind and var.struct_info_or_none() == from_mlir(
            value.type, old.symbols
        ):
            scope.remember(value, var)
    return scope


def _by_unique_name(scope: FunctionScope) -> dict[str, Var]:
    variables = scope.variables()
    counts = Counter(var.name_hint for var in variables)
    return {v.name_hint: v for v in variables if counts[v.name_hint] == 1}


def _named_values(function: func.FuncOp) -> Iterator[tuple[str, ir.Value, bool]]:
    """Named parameters and results, with whether each is local to a dataflow block."""
    block = function.entry_block
    for name, argument in zip(
        function_attributes.arg_names(function), block.arguments, strict=True
    ):
        if name is not None:
            yield name, argument, False
    for op in own_operations(block):
        attributes = op.operation.attributes
        results = list(op.operation.results)
        if function_attributes.NAME in attributes and len(results) == 1:
            is_inside = (
                function_attributes.BLOCK in attributes
                and ir.IntegerAttr(attributes[function_attributes.BLOCK]).value >= 0
            )
            name = ir.StringAttr(attributes[function_attributes.NAME]).value
            yield (
                name,
                results[0],
                is_inside and function_attributes.OUTPUT not in attributes,
            )
