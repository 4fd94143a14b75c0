"""Refinement of result types after argument types became more precise."""

from collections.abc import Iterable

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects.relax import graph
from relax_mlir.ir import function_attributes
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import operations_of
from relax_mlir.ir.use_def import users_of
from relax_mlir.objects.expr import Call
from relax_mlir.objects.expr.struct_info import StructInfo
from relax_mlir.objects.expr.struct_info_types import to_mlir
from relax_mlir.objects.infer.struct_info import infer_struct_info
from relax_mlir.objects.read.relax import RelaxReader
from relax_mlir.objects.scope import FunctionScope
from relax_mlir.rewrite.functions import update_type
from relax_mlir.rewrite.patterns import replace

__all__ = ["refine_result_types", "results_of_users"]


def refine_result_types(
    module: IRModule, function: func.FuncOp, changed: Iterable[ir.Value]
) -> None:
    """Re-infers the types of operator calls whose arguments changed.

    A type is replaced only by a more precise one; the users of the value follow.

    Args:
        changed: results of the operations whose arguments changed.
    """
    stale = set(changed)
    if not stale:
        return
    scope = FunctionScope()
    reader = RelaxReader(scope, module.constants, module.signature_or_none)
    reader.params(function.entry_block, function_attributes.arg_names(function))
    for op in operations_of(function):
        is_stale = any(result in stale for result in op.operation.results)
        if is_stale and _refine(op, reader):
            stale.update(results_of_users(op))
    update_type(function)


def results_of_users(op: ir.OpView) -> list[ir.Value]:
    """The results of all users of an operation."""
    results = op.operation.results
    readers = (user for result in results for user in users_of(result))
    return [value for reader in readers for value in reader.operation.results]


def _refine(op: ir.OpView, reader: RelaxReader) -> bool:
    """Re-infers the result type of an operation; returns whether it became more precise."""
    if isinstance(op, graph.BindOp) and function_attributes.NAME not in op.attributes:
        if op.value.type == op.result.type:
            replace(op, op.value)
        return False
    if (
        function_attributes.NAME not in op.operation.attributes
        or len(op.operation.results) != 1
    ):
        return False
    info = _inferred_info(op, reader)
    if info is None:
        return False
    result = op.operation.results[0]
    known = reader.info(result)
    if not known.is_base_of(info) or info.is_base_of(known):
        return False
    result.set_type(to_mlir(info, reader.scope.symbols))
    return True


def _inferred_info(op: ir.OpView, reader: RelaxReader) -> StructInfo | None:
    """The struct info inferred from the arguments of an operation, or None."""
    if isinstance(op, graph.BindOp):
        return reader.info(op.value)
    read = reader.value_of(op)
    if not isinstance(read, Call):
        return None
    call = Call(read.op, read.args, read.attrs, read.sinfo_args)
    return infer_struct_info(call, reader.scope.symbols, lambda name: None)
