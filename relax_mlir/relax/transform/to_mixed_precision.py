"""``ToMixedPrecision``: products in half precision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from relax_mlir.module import IRModule
from relax_mlir.objects.expr import (
    Binding,
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    Expr,
    Id,
    Op,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from relax_mlir.objects.function import Function
from relax_mlir.objects.struct_info import TensorStructInfo, TupleStructInfo
from relax_mlir.relax.expr_functor import PyExprMutator, PyExprVisitor
from relax_mlir.relax.transform.precision_policy import (
    ALWAYS,
    FOLLOW,
    Precisions,
    is_nested_tensor,
    policy_of,
    precisions,
    wider,
    with_result_type,
)
from relax_mlir.rewriting import Pass

__all__ = ["ToMixedPrecision"]

_LARGEST_HALF = 65504
_FLOATS = ("float16", "float32")


@dataclass(frozen=True)
class ToMixedPrecision(Pass):
    """Compute matrix products, convolutions and attention in half precision.

    In dataflow blocks, their operands become float16. An operator that is as exact in half
    precision follows if all its operands are float16 or constants that fit; the others get
    float32 as before. What a block gives has its old type.

    Args:
        out_dtype: the type in which the products are summed up.
        fp16_input_names: parameters that become float16.
    """

    out_dtype: str = "float32"
    fp16_input_names: Sequence[str] | None = None

    def run(self, module: IRModule) -> None:
        changed = IRModule(module.functions, attrs=module.attrs)
        for var, function in module.functions.items():
            if isinstance(function, Function):
                found = _Demands(function.params)
                found.visit_expr(function)
                rewriter = _Rewriter(module, found.demands, self)
                changed[var.name_hint] = rewriter.visit_expr(function)
        module.become(changed)


class _Demands(PyExprVisitor):
    """Finds, last binding first, in which types variables are used.

    Attributes:
        demands: float16 for tensors that nothing but products use.
    """

    def __init__(self, params: Sequence[Var]) -> None:
        self.demands: dict[Id, Precisions] = {}
        self._params = {param.vid for param in params}
        self._in_dataflow = False

    def _demand(self, expr: Expr, wanted: Precisions) -> None:
        if isinstance(expr, Var):
            known = self.demands.get(expr.vid, wanted)
            self.demands[expr.vid] = wider(known, wanted)
        elif isinstance(expr, Tuple) and isinstance(wanted, tuple):
            for field, part in zip(expr.fields, wanted, strict=True):
                self._demand(field, part)

    def visit_var_(self, op: Var) -> None:
        """A use that asks for the type that a variable has."""
        is_local = self._in_dataflow or op.vid not in self._params
        if is_local and is_nested_tensor(op.struct_info_or_none()):
            self._demand(op, precisions(op.struct_info, "float32"))

    visit_dataflow_var_ = visit_var_

    def visit_seq_expr_(self, op: SeqExpr) -> None:
        """The value first, then the blocks from the last one on."""
        self._in_dataflow = True
        self.visit_expr(op.body)
        for block in reversed(op.blocks):
            self._in_dataflow = isinstance(block, DataflowBlock)
            for binding in reversed(block.bindings):
                self.visit_binding(binding)

    def visit_var_binding_(self, binding: VarBinding) -> None:
        """What a binding asks of the variables that it uses."""
        value = binding.value
        if not self._in_dataflow:
            super().visit_var_binding_(binding)
        elif isinstance(value, Call) and policy_of(value) is not None:
            wanted = "float16" if policy_of(value) == ALWAYS else "float32"
            for arg in value.args:
                if is_nested_tensor(arg.struct_info_or_none()):
                    self._demand(arg, precisions(arg.struct_info, wanted))
        elif isinstance(value, (Tuple, TupleGetItem)):
            self._demand_parts(binding.var, value)
        else:
            super().visit_var_binding_(binding)

    def _demand_parts(self, var: Var, value: Tuple | TupleGetItem) -> None:
        wanted = self.demands.get(var.vid, precisions(var.struct_info_or_none(), ""))
        if isinstance(value, Tuple):
            self._demand(value, wanted)
            return
        whole = value.tuple_value.struct_info_or_none()
        if isinstance(whole, TupleStructInfo):
            parts = [precisions(field, "") for field in whole.fields]
            parts[value.index] = wanted
            self._demand(value.tuple_value, tuple(parts))


class _Rewriter(PyExprMutator):
    """Writes the casts, and the operators on half precision."""

    def __init__(
        self, mod: IRModule, demands: dict[Id, Precisions], made_for: ToMixedPrecision
    ) -> None:
        super().__init__(mod)
        self.demands = demands
        self.out_dtype = made_for.out_dtype
        self.half_inputs = frozenset(made_for.fp16_input_names or ())
        self.params: Sequence[Var] = ()

    def visit_function_(self, op: Function) -> Expr:
        """A function, with its parameters at hand."""
        outer, self.params = self.params, op.params
        made = super().visit_function_(_with_inputs(op, self.half_inputs))
        self.params = outer
        return made

    def visit_var_def_(self, var: Var) -> Var:
        """A parameter in half precision, if its name says so."""
        info = var.struct_info_or_none()
        is_input = any(var is param for param in self.params)
        if is_input and var.name_hint in self.half_inputs:
            assert isinstance(info, TensorStructInfo)
            half = info.replace(dtype="float16")
            return Var(var.vid, half)
        return super().visit_var_def_(var)

    def visit_dataflow_block_(self, block: DataflowBlock) -> BindingBlock:
        """A dataflow block; casts are its own."""
        before = dict(self._var_remap)
        self.builder_._begin_dataflow_block()
        for param in self.params:
            self._cast_if_half_will_do(param)
        for binding in block.bindings:
            self.visit_binding(binding)
        made = self.builder_._end_block()
        for binding in block.bindings:
            var = binding.var
            if not isinstance(var, DataflowVar):
                before[var.vid] = Var(var.vid, var.struct_info)
        self._var_remap = before
        return made

    def visit_var_(self, op: Var) -> Expr:
        """A variable in the type that it had."""
        now = self._var_remap.get(op.vid, op)
        if not self.builder_.current_block_is_dataflow():
            return now
        return self._cast(now, precisions(op.struct_info_or_none()))

    visit_dataflow_var_ = visit_var_

    def visit_binding(self, binding: Binding) -> None:
        """A binding, and the variable in half precision if that will do."""
        super().visit_binding(binding)
        if self.builder_.current_block_is_dataflow():
            self._cast_if_half_will_do(binding.var)

    def visit_var_binding_(self, binding: VarBinding) -> None:
        """A binding by what its value is."""
        value = binding.value
        if not self.builder_.current_block_is_dataflow():
            super().visit_var_binding_(binding)
        elif isinstance(value, Call) and policy_of(value) is not None:
            self._bind(binding.var, self._call(value, binding.var))
        elif isinstance(value, Tuple):
            self._bind(binding.var, self._as_seen(self._now(value), binding.var))
        elif isinstance(value, TupleGetItem):
            item = TupleGetItem(self._now(value.tuple_value), value.index)
            self._bind(binding.var, self._as_seen(item, binding.var))
        else:
            super().visit_var_binding_(binding)

    def _bind(self, var: Var, value: Expr) -> None:
        value = self.builder_.normalize(value)
        made = self.with_struct_info(self.visit_var_def(var), value.struct_info)
        if made is not var:
            self.set_var_remap(var.vid, made)
        self.builder_.emit_normalized(VarBinding(made, value))

    def _call(self, call: Call, var: Var) -> Expr:
        args = [self._now(arg) for arg in call.args]
        if call.op == Op.of("relax.wrap_param"):
            return args[0]
        policy = policy_of(call)
        if policy not in (ALWAYS, FOLLOW):
            return self._call_as_before(call, args)
        is_half = policy == ALWAYS or _fits_half(args)
        dtype = "float16" if is_half else "float32"
        args = [self._cast_all(arg, dtype) for arg in args]
        attrs = call.attrs
        if policy == ALWAYS:
            attrs = with_result_type(call, self.out_dtype)
        made = self.builder_.normalize(
            Call(call.op, args, attrs, call.sinfo_args, call.span)
        )
        if policy == ALWAYS and isinstance(var, DataflowVar):
            return self._cast_all(made, dtype)
        return self._as_seen(made, var)

    def _call_as_before(self, call: Call, args: Sequence[Expr]) -> Expr:
        """A call that gets its arguments in the types that they had."""
        same = all(a is b for a, b in zip(args, call.args, strict=True))
        if same:
            return call
        cast = [
            self._cast(now, precisions(old.struct_info_or_none()))
            for now, old in zip(args, call.args, strict=True)
        ]
        made = Call(call.op, cast, call.attrs, call.sinfo_args, call.span)
        return made.with_struct_info(call.struct_info)

    def _as_seen(self, value: Expr, var: Var) -> Expr:
        """A value in its old type, if the variable is seen outside of the block."""
        if isinstance(var, DataflowVar):
            return value
        return self._cast(value, precisions(var.struct_info_or_none()))

    def _now(self, expr: Expr) -> Expr:
        """An expression of the variables that stand for the old ones."""
        if isinstance(expr, Var):
            return self._var_remap.get(expr.vid, expr)
        if isinstance(expr, Tuple):
            fields = [self._now(field) for field in expr.fields]
            same = all(a is b for a, b in zip(fields, expr.fields, strict=True))
            return expr if same else Tuple(fields)
        return expr

    def _cast_all(self, expr: Expr, dtype: str) -> Expr:
        info = expr.struct_info_or_none()
        if not is_nested_tensor(info):
            return expr
        return self._cast(expr, precisions(info, dtype))

    def _cast(self, expr: Expr, to: Precisions) -> Expr:
        """An expression with its floats in other types."""
        info = expr.struct_info_or_none()
        if isinstance(info, TupleStructInfo) and isinstance(to, tuple):
            return self._cast_fields(expr, to)
        if not isinstance(info, TensorStructInfo) or not isinstance(to, str):
            return expr
        if info.dtype == to or info.dtype not in _FLOATS or to not in _FLOATS:
            return expr
        return Call(Op.of("relax.astype"), [expr], {"dtype": to})

    def _cast_fields(self, expr: Expr, to: tuple[Precisions, ...]) -> Expr:
        is_known = isinstance(expr, Tuple)
        if not is_known and precisions(expr.struct_info) == to:
            return expr
        whole = expr if isinstance(expr, (Tuple, Var)) else self.builder_.emit(expr)
        fields = [
            whole.fields[i] if isinstance(whole, Tuple) else TupleGetItem(whole, i)
            for i in range(len(to))
        ]
        cast = [self._cast(f, part) for f, part in zip(fields, to, strict=True)]
        if all(a is b for a, b in zip(cast, fields, strict=True)):
            return whole
        return Tuple(cast)

    def _cast_if_half_will_do(self, var: Var) -> None:
        """Keep a variable in half precision if nothing else is asked of it."""
        demand = self.demands.get(var.vid)
        now = self._var_remap.get(var.vid, var)
        if demand is None:
            return
        cast = self._cast(now, _narrowed(precisions(now.struct_info), demand))
        if cast is not now:
            self.set_var_remap(var.vid, self.builder_.emit(cast))


def _with_inputs(function: Function, half: frozenset[str]) -> Function:
    """The function; what becomes float16 must be a tensor.

    Raises:
        ValueError: it is not.
    """
    for param in function.params:
        info = param.struct_info_or_none()
        if param.name_hint in half and not isinstance(info, TensorStructInfo):
            raise ValueError(
                f"`ToMixedPrecision`: parameter `{param.name_hint}`: expected a tensor, "
                f"got {info}"
            )
    return function


def _narrowed(known: Precisions, demand: Precisions) -> Precisions:
    """Half precision where that is all that is asked for."""
    if isinstance(known, tuple) and isinstance(demand, tuple):
        return tuple(_narrowed(k, d) for k, d in zip(known, demand, strict=True))
    return demand if demand == "float16" else known


def _fits_half(args: Sequence[Expr]) -> bool:
    """Whether all arguments are float16, or constants that can be."""
    return all(map(_is_half, args))


def _is_half(arg: Expr) -> bool:
    info = arg.struct_info_or_none()
    if not is_nested_tensor(info):
        return True
    if isinstance(arg, Tuple):
        return _fits_half(arg.fields)
    if isinstance(arg, Constant):
        return bool((np.abs(arg.array.astype(np.float64)) <= _LARGEST_HALF).all())
    return isinstance(info, TensorStructInfo) and info.dtype == "float16"
