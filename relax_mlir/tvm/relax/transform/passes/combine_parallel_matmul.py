"""``relax-combine-parallel-matmul``: merges matmuls that share their left operand."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.relax.core import ConstantOp, RelaxOperation, TupleGetItemOp
from relax_mlir.dialects.relax.matmul import MatmulOp
from relax_mlir.dialects.relax.slicing import StridedSliceOp
from relax_mlir.ir import function_attributes
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import blocks_of, own_operations
from relax_mlir.ir.use_def import users_of
from relax_mlir.objects.expr import BindingBlock, Expr, Var
from relax_mlir.objects.read.relax import RelaxReader
from relax_mlir.objects.scope import FunctionScope
from relax_mlir.rewrite.functions import (
    copy_script_attributes,
    dataflow_block_number,
    emit_next_to,
    graph_functions,
)
from relax_mlir.rewrite.patterns import Pass, erase, has_uses
from relax_mlir.tvm.relax.transform.outline import sort_block

__all__ = ["CombineParallelMatmul"]

# Takes operand, weights, biases and the bindings of the block.
Check = Callable[[Any, Sequence[Any], Sequence[Any], Mapping[Any, Any]], bool]
_ACTIVATIONS = ("relax.nn_relu", "relax.nn_gelu", "relax.nn_silu")


@dataclass
class _Branch:
    """A matmul, and the bias addition and the activation that follow it.

    Attributes:
        bias, activation: the operations, if any.
    """

    matmul: MatmulOp
    bias: ir.OpView | None = None
    activation: RelaxOperation | None = None

    @property
    def bias_value(self) -> ir.Value | None:
        """The bias operand."""
        if self.bias is None:
            return None
        first, second = self.bias.operation.operands
        return second if first == self.matmul.z else first


@dataclass(frozen=True)
class CombineParallelMatmul(Pass):
    """Multiplies by concatenated weights, and splits the result.

    A bias or an activation that follows all matmuls alike is applied once to the whole.

    Args:
        check: decides whether to combine, given the operand, weights, biases (none unless
            all matmuls have one) and the values of the block's variables.
        max_elements: the maximal result size of a matmul to combine; then only matmuls with
            constant weights are combined, also outside of dataflow blocks, and the result
            is sliced. For targets that small matmuls underutilise. 0 combines all sizes, in
            dataflow blocks only.
    """

    check: Check | None = field(default=None, metadata={"text": False})
    max_elements: int = 0

    def run(self, module: IRModule) -> None:
        for function in graph_functions(module):
            for block in blocks_of(function):
                for members in _parallel(block, anywhere=self.max_elements > 0):
                    branches = _branches(list(filter(self._may_combine, members)))
                    if len(branches) > 1 and self._takes(module, function, branches):
                        _combine(branches, as_slices=self.max_elements > 0)
                sort_block(block)

    def _may_combine(self, op: MatmulOp) -> bool:
        """Returns whether a matmul meets the limits of ``max_elements``."""
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
        derived = _derived([b.matmul.z for b in branches])
        if not derived.isdisjoint(_biases(branches)):
            return False
        return self.check is None or self.check(
            *_script_objects(module, function, branches)
        )


def _adds_constants(branches: Sequence[_Branch]) -> bool:
    """Returns whether all matmuls have constant biases, or none has a bias."""
    biases = _biases(branches)
    is_alike = bool(biases) or all(b.bias is None for b in branches)
    return is_alike and all(isinstance(bias.owner, ConstantOp) for bias in biases)


def _script_objects(
    module: IRModule, function: func.FuncOp, branches: Sequence[_Branch]
) -> tuple[Expr, list[Expr], list[Expr], dict[Var, Expr]]:
    """Returns operand, weights, biases and bindings of the block as script objects."""
    reader = RelaxReader(FunctionScope(), module.constants, module.signature_or_none)
    reader.params(function.entry_block, function_attributes.arg_names(function))
    blocks = reader.body(function.entry_block).blocks
    weights = [reader.expr(b.matmul.x2) for b in branches]
    biases = [reader.expr(bias) for bias in _biases(branches)]
    matmul = reader.expr(branches[0].matmul.z)
    assert isinstance(matmul, Var)
    values = next(
        (
            block_values
            for block in blocks
            if matmul in (block_values := _values(block))
        ),
        {},
    )
    return reader.expr(branches[0].matmul.x1), weights, biases, values


def _values(block: BindingBlock) -> dict[Var, Expr]:
    return {binding.var: binding.value for binding in block.bindings}


def _biases(branches: Sequence[_Branch]) -> list[ir.Value]:
    """Returns the biases if all matmuls have ones that can be concatenated, else none."""
    biases = [b.bias_value for b in branches]
    present = [value for value in biases if value is not None]
    fits = len(present) == len(branches) and all(
        tensors.shape_of(value)[-1] == tensors.shape_of(b.matmul.x2)[-1]
        for value, b in zip(present, branches, strict=True)
    )
    return (
        present
        if fits and len({tensors.shape_of(v)[:-1] for v in present}) == 1
        else []
    )


def _parallel(block: ir.Block, *, anywhere: bool) -> list[list[MatmulOp]]:
    """Returns groups of combinable matmuls: same operand, weights of equal K and batch.

    Args:
        anywhere: whether to include matmuls outside of dataflow blocks.
    """
    groups: dict[tuple[object, ...], list[MatmulOp]] = {}
    batches: dict[tuple[object, ...], set[object]] = {}
    for op in own_operations(block):
        if not isinstance(op, MatmulOp) or (
            dataflow_block_number(op) < 0 and not anywhere
        ):
            continue
        shape = tensors.shape_of(op.x2)
        if len(shape) < 2:
            continue
        types = (str(op.x2.type.element_type), str(op.z.type.element_type))
        key = (dataflow_block_number(op), op.x1, len(shape), types)
        groups.setdefault((*key, shape[:-1]), []).append(op)
        batches.setdefault(key, set()).add(shape[:-2])
    splittable = [
        _splittable(_independent(members))
        for key, members in groups.items()
        if len(batches[key[:4]]) == 1
    ]
    return [members for members in splittable if len(members) > 1]


def _independent(members: Sequence[MatmulOp]) -> list[MatmulOp]:
    """Returns the matmuls whose weights do not depend on another one's result."""
    derived = _derived([op.z for op in members])
    return [op for op in members if op.x2 not in derived]


