"""MLIR contexts with our dialects."""

from functools import cache

from mlir import ir

from relax_mlir import dialects

__all__ = ["new_context", "shared_context"]


def new_context() -> ir.Context:
    """A context that knows relax and tir, with MLIR's own threads off.

    Kernels are compiled on Python threads; a pool of MLIR's per context would only
    compete with them.
    """
    context = ir.Context()
    context.enable_multithreading(False)
    dialects.load(context)
    return context


@cache
def shared_context() -> ir.Context:
    """The context of everything that front ends make, so that it can be combined."""
    return new_context()
