"""Navigation of the loop and block tree of a PrimFunc.

Between loops and blocks there are only pure scalar operations, which compute bounds,
bindings and predicates, and allocations; neither counts as a statement here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.tir import attribute_names
from relax_mlir.errors import ScheduleError
from relax_mlir.ir.traversal import own_operations
from relax_mlir.objects.effects import is_scalar_arithmetic
from relax_mlir.objects.mlir_attributes import from_attribute

__all__ = [
    "ancestors",
    "annotations_of",
    "block_name",
    "blocks_below",
    "body",
    "child_containing",
    "children",
    "describe",
    "enclosing_loops",
    "function_of",
    "innermost_common_ancestor",
    "is_block",
    "is_function",
    "is_loop",
    "is_pure",
    "is_statement",
    "iter_extent_operands",
    "loop_kind",
    "loop_name",
    "loops_below",
    "realize_of",
    "region_containing",
    "scope_of",
    "statement_index",
    "string_attr",
    "subtree",
]

_NON_STATEMENTS = (
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
    """Whether an operation is a TIR loop."""
    return op.name == "scf.for" and len(op.results) == 0


def is_block(op: ir.Operation) -> bool:
    """Whether an operation is a block."""
    return op.name == "tir.block"


def is_function(op: ir.Operation) -> bool:
    """Whether an operation is a PrimFunc, which stands for its root block."""
    return op.name == "func.func"


def is_statement(op: ir.Operation) -> bool:
    """Whether an operation has an sref: a loop, a block or a PrimFunc."""
    return is_loop(op) or is_block(op) or is_function(op)


def is_predicate(op: ir.Operation) -> bool:
    """Whether an operation is the predicate (``T.where``) of a block."""
    return op.name == "scf.if" and attribute_names.WHERE in op.attributes


def is_pure(op: ir.Operation) -> bool:
    """Whether an operation is pure scalar arithmetic."""
    return is_scalar_arithmetic(op)


def parent_of(op: ir.Operation) -> ir.Operation:
    """The parent operation."""
    found = op.parent
    assert found is not None
    return found.operation


def ancestors(op: ir.Operation) -> Iterator[ir.Operation]:
    """The ancestors of an operation, innermost first, up to the PrimFunc."""
    while not is_function(op):
        op = parent_of(op)
        yield op


def function_of(op: ir.Operation) -> ir.Operation:
    """The enclosing PrimFunc."""
    return op if is_function(op) else list(ancestors(op))[-1]


def scope_of(op: ir.Operation) -> ir.Operation:
    """The enclosing block of a statement, or the PrimFunc."""
    return next(a for a in ancestors(op) if is_block(a) or is_function(a))


def enclosing_loops(op: ir.Operation) -> list[ir.Operation]:
    """The loops around an operation within its scope, outermost first."""
    found: list[ir.Operation] = []
    for ancestor in ancestors(op):
        if is_block(ancestor) or is_function(ancestor):
            break
        if is_loop(ancestor):
            found.append(ancestor)
    return found[::-1]


def innermost_common_ancestor(
    op: ir.Operation, others: Sequence[ir.Operation]
) -> ir.Operation:
    """The innermost loop around an operation and at least one of others, or its scope."""
    around = {a for other in others for a in (other, *ancestors(other))}
    loops = [loop for loop in enclosing_loops(op) if loop in around]
    return loops[-1] if loops else scope_of(op)


def body(op: ir.Operation) -> ir.Block:
    """The body of a loop, a block, a predicate or a PrimFunc."""
    return op.regions[1 if is_block(op) else 0].blocks[0]


def children(op: ir.Operation) -> list[ir.Operation]:
    """The statements directly inside an operation, in program order."""
    return statements(body(op))


def statements(block: ir.Block) -> list[ir.Operation]:
    """The statements among the operations of an MLIR block."""
    listed = [op.operation for op in own_operations(block)]
    return [op for op in listed if not is_pure(op) and op.name not in _NON_STATEMENTS]


def child_containing(ancestor: ir.Operation, op: ir.Operation) -> ir.Operation:
    """The child statement of ``ancestor`` that is or contains ``op``."""
    for outer in ancestors(op):
        if outer == ancestor:
            return op
        op = outer
    raise ValueError("not an ancestor")


def statement_index(parent: ir.Operation, op: ir.Operation) -> int:
    """The index among the children of a loop or block of the one that is or contains ``op``.

    Raises:
        ScheduleError: ``op`` is in the init block.
    """
    listed, child = children(parent), child_containing(parent, op)
    if child not in listed:
        raise ScheduleError(
            f"{describe(op)} is in the init block of {describe(parent)}: expected a "
            "block of its body. Hint: `decompose_reduction` moves it out"
        )
    return listed.index(child)


def region_containing(block: ir.Operation, op: ir.Operation) -> ir.Block:
    """The region of a block, init or body, that contains an operation."""
    inner = [op, *ancestors(op)]
    return inner[inner.index(block) - 1].block


def realize_of(block: ir.Operation) -> ir.Operation:
    """A block together with its predicate, if it has one; TVM's ``BlockRealize``."""
    if is_function(block):
        return block
    outer = parent_of(block)
    return outer if is_predicate(outer) else block


