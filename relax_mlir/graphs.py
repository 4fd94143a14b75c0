"""Functions of the graph level as passes see them: blocks, sizes, attributes, names."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax import graph
from relax_mlir.dialects.relax.core import ConstantOp
from relax_mlir.dialects.shapes import Dim
from relax_mlir.module import IRModule
from relax_mlir.objects import names
from relax_mlir.objects.attributes import from_attribute, to_attribute
from relax_mlir.objects.function import store_attrs
from relax_mlir.objects.infer import substitute_info
from relax_mlir.objects.operators import operation_class
from relax_mlir.objects.sizes import Symbols
from relax_mlir.objects.struct_info_types import from_mlir, to_mlir
from relax_mlir.renaming import substitute_attributes
from relax_mlir.rewriting import erase_dead, replace
from relax_mlir.traversal import blocks_of, own_operations

__all__ = [
    "PACK",
    "SCRIPT_ATTRIBUTES",
    "block_number",
    "blocks_of",
    "constant",
    "copy_script_attributes",
    "drop_unread",
    "emit",
    "erase_parameters",
    "function_of_calls",
    "graph_attrs",
    "graph_functions",
    "hand_over_output",
    "is_inline",
    "map_types",
    "operations_of",
    "outline_calls",
    "set_graph_attrs",
    "stand_beside",
    "substitute_sizes",
    "substituted_type",
    "symbols_in",
    "update_type",
    "users_of",
]

PACK = "builtin.unrealized_conversion_cast"
# By these the IR remembers how a script binds a value.
SCRIPT_ATTRIBUTES = (names.NAME, names.BLOCK, names.OUTPUT)


def graph_functions(module: IRModule) -> list[func.FuncOp]:
    """The functions that are no tensor programs, in order."""
    return [
        f for f in module.func_ops() if not f.is_external and not names.is_prim_func(f)
    ]


def operations_of(root: ir.Operation | ir.OpView) -> Iterator[ir.OpView]:
    """All operations below another, block by block, from a snapshot of each.

    The one that was last given may be erased, with what is inside.
    """
    for block in blocks_of(root):
        yield from list(own_operations(block))


_INLINE = (
    *(ConstantOp, graph.ShapeExprOp, graph.PrimValueOp, graph.StringOp),
    *(graph.DataTypeOp, graph.GlobalVarOp, graph.ExternFuncOp),
)


def is_inline(op: ir.OpView | ir.Operation) -> bool:
    """Whether an operation is an argument written where it is used."""
    view = op.operation.opview
    is_leaf = isinstance(view, _INLINE) or op.operation.name == PACK
    return is_leaf and names.NAME not in op.operation.attributes


def drop_unread(function: func.FuncOp) -> None:
    """Erase arguments that are written down and that no operation takes."""
    for block in blocks_of(function):
        erase_dead(block, is_inline)


def users_of(value: ir.Value) -> Iterator[ir.OpView]:
    """What reads a value, packing into tuples that no variable is looked through."""
    for use in value.uses:
        owner = use.owner
        if (
            owner.operation.name == PACK
            and names.NAME not in owner.operation.attributes
        ):
            for result in owner.operation.results:
                yield from users_of(result)
        else:
            yield owner


def copy_script_attributes(source: ir.OpView, target: ir.OpView) -> None:
    """Let a script bind ``target`` as it bound ``source``."""
    for name in SCRIPT_ATTRIBUTES:
        if name in source.operation.attributes:
            target.operation.attributes[name] = source.operation.attributes[name]


def hand_over_output(op: ir.OpView, value: ir.Value) -> None:
    """Let a value be seen where ``op`` is, which is replaced by it."""
    source = value.owner
    if names.OUTPUT not in op.operation.attributes or isinstance(source, ir.Block):
        return
    inner = source.attributes
    is_hidden = (
        names.BLOCK in inner
        and ir.IntegerAttr(inner[names.BLOCK]).value >= 0
        and names.OUTPUT not in inner
    )
    if isinstance(source.opview, ConstantOp) or is_hidden:
        for name in SCRIPT_ATTRIBUTES:
            inner[name] = op.operation.attributes[name]


def block_number(op: ir.OpView) -> int:
    """The dataflow block that a binding stands in; -1 outside of any."""
    attributes = op.operation.attributes
    if names.BLOCK not in attributes:
        return -1
    return ir.IntegerAttr(attributes[names.BLOCK]).value


def stand_beside(op: ir.OpView, other: ir.OpView, name: str = "lv") -> None:
    """Let a script bind ``op`` to a variable of its own, in the block of ``other``."""
    attributes = op.operation.attributes
    if names.NAME not in other.operation.attributes and block_number(other) < 0:
        return
    attributes[names.NAME] = ir.StringAttr.get(name)
    attributes[names.BLOCK] = to_attribute(block_number(other))


def emit(
    other: ir.OpView,
    operator: str,
    *operands: "ir.Value | Sequence[ir.Value]",
    **attrs: Any,  # as many types as attributes
) -> ir.Value:
    """The result of a new operation at the insertion point, bound beside ``other``.

    Args:
        other: the operation for whose sake it is made.
        operator: Relax's name without ``relax.``.
        operands: of the operation.
        attrs: of the operation.
    """
    kind = operation_class(f"relax.{operator}")
    assert kind is not None, operator
    made = kind(*operands, **attrs)
    stand_beside(made, other)
    return made.operation.results[0]


def graph_attrs(function: func.FuncOp) -> dict[str, Any]:
    """The attributes of a function as a script gives them."""
    found: dict[str, Any] = {}
    if not names.is_private(function):
        found["global_symbol"] = function.name.value
    if names.ATTRS in function.attributes:
        found.update(from_attribute(function.attributes[names.ATTRS]))
    elif "relax.primitive" in function.attributes:
        found["Primitive"] = True
    return found


def set_graph_attrs(function: func.FuncOp, attrs: Mapping[str, Any]) -> None:
    """Give a function these attributes alone; without ``global_symbol`` it is private."""
    store_attrs(function, attrs)


def constant(module: IRModule, array: np.ndarray, key: str) -> ir.Value:
    """An array as a constant at the insertion point."""
    return ConstantOp.of(array, module.constants, key)


def update_type(function: func.FuncOp) -> None:
    """Derive the type of a function from its arguments and from what it returns."""
    block = function.entry_block
    returned = list(own_operations(block))[-1]
    inputs = [a.type for a in block.arguments]
    results = [v.type for v in returned.operands]
    type_ = ir.FunctionType.get(inputs, results)
    function.attributes["function_type"] = ir.TypeAttr.get(type_)


def erase_parameters(function: func.FuncOp, numbers: Iterable[int]) -> None:
    """Drop parameters that nothing reads."""
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
    """The symbols that types mention, in order."""
    found: dict[str, None] = {}
    for type_ in types:
        symbols = Symbols()
        from_mlir(type_, symbols)
        found.update((symbols.name(v), None) for v in symbols.vars)
    return list(found)


def substituted_type(type_: ir.Type, values: Mapping[str, Dim]) -> ir.Type:
    """A type with sizes in place of symbols."""
    if isinstance(type_, ir.RankedTensorType) and type_.encoding is None:
        return type_
    symbols = Symbols()
    info = from_mlir(type_, symbols)
    terms = {symbols.var(name): symbols.term(dim) for name, dim in values.items()}
    return to_mlir(substitute_info(info, terms), symbols)


def map_types(function: func.FuncOp, change: Callable[[ir.Type], ir.Type]) -> None:
    """Change the types of all values of a function, and those in attributes."""
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
    """Put sizes in place of symbols, in all types and attributes of a function."""
    with function.context:
        map_types(function, lambda type_: substituted_type(type_, values))
        for op in operations_of(function):
            substitute_attributes(op.operation, values)


def outline_calls(module: IRModule, calls: Sequence[ir.OpView], name: str) -> None:
    """Move calls into a primitive function, called where the last one stood.

    Args:
        calls: in order; what reads others than the last is among them.
        name: of the function.
    """
    last = calls[-1]
    with ir.InsertionPoint.at_block_begin(module.mlir.body):
        _, inputs = function_of_calls(calls, name)
    with ir.InsertionPoint(last), last.location:
        call = graph.CallOp(inputs, callee=name, results=[last.results[0].type])
    replace(last, call.result)


def function_of_calls(
    calls: Sequence[ir.OpView], name: str
) -> tuple[func.FuncOp, list[ir.Value]]:
    """A primitive function at the insertion point that does what calls do.

    Returns:
        The function, and what it takes.
    """
    last = calls[-1]
    inside = {c.results[0] for c in calls}
    inputs: list[ir.Value] = []
    for call in calls:
        for value in tensors.elements(call.operands[0]):
            if value not in inside and value not in inputs:
                inputs.append(value)
    signature = ir.FunctionType.get([v.type for v in inputs], [last.results[0].type])
    with last.location:
        function = func.FuncOp(name, signature, visibility="private")
        function.attributes["relax.primitive"] = ir.UnitAttr.get()
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
        arguments = [mapping[v] for v in tensors.elements(call.operands[0])]
        copy = call.operation.clone()
        copy.operands[0] = tensors.pack(arguments)
        copy.move_after(copy.operands[0].owner)
    mapping[call.results[0]] = copy.results[0]
