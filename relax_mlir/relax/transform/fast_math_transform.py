"""``FastMathTransform``: approximations in place of costly functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from relax_mlir import topi
from relax_mlir.module import IRModule
from relax_mlir.objects.expr import Call, Expr, Op
from relax_mlir.relax.block_builder import BlockBuilder
from relax_mlir.relax.expr_functor import PyExprMutator
from relax_mlir.relax.transform.function_rewriting import mutate_functions
from relax_mlir.rewriting import Pass

__all__ = ["FastMathTransform"]


@dataclass(frozen=True)
class FastMathTransform(Pass):
    """Compute ``exp``, ``erf``, ``tanh`` and ``softmax`` by TOPI's approximations.

    Their errors are those of :mod:`relax_mlir.topi.fast_math`.
    """

    opt_level: ClassVar[int] = 0

    def run(self, module: IRModule) -> None:
        mutate_functions(module, _Approximating(module))


_FAST: Mapping[str, Callable[[BlockBuilder, Call], Call]] = {
    "relax.exp": lambda b, call: b.call_te(topi.fast_exp, call.args[0]),
    "relax.erf": lambda b, call: b.call_te(topi.fast_erf, call.args[0]),
    "relax.tanh": lambda b, call: b.call_te(topi.fast_tanh, call.args[0]),
    "relax.nn.softmax": lambda b, call: b.call_te(
        topi.nn.fast_softmax, call.args[0], call.attrs["axis"]
    ),
}


class _Approximating(PyExprMutator):
    """Calls the programs of approximations."""

    def visit_call_(self, op: Call) -> Expr:
        """The call of a program, or the call as it was, with its parts rewritten."""
        name = op.op.name if isinstance(op.op, Op) else ""
        if name in _FAST:
            return _FAST[name](self.builder_, op)
        return super().visit_call_(op)
