"""The tree of loops and blocks in a tensor program: who stands in whom.

Between them stand only pure arithmetic, which computes bounds, bindings and predicates,
and allocations; neither counts as a statement here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.tir import marks
from relax_mlir.errors import ScheduleError
from relax_mlir.objects.attributes import from_attribute
from relax_mlir.objects.effects import is_scalar_arithmetic
from relax_mlir.traversal import own_operations

__all__ = [
    "ancestors",
    "annotations_of",
    "axis_extents",
    "block_name",
    "blocks_below",
    "body",
    "child_of",
    "children",
    "common_place",
    "describe",
    "enclosing_loops",
    "function_of",
    "is_block",
    "is_function",
    "is_loop",
    "is_pure",
    "is_statement",
    "kind_of",
    "loop_name",
    "loops_below",
    "position_in",
    "realize_of",
    "region_in",
    "scope_of",
    "string_attr",
    "subtree",
]

_NO_STATEMENTS = (
    "tir.alloc_buffer",
    "memref.load",
    "memref.subview",
    "gpu.yield",
    "scf.yield",
    "func.return",
    "scf.condition",
)
_ADVANCE = ir.WalkResult.ADVANCE


def is_loop(op: ir.Operation) -> bool:
    """Whether it is a loop."""
    return op.name == "scf.for" and len(op.results) == 0


def is_block(op: ir.Operation) -> bool:
    """Whether it is a block."""
    return op.name == "tir.block"


def is_function(op: ir.Operation) -> bool:
    """Whether it is a program, which stands for its outermost block."""
    return op.name == "func.func"


def is_statement(op: ir.Operation) -> bool:
    """Whether it is a loop, a block or a program: what schedules have variables for."""
    return is_loop(op) or is_block(op) or is_function(op)


def is_where(op: ir.Operation) -> bool:
    """Whether it is the predicate of a block."""
    return op.name == "scf.if" and marks.WHERE in op.attributes


def is_pure(op: ir.Operation) -> bool:
    """Whether it computes a scalar of scalars and does nothing else."""
    return is_scalar_arithmetic(op)


def parent_of(op: ir.Operation) -> ir.Operation:
    """The operation around."""
    found = op.parent
    assert found is not None
    return found.operation


def ancestors(op: ir.Operation) -> Iterator[ir.Operation]:
    """The operations around, innermost first, up to the program."""
    while not is_function(op):
        op = parent_of(op)
        yield op


def function_of(op: ir.Operation) -> ir.Operation:
    """The program around."""
    return op if is_function(op) else list(ancestors(op))[-1]


def scope_of(op: ir.Operation) -> ir.Operation:
    """The block that a loop or a block stands in, or the program."""
    return next(a for a in ancestors(op) if is_block(a) or is_function(a))


def enclosing_loops(op: ir.Operation) -> list[ir.Operation]:
    """The loops around, up to the next block, outermost first."""
    found: list[ir.Operation] = []
    for ancestor in ancestors(op):
        if is_block(ancestor) or is_function(ancestor):
            break
        if is_loop(ancestor):
            found.append(ancestor)
    return found[::-1]


def common_place(op: ir.Operation, others: Sequence[ir.Operation]) -> ir.Operation:
    """The innermost loop around an operation and one of others, or its scope."""
    around = {a for other in others for a in (other, *ancestors(other))}
    loops = [loop for loop in enclosing_loops(op) if loop in around]
    return loops[-1] if loops else scope_of(op)


def body(op: ir.Operation) -> ir.Block:
    """The statements of a loop, a block, a predicate or a program."""
    return op.regions[1 if is_block(op) else 0].blocks[0]


def children(op: ir.Operation) -> list[ir.Operation]:
    """The statements directly inside, in order."""
    return statements(body(op))


def statements(block: ir.Block) -> list[ir.Operation]:
    """The statements among some operations."""
    listed = [op.operation for op in own_operations(block)]
    return [op for op in listed if not is_pure(op) and op.name not in _NO_STATEMENTS]


def child_of(ancestor: ir.Operation, op: ir.Operation) -> ir.Operation:
    """The statement directly inside ``ancestor`` that is ``op`` or holds it."""
    for outer in ancestors(op):
        if outer == ancestor:
            return op
        op = outer
    raise ValueError("not an ancestor")


def position_in(place: ir.Operation, op: ir.Operation) -> int:
    """The number of the statement of a loop or block that is ``op`` or holds it.

    Raises:
        ScheduleError: it stands where the start value of a block is computed.
    """
    listed, child = children(place), child_of(place, op)
    if child not in listed:
        raise ScheduleError(
            f"{describe(op)} computes the start value of {describe(place)}: expected a "
            "block of its body. Hint: `decompose_reduction` moves it out"
        )
    return listed.index(child)


def region_in(block: ir.Operation, op: ir.Operation) -> ir.Block:
    """The list of operations of a block, its start or its body, that one stands in."""
    inner = [op, *ancestors(op)]
    return inner[inner.index(block) - 1].block


def realize_of(block: ir.Operation) -> ir.Operation:
    """A block with its predicate, if it has one."""
    if is_function(block):
        return block
    outer = parent_of(block)
    return outer if is_where(outer) else block


def guard_of(block: ir.Operation) -> ir.Operation | None:
    """The predicate of a block."""
    outer = realize_of(block)
    return None if outer == block else outer


def subtree(root: ir.Operation) -> list[ir.Operation]:
    """An operation and all below, outer first."""
    found: list[ir.Operation] = []
    # Much of a schedule's time goes by here: MLIR goes over the operations.
    root.walk(lambda op: found.append(op) or _ADVANCE, ir.WalkOrder.PRE_ORDER)
    return found


def blocks_below(op: ir.Operation) -> list[ir.Operation]:
    """The blocks inside that no other block inside holds, in order."""
    found: list[ir.Operation] = []
    for region in op.regions:
        for block in region.blocks:
            for inner in own_operations(block):
                inner = inner.operation
                found += [inner] if is_block(inner) else blocks_below(inner)
    return found


def loops_below(op: ir.Operation) -> list[ir.Operation]:
    """The loops inside, not those in blocks inside, outer first."""
    found: list[ir.Operation] = []
    for region in op.regions:
        for block in region.blocks:
            for inner in own_operations(block):
                inner = inner.operation
                if is_loop(inner):
                    found.append(inner)
                if not is_block(inner):
                    found += loops_below(inner)
    return found


def string_attr(op: ir.Operation, name: str, otherwise: str = "") -> str:
    """A string attribute, or what stands for it where there is none."""
    if name not in op.attributes:
        return otherwise
    return ir.StringAttr(op.attributes[name]).value


def block_name(block: ir.Operation) -> str:
    """The name of a block; a program's is that of its root block."""
    if is_function(block):
        return string_attr(block, marks.ROOT, "root")
    return string_attr(block, "name")


