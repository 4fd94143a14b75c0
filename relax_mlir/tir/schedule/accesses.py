"""Which buffers blocks touch, and which blocks depend on which."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.dims import Dim
from relax_mlir.dialects.tir import marks
from relax_mlir.errors import ScheduleError
from relax_mlir.indexing import constant_of
from relax_mlir.objects.attributes import from_attribute
from relax_mlir.objects.memrefs import whole_buffer
from relax_mlir.objects.said_regions import in_said_order, said_of
from relax_mlir.tir.schedule import tree
from relax_mlir.tir.schedule.indices import Indices
from relax_mlir.traversal import own_operations

__all__ = [
    "Access",
    "accesses_in",
    "accesses_with_conditions",
    "buffer_extras",
    "buffer_name",
    "buffer_of",
    "buffer_shape",
    "buffers_read",
    "buffers_read_with_conditions",
    "buffers_written",
    "check_storage_scope",
    "consumers_of",
    "has_opaque_access",
    "is_argument",
    "operands_around",
    "own_buffers",
    "producers_of",
    "reads",
    "storage_scope",
    "writes",
]


@dataclass(frozen=True)
class Access:
    """One read or write of an element.

    Attributes:
        op: the operation.
        buffer: the memref, as it is called where it was made.
        is_write: whether it writes.
        is_opaque: whether it is no plain load or store of the buffer itself.
    """

    op: ir.Operation
    buffer: ir.Value
    is_write: bool
    is_opaque: bool = False

    @property
    def index_values(self) -> list[ir.Value]:
        """Where the element lies."""
        return list(self.op.operands)[2 if self.is_write else 1 :]

    def indices(self, indices: Indices) -> tuple[Dim, ...]:
        """Where the element lies, as expressions."""
        return tuple(map(indices.of, self.index_values))


def _accesses(op: ir.Operation) -> Iterator[Access]:
    if op.name in ("memref.load", "memref.store"):
        is_write = op.name == "memref.store"
        buffer = op.operands[1 if is_write else 0]
        root = whole_buffer(buffer)
        yield Access(op, root, is_write, is_opaque=root != buffer)
    elif op.name in ("tir.vector_load", "tir.vector_store"):
        is_write = op.name == "tir.vector_store"
        buffer = op.operands[1 if is_write else 0]
        yield Access(op, whole_buffer(buffer), is_write, is_opaque=True)
    elif op.name == "tir.address":
        mask = _access_mask(op.results[0])
        for bit, is_write in ((1, False), (2, True)):
            if mask & bit:
                yield Access(op, whole_buffer(op.operands[0]), is_write, is_opaque=True)


def _access_mask(address: ir.Value) -> int:
    """What an address is for: 1 to read, 2 to write, 3 for both or who knows."""
    found = 0
    for use in address.uses:
        arguments = use.owner.operation
        calls = [u.owner.operation for r in arguments.results for u in r.uses]
        if not any(tree.string_attr(c, "callee") == "tvm_access_ptr" for c in calls):
            return 3
        found |= constant_of(list(arguments.operands)[-1]) or 3
    return found or 3


def accesses_in(root: ir.Operation | ir.Block) -> list[Access]:
    """All accesses below an operation, in order; those of predicates left out.

    A read comes before those that say where it reads, as in a script.
    """
    if isinstance(root, ir.Block):
        listed = [o for op in own_operations(root) for o in tree.subtree(op.operation)]
    else:
        listed = tree.subtree(root)
    found: list[Access] = []
    for access in (access for op in listed for access in _accesses(op)):
        inner = [] if access.is_write else list(_loads_of(access.index_values))
        place = next((n for n, a in enumerate(found) if a.op in inner), len(found))
        found.insert(place, access)
    return found


def _loads_of(values: Sequence[ir.Value]) -> Iterator[ir.Operation]:
    """The reads that values are computed of, by arithmetic alone."""
    for value in values:
        owner = value.owner
        if isinstance(owner, ir.Block):
            continue
        if owner.name == "memref.load":
            yield owner.operation
            yield from _loads_of(list(owner.operands)[1:])
        elif tree.is_pure(owner.operation):
            yield from _loads_of(list(owner.operands))


def own_buffers(block: ir.Operation) -> list[ir.Value]:
    """The buffers that are allocated inside a block or program."""
    listed = tree.subtree(block)
    return [op.results[0] for op in listed if op.name == "tir.alloc_buffer"]


def _unique(values: Sequence[ir.Value]) -> list[ir.Value]:
    found: list[ir.Value] = []
    for value in values:
        if value not in found:
            found.append(value)
    return found


def buffers_written(block: ir.Operation) -> list[ir.Value]:
    """The buffers from outside that a block writes, as it says or mentions them."""
    return _as_said(block, "writes")


def buffers_read(block: ir.Operation) -> list[ir.Value]:
    """The buffers from outside that a block reads, as it says or mentions them.

    What a block with a start value accumulates in does not count, but where it says so.
    """
    return _as_said(block, "reads")


def buffers_read_with_conditions(block: ir.Operation) -> list[ir.Value]:
    """The buffers that a block, its axes, and conditions and bounds around it read."""
    around = [a.buffer for a in _accesses_around(block)]
    return _unique([*buffers_read(block), *around])


def accesses_with_conditions(block: ir.Operation) -> list[Access]:
    """The accesses of a block, of its axes, and of conditions and bounds around it."""
    return [*accesses_in(block), *_accesses_around(block)]


def _accesses_around(block: ir.Operation) -> list[Access]:
    _, loads = operands_around(block)
    return [a for load in loads for a in _accesses(load)]


def operands_around(
    block: ir.Operation,
) -> tuple[set[ir.Value], list[ir.Operation]]:
    """The values that a block uses, with those of conditions and bounds around it.

    Returns:
        Also the loads outside of it of which they are computed.
    """
    scope = tree.scope_of(block)
    around = list(takewhile(lambda a: a != scope, tree.ancestors(block)))
    body = tree.subtree(block)
    waiting = [v for op in [*body, *around] for v in op.operands]
    inside = set(body)
    seen: set[ir.Value] = set()
    loads: list[ir.Operation] = []
    while waiting:
        value = waiting.pop()
        is_made = value not in seen and not isinstance(value.owner, ir.Block)
        seen.add(value)
        if not is_made:
            continue
        maker = value.owner.operation
        if maker.name == "memref.load" and maker not in inside:
            loads.append(maker)
        waiting += [v for op in tree.subtree(maker) for v in op.operands]
    return seen, loads


def _as_said(block: ir.Operation, kind: str) -> list[ir.Value]:
    said = said_of(block) if tree.is_block(block) else {}
    return in_said_order(said, kind, reads(block), writes(block))


def writes(block: ir.Operation) -> list[ir.Value]:
    """The buffers from outside that the body of a block writes, by first mention."""
    own = own_buffers(block)
    listed = [a.buffer for a in accesses_in(block) if a.is_write]
    return [b for b in _unique(listed) if b not in own]


def reads(block: ir.Operation) -> list[ir.Value]:
    """The buffers from outside that the body of a block reads, by first mention."""
    hidden = own_buffers(block)
    started = {op: writes(op) for op in tree.subtree(block) if _has_start(op)}
    found: list[ir.Value] = []
    for access in accesses_in(block):
        inside = {access.op, *tree.ancestors(access.op)}
        sums = [b for op, written in started.items() if op in inside for b in written]
        if not access.is_write and access.buffer not in (*hidden, *sums):
            found.append(access.buffer)
    return _unique(found)


def _has_start(op: ir.Operation) -> bool:
    return tree.is_block(op) and tree.init_of(op) is not None


def has_opaque_access(block: ir.Operation, buffer: ir.Value) -> bool:
    """Whether a block touches a buffer by its address, or through a part of it."""
    return any(a.is_opaque and a.buffer == buffer for a in accesses_in(block))


def buffer_name(buffer: ir.Value) -> str:
    """What a buffer is called."""
    owner = buffer.owner
    if not isinstance(owner, ir.Block):
        return tree.string_attr(owner.operation, marks.NAME, "buffer")
    said = _argument_attrs(buffer)
    return (
        ir.StringAttr(said["relax.name"]).value
        if "relax.name" in said
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
    """Whether who calls the program brings a buffer."""
    return isinstance(buffer.owner, ir.Block)


def buffer_marks(buffer: ir.Value) -> dict[str, ir.Attribute]:
    """What the IR remembers of a buffer beside its type, shape and name."""
    owner = buffer.owner
    said = _argument_attrs(buffer) if isinstance(owner, ir.Block) else owner.attributes
    wanted = (marks.DTYPE, marks.SIZE_DTYPE)
    return {name: said[name] for name in wanted if name in said}


def buffer_extras(buffer: ir.Value) -> dict[str, object]:
    """What is unusual of a buffer: its alignment, strides, axis separators."""
    owner = buffer.owner
    said = _argument_attrs(buffer) if isinstance(owner, ir.Block) else owner.attributes
    return dict(from_attribute(said[marks.BUFFER])) if marks.BUFFER in said else {}


def buffer_shape(buffer: ir.Value) -> tuple[Dim, ...]:
    """The dimensions of a buffer."""
    owner = buffer.owner
    if isinstance(owner, ir.Block):
        said = _argument_attrs(buffer)
        if "tir.shape" in said:
            return tuple(tensors.python_value(said["tir.shape"]))
        return tuple(ir.MemRefType(buffer.type).shape)
    return tuple(tensors.python_value(owner.attributes["shape"]))


def storage_scope(buffer: ir.Value) -> str:
    """The memory that a buffer lives in."""
    space = ir.MemRefType(buffer.type).memory_space
    return "global" if space is None else ir.StringAttr(space).value


def scope_children(scope: ir.Operation) -> list[ir.Operation]:
    """The blocks that stand directly in a block, in order."""
    return tree.blocks_below(scope)


def writers_of(scope: ir.Operation, buffer: ir.Value) -> list[ir.Operation]:
    """The blocks directly in a scope that write a buffer."""
    return [b for b in scope_children(scope) if buffer in buffers_written(b)]


def readers_of(scope: ir.Operation, buffer: ir.Value) -> list[ir.Operation]:
    """The blocks directly in a scope that read a buffer."""
    return [b for b in scope_children(scope) if buffer in buffers_read(b)]


def producers_of(block: ir.Operation) -> list[ir.Operation]:
    """The blocks of the same scope that write what a block reads, before it."""
    siblings = scope_children(tree.scope_of(block))
    earlier = siblings[: siblings.index(block)]
    read = buffers_read(block)
    return [b for b in earlier if any(w in read for w in buffers_written(b))]


def consumers_of(block: ir.Operation) -> list[ir.Operation]:
    """The blocks of the same scope that read what a block writes, after it."""
    siblings = scope_children(tree.scope_of(block))
    later = siblings[siblings.index(block) + 1 :]
    written = buffers_written(block)
    return [b for b in later if any(r in written for r in buffers_read(b))]


def is_output(block: ir.Operation) -> bool:
    """Whether a block writes what its scope shows outside."""
    scope = tree.scope_of(block)
    own = own_buffers(scope)
    return any(b not in own for b in buffers_written(block))


def output_blocks(scope: ir.Operation) -> list[ir.Operation]:
    """The blocks inside a scope, at any depth, that write what their own scopes show."""
    inner = [op for op in tree.subtree(scope) if tree.is_block(op) and op != scope]
    return [block for block in inner if is_output(block)]


def buffer_of(
    block: ir.Operation, number: int, where: str, *, is_write: bool
) -> ir.Value:
    """The buffer with a number among those that a block reads or writes.

    Raises:
        ScheduleError: there are not as many.
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
    """Refuse memories that do not exist.

    Raises:
        ScheduleError: says which do.
    """
    if scope not in _STORAGE_SCOPES:
        raise ScheduleError(
            f"{where}: no storage scope `{scope}`: expected one of {', '.join(_STORAGE_SCOPES)}"
        )
