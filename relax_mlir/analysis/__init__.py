"""Analyses of MLIR functions and tensor programs, which change nothing."""
