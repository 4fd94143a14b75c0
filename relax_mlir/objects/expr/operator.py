"""Relax operators by name, and their registered attributes."""

from __future__ import annotations

from typing import Any

from relax_mlir.objects.argument_checks import instance_of
from relax_mlir.objects.expr.node import Expr
from relax_mlir.objects.expr.struct_info import FuncStructInfo
from relax_mlir.support.argument_types import checked

__all__ = ["Op"]


class Op(Expr):
    """A Relax operator; a singleton per name.

    Attributes:
        name: the operator name, such as ``relax.add``.
    """

    _all: dict[str, Op] = {}  # noqa: RUF012  it is the registry

    def __init__(self, name: str) -> None:
        self.name = instance_of(name, str, "Op: `name`", "a string")
        self._struct_info = FuncStructInfo.opaque_func(purity=True)
        self._attrs: dict[str, Any] = {}  # Any: the type depends on the attribute

    @staticmethod
    def with_attr(
        name: str,
    ) -> dict[str, Any]:  # Any: the type depends on the attribute
        """The values of an attribute, by the names of the operators that define it."""
        operators = Op._all.values()
        return {op.name: op._attrs[name] for op in operators if name in op._attrs}

    @staticmethod
    def list_op_names() -> list[str]:
        """The names of all operators."""
        from relax_mlir.objects.operators import operator_names

        return sorted(operator_names())

    @checked
    def get_attr(self, name: str) -> Any:
        """The value of an attribute, or None."""
        from relax_mlir.objects.operators import builtin_attr

        return self._attrs[name] if name in self._attrs else builtin_attr(self, name)

    @checked
    def has_attr(self, name: str) -> bool:
        """Whether the attribute is registered."""
        return name in self._attrs

    @checked
    def set_attr(self, name: str, value: Any, plevel: int = 10) -> None:
        """Sets an attribute, replacing an earlier value."""
        self._attrs[name] = value

    @checked
    def reset_attr(self, name: str) -> None:
        """Removes an attribute."""
        self._attrs.pop(name, None)

    @staticmethod
    def of(name: str) -> Op:
        """The operator of this name, created if it is unknown."""
        return Op._all.setdefault(name, Op(name))

    @staticmethod
    def get(name: str) -> Op:
        """The registered operator of this name.

        Raises:
            AttributeError: it does not exist.
        """
        from relax_mlir.objects.operators import get_op

        return get_op(name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Op) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"Op({self.name})"
