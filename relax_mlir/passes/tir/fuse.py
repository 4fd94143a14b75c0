"""``tir-fuse``: the calls of a primitive function become one tensor program."""

import re
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.relax import graph
from relax_mlir.dialects.relax.core import CallTirOp, RelaxOperation, TupleGetItemOp
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import (
    AllocBufferOp,
    BlockOp,
    Buffer,
    Builder,
    Index,
    marks,
)
from relax_mlir.errors import PassError
from relax_mlir.graphs import PACK, copy_script_attributes, graph_attrs
from relax_mlir.indexing import dims_in
from relax_mlir.module import IRModule
from relax_mlir.objects import names
from relax_mlir.objects.function import store_attrs
from relax_mlir.passes.tir.nests import is_scheduled
from relax_mlir.programs import argument_shape
from relax_mlir.renaming import Renaming, by_symbol, dims_of, whole
from relax_mlir.rewriting import Pass, clone, erase, has_uses, replace, walk

__all__ = ["Fuse"]


@dataclass(frozen=True)
class Fuse(Pass):
    """Merge the tensor programs that a primitive function calls into one.

    A map whose result one place reads is written into that place, with its axes replaced
    by the indices there, unless it is costly and would be computed more than once. A map
    of what is written in parts or in another order, as by a concatenation, is written into
    the blocks that do so. Equal programs become one; programs that nobody calls are dropped.

    Args:
        inline: whether maps are written into other blocks; else the blocks of all
            programs follow each other, in what looks as a script does.
        before: what is done to the module first.
    """

    known_as = "FuseTIR"
    inline: bool = True
    before: Callable[[IRModule], None] | None = field(
        default=None, repr=False, metadata={"text": False}
    )

    def run(self, module: IRModule) -> None:
        if self.before is not None:
            self.before(module)
        programs = {f.name.value: f for f in module.func_ops()}
        callers: dict[str, list[ir.OpView]] = {}
        for op in walk(module.mlir.operation):
            if isinstance(op, graph.CallOp):
                callers.setdefault(op.attributes["callee"].value, []).append(op)
        merged: dict[str, str] = {}
        for function in module.func_ops():
            if "relax.primitive" in function.attributes:
                calls = callers.get(function.name.value, [])
                if calls:
                    fused, sizes = self._merge(function, programs)
                    callee = _first_equal(fused, function, merged)
                    for call in calls:
                        _call_program(call, function, callee, sizes)
                erase(function)
        _drop_unused(module)

    def _merge(
        self, primitive: func.FuncOp, programs: dict[str, func.FuncOp]
    ) -> tuple[func.FuncOp, list[Dim]]:
        """One program for ``primitive``, and the values of its symbols."""
        merger = _Merger(primitive, programs)
        fused = merger.merge()
        if self.inline:
            if not is_scheduled(fused):
                _inline_maps(fused)
                _distribute_maps(fused)
        else:
            _give_own_names(fused)
            merger.name_buffers(fused)
            attrs = {**graph_attrs(primitive), "tir.noalias": True}
            attrs.pop("Primitive", None)
            store_attrs(fused, attrs)
        return fused, merger.sizes


_OLD = ".old"

# What tells programs their sizes, beside tensors.
_SIZES = (graph.ShapeExprOp, graph.PrimValueOp)

# What a value of a primitive function is: a buffer, or one per element of a tuple.
_Buffers = Buffer | list[Buffer]


