"""``LazyGetInput``: fetches parameters from a callback at their first use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from relax_mlir.ir.module import IRModule
from relax_mlir.objects.expr import (
    Call,
    Expr,
    Id,
    If,
    MatchCast,
    PrimValue,
    SeqExpr,
    StringImm,
    Tuple,
    Var,
)
from relax_mlir.objects.expr.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
)
from relax_mlir.objects.expr_functor import PyExprMutator
from relax_mlir.objects.function import Function
from relax_mlir.rewrite.patterns import Pass
from relax_mlir.tvm.relax.analysis import used_vars
from relax_mlir.tvm.relax.analysis.unused import remove_all_unused
from relax_mlir.tvm.relax.transform.function_rewriting import (
    num_input,
    rewrite_functions,
)

__all__ = ["LazyGetInput"]


@dataclass(frozen=True)
class LazyGetInput(Pass):
    """Makes public functions fetch parameters from a callback at their first use.

    The parameters after the first ``num_input`` (an attribute of the function) become one
    callback, ``fget_param``, of the index and the name of a parameter.
    """

    def run(self, module: IRModule) -> None:
        rewrite_functions(module, _with_lazy_inputs)


def _with_lazy_inputs(function: Function) -> Function:
    if "global_symbol" not in function.attrs:
        return function
    count = num_input(function) or 0
    inputs, weights = function.params[:count], function.params[count:]
    callback = FuncStructInfo(
        [PrimStructInfo("int64"), ObjectStructInfo()], ObjectStructInfo()
    )
    fget = Var("fget_param", callback)
    fetcher = _InputFetcher(fget, weights, _shared_vars(function.body))
    body = fetcher.visit_with_new_scope(function.body)
    attrs = {**function.attrs, "num_input": count + 1}
    params = [*inputs, fget]
    lazy = Function(params, body, None, is_pure=function.is_pure, attrs=attrs)
    return remove_all_unused(lazy)


def _shared_vars(body: SeqExpr) -> set[Id]:
    """Returns the variables that several blocks, or the result, use."""
    blocks = (SeqExpr([block], Tuple([])) for block in body.blocks)
    uses = [{var.vid for var in used_vars(expr)} for expr in (*blocks, body.body)]
    return {vid for vid in set().union(*uses) if sum(vid in u for u in uses) > 1}


class _InputFetcher(PyExprMutator):
    """Fetches each parameter before its first use.

    Args:
        fget: the callback.
        weights: the parameters that it returns.
        shared: those that are also used outside of the block of their first use.
    """

    def __init__(self, fget: Var, weights: Sequence[Var], shared: set[Id]) -> None:
        super().__init__()
        self.fget, self.shared = fget, shared
        self.param_indices = {weight.vid: index for index, weight in enumerate(weights)}
        self.fetched: dict[Id, Var] = {}

    def visit_var_(self, op: Var) -> Expr:
        """Replaces a parameter by the value fetched at its first use."""
        index = self.param_indices.get(op.vid)
        if index is None:
            return super().visit_var_(op)
        if op.vid not in self.fetched:
            name = op.name_hint
            call = Call(self.fget, [PrimValue(index), StringImm(name)])
            untyped = self.builder_.emit(call, f"{name}_untyped")
            self.fetched[op.vid] = self._cast(untyped, op)
        return self.fetched[op.vid]

    def _cast(self, untyped: Var, weight: Var) -> Var:
        name, info = weight.name_hint, weight.struct_info
        if weight.vid not in self.shared:
            return self.builder_.match_cast(untyped, info, name)
        var = Var(self.builder_.get_unique_name(name), info)
        self.builder_.emit_normalized(MatchCast(var, untyped, info))
        return var

    def visit_if_(self, op: If) -> Expr:
        """Visits branches; values fetched in one are not visible outside."""
        condition = self.visit_expr(op.cond)
        outer, branches = self.fetched, []
        for branch in (op.true_branch, op.false_branch):
            self.fetched = dict(outer)
            branches.append(self.visit_with_new_scope(branch))
        self.fetched = outer
        return If(condition, *branches, span=op.span)
