"""Visitor of Relax expressions, with one method per kind of expression."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar

from relax_mlir.objects.expr import (
    Binding,
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    DataTypeImm,
    Expr,
    ExternFunc,
    GlobalVar,
    If,
    MatchCast,
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
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from relax_mlir.objects.function import Function
from relax_mlir.objects.prim import PrimExpr

__all__ = [
    "ExprFunctor",
    "PyExprVisitor",
    "method_name",
    "mutator",
    "visitor",
]

_METHODS: Mapping[type, str] = {
    Constant: "visit_constant_",
    Tuple: "visit_tuple_",
    DataflowVar: "visit_dataflow_var_",
    Var: "visit_var_",
    ShapeExpr: "visit_shape_expr_",
    ExternFunc: "visit_extern_func_",
    GlobalVar: "visit_global_var_",
    Function: "visit_function_",
    Call: "visit_call_",
    SeqExpr: "visit_seq_expr_",
    If: "visit_if_",
    Op: "visit_op_",
    TupleGetItem: "visit_tuple_getitem_",
    PrimValue: "visit_prim_value_",
    StringImm: "visit_string_imm_",
    DataTypeImm: "visit_data_type_imm_",
}


def method_name(expr: object) -> str:
    """The name of the visitor method for an expression.

    Raises:
        TypeError: the value is no Relax expression.
    """
    for kind in type(expr).__mro__:
        if kind in _METHODS:
            return _METHODS[kind]
    raise TypeError(f"expected a Relax expression, got {type(expr).__name__}")


_Class = TypeVar("_Class", bound=type)


def _decorated(cls: _Class) -> _Class:
    if hasattr(cls, "_is_decorated"):
        raise TypeError(
            f"Inheritance from a decorated object `{cls.__name__}` is not allowed. "
            f"Please inherit from `{cls.__name__}._cls`."
        )
    body = {"_cls": cls, "_is_decorated": True, "__module__": cls.__module__}
    decorated: Any = type(cls.__name__, (cls,), {**body, "__doc__": cls.__doc__})
    return decorated


def visitor(cls: _Class) -> _Class:
    """Class decorator for subclasses of :class:`PyExprVisitor`.

    Subclasses inherit from the ``_cls`` of a decorated class, not from the class itself.

    Raises:
        TypeError: the class inherits from a decorated class.
    """
    return _decorated(cls)


def mutator(cls: _Class) -> _Class:
    """Class decorator for subclasses of :class:`PyExprMutator`; see :func:`visitor`."""
    return _decorated(cls)


class ExprFunctor:
    """Dispatches on the kind of an expression, binding, block or variable definition."""

    def visit_expr(self, expr: Expr) -> Any:  # Any: the visitor methods' result
        """Dispatches on an expression.

        Raises:
            TypeError: the value is no Relax expression.
        """
        return getattr(self, method_name(expr))(expr)

    def visit_constant_(self, op: Constant) -> Any:
        """Visits a constant; by default through ``visit_generic_const_``."""
        return self.visit_generic_const_(op)

    def visit_binding(self, binding: Binding) -> Any:
        """Dispatches on a binding.

        Raises:
            TypeError: the value is not a binding.
        """
        if isinstance(binding, MatchCast):
            return self.visit_match_cast_(binding)
        if isinstance(binding, VarBinding):
            return self.visit_var_binding_(binding)
        raise TypeError(f"expected a binding, got {type(binding).__name__}")

    def visit_binding_block(self, block: BindingBlock) -> Any:
        """Dispatches on a binding block.

        Raises:
            TypeError: the value is not a binding block.
        """
        if isinstance(block, DataflowBlock):
            return self.visit_dataflow_block_(block)
        if not isinstance(block, BindingBlock):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"expected a binding block, got {type(block).__name__}")
        return self.visit_binding_block_(block)

    def visit_var_def(self, var: Var) -> Any:
        """Dispatches on a variable at its definition.

        Raises:
            TypeError: the value is not a variable.
        """
        if isinstance(var, DataflowVar):
            return self.visit_dataflow_var_def_(var)
        if not isinstance(var, Var):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"expected a variable, got {type(var).__name__}")
        return self.visit_var_def_(var)

    def _abstract(self, part: Any) -> Any:
        raise NotImplementedError(
            f"`{type(self).__name__}` has no method for `{type(part).__name__}`"
        )

    visit_generic_const_: Callable[..., Any] = _abstract
    visit_tuple_: Callable[..., Any] = _abstract
    visit_var_: Callable[..., Any] = _abstract
    visit_dataflow_var_: Callable[..., Any] = _abstract
    visit_shape_expr_: Callable[..., Any] = _abstract
    visit_extern_func_: Callable[..., Any] = _abstract
    visit_global_var_: Callable[..., Any] = _abstract
    visit_function_: Callable[..., Any] = _abstract
    visit_call_: Callable[..., Any] = _abstract
    visit_seq_expr_: Callable[..., Any] = _abstract
    visit_if_: Callable[..., Any] = _abstract
    visit_op_: Callable[..., Any] = _abstract
    visit_tuple_getitem_: Callable[..., Any] = _abstract
    visit_prim_value_: Callable[..., Any] = _abstract
    visit_string_imm_: Callable[..., Any] = _abstract
    visit_data_type_imm_: Callable[..., Any] = _abstract
    visit_var_binding_: Callable[..., Any] = _abstract
    visit_match_cast_: Callable[..., Any] = _abstract
    visit_binding_block_: Callable[..., Any] = _abstract
    visit_dataflow_block_: Callable[..., Any] = _abstract
    visit_var_def_: Callable[..., Any] = _abstract
    visit_dataflow_var_def_: Callable[..., Any] = _abstract


class PyExprVisitor(ExprFunctor):
    """Visits all parts of an expression, including the sizes in struct info.

    An overridden method replaces the default visit, which is available through ``super()``.
    A shared part is visited at each of its uses.
    """

    _cls: ClassVar[type]  # the undecorated class

    def visit_span(self, span: Any) -> None:
        """Visits the source location of an expression."""

    def visit_prim_expr(self, expr: PrimExpr) -> None:
        """Visits a size or a scalar."""

    def visit_struct_info(self, info: StructInfo | None) -> None:
        """Visits the sizes in struct info; those of function types are bound there."""
        if isinstance(info, TensorStructInfo) and info.shape is not None:
            self.visit_expr(info.shape)
        elif isinstance(info, ShapeStructInfo):
            for size in info.values or ():
                self.visit_prim_expr(size)
        elif isinstance(info, PrimStructInfo) and info.value is not None:
            self.visit_prim_expr(info.value)
        elif isinstance(info, TupleStructInfo):
            for field in info.fields:
                self.visit_struct_info(field)

    def _leaf(self, op: Expr) -> None:
        self.visit_span(op.span)

    visit_generic_const_ = _leaf
    visit_extern_func_ = _leaf
    visit_global_var_ = _leaf
    visit_op_ = _leaf
    visit_string_imm_ = _leaf
    visit_data_type_imm_ = _leaf

    def visit_tuple_(self, op: Tuple) -> None:
        """Visits a tuple."""
        self.visit_span(op.span)
        for field in op.fields:
            self.visit_expr(field)
        self.visit_struct_info(op.struct_info_or_none())

    def visit_var_(self, op: Var) -> None:
        """Visits a variable at its use."""
        self.visit_span(op.span)
        self.visit_struct_info(op.struct_info_or_none())

    def visit_dataflow_var_(self, op: DataflowVar) -> None:
        """Visits a dataflow variable at its use."""
        PyExprVisitor.visit_var_(self, op)

    def visit_shape_expr_(self, op: ShapeExpr) -> None:
        """Visits the sizes of a shape, as a value or in struct info."""
        for size in op.values:
            self.visit_prim_expr(size)
        self.visit_span(op.span)
        self.visit_struct_info(op.struct_info_or_none())

    def visit_function_(self, op: Function) -> None:
        """Visits a function."""
        self.visit_span(op.span)
        for param in op.params:
            self.visit_var_def(param)
        self.visit_expr(op.body)

    def visit_call_(self, op: Call) -> None:
        """Visits a call."""
        self.visit_span(op.span)
        self.visit_expr(op.op)
        for info in op.sinfo_args:
            self.visit_struct_info(info)
        for arg in op.args:
            self.visit_expr(arg)
        self.visit_struct_info(op.struct_info_or_none())

    def visit_seq_expr_(self, op: SeqExpr) -> None:
        """Visits the blocks, then the body."""
        self.visit_span(op.span)
        for block in op.blocks:
            self.visit_binding_block(block)
        self.visit_expr(op.body)
        self.visit_struct_info(op.struct_info_or_none())

    def visit_if_(self, op: If) -> None:
        """Visits a conditional."""
        self.visit_span(op.span)
        self.visit_expr(op.cond)
        self.visit_expr(op.true_branch)
        self.visit_expr(op.false_branch)
        self.visit_struct_info(op.struct_info_or_none())

    def visit_tuple_getitem_(self, op: TupleGetItem) -> None:
        """Visits a field access of a tuple."""
        self.visit_span(op.span)
        self.visit_expr(op.tuple_value)
        self.visit_struct_info(op.struct_info_or_none())

    def visit_prim_value_(self, op: PrimValue) -> None:
        """Visits a scalar value."""
        self.visit_prim_expr(op.value)
        self.visit_struct_info(op.struct_info_or_none())
        self.visit_span(op.span)

    def visit_var_binding_(self, binding: VarBinding) -> None:
        """Visits ``var = value``."""
        self.visit_expr(binding.value)
        self.visit_var_def(binding.var)

    def visit_match_cast_(self, binding: MatchCast) -> None:
        """Visits ``var = R.match_cast(value, struct_info)``."""
        self.visit_expr(binding.value)
        self.visit_struct_info(binding.struct_info)
        self.visit_var_def(binding.var)

    def visit_binding_block_(self, block: BindingBlock) -> None:
        """Visits a binding block without dataflow."""
        for binding in block.bindings:
            self.visit_binding(binding)

    def visit_dataflow_block_(self, block: DataflowBlock) -> None:
        """Visits a dataflow block."""
        for binding in block.bindings:
            self.visit_binding(binding)

    def visit_var_def_(self, var: Var) -> None:
        """Visits a variable at its definition."""
        self.visit_span(var.span)

    def visit_dataflow_var_def_(self, var: DataflowVar) -> None:
        """Visits a dataflow variable at its definition."""
        self.visit_var_def_(var)
