"""Calls between graph functions, replaced by what they compute."""

from collections.abc import Callable, Mapping

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.relax import graph
from relax_mlir.dialects.relax.core import CallTirOp, TupleGetItemOp
from relax_mlir.dialects.shapes import Dim
from relax_mlir.errors import PassError
from relax_mlir.graphs import (
    PACK,
    SCRIPT_ATTRIBUTES,
    block_number,
    copy_script_attributes,
    graph_functions,
    operations_of,
    substituted_type,
    symbols_in,
)
from relax_mlir.module import IRModule
from relax_mlir.objects import names
from relax_mlir.objects.infer import sizes_of
from relax_mlir.objects.sizes import Symbols
from relax_mlir.objects.struct_info_types import from_mlir
from relax_mlir.renaming import substitute_attributes
from relax_mlir.rewriting import clone, has_uses, replace
from relax_mlir.traversal import own_operations

__all__ = ["inline_call", "inline_calls", "is_kernel", "size_values"]


def inline_calls(
    module: IRModule,
    wanted: Callable[[func.FuncOp], bool] = lambda function: True,
    *,
    keep_blocks: bool = False,
) -> bool:
    """Inline calls of graph functions that are no kernels; calls of values, too.

    Args:
        module: what to change.
        wanted: says which functions.
        keep_blocks: whether bindings stand in dataflow blocks as they did in what is
            inlined, rather than where the call did.

    Returns:
        Whether any was inlined.

    Raises:
        PassError: a function calls itself.
    """
    functions = {f.name.value: f for f in graph_functions(module)}
    changed = False
    for name, function in functions.items():
        changed |= _inline_in(function, functions, (name,), wanted, keep_blocks)
    return changed


def _inline_in(
    function: func.FuncOp,
    functions: Mapping[str, func.FuncOp],
    path: tuple[str, ...],
    wanted: Callable[[func.FuncOp], bool],
    keep_blocks: bool,
) -> bool:
    changed = False
    for op in operations_of(function):
        callee = _callee(op, functions)
        if callee is None or is_kernel(callee) or not wanted(callee):
            continue
        name = callee.name.value
        if name in path:
            raise PassError(f"{op.location}: `{name}` calls itself: cannot be inlined")
        _inline_in(callee, functions, (*path, name), wanted, keep_blocks)
        blocks = _Blocks(function, block_number(op)) if keep_blocks else None
        inline_call(op, callee.entry_block, blocks=blocks)
        changed = True
    for op in operations_of(function):
        if isinstance(op, graph.CallValueOp):
            changed |= _inline_value(op, functions)
    return changed


def _callee(op: ir.OpView, functions: Mapping[str, func.FuncOp]) -> func.FuncOp | None:
    if not isinstance(op, graph.CallOp):
        return None
    return functions.get(ir.FlatSymbolRefAttr(op.attributes["callee"]).value)


def _inline_value(op: graph.CallValueOp, functions: Mapping[str, func.FuncOp]) -> bool:
    """Inline the call of a value that is a function by its name, or one written down."""
    source = op.function.owner
    while not isinstance(source, ir.Block) and isinstance(source.opview, graph.BindOp):
        source = source.opview.value.owner
    if isinstance(source, ir.Block):
        return False
    if isinstance(source.opview, graph.FunctionOp):
        body = source.opview.operation.regions[0].blocks[0]
        if has_uses(body.arguments[0]):
            raise PassError(
                f"{op.location}: the function calls itself: cannot be inlined"
            )
        inline_call(op, body, own=1)
        return True
    if isinstance(source.opview, graph.GlobalVarOp):
        name = ir.FlatSymbolRefAttr(source.attributes["callee"]).value
        if name in functions:
            inline_call(op, functions[name].entry_block)
            return True
    return False


def is_kernel(function: func.FuncOp) -> bool:
    """Whether a function is one that fusion made: it calls nothing but programs."""
    if "relax.primitive" not in function.attributes:
        return False
    known = (CallTirOp, TupleGetItemOp, graph.BindOp)
    return all(
        isinstance(op, known) or op.operation.name in (PACK, "func.return")
        for op in own_operations(function.entry_block)
    )


class _Blocks:
    """In which dataflow blocks of a function bindings stand that are copied into it.

    Args:
        function: the function.
        number: of the block in which the call stands; -1 outside of any.
    """

    def __init__(self, function: func.FuncOp, number: int) -> None:
        self.number = number
        self._next = 1 + max(map(block_number, operations_of(function)), default=-1)
        self._known: dict[int, int] = {}

    def of(self, inner: int) -> int:
        """The block for bindings of the block ``inner`` of what is copied."""
        if inner < 0 or self.number >= 0:
            return inner if inner < 0 else self.number
        return self._known.setdefault(inner, self._next + len(self._known))


