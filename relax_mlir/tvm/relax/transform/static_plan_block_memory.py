"""``StaticPlanBlockMemory``: static memory planning; tensors reuse storages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from relax_mlir.dialects import dtypes, shapes
from relax_mlir.errors import PassError, short_repr
from relax_mlir.ir.module import IRModule
from relax_mlir.objects.expr import (
    Binding,
    Call,
    Expr,
    ExternFunc,
    GlobalVar,
    Id,
    If,
    MatchCast,
    Op,
    SeqExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from relax_mlir.objects.expr.struct_info import TensorStructInfo
from relax_mlir.objects.expr_functor import PyExprMutator
from relax_mlir.objects.function import Function
from relax_mlir.objects.infer.struct_info import size_vars_in
from relax_mlir.objects.prim.symbolic_sizes import Symbols
from relax_mlir.objects.stmt.prim_func import PrimFunc
from relax_mlir.rewrite.patterns import Pass
from relax_mlir.symbolic import bounds
from relax_mlir.symbolic.dims import Dim
from relax_mlir.tvm.relax.op.storage import memory
from relax_mlir.tvm.relax.transform.storage_pool import (
    Storage,
    StoragePool,
    planned_storages,
)

__all__ = ["StaticPlanBlockMemory"]

_BOUNDS = "tir_var_upper_bound"
_PLAN_OUTPUT = "relax.memory_plan_dynamic_func_output"
_ALLOC = Op.of("relax.builtin.alloc_tensor")
_ALIASING = tuple(
    Op.of(f"relax.{name}")
    for name in ("reshape", "memory.view", "memory.ensure_zero_offset")
)


@dataclass(frozen=True)
class StaticPlanBlockMemory(Pass):
    """Plans memory so that tensors of a block with disjoint lifetimes share storage.

    Of the tensors that `CallTIRRewrite` allocates, those are planned that only tensor
    programs and packed functions of the same block use. The function attribute
    ``tir_var_upper_bound`` bounds symbols of the signature, as in ``{"n": 1024}``.
    """

    def run(self, module: IRModule) -> None:
        rewriter = _Rewriter(module)
        for var, function in module.functions.items():
            if isinstance(function, Function):
                new_function = rewriter.rewrite(function, _Plan(module, function))
                rewriter.builder_.update_func(var, new_function)
        module.replace_contents(rewriter.builder_.get())


class _Plan:
    """The storage assignment of the tensors of one function.

    A first traversal counts the uses of each tensor and finds those that escape; a second
    one assigns storages from the pool.

    Attributes:
        assigned: the storage of each planned tensor, by its variable.
        symbols: names of the symbolic dimensions.
    """

    def __init__(self, module: IRModule, function: Function) -> None:
        self.module = module
        self.symbols = Symbols()
        self.bounds = _upper_bounds(function, self.symbols)
        self.assigned: dict[Id, Storage] = {}
        self._storages: dict[Id, Any] = {}
        self._pool: StoragePool | None = None
        self._blocks = 0
        body = function.body
        self._mark_unplanned(self._sequence(body))
        self._pool, self._blocks = StoragePool(), 0
        prototypes, self._storages = self._storages, {}
        self._prototypes = prototypes
        self._sequence(body)

    def _sequence(self, sequence: SeqExpr) -> Any:
        """Plans the blocks of a sequence; returns the storages of its result."""
        for block in sequence.blocks:
            self._blocks += 1
            block_index = self._blocks
            for binding in block.bindings:
                self._storages[binding.var.vid] = self._binding(binding, block_index)
        return self._storages_of(sequence.body)

    def _binding(self, binding: Binding, block: int) -> Any:
        if isinstance(binding, MatchCast):
            self._mark_unplanned(self._storages_of(binding.value))
            return None
        assert isinstance(binding, VarBinding)
        value = binding.value
        if isinstance(value, Call) and value.op == _ALLOC:
            return self._allocated(binding.var, value, block)
        if isinstance(value, Call):
            return self._call(value, block)
        if isinstance(value, If):
            self._mark_unplanned(self._storages_of(value.cond))
            for branch in (value.true_branch, value.false_branch):
                assert isinstance(branch, SeqExpr)
                self._mark_unplanned(self._sequence(branch))
            return None
        return self._storages_of(value)

    def _storages_of(self, expr: Expr) -> Any:
        """Returns the storages of the tensors in a value."""
        if isinstance(expr, Var):
            return self._storages.get(expr.vid)
        if isinstance(expr, Tuple):
            return [self._storages_of(field) for field in expr.fields]
        if isinstance(expr, TupleGetItem):
            tuple_storages = self._storages_of(expr.tuple_value)
            return (
                tuple_storages[expr.index] if isinstance(tuple_storages, list) else None
            )
        return None

    def _allocated(self, var: Var, call: Call, block: int) -> Storage | None:
        if self._pool is None:
            scope = call.args[3]
            assert isinstance(scope, StringImm)
            info = _tensor_info(call)
            return Storage(self.size_bytes(info), info.dtype, scope.value, block)
        prototype: Storage = self._prototypes[var.vid]
        if not prototype.is_planned:
            return None
        self.assigned[var.vid] = self._pool.request(prototype)
        return self.assigned[var.vid]

    def _call(self, call: Call, block: int) -> Any:
        if call.op in _ALIASING:
            return self._storages_of(call.args[0])
        for arg in call.args:
            for storage in planned_storages(self._storages_of(arg)):
                self._use(storage, call, block)
        return None

    def _use(self, storage: Storage, call: Call, block: int) -> None:
        if self._pool is None:
            is_here = storage.block == block
            storage.is_planned = is_here and self._does_not_retain(call.op)
            storage.uses += 1
            return
        storage.uses -= 1
        if not storage.uses:
            self._pool.release(storage)

    def _does_not_retain(self, callee: Expr) -> bool:
        """Returns whether a callee retains no reference to its tensors."""
        if isinstance(callee, GlobalVar) and callee.name_hint in self.module:
            return isinstance(self.module[callee.name_hint], PrimFunc)
        return isinstance(callee, ExternFunc) or callee == Op.of(
            "relax.vm.call_tir_dyn"
        )

    def _mark_unplanned(self, storages: Any) -> None:
        for storage in planned_storages(storages):
            storage.is_planned = False

    def size_bytes(self, info: TensorStructInfo) -> Dim:
        """Returns the maximal size of a tensor."""
        assert isinstance(info.shape, ShapeExpr)
        sizes = map(self._upper_bound, self.symbols.dims(info.shape.values))
        return prod(sizes) * dtypes.dtype(info.dtype).numpy.itemsize

    def _upper_bound(self, size: Dim) -> Dim:
        """Returns the upper bound of a dimension, or the dimension if unbounded."""
        ranges = {name: (0, bound) for name, bound in self.bounds.items()}
        upper_bound = bounds.bounds(size, ranges)[1]
        return (
            shapes.substitute(size, self.bounds) if upper_bound is None else upper_bound
        )


def _tensor_info(call: Call) -> TensorStructInfo:
    info = call.struct_info_or_none()
    if not isinstance(info, TensorStructInfo) or not isinstance(info.shape, ShapeExpr):
        raise PassError(
            f"`StaticPlanBlockMemory`: expected a tensor of known sizes, got {info}"
        )
    return info


def _upper_bounds(function: Function, symbols: Symbols) -> dict[str, int]:
    """Returns the upper bounds of symbols in the signature.

    Raises:
        PassError: the attribute has keys that are not names, or values that are not positive.
    """
    stated = function.attrs.get(_BOUNDS) or {}
    if not isinstance(stated, Mapping):
        raise PassError(
            f"attribute `{_BOUNDS}`: expected a dictionary, got {short_repr(stated)}"
        )
    bounds_by_symbol: dict[str, int] = {}
    vars_by_name = {v.name: v for v in _size_vars(function)}
    for name, bound in stated.items():
        value = getattr(bound, "value", bound)
        if not isinstance(name, str) or not isinstance(value, int) or value <= 0:
            raise PassError(
                f"attribute `{_BOUNDS}`: expected names and positive numbers, got "
                f"{name!r}: {bound!r}"
            )
        if name in vars_by_name:
            bounds_by_symbol[symbols.name(vars_by_name[name])] = value
    return bounds_by_symbol


def _size_vars(function: Function) -> Iterator[Any]:
    for param in function.params:
        yield from size_vars_in(param.struct_info)
    yield from size_vars_in(function.ret_struct_info)


class _Rewriter(PyExprMutator):
    """Allocates the planned storages, and tensors in them."""

    def rewrite(self, function: Function, plan: _Plan) -> Function:
        """Returns the function on planned storages."""
        self.plan = plan
        self._made: dict[Storage, Var] = {}
        self._plans_output = bool(function.attrs.get(_PLAN_OUTPUT))
        new_function: Function = self.visit_expr(function)
        return (
            new_function.without_attr(_PLAN_OUTPUT)
            if self._plans_output
            else new_function
        )

    def visit_var_binding_(self, binding: VarBinding) -> None:
        """Visits a binding; planned allocations use their storage."""
        value = binding.value
        if isinstance(value, Call) and value.op == _ALLOC:
            allocation = self._allocation(binding.var, value)
            binding = VarBinding(binding.var, allocation, binding.span)
        super().visit_var_binding_(binding)

    def _allocation(self, var: Var, call: Call) -> Call:
        info = _tensor_info(call)
        storage = self.plan.assigned.get(var.vid)
        if storage is not None:
            if storage not in self._made:
                self._made[storage] = self._storage(call, storage.size_bytes)
            return memory.alloc_tensor(self._made[storage], 0, info.shape, info.dtype)
        sizes = self.plan.symbols.dims(getattr(info.shape, "values", ()))
        if not self._plans_output or all(isinstance(size, int) for size in sizes):
            return call
        storage_var = self._storage(call, self.plan.size_bytes(info))
        return memory.alloc_tensor(storage_var, 0, info.shape, info.dtype)

    def _storage(self, call: Call, size_bytes: Dim) -> Var:
        size = ShapeExpr([self.plan.symbols.expr(size_bytes)])
        dtype, scope = _tensor_info(call).dtype, call.args[3]
        alloc = memory.alloc_storage(size, call.args[2], scope, dtype)
        return self.builder_.emit(alloc, "storage")
