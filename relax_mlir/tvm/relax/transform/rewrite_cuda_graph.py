"""``RewriteCUDAGraph``: outlines kernels at fixed addresses for CUDA graph capture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import ClassVar

from relax_mlir.ir.module import IRModule
from relax_mlir.objects import prim
from relax_mlir.objects.expr import (
    Call,
    Expr,
    ExternFunc,
    GlobalVar,
    Id,
    Op,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from relax_mlir.objects.expr.struct_info import ShapeStructInfo, TupleStructInfo
from relax_mlir.objects.expr_functor import PyExprMutator
from relax_mlir.objects.function import Function
from relax_mlir.objects.prim import PrimExpr
from relax_mlir.rewrite.pass_context import PassContext
from relax_mlir.rewrite.patterns import Pass
from relax_mlir.tvm.relax.transform.cuda_graph_regions import (
    CudaGraphPlan,
    CudaGraphRegion,
)

__all__ = ["RewriteCudaGraph"]

_CONFIG = "relax.backend.use_cuda_graph"
_CALL = Op.of("relax.call_builtin_with_ctx")
_RUN = ExternFunc("vm.builtin.cuda_graph.run_or_capture")
_ALLOC = ExternFunc("vm.builtin.cuda_graph.get_cached_alloc")


@dataclass(frozen=True)
class RewriteCudaGraph(Pass):
    """Outlines the kernels that a CUDA graph can capture.

    Memory of constant size is allocated once, by ``cuda_graph_alloc``, for all functions of
    the module: they must not run concurrently. Kernels that only use such memory, and
    parameters after the first ``num_input``, become functions ``..._cuda_graph_capture``.
    Runs after ``StaticPlanBlockMemory``, and does nothing unless the context sets
    ``relax.backend.use_cuda_graph``. On a CPU the functions are called directly.

    Args:
        is_enabled: whether to run regardless of the context.
    """

    known_as: ClassVar[str] = "RewriteCUDAGraph"
    is_enabled: bool = False

    def run(self, module: IRModule) -> None:
        if self.is_enabled or PassContext.current().config.get(_CONFIG, False):
            rewriter = _Rewriter(module)
            for var, function in module.functions.items():
                if isinstance(function, Function):
                    new_function = rewriter.rewrite(var, function)
                    if new_function is not function:
                        rewriter.builder_.update_func(var, new_function)
            module.replace_contents(rewriter.builder_.get())


def _shared_storages(
    regions: Sequence[CudaGraphRegion],
) -> tuple[list[VarBinding], dict[Id, int]]:
    """Returns the storages that all functions share, and the storage index per variable.

    Within each memory scope, the largest storage of every function is the same, the second
    largest likewise, and so on.
    """
    by_scope: dict[str, list[list[VarBinding]]] = {}
    for region in regions:
        bindings_by_scope: dict[str, list[VarBinding]] = {}
        for binding in region.bindings:
            bindings_by_scope.setdefault(_scope(binding), []).append(binding)
        for scope, bindings in bindings_by_scope.items():
            by_scope.setdefault(scope, []).append(
                sorted(bindings, key=_size_bytes, reverse=True)
            )
    shared_storages: list[VarBinding] = []
    indices: dict[Id, int] = {}
    for _, per_function in sorted(by_scope.items()):
        for candidates in zip_longest(*per_function):
            shared = [binding for binding in candidates if binding is not None]
            indices.update(
                (binding.var.vid, len(shared_storages)) for binding in shared
            )
            shared_storages.append(max(shared, key=_size_bytes))
    return shared_storages, indices


def _call_of(binding: VarBinding) -> Call:
    assert isinstance(binding.value, Call)
    return binding.value


def _scope(binding: VarBinding) -> str:
    scope = _call_of(binding).args[2]
    assert isinstance(scope, StringImm)
    return scope.value


def _size_bytes(binding: VarBinding) -> int:
    shape = _call_of(binding).args[0]
    assert isinstance(shape, ShapeExpr)
    (size,) = shape.values
    assert isinstance(size, prim.IntImm)
    return size.value


class _RegionOutliner(PyExprMutator):
    """Outlines a region as a function."""

    def outlined(self, region: CudaGraphRegion) -> Function:
        """Returns the function of a region: parameters are its inputs, then its sizes."""
        new = [prim.Var(size.name, size.dtype) for size in region.sizes]
        self.sizes: Mapping[prim.Var, PrimExpr] = dict(
            zip(region.sizes, new, strict=True)
        )
        params: list[Var] = []
        for var in region.inputs.values():
            info = self.visit_struct_info(var.struct_info_or_none())
            params.append(Var(var.name_hint, info))
            self.set_var_remap(var.vid, params[-1])
        if new:
            params.append(Var("shape_expr", ShapeStructInfo(new)))
        self.builder_._begin_binding_block()
        for binding in region.bindings:
            self.visit_binding(binding)
        outputs = Tuple([self.visit_expr(var) for var in region.outputs.values()])
        result = self.builder_.normalize_argument(self.builder_.emit(outputs))
        body = SeqExpr([self.builder_._end_block()], result)
        return Function(params, body, None, attrs={"relax.force_pure": True})

    def visit_prim_expr(self, expr: PrimExpr) -> PrimExpr:
        """Substitutes the symbols of the new function in a size."""
        return prim.substitute(expr, self.sizes) if self.sizes else expr


class _Rewriter(PyExprMutator):
    """Replaces regions by calls of their functions."""

    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        functions = [f for f in mod.functions.values() if isinstance(f, Function)]
        plans = {function.name: CudaGraphPlan(mod, function) for function in functions}
        self.starts: dict[Id, CudaGraphRegion] = {}
        self.outlined: set[Id] = set()
        for plan in plans.values():
            for region in plan.regions():
                self.starts[region.bindings[0].var.vid] = region
                self.outlined.update(b.var.vid for b in region.bindings)
        storages = [p.storage for p in plans.values() if p.storage.bindings]
        shared_storages, self.indices = _shared_storages(storages)
        self.alloc: GlobalVar | None = None
        if shared_storages:
            outputs = {binding.var.vid: binding.var for binding in shared_storages}
            alloc_region = CudaGraphRegion(
                is_alloc=True, bindings=shared_storages, outputs=outputs
            )
            alloc_function = _RegionOutliner(mod).outlined(alloc_region)
            self.alloc = self.builder_.add_func(alloc_function, "cuda_graph_alloc")
            self.alloc_info = alloc_function.ret_struct_info
        self.projections: dict[Id, Expr] = {}  # projections for variables of regions
        self.count = 0

    def rewrite(self, var: GlobalVar, function: Function) -> Function:
        """Rewrites a function of the module."""
        self.name = var.name_hint
        return self.visit_expr(function)

    def visit_var_binding_(self, binding: VarBinding) -> None:
        """Visits a binding; the first one of a region becomes the call."""
        vid = binding.var.vid
        if vid in self.starts:
            self._launch(self.starts[vid])
        if vid in self.projections:
            self._projected(binding.var)
        elif vid not in self.outlined:
            super().visit_var_binding_(binding)

    def visit_var_(self, op: Var) -> Expr:
        """Visits a use; outputs of a region are projected at their first use."""
        return (
            self._projected(op)
            if op.vid in self.projections
            else super().visit_var_(op)
        )

    def _projected(self, var: Var) -> Expr:
        if var.vid not in self._var_remap:
            projected = self.builder_.emit(self.projections[var.vid], var.name_hint)
            self.set_var_remap(var.vid, projected)
        return self._var_remap[var.vid]

    def _launch(self, region: CudaGraphRegion) -> None:
        """Emits the call of a region's function."""
        if region.is_alloc:
            assert self.alloc is not None
            args = Tuple([self.alloc, PrimValue(0)])
            call = Call(_CALL, [_ALLOC, args], None, [self.alloc_info])
            indices = {vid: self.indices[vid] for vid in region.outputs}
        else:
            call = self._capture(region)
            indices = {vid: n for n, vid in enumerate(region.outputs)}
        results = self.builder_.emit(call)
        self.projections.update(
            (vid, TupleGetItem(results, n)) for vid, n in indices.items()
        )

    def _capture(self, region: CudaGraphRegion) -> Call:
        function = _RegionOutliner(self.builder_.get()).outlined(region)
        name = f"{self.name}_cuda_graph_capture"
        callee = self.builder_.add_func(function, name)
        args = [self.visit_expr(var) for var in region.inputs.values()]
        key = [ShapeExpr(region.sizes)] if region.sizes else []
        run_args = Tuple([callee, Tuple([*args, *key]), PrimValue(self.count), *key])
        self.count += 1
        infos = [var.struct_info for var in region.outputs.values()]
        return Call(_CALL, [_RUN, run_args], None, [TupleStructInfo(infos)])
