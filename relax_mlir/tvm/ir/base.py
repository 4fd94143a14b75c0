"""Comparing programs: ``tvm.ir.base``."""

from relax_mlir.objects.structure import (
    assert_structural_equal,
    structural_equal,
    structural_hash,
)

__all__ = ["assert_structural_equal", "structural_equal", "structural_hash"]
