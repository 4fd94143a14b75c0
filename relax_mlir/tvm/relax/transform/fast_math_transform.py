"""``FastMathTransform``: replaces costly functions by approximations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from relax_mlir.ir.module import IRModule
from relax_mlir.objects.block_builder import BlockBuilder
from relax_mlir.objects.expr import Call, Expr, Op
from relax_mlir.objects.expr_functor import PyExprMutator
from relax_mlir.rewrite.patterns import Pass
from relax_mlir.tvm import topi
from relax_mlir.tvm.relax.transform.function_rewriting import mutate_functions

__all__ = ["FastMathTransform"]


@dataclass(frozen=True)
class FastMathTransform(Pass):
    """Replaces ``exp``, ``erf``, ``tanh`` and ``softmax`` by TOPI's approximations.

    Error bounds are those of :mod:`relax_mlir.tvm.topi.fast_math`.
    """

    opt_level: ClassVar[int] = 0

    def run(self, module: IRModule) -> None:
        mutate_functions(module, _FastMathMutator(module))


_FAST: Mapping[str, Callable[[BlockBuilder, Call], Call]] = {
    "relax.exp": lambda b, call: b.call_te(topi.fast_exp, call.args[0]),
    "relax.erf": lambda b, call: b.call_te(topi.fast_erf, call.args[0]),
    "relax.tanh": lambda b, call: b.call_te(topi.fast_tanh, call.args[0]),
    "relax.nn.softmax": lambda b, call: b.call_te(
        topi.nn.fast_softmax, call.args[0], call.attrs["axis"]
    ),
}


class _FastMathMutator(PyExprMutator):
    """Calls the tensor programs of approximations."""

    def visit_call_(self, op: Call) -> Expr:
        """Replaces a call that has an approximation; visits any other call."""
        name = op.op.name if isinstance(op.op, Op) else ""
        if name in _FAST:
            return _FAST[name](self.builder_, op)
        return super().visit_call_(op)
