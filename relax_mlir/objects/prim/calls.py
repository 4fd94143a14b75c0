"""Calls of scalar intrinsics and subroutines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relax_mlir.objects.argument_checks import dtype_text, instance_of, sequence_of
from relax_mlir.objects.prim.constants import convert
from relax_mlir.objects.prim.expr import PrimExpr

__all__ = ["Call"]


class Call(PrimExpr):
    """A call by name: ``exp``, ``if_then_else``, ``call_extern``, ...

    Attributes:
        op_name: the name of the callee without TVM's ``tir.``.
        is_subroutine: whether the callee is a function of the module.
    """

    __slots__ = ("args", "is_subroutine", "op_name")

    def __init__(
        self, dtype: str, op: Any, args: Sequence[Any], span: object = None
    ) -> None:
        name = op if isinstance(op, str) else getattr(op, "name_hint", None)
        name = instance_of(
            name or getattr(op, "name", None), str, "T.Call: `op`", "an operator"
        )
        self.is_subroutine = hasattr(op, "name_hint")
        self.dtype = dtype_text(dtype, "T.Call: `dtype`")
        self.op_name = name.removeprefix("tir.").removeprefix("tirx.")
        self.args = tuple(
            map(convert, sequence_of(args, "T.Call: `args`", "scalar expressions"))
        )

    @property
    def op(self) -> Any:
        """The callee: an operator ``tir.<name>``, or a function of the module."""
        from relax_mlir.objects.expr import GlobalVar, Op

        name = self.op_name
        return GlobalVar(name) if self.is_subroutine else Op.of(f"tir.{name}")

    def children(self) -> tuple[PrimExpr, ...]:
        return self.args

    def with_children(self, children: Sequence[PrimExpr]) -> PrimExpr:
        result = Call(self.dtype, self.op_name, children)
        result.is_subroutine = self.is_subroutine
        return result

    def key(self) -> tuple[object, ...]:
        return (self.dtype, self.op_name, self.is_subroutine)
