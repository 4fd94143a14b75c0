"""Operator fusion under TVM's names: ``FuseOps`` and ``FuseTIR``."""

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import shapes
from relax_mlir.ir import function_attributes
from relax_mlir.ir.module import IRModule
from relax_mlir.objects.expr.struct_info import PrimStructInfo, StructInfo
from relax_mlir.objects.expr.struct_info_types import from_mlir, to_mlir
from relax_mlir.objects.name_supply import UniqueNameSupply
from relax_mlir.objects.prim.symbolic_sizes import Symbols
from relax_mlir.passes.relax.program_sizes import infer_call_sizes, lower_in_place_calls
from relax_mlir.passes.relax.specialize_prim_funcs import specialize_calls
from relax_mlir.passes.tir.fuse import Fuse
from relax_mlir.rewrite.functions import graph_functions, symbols_in, update_type
from relax_mlir.rewrite.patterns import Pass
from relax_mlir.tvm.relax.transform.passes.fuse_dataflow import FuseDataflow

__all__ = ["FuseOps", "FuseTIR"]


def FuseOps(fuse_opt_level: int = -1) -> Pass:  # noqa: N802  Relax's name
    """Groups bindings of dataflow blocks into primitive functions, one kernel each.

    Args:
        fuse_opt_level: 0 disables fusion; by default, the level of the pass context.
    """
    return FuseDataflow(level=fuse_opt_level)


def FuseTIR() -> Pass:  # noqa: N802  Relax's name
    """Merges the tensor programs that a primitive function of `FuseOps` calls into one."""
    return Fuse(inline=False, before=_specialize)


def _specialize(module: IRModule) -> None:
    """Specializes callees of primitive functions to the sizes known there."""
    primitives = list(filter(function_attributes.is_primitive, module.func_ops()))
    if any(_unbound_scalars(function) for function in primitives):
        for function in graph_functions(module):
            _bind_scalars(function)
    for function in primitives:
        lower_in_place_calls(function)
        infer_call_sizes(module, function)
    specialize_calls(module, primitives)


def _unbound_scalars(function: func.FuncOp) -> list[int]:
    """Returns the indices of integer parameters that are bound to no symbol."""
    return [
        index
        for index, type_ in enumerate(function.type.inputs)
        if isinstance(info := _scalar_info(type_), PrimStructInfo)
        and info.value is None
        and info.dtype.startswith(("int", "uint"))
    ]


def _scalar_info(type_: ir.Type) -> StructInfo | None:
    is_scalar = str(type_).startswith("!relax.prim<")
    return from_mlir(type_, Symbols()) if is_scalar else None


def _bind_scalars(function: func.FuncOp) -> None:
    """Binds integer parameters to symbols, since programs are passed sizes."""
    block = function.entry_block
    taken = UniqueNameSupply()
    for name in symbols_in(value.type for value in block.arguments):
        taken.reserve_name(name, add_prefix=False)
    param_names = function_attributes.arg_names(function)
    for index in _unbound_scalars(function):
        name = taken.fresh_name(param_names[index] or "scalar")
        symbols = Symbols()
        info = PrimStructInfo(value=symbols.expr(shapes.symbol(name)))
        block.arguments[index].set_type(to_mlir(info, symbols))
    update_type(function)