class _Merger:
    """Writes one program in place of the calls of a primitive function.

    Args:
        primitive: the function.
        programs: by name.
    """

    def __init__(
        self, primitive: func.FuncOp, programs: dict[str, func.FuncOp]
    ) -> None:
        *self.operations, terminator = primitive.entry_block.operations
        self.primitive = primitive
        self.programs = programs
        self.inputs = _tensor_inputs(list(primitive.entry_block.arguments))
        self.results = list(terminator.operands)
        self.renaming = self._renaming()
        self.sizes: list[Dim] = []
        self._buffers: dict[ir.Value, _Buffers] = {}
        self._outputs: list[str | None] = []
        self._made: dict[ir.Value, str | None] = {}
        self._gone: set[ir.Value] = set()

    def name_buffers(self, fused: func.FuncOp) -> None:
        """Call buffers what the function and the programs call them."""
        for value, name in self._made.items():
            if name is not None and value not in self._gone:
                value.owner.attributes[marks.NAME] = ir.StringAttr.get(name)
        called = dict(zip(self.inputs, self._input_names(), strict=True))
        inputs = [
            f"{name}_{i}" if isinstance(v.type, ir.TupleType) else name
            for v, name in called.items()
            for i in range(len(_parts(v.type)))
        ]
        sizes = [str(d) if str(d).isidentifier() else None for d in self.sizes]
        wanted = [*inputs, *self._outputs, *sizes]
        names.set_arg_names(fused, [n or f"arg{i}" for i, n in enumerate(wanted)])

    def _input_names(self) -> list[str | None]:
        known = names.arg_names(self.primitive)
        return [known[ir.BlockArgument(value).arg_number] for value in self.inputs]

    def _renaming(self) -> Renaming:
        """Names for whole dimensions if no program looks into them, else symbols."""
        outer = [t for v in (*self.inputs, *self.results) for t in _parts(v.type)]
        dims = dims_of(outer)
        renaming = whole(dims)
        calls = [o for o in self.operations if isinstance(o, CallTirOp)]
        needed = [d for c in calls for d in tensors.python_value(c.attributes["sizes"])]
        inner = dims_of([t for c in calls for t in _parts(c.results[0].type)])
        known = all(isinstance(d, int) or d in renaming.dims for d in [*needed, *inner])
        callees = [self.programs[c.attributes["callee"].value] for c in calls]
        if known and not any(map(_computes_sizes, callees)):
            return renaming
        return by_symbol([*dims, *needed, *inner])

    def merge(self) -> func.FuncOp:
        """The program."""
        types = [t for v in self.inputs for t in _parts(v.type)]
        written = [t for v in self.results for t in _parts(v.type)]
        owners = [v for v in self.inputs for _ in _parts(v.type)]
        with ir.InsertionPoint(self.primitive), self.primitive.location:
            self.builder = Builder(
                self.primitive.name.value + ".fused",
                owners,
                [self.renaming.type(t) for t in types],
                [self.renaming.type(t) for t in written],
                self.renaming.symbols or None,
            )
            given = iter(self.builder.inputs)
            for value in self.inputs:
                parts = [next(given) for _ in _parts(value.type)]
                is_tuple = isinstance(value.type, ir.TupleType)
                self._buffers[value] = parts if is_tuple else parts[0]
            for op in self.operations:
                self._add(op)
            outputs = [b for v in self.results for b in self._flat(v)]
            self._gone = {b.value for b in outputs}
            self._outputs = [self._made.get(b.value) for b in outputs]
            fused = self.builder.finish(outputs)
        self.sizes = self.renaming.sizes(self.builder.symbols)
        return fused

    def _flat(self, value: ir.Value) -> list[Buffer]:
        """The buffers that a value is."""
        found = self._buffers.get(value)
        if found is None:
            return [b for part in tensors.elements(value) for b in self._flat(part)]
        return found if isinstance(found, list) else [found]

    def _add(self, op: ir.OpView) -> None:
        if isinstance(op, CallTirOp):
            self._buffers[op.result] = self._inline_call(op)
        elif isinstance(op, TupleGetItemOp):
            index = op.python_attrs()["index"]
            self._buffers[op.result] = self._flat(op.tuple_value)[index]
        elif isinstance(op, RelaxOperation) and not isinstance(op, _SIZES):
            raise PassError(
                f"{op.location}: `{self.primitive.name.value}` cannot become one program: "
                f"expected calls of programs alone, got `{op.operation.name}`; "
                "LegalizeOps comes first"
            )

    def _inline_call(self, call: CallTirOp) -> _Buffers:
        """Copy the callee's operations; its destinations become buffers of the program."""
        callee = self.programs[call.attributes["callee"].value]
        types = [self.renaming.type(t) for t in _parts(call.results[0].type)]
        out = [
            self.builder.alloc(tensors.shape_of(t), tensors.dtype_of(t)) for t in types
        ]
        sources = [
            b.value for v in tensors.elements(call.operands[0]) for b in self._flat(v)
        ]
        sizes = [
            Index.value_of(self.builder.dim(self.renaming.dim(d)))
            for d in tensors.python_value(call.attributes["sizes"])
        ]
        targets = [b.value for b in out]
        called = names.arg_names(callee)[len(sources) : len(sources) + len(out)]
        for target, name in zip(targets, called, strict=True):
            self._made[target] = None if name is None else f"{name}_intermediate"
        arguments = list(callee.arguments)
        mapping = dict(zip(arguments, [*sources, *targets, *sizes], strict=True))
        with ir.InsertionPoint(self.builder.function.entry_block):
            for op in list(callee.entry_block.operations)[:-1]:
                clone(op, mapping)
        return out if isinstance(call.results[0].type, ir.TupleType) else out[0]


