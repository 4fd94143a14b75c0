"""Inlining of calls between graph functions."""

from collections.abc import Callable, Mapping
from itertools import product

from mlir import ir
from mlir.dialects import func

from relax_mlir.analysis.symbol_substitution import substitute_attributes
from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.relax import graph
from relax_mlir.dialects.relax.core import CallTirOp, TupleGetItemOp
from relax_mlir.dialects.shapes import Dim
from relax_mlir.errors import PassError
from relax_mlir.ir import function_attributes
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import operations_of, own_operations
from relax_mlir.objects.expr.struct_info_types import from_mlir
from relax_mlir.objects.infer.struct_info import struct_info_sizes
from relax_mlir.objects.prim.symbolic_sizes import Symbols
from relax_mlir.rewrite.functions import (
    SCRIPT_ATTRIBUTES,
    copy_script_attributes,
    dataflow_block_number,
    graph_functions,
    substituted_type,
    symbols_in,
)
from relax_mlir.rewrite.patterns import clone, has_uses, replace

__all__ = ["inline_call", "inline_calls", "is_kernel", "match_symbols"]


def inline_calls(
    module: IRModule,
    wanted: Callable[[func.FuncOp], bool] = lambda function: True,
    *,
    keep_blocks: bool = False,
) -> bool:
    """Inlines calls of graph functions, except kernels, and calls of function values.

    Args:
        module: the module to change.
        wanted: selects the callees.
        keep_blocks: whether inlined bindings keep their dataflow blocks, rather than joining
            that of the call.

    Returns:
        Whether any call was inlined.

    Raises:
        PassError: a function is recursive.
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
        blocks = _Blocks(function, dataflow_block_number(op)) if keep_blocks else None
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
    """Inlines the call of a function value: a global variable or a local function."""
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
    """Whether a function is a fused kernel: it calls nothing but tensor programs."""
    if not function_attributes.is_primitive(function):
        return False
    known = (CallTirOp, TupleGetItemOp, graph.BindOp)
    return all(
        isinstance(op, known)
        or op.operation.name in (tensors.TUPLE_PACK, "func.return")
        for op in own_operations(function.entry_block)
    )


class _Blocks:
    """Numbers of dataflow blocks for bindings inlined into a function.

    Args:
        function: the caller.
        number: of the call's dataflow block; -1 outside of any.
    """

    def __init__(self, function: func.FuncOp, number: int) -> None:
        self.number = number
        self._next = 1 + max(
            map(dataflow_block_number, operations_of(function)), default=-1
        )
        self._known: dict[int, int] = {}

    def of(self, inner: int) -> int:
        """The block in the caller for bindings of block ``inner`` of the callee."""
        if inner < 0 or self.number >= 0:
            return inner if inner < 0 else self.number
        return self._known.setdefault(inner, self._next + len(self._known))


def inline_call(
    op: ir.OpView, body: ir.Block, own: int = 0, blocks: _Blocks | None = None
) -> None:
    """Replaces a call by a copy of the callee's body.

    Args:
        op: the call.
        body: the callee's entry block.
        own: number of block arguments before the parameters.
        blocks: dataflow blocks for the bindings; by default, that of the call.
    """
    given = tensors.tuple_elements(op.operation.operands[-1])
    params = list(body.arguments)[own:]
    values = match_symbols([p.type for p in params], [g.type for g in given])
    _rename_defined_symbols(op, body, values)
    mapping: dict[ir.Value, ir.Value] = dict(zip(params, given, strict=True))
    *operations, last = own_operations(body)
    with ir.InsertionPoint(op), op.location:
        for inner in operations:
            clone(inner, mapping)
            for result in inner.operation.results:
                _substitute_sizes(mapping[result].owner, values)
                _set_dataflow_block(mapping[result].owner, op, blocks)
        returned = [mapping.get(v, v) for v in last.operands]
        value = returned[0] if len(returned) == 1 else tensors.pack_tuple(returned)
        if blocks is not None and _has_name(value):
            replace(op, value)
            return
        bound = graph.BindOp(value, results=[op.operation.results[0].type])
    copy_script_attributes(op, bound)
    replace(op, bound.result)


def _has_name(value: ir.Value) -> bool:
    """Whether a value is a parameter or a named binding."""
    owner = value.owner
    return isinstance(owner, ir.Block) or function_attributes.NAME in owner.attributes


def match_symbols(params: list[ir.Type], given: list[ir.Type]) -> dict[str, Dim]:
    """The values of the callee's symbols, matched from parameter types to argument types.

    A symbol that is no dimension of a parameter, but part of one, such as ``n`` of
    ``min(n, 5)``, is matched with one of the argument's dimension, if this is equal then.
    """
    values: dict[str, Dim] = {}
    pairs = [
        pair
        for mine, theirs in zip(params, given, strict=True)
        for pair in zip(_sizes(mine), _sizes(theirs), strict=False)
    ]
    for size, actual in pairs:
        name = str(size)
        if shapes.symbols_of(size) == (name,):
            values.setdefault(name, actual)
    for size, actual in pairs:
        values |= _match_parts(size, actual, values)
    return values


_MATCHED = 3  # most symbols of one dimension, of which all assignments are tried


def _match_parts(size: Dim, actual: Dim, known: Mapping[str, Dim]) -> dict[str, Dim]:
    """The symbols of the argument's dimension that a parameter's dimension has at their places."""
    names = [name for name in shapes.symbols_of(size) if name not in known]
    if not 0 < len(names) <= _MATCHED:
        return {}
    same_first = sorted(shapes.symbols_of(actual), key=lambda s: s not in names)
    for symbols in product(same_first, repeat=len(names)):
        found: dict[str, Dim] = {
            n: shapes.symbol(s) for n, s in zip(names, symbols, strict=True)
        }
        if shapes.substitute(size, {**known, **found}) == actual:
            return found
    return {}


def _sizes(type_: ir.Type) -> list[Dim]:
    if isinstance(type_, ir.TupleType):
        parts = [type_.get_type(i) for i in range(type_.num_types)]
        return [size for part in parts for size in _sizes(part)]
    if isinstance(type_, ir.RankedTensorType):
        known = tensors.has_known_shape(type_)
        return list(tensors.shape_of(type_)) if known else []
    symbols = Symbols()
    try:
        return list(symbols.dims(struct_info_sizes(from_mlir(type_, symbols))))
    except ValueError:
        return []  # a scalar without a symbolic value


def _rename_defined_symbols(
    op: ir.OpView, body: ir.Block, values: dict[str, Dim]
) -> None:
    """Renames symbols defined inside the callee so that they do not clash with the caller's."""
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


def _substitute_sizes(op: ir.Operation, values: Mapping[str, Dim]) -> None:
    """Substitutes the caller's sizes in a copied operation."""
    for result in op.results:
        result.set_type(substituted_type(result.type, values))
    substitute_attributes(op, values)
    for region in op.regions:
        for block in region.blocks:
            for inner in own_operations(block):
                _substitute_sizes(inner.operation, values)


def _set_dataflow_block(
    copy: ir.Operation, call: ir.OpView, blocks: _Blocks | None
) -> None:
    """Assigns a copied binding to the dataflow block of the call, or to one of its own."""
    attributes = copy.attributes
    if function_attributes.NAME not in attributes:
        return
    inner = dataflow_block_number(copy.opview)
    for name in SCRIPT_ATTRIBUTES[1:]:
        if name in attributes:
            del attributes[name]
    number = dataflow_block_number(call) if blocks is None else blocks.of(inner)
    integer = ir.IntegerType.get_signless(64)
    attributes[function_attributes.BLOCK] = ir.IntegerAttr.get(integer, number)
