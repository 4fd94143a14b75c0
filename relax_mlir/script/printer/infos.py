"""Struct info and sizes as scripts spell them."""

from __future__ import annotations

from collections.abc import Callable

from relax_mlir.objects import prim
from relax_mlir.objects.prim import PrimExpr, Var
from relax_mlir.objects.prim_text import text_of
from relax_mlir.objects.struct_info import (
    FuncStructInfo,
    PrimStructInfo,
    ShapeExpr,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)

__all__ = ["InfoText", "tuple_text"]


def tuple_text(parts: list[str]) -> str:
    """Parts as a tuple."""
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


class InfoText:
    """Spells struct info.

    Args:
        name: what a variable in a size is called.
        vdevice: what a device is called.
    """

    def __init__(
        self, name: Callable[[Var], str], vdevice: Callable[[object], str] = str
    ) -> None:
        self._name = name
        self._vdevice = vdevice
        self.own: list[Var] = []  # variables that the signature being printed defines

    def term(self, term: PrimExpr) -> str:
        """A scalar."""
        variables = {t for t in prim.post_order(term) if isinstance(t, Var)}
        named = {v: Var(self._name(v), v.dtype) for v in variables}
        return text_of(prim.substitute(term, named) if named else term)

    def value(self, term: PrimExpr) -> str:
        """A scalar where it must tell its type: a plain number is an int64."""
        if isinstance(term, prim.IntImm) and term.dtype not in ("int64", "bool"):
            return f"T.{term.dtype}({term.value})"
        return self.term(term)

    def sizes(self, values: tuple[PrimExpr, ...], *, quoted: bool) -> list[str]:
        """Sizes; where ``quoted``, those with variables as text."""
        return [self.size(v, quoted=quoted) for v in values]

    def size(self, value: PrimExpr, *, quoted: bool) -> str:
        """One size."""
        text = self.term(value)
        is_own = any(t is v for t in prim.post_order(value) for v in self.own)
        return f'"{text}"' if quoted and is_own else text

    def info(self, info: StructInfo, *, quoted: bool = False) -> str:
        """Struct info.

        Args:
            quoted: whether sizes with variables are text, as in a signature.
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
            return self._known_scalar(info, info.value, quoted=quoted)
        if isinstance(info, FuncStructInfo):
            return self._callable(info, quoted=quoted)
        return "R.Object"

    def _known_scalar(
        self, info: PrimStructInfo, value: PrimExpr, *, quoted: bool
    ) -> str:
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
