"""The operators of Relax, by name, and what is registered of them."""

from __future__ import annotations

from typing import Any

from relax_mlir.argument_types import checked
from relax_mlir.objects.argument_checks import instance_of
from relax_mlir.objects.node import Expr
from relax_mlir.objects.struct_info import FuncStructInfo

__all__ = ["Op"]


class Op(Expr):
    """An operator, by its name; there is one object per name.

    Attributes:
        name: such as ``relax.add``.
    """

    _all: dict[str, Op] = {}  # noqa: RUF012  it is the registry

    def __init__(self, name: str) -> None:
        self.name = instance_of(name, str, "Op: `name`", "a string")
        self._struct_info = FuncStructInfo.opaque_func(purity=True)
        self._attrs: dict[str, Any] = {}  # Any: as many types as attributes

    @staticmethod
    def with_attr(name: str) -> dict[str, Any]:  # Any: what the attribute is
        """The values of an attribute, by the names of the operators that have it."""
        operators = Op._all.values()
        return {op.name: op._attrs[name] for op in operators if name in op._attrs}

    @staticmethod
    def list_op_names() -> list[str]:
        """The names of all operators."""
        from relax_mlir.objects.operators import operator_names

        return sorted(operator_names())

    @checked
    def get_attr(self, name: str) -> Any:
        """What is registered of the operator under this name; None for nothing."""
        from relax_mlir.objects.operators import own_attr

        return self._attrs[name] if name in self._attrs else own_attr(self, name)

    @checked
    def has_attr(self, name: str) -> bool:
        """Whether something is registered of the operator under this name."""
        return name in self._attrs

    @checked
    def set_attr(self, name: str, value: Any, plevel: int = 10) -> None:
        """Register something of the operator, in place of what was registered."""
        self._attrs[name] = value

    @checked
    def reset_attr(self, name: str) -> None:
        """Forget what is registered of the operator under this name."""
        self._attrs.pop(name, None)

    @staticmethod
    def of(name: str) -> Op:
        """The operator with this name, known or not."""
        return Op._all.setdefault(name, Op(name))

    @staticmethod
    def get(name: str) -> Op:
        """The operator with this name.

        Raises:
            AttributeError: there is none.
        """
        from relax_mlir.objects.operators import get_op

        return get_op(name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Op) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"Op({self.name})"
