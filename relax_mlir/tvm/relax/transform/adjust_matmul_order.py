"""``AdjustMatmulOrder``: reassociates matmul chains to minimise multiplications."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

from relax_mlir.dialects import shapes
from relax_mlir.objects.expr import Expr
from relax_mlir.objects.function import Function
from relax_mlir.objects.prim.symbolic_sizes import Symbols
from relax_mlir.symbolic.dims import Dim, is_known_le, symbol
from relax_mlir.symbolic.symbols import substitute, symbols_of
from relax_mlir.tvm.relax import op
from relax_mlir.tvm.relax.dpl import is_op, wildcard
from relax_mlir.tvm.relax.dpl.structure import DFPattern
from relax_mlir.tvm.relax.transform.function_rewriting import (
    FunctionRewriting,
    PatternMatches,
    PatternRewriter,
    compile_time_predicate,
    shape_of,
)

__all__ = ["AdjustMatmulOrder"]

_Shape: TypeAlias = tuple[Any, ...]  # Any: PrimExprs or dimensions
_Bounds: TypeAlias = Mapping[str, tuple[int, int | None]]  # inclusive


@dataclass(frozen=True)
class AdjustMatmulOrder(FunctionRewriting):
    """Reassociates ``a @ b @ c`` to minimise the number of multiplications.

    Two compile-time operands are multiplied first, so that their product can be computed
    ahead of time. The order stays unless the other one is provably better. Symbols are
    compared within the function attributes ``tir_var_lower_bound`` and
    ``tir_var_upper_bound``.
    """

    def rule(self, function: Function) -> tuple[DFPattern, PatternRewriter]:
        """Matches a matmul of a matmul; replaces it by the cheaper order."""
        chain = _MatmulChain(compile_time_predicate(function), _bounds(function))
        return chain.pattern, chain.reordered


class _MatmulChain:
    """A matmul chain of three operands, whose inner matmul may be transposed."""

    def __init__(
        self, is_compile_time: Callable[[Expr], bool], bounds: _Bounds
    ) -> None:
        self.is_compile_time = is_compile_time
        self.bounds = bounds
        self.operands = a, b, c = wildcard(), wildcard(), wildcard()
        matmul, permute = is_op("relax.matmul"), is_op("relax.permute_dims")
        self.left = matmul(matmul(a, b), c)
        right = matmul(a, matmul(b, c))
        self.permuted_left = matmul(permute(matmul(b, a)), c)
        self.permuted_right = matmul(a, permute(matmul(c, b)))
        self.pattern = self.left | right | self.permuted_left | self.permuted_right

    def reordered(self, expr: Expr, matches: PatternMatches) -> Expr:
        """Returns the chain in the cheaper order; ``expr`` if neither is provably so."""
        operands = [matches[operand] for operand in self.operands]
        known_shapes = [shape_of(operand) for operand in operands]
        shapes_ = [shape for shape in known_shapes if shape is not None]
        transposed = self._transposed_operands(matches)
        is_constant = all(map(self.is_compile_time, operands))
        if (
            is_constant
            or len(shapes_) < 3
            or any(len(shapes_[i]) < 2 for i in transposed)
        ):
            return expr
        for i in transposed:
            operands[i], shapes_[i] = _transpose(operands[i], shapes_[i])
        a, b, c = operands
        prefers_left = self._prefers_left(operands, shapes_, self.left in matches)
        if prefers_left is None:
            return expr
        if prefers_left:
            return op.matmul(op.matmul(a, b), c)
        return op.matmul(a, op.matmul(b, c))

    def _transposed_operands(self, matches: PatternMatches) -> tuple[int, ...]:
        """Returns the indices of transposed operands."""
        if self.permuted_left in matches:
            return (0, 1)
        return (1, 2) if self.permuted_right in matches else ()

    def _prefers_left(
        self, operands: Sequence[Expr], shapes_: Sequence[_Shape], starts_left: bool
    ) -> bool | None:
        compile_time = [self.is_compile_time(operand) for operand in operands]
        if compile_time[1] and (compile_time[0] or compile_time[2]):
            return compile_time[0]
        symbols = Symbols()
        sizes = [symbols.dims(shape) for shape in shapes_]
        for left_cost, right_cost in _multiplication_counts(
            _as_matrices(sizes, starts_left)
        ):
            if _is_less(left_cost, right_cost, self.bounds):
                return True
            if _is_less(right_cost, left_cost, self.bounds):
                return False
        return None


def _transpose(operand: Expr, shape: _Shape) -> tuple[Expr, _Shape]:
    """Returns an operand with its last two axes swapped."""
    rank = len(shape)
    axes = None if rank == 2 else [*range(rank - 2), rank - 1, rank - 2]
    return op.permute_dims(operand, axes), (*shape[:-2], shape[-1], shape[-2])


def _as_matrices(shapes_: Sequence[_Shape], starts_left: bool) -> list[_Shape]:
    """Returns vectors as row or column matrices, according to their position."""
    are_rows = (True, not starts_left, False)
    return [
        shape if len(shape) > 1 else (1, *shape) if is_row else (*shape, 1)
        for shape, is_row in zip(shapes_, are_rows, strict=True)
    ]


def _multiplication_counts(operands: Sequence[_Shape]) -> list[tuple[Dim, Dim]]:
    """Returns the multiplication counts of both orders: for all matrices, and for one."""
    a, b, c = operands
    n, r = a[-2:]
    m, last = c[-2:]
    ab_cost, ab_c_cost = n * r * m, n * m * last
    bc_cost, a_bc_cost = r * m * last, n * r * last
    per_matrix = (ab_cost + ab_c_cost, bc_cost + a_bc_cost)
    try:
        ab, bc = (shapes.broadcast(x[:-2], y[:-2]) for x, y in ((a, b), (b, c)))
        batch = shapes.broadcast(ab, c[:-2])
    except ValueError:
        return [per_matrix]
    batched = (
        prod(ab) * ab_cost + prod(batch) * ab_c_cost,
        prod(bc) * bc_cost + prod(batch) * a_bc_cost,
    )
    return [batched, per_matrix]


def _bounds(function: Function) -> _Bounds:
    """Returns the inclusive bounds of symbols; the upper attribute is exclusive."""
    lower = function.attrs.get("tir_var_lower_bound") or {}
    upper = function.attrs.get("tir_var_upper_bound") or {}
    return {
        str(name): (
            max(1, int(lower.get(name, 1))),
            int(upper[name]) - 1 if name in upper else None,
        )
        for name in {*lower, *upper}
    }


def _is_less(a: Dim, b: Dim, bounds: _Bounds) -> bool:
    """Returns whether ``a < b`` provably holds, where all symbols are at least 1.

    The difference is linear in a symbol without powers, so it is minimal at one of the
    symbol's bounds. An unbounded symbol is substituted by its lower bound plus an offset;
    then no term of the difference may be negative.
    """
    difference = b - a
    for name in symbols_of(difference):
        low, high = bounds.get(name, (1, None))
        if high is not None and _is_linear(difference, name):
            ends = [substitute(difference, {name: end}) for end in (low, high)]
            return all(_is_less(0, end, bounds) for end in ends)
    lower = {name: bounds.get(name, (1, None))[0] for name in symbols_of(difference)}
    shifted = {name: symbol(name) + low for name, low in lower.items()}
    return is_known_le(1, substitute(difference, shifted))


def _is_linear(dim: Dim, name: str) -> bool:
    """Returns whether a symbol has no power and is inside no call."""
    if isinstance(dim, int):
        return True
    return all(
        sum(atom.text == name for atom in monomial) <= 1
        and not any(name in _symbols_in_args(atom.args) for atom in monomial)
        for monomial, _ in dim.terms
    )


def _symbols_in_args(args: Sequence[Dim]) -> set[str]:
    return {name for arg in args for name in symbols_of(arg)}
