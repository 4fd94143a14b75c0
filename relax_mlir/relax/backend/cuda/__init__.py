"""Libraries of NVIDIA that compute parts of a graph; each registers its patterns."""

from relax_mlir.relax.backend.cuda import cublas

__all__ = ["cublas"]
