"""Calls, and what may be an argument of them."""

from __future__ import annotations

from typing import Any

from relax_mlir.objects.argument_checks import instance_of, sequence_of
from relax_mlir.objects.expr.attrs import Attrs
from relax_mlir.objects.expr.operator import Op
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
    given_info,
)
from relax_mlir.objects.node import Expr
from relax_mlir.objects.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    ShapeExpr,
    StructInfo,
)

__all__ = ["Call", "is_leaf"]

_LEAVES = (
    *(Var, Constant, ShapeExpr, GlobalVar, ExternFunc, Op),
    *(PrimValue, StringImm, DataTypeImm),
)


class Call(Expr):
    """A call of an operator, of a function of the module, or of a value.

    Attributes:
        op: an :class:`Op`, :class:`GlobalVar`, :class:`ExternFunc` or an expression.
        args: its arguments.
        attrs: named ones.
        sinfo_args: types among the arguments; ``ty_args`` is TVM's newest spelling.
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
        self.sinfo_args: tuple[StructInfo, ...] = tuple(map(given_info, infos))
        self.span = span

    @property
    def ty_args(self) -> tuple[StructInfo, ...]:
        """TVM's newest spelling of ``sinfo_args``."""
        return self.sinfo_args

    def with_struct_info(self, info: StructInfo) -> Call:
        """The same call, of which the result is known."""
        made = Call(self.op, self.args, self.attrs, self.sinfo_args, self.span)
        made._struct_info = info
        return made


def _callee(op: Expr) -> Expr:
    """What a call calls, checked as far as it is known.

    Raises:
        TypeError: it is no expression.
        ValueError: it is a variable that holds no function.
    """
    instance_of(op, Expr, "Call", "an operator or a function")
    info = op.struct_info_or_none() if isinstance(op, Var) else None
    if info is None or isinstance(info, (FuncStructInfo, ObjectStructInfo)):
        return op
    raise ValueError(f"call of `{op}`: expected a function, got {info}")


def is_leaf(expr: Expr) -> bool:
    """Whether an expression may be an argument as it is, in TVM's normal form."""
    if isinstance(expr, Tuple):
        return all(map(is_leaf, expr.fields))
    return isinstance(expr, _LEAVES)