def _computes_sizes(program: func.FuncOp) -> bool:
    """Whether a size of a buffer is computed from others, as of what windows slide over."""
    places = [n for n, a in enumerate(program.arguments) if _is_buffer(a)]
    dims = [dim for place in places for dim in argument_shape(program, place)]
    return any(not isinstance(d, int) and not str(d).isidentifier() for d in dims)


def _is_buffer(value: ir.Value) -> bool:
    return isinstance(value.type, ir.MemRefType)


def _tensor_inputs(values: Sequence[ir.Value]) -> list[ir.Value]:
    """Parameters that are tensors, or tuples of them; sizes are none."""
    return [
        v for v in values if isinstance(v.type, (ir.RankedTensorType, ir.TupleType))
    ]


def _parts(type_: ir.Type) -> list[ir.Type]:
    """The tensor types that a type is made of."""
    if not isinstance(type_, ir.TupleType):
        return [type_]
    return [t for i in range(type_.num_types) for t in _parts(type_.get_type(i))]


def _give_own_names(function: func.FuncOp) -> None:
    """Give every block of a program a name that no other has."""
    taken: set[str] = set()
    for op in walk(function):
        if isinstance(op, BlockOp):
            wish = ir.StringAttr(op.attributes["name"]).value
            name, count = wish, 0
            while name in taken:
                count += 1
                name = f"{wish}_{count}"
            taken.add(name)
            op.attributes["name"] = ir.StringAttr.get(name)


def _inline_maps(function: func.FuncOp) -> None:
    """Write maps into the places that read them.

    Which ones is decided first to last, since what a map reads makes it dear; they are
    written last to first, so that each is copied once, not with all that leads to it.
    """
    chosen: list[AllocBufferOp] = []
    dear: set[BlockOp] = set()
    for op in list(function.entry_block.operations):
        if isinstance(op, AllocBufferOp):
            writer, loads = _uses(op)
            if writer is not None and _may_inline(writer, loads, dear):
                chosen.append(op)
                if writer in dear or not _is_cheap(writer):
                    dear.add(_block_of(loads[0]))
    for op in reversed(chosen):
        writer, loads = _uses(op)
        assert writer is not None
        for same in _by_block(loads):
            _inline_loads(writer, same)
        erase(writer)
        erase(op)


def _by_block(loads: Sequence[ir.OpView]) -> list[list[ir.OpView]]:
    """Loads that stand in one block, in order."""
    found: dict[ir.Block, list[ir.OpView]] = {}
    for load in loads:
        found.setdefault(load.operation.block, []).append(load)
    return [
        [op for op in block.operations if op in same] if len(same) > 1 else same
        for block, same in found.items()
    ]


def _uses(alloc: AllocBufferOp) -> "tuple[BlockOp | None, list[ir.OpView]]":
    """The one block that writes a buffer, and every load of it."""
    writers, loads = [], []
    for use in alloc.buffer.uses:
        owner = use.owner
        if owner.operation.name == "memref.store":
            writers.append(owner)
        elif owner.operation.name == "memref.load":
            loads.append(owner)
        else:
            return None, []
    if len(writers) != 1:
        return None, []
    return _block_of(writers[0]), loads


def _block_of(op: ir.OpView) -> BlockOp:
    while not isinstance(op, BlockOp):
        op = op.operation.parent.opview
    return op


