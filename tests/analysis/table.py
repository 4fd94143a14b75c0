"""Analyses of sizes and indices, and the tests that detect mutants in them.

Every module in one of :data:`FOLDERS` is listed in one of the tables here, so that none is
forgotten. Analyses of other folders are listed here, too.
"""

from collections.abc import Mapping, Sequence

# The tests kill nine of ten mutants in each, which ``make mutants`` checks.
ANALYSES: Mapping[str, Sequence[str]] = {
    "analysis.access_bounds": ("analysis/test_program_bounds.py",),
    "analysis.call_graph": ("analysis/test_call_graph.py",),
    "analysis.index_maps": ("analysis/test_indexing.py",),
    "analysis.op_pattern": ("analysis/test_kinds.py",),
    "analysis.tvm_op_pattern": ("analysis/test_op_patterns.py",),
    "dialects.effects": ("analysis/test_effects.py",),
    "dialects.index_ranges": ("analysis/test_index_ranges.py",),
    "dialects.shapes": ("analysis/test_shapes.py",),
    "dialects.slice_shapes": ("analysis/test_slice_shapes.py",),
    "dialects.window_shapes": ("analysis/test_window_shapes.py",),
    "ir.traversal": ("analysis/test_traversal.py",),
    "objects.effects": (
        "relax_objects/test_effect_analysis.py",
        "relax_objects/test_effects.py",
    ),
    "objects.overwritten_loads": ("relax_objects/test_overwritten_loads.py",),
    "objects.prim.bounds": ("analysis/test_term_bounds.py",),
    "objects.prim.simplify": ("analysis/test_simplify.py",),
    "objects.stmt.access_regions": ("analysis/test_regions.py",),
    "objects.stmt.explicit_regions": ("analysis/test_said_regions.py",),
    "schedules.argmax": ("analysis/test_selections.py",),
    "schedules.combiner": ("analysis/test_combination.py",),
    "schedules.constant_scalars": ("analysis/test_constants.py",),
    "schedules.contraction_axes": ("analysis/test_contraction_axes.py",),
    "schedules.divisibility": ("analysis/test_multiples.py",),
    "schedules.flat_buffers": ("analysis/test_flat.py",),
    "schedules.gpu.affine_index": ("analysis/test_index_sums.py",),
    "schedules.kernel_view": ("analysis/test_nest.py",),
    "schedules.vector_axis": ("analysis/test_vector_axis.py",),
    "symbolic.affine_forms": ("analysis/test_affine_forms.py",),
    "symbolic.bounds": ("analysis/test_dim_bounds.py",),
    "symbolic.constraints": ("analysis/test_constraints.py",),
    "symbolic.convolution_shapes": ("analysis/test_convolution_shapes.py",),
    "symbolic.dims": (
        "analysis/test_dim_text.py",
        "test_dims.py",
    ),
    "symbolic.intervals": ("analysis/test_intervals.py",),
    "symbolic.limits": ("analysis/test_dim_limits.py",),
    "symbolic.monomials": ("analysis/test_monomials.py",),
    "symbolic.symbols": ("analysis/test_symbols.py",),
    "symbolic.text": ("analysis/test_dim_text.py",),
    "tvm.tir.schedule.accesses": ("schedule/test_accesses.py",),
    "tvm.tir.schedule.affine": ("analysis/test_affine.py",),
    "tvm.tir.schedule.axis_conditions": ("schedule/test_axis_conditions.py",),
    "tvm.tir.schedule.block_scope": ("schedule/test_state.py",),
    "tvm.tir.schedule.dependences": (
        "analysis/test_dependences.py",
        "schedule/test_carried_dependences.py",
        "schedule/test_dependences.py",
    ),
    "tvm.tir.schedule.concurrency": ("schedule/test_concurrency.py",),
    "tvm.tir.schedule.indices": ("analysis/test_indices.py",),
    "tvm.tir.schedule.inversion": (
        "analysis/test_inversion.py",
        "schedule/test_index_map.py",
    ),
    "tvm.tir.schedule.legality": ("schedule/test_legality.py",),
    "tvm.tir.schedule.predicates": (
        "analysis/test_predicates.py",
        "schedule/test_conditions.py",
    ),
    "tvm.tir.schedule.regions": (
        "analysis/test_boxes.py",
        "schedule/test_boxes.py",
    ),
    "tvm.tir.schedule.tree": ("schedule/test_tree.py",),
    "tvm.tir.schedule.whole_writes": ("schedule/test_whole_writes.py",),
}
# Folders of the package, without subfolders, and the modules in them that are no
# analyses: they define, build, rewrite, verify or run programs, or select rules.
FOLDERS: Mapping[str, str] = {
    "dialects": """
        dtypes ext op_interface snapshots tensors
    """,
    "symbolic": """

    """,
    "analysis": """
        contraction prim_func_verifier symbol_substitution
    """,
    "ir": """
        constant_pool context function_attributes module parser_guards size_constraints
        symbol_table
    """,
    "schedules": """
        blocked_summation builder configuration convolution_blocks epilogue
        lane_transpose match_attention match_contraction match_convolution padding
        pointers rule rule_selection statement_loops vectorize_body winograd
    """,
    "tvm/tir/schedule": """
        analysis annotations base block_layout block_rewrites blockize buffer_access
        buffers cache cache_index compute_at copy_at data_movement decompose edit
        einsum_padding element_types index_map inline instruction layout layout_padding
        layouts loops matching new_axes random_variables reduction_epilogue reductions
        refresh reindex rfactor rolling sampling schedule separate_padding state
        statements tensor_blocks tensor_intrin tensorize testing trace
    """,
}