def inline_call(
    op: ir.OpView, body: ir.Block, own: int = 0, blocks: _Blocks | None = None
) -> None:
    """Copy what a function computes in place of a call of it.

    Args:
        op: the call.
        body: of the function.
        own: arguments of the block in front of the parameters.
        blocks: the blocks for the bindings; by default, that of the call.
    """
    given = tensors.elements(op.operation.operands[-1])
    params = list(body.arguments)[own:]
    values = size_values([p.type for p in params], [g.type for g in given])
    _rename_others(op, body, values)
    mapping: dict[ir.Value, ir.Value] = dict(zip(params, given, strict=True))
    *operations, last = own_operations(body)
    with ir.InsertionPoint(op), op.location:
        for inner in operations:
            clone(inner, mapping)
            for result in inner.operation.results:
                _substitute(mapping[result].owner, values)
                _stand_in(mapping[result].owner, op, blocks)
        returned = [mapping.get(v, v) for v in last.operands]
        value = returned[0] if len(returned) == 1 else tensors.pack(returned)
        if blocks is not None and _has_name(value):
            replace(op, value)
            return
        bound = graph.BindOp(value, results=[op.operation.results[0].type])
    copy_script_attributes(op, bound)
    replace(op, bound.result)


def _has_name(value: ir.Value) -> bool:
    """Whether a variable stands for a value."""
    owner = value.owner
    return isinstance(owner, ir.Block) or names.NAME in owner.attributes


def size_values(params: list[ir.Type], given: list[ir.Type]) -> dict[str, Dim]:
    """What the symbols of parameters are for a caller."""
    values: dict[str, Dim] = {}
    for mine, theirs in zip(params, given, strict=True):
        for size, actual in zip(_sizes(mine), _sizes(theirs), strict=False):
            name = str(size)
            if shapes.symbols_of(size) == (name,):
                values.setdefault(name, actual)
    return values


def _sizes(type_: ir.Type) -> list[Dim]:
    if isinstance(type_, ir.TupleType):
        parts = [type_.get_type(i) for i in range(type_.num_types)]
        return [size for part in parts for size in _sizes(part)]
    if isinstance(type_, ir.RankedTensorType):
        known = tensors.has_known_sizes(type_)
        return list(tensors.shape_of(type_)) if known else []
    symbols = Symbols()
    try:
        return list(symbols.dims(sizes_of(from_mlir(type_, symbols))))
    except ValueError:
        return []  # a scalar that is no size


def _rename_others(op: ir.OpView, body: ir.Block, values: dict[str, Dim]) -> None:
    """Give symbols that the callee makes itself names that the caller does not use."""
    owner = op.operation
    while owner.name != "func.func":
        owner = owner.parent
    caller = owner.opview
    taken = set(symbols_in(_types(caller.entry_block)))
    own = symbols_in(_types(body))
    for name in own:
        if name in values:
            continue
        fresh, count = name, 0
        while fresh in taken:
            count += 1
            fresh = f"{name}_{count}"
        taken.add(fresh)
        values[name] = shapes.symbol(fresh)


def _types(block: ir.Block) -> list[ir.Type]:
    found = [a.type for a in block.arguments]
    for op in own_operations(block):
        found += [r.type for r in op.operation.results]
        for region in op.operation.regions:
            for inner in region.blocks:
                found += _types(inner)
    return found


def _substitute(op: ir.Operation, values: Mapping[str, Dim]) -> None:
    """Put the caller's sizes into a copied operation."""
    for result in op.results:
        result.set_type(substituted_type(result.type, values))
    substitute_attributes(op, values)
    for region in op.regions:
        for block in region.blocks:
            for inner in own_operations(block):
                _substitute(inner.operation, values)


def _stand_in(copy: ir.Operation, call: ir.OpView, blocks: _Blocks | None) -> None:
    """Let a copied binding stand in the block of the call, or in one of its own."""
    attributes = copy.attributes
    if names.NAME not in attributes:
        return
    inner = block_number(copy.opview)
    for name in SCRIPT_ATTRIBUTES[1:]:
        if name in attributes:
            del attributes[name]
    number = block_number(call) if blocks is None else blocks.of(inner)
    integer = ir.IntegerType.get_signless(64)
    attributes[names.BLOCK] = ir.IntegerAttr.get(integer, number)
