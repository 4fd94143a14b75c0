"""Permutation of the dimensions of a tensor program's buffers."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from mlir import ir
from mlir.dialects import arith, func

from relax_mlir.analysis.index_maps import affine_form
from relax_mlir.analysis.prim_func_verifier import argument_shape
from relax_mlir.dialects import tensors
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import AllocBufferOp, BlockOp
from relax_mlir.ir.traversal import own_operations, walk
from relax_mlir.rewrite.patterns import replace
from relax_mlir.symbolic.affine_forms import AffineForm

__all__ = [
    "AxisOrder",
    "inverse_permutation",
    "may_permute",
    "permute_buffers",
    "permute_items",
    "set_argument_type",
    "slice_argument",
]

T = TypeVar("T")
AxisOrder = tuple[int, ...]  # the old dimension of each new one

_FIRST_INDEX = {"memref.load": 1, "memref.store": 2}


def permute_items(items: Sequence[T], order: AxisOrder) -> list[T]:
    """Permutes per-dimension items from the old order to the new one."""
    return [items[old] for old in order]


def inverse_permutation(order: AxisOrder) -> AxisOrder:
    """The inverse permutation."""
    return tuple(map(order.index, range(len(order))))


def may_permute(function: func.FuncOp) -> bool:
    """Whether a program accesses its buffers by element loads and stores only."""
    buffers = [a for a in function.arguments if isinstance(a.type, ir.MemRefType)]
    buffers += [op.buffer for op in walk(function) if isinstance(op, AllocBufferOp)]
    users = [use.owner.operation.name for buffer in buffers for use in buffer.uses]
    return all(name in _FIRST_INDEX for name in users)


def permute_buffers(function: func.FuncOp, orders: Mapping[int, AxisOrder]) -> None:
    """Permutes the dimensions of some of a program's arguments.

    Internal buffers of the result's shape are permuted like the result, and the axes of blocks
    are reordered to write in memory order.

    Args:
        orders: permutations by argument number.
    """
    result = _result_number(function)
    if result in orders:
        shape = argument_shape(function, result)
        for op in list(own_operations(function.entry_block)):
            if isinstance(op, AllocBufferOp) and _shape_of(op) == shape:
                _permute_alloc(op, orders[result])
    for number, order in orders.items():
        _permute_argument(function, number, order)
    for op in list(own_operations(function.entry_block)):
        if isinstance(op, BlockOp):
            _order_axes(op)


def _result_number(function: func.FuncOp) -> int:
    buffers = [a for a in function.arguments if isinstance(a.type, ir.MemRefType)]
    return len(buffers) - 1


def _shape_of(alloc: AllocBufferOp) -> tuple[object, ...]:
    return tuple(tensors.python_value(alloc.attributes["shape"]))


def _permute_argument(function: func.FuncOp, number: int, order: AxisOrder) -> None:
    argument = function.arguments[number]
    _permute_accesses(argument, order)
    shape = permute_items(argument_shape(function, number), order)
    set_argument_type(function, number, _permuted_type(argument.type, order), shape)


def slice_argument(
    function: func.FuncOp, number: int, begins: Sequence[int], shape: Sequence[Dim]
) -> None:
    """Makes a program read a slice of a larger buffer instead of a buffer of that size.

    Args:
        begins: offset of the slice in each dimension; shape: of the larger buffer.
    """
    buffer = function.arguments[number]
    for use in list(buffer.uses):
        access = use.owner.operation
        first = _FIRST_INDEX[access.name]
        for place, begin in enumerate(begins, first):
            if begin:
                with ir.InsertionPoint(access), access.location:
                    offset = arith.constant(ir.IndexType.get(), begin)
                    access.operands[place] = arith.addi(access.operands[place], offset)
    dynamic = ir.ShapedType.get_dynamic_size()
    sizes = [size if isinstance(size, int) else dynamic for size in shape]
    type_ = ir.MemRefType.get(sizes, ir.MemRefType(buffer.type).element_type)
    set_argument_type(function, number, type_, shape)


def set_argument_type(
    function: func.FuncOp, number: int, type_: ir.MemRefType, shape: Sequence[Dim]
) -> None:
    """Changes the type of a buffer argument.

    Args:
        shape: of the buffer, with symbolic dimensions, which the type lacks.
    """
    function.arguments[number].set_type(type_)
    if "arg_attrs" in function.attributes:
        attrs = [ir.DictAttr(a) for a in function.attributes["arg_attrs"]]
        fields = {named.name: named.attr for named in attrs[number]}
        if "tir.shape" in fields:
            fields["tir.shape"] = tensors.shape_attr(shape)
            attrs[number] = ir.DictAttr.get(fields)
            function.attributes["arg_attrs"] = ir.ArrayAttr.get(attrs)
    inputs = [a.type for a in function.arguments]
    whole = ir.FunctionType.get(inputs, [])
    function.attributes["function_type"] = ir.TypeAttr.get(whole)


def _permuted_type(type_: ir.Type, order: AxisOrder) -> ir.MemRefType:
    old = ir.MemRefType(type_)
    return ir.MemRefType.get(permute_items(list(old.shape), order), old.element_type)


def _permute_alloc(op: AllocBufferOp, order: AxisOrder) -> None:
    _permute_accesses(op.buffer, order)
    shape = _shape_of(op)
    dynamic = iter(list(op.sizes))
    sizes = [None if isinstance(d, int) else next(dynamic) for d in shape]
    with ir.InsertionPoint(op), op.location:
        made = ir.Operation.create(
            op.operation.name,
            results=[_permuted_type(op.buffer.type, order)],
            operands=[s for s in permute_items(sizes, order) if s is not None],
            attributes={
                **{named: op.attributes[named] for named in op.attributes},
                "shape": tensors.shape_attr(permute_items(shape, order)),
            },
        )
    replace(op, made.results[0])


def _permute_accesses(buffer: ir.Value, order: AxisOrder) -> None:
    for use in list(buffer.uses):
        access = use.owner.operation
        first = _FIRST_INDEX[access.name]
        indices = list(access.operands)[first:]
        for place, value in enumerate(permute_items(indices, order)):
            access.operands[first + place] = value


def _order_axes(op: BlockOp) -> None:
    """Reorders the spatial axes of a block to the order in which it writes."""
    stores = [o for o in walk(op) if o.operation.name == "memref.store"]
    axes = {a: i for i, a in enumerate(op.body.blocks[0].arguments)}
    written = [affine_form(v, axes) for v in list(stores[-1].operands)[2:]]
    first = [axis for form in written if form for axis in _by_step(form)]
    spatial = [i for i, kind in enumerate(op.kinds.value) if kind == "S"]
    order = [*first, *(i for i in axes.values() if i not in first)]
    if sorted(first) != spatial or order == list(range(len(order))):
        return
    static, kinds = list(op.static_extents), op.kinds.value
    dynamic = iter(list(op.extents))
    sizes = [next(dynamic) if e < 0 else None for e in static]
    given = [s for s in permute_items(sizes, tuple(order)) if s is not None]
    for place, value in enumerate(given):
        op.operation.operands[place] = value
    op.attributes["static_extents"] = ir.DenseI64ArrayAttr.get(
        permute_items(static, tuple(order))
    )
    op.attributes["kinds"] = ir.StringAttr.get("".join(kinds[i] for i in order))
    for region in op.regions:
        for block in region.blocks:
            _permute_arguments(block, order)


def _by_step(form: AffineForm[int]) -> list[int]:
    """The axes of an index, largest stride first."""
    return sorted(form.coefficients, key=lambda axis: -form.coefficients[axis])


def _permute_arguments(block: ir.Block, order: Sequence[int]) -> None:
    old = list(block.arguments)
    for number in order:
        new = block.add_argument(old[number].type, ir.Location.unknown())
        old[number].replace_all_uses_with(new)
    for _ in old:
        block.erase_argument(0)
