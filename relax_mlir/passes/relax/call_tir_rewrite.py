"""``relax-call-tir-rewrite``: calls of tensor programs get the tensors they write."""

from collections.abc import Iterator, Sequence
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
from relax_mlir.objects.attributes import from_attribute
from relax_mlir.objects.sizes import Symbols
from relax_mlir.objects.struct_info import (
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
)
from relax_mlir.objects.struct_info_types import from_mlir, to_mlir
from relax_mlir.rewriting import Pass, replace

__all__ = ["CallTirRewrite"]

_IN_PLACE = "relax.call_tir_inplace"


@dataclass(frozen=True)
class CallTirRewrite(Pass):
    """Make new tensors, call the program with them, and go on with the tensors.

    What a call writes over its arguments are these arguments from then on.
    """

    known_as = "CallTIRRewrite"

    def run(self, module: IRModule) -> None:
        for function in graph_functions(module):
            for op in operations_of(function):
                if isinstance(op, (CallTirOp, CallDpsPackedOp)) or _is_in_place(op):
                    _rewrite(op)
            drop_unread(function)


def _is_in_place(op: ir.OpView) -> bool:
    return isinstance(op, graph.CallOperatorOp) and op.operator.value == _IN_PLACE


def _rewrite(op: ir.OpView) -> None:
    result = op.operation.results[0]
    with ir.InsertionPoint(op), op.location:
        arguments = _arguments(op)
        types = list(_leaves(result.type))
        places = _places(op, len(types))
        outs = [
            arguments[place] if place >= 0 else _alloc(op, type_)
            for place, type_ in zip(places, types, strict=True)
        ]
        made = [out for out, place in zip(outs, places, strict=True) if place < 0]
        call = _call(op, [*arguments, *made])
        stand_beside(call, op, "_")
        if isinstance(result.type, ir.TupleType):
            whole = _packed(iter(outs), result.type).owner.opview
        else:
            whole = graph.BindOp(outs[0], results=[result.type])
    copy_script_attributes(op, whole)
    replace(op, whole.operation.results[0])


def _arguments(op: ir.OpView) -> list[ir.Value]:
    """What the program is called on, without its results."""
    if not isinstance(op, graph.CallOperatorOp):
        return tensors.elements(op.operation.operands[0])
    return tensors.elements(tensors.elements(op.args)[1])


def _places(op: ir.OpView, count: int) -> list[int]:
    """Per result, the argument that it is written over; -1 for a new tensor."""
    if not isinstance(op, graph.CallOperatorOp):
        return [-1] * count
    return [int(i) for i in from_attribute(op.attrs)["inplace_indices"]]


def _leaves(type_: ir.Type) -> Iterator[ir.Type]:
    """The types in a tuple of tuples, in order."""
    if not isinstance(type_, ir.TupleType):
        yield type_
        return
    for number in range(type_.num_types):
        yield from _leaves(type_.get_type(number))


def _packed(values: Iterator[ir.Value], type_: ir.Type) -> ir.Value:
    """The tuple of tuples that holds the values in order."""
    if not isinstance(type_, ir.TupleType):
        return next(values)
    fields = [_packed(values, type_.get_type(n)) for n in range(type_.num_types)]
    return tensors.pack(fields)


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


def _call(op: ir.OpView, arguments: list[ir.Value]) -> ir.OpView:
    nothing = [ir.TupleType.get_tuple([])]
    if isinstance(op, CallDpsPackedOp):
        name = ir.StringAttr(op.attributes["callee"]).value
        attrs = ir.DictAttr.get({})
        return graph.CallExternOp(arguments, callee=name, attrs=attrs, results=nothing)
    symbols = Symbols()
    numbers = [
        graph.PrimValueOp(
            value=ir.UnitAttr.get(),
            results=[to_mlir(PrimStructInfo(value=term), symbols)],
        ).result
        for term in _numbers(op, symbols)
    ]
    source = op
    if isinstance(op, graph.CallOperatorOp):
        source = tensors.elements(op.args)[0].owner.opview
    callee = ir.FlatSymbolRefAttr(source.attributes["callee"]).value
    return graph.CallOp([*arguments, *numbers], callee=callee, results=nothing)


def _numbers(op: ir.OpView, symbols: Symbols) -> Sequence[prim.PrimExpr]:
    """The numbers that the call passes."""
    if isinstance(op, graph.CallOperatorOp):
        given = [
            from_mlir(value.type, symbols) for value in tensors.elements(op.args)[2:]
        ]
        return [
            n for i in given if isinstance(i, ShapeStructInfo) for n in i.values or ()
        ]
    if names.TIR_VARS not in op.attributes:
        return []
    return symbols.terms(tensors.python_value(op.attributes[names.TIR_VARS]))
