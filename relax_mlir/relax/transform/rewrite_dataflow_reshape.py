"""``RewriteDataflowReshape``: programs that only reshape are ``R.reshape`` again."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from relax_mlir.module import IRModule
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
from relax_mlir.objects.prim_func import PrimFunc
from relax_mlir.objects.sizes import Symbols
from relax_mlir.objects.struct_info import TensorStructInfo
from relax_mlir.relax.analysis.reshape import has_reshape_pattern
from relax_mlir.relax.expr_functor import PyExprMutator
from relax_mlir.relax.transform.function_rewriting import mutate_functions
from relax_mlir.rewriting import Pass

__all__ = ["RewriteDataflowReshape"]


@dataclass(frozen=True)
class RewriteDataflowReshape(Pass):
    """Write calls of tensor programs that only reshape as ``R.reshape``.

    A reshape shares the memory of its argument, so what a dataflow block gives is still
    computed into memory of its own.
    """

    def run(self, module: IRModule) -> None:
        mutate_functions(module, _Rewriter(module))


class _Rewriter(PyExprMutator):
    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.mod = mod

    def visit_binding_block_(self, block: BindingBlock) -> BindingBlock:
        """A block that is no dataflow block stays."""
        return block

    def visit_var_binding_(self, binding: VarBinding) -> None:
        """What is seen outside of its block stays."""
        if isinstance(binding.var, DataflowVar):
            super().visit_var_binding_(binding)
        else:
            self.builder_.emit_normalized(binding)

    def visit_call_(self, op: Call) -> Expr:
        """A call of a program that only reshapes, as the operator."""
        argument = self._reshaped(op)
        info = op.struct_info_or_none()
        if argument is None or not isinstance(info, TensorStructInfo):
            return super().visit_call_(op)
        known = argument.struct_info_or_none()
        if not isinstance(known, TensorStructInfo) or not _same_size(known, info):
            return super().visit_call_(op)
        assert info.shape is not None
        return Call(Op.of("relax.reshape"), [argument, info.shape])

    def _reshaped(self, call: Call) -> Expr | None:
        """What a call of a tensor program gives another shape, if it does only that."""
        if call.op != Op.of("relax.call_tir"):
            return None
        callee, arguments = call.args[:2]
        if not isinstance(callee, GlobalVar) or not isinstance(arguments, Tuple):
            return None
        program = self.mod[callee.name_hint]
        if not isinstance(program, PrimFunc) or not has_reshape_pattern(program):
            return None
        return arguments.fields[0]


def _same_size(a: TensorStructInfo, b: TensorStructInfo) -> bool:
    """Whether two tensors have one type, and as many elements."""
    if a.dtype != b.dtype:
        return False
    symbols = Symbols()
    sizes = [_sizes(info, symbols) for info in (a, b)]
    return sizes[0] is not None and sizes[0] == sizes[1]


def _sizes(info: TensorStructInfo, symbols: Symbols) -> Any:  # Any: a size, or None
    values = getattr(info.shape, "values", None)
    return None if values is None else prod(symbols.dims(values))