def _derived(values: Sequence[ir.Value]) -> set[ir.Value]:
    """Returns the transitive users of values, and the values."""
    result: set[ir.Value] = set()
    worklist = list(values)
    while worklist:
        value = worklist.pop()
        if value not in result:
            result.add(value)
            worklist += [r for user in users_of(value) for r in user.operation.results]
    return result


def _splittable(members: Sequence[MatmulOp]) -> list[MatmulOp]:
    """Returns the matmuls of constant width, and at most one of symbolic width."""
    widths = [tensors.shape_of(op.x2)[-1] for op in members]
    pairs = list(zip(members, widths, strict=True))
    constant_width = [op for op, width in pairs if isinstance(width, int)]
    return [
        *constant_width,
        *[op for op, width in pairs if not isinstance(width, int)][:1],
    ]


def _branches(members: Sequence[MatmulOp]) -> list[_Branch]:
    """Returns matmuls with their bias and activation; an addition of two matmuls is not a bias."""
    branches = [_branch(op) for op in members]
    sums = [b.bias for b in branches if b.bias is not None]
    shared = {op for op in sums if sums.count(op) > 1}
    return [_Branch(b.matmul) if b.bias in shared else b for b in branches]


def _branch(op: MatmulOp) -> _Branch:
    branch = _Branch(op)
    user = _only_user(op.z)
    if user is not None and user.operation.name == "relax.add":
        first, second = user.operation.operands
        bias_value = second if first == op.z else first
        if isinstance(bias_value.type, ir.RankedTensorType) and bias_value.type.rank:
            branch.bias = user
            user = _only_user(user.operation.results[0])
    if isinstance(user, RelaxOperation) and user.operation.name in _ACTIVATIONS:
        branch.activation = user
    return branch


