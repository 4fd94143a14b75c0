"""Analyses of sizes and indices, and the tests that notice mistakes in them.

Every module in one of :data:`FOLDERS` stands in one of the tables here, so that none is left
out by oversight. Analyses of other folders stand here, too.
"""

from collections.abc import Mapping, Sequence

# The tests catch nine of ten mutants in each, which ``make mutants`` checks.
ANALYSES: Mapping[str, Sequence[str]] = {
    "call_graph": ("analysis/test_call_graph.py",),
    "dialects.constraints": ("analysis/test_constraints.py",),
    "dialects.convolution_shapes": ("analysis/test_convolution_shapes.py",),
    "dialects.dim_bounds": ("analysis/test_dim_bounds.py",),
    "dialects.dim_limits": ("analysis/test_dim_limits.py",),
    "dialects.dim_text": ("analysis/test_dim_text.py",),
    "dialects.dims": ("analysis/test_dim_text.py", "test_dims.py"),
    "dialects.effects": ("analysis/test_effects.py",),
    "dialects.index_ranges": ("analysis/test_index_ranges.py",),
    "dialects.intervals": ("analysis/test_intervals.py",),
    "dialects.monomials": ("analysis/test_monomials.py",),
    "dialects.shapes": ("analysis/test_shapes.py",),
    "dialects.slice_shapes": ("analysis/test_slice_shapes.py",),
    "dialects.symbols": ("analysis/test_symbols.py",),
    "dialects.window_shapes": ("analysis/test_window_shapes.py",),
    "indexing": ("analysis/test_indexing.py",),
    "kinds": ("analysis/test_kinds.py",),
    "objects.effects": (
        "relax_objects/test_effect_analysis.py",
        "relax_objects/test_effects.py",
    ),
    "objects.overwritten_loads": ("relax_objects/test_overwritten_loads.py",),
    "objects.regions": ("analysis/test_regions.py",),
    "objects.said_regions": ("analysis/test_said_regions.py",),
    "objects.simplify": ("analysis/test_simplify.py",),
    "objects.term_bounds": ("analysis/test_term_bounds.py",),
    "op_patterns": ("analysis/test_op_patterns.py",),
    "program_bounds": ("analysis/test_program_bounds.py",),
    "schedules.combination": ("analysis/test_combination.py",),
    "schedules.constants": ("analysis/test_constants.py",),
    "schedules.contraction_axes": ("analysis/test_contraction_axes.py",),
    "schedules.flat": ("analysis/test_flat.py",),
    "schedules.gpu.index_sums": ("analysis/test_index_sums.py",),
    "schedules.multiples": ("analysis/test_multiples.py",),
    "schedules.nest": ("analysis/test_nest.py",),
    "schedules.selections": ("analysis/test_selections.py",),
    "schedules.vector_axis": ("analysis/test_vector_axis.py",),
    "tir.schedule.accesses": ("schedule/test_accesses.py",),
    "tir.schedule.affine": ("analysis/test_affine.py",),
    "tir.schedule.axis_conditions": ("schedule/test_axis_conditions.py",),
    "tir.schedule.block_scope": ("schedule/test_state.py",),
    "tir.schedule.dependences": (
        "analysis/test_dependences.py",
        "schedule/test_carried_dependences.py",
        "schedule/test_dependences.py",
    ),
    "tir.schedule.indices": ("analysis/test_indices.py",),
    "tir.schedule.inversion": (
        "analysis/test_inversion.py",
        "schedule/test_index_map.py",
    ),
    "tir.schedule.legality": ("schedule/test_legality.py",),
    "tir.schedule.predicates": (
        "analysis/test_predicates.py",
        "schedule/test_conditions.py",
    ),
    "tir.schedule.regions": ("analysis/test_boxes.py", "schedule/test_boxes.py"),
    "tir.schedule.tree": ("schedule/test_tree.py",),
    "tir.schedule.whole_writes": ("schedule/test_whole_writes.py",),
    "traversal": ("analysis/test_traversal.py",),
}
# Folders of the package, without those below them, and the modules in them that are no
# analyses: they hold, build, rewrite, verify or run programs, or choose between rules.
FOLDERS: Mapping[str, str] = {
    "dialects": """
        dtypes ext hooks snapshots tensors
    """,
    "": """
        any_compilation argument_types compilation compiler constant_pool context errors explanation
        files graphs launch_plan levels model_cache module onnx_backend onnx_source
        parser_guards pass_context plan_values programs reference renaming rewriting
        size_constraints source_digest tuning tuning_database tuning_tasks units
        value_check
    """,
    "schedules": """
        attention_plan blocked_sums choice configuration contraction_plan
        convolution_blocks convolution_plan emit epilogue padding pointers rule
        squares statement_loops vectorize_body winograd
    """,
    "tir/schedule": """
        analysis annotations base block_layout block_rewrites blockize buffer_access
        buffers cache cache_index compute_at copy_at data_movement decompose edit
        einsum_padding element_types index_map inline instruction layout
        layout_padding layouts loops matching new_axes random_variables
        reduction_epilogue reductions refresh reindex rfactor rolling sampling
        schedule separate_padding state statements tensor_blocks tensor_intrin
        tensorize testing trace
    """,
}
