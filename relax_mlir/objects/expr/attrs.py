"""Attributes of calls and functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from relax_mlir.errors import UnknownAttributeError, UnknownNameError, near_misses
from relax_mlir.objects.argument_checks import integer_of, mapping_of
from relax_mlir.support.argument_types import checked

__all__ = ["Attrs"]


class Attrs(Mapping[str, Any]):
    """Attributes of a call or a function, accessible as items and as fields."""

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        self._values: dict[str, Any] = mapping_of(values, "Attrs")

    def __getitem__(self, name: str) -> Any:  # Any: the type depends on the attribute
        return self._values[name]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._values:
            known = ", ".join(map(str, self.__dict__.get("_values", ())))
            raise UnknownAttributeError(
                f"no attribute `{name}`: expected one of {known or 'none'}"
            )
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    @checked
    def get_str(self, name: str) -> str:
        """The value of a string attribute.

        Raises:
            UnknownNameError: the attribute does not exist.
        """
        return str(self._lookup("get_str", name))

    @checked
    def get_int(self, name: str) -> int:
        """The value of an integer attribute.

        Raises:
            UnknownNameError: the attribute does not exist.
            TypeError: its value is not an integer.
        """
        return integer_of(self._lookup("get_int", name), f"Attrs.get_int: `{name}`")

    def _lookup(self, where: str, name: str) -> Any:
        if name not in self._values:
            known = [str(n) for n in self._values]
            raise UnknownNameError(
                f"Attrs.{where}: no attribute `{name}`: expected one of "
                f"{', '.join(known) or 'none'}.{near_misses(name, known)}"
            )
        return self._values[name]

    def __repr__(self) -> str:
        return repr(self._values)
