"""``relax-simplify``: drop what computes nothing new."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, chain

from mlir import ir

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.relax.movement import PermuteDimsOp, ReshapeOp
from relax_mlir.dialects.relax.slicing import StridedSliceOp
from relax_mlir.dialects.shapes import Dim
from relax_mlir.module import IRModule
from relax_mlir.objects.effects import EffectAnalysis
from relax_mlir.rewriting import (
    Pass,
    erase_dead,
    is_read_once,
    pattern,
    replace,
    rewrite_greedily,
)
from relax_mlir.traversal import own_operations

__all__ = ["Simplify"]


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
    """reshape(strided_slice(x)) slices x in the new shape, if x is cut into several.

    What reads a slice may then be computed with it, as what reads a reshape may not.
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
    """reshape(permute_dims(reshape(x))) that splits axes splits them first.

    Two reshapes are one then, and what reads the result may read it permuted.
    """
    inner = op.x.owner
    if not isinstance(inner, PermuteDimsOp) or not is_read_once(op.x):
        return None
    if not isinstance(inner.x.owner, ReshapeOp):
        return None
    parts = _parts(tensors.shape_of(inner.y), tensors.shape_of(op.y))
    if parts is None:
        return None
    order = list(inner.order)
    split = [parts[order.index(axis)] for axis in range(len(order))]
    reshaped = ReshapeOp(inner.x, shape=list(chain.from_iterable(split))).y
    return PermuteDimsOp(reshaped, axes=_order_of_parts(order, split)).y


@pattern
def _join_after_permuting(op: PermuteDimsOp) -> ir.Value | None:
    """reshape(permute_dims(reshape(x))) that joined axes joins them last."""
    inner = op.x.owner
    if not isinstance(inner, ReshapeOp) or not is_read_once(op.x):
        return None
    if not all(isinstance(u.owner.opview, ReshapeOp) for u in op.y.uses):
        return None
    parts = _parts(tensors.shape_of(inner.y), tensors.shape_of(inner.x))
    if parts is None:
        return None
    permuted = PermuteDimsOp(inner.x, axes=_order_of_parts(op.order, parts)).y
    return ReshapeOp(permuted, shape=tensors.shape_of(op.y)).y


def _parts(shape: Sequence[Dim], finer: Sequence[Dim]) -> list[list[Dim]] | None:
    """The sizes of a finer shape that make up each of another; None if they do not.

    Nor of nothing, which any sizes with a 0 make up.
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


def _order_of_parts(order: Sequence[int], parts: Sequence[Sequence[Dim]]) -> list[int]:
    """How the parts of axes are permuted as the axes are.

    Args:
        order: of the axes; parts: the sizes that each is split into.
    """
    ends = [0, *accumulate(map(len, parts))]
    return [place for axis in order for place in range(ends[axis], ends[axis + 1])]


_PATTERNS = (
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
    """Remove relax operations that compute nothing new: duplicates, dead values, identities.

    Upstream canonicalize and cse cannot see that relax operations are pure (LLVM 22 IRDL
    has no traits), so this pass does both for them.
    """

    max_rounds: int = 10  # greedy sweeps before giving up; real graphs settle in 2-3

    def run(self, module: IRModule) -> None:
        for _ in range(self.max_rounds):
            changed = rewrite_greedily(module, *_PATTERNS, rounds=1)
            effects = EffectAnalysis(module.mlir.operation)
            for function in module.func_ops():
                if "tir.prim_func" in function.attributes:
                    continue
                for block in function.regions[0].blocks:
                    changed |= _merge_duplicates(block, effects)
                    changed |= erase_dead(block, effects.is_computation)
            if not changed:
                return


def _merge_duplicates(block: ir.Block, effects: EffectAnalysis) -> bool:
    """Keep the first of equal operations that may be merged."""
    seen: dict[tuple[object, ...], ir.OpView] = {}
    changed = False
    for op in list(own_operations(block)):
        operation = op.operation
        is_equal = effects.is_computation(op) and effects.is_mergeable(op)
        if len(op.regions) or not is_equal:
            continue
        attributes = tuple(
            sorted((n, operation.attributes[n]) for n in operation.attributes)
        )
        key = (
            operation.name,
            tuple(operation.operands),
            tuple((n, str(a)) for n, a in attributes),
            tuple(str(r.type) for r in operation.results),
        )
        if key in seen:
            replace(op, list(seen[key].results))
            changed = True
        else:
            seen[key] = op
    return changed
