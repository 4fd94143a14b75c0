"""``relax-drop-devices``: removes virtual devices from types and graphs."""

from dataclasses import dataclass

from mlir import ir

from relax_mlir.dialects.relax import graph
from relax_mlir.dialects.tensors import tuple_elements
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import operations_of
from relax_mlir.objects.expr.struct_info import (
    ShapeExpr,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from relax_mlir.objects.expr.struct_info_types import from_mlir, to_mlir
from relax_mlir.objects.prim.symbolic_sizes import Symbols
from relax_mlir.passes.relax.refine_operators import refine_operators
from relax_mlir.rewrite.functions import graph_functions, map_types, update_type
from relax_mlir.rewrite.patterns import Pass, replace

__all__ = ["DropDevices"]

_DEVICE_COPIES = frozenset({"relax.to_vdevice", "relax.hint_on_device"})


@dataclass(frozen=True)
class DropDevices(Pass):
    """Remove virtual devices and the copies between them.

    For targets with one memory, where several virtual CPUs are the same device.
    """

    repairs_types = True

    def run(self, module: IRModule) -> None:
        for function in graph_functions(module):
            symbols = Symbols()

            def change(type_: ir.Type, symbols: Symbols = symbols) -> ir.Type:
                if '"' not in str(type_):  # names no device
                    return type_
                return to_mlir(_without_device(from_mlir(type_, symbols)), symbols)

            map_types(function, change)
            for op in operations_of(function):
                is_call = isinstance(op, graph.CallOperatorOp)
                if is_call and op.operator.value in _DEVICE_COPIES:
                    replace(op, tuple_elements(op.operands[0])[0])
            refine_operators(module, function)
            update_type(function)


def _without_device(info: StructInfo) -> StructInfo:
    if isinstance(info, TupleStructInfo):
        return TupleStructInfo(list(map(_without_device, info.fields)))
    if isinstance(info, TensorStructInfo) and info.vdevice is not None:
        shape = info.shape if isinstance(info.shape, ShapeExpr) else None
        return info.replace(shape=shape, vdevice=None)
    return info
