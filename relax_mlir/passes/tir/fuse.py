"""``tir-fuse``: merges the tensor programs of a primitive function into one."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from mlir import ir
from mlir.dialects import func

from relax_mlir.analysis.call_graph import CallGraph
from relax_mlir.analysis.prim_func_verifier import argument_shape, argument_symbols
from relax_mlir.analysis.symbol_substitution import (
    SymbolSubstitution,
    dims_of,
    substitute_attributes,
    substitute_dims,
    substitute_symbols,
)
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
    attribute_names,
)
from relax_mlir.errors import PassError
from relax_mlir.ir import function_attributes
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import own_operations, walk
from relax_mlir.objects.function import store_attrs
from relax_mlir.objects.mlir_attributes import from_attribute
from relax_mlir.objects.write.memref import replace_buffer, retype_views
from relax_mlir.passes.tir.inline_elementwise import inline_consumers, inline_producers
from relax_mlir.passes.tir.loop_nests import is_scheduled
from relax_mlir.rewrite.functions import (
    copy_script_attributes,
    flatten_tuple,
    graph_attrs,
)
from relax_mlir.rewrite.patterns import Pass, clone, erase, has_uses, replace

__all__ = ["Fuse", "concatenate_programs", "erase_unused_programs", "fuse_primitives"]


@dataclass(frozen=True)
class Fuse(Pass):
    """Merge the tensor programs that a primitive function calls into one, inlining producers.

    An elementwise producer with one point of use is inlined there, unless it is expensive and
    would be recomputed. An elementwise consumer of a buffer that several blocks write, as in a
    concatenation, is inlined into these. Equal programs are merged; programs without callers
    are removed.

    Args:
        inline: whether to inline elementwise blocks; otherwise the blocks of all programs
            follow each other, as in a script.
        before: a callback that runs first.
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
        """The fused program of ``primitive``, and the values of its symbols."""
        merger = _Merger(primitive, programs)
        fused = merger.merge()
        if self.inline:
            if not is_scheduled(fused):
                inline_producers(fused)
                inline_consumers(fused)
        else:
            _make_block_names_unique(fused)
            merger.name_buffers(fused)
            attrs = {**graph_attrs(primitive), "tir.noalias": True}
            attrs.pop("Primitive", None)
            store_attrs(fused, attrs)
            _mark_parameters(fused)
        return fused, merger.sizes


_OLD = ".old"

# Fuses a primitive function, given the programs by name: returns the fused program and the
# values of its symbols.
_Merge = Callable[[func.FuncOp, dict[str, func.FuncOp]], tuple[func.FuncOp, list[Dim]]]


def fuse_primitives(module: IRModule, merge: _Merge) -> None:
    """Replaces primitive functions by fused programs; equal programs are merged."""
    programs = {f.name.value: f for f in module.func_ops()}
    callers: dict[str, list[ir.OpView]] = {}
    for op in walk(module.mlir.operation):
        if isinstance(op, graph.CallOp):
            callers.setdefault(op.attributes["callee"].value, []).append(op)
    merged: dict[str, str] = {}
    for function in module.func_ops():
        if function_attributes.is_primitive(function):
            calls = callers.get(function.name.value, [])
            if calls:
                fused, sizes = merge(function, programs)
                is_parameter = _are_parameters(fused)
                callee = _first_equal(fused, function, merged)
                for call in calls:
                    _call_program(call, function, callee, sizes, is_parameter)
            erase(function)
    erase_unused_programs(module)


def concatenate_programs(
    primitive: func.FuncOp, programs: dict[str, func.FuncOp]
) -> tuple[func.FuncOp, list[Dim]]:
    """Concatenates the blocks of all programs that a primitive function calls.

    Args:
        programs: by name.

    Returns:
        The program, and the values of its symbols.
    """
    merger = _Merger(primitive, programs)
    return merger.merge(), merger.sizes


# Size arguments of primitive functions.
_SIZES = (graph.ShapeExprOp, graph.PrimValueOp)

# The buffers of a value: one, or a nested list for a tuple.
_Buffers: TypeAlias = "Buffer | list[_Buffers]"


