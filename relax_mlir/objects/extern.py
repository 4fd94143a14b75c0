"""Registered functions that stand in a module: declarations in MLIR."""

from __future__ import annotations

from mlir import ir
from mlir.dialects import func
from mlir.dialects.builtin import ModuleOp

from relax_mlir.objects import names
from relax_mlir.objects.attributes import from_attribute, to_attribute
from relax_mlir.objects.expr import ExternFunc
from relax_mlir.objects.sizes import Symbols
from relax_mlir.objects.struct_info_types import from_mlir, to_mlir

__all__ = ["read_extern", "write_extern"]

_SYMBOL, _INFO = "relax.extern", "relax.extern_info"


def write_extern(module: ModuleOp, name: str, function: ExternFunc) -> None:
    """Write a registered function to the end of a module, where it is called ``name``."""
    with module.context, ir.Location.unknown(), ir.InsertionPoint(module.body):
        attributes: dict[str, ir.Attribute] = {
            _SYMBOL: to_attribute(function.global_symbol),
            _INFO: ir.TypeAttr.get(to_mlir(function.struct_info, Symbols())),
        }
        if function.attrs:
            attributes[names.ATTRS] = to_attribute(function.attrs)
        op = func.FuncOp(name, ir.FunctionType.get([], []), visibility="private")
        for key, attribute in attributes.items():
            op.attributes[key] = attribute


def read_extern(op: func.FuncOp) -> ExternFunc | None:
    """The registered function that a function in MLIR stands for, or None."""
    if _SYMBOL not in op.attributes:
        return None
    info = from_mlir(ir.TypeAttr(op.attributes[_INFO]).value, Symbols())
    symbol = ir.StringAttr(op.attributes[_SYMBOL]).value
    known = names.ATTRS in op.attributes
    attrs = from_attribute(op.attributes[names.ATTRS]) if known else {}
    return ExternFunc(symbol, info, attrs=attrs)
