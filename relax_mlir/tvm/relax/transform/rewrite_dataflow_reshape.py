"""``RewriteDataflowReshape``: raises programs that only reshape to ``R.reshape``."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from relax_mlir.ir.module import IRModule
from relax_mlir.objects.expr import (
    BindingBlock,
    Call,
    DataflowVar,
    Expr,
    GlobalVar,
    Op,
    Tuple,
    VarBinding,
)
from relax_mlir.objects.expr.struct_info import TensorStructInfo
from relax_mlir.objects.expr_functor import PyExprMutator
from relax_mlir.objects.prim.symbolic_sizes import Symbols
from relax_mlir.objects.stmt.prim_func import PrimFunc
from relax_mlir.rewrite.patterns import Pass
from relax_mlir.tvm.relax.analysis.reshape import has_reshape_pattern
from relax_mlir.tvm.relax.transform.function_rewriting import mutate_functions

__all__ = ["RewriteDataflowReshape"]


@dataclass(frozen=True)
class RewriteDataflowReshape(Pass):
    """Replaces calls of programs that only reshape by ``R.reshape``.

    A reshape aliases its argument; outputs of a dataflow block still get their own memory.
    """

    def run(self, module: IRModule) -> None:
        mutate_functions(module, _Rewriter(module))


class _Rewriter(PyExprMutator):
    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.mod = mod

    def visit_binding_block_(self, block: BindingBlock) -> BindingBlock:
        """Leaves blocks outside of dataflow unchanged."""
        return block

    def visit_var_binding_(self, binding: VarBinding) -> None:
        """Leaves outputs of the block unchanged."""
        if isinstance(binding.var, DataflowVar):
            super().visit_var_binding_(binding)
        else:
            self.builder_.emit_normalized(binding)

    def visit_call_(self, op: Call) -> Expr:
        """Replaces the call of a program that only reshapes."""
        argument = self._reshape_operand(op)
        info = op.struct_info_or_none()
        if argument is None or not isinstance(info, TensorStructInfo):
            return super().visit_call_(op)
        argument_info = argument.struct_info_or_none()
        if not isinstance(argument_info, TensorStructInfo) or not _same_num_elements(
            argument_info, info
        ):
            return super().visit_call_(op)
        assert info.shape is not None
        return Call(Op.of("relax.reshape"), [argument, info.shape])

    def _reshape_operand(self, call: Call) -> Expr | None:
        """Returns the tensor that a call only reshapes, or None."""
        if call.op != Op.of("relax.call_tir"):
            return None
        callee, arguments = call.args[:2]
        if not isinstance(callee, GlobalVar) or not isinstance(arguments, Tuple):
            return None
        program = self.mod[callee.name_hint]
        if not isinstance(program, PrimFunc) or not has_reshape_pattern(program):
            return None
        return arguments.fields[0]


def _same_num_elements(a: TensorStructInfo, b: TensorStructInfo) -> bool:
    """Returns whether two tensors have the same element type and number of elements."""
    if a.dtype != b.dtype:
        return False
    symbols = Symbols()
    sizes = [_num_elements(info, symbols) for info in (a, b)]
    return sizes[0] is not None and sizes[0] == sizes[1]


# Any: a size, or None.
def _num_elements(info: TensorStructInfo, symbols: Symbols) -> Any:
    """Returns the number of elements, or None if unknown."""
    values = getattr(info.shape, "values", None)
    return None if values is None else prod(symbols.dims(values))
