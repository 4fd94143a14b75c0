"""MLIR contexts with our dialects."""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from mlir import ir

from relax_mlir import dialects

__all__ = ["borrowed_context", "new_context", "shared_context"]

# What the package's passes build operations of. To load all of MLIR's dialects takes as
# long as to compile a small kernel.
_BUILT = (
    *("amx", "arith", "cf", "func", "gpu", "irdl", "linalg", "llvm", "math", "memref"),
    *("nvgpu", "nvvm", "scf", "tensor", "vector"),
)
_MOST_USES = 64  # of a borrowed context: what it has uniqued is never freed
_idle: deque[tuple[ir.Context, int]] = deque()  # with how often they were used


def new_context() -> ir.Context:
    """A context that has all dialects: relax, tir and MLIR's; MLIR's own threads are off.

    Kernels are compiled on Python threads; a pool of MLIR's per context would only
    compete with them.
    """
    return _with_ours(ir.Context())


def _kernel_context() -> ir.Context:
    """A context for the package's own passes, which build operations of few dialects."""
    return _with_ours(ir.Context(load_on_create_dialects=_BUILT))  # pyright: ignore[reportCallIssue]


def _with_ours(context: ir.Context) -> ir.Context:
    context.enable_multithreading(False)
    dialects.load(context)
    return context


@cache
def shared_context() -> ir.Context:
    """The context of everything that front ends make, so that it can be combined."""
    return new_context()


@contextmanager
def borrowed_context() -> Iterator[ir.Context]:
    """A context for a kernel, of which the borrower is the only user until the block ends.

    Passes of users load all dialects into it. It may have been used before: to make one
    takes as long as to compile a small kernel. One that an exception passes through is not
    used again.
    """
    try:
        context, uses = _idle.pop()
    except IndexError:
        context, uses = _kernel_context(), 0
    yield context
    if uses + 1 < _MOST_USES:
        _idle.append((context, uses + 1))
