"""Compilers for parts of a graph: their patterns."""

from relax_mlir.argument_types import check_exports
from relax_mlir.relax.backend import cuda
from relax_mlir.relax.backend.pattern_registry import (
    get_pattern,
    get_patterns_with_prefix,
    register_patterns,
)

__all__ = ["cuda", "get_pattern", "get_patterns_with_prefix", "register_patterns"]

check_exports(globals())