class _Merger:
    """Concatenates the programs that a primitive function calls.

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
        """Names buffers as the primitive function and the programs do."""
        for value, name in self._made.items():
            if name is not None and value not in self._gone:
                value.owner.attributes[attribute_names.NAME] = ir.StringAttr.get(name)
        names = dict(zip(self.inputs, self._input_names(), strict=True))
        inputs = [
            f"{name}_{i}" if isinstance(v.type, ir.TupleType) else name
            for v, name in names.items()
            for i in range(len(_tensor_types(v.type)))
        ]
        sizes = [str(d) if str(d).isidentifier() else None for d in self.sizes]
        wanted = [*inputs, *self._outputs, *sizes]
        function_attributes.set_arg_names(
            fused, [n or f"arg{i}" for i, n in enumerate(wanted)]
        )

    def _input_names(self) -> list[str | None]:
        known = function_attributes.arg_names(self.primitive)
        return [known[ir.BlockArgument(value).arg_number] for value in self.inputs]

    def _renaming(self) -> SymbolSubstitution:
        """A symbol per distinct dimension, or per symbol if a program computes with dimensions."""
        outer = [
            t for v in (*self.inputs, *self.results) for t in _tensor_types(v.type)
        ]
        dims = dims_of(outer)
        renaming = substitute_dims(dims)
        calls = [o for o in self.operations if isinstance(o, CallTirOp)]
        needed = [d for c in calls for d in tensors.python_value(c.attributes["sizes"])]
        inner = dims_of([t for c in calls for t in _tensor_types(c.results[0].type)])
        known = all(isinstance(d, int) or d in renaming.dims for d in [*needed, *inner])
        callees = [self.programs[c.attributes["callee"].value] for c in calls]
        if known and not any(map(_computes_sizes, callees)):
            return renaming
        return substitute_symbols([*dims, *needed, *inner])

    def merge(self) -> func.FuncOp:
        """Builds the fused program."""
        types = [t for v in self.inputs for t in _tensor_types(v.type)]
        written = [t for v in self.results for t in _tensor_types(v.type)]
        owners = [v for v in self.inputs for _ in _tensor_types(v.type)]
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
        """The buffers of a value; a tuple packed here has those of its elements."""
        if value not in self._buffers:
            return [self._of(part) for part in tensors.tuple_elements(value)]
        return self._buffers[value]

    def _flat(self, value: ir.Value) -> list[Buffer]:
        """The buffers of a value, flattened."""
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
                f"expected only calls of tensor programs, got `{op.operation.name}`. "
                "Hint: run LegalizeOps first."
            )

    def _inline_call(self, call: CallTirOp) -> _Buffers:
        """Copies the callee's operations; its destinations become buffers of the fused program."""
        callee = self.programs[call.attributes["callee"].value]
        types = [self.renaming.type(t) for t in _tensor_types(call.results[0].type)]
        given = [
            b for v in tensors.tuple_elements(call.operands[0]) for b in self._flat(v)
        ]
        places = [-1] * len(types)
        if function_attributes.IN_PLACE in call.attributes:
            places = list(from_attribute(call.attributes[function_attributes.IN_PLACE]))
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
        called = function_attributes.arg_names(callee)[
            len(sources) : len(sources) + len(targets)
        ]
        for target, name in zip(targets, called, strict=True):
            self._made[target] = None if name is None else f"{name}_intermediate"
        arguments = list(callee.arguments)
        mapping = dict(zip(arguments, [*sources, *targets, *sizes], strict=True))
        with ir.InsertionPoint(self.builder.function.entry_block):
            *operations, _ = own_operations(callee.entry_block)
            copies = [clone(op, mapping) for op in operations]
        symbols = argument_symbols(callee).values()
        _substitute_shapes(copies, dict(zip(symbols, dims, strict=True)))
        for buffer in (*sources, *targets):
            retype_views(buffer)
        return _nested(call.results[0].type, iter(out))

    def _overwritten(self, given: list[Buffer], place: int) -> Buffer:
        """The argument that a call overwrites; a parameter is copied first.

        The caller's tensor stays unchanged, so that the fused program can be called by
        ``call_tir``.
        """
        source = given[place]
        if any(source is parameter for parameter in self.builder.inputs):
            shape, dtype = source.shape, source.dtype
            given[place] = self.builder.compute(
                shape, lambda *i: source[i], dtype, "copy"
            )
        return given[place]


def _substitute_shapes(
    copies: Sequence[ir.Operation], sizes: Mapping[str, Dim]
) -> None:
    """Substitutes the caller's sizes in the shapes of a copied program.

    Args:
        copies: its operations.
        sizes: the values of its symbols.
    """
    inside = [op for copy in copies for op in (copy.opview, *walk(copy))]
    for op in inside:
        substitute_attributes(op, sizes)
    for op in inside:
        if isinstance(op, (AllocBufferOp, DeclBufferOp)):
            _make_static(op)


def _make_static(op: AllocBufferOp | DeclBufferOp) -> None:
    """Refines a buffer's type after some of its dimensions became static."""
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
    """Takes the next buffers for a value of a type: one, or a list for a tuple."""
    if not isinstance(type_, ir.TupleType):
        return next(buffers)
    parts = [type_.get_type(i) for i in range(type_.num_types)]
    return [_nested(part, buffers) for part in parts]


def _flattened(buffers: _Buffers) -> list[Buffer]:
    if not isinstance(buffers, list):
        return [buffers]
    return [buffer for part in buffers for buffer in _flattened(part)]


