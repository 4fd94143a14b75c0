"""``relax-drop-devices``: all tensors live in one memory."""

from dataclasses import dataclass

from mlir import ir

from relax_mlir.dialects.relax import graph
from relax_mlir.dialects.tensors import elements
from relax_mlir.graphs import graph_functions, map_types, operations_of, update_type
from relax_mlir.module import IRModule
from relax_mlir.objects.sizes import Symbols
from relax_mlir.objects.struct_info import (
    ShapeExpr,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from relax_mlir.objects.struct_info_types import from_mlir, to_mlir
from relax_mlir.passes.relax.known_operators import write_known_operators
from relax_mlir.rewriting import Pass, replace

__all__ = ["DropDevices"]

_MOVES = frozenset({"relax.to_vdevice", "relax.hint_on_device"})


@dataclass(frozen=True)
class DropDevices(Pass):
    """Forget virtual devices, and what moves tensors between them.

    For machines with one memory: several virtual CPUs are one.
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
                if is_call and op.operator.value in _MOVES:
                    replace(op, elements(op.operands[0])[0])
            write_known_operators(module, function)
            update_type(function)


def _without_device(info: StructInfo) -> StructInfo:
    if isinstance(info, TupleStructInfo):
        return TupleStructInfo(list(map(_without_device, info.fields)))
    if isinstance(info, TensorStructInfo) and info.vdevice is not None:
        shape = info.shape if isinstance(info.shape, ShapeExpr) else None
        return info.replace(shape=shape, vdevice=None)
    return info
