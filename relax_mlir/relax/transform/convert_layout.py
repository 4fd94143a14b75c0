"""``ConvertLayout``: tensors with their axes in the order that convolutions want."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from relax_mlir.module import IRModule
from relax_mlir.objects.expr import (
    Attrs,
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    Expr,
    Id,
    MatchCast,
    Op,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from relax_mlir.objects.struct_info import (
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from relax_mlir.relax.expr_functor import PyExprMutator
from relax_mlir.relax.transform.function_rewriting import mutate_functions
from relax_mlir.relax.transform.layout_rules import (
    Desired,
    Orders,
    inferred,
    initial,
)
from relax_mlir.rewriting import Pass

__all__ = ["ConvertLayout", "LayoutCallback"]

LayoutCallback = Callable[[Call], Desired]


@dataclass(frozen=True)
class ConvertLayout(Pass):
    """Reorder the axes of tensors in dataflow blocks as operators want them.

    What follows such an operator works in its order as far as it can; what a block gives
    has the order that it had.

    Args:
        desired_layouts: per operator, such as ``relax.nn.conv2d``, the layouts of data,
            weight and, if it is another than that of the data, of the result.
        layout_cb: gives such layouts for one call, in place of ``desired_layouts``.
    """

    desired_layouts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    layout_cb: LayoutCallback | None = field(default=None, metadata={"text": False})

    def run(self, module: IRModule) -> None:
        wanted = {name: list(found) for name, found in self.desired_layouts.items()}
        mutate_functions(module, _Converter(module, wanted, self.layout_cb))


class _Converter(PyExprMutator):
    """Writes operators in other orders, and transposes between them.

    Attributes:
        orders: of variables that are not in the order in which they were written.
    """

    def __init__(
        self,
        mod: IRModule,
        desired: Mapping[str, Sequence[str]],
        callback: LayoutCallback | None,
    ) -> None:
        super().__init__(mod)
        self.desired = desired
        self.callback = callback
        self.orders: dict[Id, Orders] = {}

    def visit_dataflow_block_(self, block: DataflowBlock) -> BindingBlock:
        """A dataflow block; outside of it all tensors are as they were."""
        self.orders = {}
        return super().visit_dataflow_block_(block)

    def visit_var_(self, op: Var) -> Expr:
        """A variable in the order that it had."""
        if not self.builder_.current_block_is_dataflow():
            return super().visit_var_(op)
        return self._reordered(op, initial(op.struct_info_or_none()))

    visit_dataflow_var_ = visit_var_

    def visit_var_binding_(self, binding: VarBinding) -> None:
        """A binding by what its value is."""
        value = binding.value
        if not self.builder_.current_block_is_dataflow():
            super().visit_var_binding_(binding)
        elif isinstance(value, Call):
            self._bind_call(binding.var, value)
        elif isinstance(value, Tuple):
            wanted = [self._kept_order(field, binding.var) for field in value.fields]
            self._bind(binding.var, self._reordered(value, wanted), wanted)
        elif isinstance(value, TupleGetItem):
            wanted = self._kept_order(value.tuple_value, binding.var)
            whole = self._reordered(value.tuple_value, wanted)
            part = wanted[value.index] if isinstance(wanted, list) else None
            self._bind(binding.var, TupleGetItem(whole, value.index), part)
        else:
            super().visit_var_binding_(binding)

    def visit_match_cast_(self, binding: MatchCast) -> None:
        """A cast of a value in its order, to the type in that order."""
        order = self._order(binding.value)
        old = initial(binding.value.struct_info_or_none())
        is_inner = isinstance(binding.var, DataflowVar)
        if not is_inner or order == old or order is None:
            super().visit_match_cast_(binding)
            return
        info = _permuted(binding.struct_info, order)
        value = self._reordered(binding.value, order)
        self.set_var_remap(binding.var.vid, self.builder_.match_cast(value, info))
        self.orders[binding.var.vid] = order

    def _bind(self, var: Var, value: Expr, order: Orders) -> None:
        value = self.builder_.normalize(value)
        made = self.with_struct_info(self.visit_var_def(var), value.struct_info)
        if made is not var:
            self.set_var_remap(var.vid, made)
        self.orders[var.vid] = order
        self.builder_.emit_normalized(VarBinding(made, value))

    def _bind_call(self, var: Var, call: Call) -> None:
        desired = self.desired if self.callback is None else self.callback(call)
        found = inferred(call, [self._order(a) for a in call.args], desired)
        is_tensor = isinstance(var.struct_info, (TensorStructInfo, TupleStructInfo))
        is_inner = isinstance(var, DataflowVar)
        if found is None or not (is_tensor or is_inner):
            args = [
                self._reordered(a, initial(a.struct_info_or_none())) for a in call.args
            ]
            made = _with_args(call, args, {})
            self._bind(var, made, initial(var.struct_info))
            return
        args = list(call.args)
        for number, order in enumerate(found.inputs):
            args[number] = self._reordered(args[number], order)
        for number, arg in found.args.items():
            args[number] = arg
        made = _with_args(call, args, found.attrs)
        if is_inner or found.output == initial(var.struct_info):
            self._bind(var, made, found.output)
            return
        inner = self.builder_.emit(made)
        self.orders[inner.vid] = found.output
        old = initial(var.struct_info)
        self._bind(var, self._reordered(inner, old), old)

    def _kept_order(self, expr: Expr, var: Var) -> Orders:
        """The order that a part has in a tuple, or an element that is taken out."""
        if isinstance(var, DataflowVar):
            return self._order(expr)
        return initial(expr.struct_info_or_none())

    def _order(self, expr: Expr) -> Orders:
        """The order that an expression is in now."""
        if isinstance(expr, Var):
            known = initial(expr.struct_info_or_none())
            return self.orders.get(expr.vid, known)
        if isinstance(expr, Tuple):
            return [self._order(field) for field in expr.fields]
        if isinstance(expr, Constant):
            return tuple(range(expr.array.ndim))
        return None

    def _reordered(self, expr: Expr, to: Orders) -> Expr:
        """An expression of the old variables, in another order."""
        now = self._order(expr)
        if isinstance(expr, Tuple):
            fields = [
                self._reordered(f, part)
                for f, part in zip(expr.fields, to or [None] * len(expr), strict=True)
            ]
            same = all(a is b for a, b in zip(fields, expr.fields, strict=True))
            return expr if same else Tuple(fields)
        value = self._var_remap.get(expr.vid, expr) if isinstance(expr, Var) else expr
        return _transposed(value, now, to)


def _with_args(call: Call, args: Sequence[Expr], attrs: Mapping[str, Any]) -> Call:
    same = all(a is b for a, b in zip(args, call.args, strict=True))
    if same and not attrs:
        return call
    merged = Attrs({**call.attrs, **attrs}) if attrs else call.attrs
    return Call(call.op, args, merged, call.sinfo_args, call.span)


def _transposed(value: Expr, now: Orders, to: Orders) -> Expr:
    """A value with its axes in another order."""
    if now == to or now is None or to is None:
        return value
    if isinstance(now, list):
        items = [TupleGetItem(value, i) for i in range(len(now))]
        return Tuple(
            [_transposed(i, a, b) for i, a, b in zip(items, now, to, strict=True)]
        )
    axes = tuple(now.index(axis) for axis in to)
    return Call(Op.of("relax.permute_dims"), [value], {"axes": axes})


def _permuted(info: StructInfo, order: Orders) -> StructInfo:
    """What is known of a value with its axes in another order."""
    if isinstance(info, TupleStructInfo):
        pairs = zip(info.fields, order, strict=True)
        return TupleStructInfo([_permuted(f, part) for f, part in pairs])
    shape = getattr(getattr(info, "shape", None), "values", None)
    if not isinstance(info, TensorStructInfo) or shape is None:
        return info
    return TensorStructInfo([shape[axis] for axis in order], info.dtype, info.vdevice)
