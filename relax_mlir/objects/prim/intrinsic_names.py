"""Names of the TIR operators that are opaque calls, or functions of scripts.

The operators that are functions of their own are in :mod:`relax_mlir.objects.prim.intrinsics`.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = [
    "INTRINSIC_NAMES",
    "LEADING_DTYPE",
    "OPERAND_DTYPE",
    "RESULT_DTYPE",
]

# The first argument is the result type.
LEADING_DTYPE = (
    "call_extern",
    "call_pure_extern",
    "call_llvm_intrin",
    *("call_llvm_pure_intrin", "get_active_lane_mask"),
)

_INT32 = (
    *("tvm_storage_sync", "tvm_global_barrier_kinit", "tvm_throw_last_error"),
    *("tvm_thread_allreduce", "tvm_stack_alloca", "vscale"),
    *("tvm_call_packed", "tvm_call_cpacked", "call_cpacked"),
    *("undef", "dp4a", "q_multiply_shift", "q_multiply_shift_per_axis"),
    *("anylist_resetitem", "anylist_setitem_call_packed"),
    "anylist_setitem_call_cpacked",
    *("TVMBackendFreeWorkspace", "tvm_struct_set", "llvm_lookup_intrinsic_id"),
)
_HANDLE = (
    *("tvm_fill_fragment", "tvm_load_matrix_sync", "tvm_mma_sync", "tvm_bmma_sync"),
    *("tvm_store_matrix_sync", "tvm_access_ptr", "tvm_tuple"),
    *("tvm_struct_get", "tvm_stack_make_shape", "tvm_stack_make_array", "lookup_param"),
    *("tvm_call_packed_lowered", "TVMBackendAllocWorkspace", "anylist_getitem"),
    *("start_profile_intrinsic", "end_profile_intrinsic"),
)
_BOOL = ("isnullptr", "assume", "ignore_loop_partition")
_UINT32 = ("tvm_warp_activemask",)
_VOID = ("break_loop", "continue_loop", "thread_return")
# The default result type of each.
RESULT_DTYPE: Mapping[str, str] = {
    **dict.fromkeys(_INT32, "int32"),
    **dict.fromkeys(_HANDLE, "handle"),
    **dict.fromkeys(_BOOL, "bool"),
    **dict.fromkeys(_UINT32, "uint32"),
    **dict.fromkeys(_VOID, "void"),
}

_VECTOR_HALVES = ("vectorlow", "vectorhigh", "vectorcombine")
_WARP_SHUFFLES = (
    *("tvm_warp_shuffle", "tvm_warp_shuffle_up", "tvm_warp_shuffle_down"),
    "tvm_warp_shuffle_xor",
)
# The number of the operand whose type the result has.
OPERAND_DTYPE: Mapping[str, int] = {
    **dict.fromkeys(_VECTOR_HALVES, 0),
    **dict.fromkeys(_WARP_SHUFFLES, 1),
}

# Functions of scripts, in `relax_mlir.tvm.script.tir_calls`.
_SCRIPT_FUNCTIONS = (
    *("Ramp", "ramp", "Broadcast", "broadcast", "Shuffle", "index_map", "target"),
    *("cast", "Cast", "reinterpret", "Select", "Let"),
    *("call_packed", "call_intrin", "address_of", "ret", "type_annotation"),
)

INTRINSIC_NAMES = frozenset(
    {*LEADING_DTYPE, *RESULT_DTYPE, *OPERAND_DTYPE, *_SCRIPT_FUNCTIONS}
)
