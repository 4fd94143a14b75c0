"""Fusion as Relax does it."""

from relax_mlir.module import IRModule
from relax_mlir.passes.relax.fuse_ops import FuseOps as _FuseOps
from relax_mlir.passes.relax.program_sizes import fill_sizes
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
    return Fuse(inline=False, before=_tell_sizes)


def _tell_sizes(module: IRModule) -> None:
    """Let the calls in fused functions say what the symbols of programs are."""
    for function in module.func_ops():
        if "relax.primitive" in function.attributes:
            fill_sizes(module, function)
