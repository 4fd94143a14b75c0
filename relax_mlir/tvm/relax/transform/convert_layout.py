"""``ConvertLayout``: converts tensors of dataflow blocks to requested layouts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from relax_mlir.ir.module import IRModule
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
from relax_mlir.objects.expr.struct_info import (
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from relax_mlir.objects.expr_functor import PyExprMutator
from relax_mlir.rewrite.patterns import Pass
from relax_mlir.tvm.relax.transform.function_rewriting import mutate_functions
from relax_mlir.tvm.relax.transform.layout_rules import (
    DesiredLayouts,
    NestedAxisOrder,
    infer_layout,
    original_order,
)

__all__ = ["ConvertLayout", "LayoutCallback"]

LayoutCallback = Callable[[Call], DesiredLayouts]


@dataclass(frozen=True)
class ConvertLayout(Pass):
    """Converts tensors of dataflow blocks to the layouts that operators request.

    Layouts propagate to the consumers of such an operator as far as possible. Outputs of a
    block keep their original layout.

    Args:
        desired_layouts: per operator, such as ``relax.nn.conv2d``, the layouts of data,
            weight and, if it differs from that of the data, of the output.
        layout_cb: returns such layouts for one call, in place of ``desired_layouts``.
    """

    desired_layouts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    layout_cb: LayoutCallback | None = field(default=None, metadata={"text": False})

    def run(self, module: IRModule) -> None:
        desired = {
            name: list(layouts) for name, layouts in self.desired_layouts.items()
        }
        mutate_functions(module, _Converter(module, desired, self.layout_cb))


class _Converter(PyExprMutator):
    """Rewrites operators in other layouts, and inserts transpositions between them.

    Attributes:
        orders: axis orders of variables that differ from the original one.
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
        self.orders: dict[Id, NestedAxisOrder] = {}

    def visit_dataflow_block_(self, block: DataflowBlock) -> BindingBlock:
        """Visits a dataflow block; outside of it all layouts are original."""
        self.orders = {}
        return super().visit_dataflow_block_(block)

    def visit_var_(self, op: Var) -> Expr:
        """Returns a variable in its original layout."""
        if not self.builder_.current_block_is_dataflow():
            return super().visit_var_(op)
        return self._in_order(op, original_order(op.struct_info_or_none()))

    visit_dataflow_var_ = visit_var_

    def visit_var_binding_(self, binding: VarBinding) -> None:
        """Converts a binding according to its value."""
        value = binding.value
        if not self.builder_.current_block_is_dataflow():
            super().visit_var_binding_(binding)
        elif isinstance(value, Call):
            self._bind_call(binding.var, value)
        elif isinstance(value, Tuple):
            orders = [self._kept_order(field, binding.var) for field in value.fields]
            self._bind(binding.var, self._in_order(value, orders), orders)
        elif isinstance(value, TupleGetItem):
            orders = self._kept_order(value.tuple_value, binding.var)
            tuple_value = self._in_order(value.tuple_value, orders)
            field_order = orders[value.index] if isinstance(orders, list) else None
            self._bind(binding.var, TupleGetItem(tuple_value, value.index), field_order)
        else:
            super().visit_var_binding_(binding)

    def visit_match_cast_(self, binding: MatchCast) -> None:
        """Converts a cast: value and target type get the value's layout."""
        order = self._order(binding.value)
        old = original_order(binding.value.struct_info_or_none())
        is_local = isinstance(binding.var, DataflowVar)
        if not is_local or order == old or order is None:
            super().visit_match_cast_(binding)
            return
        info = _permute_info(binding.struct_info, order)
        value = self._in_order(binding.value, order)
        self.set_var_remap(binding.var.vid, self.builder_.match_cast(value, info))
        self.orders[binding.var.vid] = order

    def _bind(self, var: Var, value: Expr, order: NestedAxisOrder) -> None:
        value = self.builder_.normalize(value)
        new_var = self.with_struct_info(self.visit_var_def(var), value.struct_info)
        if new_var is not var:
            self.set_var_remap(var.vid, new_var)
        self.orders[var.vid] = order
        self.builder_.emit_normalized(VarBinding(new_var, value))

    def _bind_call(self, var: Var, call: Call) -> None:
        desired = self.desired if self.callback is None else self.callback(call)
        conversion = infer_layout(call, [self._order(a) for a in call.args], desired)
        is_tensor = isinstance(var.struct_info, (TensorStructInfo, TupleStructInfo))
        is_local = isinstance(var, DataflowVar)
        if conversion is None or not (is_tensor or is_local):
            args = [
                self._in_order(a, original_order(a.struct_info_or_none()))
                for a in call.args
            ]
            new_call = _with_args(call, args, {})
            self._bind(var, new_call, original_order(var.struct_info))
            return
        args = list(call.args)
        for index, order in enumerate(conversion.inputs):
            args[index] = self._in_order(args[index], order)
        for index, arg in conversion.args.items():
            args[index] = arg
        new_call = _with_args(call, args, conversion.attrs)
        if is_local or conversion.output == original_order(var.struct_info):
            self._bind(var, new_call, conversion.output)
            return
        converted = self.builder_.emit(new_call)
        self.orders[converted.vid] = conversion.output
        old = original_order(var.struct_info)
        self._bind(var, self._in_order(converted, old), old)

    def _kept_order(self, expr: Expr, var: Var) -> NestedAxisOrder:
        """Returns the axis order of a tuple field or of a projected element."""
        if isinstance(var, DataflowVar):
            return self._order(expr)
        return original_order(expr.struct_info_or_none())

    def _order(self, expr: Expr) -> NestedAxisOrder:
        """Returns the current axis order of an expression."""
        if isinstance(expr, Var):
            original = original_order(expr.struct_info_or_none())
            return self.orders.get(expr.vid, original)
        if isinstance(expr, Tuple):
            return [self._order(field) for field in expr.fields]
        if isinstance(expr, Constant):
            return tuple(range(expr.array.ndim))
        return None

    def _in_order(self, expr: Expr, to: NestedAxisOrder) -> Expr:
        """Returns an expression of original variables, transposed to an axis order."""
        now = self._order(expr)
        if isinstance(expr, Tuple):
            fields = [
                self._in_order(f, field_order)
                for f, field_order in zip(
                    expr.fields, to or [None] * len(expr), strict=True
                )
            ]
            same = all(a is b for a, b in zip(fields, expr.fields, strict=True))
            return expr if same else Tuple(fields)
        value = self._var_remap.get(expr.vid, expr) if isinstance(expr, Var) else expr
        return _transpose(value, now, to)


