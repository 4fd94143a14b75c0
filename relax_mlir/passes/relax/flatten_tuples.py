"""Flattening of tuple parameters and results of functions."""

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax.core import TupleGetItemOp
from relax_mlir.ir.traversal import operations_of, own_operations
from relax_mlir.rewrite.functions import flatten_tuple, transfer_output, update_type
from relax_mlir.rewrite.patterns import replace

__all__ = ["flatten_parameters", "flatten_results", "fold_tuple_get_items"]


def flatten_parameters(function: func.FuncOp) -> None:
    """Replaces each tuple parameter by one parameter per element; parameters lose their names."""
    block = function.entry_block
    if not any(isinstance(a.type, ir.TupleType) for a in block.arguments):
        return
    input_names = _input_names(function)
    for name in ("arg_attrs", "relax.input_names"):
        if name in function.attributes:
            del function.attributes[name]
    old = list(block.arguments)
    made: list[str] = []
    with function.location:
        for argument, name in zip(old, input_names, strict=True):
            value = _parameter(block, argument.type, name, made)
            argument.replace_all_uses_with(value)
    for number in range(len(old) - 1, -1, -1):
        block.erase_argument(number)
    update_type(function)
    if len(made) == len(set(made)):
        attrs = ir.ArrayAttr.get([ir.StringAttr.get(n) for n in made])
        function.attributes["relax.input_names"] = attrs


def _input_names(function: func.FuncOp) -> list[str]:
    if "relax.input_names" in function.attributes:
        return [n.value for n in ir.ArrayAttr(function.attributes["relax.input_names"])]
    return [f"x{i}" for i in range(len(function.type.inputs))]


def _parameter(block: ir.Block, type_: ir.Type, name: str, made: list[str]) -> ir.Value:
    """Adds one parameter, or one per leaf of a tuple type and the tuple packed from them."""
    if not isinstance(type_, ir.TupleType):
        made.append(name)
        return block.add_argument(type_, ir.Location.current)
    parts = [
        _parameter(block, type_.get_type(i), f"{name}_{i}", made)
        for i in range(type_.num_types)
    ]
    with ir.InsertionPoint.at_block_begin(block):
        value = tensors.pack_tuple(parts)
    # Inner tuples must be packed before the outer one.
    for part in reversed(parts):
        if not isinstance(part.owner, ir.Block):
            part.owner.move_before(value.owner)
    return value


def flatten_results(function: func.FuncOp) -> None:
    """Replaces each tuple result by one result per element."""
    fold_tuple_get_items(function)
    returned = list(own_operations(function.entry_block))[-1]
    values = list(returned.operands)
    if not any(isinstance(v.type, ir.TupleType) for v in values):
        return
    with ir.InsertionPoint(returned), returned.location:
        flat = [part for value in values for part in flatten_tuple(value)]
        func.ReturnOp(flat)
    returned.operation.erase()
    update_type(function)


def fold_tuple_get_items(function: func.FuncOp) -> None:
    """Folds ``tuple_get_item`` of a tuple packed in the same function to its element."""
    for op in operations_of(function):
        element = op.packed_value if isinstance(op, TupleGetItemOp) else None
        if element is not None:
            transfer_output(op, element)
            replace(op, element)