def loop_name(loop: ir.Operation) -> str:
    """The name of a loop's variable."""
    return string_attr(loop, marks.NAME, "i")


def kind_of(loop: ir.Operation) -> str:
    """How the steps of a loop run."""
    return string_attr(loop, marks.KIND, "serial")


def kinds_of(block: ir.Operation) -> str:
    """A letter per axis of a block."""
    return string_attr(block, "kinds")


def annotations_of(op: ir.Operation) -> dict[str, Any]:
    """What schedules say of a loop or a block."""
    if marks.ANNOTATIONS not in op.attributes:
        return {}
    return dict(from_attribute(op.attributes[marks.ANNOTATIONS]))


def axis_names(block: ir.Operation) -> list[str]:
    """What the axes of a block are called."""
    if marks.AXIS_NAMES in block.attributes:
        return list(from_attribute(block.attributes[marks.AXIS_NAMES]))
    return [f"v{n}" for n in range(len(kinds_of(block)))]


def axis_dtypes(block: ir.Operation) -> list[str]:
    """The types of the axes of a block."""
    if marks.AXIS_DTYPES in block.attributes:
        return list(from_attribute(block.attributes[marks.AXIS_DTYPES]))
    return ["int32"] * len(kinds_of(block))


def axis_starts(block: ir.Operation) -> list[Any]:  # Any: sizes
    """Where the axes of a block begin."""
    if marks.AXIS_STARTS in block.attributes:
        return list(tensors.python_value(block.attributes[marks.AXIS_STARTS]))
    return [0] * len(kinds_of(block))


def axis_extents(block: ir.Operation) -> list[int | ir.Value]:
    """The extents of the axes of a block: numbers, or values."""
    static = ir.DenseI64ArrayAttr(block.attributes["static_extents"])
    dynamic = iter(list(block.operands))
    return [e if e >= 0 else next(dynamic) for e in static]


def bindings(block: ir.Operation) -> list[ir.Value]:
    """What the axes of a block are at a point."""
    count = len(kinds_of(block))
    operands = list(block.operands)
    return operands[len(operands) - count :] if count else []


def describe(op: ir.Operation) -> str:
    """A loop or a block as messages call it."""
    if is_loop(op):
        return f"loop `{loop_name(op)}`"
    return f"block `{block_name(op)}`"


def init_of(block: ir.Operation) -> ir.Block | None:
    """What comes before the first point of the reduce axes."""
    blocks = block.regions[0].blocks
    return blocks[0] if len(blocks) else None


def find_blocks(function: ir.Operation, name: str) -> Sequence[ir.Operation]:
    """All blocks with a name, the program itself among them."""
    found = [op for op in subtree(function) if is_block(op) and block_name(op) == name]
    return [function, *found] if block_name(function) == name else found
