"""Operators in general form, written as operations where their types are known."""

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects.relax import graph
from relax_mlir.graphs import copy_script_attributes, operations_of
from relax_mlir.module import IRModule
from relax_mlir.objects import names
from relax_mlir.objects.expr import Call
from relax_mlir.objects.infer import infer
from relax_mlir.objects.reader import Reader
from relax_mlir.objects.scope import FunctionScope
from relax_mlir.objects.struct_info import ObjectStructInfo, to_mlir
from relax_mlir.objects.writer import Writer
from relax_mlir.rewriting import replace

__all__ = ["write_known_operators"]


def write_known_operators(module: IRModule, function: func.FuncOp) -> None:
    """Write ``relax.call_operator`` as the operations that they are, first to last.

    What is known of results is inferred anew, so that one leads to the next.
    """
    if not any(isinstance(op, graph.CallOperatorOp) for op in operations_of(function)):
        return
    scope = FunctionScope()
    reader = Reader(scope, module.constants, module.signature_or_none)
    with module.context, ir.Location.unknown():
        reader.params(function.entry_block, names.arg_names(function))
        for op in operations_of(function):
            if isinstance(op, graph.CallOperatorOp):
                _write(op, reader, Writer(scope, module.constants))


def _write(op: graph.CallOperatorOp, reader: Reader, writer: Writer) -> None:
    read = reader.value_of(op)
    assert isinstance(read, Call)
    call = Call(read.op, read.args, read.attrs, read.sinfo_args)
    info = infer(call, reader.scope.symbols, lambda name: None)
    if isinstance(info, ObjectStructInfo):
        return
    op.result.set_type(to_mlir(info, reader.scope.symbols))
    with ir.InsertionPoint(op), op.location:
        value = writer.operation(call, info)
    if value is not None:
        copy_script_attributes(op, value.owner.opview)
        known = reader.scope.expr(op.result)
        if known is not None:
            known._struct_info = info
            reader.scope.remember(value, known)
        replace(op, value)
