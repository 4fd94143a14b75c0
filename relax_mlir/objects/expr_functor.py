"""Mutator of Relax expressions, with one method per kind of expression."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from relax_mlir.ir.module import IRModule
from relax_mlir.objects.block_builder import BlockBuilder
from relax_mlir.objects.expr import (
    BindingBlock,
    Call,
    DataflowBlock,
    DataflowVar,
    Expr,
    Id,
    If,
    MatchCast,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from relax_mlir.objects.expr.struct_info import (
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from relax_mlir.objects.function import Function
from relax_mlir.objects.prim import PrimExpr
from relax_mlir.objects.visitors import (
    ExprFunctor,
    PyExprVisitor,
    method_name,
    mutator,
    visitor,
)

__all__ = ["ExprFunctor", "PyExprMutator", "PyExprVisitor", "mutator", "visitor"]


class PyExprMutator(ExprFunctor):
    """Rewrites an expression; unchanged parts are returned as the same objects.

    Every result is normalized by ``builder_``, which a method may also use to emit
    bindings before the current one.

    Args:
        mod: module that the builder extends.
    """

    _cls: ClassVar[type]  # the undecorated class

    def __init__(self, mod: IRModule | None = None) -> None:
        self.builder_ = BlockBuilder(mod)
        self._var_remap: dict[Id, Var] = {}

    def visit_expr(self, expr: Expr) -> Any:
        """The rewritten and normalized expression."""
        return self.builder_.normalize(super().visit_expr(expr))

    def visit_expr_post_order(self, expr: Expr) -> Any:
        """Rewrites the parts by the overridden methods, then the expression by the default one."""
        default = getattr(PyExprMutator, method_name(expr))
        return self.builder_.normalize(default(self, expr))

    def visit_with_new_scope(
        self, expr: Expr, params: Sequence[Var] | None = None
    ) -> Any:
        """The rewritten body of a function, in a scope of its own."""
        self.builder_.begin_scope(params)
        rewritten = self.visit_expr(expr)
        self.builder_.end_scope()
        return rewritten

    def lookup_binding(self, var: Expr) -> Expr | None:
        """The value that an emitted binding gives a variable, or None."""
        return self.builder_.lookup_binding(var)  # pyright: ignore[reportArgumentType]

    def set_var_remap(self, vid: Id, var: Var) -> None:
        """Replaces the uses of a variable, given its identity."""
        self._var_remap[vid] = var

    def get_var_remap(self, vid: Id) -> Var:
        """The replacement of a variable.

        Raises:
            KeyError: the variable has none.
        """
        return self._var_remap[vid]

    @staticmethod
    def with_struct_info(var: Var, struct_info: StructInfo) -> Var:
        """The variable with given struct info: the same object if that does not change."""
        known = var.struct_info_or_none()
        if known is None:
            var._struct_info = struct_info
        if known is None or known == struct_info:
            return var
        return type(var)(var.vid, struct_info, span=var.span)

    with_ty = with_struct_info

    def visit_prim_expr(self, expr: PrimExpr) -> PrimExpr:
        """Rewrites a size or a scalar."""
        return expr

    def visit_struct_info(self, info: StructInfo | None) -> Any:
        """Rewrites the sizes in struct info; those of function types are bound there."""
        if isinstance(info, TensorStructInfo) and info.shape is not None:
            shape = self.visit_expr(info.shape)
            same = shape is info.shape
            return info if same else TensorStructInfo(shape, info.dtype, info.vdevice)
        if isinstance(info, ShapeStructInfo) and info.values is not None:
            values = [self.visit_prim_expr(size) for size in info.values]
            return info if _same(values, info.values) else ShapeStructInfo(values)
        if isinstance(info, PrimStructInfo) and info.value is not None:
            value = self.visit_prim_expr(info.value)
            return info if value is info.value else PrimStructInfo(value)
        if isinstance(info, TupleStructInfo):
            fields = [self.visit_struct_info(field) for field in info.fields]
            return info if _same(fields, info.fields) else TupleStructInfo(fields)
        return info

    def _keeps_struct_info(self, expr: Expr) -> bool:
        info = expr.struct_info_or_none()
        return self.visit_struct_info(info) is info

    def _leaf(self, op: Expr) -> Expr:
        return op

    visit_generic_const_ = _leaf
    visit_extern_func_ = _leaf
    visit_global_var_ = _leaf
    visit_op_ = _leaf
    visit_string_imm_ = _leaf
    visit_data_type_imm_ = _leaf

    def visit_tuple_(self, op: Tuple) -> Expr:
        """Rewrites the fields of a tuple."""
        fields = [self.visit_expr(field) for field in op.fields]
        return op if _same(fields, op.fields) else Tuple(fields, op.span)

    def visit_var_(self, op: Var) -> Expr:
        """Replaces a variable at its use."""
        return self._var_remap.get(op.vid, op)

    def visit_dataflow_var_(self, op: DataflowVar) -> Expr:
        """Replaces a dataflow variable at its use."""
        return PyExprMutator.visit_var_(self, op)

    def visit_shape_expr_(self, op: ShapeExpr) -> Expr:
        """Rewrites the sizes of a shape."""
        values = [self.visit_prim_expr(size) for size in op.values]
        return op if _same(values, op.values) else ShapeExpr(values, op.span)

    def visit_function_(self, op: Function) -> Expr:
        """Rewrites the parameters of a function, then its body."""
        params, body = op.params, op.body
        new_params = [self.visit_var_def(param) for param in params]
        for old, new in zip(params, new_params, strict=True):
            if new is not old:
                self.set_var_remap(old.vid, new)
        new_body = self.visit_with_new_scope(body, new_params)
        if new_body is body and _same(new_params, params):
            return op
        inferred, known = new_body.struct_info_or_none(), op.ret_struct_info
        ret = known if inferred is not None and inferred.is_base_of(known) else None
        return Function(new_params, new_body, ret, op.is_pure, op.attrs, op.span)

    def visit_call_(self, op: Call) -> Expr:
        """Rewrites callee, struct-info arguments and arguments of a call."""
        callee = self.visit_expr(op.op)
        infos = [self.visit_struct_info(info) for info in op.sinfo_args]
        args = [self.visit_expr(arg) for arg in op.args]
        same = callee is op.op and _same(infos, op.sinfo_args) and _same(args, op.args)
        if same and self._keeps_struct_info(op):
            return op
        return Call(callee, args, op.attrs, infos, op.span)

    def visit_seq_expr_(self, op: SeqExpr) -> Expr:
        """Rewrites the blocks, then the body, whose new bindings form a last block."""
        new_blocks = [self.visit_binding_block(block) for block in op.blocks]
        self.builder_._begin_binding_block()
        body = self.visit_expr(op.body)
        new_blocks.append(self.builder_._end_block())
        blocks = [block for block in new_blocks if block.bindings]
        same = body is op.body and _same(blocks, op.blocks)
        return op if same else SeqExpr(blocks, body, op.span)

    def visit_if_(self, op: If) -> Expr:
        """Rewrites a conditional; each branch has a scope of its own."""
        condition = self.visit_expr(op.cond)
        branches = (
            self.visit_with_new_scope(op.true_branch),
            self.visit_with_new_scope(op.false_branch),
        )
        same = condition is op.cond and _same(
            branches, (op.true_branch, op.false_branch)
        )
        return op if same else If(condition, *branches, span=op.span)

    def visit_tuple_getitem_(self, op: TupleGetItem) -> Expr:
        """Rewrites the tuple of a field access."""
        whole = self.visit_expr(op.tuple_value)
        same = whole is op.tuple_value
        return op if same else TupleGetItem(whole, op.index, op.span)

    def visit_prim_value_(self, op: PrimValue) -> Expr:
        """Rewrites a scalar value."""
        value = self.visit_prim_expr(op.value)
        return op if value is op.value else PrimValue(value, op.span)

    def visit_var_binding_(self, binding: VarBinding) -> None:
        """Rewrites ``var = value`` and emits it."""
        value = self.visit_expr(binding.value)
        var = self.visit_var_def(binding.var)
        if var is binding.var and value is binding.value:
            self.builder_.emit_normalized(binding)
            return
        var = self.with_struct_info(var, value.struct_info)
        self._replace(binding.var, var)
        self.builder_.emit_normalized(VarBinding(var, value, binding.span))

    def visit_match_cast_(self, binding: MatchCast) -> None:
        """Rewrites ``var = R.match_cast(value, struct_info)`` and emits it."""
        value = self.visit_expr(binding.value)
        info = self.visit_struct_info(binding.struct_info)
        var = self.visit_var_def(binding.var)
        if _same((var, value, info), (binding.var, binding.value, binding.struct_info)):
            self.builder_.emit_normalized(binding)
            return
        value = self.builder_.normalize_argument(value)
        var = self.with_struct_info(var, info)
        self._replace(binding.var, var)
        self.builder_.emit_normalized(MatchCast(var, value, info, binding.span))

    def _replace(self, old: Var, new: Var) -> None:
        self.set_var_remap(old.vid, new)
        self.set_var_remap(new.vid, new)

    def visit_binding_block_(self, block: BindingBlock) -> BindingBlock:
        """Rewrites a binding block without dataflow."""
        self.builder_._begin_binding_block()
        return self._rewritten(block)

    def visit_dataflow_block_(self, block: DataflowBlock) -> BindingBlock:
        """Rewrites a dataflow block."""
        self.builder_._begin_dataflow_block()
        return self._rewritten(block)

    def _rewritten(self, block: BindingBlock) -> BindingBlock:
        for binding in block.bindings:
            self.visit_binding(binding)
        result = self.builder_._end_block()
        same = type(result) is type(block) and _same(result.bindings, block.bindings)
        return block if same else result

    def visit_var_def_(self, var: Var) -> Var:
        """Replaces a variable at its definition."""
        info = var.struct_info_or_none()
        new = self.visit_struct_info(info)
        return var if new is info else type(var)(var.vid, new, span=var.span)

    def visit_dataflow_var_def_(self, var: DataflowVar) -> Var:
        """Replaces a dataflow variable at its definition.

        By default the result of ``visit_var_def_``, as a dataflow variable.
        """
        result = self.visit_var_def_(var)
        if isinstance(result, DataflowVar):
            return result
        return DataflowVar(result.vid, result.struct_info_or_none(), span=result.span)


def _same(new: Sequence[object], old: Sequence[object]) -> bool:
    """Whether two lists have identical elements."""
    return len(new) == len(old) and all(a is b for a, b in zip(new, old, strict=True))
