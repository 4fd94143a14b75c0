"""Printing of struct info and symbolic sizes."""

from __future__ import annotations

from collections.abc import Callable

from relax_mlir.objects import prim
from relax_mlir.objects.expr.struct_info import (
    FuncStructInfo,
    PrimStructInfo,
    ShapeExpr,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from relax_mlir.objects.prim import PrimExpr, Var
from relax_mlir.objects.prim.script_text import prim_expr_script

__all__ = ["StructInfoPrinter", "tuple_text"]


def tuple_text(parts: list[str]) -> str:
    """Joins texts to a Python tuple."""
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


class StructInfoPrinter:
    """Prints struct info.

    Args:
        name: returns the printed name of a variable.
        vdevice: returns the printed name of a virtual device.
    """

    def __init__(
        self, name: Callable[[Var], str], vdevice: Callable[[object], str] = str
    ) -> None:
        self._name = name
        self._vdevice = vdevice
        self.defined: list[
            Var
        ] = []  # size variables that the current signature defines

    def expr(self, expr: PrimExpr) -> str:
        """Prints a scalar expression."""
        variables = {t for t in prim.post_order(expr) if isinstance(t, Var)}
        renamed = {v: Var(self._name(v), v.dtype) for v in variables}
        return prim_expr_script(prim.substitute(expr, renamed) if renamed else expr)

    def value(self, expr: PrimExpr) -> str:
        """Prints a scalar so that its type is unambiguous: a plain integer is an int64."""
        if isinstance(expr, prim.IntImm) and expr.dtype not in ("int64", "bool"):
            return f"T.{expr.dtype}({expr.value})"
        return self.expr(expr)

    def sizes(self, values: tuple[PrimExpr, ...], *, quoted: bool) -> list[str]:
        """Prints sizes; if ``quoted``, those over the signature's variables as strings."""
        return [self.size(v, quoted=quoted) for v in values]

    def size(self, value: PrimExpr, *, quoted: bool) -> str:
        """Prints one size."""
        text = self.expr(value)
        is_symbolic = any(t is v for t in prim.post_order(value) for v in self.defined)
        return f'"{text}"' if quoted and is_symbolic else text

    def info(self, info: StructInfo, *, quoted: bool = False) -> str:
        """Prints struct info.

        Args:
            quoted: whether symbolic sizes are strings, as in a signature.
        """
        if isinstance(info, TensorStructInfo):
            return self._tensor(info, quoted=quoted)
        if isinstance(info, TupleStructInfo):
            fields = [self.info(f, quoted=quoted) for f in info.fields]
            return f"R.Tuple({', '.join(fields)})" if fields else "R.Tuple"
        if isinstance(info, ShapeStructInfo):
            if info.values is None:
                return f"R.Shape(ndim={info.ndim})"
            return f"R.Shape([{', '.join(self.sizes(info.values, quoted=quoted))}])"
        if isinstance(info, PrimStructInfo):
            if info.value is None:
                return f'R.Prim("{info.dtype}")'
            return self._prim(info.value, quoted=quoted)
        if isinstance(info, FuncStructInfo):
            return self._callable(info, quoted=quoted)
        return "R.Object"

    def _prim(self, value: PrimExpr, *, quoted: bool) -> str:
        if isinstance(value, Var) or any(
            isinstance(t, Var) for t in prim.post_order(value)
        ):
            return f"R.Prim(value={self.size(value, quoted=quoted)})"
        return f"R.Prim(value={self.value(value)})"

    def _tensor(self, info: TensorStructInfo, *, quoted: bool) -> str:
        parts = []
        if isinstance(info.shape, ShapeExpr):
            parts.append(tuple_text(self.sizes(info.shape.values, quoted=quoted)))
        elif info.shape_var is not None:
            parts.append(self._name(info.shape_var))  # pyright: ignore[reportArgumentType]
        if info.dtype != "void":
            parts.append(f'dtype="{info.dtype}"')
        if info.shape is None and info.ndim >= 0:
            parts.append(f"ndim={info.ndim}")
        if info.vdevice is not None:
            parts.append(f'vdevice="{self._vdevice(info.vdevice)}"')
        return f"R.Tensor({', '.join(parts)})" if parts else "R.Tensor"

    def _callable(self, info: FuncStructInfo, *, quoted: bool) -> str:
        ret = self.info(info.ret, quoted=quoted)
        if info.params is not None:
            params = tuple_text([self.info(p, quoted=quoted) for p in info.params])
            return f"R.Callable({params}, {ret}, {info.purity})"
        parts = [] if ret == "R.Object" else [f"ret={ret}"]
        if info.purity:
            parts.append("purity=True")
        return f"R.Callable({', '.join(parts)})" if parts else "R.Callable"
