"""``AdjustMatmulOrder``: chains of products in the order that multiplies least."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

from relax_mlir.dialects import shapes
from relax_mlir.dialects.dims import Dim, is_known_le, symbol
from relax_mlir.dialects.symbols import substitute, symbols_of
from relax_mlir.objects.expr import Expr
from relax_mlir.objects.function import Function
from relax_mlir.objects.sizes import Symbols
from relax_mlir.relax import op
from relax_mlir.relax.dpl import is_op, wildcard
from relax_mlir.relax.dpl.structure import DFPattern
from relax_mlir.relax.transform.function_rewriting import (
    FunctionRewriting,
    Matches,
    Rewriter,
    compile_time_test,
    shape_of,
)

__all__ = ["AdjustMatmulOrder"]

_Shape: TypeAlias = tuple[Any, ...]  # Any: sizes as terms or as dimensions
_Bounds: TypeAlias = Mapping[str, tuple[int, int | None]]  # inclusive


@dataclass(frozen=True)
class AdjustMatmulOrder(FunctionRewriting):
    """Compute ``a @ b @ c`` from the side that takes fewer multiplications.

    Two factors that are known before the inputs are multiplied first, so that it can be
    done once. Where neither order is surely better, the order stays. Symbols are compared
    within ``tir_var_lower_bound`` and ``tir_var_upper_bound``, attributes of the function.
    """

    def rule(self, function: Function) -> tuple[DFPattern, Rewriter]:
        """A product of products, and the product in the better order."""
        chain = _Chain(compile_time_test(function), _bounds(function))
        return chain.pattern, chain.reordered


class _Chain:
    """A product of three factors, of which two, multiplied, may be transposed."""

    def __init__(self, is_known: Callable[[Expr], bool], bounds: _Bounds) -> None:
        self.is_known = is_known
        self.bounds = bounds
        self.factors = a, b, c = wildcard(), wildcard(), wildcard()
        matmul, permute = is_op("relax.matmul"), is_op("relax.permute_dims")
        self.left = matmul(matmul(a, b), c)
        right = matmul(a, matmul(b, c))
        self.permuted_left = matmul(permute(matmul(b, a)), c)
        self.permuted_right = matmul(a, permute(matmul(c, b)))
        self.pattern = self.left | right | self.permuted_left | self.permuted_right

    def reordered(self, expr: Expr, matches: Matches) -> Expr:
        """The product in the better order; ``expr`` if none surely is."""
        factors = [matches[factor] for factor in self.factors]
        found = [shape_of(factor) for factor in factors]
        shapes_ = [shape for shape in found if shape is not None]
        swapped = self._swapped(matches)
        is_fixed = all(map(self.is_known, factors))
        if is_fixed or len(shapes_) < 3 or any(len(shapes_[i]) < 2 for i in swapped):
            return expr
        for i in swapped:
            factors[i], shapes_[i] = _transposed(factors[i], shapes_[i])
        a, b, c = factors
        is_left_better = self._prefers_left(factors, shapes_, self.left in matches)
        if is_left_better is None:
            return expr
        if is_left_better:
            return op.matmul(op.matmul(a, b), c)
        return op.matmul(a, op.matmul(b, c))

    def _swapped(self, matches: Matches) -> tuple[int, ...]:
        """Which factors stand transposed."""
        if self.permuted_left in matches:
            return (0, 1)
        return (1, 2) if self.permuted_right in matches else ()

    def _prefers_left(
        self, factors: Sequence[Expr], shapes_: Sequence[_Shape], starts_left: bool
    ) -> bool | None:
        known = [self.is_known(factor) for factor in factors]
        if known[1] and (known[0] or known[2]):
            return known[0]
        symbols = Symbols()
        sizes = [symbols.dims(shape) for shape in shapes_]
        for left, right in _multiplications(_as_matrices(sizes, starts_left)):
            if _is_less(left, right, self.bounds):
                return True
            if _is_less(right, left, self.bounds):
                return False
        return None


def _transposed(factor: Expr, shape: _Shape) -> tuple[Expr, _Shape]:
    """A factor with its last two axes swapped."""
    rank = len(shape)
    axes = None if rank == 2 else [*range(rank - 2), rank - 1, rank - 2]
    return op.permute_dims(factor, axes), (*shape[:-2], shape[-1], shape[-2])


def _as_matrices(shapes_: Sequence[_Shape], starts_left: bool) -> list[_Shape]:
    """Vectors as rows or columns, as the places in the product want them."""
    are_rows = (True, not starts_left, False)
    return [
        shape if len(shape) > 1 else (1, *shape) if is_row else (*shape, 1)
        for shape, is_row in zip(shapes_, are_rows, strict=True)
    ]


def _multiplications(factors: Sequence[_Shape]) -> list[tuple[Dim, Dim]]:
    """How many multiplications either order takes: for all matrices, and for one."""
    a, b, c = factors
    n, r = a[-2:]
    m, last = c[-2:]
    first, second = n * r * m, n * m * last
    third, fourth = r * m * last, n * r * last
    alone = (first + second, third + fourth)
    try:
        ab, bc = (shapes.broadcast(x[:-2], y[:-2]) for x, y in ((a, b), (b, c)))
        whole = shapes.broadcast(ab, c[:-2])
    except ValueError:
        return [alone]
    in_batches = (
        prod(ab) * first + prod(whole) * second,
        prod(bc) * third + prod(whole) * fourth,
    )
    return [in_batches, alone]


def _bounds(function: Function) -> _Bounds:
    """What the function says of its symbols: at least, and less than."""
    least = function.attrs.get("tir_var_lower_bound") or {}
    limits = function.attrs.get("tir_var_upper_bound") or {}
    return {
        str(name): (
            max(1, int(least.get(name, 1))),
            int(limits[name]) - 1 if name in limits else None,
        )
        for name in {*least, *limits}
    }


def _is_less(a: Dim, b: Dim, bounds: _Bounds) -> bool:
    """Whether ``a < b`` holds surely, where all symbols are at least 1.

    In a symbol that occurs in no power the difference is linear, so it is least at one of
    the symbol's bounds; one without a limit is written as what it has above its least
    value, and then no term of the difference may be negative.
    """
    difference = b - a
    for name in symbols_of(difference):
        low, high = bounds.get(name, (1, None))
        if high is not None and _is_linear(difference, name):
            ends = [substitute(difference, {name: end}) for end in (low, high)]
            return all(_is_less(0, end, bounds) for end in ends)
    least = {name: bounds.get(name, (1, None))[0] for name in symbols_of(difference)}
    above = {name: symbol(name) + low for name, low in least.items()}
    return is_known_le(1, substitute(difference, above))


def _is_linear(dim: Dim, name: str) -> bool:
    """Whether a symbol occurs in no power and inside no call."""
    if isinstance(dim, int):
        return True
    return all(
        sum(atom.text == name for atom in monomial) <= 1
        and not any(name in _mentioned(atom.args) for atom in monomial)
        for monomial, _ in dim.terms
    )


def _mentioned(args: Sequence[Dim]) -> set[str]:
    return {name for arg in args for name in symbols_of(arg)}
