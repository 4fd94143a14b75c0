"""TIR statements, buffers and PrimFuncs as Python objects."""
