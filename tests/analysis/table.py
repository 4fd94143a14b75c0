"""Analyses of sizes and indices, and the tests that notice mistakes in them.

``make mutants`` plants mutants in every module of :data:`ANALYSES`. A module of
:data:`FOLDERS` is an analysis or stands in :data:`OTHERS`, so that a new one is in neither by
oversight.
"""

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
    "dialects.shapes": ("test_shapes.py",),
    "dialects.slice_shapes": ("test_shapes.py",),
    "dialects.window_shapes": ("test_shapes.py",),
    "dialects.effects": ("analysis/test_effects.py",),
    "traversal": ("analysis/test_traversal.py",),
    "indexing": ("analysis/test_indexing.py",),
    "kinds": ("analysis/test_kinds.py",),
    "op_patterns": ("rewriting/test_analysis.py",),
    "call_graph": ("rewriting/test_analysis.py",),
    "objects.effects": ("relax_objects/test_effects.py",),
    "objects.regions": ("script/test_tir_regions.py",),
    "objects.term_bounds": ("te/test_simplify.py",),
    "schedules.multiples": ("analysis/test_multiples.py",),
    "tir.schedule.affine": ("analysis/test_affine.py", "schedule/test_limits.py"),
    "tir.schedule.accesses": ("schedule/test_regions.py",),
    "tir.schedule.regions": ("schedule/test_limits.py", "schedule/test_regions.py"),
    "tir.schedule.inversion": ("schedule/test_index_map.py",),
    "tir.schedule.axis_conditions": ("schedule/test_conditions.py",),
    "tir.schedule.predicates": ("schedule/test_conditions.py",),
}
# Folders of the package, not those below them; every module in them is accounted for.
FOLDERS = ("dialects", "", "schedules")
# Modules that hold, build, rewrite or run programs, or choose how kernels are written.
OTHERS = frozenset(
    {
        *("dialects.convolution_shapes", "dialects.dtypes", "dialects.ext"),
        *("dialects.hooks", "dialects.snapshots", "dialects.tensors"),
    }
)
