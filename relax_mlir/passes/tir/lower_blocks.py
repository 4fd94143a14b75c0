"""``tir-lower-blocks``: lowering of scheduled blocks to plain loops and statements."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import func, gpu

from relax_mlir.analysis.index_maps import constant_of
from relax_mlir.analysis.prim_func_verifier import depends_on_loops
from relax_mlir.dialects import dtypes, tensors
from relax_mlir.dialects.tir import (
    AllocBufferOp,
    AttrOp,
    BlockOp,
    DeclBufferOp,
    attribute_names,
    constant,
)
from relax_mlir.errors import PassError
from relax_mlir.ir.function_attributes import is_defined_prim_func
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import own_operations, values_read, walk
from relax_mlir.passes.tir.expand_intrinsics import expand_intrinsics
from relax_mlir.passes.tir.expand_loops import expand_block
from relax_mlir.passes.tir.extern_calls import lower_extern_calls
from relax_mlir.passes.tir.loop_nests import (
    create_loop,
    index_upper_bound,
    is_scheduled,
    rematerialize,
)
from relax_mlir.passes.tir.lower_vectors import lower_vectors
from relax_mlir.rewrite.patterns import Pass, clone, erase, has_uses, replace

__all__ = ["LowerBlocks"]

_LOWERED = frozenset(
    f"tir.{name}" for name in ("address", "assert", "block", "call", "evaluate", "let")
)
_STARTED = "tir.started"  # marks blocks whose initialization precedes them


@dataclass(frozen=True)
class LowerBlocks(Pass):
    """Lower scheduled tensor programs to plain loops.

    A block becomes its body, preceded by its initialization under the condition that all
    reduction axes are at their first point; a block over a whole domain whose reduction may be
    empty gets a separate initialization nest. Buffers are hoisted to the program, in one
    memory space. Lets and assertions are removed: a kernel cannot report errors. Loops bound to
    threads become serial. Aliasing buffer declarations become views; vectors become MLIR
    vectors, and calls of C functions calls of functions that the module declares.

    Args:
        threads: whether programs with thread-bound loops keep GPU constructs: these loops,
            thread-local and shared buffers, barriers, and cross-thread reduction blocks.
    """

    threads: bool = False

    def run(self, module: IRModule) -> None:
        for function in module.func_ops():
            if is_defined_prim_func(function) and is_scheduled(function):
                keeps = self.threads and any(map(_is_bound, walk(function)))
                _Lowering(module, function, keeps).run()


def _is_bound(op: ir.OpView | ir.Operation) -> bool:
    """Whether it is a loop bound to threads."""
    return op.operation.name == "scf.for" and attribute_names.THREAD in op.attributes


class _Lowering:
    """Lowers one program.

    Args:
        keeps_threads: whether the target has threads.
    """

    def __init__(
        self, module: IRModule, function: func.FuncOp, keeps_threads: bool
    ) -> None:
        self._module, self._function = module, function
        self._keeps_threads = keeps_threads
        self._entry = function.entry_block

    def run(self) -> None:
        """Lowers the whole program."""
        for op in list(walk(self._function)):
            if isinstance(op, AttrOp):
                _inline_attr(op)
        _lower_declarations(self._function)
        lower_vectors(self._function)
        expand_intrinsics(self._function)
        self._plain_arguments()
        for op in list(walk(self._function)):
            if isinstance(op, BlockOp) and not len(op.bindings) and len(op.kinds.value):
                if op.has_init and _may_reduce_nothing(op):
                    _emit_init_nest(op)
                expand_block(op)
        for op in list(walk(self._function)):
            if isinstance(op, AllocBufferOp):
                self._hoist(op)
        lower_extern_calls(self._module, self._function)
        # Innermost first, so that no moved operation contains a block. Others are not looked
        # at: one that packs the arguments of a call is erased with it.
        lowered = [op for op in walk(self._function) if op.operation.name in _LOWERED]
        for op in reversed(lowered):
            self._lower(op)

    def _plain_arguments(self) -> None:
        """Moves buffer arguments to the default memory space."""
        for argument in self._entry.arguments:
            if isinstance(argument.type, ir.MemRefType):
                _set_type(argument, _in_plain_memory(ir.MemRefType(argument.type)))
        types = [a.type for a in self._entry.arguments]
        signature = ir.FunctionType.get(types, [])
        self._function.attributes["function_type"] = ir.TypeAttr.get(signature)

    def _hoist(self, op: AllocBufferOp) -> None:
        """Moves an allocation to the program's entry."""
        op = self._widened(op)
        first = next(iter(own_operations(self._entry)))
        with ir.InsertionPoint(first), op.location:
            mapping: dict[ir.Value, ir.Value] = {}
            sizes = [rematerialize(v, mapping) for v in op.operation.operands]
            space = self._space_of(op) if self._keeps_threads else None
            if space is not None:
                made = _alloc_in(space, ir.MemRefType(op.buffer.type), sizes)
                replace(op, made)
                return
            made = ir.Operation.create(
                AllocBufferOp.OPERATION_NAME,
                results=[_in_plain_memory(ir.MemRefType(op.buffer.type))],
                operands=sizes,
                attributes={name: op.attributes[name] for name in op.attributes},
            )
            if attribute_names.CONTENTS in op.attributes:
                _fill(
                    made.results[0],
                    ir.ArrayAttr(op.attributes[attribute_names.CONTENTS]),
                )
        replace(op, made.results[0])
        _propagate_memory_space(made.results[0])

    def _widened(self, op: AllocBufferOp) -> AllocBufferOp:
        """The buffer with an upper bound of its size over all iterations of its loops.

        Raises:
            PassError: no constant bounds a size.
        """
        if not any(map(depends_on_loops, op.operation.operands)):
            return op
        type_ = ir.MemRefType(op.buffer.type)
        sizes = list(tensors.python_value(op.attributes["shape"]))
        given = iter(list(op.operation.operands))
        shape: list[int] = []
        operands: list[ir.Value] = []
        for number, extent in enumerate(type_.shape):
            value = next(given) if extent < 0 else None
            if value is not None and depends_on_loops(value):
                size = index_upper_bound(value)
                if size is None:
                    raise PassError(
                        f"`{self._function.name.value}`: {op.location}: size {number} of a "
                        "buffer depends on loops: expected loops of constant bounds"
                    )
                extent = sizes[number] = max(size, 0)
            elif value is not None:
                operands.append(value)
            shape.append(extent)
        wide = ir.MemRefType.get(shape, type_.element_type, None, type_.memory_space)
        attributes = {name: op.attributes[name] for name in op.attributes}
        with ir.InsertionPoint(op), op.location:
            made = ir.Operation.create(
                AllocBufferOp.OPERATION_NAME,
                results=[wide],
                operands=operands,
                attributes={**attributes, "shape": tensors.shape_attr(sizes)},
            )
        replace(op, made.results[0])
        return made.opview  # pyright: ignore[reportReturnType]

    def _space_of(self, op: AllocBufferOp) -> str | None:
        """The GPU address space of a buffer; None for global memory."""
        memory = ir.MemRefType(op.buffer.type).memory_space
        scope = "global" if memory is None else ir.StringAttr(memory).value
        if scope not in _SPACES:
            raise PassError(
                f"`{self._function.name.value}`: {op.location}: unknown memory scope "
                f"`{scope}`: expected one of "
                f"{', '.join(f'`{name}`' for name in _SPACES)}"
            )
        return _SPACES[scope]

    def _lower(self, op: ir.OpView) -> None:
        name = op.operation.name
        if isinstance(op, BlockOp):
            if not (self._keeps_threads and _is_cross_thread_reduction(op)):
                _inline(op)
        elif name == "tir.let":
            replace(op, op.operands[0])
        elif name in ("tir.evaluate", "tir.assert"):
            erase(op)
        elif name == "tir.address":
            _lower_address(op)
        elif name == "tir.call":
            self._lower_call(op)

    def _lower_call(self, op: ir.OpView) -> None:
        callee = ir.StringAttr(op.attributes["callee"]).value
        if callee in _WITHOUT_EFFECT and not any(map(has_uses, op.operation.results)):
            if callee == "tvm_storage_sync" and self._keeps_threads:
                self._write_barrier(op)
            _erase_call(op)
            return
        raise PassError(
            f"`{self._function.name.value}`: {op.location}: `T.{callee}` has no lowering "
            "for a CPU: expected arithmetic, loads and stores. Call foreign functions from "
            "the graph, by `R.call_dps_packed`"
        )

    def _write_barrier(self, call: ir.OpView) -> None:
        scopes = [
            ir.StringAttr(a).value for a in ir.ArrayAttr(call.attributes["literals"])
        ]
        if "global" in scopes:
            raise PassError(
                f"`{self._function.name.value}`: {call.location}: all threads of a launch "
                'cannot synchronize: expected `T.tvm_storage_sync("shared")`, or the rest '
                "of the program in thread-bound loops of its own"
            )
        with ir.InsertionPoint(call), call.location:
            gpu.BarrierOp()


