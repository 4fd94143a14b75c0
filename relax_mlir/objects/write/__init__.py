"""Writes Relax and TIR objects as MLIR operations."""
