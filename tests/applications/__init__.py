"""Applications of onnxruntime from PyPI, run unchanged on ``relax_mlir.onnxruntime``."""
