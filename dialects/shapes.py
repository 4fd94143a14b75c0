"""Shape inference functions of the operators, with symbolic sizes.

A shape is a tuple of ``Dim``: integers >= 0 or symbolic expressions (``symbolic.dims``).
This module re-exports the functions of ``symbolic``, ``slice_shapes`` and
``window_shapes`` that operators use.

When an integer and an expression must be the same size, the result is the integer: the
expression is *constrained* to it (``symbolic.constraints``). The runtime checks the
constraint; here it is an error only if no values of the symbols can satisfy it. Two
expressions must be provably equal, unless constraints are being collected or the equality
is already assumed (``constraints.holding``).
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TypeAlias

from relax_mlir.dialects.slice_shapes import slice_begin, slice_size
from relax_mlir.dialects.window_shapes import (
    auto_pad,
    conv_output,
    conv_transpose_output,
    pool_output,
)
from relax_mlir.symbolic.bounds import bounds, is_known_le
from relax_mlir.symbolic.constraints import (
    Constraint,
    are_assumed_equal,
    assume,
    collect,
    current_equalities,
    is_collecting,
    require_at_least,
    require_equal,
    require_multiple,
)
from relax_mlir.symbolic.dims import (
    Dim,
    Expr,
    ceildiv,
    divide,
    floordiv,
    maximum,
    minimum,
    mod,
    symbol,
)
from relax_mlir.symbolic.symbols import (
    bind,
    bind_shape,
    dims_from_text,
    dims_to_text,
    evaluate,
    is_known_equal,
    is_known_unequal,
    largest_number,
    parse,
    substitute,
    symbols_of,
)

__all__ = [
    "Dim",
    "Expr",
    "Shape",
    "auto_pad",
    "bind",
    "bind_shape",
    "bounds",
    "broadcast",
    "broadcast_into",
    "ceildiv",
    "check_axis",
    "concat",
    "conv_output",
    "conv_transpose_output",
    "dims_from_text",
    "dims_to_text",
    "distinct_axes",
    "divide",
    "evaluate",
    "floordiv",
    "format_shape",
    "is_known_equal",
    "is_known_le",
    "is_known_unequal",
    "largest_number",
    "matmul",
    "maximum",
    "minimum",
    "mod",
    "normalize_axes",
    "pad_shape",
    "parse",
    "pool_output",
    "product",
    "reduced",
    "require_at_least",
    "require_equal",
    "require_multiple",
    "require_nonnegative",
    "reshape",
    "slice_begin",
    "slice_size",
    "split_sizes",
    "substitute",
    "symbol",
    "symbols_of",
    "transposed",
    "unify",
]

Shape: TypeAlias = tuple[Dim, ...]


def format_shape(shape: Iterable[Dim]) -> str:
    """Formats a shape for error messages: ``[2, n + 1]``."""
    return f"[{', '.join(map(str, shape))}]"


def require_nonnegative(shape: Iterable[Dim]) -> None:
    """Constrains every size to be 0 or more; sizes that are data may be negative.

    Raises:
        ValueError: a size is known to be negative.
    """
    dims = tuple(shape)
    if any(is_known_le(dim, -1) for dim in dims):
        raise ValueError(f"sizes are negative: got {format_shape(dims)}")
    for dim in dims:
        require_at_least(dim, 0)


def product(dims: Iterable[Dim]) -> Dim:
    """The number of elements of a shape; 1 for the empty shape."""
    total: Dim = 1
    for dim in dims:
        total = total * dim
    return total


def unify(a: Dim, b: Dim) -> Dim:
    """Unifies two sizes that must be equal; an integer constrains an expression.

    If one is known to be no smaller than the other, as ``n`` and ``min(n, 512)``, the
    result is that one, since other sizes are expressed in it.

    Raises:
        ValueError: the sizes differ, or are expressions not known to be equal.
    """
    if a == b:
        return a
    require_equal(a, b)
    if isinstance(a, int) or (isinstance(b, Expr) and is_known_le(b, a)):
        return a
    if isinstance(b, int) or is_known_le(a, b):
        return b
    if is_collecting() or are_assumed_equal(a, b):
        return a
    raise ValueError(f"sizes differ: expected `{a}`, got `{b}`")


def broadcast(*shapes: Sequence[Dim]) -> Shape:
    """The broadcast shape of all ``shapes``, by numpy's rules.

    An integer other than 1 and an expression give the integer, and the expression is
    constrained to it. The expression is not broadcast even if it is 1 at run time, unless
    it is known to be at most 1, as ``min(n, 1)``.

    Raises:
        ValueError: two sizes are neither equal nor 1, or not known to be equal.
    """
    result, assumed = _broadcast(
        tuple(map(tuple, shapes)), is_collecting(), current_equalities()
    )
    assume(assumed, may_stretch=True)
    return result


@lru_cache(maxsize=1 << 12)
def _broadcast(
    shapes: tuple[Shape, ...], collects: bool, known: frozenset[frozenset[Dim]]
) -> tuple[Shape, tuple[Constraint, ...]]:
    """The broadcast shape and the constraints under which it is valid.

    ``known`` holds the assumed equalities. They are read through ``symbolic.constraints``;
    the parameter makes them part of the cache key.
    """
    rank = max(map(len, shapes), default=0)
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    try:
        if not collects:
            return tuple(map(_stretched, zip(*padded, strict=True))), ()
        with collect() as found:
            return tuple(map(_stretched, zip(*padded, strict=True))), tuple(found)
    except ValueError as error:
        raise ValueError(f"cannot broadcast {_listed(shapes)}: {error}") from None


def _stretched(dims: Sequence[Dim]) -> Dim:
    result: Dim = 1
    for dim in _numbers_first(dims):
        if result == 1:
            result = dim
        elif _stretches(dim, result):
            _require_stretching(dim, result)
        elif _stretches(result, dim):
            _require_stretching(result, dim)
            result = dim
        else:
            result = unify(result, dim)
    return result


def _stretches(dim: Dim, to: Dim) -> bool:
    """Whether ``dim`` is broadcast to ``to``, provided that the two are compatible."""
    is_small = to != 0 and is_known_le(dim, 1)
    is_other = is_small or is_known_unequal(dim, to)
    return dim != to and is_other and not is_known_unequal(1, dim)


def _require_stretching(dim: Dim, to: Dim) -> None:
    """Constrains ``dim`` to be broadcastable to ``to``."""
    if dim != minimum(to, 1):  # 0 if `to` is 0, and then equal to it
        require_equal(1, dim)


def broadcast_into(shape: Sequence[Dim], *others: Sequence[Dim]) -> Shape:
    """Checks that all ``others`` broadcast to ``shape``, and returns it refined.

    Every size of the others is 1 or the size of ``shape`` on the same axis. An integer
    constrains an expression, so the result may have integers where ``shape`` has
    expressions.

    Raises:
        ValueError: a size is neither, or is not known to be.
    """
    result = list(shape)
    for other in others:
        offset = len(result) - len(other)
        try:
            if offset < 0:
                raise ValueError(
                    f"expected rank {len(shape)} at most, got {len(other)}"
                )
            for axis, dim in enumerate(other, start=offset):
                if dim != 1:
                    assume([Constraint(result[axis], "==", dim)], may_stretch=True)
                    result[axis] = unify(result[axis], dim)
        except ValueError as error:
            given, into = format_shape(other), format_shape(shape)
            raise ValueError(f"cannot broadcast {given} to {into}: {error}") from None
    return tuple(result)


def _numbers_first(dims: Iterable[Dim]) -> list[Dim]:
    """Sorts integers first, so that different expressions may meet at one integer."""
    return sorted(dims, key=lambda dim: isinstance(dim, Expr))


def check_axis(axis: int, rank: int) -> int:
    """Normalises an axis to [0, rank).

    Raises:
        ValueError: ``axis`` is not in [-rank, rank).
    """
    if not -rank <= axis < rank:
        raise ValueError(
            f"axis is out of range: expected {-rank} to {rank - 1}, got {axis}"
        )
    return axis % rank


def normalize_axes(axes: Iterable[int], rank: int) -> tuple[int, ...]:
    """Normalises axes to [0, rank), in the given order.

    Raises:
        ValueError: an axis is not in [-rank, rank), or is repeated.
    """
    found = tuple(check_axis(axis, rank) for axis in axes)
    if len(set(found)) != len(found):
        raise ValueError(f"axes repeat: expected each once, got {list(found)}")
    return found


def distinct_axes(axes: Iterable[int], rank: int) -> tuple[int, ...]:
    """Normalises axes to [0, rank) and removes duplicates, keeping first occurrences.

    Raises:
        ValueError: an axis is not in [-rank, rank).
    """
    return tuple(dict.fromkeys(check_axis(axis, rank) for axis in axes))


def reduced(shape: Sequence[Dim], axes: Iterable[int], keepdims: bool) -> Shape:
    """The shape after a reduction over ``axes``, of size 1 with ``keepdims``.

    Raises:
        ValueError: an axis is out of range or repeated.
    """
    removed = normalize_axes(axes, len(shape))
    if keepdims:
        return tuple(1 if axis in removed else dim for axis, dim in enumerate(shape))
    return tuple(dim for axis, dim in enumerate(shape) if axis not in removed)


def reshape(
    shape: Sequence[Dim], target: Sequence[Dim], allowzero: bool = False
) -> Shape:
    """The result shape of a reshape to ``target``.

    A 0 copies the size of the same axis unless ``allowzero``. One -1 is inferred from the
    number of elements, which must be divisible by the product of the other sizes; for
    expressions that do not divide symbolically, divisibility becomes a constraint.

    Raises:
        ValueError: the numbers of elements differ, or -1 cannot be inferred.

    Source: ONNX Reshape-14.
    """
    result = [_copied(shape, axis, dim, allowzero) for axis, dim in enumerate(target)]
    unknown = [axis for axis, dim in enumerate(result) if dim == -1]
    asked = f"cannot reshape {format_shape(shape)} to {format_shape(target)}"
    if len(unknown) > 1:
        raise ValueError(f"{asked}: expected one -1 at most, got {len(unknown)}")
    if any(isinstance(dim, int) and dim < -1 for dim in result):
        raise ValueError(f"{asked}: expected sizes of -1 or more")
    total, rest = product(shape), product(dim for dim in result if dim != -1)
    if not unknown:
        if is_known_unequal(total, rest):
            raise ValueError(f"{asked}: expected {total} elements, got {rest}")
        require_equal(total, rest)
        return tuple(result)
    if rest == 0:
        raise ValueError(f"{asked}: -1 is ambiguous among 0 elements")
    result[unknown[0]], over = divide(total, rest)
    if over != 0:
        left = floordiv(total, rest)
        if not is_collecting() or is_known_unequal(total, rest * left):
            raise ValueError(
                f"{asked}: expected a multiple of `{rest}` elements, got `{total}`"
            )
        require_at_least(rest, 1)
        require_equal(total, rest * left)
        result[unknown[0]] = left
    return tuple(result)


def _copied(shape: Sequence[Dim], axis: int, dim: Dim, allowzero: bool) -> Dim:
    if dim != 0 or allowzero:
        return dim
    if axis >= len(shape):
        raise ValueError(
            f"cannot copy size {axis}: expected a rank over {axis}, got {len(shape)}"
        )
    return shape[axis]


def matmul(a: Sequence[Dim], b: Sequence[Dim]) -> Shape:
    """The shape of ``a @ b``: batch axes broadcast, a vector lacks the row or column axis.

    Raises:
        ValueError: an operand is a scalar, or inner sizes or batch shapes differ.

    Source: numpy.matmul; ONNX MatMul-13.
    """
    if not a or not b:
        raise ValueError(f"cannot multiply {_listed((a, b))}: one is a scalar")
    try:
        unify(a[-1], b[-2] if len(b) > 1 else b[0])
    except ValueError as error:
        shown = _listed((a, b))
        raise ValueError(f"cannot multiply {shown}: inner {error}") from None
    row = tuple(a[-2:-1])
    column = tuple(b[-1:]) if len(b) > 1 else ()
    return broadcast(a[:-2], b[:-2]) + row + column


def concat(shapes: Sequence[Sequence[Dim]], axis: int) -> Shape:
    """The shape of one or more tensors concatenated along ``axis``.

    Raises:
        ValueError: there are no tensors, or ranks or sizes of other axes differ.
    """
    if len({len(shape) for shape in shapes}) != 1:
        raise ValueError(f"cannot concatenate {_listed(shapes)}: expected equal ranks")
    axis = check_axis(axis, len(shapes[0]))
    columns = enumerate(zip(*shapes, strict=True))
    try:
        return tuple(_sum(c) if i == axis else _unified(c) for i, c in columns)
    except ValueError as error:
        what = f"{_listed(shapes)} along axis {axis}"
        raise ValueError(f"cannot concatenate {what}: {error}") from None


def _unified(dims: Sequence[Dim]) -> Dim:
    first, *others = _numbers_first(dims)
    for dim in others:
        first = unify(first, dim)
    return first


def _sum(dims: Iterable[Dim]) -> Dim:
    total: Dim = 0
    for dim in dims:
        total = total + dim
    return total


def _listed(shapes: Iterable[Sequence[Dim]]) -> str:
    return " and ".join(map(format_shape, shapes)) or "nothing"


def transposed(shape: Sequence[Dim], perm: Sequence[int]) -> Shape:
    """The transposed shape: axis ``i`` is axis ``perm[i]`` of ``shape``.

    Raises:
        ValueError: ``perm`` is not a permutation of the axes, counted from the front.
    """
    if sorted(perm) != list(range(len(shape))):
        axes = f"each of 0 to {len(shape) - 1} once"
        raise ValueError(f"bad permutation: expected {axes}, got {list(perm)}")
    return tuple(shape[axis] for axis in perm)


def split_sizes(dim: Dim, parts: int | Sequence[Dim]) -> Shape:
    """The sizes of the parts of a split; for a count, equal sizes but a smaller last one.

    Raises:
        ValueError: the parts do not add up to ``dim``, or one would be negative.

    Source: ONNX Split-18.
    """
    if not isinstance(parts, int):
        total = _sum(parts)
        if is_known_unequal(total, dim):
            raise ValueError(f"split does not add up: expected `{dim}`, got `{total}`")
        require_equal(dim, total)
        require_nonnegative(parts)
        return tuple(parts)
    if parts < 1:
        raise ValueError(f"number of parts is wrong: expected 1 or more, got {parts}")
    size = ceildiv(dim, parts)
    last = dim - (parts - 1) * size
    if isinstance(last, int) and last < 0:
        raise ValueError(
            f"cannot split {dim} into {parts} parts of {size}: nothing is left"
        )
    require_at_least(last, 0)
    return (*[size] * (parts - 1), last)


def pad_shape(shape: Sequence[Dim], pads: Sequence[Dim]) -> Shape:
    """The shape after padding by ``pads``: all begins, then all ends, one per axis each.

    Raises:
        ValueError: there are not two pads per axis, or negative pads remove too much.

    Source: ONNX Pad-18.
    """
    rank = len(shape)
    if len(pads) != 2 * rank:
        raise ValueError(
            f"number of pads is wrong: expected {2 * rank}, got {len(pads)}"
        )
    result = tuple(pads[i] + shape[i] + pads[rank + i] for i in range(rank))
    if any(isinstance(dim, int) and dim < 0 for dim in result):
        raise ValueError(
            f"pads {format_shape(pads)} remove too much from {format_shape(shape)}"
        )
    for dim in result:
        require_at_least(dim, 0)
    return result
