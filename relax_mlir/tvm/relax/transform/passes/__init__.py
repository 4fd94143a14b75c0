"""Relax passes under TVM's names that work on the MLIR form of a module."""
