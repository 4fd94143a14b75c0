"""The commands of ``relax-mlir``, one module each."""