def _only_user(value: ir.Value) -> ir.OpView | None:
    users = list(users_of(value))
    return users[0] if len(users) == 1 else None


def _combine(branches: Sequence[_Branch], *, as_slices: bool) -> None:
    """Emits the combined matmul, and replaces the branches by parts of it."""
    matmuls = [b.matmul for b in branches]
    biases = _biases(branches)
    ends: list[ir.OpView] = list(matmuls)
    if biases:
        ends = [b.bias for b in branches if b.bias is not None]
    has_uniform_bias = bool(biases) or all(b.bias is None for b in branches)
    activations = [b.activation for b in branches if b.activation is not None]
    activation_names = {a.operation.name for a in activations}
    has_uniform_activation = (
        has_uniform_bias
        and len(activation_names) == 1
        and len(activations) == len(branches)
    )
    if has_uniform_activation:
        ends = list(activations)
    anchor = _first(ends)
    weights = [op.x2 for op in matmuls]
    rank = ir.RankedTensorType(weights[0].type).rank
    with ir.InsertionPoint(anchor), anchor.location:
        concatenated = emit_next_to(anchor, "concat", weights, axis=rank - 1)
        dtype = tensors.dtype_of(matmuls[0].z)
        combined = emit_next_to(
            anchor, "matmul", matmuls[0].x1, concatenated, out_dtype=dtype
        )
        if biases:
            last = ir.RankedTensorType(biases[0].type).rank - 1
            bias_value = emit_next_to(anchor, "concat", biases, axis=last)
            combined = emit_next_to(anchor, "add", combined, bias_value)
        if has_uniform_activation:
            operator = activations[0].script_name()
            combined = emit_next_to(anchor, operator, combined)
        parts = None if as_slices else _split(anchor, combined, weights)
    for index, (end, branch) in enumerate(zip(ends, branches, strict=True)):
        with ir.InsertionPoint(end), end.location:
            if parts is None:
                part = _slice(combined, weights, index)
            else:
                part = TupleGetItemOp(parts, index=index)
        copy_script_attributes(end, part)
        end.operation.results[0].replace_all_uses_with(part.operation.results[0])
        for op in (branch.activation, branch.bias, branch.matmul):
            if op is not None and not has_uses(op.operation.results[0]):
                erase(op)


def _first(ends: Sequence[ir.OpView]) -> ir.OpView:
    """Returns the first of several operations of one block."""
    results = {end.operation.results[0] for end in ends}
    block = ends[0].operation.block
    return next(
        op
        for op in own_operations(block)
        if any(result in results for result in op.operation.results)
    )


def _slice(
    combined: ir.Value, weights: Sequence[ir.Value], index: int
) -> StridedSliceOp:
    """Returns one part of the result, for constant widths."""
    widths = [tensors.shape_of(weight)[-1] for weight in weights]
    begin, end = sum(widths[:index]), sum(widths[: index + 1])
    axis = ir.RankedTensorType(combined.type).rank - 1
    return StridedSliceOp(
        combined, axes=(axis,), begin=(begin,), end=(end,), strides=None
    )


def _split(
    anchor: ir.OpView, combined: ir.Value, weights: Sequence[ir.Value]
) -> ir.Value:
    """Splits the result; the last part takes the remainder."""
    bounds: list[Any] = []
    for weight in weights[:-1]:
        width = tensors.shape_of(weight)[-1]
        bounds.append(width if not bounds else bounds[-1] + width)
    axis = ir.RankedTensorType(combined.type).rank - 1
    return emit_next_to(
        anchor, "split", combined, indices_or_sections=tuple(bounds), axis=axis
    )
