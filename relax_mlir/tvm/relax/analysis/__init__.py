"""``relax.analysis``: static analyses of Relax functions and modules."""

from relax_mlir.objects.compare.struct_info_base_check import (
    BaseCheckResult,
    struct_info_base_check,
)
from relax_mlir.objects.free_symbols import (
    collect_non_negative_expressions,
    definable_tir_vars_in_struct_info,
    defined_symbolic_vars,
    free_symbolic_vars,
    tir_vars_in_struct_info,
)
from relax_mlir.objects.free_variables import (
    all_global_vars,
    all_vars,
    bound_vars,
    called_global_vars,
    free_vars,
    get_var2val,
    name_to_binding,
    post_order_visit,
    udchain,
    used_vars,
)
from relax_mlir.objects.purity import contains_impure_call, detect_recursion
from relax_mlir.support.argument_types import check_exports
from relax_mlir.tvm.relax.analysis.compile_time import computable_at_compile_time
from relax_mlir.tvm.relax.analysis.layout_transforms import suggest_layout_transforms
from relax_mlir.tvm.relax.analysis.memory import estimate_memory_usage
from relax_mlir.tvm.relax.analysis.reshape import has_reshape_pattern
from relax_mlir.tvm.relax.analysis.types import (
    derive_call_ret_struct_info,
    erase_to_well_defined,
    get_static_type,
    struct_info_lca,
)
from relax_mlir.tvm.relax.analysis.unused import remove_all_unused
from relax_mlir.tvm.relax.analysis.well_formed import check_well_formed, well_formed

# TVM's newest names.
type_base_check = struct_info_base_check
type_lca = struct_info_lca
derive_call_ret_type = derive_call_ret_struct_info
tir_vars_in_type = tir_vars_in_struct_info
definable_tir_vars_in_type = definable_tir_vars_in_struct_info

__all__ = [
    "BaseCheckResult",
    "all_global_vars",
    "all_vars",
    "bound_vars",
    "called_global_vars",
    "check_well_formed",
    "collect_non_negative_expressions",
    "computable_at_compile_time",
    "contains_impure_call",
    "definable_tir_vars_in_struct_info",
    "definable_tir_vars_in_type",
    "defined_symbolic_vars",
    "derive_call_ret_struct_info",
    "derive_call_ret_type",
    "detect_recursion",
    "erase_to_well_defined",
    "estimate_memory_usage",
    "free_symbolic_vars",
    "free_vars",
    "get_static_type",
    "get_var2val",
    "has_reshape_pattern",
    "name_to_binding",
    "post_order_visit",
    "remove_all_unused",
    "struct_info_base_check",
    "struct_info_lca",
    "suggest_layout_transforms",
    "tir_vars_in_struct_info",
    "tir_vars_in_type",
    "type_base_check",
    "type_lca",
    "udchain",
    "used_vars",
    "well_formed",
]

check_exports(globals())
