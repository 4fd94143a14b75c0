"""MLIR contexts with our dialects."""

from mlir import ir

from relax_mlir import dialects

__all__ = ["new_context"]


def new_context() -> ir.Context:
    """A context that knows relax and tir, with MLIR's own threads off.

    Kernels are compiled on Python threads; a pool of MLIR's per context would only
    compete with them.
    """
    context = ir.Context()
    context.enable_multithreading(False)
    dialects.load(context)
    return context
