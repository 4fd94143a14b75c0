"""Well-formedness checker of Relax modules and functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from mlir import ir

from relax_mlir.errors import IRError, short_repr
from relax_mlir.ir import function_attributes
from relax_mlir.ir.module import IRModule
from relax_mlir.objects import prim
from relax_mlir.objects.block_builder import BlockBuilder
from relax_mlir.objects.compare.structural_equal import structural_equal
from relax_mlir.objects.expr import (
    Call,
    DataflowBlock,
    DataflowVar,
    Expr,
    GlobalVar,
    Id,
    If,
    MatchCast,
    Op,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
    is_leaf,
)
from relax_mlir.objects.expr.struct_info import FuncStructInfo, StructInfo
from relax_mlir.objects.expr_functor import PyExprVisitor
from relax_mlir.objects.free_symbols import definable_tir_vars_in_struct_info
from relax_mlir.objects.function import BaseFunc, Function
from relax_mlir.objects.operators import normal_form_of
from relax_mlir.objects.prim import PrimExpr
from relax_mlir.objects.purity import contains_impure_call, is_impure_call
from relax_mlir.objects.stmt.prim_func import PrimFunc
from relax_mlir.tvm.relax.analysis.program_calls import check_call_tir_signature

__all__ = ["check_parsed_script", "check_well_formed", "well_formed"]

_CALL_TIR_OPS = (Op.of("relax.call_tir"), Op.of("relax.call_tir_inplace"))


def well_formed(
    obj: IRModule | Function,
    check_struct_info: bool = True,
    *,
    check_ty: bool | None = None,
) -> bool:
    """Whether a module or a function is well formed.

    Args:
        obj: the module or the function.
        check_struct_info: require struct info on every expression.
        check_ty: TVM's newest name of ``check_struct_info``; if given, ill-formed IR raises,
            as in TVM.

    Raises:
        IRError: ``check_ty`` is given, and a rule is violated.
    """
    if check_ty is None:
        return check_well_formed(obj, check_struct_info)
    _check(obj, check_ty)
    return True


def check_well_formed(
    obj: IRModule | Function,
    check_struct_info: bool = True,
    *,
    check_ty: bool | None = None,
) -> bool:
    """Whether a module or a function is well formed; never raises."""
    try:
        _check(obj, check_struct_info if check_ty is None else check_ty)
    except IRError:
        return False
    return True


def check_parsed_script(obj: IRModule | Function) -> None:
    """Check a parsed script, except the arguments of ``call_tir``.

    TVM before 0.18 did not check these, and older scripts depend on it.

    Raises:
        IRError: a rule is violated.
    """
    _check(obj, True, check_call_tir=False)


def _check(
    obj: IRModule | Function,
    check_struct_info: bool,
    *,
    check_call_tir: bool = True,
) -> None:
    if isinstance(obj, IRModule):
        functions = {var.name_hint: f for var, f in obj.functions.items()}
        checker = _Checker(functions, check_struct_info, check_call_tir)
        for name, function in functions.items():
            if isinstance(function, Function):
                checker.check_function(name, function)
                checker.check_symbol(function)
        return
    checker = _Checker(None, check_struct_info, check_call_tir)
    checker.check_function(obj.name, obj)


class _Checker(PyExprVisitor):
    """Visitor that raises at the first violated rule.

    Args:
        functions: functions of the module by name; None if there is no module.
        check_struct_info: require struct info on every expression.
        check_call_tir: check the arguments of ``call_tir`` against the PrimFunc.
    """

    def __init__(
        self,
        functions: Mapping[str, Any] | None,
        check_struct_info: bool,
        check_call_tir: bool,
    ) -> None:
        self.functions = functions
        self.check_struct_info = check_struct_info
        self.check_call_tir = check_call_tir
        self.name = ""
        self._owner: dict[Id, str] = {}  # defining function, by variable
        self._symbol_owner: dict[int, str] = {}
        self._keep_alive: list[object] = []  # objects whose `id()` is stored
        self._visible: set[Id] = set()
        self._symbols: set[int] = set()
        self._in_dataflow = False

    def fail(self, message: str) -> None:
        """Raise an error about the current function."""
        raise IRError(f"function `{self.name}`: {message}")

    def check_function(self, name: str, function: Function) -> None:
        """Check one function of the module."""
        self.name = name
        self._symbols = set()
        self._visible = set()
        self.visit_expr(function)

    def check_symbol(self, function: Function) -> None:
        """Check the rules for functions of a module: symbol name, no nested function."""
        symbol = function.attrs.get("global_symbol", self.name)
        if symbol != self.name:
            self.fail(f"its `global_symbol` is `{symbol}`: expected its name")
        attributes = function.op.attributes
        if function_attributes.NESTED in attributes:
            nested = ir.StringAttr(attributes[function_attributes.NESTED]).value
            self.fail(f"expected a variable or a constant, got `{nested}`")

    @contextmanager
    def _scope(self, *, in_dataflow: bool = False) -> Iterator[None]:
        """Scope of variables and symbols: definitions end with it."""
        saved = (set(self._visible), set(self._symbols), self._in_dataflow)
        self._in_dataflow = in_dataflow
        yield
        self._visible, self._symbols, self._in_dataflow = saved

    def visit_expr(self, expr: Expr) -> None:
        has_info = isinstance(expr, (SeqExpr, GlobalVar))
        if (
            self.check_struct_info
            and not has_info
            and expr.struct_info_or_none() is None
        ):
            self.fail(f"`{expr!r}` has no struct info")
        super().visit_expr(expr)

    def visit_global_var_(self, op: GlobalVar) -> None:
        if self.functions is not None and op.name_hint not in self.functions:
            self.fail(f"`{op.name_hint}` is not a function of the module")

    def visit_var_(self, op: Var) -> None:
        if op.vid not in self._visible:
            self.fail(f"variable `{op.name_hint}` is undefined")
        self.visit_struct_info(op.struct_info_or_none())

    def visit_dataflow_var_(self, op: DataflowVar) -> None:
        if not self._in_dataflow:
            self.fail(
                f"dataflow variable `{op.name_hint}` is used outside of its dataflow block"
            )
        self.visit_var_(op)

    def visit_prim_expr(self, expr: PrimExpr) -> None:
        for node in prim.post_order(expr):
            if isinstance(node, prim.Var) and id(node) not in self._symbols:
                self.fail(f"symbolic variable `{node.name}` is undefined")

    def _define_symbols(self, info: StructInfo | None) -> None:
        if info is None or isinstance(info, FuncStructInfo):
            return
        for var in definable_tir_vars_in_struct_info(info):
            owner = self._symbol_owner.setdefault(id(var), self.name)
            self._keep_alive.append(var)
            if owner != self.name:
                self.fail(
                    f"symbolic variable `{var.name}` is defined in function `{owner}`"
                )
            self._symbols.add(id(var))

    def visit_var_def_(self, var: Var) -> None:
        owner = self._owner.setdefault(var.vid, "")
        if owner:
            self.fail(f"variable `{var.name_hint}` is redefined")
        self._owner[var.vid] = self.name
        self._visible.add(var.vid)
        self.visit_struct_info(var.struct_info_or_none())

    def visit_dataflow_var_def_(self, var: DataflowVar) -> None:
        if not self._in_dataflow:
            self.fail(
                f"dataflow variable `{var.name_hint}` is defined outside of any dataflow "
                "block"
            )
        self.visit_var_def_(var)

    def visit_function_(self, op: Function) -> None:
        is_forced = bool(op.attrs.get("relax.force_pure", False))
        if is_forced and not op.is_pure:
            self.fail("`relax.force_pure` is set: expected a pure function")
        with self._scope():
            for param in op.params:
                self._define_symbols(param.struct_info_or_none())
            for param in op.params:
                self._check_param(param)
            if op.is_pure and not is_forced and contains_impure_call(op):
                self.fail("it has an impure call: expected `pure=False`")
            self.visit_expr(op.body)
            if self.check_struct_info:
                self.visit_struct_info(op.ret_struct_info)

    def _check_param(self, param: Var) -> None:
        if isinstance(param, DataflowVar):
            self.fail(f"parameter `{param.name_hint}` is a dataflow variable")
        if param.vid in self._owner:
            self.fail(f"parameter `{param.name_hint}` is redefined")
        self.visit_var_def_(param)

    def visit_call_(self, op: Call) -> None:
        self._check_leaves("argument of a call", op.args)
        if isinstance(op.op, BaseFunc) and not isinstance(op.op, Function):
            self.fail("a PrimFunc is called directly: expected `R.call_tir`")
        if self._in_dataflow and is_impure_call(op):
            self.fail(f"dataflow block: `{op!r}` is impure")
        if op.op not in _CALL_TIR_OPS:
            self._check_normal_form(op)
        elif self.check_call_tir:
            self._check_normal_form(op)
            self._check_call_tir(op)
        super().visit_call_(op)

    def _check_normal_form(self, op: Call) -> None:
        normal_form = normal_form_of(op.op)
        if normal_form is None:
            return
        normal = normal_form(BlockBuilder(), op)
        if not structural_equal(normal, op, map_free_vars=True):
            self.fail(f"`{op!r}` is not in normal form: expected `{normal!r}`")

    def _check_call_tir(self, op: Call) -> None:
        if self.functions is None:
            return
        callee = op.args[0]
        prim_func = self.functions.get(getattr(callee, "name_hint", ""))
        if isinstance(prim_func, PrimFunc):
            try:
                check_call_tir_signature(op, prim_func)
            except ValueError as error:
                self.fail(f"call of `{prim_func.name}`: {error}")

    def visit_tuple_(self, op: Tuple) -> None:
        self._check_leaves("field of a tuple", op.fields)
        super().visit_tuple_(op)

    def visit_tuple_getitem_(self, op: TupleGetItem) -> None:
        self._check_leaves("tuple", [op.tuple_value])
        super().visit_tuple_getitem_(op)

    def _check_leaves(self, role: str, exprs: Sequence[Expr]) -> None:
        for expr in exprs:
            if not is_leaf(expr):
                self.fail(
                    f"{role}: expected a variable or a constant, got `{short_repr(expr)}`"
                )

    def visit_if_(self, op: If) -> None:
        if self._in_dataflow:
            self.fail("dataflow block: it contains an `If`")
        self._check_leaves("condition", [op.cond])
        self.visit_expr(op.cond)
        for branch in (op.true_branch, op.false_branch):
            with self._scope():
                self.visit_expr(branch)

    def visit_seq_expr_(self, op: SeqExpr) -> None:
        self._check_leaves("value of a function or a branch", [op.body])
        for block in op.blocks:
            self.visit_binding_block(block)
        self.visit_expr(op.body)

    def visit_var_binding_(self, binding: VarBinding) -> None:
        if isinstance(binding.value, SeqExpr):
            self.fail(f"variable `{binding.var.name_hint}` is bound to a sequence")
        if isinstance(binding.value, Function):
            # A local function may be recursive: its variable is defined first.
            self._check_inner(binding.value, binding.var)
            return
        self.visit_expr(binding.value)
        self.visit_var_def(binding.var)

    def _check_inner(self, function: Function, var: Var) -> None:
        self.visit_var_def(var)
        self.visit_expr(function)

    def visit_match_cast_(self, binding: MatchCast) -> None:
        self._check_leaves("value of a cast", [binding.value])
        self.visit_expr(binding.value)
        self._define_symbols(binding.struct_info)
        self.visit_struct_info(binding.struct_info)
        self.visit_var_def(binding.var)

    def visit_dataflow_block_(self, block: DataflowBlock) -> None:
        outer = self._in_dataflow
        self._in_dataflow = True
        self.visit_binding_block_(block)
        self._in_dataflow = outer
        inner = [b.var.vid for b in block.bindings if isinstance(b.var, DataflowVar)]
        self._visible -= set(inner)
