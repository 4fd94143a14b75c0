"""Utilities for Relax functions in passes: operations, use-def, sizes, attributes, names."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from mlir import ir
from mlir.dialects import func

from relax_mlir.analysis.symbol_substitution import substitute_attributes
from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax import graph
from relax_mlir.dialects.relax.core import ConstantOp, TupleGetItemOp
from relax_mlir.dialects.shapes import Dim
from relax_mlir.ir import function_attributes
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import blocks_of, operations_of, own_operations
from relax_mlir.objects.expr.struct_info_types import from_mlir, to_mlir
from relax_mlir.objects.function import store_attrs
from relax_mlir.objects.infer.struct_info import substitute_info
from relax_mlir.objects.mlir_attributes import from_attribute, to_attribute
from relax_mlir.objects.operators import operation_class
from relax_mlir.objects.prim.symbolic_sizes import Symbols
from relax_mlir.rewrite.patterns import erase_dead, replace
from relax_mlir.runtime.derived_constants import Derivation, derive

__all__ = [
    "SCRIPT_ATTRIBUTES",
    "bind_next_to",
    "build_primitive",
    "copy_script_attributes",
    "dataflow_block_number",
    "dataflow_blocks",
    "derived_constant",
    "emit_next_to",
    "erase_parameters",
    "erase_unused_inline",
    "flatten_tuple",
    "graph_attrs",
    "graph_functions",
    "is_inline",
    "leaves_of",
    "map_types",
    "outline_calls",
    "pooled_constant",
    "set_graph_attrs",
    "substitute_sizes",
    "substituted_type",
    "symbols_in",
    "transfer_output",
    "tuple_parts",
    "update_type",
]

# Attributes that record a script's binding of a value.
SCRIPT_ATTRIBUTES = (
    function_attributes.NAME,
    function_attributes.BLOCK,
    function_attributes.OUTPUT,
)


def graph_functions(module: IRModule) -> list[func.FuncOp]:
    """The functions of a module that are not tensor programs, in order."""
    return [
        f
        for f in module.func_ops()
        if not f.is_external and not function_attributes.is_prim_func(f)
    ]


_INLINE = (
    *(ConstantOp, graph.ShapeExprOp, graph.PrimValueOp, graph.StringOp),
    *(graph.DataTypeOp, graph.GlobalVarOp, graph.ExternFuncOp),
)


def is_inline(op: ir.OpView | ir.Operation) -> bool:
    """Whether an operation is an unnamed leaf or tuple pack, written in place of an operand."""
    view = op.operation.opview
    is_leaf = isinstance(view, _INLINE) or op.operation.name == tensors.TUPLE_PACK
    return is_leaf and function_attributes.NAME not in op.operation.attributes


def erase_unused_inline(function: func.FuncOp) -> None:
    """Erases unused inline operations."""
    for block in blocks_of(function):
        erase_dead(block, is_inline)


def copy_script_attributes(source: ir.OpView, target: ir.OpView) -> None:
    """Copies the attributes of a script's binding."""
    for name in SCRIPT_ATTRIBUTES:
        if name in source.operation.attributes:
            target.operation.attributes[name] = source.operation.attributes[name]


def transfer_output(op: ir.OpView, value: ir.Value) -> None:
    """Makes the binding of ``value`` visible where that of ``op``, which it replaces, is."""
    source = value.owner
    if function_attributes.OUTPUT not in op.operation.attributes or isinstance(
        source, ir.Block
    ):
        return
    inner = source.attributes
    is_hidden = (
        function_attributes.BLOCK in inner
        and ir.IntegerAttr(inner[function_attributes.BLOCK]).value >= 0
        and function_attributes.OUTPUT not in inner
    )
    if isinstance(source.opview, ConstantOp) or is_hidden:
        for name in SCRIPT_ATTRIBUTES:
            inner[name] = op.operation.attributes[name]


def dataflow_block_number(op: ir.OpView) -> int:
    """The dataflow block of a binding; -1 outside of any."""
    attributes = op.operation.attributes
    if function_attributes.BLOCK not in attributes:
        return -1
    return ir.IntegerAttr(attributes[function_attributes.BLOCK]).value


def dataflow_blocks(block: ir.Block) -> list[list[ir.OpView]]:
    """The bindings of each dataflow block, in order."""
    found: dict[int, list[ir.OpView]] = {}
    for op in own_operations(block):
        if dataflow_block_number(op) >= 0 and len(op.operation.results):
            found.setdefault(dataflow_block_number(op), []).append(op)
    return list(found.values())


