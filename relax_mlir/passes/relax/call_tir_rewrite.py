"""``relax-call-tir-rewrite``: calls of tensor programs get the tensors they write."""

from dataclasses import dataclass

from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax import graph
from relax_mlir.dialects.relax.core import CallDpsPackedOp, CallTirOp
from relax_mlir.errors import PassError
from relax_mlir.graphs import (
    copy_script_attributes,
    drop_unread,
    graph_functions,
    operations_of,
    stand_beside,
)
from relax_mlir.module import IRModule
from relax_mlir.objects import names, prim
from relax_mlir.objects.sizes import Symbols
from relax_mlir.objects.struct_info import (
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    from_mlir,
    to_mlir,
)
from relax_mlir.rewriting import Pass, replace

__all__ = ["CallTirRewrite"]


@dataclass(frozen=True)
class CallTirRewrite(Pass):
    """Make new tensors, call the program with them, and go on with the tensors."""

    known_as = "CallTIRRewrite"

    def run(self, module: IRModule) -> None:
        for function in graph_functions(module):
            for op in operations_of(function):
                if isinstance(op, (CallTirOp, CallDpsPackedOp)):
                    _rewrite(op)
            drop_unread(function)


def _rewrite(op: CallTirOp | CallDpsPackedOp) -> None:
    result = op.operation.results[0]
    is_tuple = isinstance(result.type, ir.TupleType)
    with ir.InsertionPoint(op), op.location:
        types = _types(result.type)
        outs = [_alloc(op, type_) for type_ in types]
        call = _call(op, [*tensors.elements(op.args), *outs])
        stand_beside(call, op, "_")
        if is_tuple:
            whole = tensors.pack(outs).owner.opview
        else:
            whole = graph.BindOp(outs[0], results=[result.type])
    copy_script_attributes(op, whole)
    replace(op, whole.operation.results[0])


def _types(type_: ir.Type) -> list[ir.Type]:
    if not isinstance(type_, ir.TupleType):
        return [type_]
    return [type_.get_type(i) for i in range(type_.num_types)]


def _alloc(op: ir.OpView, type_: ir.Type) -> ir.Value:
    """``R.builtin.alloc_tensor(shape, dtype, 0)``."""
    symbols = Symbols()
    info = from_mlir(type_, symbols)
    if not isinstance(info, TensorStructInfo) or info.shape is None:
        raise PassError(
            f"{op.location}: expected a tensor of known sizes, got `{type_}`"
        )
    sizes = to_mlir(ShapeStructInfo(info.shape.values), symbols)
    zero = to_mlir(PrimStructInfo(value=prim.const(0, "int64")), symbols)
    anything = to_mlir(ObjectStructInfo(), symbols)
    made = graph.CallOperatorOp(
        [
            graph.ShapeExprOp(results=[sizes]).result,
            graph.DataTypeOp(value=info.dtype, results=[anything]).result,
            graph.PrimValueOp(value=ir.UnitAttr.get(), results=[zero]).result,
            graph.StringOp(value="global", results=[anything]).result,
        ],
        operator="relax.builtin.alloc_tensor",
        attrs=ir.DictAttr.get({}),
        types=ir.ArrayAttr.get([]),
        results=[type_],
    )
    stand_beside(made, op, "alloc")
    return made.result


def _call(op: CallTirOp | CallDpsPackedOp, arguments: list[ir.Value]) -> ir.OpView:
    nothing = [ir.TupleType.get_tuple([])]
    if isinstance(op, CallTirOp):
        callee = ir.FlatSymbolRefAttr(op.attributes["callee"]).value
        if names.TIR_VARS in op.attributes:
            arguments = [*arguments, *_numbers(op)]
        return graph.CallOp(arguments, callee=callee, results=nothing)
    name = ir.StringAttr(op.attributes["callee"]).value
    attrs = ir.DictAttr.get({})
    return graph.CallExternOp(arguments, callee=name, attrs=attrs, results=nothing)


def _numbers(op: CallTirOp) -> list[ir.Value]:
    """The numbers that the call passes, as values."""
    symbols = Symbols()
    found: list[ir.Value] = []
    for dim in tensors.python_value(op.attributes[names.TIR_VARS]):
        type_ = to_mlir(PrimStructInfo(value=symbols.term(dim)), symbols)
        made = graph.PrimValueOp(value=ir.UnitAttr.get(), results=[type_])
        found.append(made.result)
    return found
