"""Conversion of torch's symbolic sizes (sympy expressions) to ``PrimExpr``."""

from collections.abc import Iterable, Sequence
from typing import Any

import sympy
import torch
from torch.utils._sympy import functions

from relax_mlir.dialects.shapes import symbol
from relax_mlir.objects import prim
from relax_mlir.objects.prim import PrimExpr, Var
from relax_mlir.symbolic.constraints import Constraint

__all__ = ["Size", "Sizes", "element_count"]

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


def element_count(shape: Sequence[Size]) -> Size:
    """The number of elements of a shape."""
    count: Size = 1
    for size in shape:
        count = size * count
    return count


class Sizes:
    """The symbolic sizes of one graph, with a variable for each symbol."""

    def __init__(self) -> None:
        self._vars: dict[str, Var] = {}

    def convert(self, size: Any) -> Size:  # Any: int or SymInt
        """A size as an int or ``PrimExpr``.

        Raises:
            NotImplementedError: it uses an operation that sizes do not support.
        """
        if isinstance(size, torch.SymInt):
            return self.of_sympy(size.node.expr)
        return int(size)

    def convert_shape(self, shape: Iterable[Any]) -> tuple[Size, ...]:
        """A shape as ints and ``PrimExpr``."""
        return tuple(map(self.convert, shape))

    def of_sympy(self, expr: Any) -> Size:  # Any: sympy has no types
        """A sympy expression as an int or ``PrimExpr``.

        Raises:
            NotImplementedError: it uses an operation that sizes do not support.
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
                f"size `{name}` is data-dependent: expected sizes that follow from the "
                "shapes of the inputs"
            )
        return self._vars.setdefault(name, Var(name, "int64"))

    def _sum_or_product(self, expr: Any) -> Size:
        is_sum = isinstance(expr, sympy.Add)
        operate = (lambda a, b: a + b) if is_sum else (lambda a, b: a * b)
        return self._folded(operate, [self.of_sympy(a) for a in expr.args])

    def _folded(self, operate: Any, operands: Sequence[Size]) -> Size:
        result = prim.convert(operands[0])
        for operand in operands[1:]:
            result = operate(result, prim.convert(operand))
        return result

    def range_constraints(self, ranges: Any) -> list[Constraint]:
        """Size constraints from the range constraints of an exported program.

        A lower bound of 2 is ignored, as torch sets it for every dynamic size.
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