_WITHOUT_EFFECT = frozenset(
    {"assume", "ignore_loop_partition", "tvm_storage_sync", "undef"}
)


# Memory scope to GPU address space.
_SPACES = {
    "global": None,
    "local": "private",
    "shared": "workgroup",
    "shared.dyn": "workgroup",
}


def _alloc_in(space: str, type_: ir.MemRefType, sizes: list[ir.Value]) -> ir.Value:
    memory = ir.Attribute.parse(f"#gpu.address_space<{space}>")
    shape = list(type_.shape)
    made = ir.MemRefType.get(shape, type_.element_type, type_.layout, memory)
    segments = ir.DenseI32ArrayAttr.get([len(sizes), 0])
    return ir.Operation.create(
        "memref.alloc",
        results=[made],
        operands=sizes,
        attributes={"operandSegmentSizes": segments},
    ).results[0]


def _is_cross_thread_reduction(op: BlockOp) -> bool:
    """Whether a block is a cross-thread reduction within one thread block.

    Raises:
        PassError: the reduction spans several thread blocks.
    """
    bindings = zip(op.kinds.value, op.bindings, strict=False)
    axes = {a for kind, v in bindings if kind == "R" for a in _threads_of(v)}
    if any(axis.startswith("blockIdx") for axis in axes):
        raise PassError(
            f"block `{op.name.value}`: {op.location}: a reduce axis depends on a loop "
            "bound to `blockIdx`: expected a reduction within one thread block"
        )
    return any(axis.startswith("threadIdx") for axis in axes)


