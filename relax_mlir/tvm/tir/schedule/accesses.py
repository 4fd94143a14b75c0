"""Buffer accesses of blocks, and the producer/consumer relation between blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from mlir import ir

from relax_mlir.analysis.index_maps import constant_of
from relax_mlir.dialects import tensors
from relax_mlir.dialects.tir import attribute_names
from relax_mlir.errors import ScheduleError
from relax_mlir.ir.traversal import own_operations
from relax_mlir.objects.mlir_attributes import from_attribute
from relax_mlir.objects.stmt.explicit_regions import (
    explicit_regions_attr,
    in_explicit_order,
)
from relax_mlir.objects.write.memref import base_buffer
from relax_mlir.symbolic.dims import Dim
from relax_mlir.tvm.tir.schedule import tree
from relax_mlir.tvm.tir.schedule.indices import IndexSymbols

__all__ = [
    "Access",
    "accesses_in",
    "accesses_with_predicates",
    "allocated_buffers",
    "buffer_at_index",
    "buffer_name",
    "buffer_properties",
    "buffer_shape",
    "buffers_read",
    "buffers_read_with_predicates",
    "buffers_written",
    "check_storage_scope",
    "consumers_of",
    "has_opaque_access",
    "inferred_reads",
    "inferred_writes",
    "is_argument",
    "producers_of",
    "storage_scope",
    "transitive_operands",
]


@dataclass(frozen=True)
class Access:
    """One load or store of a buffer element.

    Attributes:
        op: the operation.
        buffer: the root memref, with views looked through.
        is_write: whether it is a store.
        is_opaque: whether it is not a plain load or store of the buffer itself: an access
            through a view, a vector access or an address.
    """

    op: ir.Operation
    buffer: ir.Value
    is_write: bool
    is_opaque: bool = False

    @property
    def index_values(self) -> list[ir.Value]:
        """The index operands."""
        return list(self.op.operands)[2 if self.is_write else 1 :]

    def indices(self, indices: IndexSymbols) -> tuple[Dim, ...]:
        """The index operands as symbolic expressions."""
        return tuple(map(indices.of, self.index_values))


def _accesses(op: ir.Operation) -> Iterator[Access]:
    if op.name in ("memref.load", "memref.store"):
        is_write = op.name == "memref.store"
        buffer = op.operands[1 if is_write else 0]
        root = base_buffer(buffer)
        yield Access(op, root, is_write, is_opaque=root != buffer)
    elif op.name in ("tir.vector_load", "tir.vector_store"):
        is_write = op.name == "tir.vector_store"
        buffer = op.operands[1 if is_write else 0]
        yield Access(op, base_buffer(buffer), is_write, is_opaque=True)
    elif op.name == "tir.address":
        mask = _access_mask(op.results[0])
        for bit, is_write in ((1, False), (2, True)):
            if mask & bit:
                yield Access(op, base_buffer(op.operands[0]), is_write, is_opaque=True)


def _access_mask(address: ir.Value) -> int:
    """Access mask of an address: 1 for read, 2 for write, 3 for both or unknown."""
    mask = 0
    for use in address.uses:
        arguments = use.owner.operation
        calls = [u.owner.operation for r in arguments.results for u in r.uses]
        if not any(tree.string_attr(c, "callee") == "tvm_access_ptr" for c in calls):
            return 3
        mask |= constant_of(list(arguments.operands)[-1]) or 3
    return mask or 3


def accesses_in(root: ir.Operation | ir.Block) -> list[Access]:
    """All accesses nested in an operation, in program order, except those in predicates.

    A load comes before the loads that compute its indices, as in TVMScript.
    """
    if isinstance(root, ir.Block):
        listed = [o for op in own_operations(root) for o in tree.subtree(op.operation)]
    else:
        listed = tree.subtree(root)
    found: list[Access] = []
    for access in (access for op in listed for access in _accesses(op)):
        inner = [] if access.is_write else list(_loads_of(access.index_values))
        position = next((n for n, a in enumerate(found) if a.op in inner), len(found))
        found.insert(position, access)
    return found


def _loads_of(values: Sequence[ir.Value]) -> Iterator[ir.Operation]:
    """The loads from which values are computed by pure arithmetic only."""
    for value in values:
        owner = value.owner
        if isinstance(owner, ir.Block):
            continue
        if owner.name == "memref.load":
            yield owner.operation
            yield from _loads_of(list(owner.operands)[1:])
        elif tree.is_pure(owner.operation):
            yield from _loads_of(list(owner.operands))


def allocated_buffers(block: ir.Operation) -> list[ir.Value]:
    """The buffers allocated inside a block or PrimFunc."""
    listed = tree.subtree(block)
    return [op.results[0] for op in listed if op.name == "tir.alloc_buffer"]


def _unique(values: Sequence[ir.Value]) -> list[ir.Value]:
    found: list[ir.Value] = []
    for value in values:
        if value not in found:
            found.append(value)
    return found


def buffers_written(block: ir.Operation) -> list[ir.Value]:
    """The buffers from outside that a block writes.

    Order and extent are those of ``T.writes`` where it is given, else of first use.
    """
    return _declared_or_inferred(block, "writes")


def buffers_read(block: ir.Operation) -> list[ir.Value]:
    """The buffers from outside that a block reads.

    The accumulator of a reduction block does not count, unless ``T.reads`` names it.
    """
    return _declared_or_inferred(block, "reads")


def buffers_read_with_predicates(block: ir.Operation) -> list[ir.Value]:
    """The buffers read by a block, its bindings, and the predicates and bounds around it."""
    around = [a.buffer for a in _accesses_around(block)]
    return _unique([*buffers_read(block), *around])


def accesses_with_predicates(block: ir.Operation) -> list[Access]:
    """The accesses of a block, its bindings, and the predicates and bounds around it."""
    return [*accesses_in(block), *_accesses_around(block)]


def _accesses_around(block: ir.Operation) -> list[Access]:
    _, loads = transitive_operands(block)
    return [a for load in loads for a in _accesses(load)]


def transitive_operands(
    block: ir.Operation,
) -> tuple[set[ir.Value], list[ir.Operation]]:
    """The values a block transitively uses, including predicates and bounds around it.

    Returns:
        The values, and the loads outside the block from which they are computed.
    """
    scope = tree.scope_of(block)
    around = list(takewhile(lambda a: a != scope, tree.ancestors(block)))
    body = tree.subtree(block)
    worklist = [v for op in [*body, *around] for v in op.operands]
    inside = set(body)
    used: set[ir.Value] = set()
    loads: list[ir.Operation] = []
    while worklist:
        value = worklist.pop()
        is_new_result = value not in used and not isinstance(value.owner, ir.Block)
        used.add(value)
        if not is_new_result:
            continue
        producer = value.owner.operation
        if producer.name == "memref.load" and producer not in inside:
            loads.append(producer)
        worklist += [v for op in tree.subtree(producer) for v in op.operands]
    return used, loads


def _declared_or_inferred(block: ir.Operation, kind: str) -> list[ir.Value]:
    declared = explicit_regions_attr(block) if tree.is_block(block) else {}
    return in_explicit_order(
        declared, kind, inferred_reads(block), inferred_writes(block)
    )


def inferred_writes(block: ir.Operation) -> list[ir.Value]:
    """The buffers from outside that the body of a block writes, by first use."""
    own = allocated_buffers(block)
    listed = [a.buffer for a in accesses_in(block) if a.is_write]
    return [b for b in _unique(listed) if b not in own]


def inferred_reads(block: ir.Operation) -> list[ir.Value]:
    """The buffers from outside that the body of a block reads, by first use."""
    allocated = allocated_buffers(block)
    reductions = {
        op: inferred_writes(op)
        for op in tree.subtree(block)
        if _is_reduction_update(op)
    }
    found: list[ir.Value] = []
    for access in accesses_in(block):
        inside = {access.op, *tree.ancestors(access.op)}
        accumulated = [
            b for op, written in reductions.items() if op in inside for b in written
        ]
        if not access.is_write and access.buffer not in (*allocated, *accumulated):
            found.append(access.buffer)
    return _unique(found)


def _is_reduction_update(op: ir.Operation) -> bool:
    return tree.is_block(op) and tree.init_block_of(op) is not None


def has_opaque_access(block: ir.Operation, buffer: ir.Value) -> bool:
    """Whether a block accesses a buffer through its address or a view."""
    return any(a.is_opaque and a.buffer == buffer for a in accesses_in(block))


def buffer_name(buffer: ir.Value) -> str:
    """The name of a buffer."""
    owner = buffer.owner
    if not isinstance(owner, ir.Block):
        return tree.string_attr(owner.operation, attribute_names.NAME, "buffer")
    attrs = _argument_attrs(buffer)
    return (
        ir.StringAttr(attrs["relax.name"]).value
        if "relax.name" in attrs
        else (f"arg{ir.BlockArgument(buffer).arg_number}")
    )


def _argument_attrs(buffer: ir.Value) -> ir.DictAttr:
    owner = buffer.owner
    assert isinstance(owner, ir.Block)
    function = owner.owner.operation
    if "arg_attrs" not in function.attributes:
        return ir.DictAttr.get({}, function.context)
    listed = ir.ArrayAttr(function.attributes["arg_attrs"])
    return ir.DictAttr(listed[ir.BlockArgument(buffer).arg_number])


def is_argument(buffer: ir.Value) -> bool:
    """Whether a buffer is a parameter of the PrimFunc."""
    return isinstance(buffer.owner, ir.Block)


def buffer_dtype_attributes(buffer: ir.Value) -> dict[str, ir.Attribute]:
    """The dtype attributes that TVM keeps per buffer and a memref type does not."""
    owner = buffer.owner
    attrs = _argument_attrs(buffer) if isinstance(owner, ir.Block) else owner.attributes
    wanted = (attribute_names.DTYPE, attribute_names.SIZE_DTYPE)
    return {name: attrs[name] for name in wanted if name in attrs}


def buffer_properties(buffer: ir.Value) -> dict[str, object]:
    """The non-default properties of a buffer: alignment, strides, axis separators."""
    owner = buffer.owner
    attrs = _argument_attrs(buffer) if isinstance(owner, ir.Block) else owner.attributes
    return (
        dict(from_attribute(attrs[attribute_names.BUFFER]))
        if attribute_names.BUFFER in attrs
        else {}
    )


def buffer_shape(buffer: ir.Value) -> tuple[Dim, ...]:
    """The shape of a buffer."""
    owner = buffer.owner
    if isinstance(owner, ir.Block):
        attrs = _argument_attrs(buffer)
        if "tir.shape" in attrs:
            return tuple(tensors.python_value(attrs["tir.shape"]))
        return tuple(ir.MemRefType(buffer.type).shape)
    return tuple(tensors.python_value(owner.attributes["shape"]))


def storage_scope(buffer: ir.Value) -> str:
    """The storage scope of a buffer (``global``, ``shared``, ``local``, ...)."""
    space = ir.MemRefType(buffer.type).memory_space
    return "global" if space is None else ir.StringAttr(space).value


def child_blocks(scope: ir.Operation) -> list[ir.Operation]:
    """The blocks directly inside a block or PrimFunc, in program order."""
    return tree.blocks_below(scope)


def writers_of(scope: ir.Operation, buffer: ir.Value) -> list[ir.Operation]:
    """The blocks directly inside a scope that write a buffer."""
    return [b for b in child_blocks(scope) if buffer in buffers_written(b)]


def readers_of(scope: ir.Operation, buffer: ir.Value) -> list[ir.Operation]:
    """The blocks directly inside a scope that read a buffer."""
    return [b for b in child_blocks(scope) if buffer in buffers_read(b)]


def producers_of(block: ir.Operation) -> list[ir.Operation]:
    """The earlier blocks of the same scope that write a buffer the block reads (RAW)."""
    siblings = child_blocks(tree.scope_of(block))
    earlier = siblings[: siblings.index(block)]
    read = buffers_read(block)
    return [b for b in earlier if any(w in read for w in buffers_written(b))]


def consumers_of(block: ir.Operation) -> list[ir.Operation]:
    """The later blocks of the same scope that read a buffer the block writes (RAW)."""
    siblings = child_blocks(tree.scope_of(block))
    later = siblings[siblings.index(block) + 1 :]
    written = buffers_written(block)
    return [b for b in later if any(r in written for r in buffers_read(b))]


def is_output(block: ir.Operation) -> bool:
    """Whether a block is an output block: it writes a buffer its scope does not allocate."""
    scope = tree.scope_of(block)
    own = allocated_buffers(scope)
    return any(b not in own for b in buffers_written(block))


def output_blocks(scope: ir.Operation) -> list[ir.Operation]:
    """The output blocks of all scopes below an operation."""
    inner = [op for op in tree.subtree(scope) if tree.is_block(op) and op != scope]
    return [block for block in inner if is_output(block)]


def buffer_at_index(
    block: ir.Operation, number: int, where: str, *, is_write: bool
) -> ir.Value:
    """The buffer at an index of the read or write regions of a block.

    Raises:
        ScheduleError: the index is out of range.
    """
    find = buffers_written if is_write else buffers_read
    found = find(block)
    if not 0 <= number < len(found):
        verb = "writes" if is_write else "reads"
        raise ScheduleError(
            f"{where}: {tree.describe(block)} {verb} {len(found)} buffers: expected a "
            f"number from 0 to {len(found) - 1}, got {number}"
        )
    return found[number]


_STORAGE_SCOPES = (
    *("global", "shared", "shared.dyn", "local", "warp", "texture", "vtcm"),
    *("wmma.matrix_a", "wmma.matrix_b", "wmma.accumulator", "global.vtcm"),
    *("m16n8k8.matrixA", "m16n8k8.matrixB", "m16n8k8.matrixC", "global.texture"),
    *("metal.simdgroup", "global.texture-nhwc", "global.texture-weight"),
)


def check_storage_scope(scope: str, where: str) -> None:
    """Reject unknown storage scopes.

    Raises:
        ScheduleError: lists the known ones.
    """
    if scope not in _STORAGE_SCOPES:
        raise ScheduleError(
            f"{where}: no storage scope `{scope}`: expected one of {', '.join(_STORAGE_SCOPES)}"
        )
