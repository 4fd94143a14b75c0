"""``relax-remove-unused-parameters``: removes unused parameters of private functions."""

from collections.abc import Iterator
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.relax import graph
from relax_mlir.dialects.shapes import Dim
from relax_mlir.ir import function_attributes
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import operations_of
from relax_mlir.objects.expr.struct_info import (
    PrimStructInfo,
    StructInfo,
    TupleStructInfo,
)
from relax_mlir.objects.expr.struct_info_types import from_mlir, to_mlir
from relax_mlir.objects.infer.struct_info import struct_info_sizes
from relax_mlir.objects.prim import PrimExpr, Var
from relax_mlir.objects.prim.symbolic_sizes import Symbols
from relax_mlir.passes.relax.inline_calls import match_symbols
from relax_mlir.rewrite.functions import (
    copy_script_attributes,
    erase_parameters,
    erase_unused_inline,
    graph_functions,
    symbols_in,
    update_type,
)
from relax_mlir.rewrite.patterns import Pass, has_uses, replace
from relax_mlir.tvm.relax.transform.passes.expand_tuple_arguments import (
    calls_of_function,
)

__all__ = ["RemoveUnusedParameters"]


@dataclass(frozen=True)
class RemoveUnusedParameters(Pass):
    """Removes unused parameters of private functions, and the corresponding arguments.

    A symbol that only a removed parameter defined becomes a scalar parameter.
    """

    def run(self, module: IRModule) -> None:
        for function in graph_functions(module):
            calls = (
                calls_of_function(module, function)
                if function_attributes.is_private(function)
                else None
            )
            unused = _unused(function)
            if calls and unused:
                _remove(function, calls, unused)
        for function in graph_functions(module):
            erase_unused_inline(function)


def _unused(function: func.FuncOp) -> list[int]:
    arguments = function.entry_block.arguments
    return [n for n, argument in enumerate(arguments) if not has_uses(argument)]


def _remove(
    function: func.FuncOp, calls: list[graph.CallOp], unused: list[int]
) -> None:
    """Removes parameters, unless a call does not determine a symbol that they define."""
    types = [argument.type for argument in function.entry_block.arguments]
    defined = {
        name
        for n, t in enumerate(types)
        if n not in unused
        for name in _defined_symbols(t)
    }
    # Last use first, as in TVM.
    needed = [name for name in reversed(_used_symbols(function)) if name not in defined]
    call_symbols = [
        match_symbols(
            types, [value.type for value in tensors.tuple_elements(call.args)]
        )
        for call in calls
    ]
    if any(name not in values for values in call_symbols for name in needed):
        return
    erase_parameters(function, unused)
    _add_scalars(function, needed)
    for call, values in zip(calls, call_symbols, strict=True):
        _update_call(call, unused, [values[name] for name in needed])


def _used_symbols(function: func.FuncOp) -> list[str]:
    """Returns the symbols that the body uses, in order."""
    symbols: dict[str, None] = {}
    for op in operations_of(function):
        symbols.update(dict.fromkeys(symbols_in(r.type for r in op.operation.results)))
        for name in op.operation.attributes:
            attribute = op.operation.attributes[name]
            if str(attribute).startswith("#relax.shape<"):
                for dim in tensors.python_value(attribute):
                    symbols.update(dict.fromkeys(shapes.symbols_of(dim)))
    symbols.update(dict.fromkeys(symbols_in(function.type.results)))
    return list(symbols)


def _defined_symbols(type_: ir.Type) -> list[str]:
    """Returns the symbols that a type defines: those that are whole dimensions."""
    symbols = Symbols()
    sizes = list(_sizes(from_mlir(type_, symbols)))
    return [symbols.name(size) for size in sizes if isinstance(size, Var)]


def _sizes(info: StructInfo) -> Iterator[PrimExpr]:
    if isinstance(info, TupleStructInfo):
        for field in info.fields:
            yield from _sizes(field)
    yield from struct_info_sizes(info)


def _add_scalars(function: func.FuncOp, names: list[str]) -> None:
    """Appends a scalar parameter for each symbol."""
    if not names:
        return
    param_names = [
        name or f"arg{n}"
        for n, name in enumerate(function_attributes.arg_names(function))
    ]
    attrs: list[ir.Attribute] = [ir.DictAttr.get({})] * len(param_names)
    if "arg_attrs" in function.attributes:
        attrs = list(ir.ArrayAttr(function.attributes["arg_attrs"]))
    symbols = Symbols()
    for name in names:
        info = PrimStructInfo(value=symbols.expr(shapes.symbol(name)))
        function.entry_block.add_argument(to_mlir(info, symbols), function.location)
        attrs.append(ir.DictAttr.get({}))
    update_type(function)
    function.attributes["arg_attrs"] = ir.ArrayAttr.get(attrs)
    function_attributes.set_arg_names(
        function, [*param_names, *(f"param_{name}" for name in names)]
    )


def _update_call(call: graph.CallOp, unused: list[int], scalars: list[Dim]) -> None:
    arguments = tensors.tuple_elements(call.args)
    new_arguments = [
        value for index, value in enumerate(arguments) if index not in unused
    ]
    callee = ir.FlatSymbolRefAttr(call.attributes["callee"]).value
    symbols = Symbols()
    with ir.InsertionPoint(call), call.location:
        for scalar in scalars:
            type_ = to_mlir(PrimStructInfo(value=symbols.expr(scalar)), symbols)
            prim_value = graph.PrimValueOp(value=ir.UnitAttr.get(), results=[type_])
            new_arguments.append(prim_value.result)
        new = graph.CallOp(new_arguments, callee=callee, results=[call.result.type])
    copy_script_attributes(call, new)
    replace(call, new.result)
