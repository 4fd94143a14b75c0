"""Which bindings of a function can be captured in a CUDA graph, and which memory ahead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from relax_mlir.module import IRModule
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
from relax_mlir.objects.function import Function
from relax_mlir.objects.prim_func import PrimFunc
from relax_mlir.objects.struct_info import (
    FuncStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from relax_mlir.relax.analysis.symbols import definable_tir_vars_in_struct_info
from relax_mlir.relax.analysis.variables import free_vars
from relax_mlir.relax.transform.function_rewriting import num_input

__all__ = ["Plan", "Region"]

_HINTS = "relax.rewrite_cuda_graph.capture_symbolic_vars"
_STORAGE = Op.of("relax.memory.alloc_storage")
_TENSOR_IN_STORAGE = Op.of("relax.memory.alloc_tensor")
_NEW_TENSOR = Op.of("relax.builtin.alloc_tensor")
_VIEWS = tuple(
    Op.of(f"relax.{name}")
    for name in ("reshape", "memory.view", "memory.ensure_zero_offset")
)
# Operators that start no kernel.
_HOST_FAMILIES = ("relax.memory", "relax.builtin")
_HOST = ("relax.reshape", "relax.null_value", "relax.call_builtin_with_ctx")


@dataclass(eq=False)
class Region:
    """Bindings that become a function of their own.

    Attributes:
        is_alloc: whether it allocates memory; others start kernels.
        bindings: what is computed there.
        inputs: the variables from elsewhere that are used there, by identity.
        sizes: the variables of sizes that are used there.
        outputs: the variables of it that are used elsewhere, by identity.
    """

    is_alloc: bool
    bindings: list[VarBinding] = field(default_factory=list)
    inputs: dict[Id, Var] = field(default_factory=dict)
    sizes: list[prim.Var] = field(default_factory=list)
    outputs: dict[Id, Var] = field(default_factory=dict)


class Plan:
    """The regions of one function.

    What is static is computed by memory at fixed addresses alone: allocated here, or held
    by the parameters after the first ``num_input``. Kernels on static values that follow
    one another in a block are a region.

    Attributes:
        storage: the region that allocates memory, without bindings if none is.
        captured: the regions that start kernels, in order.
    """

    def __init__(self, module: IRModule, function: Function) -> None:
        self.module = module
        self.storage = Region(is_alloc=True)
        self.captured: list[Region] = []
        self._static: set[Id] = set()
        self._sizes: set[int] = set()  # variables of sizes, by their ids
        self._region_of: dict[Id, Region] = {}
        self._open: Region | None = None
        self._returned = _returned_storage(function.body)
        self._params(function)
        self._sequence(function.body)
        _find_outputs(function.body, self._region_of)
        if not self.storage.outputs:
            self.storage = Region(is_alloc=True)

    def regions(self) -> list[Region]:
        """All regions that are not empty."""
        return [r for r in (self.storage, *self.captured) if r.bindings]

    def _params(self, function: Function) -> None:
        count = num_input(function)
        hints = {str(name) for name in function.attrs.get(_HINTS, ())}
        for number, param in enumerate(function.params):
            info = param.struct_info_or_none()
            known = [] if info is None else definable_tir_vars_in_struct_info(info)
            is_fixed = count is not None and number >= count
            if is_fixed:
                self._static.add(param.vid)
            self._sizes.update(id(v) for v in known if is_fixed or v.name in hints)

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
            self._pass_on(binding, list(_parts(value)))

    def _call(self, binding: VarBinding, call: Call) -> None:
        if call.op == _STORAGE:
            if self._is_fixed_storage(binding.var, call):
                self._add(binding, self.storage)
            return
        if call.op == _NEW_TENSOR:
            return
        if self._open is None and self._is_kernel(call) and self._all_static(call.args):
            self._open = Region(is_alloc=False)
            self.captured.append(self._open)
        is_host = isinstance(call.op, ExternFunc) and call.op.global_symbol.startswith(
            "vm.builtin"
        )
        is_other = isinstance(call.op, GlobalVar) and not self._is_program(call.op)
        if is_host or is_other or not isinstance(call.op, (Op, ExternFunc, GlobalVar)):
            self._open = None
        else:
            self._pass_on(binding, call.args)

    def _is_program(self, callee: GlobalVar) -> bool:
        known = callee.name_hint in self.module
        return known and isinstance(self.module[callee.name_hint], PrimFunc)

    def _is_kernel(self, call: Call) -> bool:
        """Whether a call starts a kernel."""
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

    def _pass_on(self, binding: VarBinding, args: Sequence[Expr]) -> None:
        """A binding that is static if what it is made of is."""
        if not self._all_static(args):
            self._open = None
            return
        self._add(binding, self._open)
        if self._open is None:
            return
        for expr in _leaves(args):
            if isinstance(expr, Var) and self._region_of.get(expr.vid) != self._open:
                self._open.inputs[expr.vid] = expr
            for size in _sizes_of(expr):
                if all(size is not known for known in self._open.sizes):
                    self._open.sizes.append(size)

    def _add(self, binding: VarBinding, region: Region | None) -> None:
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
            return is_known and self._knows(leaf)
        if isinstance(leaf, (PrimValue, ShapeExpr)):
            return self._knows(leaf)
        return isinstance(leaf, (Constant, DataTypeImm, StringImm, GlobalVar))

    def _knows(self, leaf: Expr) -> bool:
        return all(id(size) in self._sizes for size in _sizes_of(leaf))


def _parts(value: Expr) -> Iterator[Expr]:
    """What a value that is no call is made of."""
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


def _sizes_of(leaf: Expr) -> list[prim.Var]:
    """The variables of sizes in a leaf, or in what is known of it."""
    if isinstance(leaf, Var):
        return list(_variables(leaf.struct_info_or_none()))
    terms: Sequence[Any] = ()
    if isinstance(leaf, ShapeExpr):
        terms = leaf.values
    elif isinstance(leaf, PrimValue):
        terms = (leaf.value,)
    return list(_variables_in(terms))


def _variables_in(terms: Iterable[Any]) -> Iterator[prim.Var]:
    for term in terms:
        yield from (t for t in prim.post_order(term) if isinstance(t, prim.Var))


def _variables(info: StructInfo | None) -> Iterator[prim.Var]:
    if isinstance(info, TupleStructInfo):
        for part in info.fields:
            yield from _variables(part)
    terms: Sequence[Any] = ()
    if isinstance(info, TensorStructInfo) and isinstance(info.shape, ShapeExpr):
        terms = info.shape.values
    elif isinstance(info, ShapeStructInfo):
        terms = info.values or ()
    yield from _variables_in(terms)


def _has_known_sizes(info: StructInfo | None) -> bool:
    if isinstance(info, TupleStructInfo):
        return all(map(_has_known_sizes, info.fields))
    if isinstance(info, TensorStructInfo):
        return isinstance(info.shape, ShapeExpr)
    if isinstance(info, ShapeStructInfo):
        return info.values is not None
    return not isinstance(info, FuncStructInfo)


def _returned_storage(body: SeqExpr) -> set[Id]:
    """The memory of what a function returns, which must not be used again."""
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
            outputs.update(v.vid for v in _leaves(_parts(value)) if isinstance(v, Var))

    sequence(body)
    return storage


def _find_outputs(body: SeqExpr, region_of: dict[Id, Region]) -> None:
    """Write into regions which of their variables are used elsewhere."""

    def use(vars: Iterable[Var], here: Region | None) -> None:
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
