"""Fusion as Relax does it."""

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import shapes
from relax_mlir.graphs import graph_functions, symbols_in, update_type
from relax_mlir.module import IRModule
from relax_mlir.objects import names
from relax_mlir.objects.name_supply import UniqueNameSupply
from relax_mlir.objects.sizes import Symbols
from relax_mlir.objects.struct_info import PrimStructInfo, StructInfo
from relax_mlir.objects.struct_info_types import from_mlir, to_mlir
from relax_mlir.passes.relax.fuse_ops import FuseOps as _FuseOps
from relax_mlir.passes.relax.program_sizes import fill_sizes, write_in_place_calls
from relax_mlir.passes.relax.specialize_programs import specialize_calls
from relax_mlir.passes.tir.fuse import Fuse
from relax_mlir.rewriting import Pass

__all__ = ["FuseOps", "FuseTIR"]


def FuseOps(fuse_opt_level: int = -1) -> Pass:  # noqa: N802  Relax's name
    """Group the bindings of dataflow blocks into functions that become one kernel each.

    Args:
        fuse_opt_level: 0 fuses nothing; by default, the level of the pass context.
    """
    return _FuseOps(by_post_dominators=True, level=fuse_opt_level)


def FuseTIR() -> Pass:  # noqa: N802  Relax's name
    """Make one tensor program of each function that `FuseOps` made."""
    return Fuse(inline=False, before=_specialize)


def _specialize(module: IRModule) -> None:
    """Let fused functions call programs for the sizes that they know."""
    primitives = [f for f in module.func_ops() if "relax.primitive" in f.attributes]
    if any(_unnamed_scalars(function) for function in primitives):
        for function in graph_functions(module):
            _name_scalars(function)
    for function in primitives:
        write_in_place_calls(function)
        fill_sizes(module, function)
    specialize_calls(module, primitives)


def _unnamed_scalars(function: func.FuncOp) -> list[int]:
    """The parameters that are integers whose value no symbol stands for."""
    return [
        number
        for number, type_ in enumerate(function.type.inputs)
        if isinstance(info := _scalar_info(type_), PrimStructInfo)
        and info.value is None
        and info.dtype.startswith(("int", "uint"))
    ]


def _scalar_info(type_: ir.Type) -> StructInfo | None:
    is_scalar = str(type_).startswith("!relax.prim<")
    return from_mlir(type_, Symbols()) if is_scalar else None


def _name_scalars(function: func.FuncOp) -> None:
    """Let symbols stand for the values of integer parameters: programs are passed sizes."""
    block = function.entry_block
    taken = UniqueNameSupply()
    for name in symbols_in(value.type for value in block.arguments):
        taken.reserve_name(name, add_prefix=False)
    called = names.arg_names(function)
    for number in _unnamed_scalars(function):
        name = taken.fresh_name(called[number] or "scalar")
        symbols = Symbols()
        info = PrimStructInfo(value=symbols.term(shapes.symbol(name)))
        block.arguments[number].set_type(to_mlir(info, symbols))
    update_type(function)
