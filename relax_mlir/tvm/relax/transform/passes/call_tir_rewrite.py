"""``relax-call-tir-rewrite``: lowers ``call_tir`` to destination-passing calls."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax import graph
from relax_mlir.dialects.relax.core import CallDpsPackedOp, CallTirOp
from relax_mlir.errors import PassError
from relax_mlir.ir import function_attributes
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import operations_of
from relax_mlir.objects import prim
from relax_mlir.objects.expr.struct_info import (
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
)
from relax_mlir.objects.expr.struct_info_types import from_mlir, to_mlir
from relax_mlir.objects.mlir_attributes import from_attribute
from relax_mlir.objects.prim.symbolic_sizes import Symbols
from relax_mlir.rewrite.functions import (
    bind_next_to,
    copy_script_attributes,
    erase_unused_inline,
    graph_functions,
)
from relax_mlir.rewrite.patterns import Pass, replace

__all__ = ["CallTirRewrite"]

_IN_PLACE = "relax.call_tir_inplace"


@dataclass(frozen=True)
class CallTirRewrite(Pass):
    """Allocates output tensors explicitly and passes them to the called programs.

    Outputs of in-place calls are aliases of their arguments.
    """

    known_as = "CallTIRRewrite"

    def run(self, module: IRModule) -> None:
        for function in graph_functions(module):
            for op in operations_of(function):
                if isinstance(op, (CallTirOp, CallDpsPackedOp)) or _is_in_place(op):
                    _rewrite(op)
            erase_unused_inline(function)


def _is_in_place(op: ir.OpView) -> bool:
    return isinstance(op, graph.CallOperatorOp) and op.operator.value == _IN_PLACE


def _rewrite(op: ir.OpView) -> None:
    result = op.operation.results[0]
    with ir.InsertionPoint(op), op.location:
        arguments = _arguments(op)
        types = list(_leaves(result.type))
        inplace_indices = _inplace_indices(op, len(types))
        outs = [
            arguments[index] if index >= 0 else _alloc(op, type_)
            for index, type_ in zip(inplace_indices, types, strict=True)
        ]
        allocated = [
            out for out, index in zip(outs, inplace_indices, strict=True) if index < 0
        ]
        call = _call(op, [*arguments, *allocated])
        bind_next_to(call, op, "_")
        if isinstance(result.type, ir.TupleType):
            new_result = _pack(iter(outs), result.type).owner.opview
        else:
            new_result = graph.BindOp(outs[0], results=[result.type])
    copy_script_attributes(op, new_result)
    replace(op, new_result.operation.results[0])


def _arguments(op: ir.OpView) -> list[ir.Value]:
    """Returns the tensor arguments of a call, without its outputs."""
    if not isinstance(op, graph.CallOperatorOp):
        return tensors.tuple_elements(op.operation.operands[0])
    return tensors.tuple_elements(tensors.tuple_elements(op.args)[1])


def _inplace_indices(op: ir.OpView, count: int) -> list[int]:
    """Returns the aliased argument index per result; -1 for a new tensor."""
    if not isinstance(op, graph.CallOperatorOp):
        return [-1] * count
    return [int(i) for i in from_attribute(op.attrs)["inplace_indices"]]


def _leaves(type_: ir.Type) -> Iterator[ir.Type]:
    """Yields the types in a nested tuple, in order."""
    if not isinstance(type_, ir.TupleType):
        yield type_
        return
    for index in range(type_.num_types):
        yield from _leaves(type_.get_type(index))


def _pack(values: Iterator[ir.Value], type_: ir.Type) -> ir.Value:
    """Packs values in order into a nested tuple."""
    if not isinstance(type_, ir.TupleType):
        return next(values)
    fields = [_pack(values, type_.get_type(n)) for n in range(type_.num_types)]
    return tensors.pack_tuple(fields)


def _alloc(op: ir.OpView, type_: ir.Type) -> ir.Value:
    """Emits ``R.builtin.alloc_tensor(shape, dtype, 0)``."""
    symbols = Symbols()
    info = from_mlir(type_, symbols)
    if not isinstance(info, TensorStructInfo) or info.shape is None:
        raise PassError(
            f"{op.location}: expected a tensor of known sizes, got `{type_}`"
        )
    sizes = to_mlir(ShapeStructInfo(info.shape.values), symbols)
    zero = to_mlir(PrimStructInfo(value=prim.const(0, "int64")), symbols)
    object_type = to_mlir(ObjectStructInfo(), symbols)
    alloc = graph.CallOperatorOp(
        [
            graph.ShapeExprOp(results=[sizes]).result,
            graph.DataTypeOp(value=info.dtype, results=[object_type]).result,
            graph.PrimValueOp(value=ir.UnitAttr.get(), results=[zero]).result,
            graph.StringOp(value="global", results=[object_type]).result,
        ],
        operator="relax.builtin.alloc_tensor",
        attrs=ir.DictAttr.get({}),
        types=ir.ArrayAttr.get([]),
        results=[type_],
    )
    bind_next_to(alloc, op, "alloc")
    return alloc.result


def _call(op: ir.OpView, arguments: list[ir.Value]) -> ir.OpView:
    empty_tuple = [ir.TupleType.get_tuple([])]
    if isinstance(op, CallDpsPackedOp):
        name = ir.StringAttr(op.attributes["callee"]).value
        attrs = ir.DictAttr.get({})
        return graph.CallExternOp(
            arguments, callee=name, attrs=attrs, results=empty_tuple
        )
    symbols = Symbols()
    scalars = [
        graph.PrimValueOp(
            value=ir.UnitAttr.get(),
            results=[to_mlir(PrimStructInfo(value=scalar), symbols)],
        ).result
        for scalar in _scalar_arguments(op, symbols)
    ]
    source = op
    if isinstance(op, graph.CallOperatorOp):
        source = tensors.tuple_elements(op.args)[0].owner.opview
    callee = ir.FlatSymbolRefAttr(source.attributes["callee"]).value
    return graph.CallOp([*arguments, *scalars], callee=callee, results=empty_tuple)


def _scalar_arguments(op: ir.OpView, symbols: Symbols) -> Sequence[prim.PrimExpr]:
    """Returns the scalar arguments of a call."""
    if isinstance(op, graph.CallOperatorOp):
        infos = [
            from_mlir(value.type, symbols)
            for value in tensors.tuple_elements(op.args)[2:]
        ]
        return [
            n for i in infos if isinstance(i, ShapeStructInfo) for n in i.values or ()
        ]
    if function_attributes.TIR_VARS not in op.attributes:
        return []
    return symbols.exprs(
        tensors.python_value(op.attributes[function_attributes.TIR_VARS])
    )
