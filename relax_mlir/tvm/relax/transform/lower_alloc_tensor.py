"""``LowerAllocTensor``: gives each unplanned tensor its own storage."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from relax_mlir.dialects import dtypes
from relax_mlir.errors import PassError, short_repr
from relax_mlir.ir.module import IRModule
from relax_mlir.objects.expr import Call, DataTypeImm, Expr, Op, PrimValue, ShapeExpr
from relax_mlir.objects.expr.struct_info import ShapeStructInfo
from relax_mlir.objects.expr_functor import PyExprMutator
from relax_mlir.rewrite.patterns import Pass
from relax_mlir.tvm.relax.op.storage import memory
from relax_mlir.tvm.relax.transform.function_rewriting import rewrite_functions

__all__ = ["LowerAllocTensor"]

_ALLOC = Op.of("relax.builtin.alloc_tensor")


@dataclass(frozen=True)
class LowerAllocTensor(Pass):
    """Lowers unplanned tensor allocations to a storage and a tensor in it."""

    def run(self, module: IRModule) -> None:
        rewrite_functions(module, _Lowering(module).visit_expr)


class _Lowering(PyExprMutator):
    def visit_call_(self, op: Call) -> Expr:
        """Lowers ``builtin.alloc_tensor`` to ``alloc_storage`` and ``alloc_tensor``."""
        call = super().visit_call_(op)
        if not isinstance(call, Call) or call.op != _ALLOC:
            return call
        shape, dtype, device, scope = call.args
        assert isinstance(dtype, DataTypeImm)
        sizes = ShapeExpr(
            [prod(_dims_of(shape), start=dtypes.dtype(dtype.value).size_bytes)]
        )
        storage = memory.alloc_storage(sizes, device, scope, "uint8")
        storage_var = self.builder_.emit(storage, "storage")
        return memory.alloc_tensor(storage_var, PrimValue(0), shape, dtype, device)


def _dims_of(shape: Expr) -> tuple[Any, ...]:  # Any: dimensions as PrimExprs
    info = shape.struct_info_or_none()
    if isinstance(info, ShapeStructInfo) and info.values is not None:
        return tuple(info.values)
    raise PassError(
        f"`R.builtin.alloc_tensor`: the shape must be known: expected the sizes or a "
        f"variable that holds them, got `{short_repr(shape)}` of {info}"
    )
