"""Comparing programs: ``tvm.ir.base``."""

from relax_mlir.argument_types import check_exports
from relax_mlir.objects.structure import (
    assert_structural_equal,
    structural_equal,
    structural_hash,
)
from relax_mlir.objects.structure import (
    first_mismatch as get_first_structural_mismatch,
)

__all__ = [
    "assert_structural_equal",
    "get_first_structural_mismatch",
    "structural_equal",
    "structural_hash",
]

check_exports(globals())
