"""The commands of ``relax-mlir``, one module each: its arguments, and what it does."""