def leaves_of(value: ir.Value) -> Iterator[ir.Value]:
    """The leaves of a value: the operands of tuple packing, or the value itself."""
    owner = value.owner
    if isinstance(owner, ir.Block) or not is_inline(owner) or not len(owner.operands):
        yield value
        return
    for operand in owner.operands:
        yield from leaves_of(operand)


def bind_next_to(op: ir.OpView, other: ir.OpView, name: str = "lv") -> None:
    """Binds ``op`` to a new variable, in the dataflow block of ``other``."""
    attributes = op.operation.attributes
    if (
        function_attributes.NAME not in other.operation.attributes
        and dataflow_block_number(other) < 0
    ):
        return
    attributes[function_attributes.NAME] = ir.StringAttr.get(name)
    attributes[function_attributes.BLOCK] = to_attribute(dataflow_block_number(other))


def tuple_parts(value: ir.Value, next_to: ir.OpView | None = None) -> list[ir.Value]:
    """The elements of a tuple: the values it packs, or new ``tuple_get_item`` operations.

    Args:
        value: of tuple type.
        next_to: an operation next to which the new ones are bound.
    """
    packed = tensors.packed_values(value)
    if packed is not None:
        return packed
    count = len(tensors.tuple_types(value.type))
    items = [TupleGetItemOp(value, index=i) for i in range(count)]
    if next_to is not None:
        for item in items:
            bind_next_to(item, next_to)
    return [item.result for item in items]


def flatten_tuple(value: ir.Value, next_to: ir.OpView | None = None) -> list[ir.Value]:
    """The leaves of nested tuples, as :func:`tuple_parts`; any other value is its own leaf."""
    if not isinstance(value.type, ir.TupleType):
        return [value]
    parts = tuple_parts(value, next_to)
    return [leaf for part in parts for leaf in flatten_tuple(part, next_to)]


def emit_next_to(
    other: ir.OpView,
    operator: str,
    *operands: "ir.Value | Sequence[ir.Value]",
    **attrs: Any,  # of any attribute type
) -> ir.Value:
    """Creates an operation at the insertion point, bound next to ``other``; returns its result.

    Args:
        other: the operation that it is created for.
        operator: Relax's name without ``relax.``.
        operands: of the operation.
        attrs: of the operation.
    """
    kind = operation_class(f"relax.{operator}")
    assert kind is not None, operator
    made = kind(*operands, **attrs)
    bind_next_to(made, other)
    return made.operation.results[0]


def graph_attrs(function: func.FuncOp) -> dict[str, Any]:
    """The attributes of a function in script form."""
    found: dict[str, Any] = {}
    if not function_attributes.is_private(function):
        found["global_symbol"] = function.name.value
    if function_attributes.ATTRS in function.attributes:
        found.update(from_attribute(function.attributes[function_attributes.ATTRS]))
    elif function_attributes.is_primitive(function):
        found["Primitive"] = True
    return found


def set_graph_attrs(function: func.FuncOp, attrs: Mapping[str, Any]) -> None:
    """Replaces the attributes of a function; without ``global_symbol`` it becomes private."""
    store_attrs(function, attrs)


def pooled_constant(module: IRModule, array: np.ndarray, key: str) -> ir.Value:
    """Creates a constant at the insertion point, and adds its array to the module."""
    return ConstantOp.of(array, module.constants, key)


def derived_constant(
    module: IRModule, source: ConstantOp, derivation: Derivation, key: str
) -> ir.Value:
    """Creates a constant that is computed from another one, by a derivation that the module keeps.

    Args:
        derivation: whose source is the key of ``source``, if it has one.
    """
    array = derive(derivation, source.array(module.constants))
    made = pooled_constant(module, array, key)
    constant = made.owner
    assert isinstance(constant, ConstantOp)
    if source.key is not None and constant.key is not None:
        module.derivations[constant.key] = derivation
    return made


def update_type(function: func.FuncOp) -> None:
    """Updates the function type from the arguments and the returned values."""
    block = function.entry_block
    returned = list(own_operations(block))[-1]
    inputs = [a.type for a in block.arguments]
    results = [v.type for v in returned.operands]
    type_ = ir.FunctionType.get(inputs, results)
    function.attributes["function_type"] = ir.TypeAttr.get(type_)