def predicate_of(block: ir.Operation) -> ir.Operation | None:
    """The predicate operation of a block, or None."""
    outer = realize_of(block)
    return None if outer == block else outer


def subtree(root: ir.Operation) -> list[ir.Operation]:
    """An operation and all its descendants, in preorder."""
    found: list[ir.Operation] = []
    # A hot spot of scheduling: MLIR does the traversal.
    root.walk(lambda op: found.append(op) or _ADVANCE, ir.WalkOrder.PRE_ORDER)
    return found


def blocks_below(op: ir.Operation) -> list[ir.Operation]:
    """The outermost blocks inside an operation, in program order."""
    found: list[ir.Operation] = []
    for region in op.regions:
        for block in region.blocks:
            for inner in own_operations(block):
                inner = inner.operation
                found += [inner] if is_block(inner) else blocks_below(inner)
    return found


def loops_below(op: ir.Operation) -> list[ir.Operation]:
    """The loops inside an operation but not inside nested blocks, in preorder."""
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


def string_attr(op: ir.Operation, name: str, default: str = "") -> str:
    """A string attribute, or a default if it is absent."""
    if name not in op.attributes:
        return default
    return ir.StringAttr(op.attributes[name]).value


def block_name(block: ir.Operation) -> str:
    """The name of a block; for a PrimFunc, the name of its root block."""
    if is_function(block):
        return string_attr(block, attribute_names.ROOT, "root")
    return string_attr(block, "name")


def loop_name(loop: ir.Operation) -> str:
    """The name of a loop variable."""
    return string_attr(loop, attribute_names.NAME, "i")


def loop_kind(loop: ir.Operation) -> str:
    """The loop kind: serial, parallel, vectorized, unrolled or thread_binding."""
    return string_attr(loop, attribute_names.KIND, "serial")


def iter_kinds(block: ir.Operation) -> str:
    """The iter var kinds of a block, one letter each."""
    return string_attr(block, "kinds")


def annotations_of(op: ir.Operation) -> dict[str, Any]:
    """The annotations of a loop or a block."""
    if attribute_names.ANNOTATIONS not in op.attributes:
        return {}
    return dict(from_attribute(op.attributes[attribute_names.ANNOTATIONS]))


def iter_var_names(block: ir.Operation) -> list[str]:
    """The names of the iter vars of a block."""
    if attribute_names.AXIS_NAMES in block.attributes:
        return list(from_attribute(block.attributes[attribute_names.AXIS_NAMES]))
    return [f"v{n}" for n in range(len(iter_kinds(block)))]


def iter_var_dtypes(block: ir.Operation) -> list[str]:
    """The dtypes of the iter vars of a block."""
    if attribute_names.AXIS_DTYPES in block.attributes:
        return list(from_attribute(block.attributes[attribute_names.AXIS_DTYPES]))
    return ["int32"] * len(iter_kinds(block))


def iter_var_mins(block: ir.Operation) -> list[Any]:  # Any: sizes
    """The least values of the iter domain of a block."""
    if attribute_names.AXIS_STARTS in block.attributes:
        return list(tensors.python_value(block.attributes[attribute_names.AXIS_STARTS]))
    return [0] * len(iter_kinds(block))


def iter_extent_operands(block: ir.Operation) -> list[int | ir.Value]:
    """The extents of the iter domain of a block: integers or values."""
    static = ir.DenseI64ArrayAttr(block.attributes["static_extents"])
    dynamic = iter(list(block.operands))
    return [e if e >= 0 else next(dynamic) for e in static]


def bindings(block: ir.Operation) -> list[ir.Value]:
    """The binding of each iter var of a block."""
    count = len(iter_kinds(block))
    operands = list(block.operands)
    return operands[len(operands) - count :] if count else []


def describe(op: ir.Operation) -> str:
    """A loop or a block as error messages name it."""
    if is_loop(op):
        return f"loop `{loop_name(op)}`"
    return f"block `{block_name(op)}`"


def init_block_of(block: ir.Operation) -> ir.Block | None:
    """The init block of a block, or None."""
    blocks = block.regions[0].blocks
    return blocks[0] if len(blocks) else None


def find_blocks(function: ir.Operation, name: str) -> Sequence[ir.Operation]:
    """All blocks with a name, including the root block."""
    found = [op for op in subtree(function) if is_block(op) and block_name(op) == name]
    return [function, *found] if block_name(function) == name else found