def _computes_sizes(program: func.FuncOp) -> bool:
    """Whether a buffer dimension is an expression, such as the output size of a window."""
    places = [n for n, a in enumerate(program.arguments) if _is_buffer(a)]
    dims = [dim for place in places for dim in argument_shape(program, place)]
    return any(not isinstance(d, int) and not str(d).isidentifier() for d in dims)


def _is_buffer(value: ir.Value) -> bool:
    return isinstance(value.type, ir.MemRefType)


def _tensor_inputs(values: Sequence[ir.Value]) -> list[ir.Value]:
    """The parameters that are tensors or tuples of tensors, rather than sizes."""
    return [
        v for v in values if isinstance(v.type, (ir.RankedTensorType, ir.TupleType))
    ]


def _tensor_types(type_: ir.Type) -> list[ir.Type]:
    """The tensor types of a type, tuples flattened."""
    if not isinstance(type_, ir.TupleType):
        return [type_]
    return [t for i in range(type_.num_types) for t in _tensor_types(type_.get_type(i))]


def _make_block_names_unique(function: func.FuncOp) -> None:
    """Makes the names of a program's blocks unique."""
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
    """The attributes of the arguments that are symbols, by argument number."""
    if "arg_attrs" not in program.attributes:
        return {}
    attrs = map(ir.DictAttr, ir.ArrayAttr(program.attributes["arg_attrs"]))
    return {number: a for number, a in enumerate(attrs) if attribute_names.SYMBOL in a}


def _are_parameters(program: func.FuncOp) -> list[bool]:
    """Per symbol of a program, whether calls pass it explicitly after the tensors."""
    return [attribute_names.PARAM in attrs for attrs in _symbol_attrs(program).values()]


def _mark_parameters(program: func.FuncOp) -> None:
    """Marks symbols that no buffer dimension determines as explicit arguments."""
    buffers = [n for n, a in enumerate(program.arguments) if _is_buffer(a)]
    bound = {str(dim) for number in buffers for dim in argument_shape(program, number)}
    attrs = list(ir.ArrayAttr(program.attributes["arg_attrs"]))
    for number, known in _symbol_attrs(program).items():
        if ir.StringAttr(known[attribute_names.SYMBOL]).value not in bound:
            entries = {a.name: a.attr for a in known}
            attrs[number] = ir.DictAttr.get(
                {**entries, attribute_names.PARAM: ir.UnitAttr.get()}
            )
    program.attributes["arg_attrs"] = ir.ArrayAttr.get(attrs)


def _first_equal(
    fused: func.FuncOp, primitive: func.FuncOp, merged: dict[str, str]
) -> str:
    """Names the program after its primitive; returns the name of the first equal program."""
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
    """Replaces the call of a primitive function by a call of the program.

    Args:
        call: of the primitive function.
        primitive: the function.
        callee: name of the program.
        sizes: the values of its symbols inside the function.
        is_parameter: per symbol, whether calls pass it explicitly after the tensors.
    """
    given = tensors.tuple_elements(call.operands[0])
    values = _symbol_values(list(primitive.arguments), given)
    with ir.InsertionPoint(call), call.location:
        new = CallTirOp(
            [part for value in _tensor_inputs(given) for part in flatten_tuple(value)],
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
        new.attributes[function_attributes.TIR_VARS] = tensors.shape_attr(listed)
    copy_script_attributes(call, new)
    packed = call.operands[0].owner
    replace(call, new.result)
    if not has_uses(packed.results[0]):
        erase(packed)


def _symbol_values(
    params: Sequence[ir.Value], given: Sequence[ir.Value]
) -> dict[str, Dim]:
    """The values of a function's symbols at a call."""
    theirs = dims_of([t for v in _tensor_inputs(params) for t in _tensor_types(v.type)])
    ours = dims_of([t for v in _tensor_inputs(given) for t in _tensor_types(v.type)])
    for param, value in zip(params, given, strict=True):
        if param not in _tensor_inputs([param]):
            theirs += _sizes_in(param.type)
            ours += _sizes_in(value.type)
    return {} if theirs == ours else dict(shapes.bind_shape(theirs, ours))


def _sizes_in(type_: ir.Type) -> list[Dim]:
    """The sizes in a type ``!relax.sizes``."""
    return [shapes.parse(text) for text in re.findall(r'"([^"]*)"', str(type_))]


def erase_unused_programs(module: IRModule) -> None:
    """Erases tensor programs without callers."""
    functions = module.func_ops()
    roots = [f.name.value for f in functions if not function_attributes.is_prim_func(f)]
    if not roots:
        return
    reached = CallGraph(module).reachable(roots)
    for function in functions:
        if function.name.value not in reached:
            erase(function)
