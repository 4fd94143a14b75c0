"""Whether a module or a function keeps the rules of Relax."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from mlir import ir

from relax_mlir.errors import IRError, shown
from relax_mlir.module import IRModule
from relax_mlir.objects import names, prim
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
from relax_mlir.objects.function import BaseFunc, Function
from relax_mlir.objects.operators import normal_form_of
from relax_mlir.objects.prim import PrimExpr
from relax_mlir.objects.prim_func import PrimFunc
from relax_mlir.objects.struct_info import FuncStructInfo, StructInfo
from relax_mlir.objects.structure import structural_equal
from relax_mlir.relax.analysis.program_calls import check_program_call
from relax_mlir.relax.analysis.purity import contains_impure_call, is_impure_call
from relax_mlir.relax.analysis.symbols import definable_tir_vars_in_struct_info
from relax_mlir.relax.block_builder import BlockBuilder
from relax_mlir.relax.expr_functor import PyExprVisitor

__all__ = ["check_script", "check_well_formed", "well_formed"]

_PROGRAM_CALLS = (Op.of("relax.call_tir"), Op.of("relax.call_tir_inplace"))


def well_formed(
    obj: IRModule | Function,
    check_struct_info: bool = True,
    *,
    check_ty: bool | None = None,
) -> bool:
    """Whether a module or a function is well formed.

    Args:
        obj: the module or the function.
        check_struct_info: whether something must be known of every expression.
        check_ty: TVM's newest spelling of ``check_struct_info``; given this way, what is
            not well formed raises, as there.

    Raises:
        IRError: ``check_ty`` was given, and a rule is broken.
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


def check_script(obj: IRModule | Function) -> None:
    """Check what a script says, but for what it passes to tensor programs.

    TVM's scripts were free in that before 0.18.

    Raises:
        IRError: a rule is broken.
    """
    _check(obj, True, check_program_calls=False)


def _check(
    obj: IRModule | Function,
    check_struct_info: bool,
    *,
    check_program_calls: bool = True,
) -> None:
    if isinstance(obj, IRModule):
        functions = {var.name_hint: f for var, f in obj.functions.items()}
        checker = _Checker(functions, check_struct_info, check_program_calls)
        for name, function in functions.items():
            if isinstance(function, Function):
                checker.check_function(name, function)
                checker.check_symbol(function)
        return
    checker = _Checker(None, check_struct_info, check_program_calls)
    checker.check_function(obj.name, obj)


