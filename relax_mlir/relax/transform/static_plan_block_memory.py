"""``StaticPlanBlockMemory``: tensors that are not needed together share memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from relax_mlir.dialects import dim_bounds, dtypes, shapes
from relax_mlir.dialects.dims import Dim
from relax_mlir.errors import PassError, shown
from relax_mlir.module import IRModule
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
from relax_mlir.objects.function import Function
from relax_mlir.objects.infer import variables_in
from relax_mlir.objects.prim_func import PrimFunc
from relax_mlir.objects.sizes import Symbols
from relax_mlir.objects.struct_info import TensorStructInfo
from relax_mlir.relax.expr_functor import PyExprMutator
from relax_mlir.relax.op.storage import memory
from relax_mlir.relax.transform.storage_pool import Pool, Storage, leaves
from relax_mlir.rewriting import Pass

__all__ = ["StaticPlanBlockMemory"]

_BOUNDS = "tir_var_upper_bound"
_PLAN_OUTPUT = "relax.memory_plan_dynamic_func_output"
_ALLOC = Op.of("relax.builtin.alloc_tensor")
_SAME_MEMORY = tuple(
    Op.of(f"relax.{name}")
    for name in ("reshape", "memory.view", "memory.ensure_zero_offset")
)


@dataclass(frozen=True)
class StaticPlanBlockMemory(Pass):
    """Let tensors of one block that are not needed together share memory.

    Of the tensors that `CallTIRRewrite` makes, those that only tensor programs and packed
    functions of the same block use are planned. The attribute ``tir_var_upper_bound`` of a
    function gives symbols in its signature their greatest values, such as ``{"n": 1024}``.
    """

    def run(self, module: IRModule) -> None:
        rewriter = _Rewriter(module)
        for var, function in module.functions.items():
            if isinstance(function, Function):
                made = rewriter.rewritten(function, _Plan(module, function))
                rewriter.builder_.update_func(var, made)
        module.become(rewriter.builder_.get())


class _Plan:
    """In which memory the tensors of one function lie.

    Attributes:
        chosen: the memory of each tensor that is planned, by its variable.
        symbols: names of the variables in sizes.
    """

    def __init__(self, module: IRModule, function: Function) -> None:
        self.module = module
        self.symbols = Symbols()
        self.bounds = _upper_bounds(function, self.symbols)
        self.chosen: dict[Id, Storage] = {}
        self._storages: dict[Id, Any] = {}
        self._pool: Pool | None = None
        self._blocks = 0
        body = function.body
        self._discard(self._sequence(body))
        self._pool, self._blocks = Pool(), 0
        prototypes, self._storages = self._storages, {}
        self._prototypes = prototypes
        self._sequence(body)

    def _sequence(self, sequence: SeqExpr) -> Any:
        """Plan blocks; the storages of the value after them."""
        for block in sequence.blocks:
            self._blocks += 1
            number = self._blocks
            for binding in block.bindings:
                self._storages[binding.var.vid] = self._binding(binding, number)
        return self._of(sequence.body)

    def _binding(self, binding: Binding, block: int) -> Any:
        if isinstance(binding, MatchCast):
            self._discard(self._of(binding.value))
            return None
        assert isinstance(binding, VarBinding)
        value = binding.value
        if isinstance(value, Call) and value.op == _ALLOC:
            return self._allocated(binding.var, value, block)
        if isinstance(value, Call):
            return self._call(value, block)
        if isinstance(value, If):
            self._discard(self._of(value.cond))
            for branch in (value.true_branch, value.false_branch):
                assert isinstance(branch, SeqExpr)
                self._discard(self._sequence(branch))
            return None
        return self._of(value)

    def _of(self, expr: Expr) -> Any:
        """The storages of the tensors in a value."""
        if isinstance(expr, Var):
            return self._storages.get(expr.vid)
        if isinstance(expr, Tuple):
            return [self._of(field) for field in expr.fields]
        if isinstance(expr, TupleGetItem):
            whole = self._of(expr.tuple_value)
            return whole[expr.index] if isinstance(whole, list) else None
        return None

    def _allocated(self, var: Var, call: Call, block: int) -> Storage | None:
        if self._pool is None:
            scope = call.args[3]
            assert isinstance(scope, StringImm)
            info = _tensor(call)
            return Storage(self.size_bytes(info), info.dtype, scope.value, block)
        prototype: Storage = self._prototypes[var.vid]
        if not prototype.is_planned:
            return None
        self.chosen[var.vid] = self._pool.request(prototype)
        return self.chosen[var.vid]

    def _call(self, call: Call, block: int) -> Any:
        if call.op in _SAME_MEMORY:
            return self._of(call.args[0])
        for arg in call.args:
            for storage in leaves(self._of(arg)):
                self._use(storage, call, block)
        return None

    def _use(self, storage: Storage, call: Call, block: int) -> None:
        if self._pool is None:
            is_here = storage.block == block
            storage.is_planned = is_here and self._keeps_nothing(call.op)
            storage.uses += 1
            return
        storage.uses -= 1
        if not storage.uses:
            self._pool.release(storage)

    def _keeps_nothing(self, callee: Expr) -> bool:
        """Whether what is called does not hold on to tensors."""
        if isinstance(callee, GlobalVar) and callee.name_hint in self.module:
            return isinstance(self.module[callee.name_hint], PrimFunc)
        return isinstance(callee, ExternFunc) or callee == Op.of(
            "relax.vm.call_tir_dyn"
        )

    def _discard(self, storages: Any) -> None:
        for storage in leaves(storages):
            storage.is_planned = False

    def size_bytes(self, info: TensorStructInfo) -> Dim:
        """The memory that a tensor needs at most."""
        assert isinstance(info.shape, ShapeExpr)
        sizes = map(self._greatest, self.symbols.dims(info.shape.values))
        return prod(sizes) * dtypes.dtype(info.dtype).numpy.itemsize

    def _greatest(self, size: Dim) -> Dim:
        """The greatest value of a size; the size itself where it has none."""
        ranges = {name: (0, bound) for name, bound in self.bounds.items()}
        greatest = dim_bounds.bounds(size, ranges)[1]
        return shapes.substitute(size, self.bounds) if greatest is None else greatest


def _tensor(call: Call) -> TensorStructInfo:
    info = call.struct_info_or_none()
    if not isinstance(info, TensorStructInfo) or not isinstance(info.shape, ShapeExpr):
        raise PassError(
            f"`StaticPlanBlockMemory`: expected a tensor of known sizes, got {info}"
        )
    return info


def _upper_bounds(function: Function, symbols: Symbols) -> dict[str, int]:
    """The greatest values of symbols in the signature.

    Raises:
        PassError: the attribute says something else than positive numbers.
    """
    given = function.attrs.get(_BOUNDS) or {}
    if not isinstance(given, Mapping):
        raise PassError(
            f"attribute `{_BOUNDS}`: expected a dictionary, got {shown(given)}"
        )
    found: dict[str, int] = {}
    known = {v.name: v for v in _variables(function)}
    for name, bound in given.items():
        number = getattr(bound, "value", bound)
        if not isinstance(name, str) or not isinstance(number, int) or number <= 0:
            raise PassError(
                f"attribute `{_BOUNDS}`: expected names and positive numbers, got "
                f"{name!r}: {bound!r}"
            )
        if name in known:
            found[symbols.name(known[name])] = number
    return found


def _variables(function: Function) -> Iterator[Any]:
    for param in function.params:
        yield from variables_in(param.struct_info)
    yield from variables_in(function.ret_struct_info)


class _Rewriter(PyExprMutator):
    """Takes the memory that a plan says, and makes tensors in it."""

    def rewritten(self, function: Function, plan: _Plan) -> Function:
        """The function on planned memory."""
        self.plan = plan
        self._made: dict[Storage, Var] = {}
        self._plans_output = bool(function.attrs.get(_PLAN_OUTPUT))
        made: Function = self.visit_expr(function)
        return made.without_attr(_PLAN_OUTPUT) if self._plans_output else made

    def visit_var_binding_(self, binding: VarBinding) -> None:
        """An allocation on planned memory, anything else as it is."""
        value = binding.value
        if isinstance(value, Call) and value.op == _ALLOC:
            made = self._allocation(binding.var, value)
            binding = VarBinding(binding.var, made, binding.span)
        super().visit_var_binding_(binding)

    def _allocation(self, var: Var, call: Call) -> Call:
        info = _tensor(call)
        storage = self.plan.chosen.get(var.vid)
        if storage is not None:
            if storage not in self._made:
                self._made[storage] = self._storage(call, storage.size_bytes)
            return memory.alloc_tensor(self._made[storage], 0, info.shape, info.dtype)
        sizes = self.plan.symbols.dims(getattr(info.shape, "values", ()))
        if not self._plans_output or all(isinstance(size, int) for size in sizes):
            return call
        made = self._storage(call, self.plan.size_bytes(info))
        return memory.alloc_tensor(made, 0, info.shape, info.dtype)

    def _storage(self, call: Call, size_bytes: Dim) -> Var:
        size = ShapeExpr([self.plan.symbols.term(size_bytes)])
        dtype, scope = _tensor(call).dtype, call.args[3]
        made = memory.alloc_storage(size, call.args[2], scope, dtype)
        return self.builder_.emit(made, "storage")
