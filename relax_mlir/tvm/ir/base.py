"""Structural equality and hashing: ``tvm.ir.base``."""

from relax_mlir.objects.compare.structural_equal import (
    assert_structural_equal,
    structural_equal,
    structural_hash,
)
from relax_mlir.objects.compare.structural_equal import (
    first_mismatch as get_first_structural_mismatch,
)
from relax_mlir.support.argument_types import check_exports

__all__ = [
    "assert_structural_equal",
    "get_first_structural_mismatch",
    "structural_equal",
    "structural_hash",
]

check_exports(globals())
