"""Names of variables in printed scripts, each used once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from relax_mlir.objects.names import identifier

__all__ = ["Names"]

_RESERVED = ("I", "R", "T", "metadata")


class Names:
    """What the variables of a script are called.

    Args:
        taken: names that no variable gets.
        with_address: whether names end in what tells objects apart.
    """

    def __init__(
        self, taken: Iterable[str] = (), *, with_address: bool = False
    ) -> None:
        self._with_address = with_address
        self._taken = {*_RESERVED, *taken}
        self._names: dict[int, str] = {}
        self._kept: list[object] = []  # an id is of use only while its object lives

    def define(self, variable: object, wish: str) -> str:
        """Name a variable: ``wish``, or with the first number that makes it new."""
        if id(variable) in self._names:
            return self._names[id(variable)]
        base = identifier(wish)
        name, count = base, 0
        while name in self._taken:
            count += 1
            name = f"{base}_{count}"
        self._taken.add(name)
        if self._with_address:
            name = f"{name}_{id(variable):#x}"
        self._names[id(variable)] = name
        self._kept.append(variable)
        return name

    def alias(self, variable: object, text: str) -> None:
        """Say what stands for a variable, if it has no name yet."""
        if id(variable) not in self._names:
            self._names[id(variable)] = text
            self._kept.append(variable)

    @contextmanager
    def frame(self) -> Iterator[None]:
        """Names that are given inside are free again after it."""
        before = set(self._taken)
        yield
        self._taken = before

    def get(self, variable: object) -> str | None:
        """The name of a variable, or None if it has none yet."""
        return self._names.get(id(variable))
