"""Pointer types and pointer variables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from relax_mlir.objects.argument_checks import dtype_text
from relax_mlir.objects.prim import Var

if TYPE_CHECKING:
    from relax_mlir.objects.stmt.buffer import Buffer

__all__ = ["ElementType", "Pointer", "PointerType"]


class ElementType(str):
    """The name of an element type, comparing equal to other representations of the type."""

    __slots__ = ()

    @property
    def dtype(self) -> str:
        """The name as a plain string."""
        return str(self)

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, str(getattr(other, "dtype", other)))

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return str.__hash__(self)


class PointerType:
    """The type of a pointer.

    Attributes:
        element_type: the pointee's type name, such as ``float32``.
        storage_scope: the memory space, such as ``global`` or ``shared``.
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
        """The element type of a variable of this type."""
        return "handle"

    def variable_class(self) -> type[Var]:
        """The class of a variable of this type."""
        return Pointer

    def __str__(self) -> str:
        return f'T.handle("{self.element_type}", "{self.storage_scope}")'


class Pointer(Var):
    """A pointer variable.

    Attributes:
        type_annotation: its pointer type, if known.
        buffer: the buffer that owns the memory, if the pointer is its data variable.
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