def erase_parameters(function: func.FuncOp, numbers: Iterable[int]) -> None:
    """Erases unused parameters."""
    dropped = set(numbers)
    block = function.entry_block
    if "arg_attrs" in function.attributes:
        attrs = ir.ArrayAttr(function.attributes["arg_attrs"])
        kept = [a for i, a in enumerate(attrs) if i not in dropped]
        function.attributes["arg_attrs"] = ir.ArrayAttr.get(kept)
    for number in sorted(dropped, reverse=True):
        block.erase_argument(number)
    update_type(function)


def symbols_in(types: Iterable[ir.Type]) -> list[str]:
    """The symbols in types, in order."""
    found: dict[str, None] = {}
    for type_ in types:
        symbols = Symbols()
        from_mlir(type_, symbols)
        found.update((symbols.name(v), None) for v in symbols.vars)
    return list(found)


def substituted_type(type_: ir.Type, values: Mapping[str, Dim]) -> ir.Type:
    """Substitutes symbols in a type."""
    if isinstance(type_, ir.RankedTensorType) and type_.encoding is None:
        return type_
    symbols = Symbols()
    info = from_mlir(type_, symbols)
    terms = {symbols.var(name): symbols.expr(dim) for name, dim in values.items()}
    return to_mlir(substitute_info(info, terms), symbols)


def map_types(function: func.FuncOp, change: Callable[[ir.Type], ir.Type]) -> None:
    """Applies a function to the types of all values of a function, and to those in attributes."""
    changed: dict[ir.Type, ir.Type] = {}

    def new(type_: ir.Type) -> ir.Type:
        if type_ not in changed:
            changed[type_] = change(type_)
        return changed[type_]

    for block in blocks_of(function):
        for value in block.arguments:
            value.set_type(new(value.type))
        for op in own_operations(block):
            for value in op.operation.results:
                value.set_type(new(value.type))
            _map_type_attributes(op, new)
    update_type(function)


def _map_type_attributes(op: ir.OpView, new: Callable[[ir.Type], ir.Type]) -> None:
    attributes = op.operation.attributes
    for name in ("types", "relax.types"):
        if name in attributes:
            types = [ir.TypeAttr(t).value for t in ir.ArrayAttr(attributes[name])]
            made = [ir.TypeAttr.get(new(type_)) for type_ in types]
            attributes[name] = ir.ArrayAttr.get(made)


def substitute_sizes(function: func.FuncOp, values: Mapping[str, Dim]) -> None:
    """Substitutes symbols in all types and attributes of a function."""
    with function.context:
        map_types(function, lambda type_: substituted_type(type_, values))
        for op in operations_of(function):
            substitute_attributes(op.operation, values)


def outline_calls(module: IRModule, calls: Sequence[ir.OpView], name: str) -> None:
    """Outlines calls into a primitive function, called in place of the last.

    Args:
        calls: in order; only the last one's result has users outside of them.
        name: of the function.
    """
    last = calls[-1]
    with ir.InsertionPoint.at_block_begin(module.mlir.body):
        _, inputs = build_primitive(calls, name)
    with ir.InsertionPoint(last), last.location:
        call = graph.CallOp(inputs, callee=name, results=[last.results[0].type])
    replace(last, call.result)


def build_primitive(
    calls: Sequence[ir.OpView], name: str
) -> tuple[func.FuncOp, list[ir.Value]]:
    """Builds a primitive function of calls at the insertion point.

    Returns:
        The function, and its operands.
    """
    last = calls[-1]
    inside = {c.results[0] for c in calls}
    inputs: list[ir.Value] = []
    for call in calls:
        for value in tensors.tuple_elements(call.operands[0]):
            if value not in inside and value not in inputs:
                inputs.append(value)
    signature = ir.FunctionType.get([v.type for v in inputs], [last.results[0].type])
    with last.location:
        function = func.FuncOp(name, signature, visibility="private")
        function.attributes[function_attributes.PRIMITIVE] = ir.UnitAttr.get()
        block = function.add_entry_block()
        mapping: dict[ir.Value, ir.Value] = {}
        mapping.update(zip(inputs, block.arguments, strict=True))
        with ir.InsertionPoint(block):
            for call in calls:
                _clone_call(call, mapping)
            func.ReturnOp([mapping[last.results[0]]])
    return function, inputs


def _clone_call(call: ir.OpView, mapping: dict[ir.Value, ir.Value]) -> None:
    with call.location:
        arguments = [mapping[v] for v in tensors.tuple_elements(call.operands[0])]
        copy = call.operation.clone()
        copy.operands[0] = tensors.pack_tuple(arguments)
        copy.move_after(copy.operands[0].owner)
    mapping[call.results[0]] = copy.results[0]