def _may_inline(
    writer: BlockOp, loads: list[ir.OpView], dear: Container[BlockOp]
) -> bool:
    """Whether a map is computed no more often in the place that reads it, or is cheap.

    Args:
        writer: the map; loads: of what it writes.
        dear: blocks that costly maps are written into.
    """
    if writer.has_init or "R" in writer.kinds.value or not loads:
        return False
    if not _stores_at_axes(writer):
        return False
    places = {tuple(list(load.operands)[1:]) for load in loads}
    readers = {_block_of(load) for load in loads}
    if len(places) > 1 or len(readers) > 1:
        return False
    if _reads_each_once(loads[0], next(iter(readers))):
        return True
    return writer not in dear and _is_cheap(writer)


def _stores_at_axes(writer: BlockOp) -> bool:
    block = writer.body.blocks[0]
    stores = [o for o in block.operations if o.operation.name == "memref.store"]
    if len(stores) != 1:
        return False
    indices = list(stores[0].operands)[2:]
    return indices == list(block.arguments)


def _reads_each_once(load: ir.OpView, reader: BlockOp) -> bool:
    """Whether the load's indices are the reader's axes, each once."""
    axes = list(reader.body.blocks[0].arguments)
    indices = list(load.operands)[1:]
    return len(indices) == len(axes) and all(a in indices for a in axes)


_COSTLY = ("math.", "arith.divf", "arith.remf", "arith.divsi", "arith.remsi")


def _is_cheap(writer: BlockOp) -> bool:
    return not any(o.operation.name.startswith(_COSTLY) for o in walk(writer))


def _inline_loads(writer: BlockOp, loads: Sequence[ir.OpView]) -> None:
    """Compute the element where it was first read."""
    first = loads[0]
    source = writer.body.blocks[0]
    mapping = dict(zip(source.arguments, list(first.operands)[1:], strict=True))
    with ir.InsertionPoint(first), first.location:
        for op in source.operations:
            if op.operation.name == "memref.store":
                value = mapping.get(op.operands[0], op.operands[0])
                for load in loads:
                    replace(load, value)
                return
            clone(op, mapping)


def _distribute_maps(function: func.FuncOp) -> None:
    """Write a map to where its input is written, in parts or in whatever order."""
    dims = dims_in(function)
    for op in list(function.entry_block.operations):
        if not isinstance(op, AllocBufferOp):
            continue
        accesses = [use.owner for use in op.buffer.uses]
        stores = [a for a in accesses if a.operation.name == "memref.store"]
        loads = [a for a in accesses if a.operation.name == "memref.load"]
        if not stores or len(stores) + len(loads) != len(accesses):
            continue
        readers = {_block_of(load) for load in loads}
        if len(readers) != 1:
            continue
        reader = readers.pop()
        sizes = [dims.get(e, e) for e in reader.axis_extents()]
        is_whole = sizes == list(tensors.python_value(op.attributes["shape"]))
        if is_whole and _may_distribute(stores, loads):
            for store in stores:
                _write_into(store, reader, op.buffer)
            erase(reader)
            erase(op)


def _may_distribute(stores: Sequence[ir.OpView], loads: Sequence[ir.OpView]) -> bool:
    """Whether one map reads each element of a buffer just once, and can do so earlier."""
    reader = _block_of(loads[0])
    block = reader.body.blocks[0]
    if any("R" in b.kinds.value for b in (reader, *map(_block_of, stores))):
        return False
    if any(list(load.operands)[1:] != list(block.arguments) for load in loads):
        return False
    if len([o for o in block.operations if o.operation.name == "memref.store"]) != 1:
        return False
    entry = list(reader.operation.parent.opview.entry_block.operations)
    first = min(entry.index(_block_of(store)) for store in stores)
    return all(
        _is_ready(value, reader, entry[:first], loads[0].operands[0])
        for op in walk(reader)
        for value in op.operands
    )


