"""``relax-remove-unused-parameters``: private functions take only what they read."""

from collections.abc import Iterator
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.relax import graph
from relax_mlir.dialects.shapes import Dim
from relax_mlir.graphs import (
    copy_script_attributes,
    drop_unread,
    erase_parameters,
    graph_functions,
    operations_of,
    symbols_in,
    update_type,
)
from relax_mlir.module import IRModule
from relax_mlir.objects import names
from relax_mlir.objects.infer import sizes_of
from relax_mlir.objects.prim import PrimExpr, Var
from relax_mlir.objects.sizes import Symbols
from relax_mlir.objects.struct_info import PrimStructInfo, StructInfo, TupleStructInfo
from relax_mlir.objects.struct_info_types import from_mlir, to_mlir
from relax_mlir.passes.relax.expand_tuple_arguments import calls_of
from relax_mlir.passes.relax.inline_calls import size_values
from relax_mlir.rewriting import Pass, has_uses, replace

__all__ = ["RemoveUnusedParameters"]


@dataclass(frozen=True)
class RemoveUnusedParameters(Pass):
    """Drop parameters that a private function does not read, and what callers pass.

    A size that only a dropped parameter told becomes a scalar parameter of its own.
    """

    def run(self, module: IRModule) -> None:
        for function in graph_functions(module):
            calls = calls_of(module, function) if names.is_private(function) else None
            unused = _unused(function)
            if calls and unused:
                _drop(function, calls, unused)
        for function in graph_functions(module):
            drop_unread(function)


def _unused(function: func.FuncOp) -> list[int]:
    arguments = function.entry_block.arguments
    return [n for n, argument in enumerate(arguments) if not has_uses(argument)]


def _drop(function: func.FuncOp, calls: list[graph.CallOp], unused: list[int]) -> None:
    """Drop parameters; nothing changes where a call does not tell a size that it tells."""
    types = [argument.type for argument in function.entry_block.arguments]
    told = {name for n, t in enumerate(types) if n not in unused for name in _told(t)}
    # As in TVM, the size that is mentioned last comes first.
    wanted = [name for name in reversed(_mentioned(function)) if name not in told]
    passed = [
        size_values(types, [value.type for value in tensors.elements(call.args)])
        for call in calls
    ]
    if any(name not in values for values in passed for name in wanted):
        return
    erase_parameters(function, unused)
    _add_scalars(function, wanted)
    for call, values in zip(calls, passed, strict=True):
        _pass(call, unused, [values[name] for name in wanted])


def _mentioned(function: func.FuncOp) -> list[str]:
    """The symbols that the body needs, in order."""
    found: dict[str, None] = {}
    for op in operations_of(function):
        found.update(dict.fromkeys(symbols_in(r.type for r in op.operation.results)))
        for name in op.operation.attributes:
            attribute = op.operation.attributes[name]
            if str(attribute).startswith("#relax.shape<"):
                for dim in tensors.python_value(attribute):
                    found.update(dict.fromkeys(shapes.symbols_of(dim)))
    found.update(dict.fromkeys(symbols_in(function.type.results)))
    return list(found)


def _told(type_: ir.Type) -> list[str]:
    """The symbols that are sizes of a value by themselves."""
    symbols = Symbols()
    sizes = list(_sizes(from_mlir(type_, symbols)))
    return [symbols.name(size) for size in sizes if isinstance(size, Var)]


def _sizes(info: StructInfo) -> Iterator[PrimExpr]:
    if isinstance(info, TupleStructInfo):
        for field in info.fields:
            yield from _sizes(field)
    yield from sizes_of(info)


def _add_scalars(function: func.FuncOp, wanted: list[str]) -> None:
    """A parameter for each symbol, behind the others."""
    if not wanted:
        return
    called = [name or f"arg{n}" for n, name in enumerate(names.arg_names(function))]
    attrs: list[ir.Attribute] = [ir.DictAttr.get({})] * len(called)
    if "arg_attrs" in function.attributes:
        attrs = list(ir.ArrayAttr(function.attributes["arg_attrs"]))
    symbols = Symbols()
    for name in wanted:
        info = PrimStructInfo(value=symbols.term(shapes.symbol(name)))
        function.entry_block.add_argument(to_mlir(info, symbols), function.location)
        attrs.append(ir.DictAttr.get({}))
    update_type(function)
    function.attributes["arg_attrs"] = ir.ArrayAttr.get(attrs)
    names.set_arg_names(function, [*called, *(f"param_{name}" for name in wanted)])


def _pass(call: graph.CallOp, unused: list[int], scalars: list[Dim]) -> None:
    given = tensors.elements(call.args)
    kept = [value for number, value in enumerate(given) if number not in unused]
    callee = ir.FlatSymbolRefAttr(call.attributes["callee"]).value
    symbols = Symbols()
    with ir.InsertionPoint(call), call.location:
        for scalar in scalars:
            type_ = to_mlir(PrimStructInfo(value=symbols.term(scalar)), symbols)
            made = graph.PrimValueOp(value=ir.UnitAttr.get(), results=[type_])
            kept.append(made.result)
        new = graph.CallOp(kept, callee=callee, results=[call.result.type])
    copy_script_attributes(call, new)
    replace(call, new.result)
