"""Common subexpression elimination by a table of available expressions."""

from collections.abc import Callable, Collection, Mapping, Sequence

from mlir import ir

from relax_mlir.ir.traversal import own_operations

__all__ = ["Key", "expression_key", "merge_equal"]

Key = tuple[object, ...]


def expression_key(
    op: ir.OpView,
    operand_key: Callable[[ir.Value], object] = lambda value: value,
    ignored: Collection[str] = (),
) -> Key:
    """A key that equal operations have in common.

    Args:
        op: the operation.
        operand_key: of each operand; by default, only the same value is equal.
        ignored: names of attributes in which equal operations may differ.
    """
    operation = op.operation
    attributes = sorted(
        (name, str(operation.attributes[name]))
        for name in operation.attributes
        if name not in ignored
    )
    operands = tuple(map(operand_key, operation.operands))
    types = tuple(str(result.type) for result in operation.results)
    return (operation.name, operands, tuple(attributes), types)


def merge_equal(
    block: ir.Block,
    key_of: Callable[[ir.OpView], Key | None],
    merge: Callable[[ir.OpView, Sequence[ir.OpView]], ir.OpView | None],
    *,
    is_nested: bool = False,
    outer: Mapping[Key, Sequence[ir.OpView]] | None = None,
) -> bool:
    """Merges operations of a block with equal ones before them.

    Args:
        block: the block.
        key_of: gives equal keys to equal operations, and None to those to skip.
        merge: gets an operation and the equal ones before it, in order; may replace it,
            and returns the operation that is available from there on, if any.
        is_nested: whether to go into regions, where the operations before are available.
        outer: the operations available around the block.

    Returns:
        Whether an operation was replaced.
    """
    available = {key: list(ops) for key, ops in (outer or {}).items()}
    changed = False
    for op in list(own_operations(block)):
        for region in op.operation.regions if is_nested else ():
            for inner in region.blocks:
                changed |= merge_equal(
                    inner, key_of, merge, is_nested=True, outer=available
                )
        key = key_of(op)
        if key is None:
            continue
        candidates = available.setdefault(key, [])
        kept = merge(op, candidates)
        changed |= kept is not op
        if kept is not None:
            candidates.append(kept)
    return changed
