"""Call expressions, and the leaf expressions of TVM's normal form."""

from __future__ import annotations

from typing import Any

from relax_mlir.objects.argument_checks import instance_of, sequence_of
from relax_mlir.objects.expr.attrs import Attrs
from relax_mlir.objects.expr.node import Expr
from relax_mlir.objects.expr.operator import Op
from relax_mlir.objects.expr.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    ShapeExpr,
    StructInfo,
)
from relax_mlir.objects.expr.values import (
    Constant,
    DataTypeImm,
    PrimValue,
    StringImm,
    Tuple,
    convert,
)
from relax_mlir.objects.expr.variables import (
    ExternFunc,
    GlobalVar,
    Var,
    to_struct_info,
)

__all__ = ["Call", "is_leaf"]

_LEAVES = (
    *(Var, Constant, ShapeExpr, GlobalVar, ExternFunc, Op),
    *(PrimValue, StringImm, DataTypeImm),
)


class Call(Expr):
    """A call of an operator, a global function, or a function value.

    Attributes:
        op: the callee: an :class:`Op`, :class:`GlobalVar`, :class:`ExternFunc` or expression.
        args: positional arguments.
        attrs: keyword attributes.
        sinfo_args: struct-info arguments; ``ty_args`` is the alias in TVM's newest releases.
    """

    def __init__(
        self,
        op: Any,
        args: Any,
        attrs: Any = None,
        sinfo_args: Any = None,
        span: object = None,
        *,
        ty_args: Any = None,
    ) -> None:
        self.op: Expr = _callee(Op.of(op) if isinstance(op, str) else op)
        listed = sequence_of(args, "Call", "arguments")
        self.args: tuple[Expr, ...] = tuple(map(convert, listed))
        self.attrs = attrs if isinstance(attrs, Attrs) else Attrs(attrs)
        infos = sinfo_args if sinfo_args is not None else ty_args
        infos = sequence_of(() if infos is None else infos, "Call", "struct info")
        self.sinfo_args: tuple[StructInfo, ...] = tuple(map(to_struct_info, infos))
        self.span = span

    @property
    def ty_args(self) -> tuple[StructInfo, ...]:
        """Alias of ``sinfo_args`` in TVM's newest releases."""
        return self.sinfo_args

    def with_struct_info(self, info: StructInfo) -> Call:
        """The same call with the struct info of its result set."""
        call = Call(self.op, self.args, self.attrs, self.sinfo_args, self.span)
        call._struct_info = info
        return call


def _callee(op: Expr) -> Expr:
    """The callee, checked by its struct info if that is known.

    Raises:
        TypeError: it is not an expression.
        ValueError: it is a variable whose struct info is not that of a function.
    """
    instance_of(op, Expr, "Call", "an operator or a function")
    info = op.struct_info_or_none() if isinstance(op, Var) else None
    if info is None or isinstance(info, (FuncStructInfo, ObjectStructInfo)):
        return op
    raise ValueError(f"call of `{op}`: expected a function, got {info}")


def is_leaf(expr: Expr) -> bool:
    """Whether TVM's normal form (ANF) allows an expression as an argument."""
    if isinstance(expr, Tuple):
        return all(map(is_leaf, expr.fields))
    return isinstance(expr, _LEAVES)
