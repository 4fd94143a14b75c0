"""Helpers for tests of operators and models."""

from relax_mlir.testing.cases import assert_same_numbers, case_module, flat_inputs

__all__ = ["assert_same_numbers", "case_module", "flat_inputs"]
