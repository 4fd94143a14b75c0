"""``LazySetOutput``: passes results to a callback as soon as they are computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from relax_mlir.ir.module import IRModule
from relax_mlir.objects.expr import (
    Binding,
    Call,
    Expr,
    Id,
    PrimValue,
    SeqExpr,
    Tuple,
    Var,
)
from relax_mlir.objects.expr.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    TupleStructInfo,
)
from relax_mlir.objects.expr_functor import PyExprMutator
from relax_mlir.objects.function import Function
from relax_mlir.rewrite.patterns import Pass
from relax_mlir.tvm.relax.transform.function_rewriting import (
    num_input,
    rewrite_functions,
)

__all__ = ["LazySetOutput"]


@dataclass(frozen=True)
class LazySetOutput(Pass):
    """Makes public functions pass results to a callback as soon as they are computed.

    The parameter ``fset_output`` takes the index and the value of each result; the function
    returns nothing. It follows the first ``num_input`` parameters, or else all.
    """

    def run(self, module: IRModule) -> None:
        rewrite_functions(module, _with_lazy_outputs)


def _with_lazy_outputs(function: Function) -> Function:
    if "global_symbol" not in function.attrs:
        return function
    count = num_input(function)
    nothing = TupleStructInfo([])
    fset = Var(
        "fset_output",
        FuncStructInfo(
            [PrimStructInfo("int64"), ObjectStructInfo()], nothing, purity=False
        ),
    )
    body = function.body
    body = _OutputSetter(fset, body, function.params).visit_with_new_scope(body)
    params = list(function.params)
    params.insert(len(params) if count is None else count, fset)
    changed = {} if count is None else {"num_input": count + 1}
    attrs = {**function.attrs, **changed}
    return Function(params, body, None, is_pure=False, attrs=attrs)


class _OutputSetter(PyExprMutator):
    """Calls the callback for each result once it is computed."""

    def __init__(self, fset: Var, body: SeqExpr, params: Sequence[Var]) -> None:
        super().__init__()
        self.fset = fset
        self.body = body
        self.params = params
        result = body.body
        results = result.fields if isinstance(result, Tuple) else (result,)
        self.inline: list[tuple[int, Expr]] = []
        self.result_indices: dict[Id, list[int]] = {}
        for index, value in enumerate(results):
            if isinstance(value, Var):
                self.result_indices.setdefault(value.vid, []).append(index)
            else:
                self.inline.append((index, value))

    def visit_seq_expr_(self, op: SeqExpr) -> Expr:
        """Visits the body: parameters first, then bindings, then inline results."""
        if op is not self.body:
            return super().visit_seq_expr_(op)
        self.builder_._begin_binding_block()
        for param in self.params:
            self._set(param)
        blocks = [self.builder_._end_block()]
        blocks += [self.visit_binding_block(block) for block in op.blocks]
        self.builder_._begin_binding_block()
        for index, value in self.inline:
            self._emit(index, value)
        blocks.append(self.builder_._end_block())
        return SeqExpr([block for block in blocks if block.bindings], Tuple([]))

    def visit_binding(self, binding: Binding) -> None:
        """Visits a binding; calls the callback if it defines a result."""
        super().visit_binding(binding)
        self._set(binding.var)

    def _set(self, var: Var) -> None:
        for index in self.result_indices.get(var.vid, ()):
            self._emit(index, self.visit_expr(var))

    def _emit(self, index: int, value: Expr) -> None:
        self.builder_.emit(Call(self.fset, [PrimValue(index), value]), "_void")
