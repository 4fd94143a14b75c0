"""Refinement of generic operator calls to operations, once their types are known."""

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
from relax_mlir.dialects.relax.manipulate import ReshapeOp
from relax_mlir.ir import function_attributes
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import operations_of
from relax_mlir.objects import prim
from relax_mlir.objects.expr import Call
from relax_mlir.objects.expr.struct_info import ObjectStructInfo, PrimStructInfo
from relax_mlir.objects.expr.struct_info_types import from_mlir, to_mlir
from relax_mlir.objects.infer.struct_info import infer_struct_info
from relax_mlir.objects.operators import operation_class
from relax_mlir.objects.prim.symbolic_sizes import Symbols
from relax_mlir.objects.read.relax import RelaxReader
from relax_mlir.objects.scope import FunctionScope
from relax_mlir.objects.write.relax import RelaxWriter
from relax_mlir.rewrite.functions import (
    bind_next_to,
    copy_script_attributes,
    dataflow_block_number,
)
from relax_mlir.rewrite.patterns import replace

__all__ = ["refine_operators"]


def refine_operators(
    module: IRModule, function: func.FuncOp, *, keep_scalars: bool = True
) -> None:
    """Replaces each ``relax.call_operator`` of known types by the operation, in program order.

    Result types are re-inferred, so that one refinement enables the next.

    Args:
        module: the module.
        function: one of its functions.
        keep_scalars: whether scalar arguments of tensor parameters stay scalars, as in a
            script; otherwise they become rank-0 tensors, and the call an operation.
    """
    if not any(isinstance(op, graph.CallOperatorOp) for op in operations_of(function)):
        return
    scope = FunctionScope()
    reader = RelaxReader(scope, module.constants, module.signature_or_none)
    with module.context, ir.Location.unknown():
        reader.params(function.entry_block, function_attributes.arg_names(function))
        for op in operations_of(function):
            if isinstance(op, graph.CallOperatorOp):
                if op.operator.value == "relax.call_tir":
                    _refine_program_call(op)
                else:
                    if not keep_scalars:
                        _promote_scalars(op)
                    _refine(op, reader, RelaxWriter(scope, module.constants))


def _promote_scalars(op: graph.CallOperatorOp) -> None:
    """Replaces scalar arguments by rank-0 tensors where the operator takes tensors."""
    kind = operation_class(op.operator.value)
    if kind is None:
        return
    given = tensors.packed_values(op.args)
    if given is None:
        return
    for number, name in enumerate(kind.argument_order()[: len(given)]):
        source = given[number].owner
        is_scalar = not isinstance(source, ir.Block) and isinstance(
            source.opview, graph.PrimValueOp
        )
        if name in kind.operand_fields and is_scalar:
            with ir.InsertionPoint(op), op.location:
                given[number] = _scalar_tensor(given[number])
    if given != tensors.packed_values(op.args):
        with ir.InsertionPoint(op), op.location:
            op.operation.operands[0] = tensors.pack_tuple(given)


def _scalar_tensor(value: ir.Value) -> ir.Value:
    """A number or an expression of sizes as a rank-0 tensor."""
    symbols = Symbols()
    info = from_mlir(value.type, symbols)
    assert isinstance(info, PrimStructInfo)
    value_expr = info.value
    if isinstance(value_expr, (prim.IntImm, prim.FloatImm)):
        return ConstantOp.scalar(value_expr.value, dtypes.dtype(value_expr.dtype))
    size = ShapeToTensorOp(dims=(symbols.dim(value_expr),)).y
    return ReshapeOp(size, shape=()).y


def _refine_program_call(op: graph.CallOperatorOp) -> None:
    """Replaces a call of a tensor program on a tuple value by one on the tuple's elements."""
    callee, whole, *sizes = tensors.tuple_elements(op.args)
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
    """The operands of a tuple pack, or new ``tuple_get_item`` operations."""
    packed = tensors.packed_values(whole)
    if packed is not None:
        return packed
    type_ = ir.TupleType(whole.type)
    found: list[ir.Value] = []
    for index in range(type_.num_types):
        element = TupleGetItemOp(whole, index=index, results=[type_.get_type(index)])
        bind_next_to(element, op, "lv" if dataflow_block_number(op) >= 0 else "gv")
        found.append(element.result)
    return found


def _refine(op: graph.CallOperatorOp, reader: RelaxReader, writer: RelaxWriter) -> None:
    read = reader.value_of(op)
    assert isinstance(read, Call)
    call = Call(read.op, read.args, read.attrs, read.sinfo_args)
    info = infer_struct_info(call, reader.scope.symbols, lambda name: None)
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
