"""``LowerAllocTensor``: what is left to be allocated gets memory of its own."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from relax_mlir.dialects import dtypes
from relax_mlir.errors import PassError, shown
from relax_mlir.module import IRModule
from relax_mlir.objects.expr import Call, DataTypeImm, Expr, Op, PrimValue, ShapeExpr
from relax_mlir.objects.struct_info import ShapeStructInfo
from relax_mlir.relax.expr_functor import PyExprMutator
from relax_mlir.relax.op.storage import memory
from relax_mlir.relax.transform.function_rewriting import rewrite_functions
from relax_mlir.rewriting import Pass

__all__ = ["LowerAllocTensor"]

_ALLOC = Op.of("relax.builtin.alloc_tensor")


@dataclass(frozen=True)
class LowerAllocTensor(Pass):
    """Make every tensor that no memory was planned for in new memory of its size."""

    def run(self, module: IRModule) -> None:
        rewrite_functions(module, _Lowering(module).visit_expr)


class _Lowering(PyExprMutator):
    def visit_call_(self, op: Call) -> Expr:
        """The allocation of a tensor, as that of memory and of a tensor in it."""
        call = super().visit_call_(op)
        if not isinstance(call, Call) or call.op != _ALLOC:
            return call
        shape, dtype, device, scope = call.args
        assert isinstance(dtype, DataTypeImm)
        sizes = ShapeExpr(
            [prod(_sizes(shape), start=dtypes.dtype(dtype.value).size_bytes)]
        )
        storage = memory.alloc_storage(sizes, device, scope, "uint8")
        bound = self.builder_.emit(storage, "storage")
        return memory.alloc_tensor(bound, PrimValue(0), shape, dtype, device)


def _sizes(shape: Expr) -> tuple[Any, ...]:  # Any: sizes as terms
    info = shape.struct_info_or_none()
    if isinstance(info, ShapeStructInfo) and info.values is not None:
        return tuple(info.values)
    raise PassError(
        f"`R.builtin.alloc_tensor`: the shape must be known: expected the sizes or a "
        f"variable that holds them, got `{shown(shape)}` of {info}"
    )
