"""BYOC backends for NVIDIA libraries; importing one registers its patterns."""

from relax_mlir.tvm.relax.backend.cuda import cublas, cudnn

__all__ = ["cublas", "cudnn"]
