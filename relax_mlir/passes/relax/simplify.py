"""``relax-simplify``: algebraic simplification, CSE and dead code elimination."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, chain

from mlir import ir

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.relax.core import TupleGetItemOp
from relax_mlir.dialects.relax.manipulate import PermuteDimsOp, ReshapeOp
from relax_mlir.dialects.relax.slicing import StridedSliceOp
from relax_mlir.dialects.shapes import Dim
from relax_mlir.ir.module import IRModule
from relax_mlir.objects.effects import EffectAnalysis
from relax_mlir.rewrite.common_subexpressions import Key, expression_key, merge_equal
from relax_mlir.rewrite.functions import graph_functions
from relax_mlir.rewrite.patterns import (
    Pass,
    erase_dead,
    has_one_use,
    pattern,
    replace,
    rewrite_greedily,
)

__all__ = ["Simplify"]


@pattern
def _take_from_packed_tuple(op: TupleGetItemOp) -> ir.Value | None:
    """The element of a tuple that was packed here is the value that was packed."""
    return op.packed_value


@pattern
def _drop_identity_reshape(op: ReshapeOp) -> ir.Value | None:
    """reshape(x, shape of x) is x."""
    return op.x if op.x.type == op.y.type else None


@pattern
def _join_reshapes(op: ReshapeOp) -> ir.Value | None:
    """reshape(reshape(x)) is one reshape."""
    inner, shape = op.x.owner, tensors.shape_of(op.y)
    if not isinstance(inner, ReshapeOp) or 0 in shape:
        return None
    return ReshapeOp(inner.x, shape=shape).y


@pattern
def _drop_identity_transpose(op: PermuteDimsOp) -> ir.Value | None:
    """permute_dims(x, 0 1 2 ...) is x."""
    return op.x if list(op.order) == sorted(op.order) else None


@pattern
def _join_transposes(op: PermuteDimsOp) -> ir.Value | None:
    """permute_dims(permute_dims(x, p), q) is one permute_dims."""
    inner = op.x.owner
    if not isinstance(inner, PermuteDimsOp):
        return None
    return PermuteDimsOp(inner.x, axes=[inner.order[axis] for axis in op.order]).y


@pattern
def _reshape_before_slices(op: ReshapeOp) -> ir.Value | None:
    """reshape(slice(x)) as slice(reshape(x)), if x has several slices.

    A consumer can fuse a slice but not a reshape.
    """
    inner = op.x.owner
    if not isinstance(inner, StridedSliceOp) or len(list(inner.x.uses)) < 2:
        return None
    whole, part, shape = map(tensors.shape_of, (inner.x, inner.y, op.y))
    cut = [a for a, (n, m) in enumerate(zip(whole, part, strict=True)) if n != m]
    given = inner.python_attrs()
    if len(cut) != 1 or any(step != 1 for step in given["strides"] or ()):
        return None
    (axis,) = cut
    behind = len(part) - axis - 1
    split = shape[axis : len(shape) - behind]
    if not split or (*shape[:axis], part[axis], *shape[axis + len(split) :]) != part:
        return None
    axes = [a % len(part) for a in given["axes"]]
    sizes = whole[axis], part[axis], given["begin"][axes.index(axis)], *split
    if not all(isinstance(size, int) for size in sizes):
        return None
    size, taken, begin, count, *rest = sizes
    step, begin = math.prod(rest), max(begin + size if begin < 0 else begin, 0)
    if not taken or count * step != taken or begin % step or size % step:
        return None
    wide = (*shape[:axis], size // step, *shape[axis + 1 :])
    reshaped, first = ReshapeOp(inner.x, shape=wide).y, begin // step
    return StridedSliceOp(
        reshaped, axes=(axis,), begin=(first,), end=(first + count,), strides=None
    ).y


@pattern
def _split_before_permuting(op: ReshapeOp) -> ir.Value | None:
    """reshape(permute_dims(reshape(x))) that splits axes, with the split before the permutation.

    The two reshapes then fold, and a consumer may read the result permuted.
    """
    inner = op.x.owner
    if not isinstance(inner, PermuteDimsOp) or not has_one_use(op.x):
        return None
    if not isinstance(inner.x.owner, ReshapeOp):
        return None
    parts = _reassociation(tensors.shape_of(inner.y), tensors.shape_of(op.y))
    if parts is None:
        return None
    order = list(inner.order)
    split = [parts[order.index(axis)] for axis in range(len(order))]
    reshaped = ReshapeOp(inner.x, shape=list(chain.from_iterable(split))).y
    return PermuteDimsOp(reshaped, axes=_expanded_permutation(order, split)).y


@pattern
def _join_after_permuting(op: PermuteDimsOp) -> ir.Value | None:
    """permute_dims(reshape(x)) that collapses axes, with the collapse after the permutation."""
    inner = op.x.owner
    if not isinstance(inner, ReshapeOp) or not has_one_use(op.x):
        return None
    if not all(isinstance(u.owner.opview, ReshapeOp) for u in op.y.uses):
        return None
    parts = _reassociation(tensors.shape_of(inner.y), tensors.shape_of(inner.x))
    if parts is None:
        return None
    permuted = PermuteDimsOp(inner.x, axes=_expanded_permutation(op.order, parts)).y
    return ReshapeOp(permuted, shape=tensors.shape_of(op.y)).y


def _reassociation(
    shape: Sequence[Dim], finer: Sequence[Dim]
) -> list[list[Dim]] | None:
    """The factors of each dimension in a finer shape, or None if they do not group.

    None also for shapes with a zero dimension, where every grouping would match.
    """
    found: list[list[Dim]] = []
    rest = list(finer)
    if 0 in rest:
        return None
    for size in shape:
        found.append([])
        while shapes.product(found[-1]) != size:
            if not rest:
                return None
            found[-1].append(rest.pop(0))
    if not found or any(size != 1 for size in rest):
        return None
    found[-1] += rest
    return found


def _expanded_permutation(
    order: Sequence[int], parts: Sequence[Sequence[Dim]]
) -> list[int]:
    """The permutation of split axes that permutes the unsplit axes by ``order``.

    Args:
        order: permutation of the axes; parts: the sizes that each axis is split into.
    """
    ends = [0, *accumulate(map(len, parts))]
    return [place for axis in order for place in range(ends[axis], ends[axis + 1])]


_PATTERNS = (
    _take_from_packed_tuple,
    _split_before_permuting,
    _join_after_permuting,
    _drop_identity_reshape,
    _join_reshapes,
    _drop_identity_transpose,
    _join_transposes,
    _reshape_before_slices,
)


@dataclass(frozen=True)
class Simplify(Pass):
    """Remove redundant relax operations: duplicates, dead values, identities, inverse pairs.

    Upstream canonicalize and cse cannot see that relax operations are pure (LLVM 22 IRDL
    has no traits), so this pass does both for them.
    """

    max_rounds: int = 10  # greedy sweeps before giving up; real graphs settle in 2-3

    def run(self, module: IRModule) -> None:
        for _ in range(self.max_rounds):
            changed = rewrite_greedily(module, *_PATTERNS, rounds=1)
            effects = EffectAnalysis(module.mlir.operation)
            for function in graph_functions(module):
                for block in function.regions[0].blocks:
                    changed |= merge_equal(
                        block, partial(_key_of, effects), _replace_by_first
                    )
                    changed |= erase_dead(block, effects.is_computation)
            if not changed:
                return


def _key_of(effects: EffectAnalysis, op: ir.OpView) -> Key | None:
    is_pure = effects.is_computation(op) and effects.is_mergeable(op)
    return expression_key(op) if is_pure and not len(op.regions) else None


def _replace_by_first(op: ir.OpView, equal: Sequence[ir.OpView]) -> ir.OpView | None:
    if not equal:
        return op
    replace(op, list(equal[0].results))
    return None
