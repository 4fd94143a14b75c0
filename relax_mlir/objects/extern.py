"""External (registered) functions in a module, as declarations in MLIR."""

from __future__ import annotations

from mlir import ir
from mlir.dialects import func
from mlir.dialects.builtin import ModuleOp

from relax_mlir.ir import function_attributes
from relax_mlir.objects.expr import ExternFunc
from relax_mlir.objects.expr.struct_info_types import from_mlir, to_mlir
from relax_mlir.objects.mlir_attributes import from_attribute, to_attribute
from relax_mlir.objects.prim.symbolic_sizes import Symbols

__all__ = ["read_extern", "write_extern"]

_SYMBOL, _INFO = "relax.extern", "relax.extern_info"


def write_extern(module: ModuleOp, name: str, function: ExternFunc) -> None:
    """Appends the declaration of an external function to a module."""
    with module.context, ir.Location.unknown(), ir.InsertionPoint(module.body):
        attributes: dict[str, ir.Attribute] = {
            _SYMBOL: to_attribute(function.global_symbol),
            _INFO: ir.TypeAttr.get(to_mlir(function.struct_info, Symbols())),
        }
        if function.attrs:
            attributes[function_attributes.ATTRS] = to_attribute(function.attrs)
        op = func.FuncOp(name, ir.FunctionType.get([], []), visibility="private")
        for key, attribute in attributes.items():
            op.attributes[key] = attribute


def read_extern(op: func.FuncOp) -> ExternFunc | None:
    """The external function that a declaration stands for, or None."""
    if _SYMBOL not in op.attributes:
        return None
    info = from_mlir(ir.TypeAttr(op.attributes[_INFO]).value, Symbols())
    symbol = ir.StringAttr(op.attributes[_SYMBOL]).value
    known = function_attributes.ATTRS in op.attributes
    attrs = from_attribute(op.attributes[function_attributes.ATTRS]) if known else {}
    return ExternFunc(symbol, info, attrs=attrs)
