"""``AttachAttrLayoutFreeBuffers``: marks weight buffers whose layout may change."""

from __future__ import annotations

from dataclasses import dataclass

from relax_mlir.ir.module import IRModule
from relax_mlir.objects.expr import Call, Constant, Expr, Id, Var
from relax_mlir.objects.expr_functor import PyExprMutator
from relax_mlir.objects.function import Function
from relax_mlir.passes.relax.dead_code_elimination import DeadCodeElimination
from relax_mlir.rewrite.patterns import Pass
from relax_mlir.tvm.relax.transform.function_rewriting import (
    mutate_functions,
    num_input,
    program_call,
)

__all__ = ["AttachAttrLayoutFreeBuffers"]


@dataclass(frozen=True)
class AttachAttrLayoutFreeBuffers(Pass):
    """Lists the weight buffers of each program in its attribute `layout_free_buffers`.

    Weights are constants, and the parameters after the first ``num_input`` (an attribute of
    the function). A program with different weights at different calls is duplicated.
    """

    def run(self, module: IRModule) -> None:
        rewriter = _LayoutFreeMarker(module)
        mutate_functions(module, rewriter, rewriter.rewrite)
        DeadCodeElimination().run(module)


class _LayoutFreeMarker(PyExprMutator):
    """Redirects calls to programs that list their weight buffers."""

    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.mod = mod
        self.weights: set[Id] = set()

    def rewrite(self, function: Function) -> Function:
        """Rewrites a function of the module."""
        count = num_input(function)
        weights = [] if count is None else function.params[count:]
        self.weights = {weight.vid for weight in weights}
        return self.visit_expr(function)

    def _is_weight(self, expr: Expr) -> bool:
        is_param = isinstance(expr, Var) and expr.vid in self.weights
        return is_param or isinstance(expr, Constant)

    def visit_call_(self, op: Call) -> Expr:
        """Redirects a call to its program with the attribute."""
        visited = super().visit_call_(op)
        matched = program_call(visited)
        if matched is None:
            return visited
        call, callee, tensors = matched
        name = callee.name_hint
        free = [n for n, arg in enumerate(tensors.fields) if self._is_weight(arg)]
        program = self.mod[name].with_attr("layout_free_buffers", free)
        var = self.builder_.add_func(program, name)
        return Call(call.op, [var, *call.args[1:]], call.attrs, call.sinfo_args)
