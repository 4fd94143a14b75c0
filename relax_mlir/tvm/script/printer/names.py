"""Unique names for the variables of a printed script."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from relax_mlir.ir.function_attributes import python_identifier

__all__ = ["NameTable"]

_RESERVED = ("I", "R", "T", "metadata")


class NameTable:
    """Assigns unique names to the variables and buffers of a script.

    Args:
        reserved: names that no variable gets.
        with_address: whether names end in the object's address.
    """

    def __init__(
        self, reserved: Iterable[str] = (), *, with_address: bool = False
    ) -> None:
        self._with_address = with_address
        self._taken = {*_RESERVED, *reserved}
        self._names: dict[int, str] = {}
        self._keep_alive: list[object] = []  # ids are unique only among live objects

    def define(self, variable: object, name_hint: str) -> str:
        """Names a variable ``name_hint``, with a number appended if that is taken."""
        if id(variable) in self._names:
            return self._names[id(variable)]
        base = python_identifier(name_hint)
        name, count = base, 0
        while name in self._taken:
            count += 1
            name = f"{base}_{count}"
        self._taken.add(name)
        if self._with_address:
            name = f"{name}_{id(variable):#x}"
        self._names[id(variable)] = name
        self._keep_alive.append(variable)
        return name

    def alias(self, variable: object, text: str) -> None:
        """Sets the text printed for a variable that has no name yet."""
        if id(variable) not in self._names:
            self._names[id(variable)] = text
            self._keep_alive.append(variable)

    @contextmanager
    def frame(self) -> Iterator[None]:
        """Opens a scope; its names are free again at the end."""
        before = set(self._taken)
        yield
        self._taken = before

    def get(self, variable: object) -> str | None:
        """Returns the name of a variable, or None if it has none yet."""
        return self._names.get(id(variable))
