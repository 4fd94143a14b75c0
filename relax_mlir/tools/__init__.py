"""Command-line tools: only they print.

They read the environment too; so does `relax_mlir.runtime.object_cache`, for where
compiled kernels are kept and how many.
"""
