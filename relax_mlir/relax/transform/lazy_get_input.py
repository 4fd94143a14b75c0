"""``LazyGetInput``: parameters come from a callback where they are used first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from relax_mlir.module import IRModule
from relax_mlir.objects.expr import Call, Expr, Id, If, PrimValue, StringImm, Var
from relax_mlir.objects.function import Function
from relax_mlir.objects.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
)
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
    body = _Getting(fget, weights).visit_with_new_scope(function.body)
    attrs = {**function.attrs, "num_input": count + 1}
    params = [*inputs, fget]
    made = Function(params, body, None, is_pure=function.is_pure, attrs=attrs)
    return remove_all_unused(made)


class _Getting(PyExprMutator):
    """Gets a parameter where it is used first."""

    def __init__(self, fget: Var, weights: Sequence[Var]) -> None:
        super().__init__()
        self.fget = fget
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
            cast = self.builder_.match_cast(untyped, op.struct_info, name)
            self.known[op.vid] = cast
        return self.known[op.vid]

    def visit_if_(self, op: If) -> Expr:
        """What a branch gets is not seen outside of it."""
        condition = self.visit_expr(op.cond)
        outer, branches = self.known, []
        for branch in (op.true_branch, op.false_branch):
            self.known = dict(outer)
            branches.append(self.visit_with_new_scope(branch))
        self.known = outer
        return If(condition, *branches, span=op.span)
