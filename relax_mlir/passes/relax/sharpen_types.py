"""Types of results that follow from arguments of which more is known than before."""

from collections.abc import Iterable

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects.relax import graph
from relax_mlir.graphs import operations_of, update_type, users_of
from relax_mlir.module import IRModule
from relax_mlir.objects import names
from relax_mlir.objects.expr import Call
from relax_mlir.objects.infer import infer
from relax_mlir.objects.reader import Reader
from relax_mlir.objects.scope import FunctionScope
from relax_mlir.objects.struct_info import StructInfo
from relax_mlir.objects.struct_info_types import to_mlir
from relax_mlir.rewriting import replace

__all__ = ["sharpen_types", "values_after"]


def sharpen_types(
    module: IRModule, function: func.FuncOp, changed: Iterable[ir.Value]
) -> None:
    """Infer anew what calls of operators give whose arguments are others now.

    A type changes where more is known than it says; then what reads the value follows.

    Args:
        changed: results of the operations that have other arguments.
    """
    stale = set(changed)
    if not stale:
        return
    scope = FunctionScope()
    reader = Reader(scope, module.constants, module.signature_or_none)
    reader.params(function.entry_block, names.arg_names(function))
    for op in operations_of(function):
        is_stale = any(result in stale for result in op.operation.results)
        if is_stale and _sharpen(op, reader):
            stale.update(values_after(op))
    update_type(function)


def values_after(op: ir.OpView) -> list[ir.Value]:
    """The results of the operations that read what an operation gives."""
    results = op.operation.results
    readers = (user for result in results for user in users_of(result))
    return [value for reader in readers for value in reader.operation.results]


def _sharpen(op: ir.OpView, reader: Reader) -> bool:
    """Whether the type of what an operation gives says more now."""
    if isinstance(op, graph.BindOp) and names.NAME not in op.attributes:
        if op.value.type == op.result.type:
            replace(op, op.value)
        return False
    if names.NAME not in op.operation.attributes or len(op.operation.results) != 1:
        return False
    info = _info_now(op, reader)
    if info is None:
        return False
    result = op.operation.results[0]
    known = reader.info(result)
    if not known.is_base_of(info) or info.is_base_of(known):
        return False
    result.set_type(to_mlir(info, reader.scope.symbols))
    return True


def _info_now(op: ir.OpView, reader: Reader) -> StructInfo | None:
    """What the arguments tell of the value of an operation, if that is all there is."""
    if isinstance(op, graph.BindOp):
        return reader.info(op.value)
    read = reader.value_of(op)
    if not isinstance(read, Call):
        return None
    call = Call(read.op, read.args, read.attrs, read.sinfo_args)
    return infer(call, reader.scope.symbols, lambda name: None)
