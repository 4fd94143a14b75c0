"""``RewriteCUDAGraph``: kernels at fixed addresses become functions that are captured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import ClassVar

from relax_mlir.module import IRModule
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
from relax_mlir.objects.function import Function
from relax_mlir.objects.prim import PrimExpr
from relax_mlir.objects.struct_info import ShapeStructInfo, TupleStructInfo
from relax_mlir.pass_context import PassContext
from relax_mlir.relax.expr_functor import PyExprMutator
from relax_mlir.relax.transform.cuda_graph_regions import Plan, Region
from relax_mlir.rewriting import Pass

__all__ = ["RewriteCudaGraph"]

_CONFIG = "relax.backend.use_cuda_graph"
_CALL = Op.of("relax.call_builtin_with_ctx")
_RUN = ExternFunc("vm.builtin.cuda_graph.run_or_capture")
_ALLOC = ExternFunc("vm.builtin.cuda_graph.get_cached_alloc")


@dataclass(frozen=True)
class RewriteCudaGraph(Pass):
    """Make functions of the kernels that can be captured in a CUDA graph.

    Memory of known size is allocated once, by ``cuda_graph_alloc``, for all functions of the
    module: they must not run at the same time. Kernels that only use such memory, and
    parameters after the first ``num_input``, become functions ``..._cuda_graph_capture``. It
    runs behind ``StaticPlanBlockMemory``, and does nothing unless the context has
    ``relax.backend.use_cuda_graph``. On a CPU the functions are called as they are.

    Args:
        is_enabled: whether it works without that.
    """

    known_as: ClassVar[str] = "RewriteCUDAGraph"
    is_enabled: bool = False

    def run(self, module: IRModule) -> None:
        if self.is_enabled or PassContext.current().config.get(_CONFIG, False):
            rewriter = _Rewriter(module)
            for var, function in module.functions.items():
                if isinstance(function, Function):
                    made = rewriter.rewritten(var, function)
                    if made is not function:
                        rewriter.builder_.update_func(var, made)
            module.become(rewriter.builder_.get())


def _merged(regions: Sequence[Region]) -> tuple[list[VarBinding], dict[Id, int]]:
    """The memory that all functions share, and the number of the piece for each variable.

    In each kind of memory, the largest piece of every function is the same, and so on.
    """
    by_scope: dict[str, list[list[VarBinding]]] = {}
    for region in regions:
        own: dict[str, list[VarBinding]] = {}
        for binding in region.bindings:
            own.setdefault(_scope(binding), []).append(binding)
        for scope, bindings in own.items():
            by_scope.setdefault(scope, []).append(
                sorted(bindings, key=_size_bytes, reverse=True)
            )
    pieces: list[VarBinding] = []
    numbers: dict[Id, int] = {}
    for _, per_function in sorted(by_scope.items()):
        for same in zip_longest(*per_function):
            shared = [binding for binding in same if binding is not None]
            numbers.update((binding.var.vid, len(pieces)) for binding in shared)
            pieces.append(max(shared, key=_size_bytes))
    return pieces, numbers


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


class _Lifting(PyExprMutator):
    """Makes a function of some bindings."""

    def lifted(self, region: Region) -> Function:
        """The function of a region: of its inputs, then of its sizes."""
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
        """A size, in the sizes of the function that is made."""
        return prim.substitute(expr, self.sizes) if self.sizes else expr


class _Rewriter(PyExprMutator):
    """Calls functions in place of regions."""

    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        functions = [f for f in mod.functions.values() if isinstance(f, Function)]
        plans = {function.name: Plan(mod, function) for function in functions}
        self.starts: dict[Id, Region] = {}
        self.lifted: set[Id] = set()
        for plan in plans.values():
            for region in plan.regions():
                self.starts[region.bindings[0].var.vid] = region
                self.lifted.update(b.var.vid for b in region.bindings)
        storages = [p.storage for p in plans.values() if p.storage.bindings]
        pieces, self.numbers = _merged(storages)
        self.alloc: GlobalVar | None = None
        if pieces:
            outputs = {binding.var.vid: binding.var for binding in pieces}
            whole = Region(is_alloc=True, bindings=pieces, outputs=outputs)
            made = _Lifting(mod).lifted(whole)
            self.alloc = self.builder_.add_func(made, "cuda_graph_alloc")
            self.alloc_info = made.ret_struct_info
        self.parts: dict[Id, Expr] = {}  # what variables of regions are elsewhere
        self.count = 0

    def rewritten(self, var: GlobalVar, function: Function) -> Function:
        """A function of the module."""
        self.name = var.name_hint
        return self.visit_expr(function)

    def visit_var_binding_(self, binding: VarBinding) -> None:
        """A binding; the first one of a region is where its function is called."""
        vid = binding.var.vid
        if vid in self.starts:
            self._launch(self.starts[vid])
        if vid in self.parts:
            self._defined(binding.var)
        elif vid not in self.lifted:
            super().visit_var_binding_(binding)

    def visit_var_(self, op: Var) -> Expr:
        """A variable; that of a region is defined where it is first needed."""
        return self._defined(op) if op.vid in self.parts else super().visit_var_(op)

    def _defined(self, var: Var) -> Expr:
        if var.vid not in self._var_remap:
            made = self.builder_.emit(self.parts[var.vid], var.name_hint)
            self.set_var_remap(var.vid, made)
        return self._var_remap[var.vid]

    def _launch(self, region: Region) -> None:
        """Call the function of a region."""
        if region.is_alloc:
            assert self.alloc is not None
            args = Tuple([self.alloc, PrimValue(0)])
            call = Call(_CALL, [_ALLOC, args], None, [self.alloc_info])
            numbers = {vid: self.numbers[vid] for vid in region.outputs}
        else:
            call = self._capture(region)
            numbers = {vid: n for n, vid in enumerate(region.outputs)}
        made = self.builder_.emit(call)
        self.parts.update((vid, TupleGetItem(made, n)) for vid, n in numbers.items())

    def _capture(self, region: Region) -> Call:
        function = _Lifting(self.builder_.get()).lifted(region)
        name = f"{self.name}_cuda_graph_capture"
        callee = self.builder_.add_func(function, name)
        args = [self.visit_expr(var) for var in region.inputs.values()]
        key = [ShapeExpr(region.sizes)] if region.sizes else []
        how = Tuple([callee, Tuple([*args, *key]), PrimValue(self.count), *key])
        self.count += 1
        infos = [var.struct_info for var in region.outputs.values()]
        return Call(_CALL, [_RUN, how], None, [TupleStructInfo(infos)])
