"""``FuseTransposeMatmul``: a product with a transposed matrix is one tensor program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from relax_mlir import te
from relax_mlir.module import IRModule
from relax_mlir.objects.expr import Call, DataflowVar, Expr, GlobalVar
from relax_mlir.objects.function import Function
from relax_mlir.objects.struct_info import TensorStructInfo
from relax_mlir.relax.dpl import is_op, wildcard
from relax_mlir.relax.expr_functor import PyExprMutator
from relax_mlir.relax.transform.function_rewriting import mutate_functions
from relax_mlir.relax.transform.fuse_ops_by_pattern import FuseOpsByPattern
from relax_mlir.relax.transform.fusion_pattern import (
    FusionPattern,
    PatternCheckContext,
)
from relax_mlir.relax.transform.legalize_ops.linear_algebra import transposed_product
from relax_mlir.rewriting import Pass

__all__ = ["FuseTransposeMatmul"]

_COMPOSITE = "transpose_matmul_fuse"


@dataclass(frozen=True)
class FuseTransposeMatmul(Pass):
    """Write ``matmul(x, permute_dims(w))`` as a tensor program that reads ``w`` as it is.

    Only permutations that swap the last two dimensions are taken, and whose result nothing
    else reads. What libraries are to compute has to be found before this pass;
    ``LegalizeOps`` comes after it.
    """

    opt_level: ClassVar[int] = 0

    def run(self, module: IRModule) -> None:
        module.become(FuseOpsByPattern([_pattern()], bind_constants=False)(module))
        mutate_functions(module, _ProgramWriter(module))


def _pattern() -> FusionPattern:
    x, w = wildcard(), wildcard()
    permuted = is_op("relax.permute_dims")(w)
    product = is_op("relax.matmul")(x, permuted)
    parts = {"permuted": permuted, "w": w}
    return FusionPattern(_COMPOSITE, product, parts, _swaps_the_last_two)


def _swaps_the_last_two(context: PatternCheckContext) -> bool:
    call = context.annotated_expr["permuted"]
    info = context.annotated_expr["w"].struct_info_or_none()
    if not isinstance(call, Call) or not isinstance(info, TensorStructInfo):
        return False
    permuted = context.value_to_bound_var[call]
    readers = context.var_usages.get(permuted, ())
    if len(readers) > 1 or not isinstance(permuted, DataflowVar):
        return False  # the transposed matrix is made for others anyway
    axes = call.attrs["axes"]
    if axes is None:
        return info.ndim == 2
    return info.ndim > 1 and [int(axis) for axis in axes] == [
        *range(info.ndim - 2),
        info.ndim - 1,
        info.ndim - 2,
    ]


class _ProgramWriter(PyExprMutator):
    """Calls tensor programs in place of the functions that the pattern made."""

    def visit_call_(self, op: Call) -> Expr:
        """The call of a product's program; any other call with its parts rewritten."""
        if not isinstance(op.op, GlobalVar):
            return super().visit_call_(op)
        function = self.builder_.get()[op.op]
        is_product = isinstance(function, Function) and (
            function.attrs.get("Composite") == _COMPOSITE
        )
        if not is_product:
            return super().visit_call_(op)
        info = function.ret_struct_info
        w, x = op.args
        dtype = info.dtype if isinstance(info, TensorStructInfo) else None

        def product(a: te.Tensor, b: te.Tensor) -> te.Tensor:
            return transposed_product(a, b, dtype)

        return self.builder_.call_te(product, x, w, primfunc_name_hint="NT_matmul")
