"""Operators in general form, written as operations where their types are known."""

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import dtypes, tensors
from relax_mlir.dialects.relax import graph
from relax_mlir.dialects.relax.core import (
    CallTirOp,
    ConstantOp,
    ShapeToTensorOp,
    TupleGetItemOp,
)
from relax_mlir.dialects.relax.movement import ReshapeOp
from relax_mlir.graphs import (
    PACK,
    block_number,
    copy_script_attributes,
    operations_of,
    stand_beside,
)
from relax_mlir.module import IRModule
from relax_mlir.objects import names, prim
from relax_mlir.objects.expr import Call
from relax_mlir.objects.infer import infer
from relax_mlir.objects.operators import operation_class
from relax_mlir.objects.reader import Reader
from relax_mlir.objects.scope import FunctionScope
from relax_mlir.objects.sizes import Symbols
from relax_mlir.objects.struct_info import ObjectStructInfo, PrimStructInfo
from relax_mlir.objects.struct_info_types import from_mlir, to_mlir
from relax_mlir.objects.writer import Writer
from relax_mlir.rewriting import replace

__all__ = ["write_known_operators"]


def write_known_operators(
    module: IRModule, function: func.FuncOp, *, keep_scalars: bool = True
) -> None:
    """Write ``relax.call_operator`` as the operations that they are, first to last.

    What is known of results is inferred anew, so that one leads to the next.

    Args:
        module: the module.
        function: one of its functions.
        keep_scalars: whether a scalar that is passed for a tensor stays one, as in a
            script; else it becomes a tensor of rank 0, and the call an operation.
    """
    if not any(isinstance(op, graph.CallOperatorOp) for op in operations_of(function)):
        return
    scope = FunctionScope()
    reader = Reader(scope, module.constants, module.signature_or_none)
    with module.context, ir.Location.unknown():
        reader.params(function.entry_block, names.arg_names(function))
        for op in operations_of(function):
            if isinstance(op, graph.CallOperatorOp):
                if op.operator.value == "relax.call_tir":
                    _write_program_call(op)
                else:
                    if not keep_scalars:
                        _pass_tensors(op)
                    _write(op, reader, Writer(scope, module.constants))


def _pass_tensors(op: graph.CallOperatorOp) -> None:
    """Pass tensors of rank 0 for scalars where the operator takes tensors."""
    kind = operation_class(op.operator.value)
    if kind is None:
        return
    packed = op.args.owner
    if isinstance(packed, ir.Block) or packed.name != PACK:
        return
    given = list(packed.operands)
    for number, name in enumerate(kind.argument_order()[: len(given)]):
        source = given[number].owner
        is_scalar = not isinstance(source, ir.Block) and isinstance(
            source.opview, graph.PrimValueOp
        )
        if name in kind.operand_fields and is_scalar:
            with ir.InsertionPoint(op), op.location:
                given[number] = _scalar_tensor(given[number])
    if given != list(packed.operands):
        with ir.InsertionPoint(op), op.location:
            op.operation.operands[0] = tensors.pack(given)


def _scalar_tensor(value: ir.Value) -> ir.Value:
    """A scalar that is a number, or an expression of sizes, as a tensor of rank 0."""
    symbols = Symbols()
    info = from_mlir(value.type, symbols)
    assert isinstance(info, PrimStructInfo)
    term = info.value
    if isinstance(term, (prim.IntImm, prim.FloatImm)):
        return ConstantOp.scalar(term.value, dtypes.dtype(term.dtype))
    size = ShapeToTensorOp(dims=(symbols.dim(term),)).y
    return ReshapeOp(size, shape=()).y


def _write_program_call(op: graph.CallOperatorOp) -> None:
    """Write a call of a tensor program on a tuple as one on the tuple's elements."""
    callee, whole, *sizes = tensors.elements(op.args)
    results = list(ir.ArrayAttr(op.types))
    named = callee.owner
    if not isinstance(named, graph.GlobalVarOp) or sizes or len(results) != 1:
        return
    with ir.InsertionPoint(op), op.location:
        made = CallTirOp(
            _elements(op, whole),
            callee=named.callee.value,
            sizes=tensors.shape_attr([]),
            results=[ir.TypeAttr(results[0]).value],
        )
    copy_script_attributes(op, made)
    replace(op, made.result)


def _elements(op: graph.CallOperatorOp, whole: ir.Value) -> list[ir.Value]:
    """What a tuple was packed from, or else its elements by themselves."""
    if not isinstance(whole.owner, ir.Block) and whole.owner.name == PACK:
        return tensors.elements(whole)
    type_ = ir.TupleType(whole.type)
    found: list[ir.Value] = []
    for index in range(type_.num_types):
        element = TupleGetItemOp(whole, index=index, results=[type_.get_type(index)])
        stand_beside(element, op, "lv" if block_number(op) >= 0 else "gv")
        found.append(element.result)
    return found


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
