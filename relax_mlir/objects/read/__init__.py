"""Reads MLIR operations as Relax and TIR objects."""
