"""``relax-simplify``: drop what computes nothing new."""

import math
from dataclasses import dataclass

from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax.core import RelaxOperation
from relax_mlir.dialects.relax.movement import PermuteDimsOp, ReshapeOp
from relax_mlir.dialects.relax.slicing import StridedSliceOp
from relax_mlir.module import IRModule
from relax_mlir.rewriting import Pass, erase_dead, pattern, replace, rewrite_greedily

__all__ = ["Simplify", "is_pure"]


def is_pure(op: ir.Operation) -> bool:
    """Whether an operation only computes its results."""
    view = op.opview
    is_ours = isinstance(view, RelaxOperation) and view.is_pure
    return is_ours or op.name == "builtin.unrealized_conversion_cast"


@pattern
def _drop_identity_reshape(op: ReshapeOp) -> ir.Value | None:
    """reshape(x, shape of x) is x."""
    return op.x if op.x.type == op.y.type else None


@pattern
def _join_reshapes(op: ReshapeOp) -> ir.Value | None:
    """reshape(reshape(x)) is one reshape."""
    inner = op.x.owner
    if not isinstance(inner, ReshapeOp):
        return None
    return ReshapeOp(inner.x, shape=op.python_attrs()["shape"]).y


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


_PATTERNS = (
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
            for function in module.func_ops():
                if "tir.prim_func" in function.attributes:
                    continue
                for block in function.regions[0].blocks:
                    changed |= _merge_duplicates(block)
                    changed |= erase_dead(block, is_pure)
            if not changed:
                return


def _merge_duplicates(block: ir.Block) -> bool:
    """Keep the first of equal pure operations."""
    seen: dict[tuple[object, ...], ir.OpView] = {}
    changed = False
    for op in list(block.operations):
        operation = op.operation
        if not is_pure(operation):
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
