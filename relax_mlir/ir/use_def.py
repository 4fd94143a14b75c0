"""Use-def chains of Relax values, through the tuples in which operands are packed."""

from collections.abc import Iterator

from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.ir import function_attributes

__all__ = ["named_tuple_of", "packed_operation", "users_of", "users_through"]


def users_of(value: ir.Value) -> Iterator[ir.OpView]:
    """The users of a value, through unnamed tuple packs."""
    for use in value.uses:
        yield from users_through(use.owner)


def users_through(user: ir.OpView) -> Iterator[ir.OpView]:
    """An operation, or the users of its result if it is an unnamed tuple pack."""
    if (
        user.operation.name == tensors.TUPLE_PACK
        and function_attributes.NAME not in user.operation.attributes
    ):
        for result in user.operation.results:
            yield from users_of(result)
    else:
        yield user


def named_tuple_of(op: ir.OpView) -> ir.OpView | None:
    """The named tuple pack of all results of an operation, or None."""
    for use in op.operation.results[0].uses:
        pack = use.owner
        attributes = pack.operation.attributes
        is_pack = pack.operation.name == tensors.TUPLE_PACK
        if is_pack and function_attributes.NAME in attributes:
            is_whole = list(pack.operands) == list(op.operation.results)
            return pack if is_whole else None
    return None


def packed_operation(pack: ir.OpView) -> ir.OpView | None:
    """The operation whose results, several and all, a tuple packs; or None."""
    operands = list(pack.operation.operands)
    owner = operands[0].owner if len(operands) > 1 else None
    if not isinstance(owner, (ir.OpView, ir.Operation)):
        return None
    view = owner.operation.opview
    return view if list(view.operation.results) == operands else None
