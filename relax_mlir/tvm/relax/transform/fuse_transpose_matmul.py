"""``FuseTransposeMatmul``: fuses a transposition into the matmul that reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from relax_mlir.ir.module import IRModule
from relax_mlir.objects.expr import Call, DataflowVar, Expr, GlobalVar
from relax_mlir.objects.expr.struct_info import TensorStructInfo
from relax_mlir.objects.expr_functor import PyExprMutator
from relax_mlir.objects.function import Function
from relax_mlir.rewrite.patterns import Pass
from relax_mlir.tvm import te
from relax_mlir.tvm.relax.dpl import is_op, wildcard
from relax_mlir.tvm.relax.transform.function_rewriting import mutate_functions
from relax_mlir.tvm.relax.transform.fuse_ops_by_pattern import FuseOpsByPattern
from relax_mlir.tvm.relax.transform.fusion_pattern import (
    FusionPattern,
    PatternCheckContext,
)
from relax_mlir.tvm.relax.transform.legalize_ops.linear_algebra import (
    matmul_transposed_b,
)

__all__ = ["FuseTransposeMatmul"]

_COMPOSITE = "transpose_matmul_fuse"


@dataclass(frozen=True)
class FuseTransposeMatmul(Pass):
    """Replaces ``matmul(x, permute_dims(w))`` by a program that reads ``w`` untransposed.

    Only swaps of the last two dimensions match, and only if nothing else reads the
    transposed matrix. Patterns of external libraries must be matched before this pass;
    ``LegalizeOps`` runs after it.
    """

    opt_level: ClassVar[int] = 0

    def run(self, module: IRModule) -> None:
        module.replace_contents(
            FuseOpsByPattern([_pattern()], bind_constants=False)(module)
        )
        mutate_functions(module, _MatmulProgramMutator(module))


def _pattern() -> FusionPattern:
    x, w = wildcard(), wildcard()
    permuted = is_op("relax.permute_dims")(w)
    matmul = is_op("relax.matmul")(x, permuted)
    subpatterns = {"permuted": permuted, "w": w}
    return FusionPattern(_COMPOSITE, matmul, subpatterns, _swaps_the_last_two)


def _swaps_the_last_two(context: PatternCheckContext) -> bool:
    call = context.annotated_expr["permuted"]
    info = context.annotated_expr["w"].struct_info_or_none()
    if not isinstance(call, Call) or not isinstance(info, TensorStructInfo):
        return False
    permuted = context.value_to_bound_var[call]
    readers = context.var_usages.get(permuted, ())
    if len(readers) > 1 or not isinstance(permuted, DataflowVar):
        return False  # other users need the transposed matrix anyway
    axes = call.attrs["axes"]
    if axes is None:
        return info.ndim == 2
    return info.ndim > 1 and [int(axis) for axis in axes] == [
        *range(info.ndim - 2),
        info.ndim - 1,
        info.ndim - 2,
    ]


class _MatmulProgramMutator(PyExprMutator):
    """Replaces the composite functions of the pattern by calls of tensor programs."""

    def visit_call_(self, op: Call) -> Expr:
        """Replaces the call of a matched function; visits any other call."""
        if not isinstance(op.op, GlobalVar):
            return super().visit_call_(op)
        function = self.builder_.get()[op.op]
        is_match = isinstance(function, Function) and (
            function.attrs.get("Composite") == _COMPOSITE
        )
        if not is_match:
            return super().visit_call_(op)
        info = function.ret_struct_info
        w, x = op.args
        dtype = info.dtype if isinstance(info, TensorStructInfo) else None

        def matmul(a: te.Tensor, b: te.Tensor) -> te.Tensor:
            return matmul_transposed_b(a, b, dtype)

        return self.builder_.call_te(matmul, x, w, primfunc_name_hint="NT_matmul")
