"""Pointers to memory, and what they point to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from relax_mlir.objects.argument_checks import dtype_text
from relax_mlir.objects.prim import Var

if TYPE_CHECKING:
    from relax_mlir.objects.buffer import Buffer

__all__ = ["ElementType", "Pointer", "PointerType"]


class ElementType(str):
    """The name of an element type; equal to what says the same type otherwise."""

    __slots__ = ()

    @property
    def dtype(self) -> str:
        """The plain name."""
        return str(self)

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, str(getattr(other, "dtype", other)))

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return str.__hash__(self)


class PointerType:
    """What a pointer points to.

    Attributes:
        element_type: a type name such as ``float32``.
        storage_scope: the memory, such as ``global`` or ``shared``.
    """

    def __init__(self, element_type: Any, storage_scope: str = "global") -> None:
        name = dtype_text(element_type, "PointerType: `element_type`")
        self.element_type = ElementType(name)
        self.storage_scope = storage_scope or "global"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PointerType) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    @property
    def dtype(self) -> str:
        """Type of a variable that is such a pointer."""
        return "handle"

    def variable_class(self) -> type[Var]:
        """The class of a variable that is such a pointer."""
        return Pointer

    def __str__(self) -> str:
        return f'T.handle("{self.element_type}", "{self.storage_scope}")'


class Pointer(Var):
    """A variable that is a pointer.

    Attributes:
        type_annotation: what it points to, if that is known.
        buffer: the buffer whose memory it is, where that alone names it.
    """

    __slots__ = ("buffer", "type_annotation")

    def __init__(
        self,
        name: str,
        type_annotation: PointerType | None = None,
        buffer: Buffer | None = None,
    ) -> None:
        super().__init__(name, "handle")
        self.type_annotation = type_annotation
        self.buffer = buffer
