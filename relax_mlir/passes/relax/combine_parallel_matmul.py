"""``relax-combine-parallel-matmul``: products of one matrix with several are one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax.core import TupleGetItemOp
from relax_mlir.dialects.relax.matmul import MatmulOp
from relax_mlir.graphs import (
    block_number,
    blocks_of,
    copy_script_attributes,
    emit,
    graph_functions,
    stand_beside,
    users_of,
)
from relax_mlir.module import IRModule
from relax_mlir.passes.relax.outline import sort_block
from relax_mlir.rewriting import Pass, erase

__all__ = ["CombineParallelMatmul"]

# From operand, weights, biases, and the weights' shapes by name to whether to combine.
Check = Callable[[Any, Sequence[Any], Sequence[Any], Mapping[Any, Any]], bool]
_ACTIVATIONS = ("relax.nn_relu", "relax.nn_gelu", "relax.nn_silu")


@dataclass
class _Branch:
    """One product, and the bias and the activation that follow it.

    Attributes:
        bias, activation: the operations, if there are any.
    """

    product: MatmulOp
    bias: ir.OpView | None = None
    activation: ir.OpView | None = None

    @property
    def added(self) -> ir.Value | None:
        """The bias itself."""
        if self.bias is None:
            return None
        first, second = self.bias.operation.operands
        return second if first == self.product.z else first


@dataclass(frozen=True)
class CombineParallelMatmul(Pass):
    """Multiply by weights side by side, and split the product.

    A bias, or an activation, that follows all products alike is applied to the whole.

    Args:
        check: whether to combine, from operand, weights, biases and shapes.
    """

    check: Check | None = field(default=None, metadata={"text": False})

    def run(self, module: IRModule) -> None:
        for function in graph_functions(module):
            for block in blocks_of(function):
                for members in _parallel(block):
                    self._combine(members)
                sort_block(block)

    def _combine(self, members: list[MatmulOp]) -> None:
        branches = [_branch(op) for op in members]
        if self.check is not None:
            weights = [op.x2 for op in members]
            biases = [b.added for b in branches]
            if not self.check(members[0].x1, weights, biases, {}):
                return
        last = members[-1]
        with ir.InsertionPoint(last), last.location:
            _write(branches, last)


def _parallel(block: ir.Block) -> list[list[MatmulOp]]:
    """Products that can be one: of one operand, with weights of equal rows."""
    found: dict[object, list[MatmulOp]] = {}
    batches: dict[object, set[object]] = {}
    for op in block.operations:
        if not isinstance(op, MatmulOp) or block_number(op) < 0:
            continue
        shape = tensors.shape_of(op.x2)
        if len(shape) < 2:
            continue
        place = (block_number(op), op.x1, len(shape), str(op.x2.type.element_type))
        found.setdefault((*place, shape[:-1]), []).append(op)
        batches.setdefault(place, set()).add(shape[:-2])
    return [
        members
        for key, members in found.items()
        if len(members) > 1 and len(batches[key[:4]]) == 1
    ]


def _branch(op: MatmulOp) -> _Branch:
    branch = _Branch(op)
    user = _only_user(op.z)
    if user is not None and user.operation.name == "relax.add":
        first, second = user.operation.operands
        added = second if first == op.z else first
        is_row = isinstance(added.type, ir.RankedTensorType) and added.type.rank == 1
        if is_row:
            branch.bias = user
            user = _only_user(user.operation.results[0])
    if user is not None and user.operation.name in _ACTIVATIONS:
        branch.activation = user
    return branch


def _only_user(value: ir.Value) -> ir.OpView | None:
    users = list(users_of(value))
    return users[0] if len(users) == 1 else None


def _write(branches: list[_Branch], last: ir.OpView) -> None:
    """The product of all, and its parts in place of the branches' ends."""
    products = [b.product for b in branches]
    weights = [op.x2 for op in products]
    rank = ir.RankedTensorType(weights[0].type).rank
    joined = emit(last, "concat", weights, axis=rank - 1)
    dtype = tensors.dtype_of(products[0].z)
    whole = emit(last, "matmul", products[0].x1, joined, out_dtype=dtype)
    ends: list[ir.OpView] = list(products)
    biases = [b.added for b in branches]
    known = [b for b in biases if b is not None]
    if len(known) == len(branches):
        whole = emit(last, "add", whole, emit(last, "concat", known, axis=0))
        ends = [b.bias for b in branches if b.bias is not None]
    activations = [b.activation for b in branches]
    kinds = {None if a is None else a.operation.name for a in activations}
    has_plain = not known or len(known) == len(branches)
    if len(kinds) == 1 and activations[0] is not None and has_plain:
        operator = activations[0].operation.opview.script_name()
        whole = emit(last, operator, whole)
        ends = [a for a in activations if a is not None]
    _split(last, whole, weights, ends, branches)


def _split(
    last: ir.OpView,
    whole: ir.Value,
    weights: Sequence[ir.Value],
    ends: Sequence[ir.OpView],
    branches: Sequence[_Branch],
) -> None:
    bounds: list[Any] = []
    for weight in weights[:-1]:
        width = tensors.shape_of(weight)[-1]
        bounds.append(width if not bounds else bounds[-1] + width)
    axis = ir.RankedTensorType(whole.type).rank - 1
    parts = emit(last, "split", whole, indices_or_sections=tuple(bounds), axis=axis)
    for number, (end, branch) in enumerate(zip(ends, branches, strict=True)):
        item = TupleGetItemOp(parts, index=number)
        stand_beside(item, last)
        copy_script_attributes(end, item)
        end.operation.results[0].replace_all_uses_with(item.result)
        for op in (branch.activation, branch.bias, branch.product):
            if op is not None and not any(True for _ in op.operation.results[0].uses):
                erase(op)