def _is_ready(
    value: ir.Value, reader: BlockOp, before: Sequence[ir.OpView], parts: ir.Value
) -> bool:
    """Whether a value that a block uses exists before the blocks that write its input."""
    owner = value.owner
    if isinstance(owner, ir.Block) or value == parts:
        return True
    if owner.parent != reader.operation.parent:  # inside the block
        return True
    if isinstance(owner.opview, AllocBufferOp):
        stores = [u.owner for u in value.uses if u.owner.name == "memref.store"]
        writers = {_block_of(s.opview) for s in stores}
        return owner.opview in before and all(
            w in before or w == reader for w in writers
        )
    return owner.opview in before


def _write_into(store: ir.OpView, reader: BlockOp, buffer: ir.Value) -> None:
    """Compute the map's element where a part's element is stored, and store that."""
    value, _, *where = store.operands
    block = reader.body.blocks[0]
    mapping = dict(zip(block.arguments, where, strict=True))
    with ir.InsertionPoint(store), store.location:
        for op in list(block.operations)[:-1]:
            if op.operation.name == "memref.load" and op.operands[0] == buffer:
                mapping[op.results[0]] = value
            else:
                clone(op, mapping)
    erase(store)


def _first_equal(
    fused: func.FuncOp, primitive: func.FuncOp, merged: dict[str, str]
) -> str:
    """Give the program its primitive's name; the name of the first program equal to it."""
    name = primitive.name.value
    primitive.attributes["sym_name"] = ir.StringAttr.get(name + _OLD)
    fused.attributes["sym_name"] = ir.StringAttr.get("fused")
    text = fused.operation.get_asm(use_local_scope=True, assume_verified=True)
    fused.attributes["sym_name"] = ir.StringAttr.get(name)
    return merged.setdefault(text, name)


def _call_program(
    call: ir.OpView, primitive: func.FuncOp, callee: str, sizes: Sequence[Dim]
) -> None:
    """Call the program where the primitive function was called."""
    given = tensors.elements(call.operands[0])
    names = _symbol_values(list(primitive.arguments), given)
    with ir.InsertionPoint(call), call.location:
        new = CallTirOp(
            [part for value in _tensor_inputs(given) for part in _taken_apart(value)],
            callee=callee,
            sizes=tensors.shape_attr([shapes.substitute(d, names) for d in sizes]),
            results=[call.results[0].type],
        )
    copy_script_attributes(call, new)
    packed = call.operands[0].owner
    replace(call, new.result)
    if not has_uses(packed.results[0]):
        erase(packed)


def _symbol_values(
    params: Sequence[ir.Value], given: Sequence[ir.Value]
) -> dict[str, Dim]:
    """What the symbols of a function are for a caller."""
    theirs = dims_of([t for v in _tensor_inputs(params) for t in _parts(v.type)])
    ours = dims_of([t for v in _tensor_inputs(given) for t in _parts(v.type)])
    for param, value in zip(params, given, strict=True):
        if param not in _tensor_inputs([param]):
            theirs += _sizes_in(param.type)
            ours += _sizes_in(value.type)
    return {} if theirs == ours else dict(shapes.bind_shape(theirs, ours))


def _sizes_in(type_: ir.Type) -> list[Dim]:
    """The sizes that a value of type ``!relax.sizes`` holds."""
    return [shapes.parse(text) for text in re.findall(r'"([^"]*)"', str(type_))]


def _taken_apart(value: ir.Value) -> list[ir.Value]:
    """The tensors in a value."""
    if not isinstance(value.type, ir.TupleType):
        return [value]
    owner = value.owner
    if not isinstance(owner, ir.Block) and owner.name == PACK:
        parts = list(owner.operands)
    else:
        count = value.type.num_types
        parts = [TupleGetItemOp(value, index=i).result for i in range(count)]
    return [tensor for part in parts for tensor in _taken_apart(part)]


def _drop_unused(module: IRModule) -> None:
    """Erase tensor programs that nothing calls."""
    called = {
        op.attributes["callee"].value
        for op in walk(module.mlir.operation)
        if op.operation.name in ("relax.call_tir", "relax.call")
    }
    for function in module.func_ops():
        is_program = "tir.prim_func" in function.attributes
        if (
            is_program
            and function.name.value not in called
            and len(module.func_ops()) > 1
        ):
            erase(function)
