"""Region analysis for CUDA graphs: capturable bindings and static storage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from relax_mlir.ir.module import IRModule
from relax_mlir.objects import prim
from relax_mlir.objects.expr import (
    Binding,
    BindingBlock,
    Call,
    Constant,
    DataTypeImm,
    Expr,
    ExternFunc,
    GlobalVar,
    Id,
    If,
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
from relax_mlir.objects.expr.struct_info import (
    FuncStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from relax_mlir.objects.free_symbols import definable_tir_vars_in_struct_info
from relax_mlir.objects.free_variables import free_vars
from relax_mlir.objects.function import Function
from relax_mlir.objects.stmt.prim_func import PrimFunc
from relax_mlir.tvm.relax.transform.function_rewriting import num_input

__all__ = ["CudaGraphPlan", "CudaGraphRegion"]

_HINTS = "relax.rewrite_cuda_graph.capture_symbolic_vars"
_STORAGE = Op.of("relax.memory.alloc_storage")
_TENSOR_IN_STORAGE = Op.of("relax.memory.alloc_tensor")
_NEW_TENSOR = Op.of("relax.builtin.alloc_tensor")
_VIEWS = tuple(
    Op.of(f"relax.{name}")
    for name in ("reshape", "memory.view", "memory.ensure_zero_offset")
)
# Operators that launch no kernel.
_HOST_FAMILIES = ("relax.memory", "relax.builtin")
_HOST = ("relax.reshape", "relax.null_value", "relax.call_builtin_with_ctx")


@dataclass(eq=False)
class CudaGraphRegion:
    """Bindings that are outlined as a function.

    Attributes:
        is_alloc: whether it allocates storage; other regions launch kernels.
        bindings: the bindings, in order.
        inputs: variables that are used in it and defined elsewhere, by identity.
        sizes: symbols that are used in it.
        outputs: variables of it that are used elsewhere, by identity.
    """

    is_alloc: bool
    bindings: list[VarBinding] = field(default_factory=list)
    inputs: dict[Id, Var] = field(default_factory=dict)
    sizes: list[prim.Var] = field(default_factory=list)
    outputs: dict[Id, Var] = field(default_factory=dict)


class CudaGraphPlan:
    """The CUDA graph regions of one function.

    A value is static if it is computed from memory at fixed addresses only: allocated here,
    or held by parameters after the first ``num_input``. Consecutive kernels of a block on
    static values form a region.

    Attributes:
        storage: the region that allocates storage; empty if no storage is static.
        captured: the regions that launch kernels, in order.
    """

    def __init__(self, module: IRModule, function: Function) -> None:
        self.module = module
        self.storage = CudaGraphRegion(is_alloc=True)
        self.captured: list[CudaGraphRegion] = []
        self._static: set[Id] = set()
        self._sizes: set[int] = set()  # known symbols, by id
        self._region_of: dict[Id, CudaGraphRegion] = {}
        self._open: CudaGraphRegion | None = None
        self._returned = _returned_storage(function.body)
        self._params(function)
        self._sequence(function.body)
        _find_outputs(function.body, self._region_of)
        if not self.storage.outputs:
            self.storage = CudaGraphRegion(is_alloc=True)

    def regions(self) -> list[CudaGraphRegion]:
        """Returns all non-empty regions."""
        return [r for r in (self.storage, *self.captured) if r.bindings]

    def _params(self, function: Function) -> None:
        count = num_input(function)
        hints = {str(name) for name in function.attrs.get(_HINTS, ())}
        for index, param in enumerate(function.params):
            info = param.struct_info_or_none()
            symbols = [] if info is None else definable_tir_vars_in_struct_info(info)
            is_fixed = count is not None and index >= count
            if is_fixed:
                self._static.add(param.vid)
            self._sizes.update(id(v) for v in symbols if is_fixed or v.name in hints)

    def _sequence(self, sequence: Expr) -> None:
        assert isinstance(sequence, SeqExpr)
        for block in sequence.blocks:
            self._block(block)

    def _block(self, block: BindingBlock) -> None:
        outer, self._open = self._open, None
        for binding in block.bindings:
            self._binding(binding)
        self._open = outer

    def _binding(self, binding: Binding) -> None:
        value = binding.value
        if isinstance(value, If):
            self._open = None
            self._sequence(value.true_branch)
            self._sequence(value.false_branch)
        elif not isinstance(binding, VarBinding):
            self._open = None
        elif isinstance(value, Call):
            self._call(binding, value)
        elif isinstance(value, (Var, Constant, Tuple, TupleGetItem)):
            self._add_if_static(binding, list(_operands_of(value)))

    def _call(self, binding: VarBinding, call: Call) -> None:
        if call.op == _STORAGE:
            if self._is_fixed_storage(binding.var, call):
                self._add(binding, self.storage)
            return
        if call.op == _NEW_TENSOR:
            return
        if self._open is None and self._is_kernel(call) and self._all_static(call.args):
            self._open = CudaGraphRegion(is_alloc=False)
            self.captured.append(self._open)
        is_host = isinstance(call.op, ExternFunc) and call.op.global_symbol.startswith(
            "vm.builtin"
        )
        is_other = isinstance(call.op, GlobalVar) and not self._is_program(call.op)
        if is_host or is_other or not isinstance(call.op, (Op, ExternFunc, GlobalVar)):
            self._open = None
        else:
            self._add_if_static(binding, call.args)

    def _is_program(self, callee: GlobalVar) -> bool:
        is_defined = callee.name_hint in self.module
        return is_defined and isinstance(self.module[callee.name_hint], PrimFunc)

    def _is_kernel(self, call: Call) -> bool:
        """Returns whether a call launches a kernel."""
        callee = call.op
        if isinstance(callee, GlobalVar):
            return self._is_program(callee)
        if isinstance(callee, ExternFunc):
            return not callee.global_symbol.startswith("vm.builtin")
        name = callee.name if isinstance(callee, Op) else "relax.builtin"
        return not name.startswith(_HOST_FAMILIES) and name not in _HOST

    def _is_fixed_storage(self, var: Var, call: Call) -> bool:
        shape = call.args[0]
        is_known = isinstance(shape, ShapeExpr) and all(
            isinstance(size, prim.IntImm) for size in shape.values
        )
        return is_known and var.vid not in self._returned

    def _add_if_static(self, binding: VarBinding, args: Sequence[Expr]) -> None:
        """Marks a binding as static if its operands are."""
        if not self._all_static(args):
            self._open = None
            return
        self._add(binding, self._open)
        if self._open is None:
            return
        for expr in _leaves(args):
            if isinstance(expr, Var) and self._region_of.get(expr.vid) != self._open:
                self._open.inputs[expr.vid] = expr
            for size in _symbols_of(expr):
                if all(size is not known_size for known_size in self._open.sizes):
                    self._open.sizes.append(size)

    def _add(self, binding: VarBinding, region: CudaGraphRegion | None) -> None:
        self._static.add(binding.var.vid)
        if region is not None:
            region.bindings.append(binding)
            self._region_of[binding.var.vid] = region

    def _all_static(self, args: Iterable[Expr]) -> bool:
        return all(map(self._is_static, _leaves(args)))

    def _is_static(self, leaf: Expr) -> bool:
        if isinstance(leaf, Var):
            info = leaf.struct_info_or_none()
            is_known = leaf.vid in self._static and _has_known_sizes(info)
            return is_known and self._has_known_symbols(leaf)
        if isinstance(leaf, (PrimValue, ShapeExpr)):
            return self._has_known_symbols(leaf)
        return isinstance(leaf, (Constant, DataTypeImm, StringImm, GlobalVar))

    def _has_known_symbols(self, leaf: Expr) -> bool:
        return all(id(size) in self._sizes for size in _symbols_of(leaf))


def _operands_of(value: Expr) -> Iterator[Expr]:
    """Yields the operands of a value that is not a call."""
    if isinstance(value, Tuple):
        yield from value.fields
    elif isinstance(value, TupleGetItem):
        yield value.tuple_value
    else:
        yield value


def _leaves(args: Iterable[Expr]) -> Iterator[Expr]:
    for arg in args:
        if isinstance(arg, Tuple):
            yield from _leaves(arg.fields)
        else:
            yield arg


def _symbols_of(leaf: Expr) -> list[prim.Var]:
    """Returns the symbols in an operand or its struct info."""
    if isinstance(leaf, Var):
        return list(_symbols_in_info(leaf.struct_info_or_none()))
    exprs: Sequence[Any] = ()
    if isinstance(leaf, ShapeExpr):
        exprs = leaf.values
    elif isinstance(leaf, PrimValue):
        exprs = (leaf.value,)
    return list(_symbols_in_exprs(exprs))


def _symbols_in_exprs(exprs: Iterable[Any]) -> Iterator[prim.Var]:
    for expr in exprs:
        yield from (t for t in prim.post_order(expr) if isinstance(t, prim.Var))


def _symbols_in_info(info: StructInfo | None) -> Iterator[prim.Var]:
    if isinstance(info, TupleStructInfo):
        for field_info in info.fields:
            yield from _symbols_in_info(field_info)
    exprs: Sequence[Any] = ()
    if isinstance(info, TensorStructInfo) and isinstance(info.shape, ShapeExpr):
        exprs = info.shape.values
    elif isinstance(info, ShapeStructInfo):
        exprs = info.values or ()
    yield from _symbols_in_exprs(exprs)


def _has_known_sizes(info: StructInfo | None) -> bool:
    if isinstance(info, TupleStructInfo):
        return all(map(_has_known_sizes, info.fields))
    if isinstance(info, TensorStructInfo):
        return isinstance(info.shape, ShapeExpr)
    if isinstance(info, ShapeStructInfo):
        return info.values is not None
    return not isinstance(info, FuncStructInfo)


def _returned_storage(body: SeqExpr) -> set[Id]:
    """Returns the storages of a function's results, which must not be reused."""
    outputs: set[Id] = set()
    storage: set[Id] = set()

    def sequence(expr: Expr) -> None:
        assert isinstance(expr, SeqExpr)
        outputs.update(var.vid for var in free_vars(expr.body))
        for block in reversed(expr.blocks):
            for binding in reversed(block.bindings):
                visit(binding.var, binding.value)

    def visit(var: Var, value: Expr) -> None:
        if isinstance(value, If):
            sequence(value.true_branch)
            sequence(value.false_branch)
        elif var.vid in outputs and isinstance(value, Call):
            if value.op == _TENSOR_IN_STORAGE:
                storage.update(v.vid for v in value.args if isinstance(v, Var))
            elif value.op in _VIEWS:
                outputs.update(v.vid for v in value.args if isinstance(v, Var))
        elif var.vid in outputs:
            outputs.update(
                v.vid for v in _leaves(_operands_of(value)) if isinstance(v, Var)
            )

    sequence(body)
    return storage


def _find_outputs(body: SeqExpr, region_of: dict[Id, CudaGraphRegion]) -> None:
    """Records in each region which of its variables are used elsewhere."""

    def use(vars: Iterable[Var], here: CudaGraphRegion | None) -> None:
        for var in vars:
            region = region_of.get(var.vid)
            if region is not None and region is not here:
                region.outputs.setdefault(var.vid, var)

    def sequence(expr: Expr) -> None:
        assert isinstance(expr, SeqExpr)
        for block in expr.blocks:
            for binding in block.bindings:
                value = binding.value
                if isinstance(value, If):
                    use(free_vars(value.cond), None)
                    sequence(value.true_branch)
                    sequence(value.false_branch)
                else:
                    use(free_vars(value), region_of.get(binding.var.vid))
        use(free_vars(expr.body), None)

    sequence(body)