def _with_args(call: Call, args: Sequence[Expr], attrs: Mapping[str, Any]) -> Call:
    same = all(a is b for a, b in zip(args, call.args, strict=True))
    if same and not attrs:
        return call
    merged = Attrs({**call.attrs, **attrs}) if attrs else call.attrs
    return Call(call.op, args, merged, call.sinfo_args, call.span)


def _transpose(value: Expr, now: NestedAxisOrder, to: NestedAxisOrder) -> Expr:
    """Returns a value transposed from one axis order to another."""
    if now == to or now is None or to is None:
        return value
    if isinstance(now, list):
        items = [TupleGetItem(value, i) for i in range(len(now))]
        return Tuple(
            [_transpose(i, a, b) for i, a, b in zip(items, now, to, strict=True)]
        )
    axes = tuple(now.index(axis) for axis in to)
    return Call(Op.of("relax.permute_dims"), [value], {"axes": axes})


def _permute_info(info: StructInfo, order: NestedAxisOrder) -> StructInfo:
    """Returns the struct info of a transposed value."""
    if isinstance(info, TupleStructInfo):
        pairs = zip(info.fields, order, strict=True)
        return TupleStructInfo(
            [_permute_info(f, field_order) for f, field_order in pairs]
        )
    shape = getattr(getattr(info, "shape", None), "values", None)
    if not isinstance(info, TensorStructInfo) or shape is None:
        return info
    return TensorStructInfo([shape[axis] for axis in order], info.dtype, info.vdevice)
