"""Analyses of sizes and indices, and the tests that detect mutants in them.

Every module in one of :data:`FOLDERS` is listed in one of the tables here, so that none is
forgotten. Analyses of other folders are listed here, too.
"""

from collections.abc import Mapping, Sequence

# The tests kill nine of ten mutants in each, which ``make mutants`` checks.
ANALYSES: Mapping[str, Sequence[str]] = {
    "analysis.access_bounds": ("analysis/test_access_bounds.py",),
    "analysis.call_graph": ("analysis/test_call_graph.py",),
    "analysis.contraction": ("analysis/test_contraction.py",),
    "analysis.index_maps": ("analysis/test_index_maps.py",),
    "analysis.op_pattern": ("analysis/test_op_pattern.py",),
    "analysis.tvm_op_pattern": ("analysis/test_tvm_op_pattern.py",),
    "dialects.effects": ("dialects/test_effects.py",),
    "dialects.index_ranges": ("dialects/test_index_ranges.py",),
    "dialects.shapes": ("dialects/test_shapes.py",),
    "dialects.slice_shapes": ("dialects/test_slice_shapes.py",),
    "dialects.window_shapes": ("dialects/test_window_shapes.py",),
    "ir.traversal": ("ir/test_traversal.py",),
    "ir.use_def": ("ir/test_use_def.py",),
    "objects.effects": (
        "objects/test_effect_analysis.py",
        "objects/test_effects.py",
    ),
    "objects.overwritten_loads": ("objects/test_overwritten_loads.py",),
    "objects.prim.bounds": ("objects/prim/test_bounds.py",),
    "objects.prim.simplify": ("objects/prim/test_simplify.py",),
    "objects.stmt.access_regions": ("objects/stmt/test_access_regions.py",),
    "objects.stmt.explicit_regions": ("objects/stmt/test_explicit_regions.py",),
    "schedules.argmax": ("schedules/test_argmax.py",),
    "schedules.combiner": ("schedules/test_combiner.py",),
    "schedules.constant_scalars": ("schedules/test_constant_scalars.py",),
    "schedules.contraction_axes": ("schedules/test_contraction_axes.py",),
    "schedules.divisibility": ("schedules/test_divisibility.py",),
    "schedules.flat_buffers": ("schedules/test_flat_buffers.py",),
    "schedules.gpu.affine_index": ("schedules/gpu/test_affine_index.py",),
    "schedules.kernel_view": ("schedules/test_kernel_view.py",),
    "schedules.vector_axis": ("schedules/test_vector_axis.py",),
    "symbolic.affine_forms": ("symbolic/test_affine_forms.py",),
    "symbolic.bounds": ("symbolic/test_bounds.py",),
    "symbolic.constraints": ("symbolic/test_constraints.py",),
    "symbolic.convolution_shapes": ("symbolic/test_convolution_shapes.py",),
    "symbolic.dims": (
        "symbolic/test_text.py",
        "symbolic/test_dims.py",
    ),
    "symbolic.intervals": ("symbolic/test_intervals.py",),
    "symbolic.limits": ("symbolic/test_limits.py",),
    "symbolic.monomials": ("symbolic/test_monomials.py",),
    "symbolic.symbols": ("symbolic/test_symbols.py",),
    "symbolic.text": ("symbolic/test_text.py",),
    "tvm.tir.schedule.accesses": ("tvm/tir/schedule/test_accesses.py",),
    "tvm.tir.schedule.affine": ("tvm/tir/schedule/test_affine.py",),
    "tvm.tir.schedule.axis_conditions": ("tvm/tir/schedule/test_axis_conditions.py",),
    "tvm.tir.schedule.block_scope": ("tvm/tir/schedule/test_state.py",),
    "tvm.tir.schedule.dependences": (
        "tvm/tir/schedule/test_dependences.py",
        "tvm/tir/schedule/test_carried_dependences.py",
        "tvm/tir/schedule/test_delayed_blocks.py",
    ),
    "tvm.tir.schedule.concurrency": ("tvm/tir/schedule/test_concurrency.py",),
    "tvm.tir.schedule.indices": ("tvm/tir/schedule/test_indices.py",),
    "tvm.tir.schedule.inversion": (
        "tvm/tir/schedule/test_inversion.py",
        "tvm/tir/schedule/test_index_map.py",
    ),
    "tvm.tir.schedule.legality": ("tvm/tir/schedule/test_legality.py",),
    "tvm.tir.schedule.predicates": (
        "tvm/tir/schedule/test_predicates.py",
        "tvm/tir/schedule/test_conditions.py",
    ),
    "tvm.tir.schedule.regions": (
        "tvm/tir/schedule/test_regions.py",
        "tvm/tir/schedule/test_boxes.py",
    ),
    "tvm.tir.schedule.tree": ("tvm/tir/schedule/test_tree.py",),
    "tvm.tir.schedule.whole_writes": ("tvm/tir/schedule/test_whole_writes.py",),
}
# Tests of passes beside their files in ``tests/ir``.
PASSES: Mapping[str, Sequence[str]] = {
    "relax-verify": ("passes/relax/test_verify.py",),
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
        prim_func_verifier symbol_substitution
    """,
    "ir": """
        constant_pool context function_attributes module parser_guards size_constraints
        symbol_table
    """,
    "schedules": """
        blocked_summation builder configuration convolution_blocks epilogue
        lane_transpose match_attention match_contraction match_convolution padding
        pointers rule rule_selection statement_loops target_features vectorize_body
        winograd
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
