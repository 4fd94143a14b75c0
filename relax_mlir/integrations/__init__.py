"""Adapters of relax_mlir to the interfaces of other projects."""
