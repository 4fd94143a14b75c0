"""``AttachAttrLayoutFreeBuffers``: programs learn which tensors may be laid out anew."""

from __future__ import annotations

from dataclasses import dataclass

from relax_mlir.module import IRModule
from relax_mlir.objects.expr import Call, Constant, Expr, Id, Var
from relax_mlir.objects.function import Function
from relax_mlir.passes.relax.dead_code_elimination import DeadCodeElimination
from relax_mlir.relax.expr_functor import PyExprMutator
from relax_mlir.relax.transform.function_rewriting import (
    mutate_functions,
    num_input,
    program_call,
)
from relax_mlir.rewriting import Pass

__all__ = ["AttachAttrLayoutFreeBuffers"]


@dataclass(frozen=True)
class AttachAttrLayoutFreeBuffers(Pass):
    """Write into programs which of their tensors are weights: `layout_free_buffers`.

    Weights are constants, and the parameters after the first ``num_input`` (an attribute of
    the function). A program that is called in several ways becomes several.
    """

    def run(self, module: IRModule) -> None:
        rewriter = _Attaching(module)
        mutate_functions(module, rewriter, rewriter.rewritten)
        DeadCodeElimination().run(module)


class _Attaching(PyExprMutator):
    """Lets calls name programs that know which of their tensors are weights."""

    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.mod = mod
        self.weights: set[Id] = set()

    def rewritten(self, function: Function) -> Function:
        """A function of the module."""
        count = num_input(function)
        weights = [] if count is None else function.params[count:]
        self.weights = {weight.vid for weight in weights}
        return self.visit_expr(function)

    def _is_weight(self, expr: Expr) -> bool:
        is_param = isinstance(expr, Var) and expr.vid in self.weights
        return is_param or isinstance(expr, Constant)

    def visit_call_(self, op: Call) -> Expr:
        """A call of a program, as that of the program with the attribute."""
        made = super().visit_call_(op)
        found = program_call(made)
        if found is None:
            return made
        call, callee, tensors = found
        name = callee.name_hint
        free = [n for n, arg in enumerate(tensors.fields) if self._is_weight(arg)]
        program = self.mod[name].with_attr("layout_free_buffers", free)
        var = self.builder_.add_func(program, name)
        return Call(call.op, [var, *call.args[1:]], call.attrs, call.sinfo_args)
