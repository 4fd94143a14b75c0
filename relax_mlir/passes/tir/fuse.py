"""``tir-fuse``: the calls of a primitive function become one tensor program."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from mlir import ir
from mlir.dialects import func

from relax_mlir.call_graph import CallGraph
from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.relax import graph
from relax_mlir.dialects.relax.core import CallTirOp, RelaxOperation, TupleGetItemOp
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import (
    AllocBufferOp,
    BlockOp,
    Buffer,
    Builder,
    DeclBufferOp,
    Index,
    marks,
)
from relax_mlir.errors import PassError
from relax_mlir.graphs import PACK, copy_script_attributes, graph_attrs
from relax_mlir.module import IRModule
from relax_mlir.objects import names
from relax_mlir.objects.attributes import from_attribute
from relax_mlir.objects.function import store_attrs
from relax_mlir.objects.memrefs import replace_buffer, retype_views
from relax_mlir.passes.tir.map_inlining import distribute_maps, inline_maps
from relax_mlir.passes.tir.nests import is_scheduled
from relax_mlir.programs import argument_shape, argument_symbols
from relax_mlir.renaming import (
    Renaming,
    by_symbol,
    dims_of,
    substitute_attributes,
    whole,
)
from relax_mlir.rewriting import Pass, clone, erase, has_uses, replace, walk
from relax_mlir.traversal import own_operations

__all__ = ["Fuse", "drop_unused", "fuse_primitives", "merge_in_order"]


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
        fuse_primitives(module, self._merge)

    def _merge(
        self, primitive: func.FuncOp, programs: dict[str, func.FuncOp]
    ) -> tuple[func.FuncOp, list[Dim]]:
        """One program for ``primitive``, and the values of its symbols."""
        merger = _Merger(primitive, programs)
        fused = merger.merge()
        if self.inline:
            if not is_scheduled(fused):
                inline_maps(fused)
                distribute_maps(fused)
        else:
            _give_own_names(fused)
            merger.name_buffers(fused)
            attrs = {**graph_attrs(primitive), "tir.noalias": True}
            attrs.pop("Primitive", None)
            store_attrs(fused, attrs)
            _mark_parameters(fused)
        return fused, merger.sizes


_OLD = ".old"

# Makes one program of a primitive function, and of the programs by name that it calls; it
# gives the values of the program's symbols, too.
_Merge = Callable[[func.FuncOp, dict[str, func.FuncOp]], tuple[func.FuncOp, list[Dim]]]


def fuse_primitives(module: IRModule, merge: _Merge) -> None:
    """Replace primitive functions by programs; equal ones become one."""
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
                fused, sizes = merge(function, programs)
                is_parameter = _are_parameters(fused)
                callee = _first_equal(fused, function, merged)
                for call in calls:
                    _call_program(call, function, callee, sizes, is_parameter)
            erase(function)
    drop_unused(module)


def merge_in_order(
    primitive: func.FuncOp, programs: dict[str, func.FuncOp]
) -> tuple[func.FuncOp, list[Dim]]:
    """One program with the blocks of all that a primitive function calls, as they are.

    Args:
        programs: by name.

    Returns:
        The program, and the values of its symbols.
    """
    merger = _Merger(primitive, programs)
    return merger.merge(), merger.sizes


# What tells programs their sizes, beside tensors.
_SIZES = (graph.ShapeExprOp, graph.PrimValueOp)

# What a value of a primitive function is: a buffer, or the elements of a tuple.
_Buffers: TypeAlias = "Buffer | list[_Buffers]"


class _Merger:
    """Writes one program in place of the calls of a primitive function.

    Args:
        primitive: the function.
        programs: by name.
    """

    def __init__(
        self, primitive: func.FuncOp, programs: dict[str, func.FuncOp]
    ) -> None:
        *self.operations, terminator = own_operations(primitive.entry_block)
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
                self._buffers[value] = _nested(value.type, given)
            for op in self.operations:
                self._add(op)
            outputs = [b for v in self.results for b in self._flat(v)]
            self._gone = {b.value for b in outputs}
            self._outputs = [self._made.get(b.value) for b in outputs]
            fused = self.builder.finish(outputs)
        self.sizes = self.renaming.sizes(self.builder.symbols)
        return fused

    def _of(self, value: ir.Value) -> _Buffers:
        """What a value is; a tuple that is packed here has no buffers of its own."""
        if value not in self._buffers:
            return [self._of(part) for part in tensors.elements(value)]
        return self._buffers[value]

    def _flat(self, value: ir.Value) -> list[Buffer]:
        """The buffers that a value is."""
        return _flattened(self._of(value))

    def _add(self, op: ir.OpView) -> None:
        if isinstance(op, CallTirOp):
            self._buffers[op.result] = self._inline_call(op)
        elif isinstance(op, TupleGetItemOp):
            elements = self._of(op.tuple_value)
            assert isinstance(elements, list)
            self._buffers[op.result] = elements[op.python_attrs()["index"]]
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
        given = [b for v in tensors.elements(call.operands[0]) for b in self._flat(v)]
        places = [-1] * len(types)
        if names.IN_PLACE in call.attributes:
            places = list(from_attribute(call.attributes[names.IN_PLACE]))
        out = [
            self._overwritten(given, place)
            if place >= 0
            else self.builder.alloc(tensors.shape_of(t), tensors.dtype_of(t))
            for t, place in zip(types, places, strict=True)
        ]
        sources = [b.value for b in given]
        dims = [
            self.renaming.dim(d) for d in tensors.python_value(call.attributes["sizes"])
        ]
        with ir.InsertionPoint(self.builder.function.entry_block):
            sizes = [Index.value_of(self.builder.dim(d)) for d in dims]
        pairs = zip(out, places, strict=True)
        targets = [b.value for b, place in pairs if place < 0]
        called = names.arg_names(callee)[len(sources) : len(sources) + len(targets)]
        for target, name in zip(targets, called, strict=True):
            self._made[target] = None if name is None else f"{name}_intermediate"
        arguments = list(callee.arguments)
        mapping = dict(zip(arguments, [*sources, *targets, *sizes], strict=True))
        with ir.InsertionPoint(self.builder.function.entry_block):
            *operations, _ = own_operations(callee.entry_block)
            copies = [clone(op, mapping) for op in operations]
        symbols = argument_symbols(callee).values()
        _rename_shapes(copies, dict(zip(symbols, dims, strict=True)))
        for buffer in (*sources, *targets):
            retype_views(buffer)
        return _nested(call.results[0].type, iter(out))

    def _overwritten(self, given: list[Buffer], place: int) -> Buffer:
        """The argument that a call writes over; of a parameter, it becomes a copy.

        The caller's tensor stays as it is, so that the call of the merged program is one
        of ``call_tir``.
        """
        source = given[place]
        if any(source is parameter for parameter in self.builder.inputs):
            shape, dtype = source.shape, source.dtype
            given[place] = self.builder.compute(
                shape, lambda *i: source[i], dtype, "copy"
            )
        return given[place]


def _rename_shapes(copies: Sequence[ir.Operation], sizes: Mapping[str, Dim]) -> None:
    """State the shapes of a program that was copied in the sizes of its new surroundings.

    Args:
        copies: its operations.
        sizes: the values of its symbols there.
    """
    inside = [op for copy in copies for op in (copy.opview, *walk(copy))]
    for op in inside:
        substitute_attributes(op, sizes)
    for op in inside:
        if isinstance(op, (AllocBufferOp, DeclBufferOp)):
            _make_static(op)


def _make_static(op: AllocBufferOp | DeclBufferOp) -> None:
    """Give a buffer the type that its shape has, some of whose sizes became numbers."""
    type_ = ir.MemRefType(op.buffer.type)
    shape = tensors.python_value(op.attributes["shape"])
    given = iter(list(op.sizes))
    dynamic = ir.ShapedType.get_dynamic_size()
    was_open = [size == dynamic for size in type_.shape]
    pairs = [(d, next(given)) for d, o in zip(shape, was_open, strict=True) if o]
    kept = [value for dim, value in pairs if not isinstance(dim, int)]
    if len(kept) == len(pairs):
        return
    sizes = [dim if isinstance(dim, int) else dynamic for dim in shape]
    others = list(op.operands)[: len(op.operands) - len(pairs)]
    with ir.InsertionPoint(op), op.location:
        made = ir.Operation.create(
            op.operation.name,
            results=[
                ir.MemRefType.get(
                    sizes, type_.element_type, memory_space=type_.memory_space
                )
            ],
            operands=[*others, *kept],
            attributes={name: op.attributes[name] for name in op.attributes},
        )
    replace_buffer(op.buffer, made.results[0])
    erase(op)


def _nested(type_: ir.Type, buffers: Iterator[Buffer]) -> _Buffers:
    """The next buffers as a value of a type: one, or a list for a tuple."""
    if not isinstance(type_, ir.TupleType):
        return next(buffers)
    parts = [type_.get_type(i) for i in range(type_.num_types)]
    return [_nested(part, buffers) for part in parts]


def _flattened(buffers: _Buffers) -> list[Buffer]:
    if not isinstance(buffers, list):
        return [buffers]
    return [buffer for part in buffers for buffer in _flattened(part)]


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


def _symbol_attrs(program: func.FuncOp) -> dict[int, ir.DictAttr]:
    """The attributes of the arguments that are symbols, by their numbers."""
    if "arg_attrs" not in program.attributes:
        return {}
    attrs = map(ir.DictAttr, ir.ArrayAttr(program.attributes["arg_attrs"]))
    return {number: a for number, a in enumerate(attrs) if marks.SYMBOL in a}


def _are_parameters(program: func.FuncOp) -> list[bool]:
    """Per symbol of a program, whether calls list it behind the tensors."""
    return [marks.PARAM in attrs for attrs in _symbol_attrs(program).values()]


def _mark_parameters(program: func.FuncOp) -> None:
    """Let calls list the symbols that are no size of any buffer."""
    buffers = [n for n, a in enumerate(program.arguments) if _is_buffer(a)]
    told = {str(dim) for number in buffers for dim in argument_shape(program, number)}
    attrs = list(ir.ArrayAttr(program.attributes["arg_attrs"]))
    for number, known in _symbol_attrs(program).items():
        if ir.StringAttr(known[marks.SYMBOL]).value not in told:
            entries = {a.name: a.attr for a in known}
            attrs[number] = ir.DictAttr.get({**entries, marks.PARAM: ir.UnitAttr.get()})
    program.attributes["arg_attrs"] = ir.ArrayAttr.get(attrs)


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
    call: ir.OpView,
    primitive: func.FuncOp,
    callee: str,
    sizes: Sequence[Dim],
    is_parameter: Sequence[bool],
) -> None:
    """Call the program where the primitive function was called.

    Args:
        call: of the primitive function.
        primitive: the function.
        callee: the program.
        sizes: the values of its symbols inside the function.
        is_parameter: per symbol, whether calls list it behind the tensors.
    """
    given = tensors.elements(call.operands[0])
    values = _symbol_values(list(primitive.arguments), given)
    with ir.InsertionPoint(call), call.location:
        new = CallTirOp(
            [part for value in _tensor_inputs(given) for part in _taken_apart(value)],
            callee=callee,
            sizes=tensors.shape_attr([shapes.substitute(d, values) for d in sizes]),
            results=[call.results[0].type],
        )
    listed = [
        size
        for size, is_listed in zip(
            tensors.python_value(new.attributes["sizes"]), is_parameter, strict=True
        )
        if is_listed
    ]
    if listed:
        new.attributes[names.TIR_VARS] = tensors.shape_attr(listed)
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


def drop_unused(module: IRModule) -> None:
    """Erase tensor programs that nothing calls."""
    functions = module.func_ops()
    roots = [f.name.value for f in functions if not names.is_prim_func(f)]
    if not roots:
        return
    reached = CallGraph(module).reachable(roots)
    for function in functions:
        if function.name.value not in reached:
            erase(function)
