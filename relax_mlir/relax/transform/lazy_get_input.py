"""``LazyGetInput``: parameters come from a callback where they are used first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from relax_mlir.module import IRModule
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
from relax_mlir.objects.function import Function
from relax_mlir.objects.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
)
from relax_mlir.relax.analysis import used_vars
from relax_mlir.relax.analysis.unused import remove_all_unused
from relax_mlir.relax.expr_functor import PyExprMutator
from relax_mlir.relax.transform.function_rewriting import num_input, rewrite_functions
from relax_mlir.rewriting import Pass

__all__ = ["LazyGetInput"]


@dataclass(frozen=True)
class LazyGetInput(Pass):
    """Let public functions get parameters by a callback, where they first need them.

    The parameters after the first ``num_input`` (an attribute of the function) become one
    function, ``fget_param``, which takes the number and the name of a parameter.
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
    getting = _Getting(fget, weights, _read_by_several(function.body))
    body = getting.visit_with_new_scope(function.body)
    attrs = {**function.attrs, "num_input": count + 1}
    params = [*inputs, fget]
    made = Function(params, body, None, is_pure=function.is_pure, attrs=attrs)
    return remove_all_unused(made)


def _read_by_several(body: SeqExpr) -> set[Id]:
    """The variables that more than one of its blocks, and what it gives, read."""
    whole = (SeqExpr([block], Tuple([])) for block in body.blocks)
    places = [{var.vid for var in used_vars(part)} for part in (*whole, body.body)]
    return {vid for vid in set().union(*places) if sum(vid in p for p in places) > 1}


class _Getting(PyExprMutator):
    """Gets a parameter where it is used first.

    Args:
        fget: the callback.
        weights: what it gives.
        shared: those that are also seen outside of the block that uses them first.
    """

    def __init__(self, fget: Var, weights: Sequence[Var], shared: set[Id]) -> None:
        super().__init__()
        self.fget, self.shared = fget, shared
        self.numbers = {weight.vid: number for number, weight in enumerate(weights)}
        self.known: dict[Id, Var] = {}

    def visit_var_(self, op: Var) -> Expr:
        """A parameter is what the callback gives, once it was called."""
        number = self.numbers.get(op.vid)
        if number is None:
            return super().visit_var_(op)
        if op.vid not in self.known:
            name = op.name_hint
            call = Call(self.fget, [PrimValue(number), StringImm(name)])
            untyped = self.builder_.emit(call, f"{name}_untyped")
            self.known[op.vid] = self._cast(untyped, op)
        return self.known[op.vid]

    def _cast(self, untyped: Var, weight: Var) -> Var:
        name, info = weight.name_hint, weight.struct_info
        if weight.vid not in self.shared:
            return self.builder_.match_cast(untyped, info, name)
        var = Var(self.builder_.get_unique_name(name), info)
        self.builder_.emit_normalized(MatchCast(var, untyped, info))
        return var

    def visit_if_(self, op: If) -> Expr:
        """What a branch gets is not seen outside of it."""
        condition = self.visit_expr(op.cond)
        outer, branches = self.known, []
        for branch in (op.true_branch, op.false_branch):
            self.known = dict(outer)
            branches.append(self.visit_with_new_scope(branch))
        self.known = outer
        return If(condition, *branches, span=op.span)
