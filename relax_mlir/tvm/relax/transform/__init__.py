"""``tvm.relax.transform``: constructors of the Relax passes, by TVM's names.

Each constructs a pass with the options that reproduce the behaviour of TVM's pass; most
are also available in pipeline text.
"""

from relax_mlir.passes.relax.dead_code_elimination import (
    DeadCodeElimination as _DeadCodeElimination,
)
from relax_mlir.passes.relax.normalize import Normalize as _Normalize
from relax_mlir.pipeline import (
    DataflowBlockPass,
    FunctionPass,
    dataflowblock_pass,
    function_pass,
)
from relax_mlir.rewrite.patterns import Pass
from relax_mlir.support.argument_types import check_exports
from relax_mlir.tvm.relax.transform.adjust_matmul_order import AdjustMatmulOrder
from relax_mlir.tvm.relax.transform.allocate_workspace import AllocateWorkspace
from relax_mlir.tvm.relax.transform.alter_op_impl import AlterOpImpl
from relax_mlir.tvm.relax.transform.attach_attr_layout_free_buffers import (
    AttachAttrLayoutFreeBuffers,
)
from relax_mlir.tvm.relax.transform.attach_extern_modules import AttachExternModules
from relax_mlir.tvm.relax.transform.compute_prim_value import ComputePrimValue
from relax_mlir.tvm.relax.transform.convert_layout import ConvertLayout
from relax_mlir.tvm.relax.transform.dataflow_use_inplace_calls import (
    DataflowUseInplaceCalls,
)
from relax_mlir.tvm.relax.transform.expand_matmul_of_sum import ExpandMatmulOfSum
from relax_mlir.tvm.relax.transform.fast_math_transform import FastMathTransform
from relax_mlir.tvm.relax.transform.folding import FoldConstant
from relax_mlir.tvm.relax.transform.fuse_ops_by_pattern import FuseOpsByPattern
from relax_mlir.tvm.relax.transform.fuse_transpose_matmul import FuseTransposeMatmul
from relax_mlir.tvm.relax.transform.fusion import FuseOps, FuseTIR
from relax_mlir.tvm.relax.transform.fusion_pattern import (
    FusionPattern,
    PatternCheckContext,
)
from relax_mlir.tvm.relax.transform.kill_after_last_use import KillAfterLastUse
from relax_mlir.tvm.relax.transform.lazy_get_input import LazyGetInput
from relax_mlir.tvm.relax.transform.lazy_set_output import LazySetOutput
from relax_mlir.tvm.relax.transform.lazy_transform_params import LazyTransformParams
from relax_mlir.tvm.relax.transform.legalize import LegalizeOps
from relax_mlir.tvm.relax.transform.lift_transform_params import LiftTransformParams
from relax_mlir.tvm.relax.transform.lower_alloc_tensor import LowerAllocTensor
from relax_mlir.tvm.relax.transform.merge_composite_functions import (
    MergeCompositeFunctions,
)
from relax_mlir.tvm.relax.transform.meta_schedule_apply_database import (
    MetaScheduleApplyDatabase,
)
from relax_mlir.tvm.relax.transform.meta_schedule_tune_tir import (
    MetaScheduleTuneTir as MetaScheduleTuneTIR,
)
from relax_mlir.tvm.relax.transform.optimize_layout_transform import (
    OptimizeLayoutTransform,
)
from relax_mlir.tvm.relax.transform.passes.annotate_tir_op_pattern import (
    AnnotateTirOpPattern as AnnotateTIROpPattern,
)
from relax_mlir.tvm.relax.transform.passes.attach_global_symbol import (
    AttachGlobalSymbol,
)
from relax_mlir.tvm.relax.transform.passes.bind_params import BindParams
from relax_mlir.tvm.relax.transform.passes.bind_symbolic_vars import BindSymbolicVars
from relax_mlir.tvm.relax.transform.passes.bundle_model_params import BundleModelParams
from relax_mlir.tvm.relax.transform.passes.call_tir_rewrite import (
    CallTirRewrite as CallTIRRewrite,
)
from relax_mlir.tvm.relax.transform.passes.canonicalize_bindings import (
    CanonicalizeBindings,
)
from relax_mlir.tvm.relax.transform.passes.combine_parallel_matmul import (
    CombineParallelMatmul,
)
from relax_mlir.tvm.relax.transform.passes.convert_to_dataflow import ConvertToDataflow
from relax_mlir.tvm.relax.transform.passes.decompose_ops_for_inference import (
    DecomposeOpsForInference,
)
from relax_mlir.tvm.relax.transform.passes.eliminate_common_subexpr import (
    EliminateCommonSubexpr,
)
from relax_mlir.tvm.relax.transform.passes.expand_tuple_arguments import (
    ExpandTupleArguments,
)
from relax_mlir.tvm.relax.transform.passes.fold_batchnorm_to_conv2d import (
    FoldBatchnormToConv2d as FoldBatchnormToConv2D,
)
from relax_mlir.tvm.relax.transform.passes.inline_private_functions import (
    InlinePrivateFunctions,
)
from relax_mlir.tvm.relax.transform.passes.lambda_lift import LambdaLift
from relax_mlir.tvm.relax.transform.passes.normalize_global_var import (
    NormalizeGlobalVar,
)
from relax_mlir.tvm.relax.transform.passes.remove_purity_checking import (
    RemovePurityChecking,
)
from relax_mlir.tvm.relax.transform.passes.remove_unused_outputs import (
    RemoveUnusedOutputs,
)
from relax_mlir.tvm.relax.transform.passes.remove_unused_parameters import (
    RemoveUnusedParameters,
)
from relax_mlir.tvm.relax.transform.passes.to_non_dataflow import ToNonDataflow
from relax_mlir.tvm.relax.transform.passes.topological_sort import TopologicalSort
from relax_mlir.tvm.relax.transform.passes.update_param_type import UpdateParamType
from relax_mlir.tvm.relax.transform.realize_vdevice import (
    RealizeVdevice as RealizeVDevice,
)
from relax_mlir.tvm.relax.transform.remove_redundant_reshape import (
    RemoveRedundantReshape,
)
from relax_mlir.tvm.relax.transform.reorder_permute_dims_after_concat import (
    ReorderPermuteDimsAfterConcat,
)
from relax_mlir.tvm.relax.transform.reorder_take_after_matmul import (
    ReorderTakeAfterMatmul,
)
from relax_mlir.tvm.relax.transform.rewrite_cuda_graph import (
    RewriteCudaGraph as RewriteCUDAGraph,
)
from relax_mlir.tvm.relax.transform.rewrite_dataflow_reshape import (
    RewriteDataflowReshape,
)
from relax_mlir.tvm.relax.transform.run_codegen import RunCodegen
from relax_mlir.tvm.relax.transform.specialize_prim_func_based_on_call_site import (
    SpecializePrimFuncBasedOnCallSite,
)
from relax_mlir.tvm.relax.transform.split_call_tir_by_pattern import (
    SplitCallTirByPattern as SplitCallTIRByPattern,
)
from relax_mlir.tvm.relax.transform.split_layout_rewrite_preproc import (
    SplitLayoutRewritePreproc,
)
from relax_mlir.tvm.relax.transform.static_plan_block_memory import (
    StaticPlanBlockMemory,
)
from relax_mlir.tvm.relax.transform.to_mixed_precision import ToMixedPrecision
from relax_mlir.tvm.relax.transform.update_vdevice import UpdateVdevice as UpdateVDevice

