"""``LazySetOutput``: results go to a callback as soon as they are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from relax_mlir.module import IRModule
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
from relax_mlir.objects.function import Function
from relax_mlir.objects.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    TupleStructInfo,
)
from relax_mlir.relax.expr_functor import PyExprMutator
from relax_mlir.relax.transform.function_rewriting import num_input, rewrite_functions
from relax_mlir.rewriting import Pass

__all__ = ["LazySetOutput"]


@dataclass(frozen=True)
class LazySetOutput(Pass):
    """Let public functions give their results by a callback, as soon as they have them.

    A parameter ``fset_output`` takes the number and the value of each result; the function
    gives nothing. It stands behind the first ``num_input`` parameters, or else last.
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
    body = _Setting(fset, body, function.params).visit_with_new_scope(body)
    params = list(function.params)
    params.insert(len(params) if count is None else count, fset)
    changed = {} if count is None else {"num_input": count + 1}
    attrs = {**function.attrs, **changed}
    return Function(params, body, None, is_pure=False, attrs=attrs)


class _Setting(PyExprMutator):
    """Gives each result to the callback once it is known."""

    def __init__(self, fset: Var, body: SeqExpr, params: Sequence[Var]) -> None:
        super().__init__()
        self.fset = fset
        self.body = body
        self.params = params
        result = body.body
        results = result.fields if isinstance(result, Tuple) else (result,)
        self.inline: list[tuple[int, Expr]] = []
        self.numbers: dict[Id, list[int]] = {}
        for number, value in enumerate(results):
            if isinstance(value, Var):
                self.numbers.setdefault(value.vid, []).append(number)
            else:
                self.inline.append((number, value))

    def visit_seq_expr_(self, op: SeqExpr) -> Expr:
        """The body: parameters first, then bindings, then what is no variable."""
        if op is not self.body:
            return super().visit_seq_expr_(op)
        self.builder_._begin_binding_block()
        for param in self.params:
            self._set(param)
        blocks = [self.builder_._end_block()]
        blocks += [self.visit_binding_block(block) for block in op.blocks]
        self.builder_._begin_binding_block()
        for number, value in self.inline:
            self._emit(number, value)
        blocks.append(self.builder_._end_block())
        return SeqExpr([block for block in blocks if block.bindings], Tuple([]))

    def visit_binding(self, binding: Binding) -> None:
        """A binding, and the callback if it binds a result."""
        super().visit_binding(binding)
        self._set(binding.var)

    def _set(self, var: Var) -> None:
        for number in self.numbers.get(var.vid, ()):
            self._emit(number, self.visit_expr(var))

    def _emit(self, number: int, value: Expr) -> None:
        self.builder_.emit(Call(self.fset, [PrimValue(number), value]), "_void")
