"""Command-line tools; no other package prints.

They also read environment variables, as `relax_mlir.codegen.object_cache` does for the
folder and the size limit of the kernel cache.
"""
