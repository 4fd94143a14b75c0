"""Fusion as Relax does it."""

from relax_mlir.module import IRModule
from relax_mlir.passes.relax.fuse_ops import FuseOps as _FuseOps
from relax_mlir.passes.relax.program_sizes import fill_sizes
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
    for function in primitives:
        fill_sizes(module, function)
    specialize_calls(module, primitives)