class _Checker(PyExprVisitor):
    """Raises at the first rule that is broken.

    Args:
        functions: those of the module by name; None if there is no module.
        check_struct_info: whether something must be known of every expression.
        check_program_calls: whether calls of tensor programs have to fit them.
    """

    def __init__(
        self,
        functions: Mapping[str, Any] | None,
        check_struct_info: bool,
        check_program_calls: bool,
    ) -> None:
        self.functions = functions
        self.check_struct_info = check_struct_info
        self.check_program_calls = check_program_calls
        self.name = ""
        self._owner: dict[Id, str] = {}  # by which function a variable is defined
        self._symbol_owner: dict[int, str] = {}
        self._kept: list[object] = []  # an id is of use only while its object lives
        self._visible: set[Id] = set()
        self._symbols: set[int] = set()
        self._in_dataflow = False

    def fail(self, message: str) -> None:
        """Raise: a rule is broken here."""
        raise IRError(f"function `{self.name}`: {message}")

    def check_function(self, name: str, function: Function) -> None:
        """Check one function of the module."""
        self.name = name
        self._symbols = set()
        self._visible = set()
        self.visit_expr(function)

    def check_symbol(self, function: Function) -> None:
        """Check what only a function of a module can break."""
        symbol = function.attrs.get("global_symbol", self.name)
        if symbol != self.name:
            self.fail(f"its `global_symbol` is `{symbol}`: expected its name")
        attributes = function.op.attributes
        if names.NESTED in attributes:
            nested = ir.StringAttr(attributes[names.NESTED]).value
            self.fail(f"expected a variable or a constant, got `{nested}`")

    @contextmanager
    def _scope(self, *, in_dataflow: bool = False) -> Iterator[None]:
        """What is defined inside is not seen after it."""
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
            self.fail(f"nothing is known of `{expr!r}`: expected struct info")
        super().visit_expr(expr)

    def visit_global_var_(self, op: GlobalVar) -> None:
        if self.functions is not None and op.name_hint not in self.functions:
            self.fail(f"`{op.name_hint}` is no function of the module")

    def visit_var_(self, op: Var) -> None:
        if op.vid not in self._visible:
            self.fail(f"variable `{op.name_hint}` is used where nothing defines it")
        self.visit_struct_info(op.struct_info_or_none())

    def visit_dataflow_var_(self, op: DataflowVar) -> None:
        if not self._in_dataflow:
            self.fail(
                f"dataflow variable `{op.name_hint}` is used outside of its dataflow block"
            )
        self.visit_var_(op)

    def visit_prim_expr(self, expr: PrimExpr) -> None:
        for term in prim.post_order(expr):
            if isinstance(term, prim.Var) and id(term) not in self._symbols:
                self.fail(f"size `{term.name}` is used where nothing defines it")

    def _define_symbols(self, info: StructInfo | None) -> None:
        if info is None or isinstance(info, FuncStructInfo):
            return
        for var in definable_tir_vars_in_struct_info(info):
            owner = self._symbol_owner.setdefault(id(var), self.name)
            self._kept.append(var)
            if owner != self.name:
                self.fail(f"size `{var.name}` is one of function `{owner}`")
            self._symbols.add(id(var))

    def visit_var_def_(self, var: Var) -> None:
        owner = self._owner.setdefault(var.vid, "")
        if owner:
            self.fail(f"variable `{var.name_hint}` is defined a second time")
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
            self.fail("`relax.force_pure` is set: expected a function that is pure")
        with self._scope():
            for param in op.params:
                self._define_symbols(param.struct_info_or_none())
            for param in op.params:
                self._check_param(param)
            if op.is_pure and not is_forced and contains_impure_call(op):
                self.fail("it calls what is impure: expected `pure=False`")
            self.visit_expr(op.body)
            if self.check_struct_info:
                self.visit_struct_info(op.ret_struct_info)

    def _check_param(self, param: Var) -> None:
        if isinstance(param, DataflowVar):
            self.fail(f"parameter `{param.name_hint}` is a dataflow variable")
        if param.vid in self._owner:
            self.fail(f"parameter `{param.name_hint}` is defined a second time")
        self.visit_var_def_(param)

    def visit_call_(self, op: Call) -> None:
        self._check_leaves("argument of a call", op.args)
        if isinstance(op.op, BaseFunc) and not isinstance(op.op, Function):
            self.fail("a tensor program is called directly: expected `R.call_tir`")
        if self._in_dataflow and is_impure_call(op):
            self.fail(f"dataflow block: `{op!r}` is impure")
        if op.op not in _PROGRAM_CALLS:
            self._check_normal_form(op)
        elif self.check_program_calls:
            self._check_normal_form(op)
            self._check_program_call(op)
        super().visit_call_(op)

    def _check_normal_form(self, op: Call) -> None:
        normal_form = normal_form_of(op.op)
        if normal_form is None:
            return
        normal = normal_form(BlockBuilder(), op)
        if not structural_equal(normal, op, map_free_vars=True):
            self.fail(f"`{op!r}` is not in normal form: expected `{normal!r}`")

    def _check_program_call(self, op: Call) -> None:
        if self.functions is None:
            return
        callee = op.args[0]
        program = self.functions.get(getattr(callee, "name_hint", ""))
        if isinstance(program, PrimFunc):
            try:
                check_program_call(op, program)
            except ValueError as error:
                self.fail(f"call of `{program.name}`: {error}")

    def visit_tuple_(self, op: Tuple) -> None:
        self._check_leaves("field of a tuple", op.fields)
        super().visit_tuple_(op)

    def visit_tuple_getitem_(self, op: TupleGetItem) -> None:
        self._check_leaves("tuple", [op.tuple_value])
        super().visit_tuple_getitem_(op)

    def _check_leaves(self, what: str, parts: Sequence[Expr]) -> None:
        for part in parts:
            if not is_leaf(part):
                self.fail(
                    f"{what}: expected a variable or a constant, got `{shown(part)}`"
                )

    def visit_if_(self, op: If) -> None:
        if self._in_dataflow:
            self.fail("dataflow block: it holds an `If`")
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
            # It may call itself.
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
