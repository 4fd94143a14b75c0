"""Analyses of sizes and indices, and the tests that notice mistakes in them."""

from collections.abc import Mapping, Sequence

ANALYSES: Mapping[str, Sequence[str]] = {
    "dialects.intervals": ("analysis/test_intervals.py",),
    "dialects.monomials": ("analysis/test_monomials.py",),
    "dialects.dim_bounds": ("analysis/test_dim_bounds.py",),
    "dialects.dim_limits": ("analysis/test_dim_limits.py",),
    "dialects.dims": ("test_dims.py",),
    "dialects.dim_text": ("test_dims.py",),
    "dialects.symbols": ("test_dims.py",),
    "dialects.constraints": ("test_constraints.py",),
    "traversal": ("analysis/test_traversal.py",),
    "indexing": ("analysis/test_indexing.py",),
    "kinds": ("analysis/test_kinds.py",),
    "dialects.effects": ("analysis/test_effects.py",),
    "schedules.multiples": ("analysis/test_multiples.py",),
}