def _threads_of(value: ir.Value) -> set[str]:
    """The thread axes that a value depends on."""
    owner = value.owner
    if not isinstance(owner, ir.Block):
        return {axis for v in values_read(owner) for axis in _threads_of(v)}
    holder = owner.owner.opview
    if isinstance(holder, BlockOp):
        return _threads_of(holder.bindings[ir.BlockArgument(value).arg_number])
    if not _is_bound(holder):
        return set()
    return {ir.StringAttr(holder.attributes[attribute_names.THREAD]).value}


def _inline_attr(op: AttrOp) -> None:
    """Replaces an attribute statement by its body; attributes do not change semantics."""
    *operations, _ = own_operations(op.body.blocks[0])
    for inner in operations:
        inner.operation.move_before(op.operation)
    _erase_call(op)


def _erase_call(op: ir.OpView) -> None:
    """Erases an operation and the tuple pack of its arguments."""
    pack = op.operands[0].owner
    erase(op)
    if not isinstance(pack, ir.Block):
        erase(pack)


def _lower_declarations(function: func.FuncOp) -> None:
    """Replaces buffer declarations on another buffer's memory by views."""
    for op in list(walk(function)):
        if not isinstance(op, DeclBufferOp):
            continue
        pointer = op.pointer.owner
        is_address = not isinstance(pointer, ir.Block) and pointer.name == "tir.address"
        source = pointer.operands[0] if is_address else None
        if source is None or not _fits(source, op.buffer) or len(op.sizes):
            raise PassError(
                f"`{function.name.value}`: {op.location}: a buffer over a foreign pointer has "
                "no lowering: expected the memory of another buffer of the same element type"
            )
        with ir.InsertionPoint(op), op.location:
            replace(op, _view(source, ir.MemRefType(op.buffer.type)))


def _fits(source: ir.Value, buffer: ir.Value) -> bool:
    """Whether a buffer may alias another one's memory."""
    types = [ir.MemRefType(v.type) for v in (source, buffer)]
    is_same = types[0].element_type == types[1].element_type
    return is_same and all(t.has_static_shape for t in types)


def _view(source: ir.Value, type_: ir.MemRefType) -> ir.Value:
    """A view of the first elements of a dense buffer in another shape."""
    shape = list(type_.shape)
    strides = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    memory = ir.MemRefType(source.type).memory_space
    layout = type_.layout
    return ir.Operation.create(
        "memref.reinterpret_cast",
        results=[ir.MemRefType.get(shape, type_.element_type, layout, memory)],
        operands=[source],
        attributes={
            "static_offsets": ir.DenseI64ArrayAttr.get([0]),
            "static_sizes": ir.DenseI64ArrayAttr.get(shape),
            "static_strides": ir.DenseI64ArrayAttr.get(strides),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 0, 0, 0]),
        },
    ).results[0]


def _in_plain_memory(type_: ir.MemRefType) -> ir.MemRefType:
    if type_.memory_space is None:
        return type_
    return ir.MemRefType.get(list(type_.shape), type_.element_type, type_.layout)


def _set_type(value: ir.Value, type_: ir.MemRefType) -> None:
    if value.type != type_:
        value.set_type(type_)
        _propagate_memory_space(value)


