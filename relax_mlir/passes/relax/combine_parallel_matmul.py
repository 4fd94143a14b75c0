"""``relax-combine-parallel-matmul``: products of one matrix with several are one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.relax.core import ConstantOp, TupleGetItemOp
from relax_mlir.dialects.relax.matmul import MatmulOp
from relax_mlir.dialects.relax.slicing import StridedSliceOp
from relax_mlir.graphs import (
    block_number,
    blocks_of,
    copy_script_attributes,
    emit,
    graph_functions,
    users_of,
)
from relax_mlir.module import IRModule
from relax_mlir.objects import names
from relax_mlir.objects.expr import BindingBlock, Expr, Var
from relax_mlir.objects.reader import Reader
from relax_mlir.objects.scope import FunctionScope
from relax_mlir.passes.relax.outline import sort_block
from relax_mlir.rewriting import Pass, erase, has_uses
from relax_mlir.traversal import own_operations

__all__ = ["CombineParallelMatmul"]

# From operand, weights, biases and the bindings of the block to whether to combine.
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
        check: whether to combine, from operand, weights, biases (none unless all products
            have one) and the values of the block's variables.
        max_elements: of the result of a product that is combined, with constants alone,
            and wherever it stands; its part is a slice then. For machines that such a
            product leaves without work. 0 combines any, in dataflow blocks.
    """

    check: Check | None = field(default=None, metadata={"text": False})
    max_elements: int = 0

    def run(self, module: IRModule) -> None:
        for function in graph_functions(module):
            for block in blocks_of(function):
                for members in _parallel(block, anywhere=self.max_elements > 0):
                    branches = _branches(list(filter(self._may_combine, members)))
                    if len(branches) > 1 and self._takes(module, function, branches):
                        _write(branches, as_slices=self.max_elements > 0)
                sort_block(block)

    def _may_combine(self, op: MatmulOp) -> bool:
        """Whether a product is small enough, and with a constant, if it has to be."""
        if not self.max_elements:
            return True
        count = shapes.product(tensors.shape_of(op.z))
        is_known = isinstance(op.x2.owner, ConstantOp)
        return is_known and isinstance(count, int) and count <= self.max_elements

    def _takes(
        self, module: IRModule, function: func.FuncOp, branches: Sequence[_Branch]
    ) -> bool:
        if self.max_elements and not _adds_constants(branches):
            return False
        derived = _derived([b.product.z for b in branches])
        if not derived.isdisjoint(_biases(branches)):
            return False
        return self.check is None or self.check(*_terms(module, function, branches))


def _adds_constants(branches: Sequence[_Branch]) -> bool:
    """Whether constants are added to all products, or nothing to any of them."""
    biases = _biases(branches)
    is_alike = bool(biases) or all(b.bias is None for b in branches)
    return is_alike and all(isinstance(bias.owner, ConstantOp) for bias in biases)


def _terms(
    module: IRModule, function: func.FuncOp, branches: Sequence[_Branch]
) -> tuple[Expr, list[Expr], list[Expr], dict[Var, Expr]]:
    """The operand, weights, biases and bindings of the block, as objects."""
    reader = Reader(FunctionScope(), module.constants, module.signature_or_none)
    reader.params(function.entry_block, names.arg_names(function))
    blocks = reader.body(function.entry_block).blocks
    weights = [reader.expr(b.product.x2) for b in branches]
    biases = [reader.expr(bias) for bias in _biases(branches)]
    product = reader.expr(branches[0].product.z)
    assert isinstance(product, Var)
    values = next(
        (found for block in blocks if product in (found := _values(block))), {}
    )
    return reader.expr(branches[0].product.x1), weights, biases, values


def _values(block: BindingBlock) -> dict[Var, Expr]:
    return {binding.var: binding.value for binding in block.bindings}


def _biases(branches: Sequence[_Branch]) -> list[ir.Value]:
    """What is added to the products: to all, side by side, or to none of them."""
    added = [b.added for b in branches]
    known = [value for value in added if value is not None]
    fits = len(known) == len(branches) and all(
        tensors.shape_of(value)[-1] == tensors.shape_of(b.product.x2)[-1]
        for value, b in zip(known, branches, strict=True)
    )
    return known if fits and len({tensors.shape_of(v)[:-1] for v in known}) == 1 else []


def _parallel(block: ir.Block, *, anywhere: bool) -> list[list[MatmulOp]]:
    """Products that can be one: of one operand, with weights of equal rows.

    Args:
        anywhere: also those that stand in no dataflow block.
    """
    found: dict[object, list[MatmulOp]] = {}
    batches: dict[object, set[object]] = {}
    for op in own_operations(block):
        if not isinstance(op, MatmulOp) or (block_number(op) < 0 and not anywhere):
            continue
        shape = tensors.shape_of(op.x2)
        if len(shape) < 2:
            continue
        types = (str(op.x2.type.element_type), str(op.z.type.element_type))
        place = (block_number(op), op.x1, len(shape), types)
        found.setdefault((*place, shape[:-1]), []).append(op)
        batches.setdefault(place, set()).add(shape[:-2])
    splittable = [
        _splittable(_independent(members))
        for key, members in found.items()
        if len(batches[key[:4]]) == 1
    ]
    return [members for members in splittable if len(members) > 1]


