"""Symbolic sizes of torch, which are terms of sympy, as ours."""

from collections.abc import Iterable, Sequence
from typing import Any

import sympy
import torch
from torch.utils._sympy import functions

from relax_mlir.dialects.constraints import Constraint
from relax_mlir.dialects.shapes import symbol
from relax_mlir.objects import prim
from relax_mlir.objects.prim import PrimExpr, Var

__all__ = ["Size", "Sizes", "count_of"]

Size = int | PrimExpr

_BINARY = {
    functions.FloorDiv: lambda a, b: a // b,
    functions.CleanDiv: lambda a, b: a // b,
    functions.Mod: lambda a, b: a % b,
    functions.PythonMod: lambda a, b: a % b,
    functions.Max: prim.Max,
    functions.Min: prim.Min,
    sympy.Max: prim.Max,
    sympy.Min: prim.Min,
}


def count_of(shape: Sequence[Size]) -> Size:
    """The number of elements."""
    count: Size = 1
    for size in shape:
        count = size * count
    return count


class Sizes:
    """The symbols of one graph, each with the variable that it becomes."""

    def __init__(self) -> None:
        self._vars: dict[str, Var] = {}

    def term(self, size: Any) -> Size:  # Any: int or SymInt
        """A size as ours.

        Raises:
            NotImplementedError: it is made of what our sizes cannot say.
        """
        if isinstance(size, torch.SymInt):
            return self.of_sympy(size.node.expr)
        return int(size)

    def terms(self, shape: Iterable[Any]) -> tuple[Size, ...]:
        """A shape as ours."""
        return tuple(map(self.term, shape))

    def of_sympy(self, expr: Any) -> Size:  # Any: sympy has no types
        """A term of sympy as ours.

        Raises:
            NotImplementedError: it is made of what our sizes cannot say.
        """
        if expr.is_Integer:
            return int(expr)
        if isinstance(expr, sympy.Symbol):
            return self._symbol(expr.name)
        if isinstance(expr, (sympy.Add, sympy.Mul)):
            return self._sum_or_product(expr)
        if isinstance(expr, sympy.Pow) and expr.exp.is_Integer and expr.exp > 0:
            return self._folded(prim.Mul, [self.of_sympy(expr.base)] * int(expr.exp))
        make = _BINARY.get(type(expr))
        if make is None:
            raise NotImplementedError(
                f"size `{expr}`: expected integers, symbols and `+ - * // %`, min and max"
            )
        return self._folded(make, [self.of_sympy(a) for a in expr.args])

    def _symbol(self, name: str) -> Var:
        if name.startswith(("u", "zuf")):
            raise NotImplementedError(
                f"size `{name}` depends on the values of a tensor: expected sizes that the "
                "shapes of the inputs tell"
            )
        return self._vars.setdefault(name, Var(name, "int64"))

    def _sum_or_product(self, expr: Any) -> Size:
        is_sum = isinstance(expr, sympy.Add)
        operate = (lambda a, b: a + b) if is_sum else (lambda a, b: a * b)
        return self._folded(operate, [self.of_sympy(a) for a in expr.args])

    def _folded(self, operate: Any, terms: Sequence[Size]) -> Size:
        whole = prim.convert(terms[0])
        for term in terms[1:]:
            whole = operate(whole, prim.convert(term))
        return whole

    def range_constraints(self, ranges: Any) -> list[Constraint]:
        """What the ranges of a program say of its sizes.

        A least size of 2 is left out: torch says so of every size that it keeps open.
        """
        found: list[Constraint] = []
        for expr, limits in ranges.items():
            if not isinstance(expr, sympy.Symbol) or expr.name not in self._vars:
                continue
            size = symbol(expr.name)
            if limits.lower.is_Integer and limits.lower > 2:
                found.append(Constraint(size, ">=", int(limits.lower)))
            if limits.upper.is_Integer and limits.upper < 2**62:
                found.append(Constraint(int(limits.upper), ">=", size))
        return found