def _fill(buffer: ir.Value, contents: ir.ArrayAttr) -> None:
    """Stores constants into a buffer, element by element."""
    type_ = ir.MemRefType(buffer.type)
    elements = dtypes.from_mlir(type_.element_type)
    places = itertools.product(*map(range, type_.shape))
    for place, value in zip(places, contents, strict=True):
        stored = constant(value.value, elements).value
        indices = [_index(i) for i in place]
        ir.Operation.create("memref.store", operands=[stored, buffer, *indices])


def _index(number: int) -> ir.Value:
    index = ir.IndexType.get()
    value = ir.IntegerAttr.get(index, number)
    return ir.Operation.create(
        "arith.constant", results=[index], attributes={"value": value}
    ).results[0]


def _propagate_memory_space(value: ir.Value) -> None:
    """Propagates a buffer's memory space to its subviews."""
    for use in value.uses:
        owner = use.owner.operation
        if owner.name in ("memref.subview", "memref.reinterpret_cast"):
            _set_type(
                owner.results[0], _in_plain_memory(ir.MemRefType(owner.results[0].type))
            )


def _may_reduce_nothing(op: BlockOp) -> bool:
    """Whether a reduction axis of a block over a whole domain may be empty."""
    axes = zip(op.kinds.value, op.static_extents, strict=True)
    return any(kind == "R" and extent < 1 for kind, extent in axes)


def _emit_init_nest(op: BlockOp) -> None:
    """Emits a block's initialization as a loop nest before it."""
    point, variables = ir.InsertionPoint(op), []
    for number, (kind, extent) in enumerate(
        zip(op.kinds.value, op.axis_extents(), strict=True)
    ):
        with point, op.location:
            if kind == "R":
                variables.append(_index(0))
                continue
            _, body = create_loop(extent, f"i{number}", None)
        variables.append(body.arguments[0])
        point = ir.InsertionPoint(list(own_operations(body))[-1])
    mapping = dict(zip(op.init.blocks[0].arguments, variables, strict=True))
    *operations, _ = own_operations(op.init.blocks[0])
    with point, op.location:
        for inner in operations:
            clone(inner, mapping)
    op.attributes[_STARTED] = ir.UnitAttr.get()


def _inline(op: BlockOp) -> None:
    """Replaces a block by its body."""
    bindings = list(op.bindings)
    if op.has_init and _STARTED not in op.attributes:
        with ir.InsertionPoint(op), op.location:
            _emit_init(op, bindings)
    body = op.body.blocks[0]
    for argument, binding in zip(body.arguments, bindings, strict=True):
        argument.replace_all_uses_with(binding)
    *operations, _ = own_operations(body)
    for inner in operations:
        inner.operation.move_before(op.operation)
    op.operation.erase()


def _emit_init(op: BlockOp, bindings: list[ir.Value]) -> None:
    """Emits the initialization, under the condition of the first reduction point."""
    condition = _at_start(op, bindings)
    mapping = dict(zip(op.init.blocks[0].arguments, bindings, strict=True))
    *operations, _ = own_operations(op.init.blocks[0])
    if condition is None:
        for inner in operations:
            clone(inner, mapping)
        return
    choice = ir.Operation.create("scf.if", operands=[condition], regions=2)
    with ir.InsertionPoint(ir.Block.create_at_start(choice.regions[0], [])):
        for inner in operations:
            clone(inner, mapping)
        ir.Operation.create("scf.yield")


def _at_start(op: BlockOp, bindings: list[ir.Value]) -> ir.Value | None:
    """Whether all reduction axes are at their first point; None if always true."""
    starts = [0] * len(bindings)
    if attribute_names.AXIS_STARTS in op.attributes:
        starts = list(tensors.python_value(op.attributes[attribute_names.AXIS_STARTS]))
    total: ir.Value | None = None
    for kind, binding, start in zip(op.kinds.value, bindings, starts, strict=True):
        if kind != "R" or constant_of(binding) == start:
            continue
        test = _equals(binding, start)
        total = test if total is None else _both(total, test)
    return total


def _equals(value: ir.Value, number: int) -> ir.Value:
    index = ir.IndexType.get()
    constant = ir.Operation.create(
        "arith.constant",
        results=[index],
        attributes={"value": ir.IntegerAttr.get(index, number)},
    )
    predicate = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0)
    return ir.Operation.create(
        "arith.cmpi",
        results=[ir.IntegerType.get_signless(1)],
        operands=[value, constant.results[0]],
        attributes={"predicate": predicate},
    ).results[0]


def _both(lhs: ir.Value, rhs: ir.Value) -> ir.Value:
    return ir.Operation.create(
        "arith.andi", results=[lhs.type], operands=[lhs, rhs]
    ).results[0]


def _lower_address(op: ir.OpView) -> None:
    """Erases an unused pointer."""
    if not has_uses(op.operation.results[0]):
        erase(op)
