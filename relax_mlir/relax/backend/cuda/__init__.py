"""Libraries of NVIDIA that compute parts of a graph; each registers its patterns."""

from relax_mlir.relax.backend.cuda import cublas, cudnn

__all__ = ["cublas", "cudnn"]
