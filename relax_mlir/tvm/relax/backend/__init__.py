"""Pattern registry and patterns of external code generators (BYOC)."""

from relax_mlir.support.argument_types import check_exports
from relax_mlir.tvm.relax.backend import cuda
from relax_mlir.tvm.relax.backend.pattern_registry import (
    get_pattern,
    get_patterns_with_prefix,
    register_patterns,
)

__all__ = ["cuda", "get_pattern", "get_patterns_with_prefix", "register_patterns"]

check_exports(globals())