__all__ = [
    "AdjustMatmulOrder",
    "AllocateWorkspace",
    "AlterOpImpl",
    "AnnotateTIROpPattern",
    "AttachAttrLayoutFreeBuffers",
    "AttachExternModules",
    "AttachGlobalSymbol",
    "BindParams",
    "BindSymbolicVars",
    "BundleModelParams",
    "CallTIRRewrite",
    "CanonicalizeBindings",
    "CombineParallelMatmul",
    "ComputePrimValue",
    "ConvertLayout",
    "ConvertToDataflow",
    "DataflowBlockPass",
    "DataflowUseInplaceCalls",
    "DeadCodeElimination",
    "DecomposeOpsForInference",
    "EliminateCommonSubexpr",
    "ExpandMatmulOfSum",
    "ExpandTupleArguments",
    "FastMathTransform",
    "FoldBatchnormToConv2D",
    "FoldConstant",
    "FunctionPass",
    "FuseOps",
    "FuseOpsByPattern",
    "FuseTIR",
    "FuseTransposeMatmul",
    "FusionPattern",
    "InlinePrivateFunctions",
    "KillAfterLastUse",
    "LambdaLift",
    "LazyGetInput",
    "LazySetOutput",
    "LazyTransformParams",
    "LegalizeOps",
    "LiftTransformParams",
    "LowerAllocTensor",
    "MergeCompositeFunctions",
    "MetaScheduleApplyDatabase",
    "MetaScheduleTuneTIR",
    "Normalize",
    "NormalizeGlobalVar",
    "OptimizeLayoutTransform",
    "PatternCheckContext",
    "RealizeVDevice",
    "RemovePurityChecking",
    "RemoveRedundantReshape",
    "RemoveUnusedOutputs",
    "RemoveUnusedParameters",
    "ReorderPermuteDimsAfterConcat",
    "ReorderTakeAfterMatmul",
    "RewriteCUDAGraph",
    "RewriteDataflowReshape",
    "RunCodegen",
    "SpecializePrimFuncBasedOnCallSite",
    "SplitCallTIRByPattern",
    "SplitLayoutRewritePreproc",
    "StaticPlanBlockMemory",
    "ToMixedPrecision",
    "ToNonDataflow",
    "TopologicalSort",
    "UpdateParamStructInfo",
    "UpdateParamType",
    "UpdateVDevice",
    "dataflowblock_pass",
    "function_pass",
]


UpdateParamStructInfo = UpdateParamType  # TVM's earlier name


def DeadCodeElimination(entry_functions: list[str] | None = None) -> Pass:  # noqa: N802  Relax's name
    """Removes unused bindings and unreachable functions.

    Args:
        entry_functions: names of entry points, in addition to all public functions.
    """
    listed = () if entry_functions is None else tuple(entry_functions)
    return _DeadCodeElimination(listed)


def Normalize() -> Pass:  # noqa: N802  Relax's name
    """Rewrites generic operator calls as dialect operations where argument types allow it."""
    return _Normalize(keep_script=True)


check_exports(globals())