def _independent(members: Sequence[MatmulOp]) -> list[MatmulOp]:
    """Those whose weight is not computed from the product of another one."""
    derived = _derived([op.z for op in members])
    return [op for op in members if op.x2 not in derived]


def _derived(values: Sequence[ir.Value]) -> set[ir.Value]:
    """Values, and all that is computed from them."""
    found: set[ir.Value] = set()
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if value not in found:
            found.add(value)
            waiting += [r for user in users_of(value) for r in user.operation.results]
    return found


def _splittable(members: Sequence[MatmulOp]) -> list[MatmulOp]:
    """Those whose columns can be told apart: the last one may have any number."""
    widths = [tensors.shape_of(op.x2)[-1] for op in members]
    pairs = list(zip(members, widths, strict=True))
    known = [op for op, width in pairs if isinstance(width, int)]
    return [*known, *[op for op, width in pairs if not isinstance(width, int)][:1]]


def _branches(members: Sequence[MatmulOp]) -> list[_Branch]:
    """Products with what follows; a sum of two of them is no bias of either."""
    found = [_branch(op) for op in members]
    sums = [b.bias for b in found if b.bias is not None]
    shared = {op for op in sums if sums.count(op) > 1}
    return [_Branch(b.product) if b.bias in shared else b for b in found]


def _branch(op: MatmulOp) -> _Branch:
    branch = _Branch(op)
    user = _only_user(op.z)
    if user is not None and user.operation.name == "relax.add":
        first, second = user.operation.operands
        added = second if first == op.z else first
        if isinstance(added.type, ir.RankedTensorType) and added.type.rank:
            branch.bias = user
            user = _only_user(user.operation.results[0])
    if user is not None and user.operation.name in _ACTIVATIONS:
        branch.activation = user
    return branch


def _only_user(value: ir.Value) -> ir.OpView | None:
    users = list(users_of(value))
    return users[0] if len(users) == 1 else None


def _write(branches: Sequence[_Branch], *, as_slices: bool) -> None:
    """The product of all, and its parts in place of the branches' ends."""
    products = [b.product for b in branches]
    biases = _biases(branches)
    ends: list[ir.OpView] = list(products)
    if biases:
        ends = [b.bias for b in branches if b.bias is not None]
    is_plain = bool(biases) or all(b.bias is None for b in branches)
    activations = [b.activation for b in branches if b.activation is not None]
    kinds = {a.operation.name for a in activations}
    is_active = is_plain and len(kinds) == 1 and len(activations) == len(branches)
    if is_active:
        ends = activations
    place = _first(ends)
    weights = [op.x2 for op in products]
    rank = ir.RankedTensorType(weights[0].type).rank
    with ir.InsertionPoint(place), place.location:
        joined = emit(place, "concat", weights, axis=rank - 1)
        dtype = tensors.dtype_of(products[0].z)
        whole = emit(place, "matmul", products[0].x1, joined, out_dtype=dtype)
        if biases:
            last = ir.RankedTensorType(biases[0].type).rank - 1
            added = emit(place, "concat", biases, axis=last)
            whole = emit(place, "add", whole, added)
        if is_active:
            operator = activations[0].operation.opview.script_name()
            whole = emit(place, operator, whole)
        parts = None if as_slices else _split(place, whole, weights)
    for number, (end, branch) in enumerate(zip(ends, branches, strict=True)):
        with ir.InsertionPoint(end), end.location:
            if parts is None:
                part = _slice(whole, weights, number)
            else:
                part = TupleGetItemOp(parts, index=number)
        copy_script_attributes(end, part)
        end.operation.results[0].replace_all_uses_with(part.operation.results[0])
        for op in (branch.activation, branch.bias, branch.product):
            if op is not None and not has_uses(op.operation.results[0]):
                erase(op)


def _first(ends: Sequence[ir.OpView]) -> ir.OpView:
    """The first of some operations of one block."""
    results = {end.operation.results[0] for end in ends}
    block = ends[0].operation.block
    return next(
        op
        for op in own_operations(block)
        if any(result in results for result in op.operation.results)
    )


def _slice(whole: ir.Value, weights: Sequence[ir.Value], number: int) -> StridedSliceOp:
    """One of the parts of the product, whose widths are known."""
    widths = [tensors.shape_of(weight)[-1] for weight in weights]
    begin, end = sum(widths[:number]), sum(widths[: number + 1])
    axis = ir.RankedTensorType(whole.type).rank - 1
    return StridedSliceOp(whole, axes=(axis,), begin=(begin,), end=(end,), strides=None)


def _split(place: ir.OpView, whole: ir.Value, weights: Sequence[ir.Value]) -> ir.Value:
    """The parts of the product; those of the last weight are what is left."""
    bounds: list[Any] = []
    for weight in weights[:-1]:
        width = tensors.shape_of(weight)[-1]
        bounds.append(width if not bounds else bounds[-1] + width)
    axis = ir.RankedTensorType(whole.type).rank - 1
    return emit(place, "split", whole, indices_or_sections=tuple(bounds), axis=axis)
