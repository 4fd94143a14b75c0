"""Functions that apply the PrimFunc of a Relax operator: its ``legalize``, as a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.relax.core import RelaxOperation
from relax_mlir.dialects.shapes import Dim
from relax_mlir.errors import OperatorError
from relax_mlir.ir.module import IRModule
from relax_mlir.objects.prim import IntImm, PrimExpr
from relax_mlir.passes.relax.legalize import emit_program
from relax_mlir.tvm.te import Tensor, extern_primfunc

__all__ = ["apply_operator"]


def apply_operator(
    op: type[RelaxOperation],
    *inputs: Tensor | Sequence[Tensor],
    tag: str,
    **attrs: Any,  # Any: attributes have different types
) -> Tensor:
    """Apply the PrimFunc of a Relax operator to tensors.

    Args:
        op: the operator, which has one result.
        *inputs: its operands; a sequence for a tuple of tensors.
        tag: the kind of operator.
        **attrs: its attributes, as :meth:`normalize_arguments` takes them.

    Raises:
        OperatorError: the operands or attributes do not fit.
    """
    flat = [t for one in inputs for t in ([one] if isinstance(one, Tensor) else one)]
    size_of_symbol: dict[str, PrimExpr] = {}
    name = op.program_name()
    module = IRModule.empty()
    with module.context, ir.Location.unknown(), ir.InsertionPoint(module.mlir.body):
        types = [_mlir_type(tensor, size_of_symbol) for tensor in flat]
        holder = func.FuncOp("holder", ir.FunctionType.get(types, []))
        block = holder.add_entry_block()
        arguments = iter(block.arguments)
        operands = [
            next(arguments)
            if isinstance(one, Tensor)
            else [next(arguments) for _ in one]
            for one in inputs
        ]
        try:
            with ir.InsertionPoint(block):
                built = op(*operands, **op.normalize_arguments(**attrs))
        except ValueError as error:
            raise OperatorError(f"{name}: {error}") from error
        _, sizes = emit_program(built, name)
    prim_func = module[name]
    if sizes:
        pairs = zip(prim_func.size_vars(), sizes, strict=True)
        prim_func = prim_func.with_sizes(
            {var: size_of_symbol[str(size)] for var, size in pairs}
        )
    return extern_primfunc(flat, prim_func, name=name, tag=tag)


def _mlir_type(tensor: Tensor, size_of_symbol: dict[str, PrimExpr]) -> ir.Type:
    """MLIR type of a tensor; symbolic sizes get fresh names, recorded in ``size_of_symbol``."""
    shape: list[Dim] = []
    for size in tensor.shape:
        if isinstance(size, IntImm):
            shape.append(size.value)
        else:
            name = f"n{len(size_of_symbol)}"
            size_of_symbol[name] = size
            shape.append(shapes.symbol(name))
    return tensors.tensor_type(shape, dtypes.dtype(tensor.dtype))
