"""MLIR contexts with the relax and tir dialects."""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from mlir import ir

from relax_mlir.dialects import load as load_dialects

__all__ = ["borrowed_context", "new_context", "shared_context"]

# Dialects of the operations that the package's passes create. Loading all of MLIR's
# dialects takes as long as compiling a small kernel.
_BUILT = (
    *("amx", "arith", "cf", "func", "gpu", "irdl", "linalg", "llvm", "math", "memref"),
    *("nvgpu", "nvvm", "scf", "tensor", "vector"),
)
_MOST_USES = 64  # of a borrowed context, which never frees uniqued attributes
_idle: deque[tuple[ir.Context, int]] = deque()  # with numbers of uses


def new_context() -> ir.Context:
    """A context with all dialects: relax, tir and MLIR's; multithreading is disabled.

    Kernels are compiled on Python threads, with which MLIR's thread pool would compete.
    """
    return _with_ours(ir.Context())


def _kernel_context() -> ir.Context:
    """A context with the dialects of the package's own passes only."""
    return _with_ours(ir.Context(load_on_create_dialects=_BUILT))  # pyright: ignore[reportCallIssue]


def _with_ours(context: ir.Context) -> ir.Context:
    context.enable_multithreading(False)
    load_dialects(context)
    return context


@cache
def shared_context() -> ir.Context:
    """The context of all modules from front ends, so that they can be combined."""
    return new_context()


@contextmanager
def borrowed_context() -> Iterator[ir.Context]:
    """A context for compiling a kernel, exclusive to the borrower until the block ends.

    User passes load all dialects into it. Contexts are reused, since creating one takes as
    long as compiling a small kernel; after an exception a context is discarded.
    """
    try:
        context, uses = _idle.pop()
    except IndexError:
        context, uses = _kernel_context(), 0
    yield context
    if uses + 1 < _MOST_USES:
        _idle.append((context, uses + 1))
