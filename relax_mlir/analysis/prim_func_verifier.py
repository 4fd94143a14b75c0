"""Verifier of tensor programs (PrimFuncs), beyond the IRDL verifier of their operations."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mlir import ir
from mlir.dialects import func

from relax_mlir.analysis.index_maps import affine_form
from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import AllocBufferOp, BlockOp, attribute_names
from relax_mlir.errors import IRError
from relax_mlir.ir.traversal import own_operations, values_read
from relax_mlir.symbolic.intervals import contains, hull

__all__ = [
    "argument_shape",
    "argument_symbols",
    "depends_on_loops",
    "verify_prim_func",
]

_ACCESSES = {"memref.load": 1, "memref.store": 2}  # operands before the indices


def verify_prim_func(function: func.FuncOp) -> None:
    """Verifies a tensor program: arguments, buffers, blocks and accesses.

    Inputs are read-only. An affine index is in bounds at all points of its block's domain,
    unless a branch guards it.

    Raises:
        IRError: an invariant is violated.
    """
    try:
        inputs = _check_arguments(function)
    except ValueError as error:
        raise _located(function, error) from error
    for block in function.regions[0].blocks:
        _check_operations(block, frozenset(inputs), None, ())


def _check_operations(
    block: ir.Block,
    inputs: frozenset[ir.Value],
    axes: Mapping[ir.Value, int] | None,
    extents: Sequence[int],
) -> None:
    """Verifies the operations of a block, including those in branches and loops.

    Args:
        inputs: the read-only buffers.
        axes: the axis variables, by number; None if not the whole domain is executed.
        extents: of the axes; negative if dynamic.
    """
    for op in own_operations(block):
        name = op.operation.name
        try:
            if name in _ACCESSES:
                _check_access(op, _ACCESSES[name], inputs, axes, extents)
            elif isinstance(op, AllocBufferOp):
                _check_alloc(op)
            elif isinstance(op, BlockOp):
                _check_block(op)
        except ValueError as error:
            raise _located(op, error) from error
        if isinstance(op, BlockOp):
            _check_bodies(op, inputs)
        else:
            for region in op.regions:
                for inner in region.blocks:
                    _check_operations(inner, inputs, None, ())


def _check_bodies(op: BlockOp, inputs: frozenset[ir.Value]) -> None:
    extents = _static_extents(op)
    is_whole = 0 not in extents and not len(op.bindings)
    for block in _bodies(op):
        axes: dict[ir.Value, int] = {a: i for i, a in enumerate(block.arguments)}
        _check_operations(block, inputs, axes if is_whole else None, extents)


def _located(op: ir.OpView, error: ValueError) -> IRError:
    return IRError(f"invalid module: {op.location}: `{op.operation.name}`: {error}")


def _check_arguments(function: func.FuncOp) -> list[ir.Value]:
    """The input buffers; the others are destinations."""
    arguments: list[ir.Value] = list(function.arguments)
    buffers = [a for a in arguments if isinstance(a.type, ir.MemRefType)]
    sizes = [n for n, a in enumerate(arguments) if isinstance(a.type, ir.IndexType)]
    numbers = [
        n
        for n in range(len(arguments))
        if attribute_names.PARAM in _argument_attributes(function, n)
    ]
    if buffers != arguments[: len(buffers)] or any(
        n not in sizes and n not in numbers for n in range(len(buffers), len(arguments))
    ):
        raise ValueError(
            "arguments: expected buffers first, and then sizes and scalars"
        )
    known = {_symbol(function, number) for number in sizes}
    if len(known) != len(sizes):
        raise ValueError("two size arguments have the same symbol")
    for number in range(len(buffers)):
        for dim in argument_shape(function, number):
            missing = [s for s in shapes.symbols_of(dim) if s not in known]
            if missing:
                raise ValueError(
                    f"buffer {number}: no argument for symbol `{missing[0]}`"
                )
    return buffers[: len(buffers) - _output_count(function, len(buffers))]


def _output_count(function: func.FuncOp, buffers: int) -> int:
    attrs: Any = function.attributes  # Any: the stubs know no kinds of attributes
    count = attrs["tir.num_outputs"].value if "tir.num_outputs" in attrs else 0
    least = 0 if attribute_names.RETURN_TYPE in attrs else 1
    if not least <= count <= buffers:
        raise ValueError(
            f"`tir.num_outputs`: expected {least} to {buffers}, the number of buffers, "
            f"got {count}"
        )
    return count


def _symbol(function: func.FuncOp, number: int) -> str:
    attrs = _argument_attributes(function, number)
    if "tir.symbol" not in attrs:
        raise ValueError(f"size argument {number}: expected a `tir.symbol` attribute")
    return attrs["tir.symbol"].value


def _argument_attributes(function: func.FuncOp, number: int) -> Any:  # Any: see above
    attrs: Any = function.attributes
    return ir.DictAttr(attrs["arg_attrs"][number]) if "arg_attrs" in attrs else {}


def argument_shape(program: func.FuncOp, number: int) -> tuple[Dim, ...]:
    """The dimensions of a buffer argument.

    Raises:
        ValueError: a dynamic one has no symbol, or the symbols do not fit the buffer.
    """
    type_ = program.type.inputs[number]
    if type_.has_static_shape:
        return tuple(type_.shape)
    attrs = _argument_attributes(program, number)
    if "tir.shape" not in attrs:
        raise ValueError(
            f"buffer {number}: `{type_}`: expected a `tir.shape` attribute"
        )
    shape = tensors.python_value(attrs["tir.shape"])
    _check_fits(f"buffer {number}", shape, type_)
    return shape


def _check_fits(what: str, named: Sequence[Dim], type_: ir.MemRefType) -> None:
    dynamic = ir.ShapedType.get_dynamic_size()
    sizes = [d if isinstance(d, int) else dynamic for d in named]
    if sizes != list(type_.shape):
        raise ValueError(
            f"{what}: expected the shape of `{type_}`, got {shapes.format_shape(named)}"
        )


def _check_alloc(op: AllocBufferOp) -> None:
    type_ = op.buffer.type
    _check_fits("`shape`", tensors.python_value(op.shape), type_)
    dynamic = [d for d in tensors.python_value(op.shape) if not isinstance(d, int)]
    if len(op.sizes) != len(dynamic):
        raise ValueError(f"expected {len(dynamic)} sizes, got {len(op.sizes)}")
    for dim, value in zip(dynamic, op.sizes, strict=True):
        name = _symbol_of(value)
        if name is not None and str(dim) != name:
            raise ValueError(f"`shape`: expected the size `{name}`, got `{dim}`")


def _symbol_of(value: ir.Value) -> str | None:
    """The symbol of a size argument; None for other values."""
    block = value.owner
    function = block.owner.opview if isinstance(block, ir.Block) else None
    is_argument = isinstance(function, func.FuncOp)
    return argument_symbols(function).get(value) if is_argument else None


def _check_block(op: BlockOp) -> None:
    kinds, static = op.kinds.value, _static_extents(op)
    rank = len(kinds)
    if set(kinds) - set("SROC"):
        raise ValueError(f"`kinds`: expected letters S, R, O and C, got `{kinds}`")
    if len(static) != rank or min(static, default=0) < -1:
        raise ValueError(
            f"`static_extents`: expected {rank}, each a size or -1, got {static}"
        )
    if len(op.extents) != static.count(-1):
        raise ValueError(
            f"expected {static.count(-1)} extents, one for each -1, "
            f"got {len(op.extents)}"
        )
    if len(op.bindings) not in (0, rank):
        raise ValueError(f"expected no bindings or {rank}, got {len(op.bindings)}")
    if len(op.body.blocks) != 1 or len(op.init.blocks) > 1:
        raise ValueError("expected one body block, and at most one init block")
    for block in _bodies(op):
        _check_axes(block, kinds)
    for axis, kind in zip(_init_axes(op), kinds, strict=False):
        if kind == "R" and next(iter(axis.uses), None) is not None:
            raise ValueError("init must not depend on a reduction axis")


def _static_extents(op: BlockOp) -> list[int]:
    extents: Any = op.static_extents  # Any: the stubs know no arrays
    return list(extents)


def _bodies(op: BlockOp) -> Iterator[ir.Block]:
    for region in op.regions:
        yield from region.blocks


def _init_axes(op: BlockOp) -> list[ir.Value]:
    return list(op.init.blocks[0].arguments) if op.has_init else []


def _check_axes(block: ir.Block, kinds: str) -> None:
    types = [a.type for a in block.arguments]
    if len(types) != len(kinds) or not all(isinstance(t, ir.IndexType) for t in types):
        found = ", ".join(map(str, types))
        raise ValueError(f"expected {len(kinds)} axes of type index, got ({found})")


def _check_access(
    op: ir.OpView,
    first: int,
    inputs: frozenset[ir.Value],
    axes: Mapping[ir.Value, int] | None,
    extents: Sequence[int],
) -> None:
    operands = list(op.operands)
    buffer = operands[first - 1]
    if first == 2 and buffer in inputs:
        raise ValueError("store to an input: inputs are read-only")
    if axes is None:
        return
    sizes = ir.MemRefType(buffer.type).shape
    for number, (index, size) in enumerate(zip(operands[first:], sizes, strict=True)):
        axis = axes.get(index)
        if size < 0 or (axis is not None and extents[axis] <= size):  # fast path
            continue
        form = affine_form(index, axes)
        if form is None or any(extents[a] < 0 for a in form.coefficients):
            continue
        found = form.range_over(
            lambda a: hull([(0, 0), (extents[a] - 1, extents[a] - 1)])
        )
        if not contains((0, size - 1), found):
            low, high = found
            raise ValueError(
                f"index {number}: expected 0 to {size - 1}, got {low} to {high}"
            )


def argument_symbols(function: func.FuncOp) -> dict[ir.Value, str]:
    """The size arguments of a program, by symbol."""
    if "arg_attrs" not in function.attributes:
        return {}
    described = [ir.DictAttr(a) for a in ir.ArrayAttr(function.attributes["arg_attrs"])]
    arguments = function.entry_block.arguments
    return {
        argument: ir.StringAttr(attrs[attribute_names.SYMBOL]).value
        for argument, attrs in zip(arguments, described, strict=True)
        if attribute_names.SYMBOL in attrs
    }


def depends_on_loops(value: ir.Value) -> bool:
    """Whether a value is computed from loop variables or block axes."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        return not isinstance(owner.owner.opview, func.FuncOp)
    return any(map(depends_on_loops, values_read(owner)))
