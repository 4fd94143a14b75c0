"""Attributes of calls and functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from relax_mlir.objects.argument_checks import mapping_of

__all__ = ["Attrs"]


class Attrs(Mapping[str, Any]):
    """Attributes of a call or a function, as items and as fields."""

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        self._values: dict[str, Any] = mapping_of(values, "Attrs")

    def __getitem__(self, name: str) -> Any:  # Any: as many types as attributes
        return self._values[name]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._values:
            known = ", ".join(self.__dict__.get("_values", ()))
            raise AttributeError(f"no attribute `{name}`: expected one of {known}")
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def get_str(self, name: str) -> str:
        """An attribute that is a string."""
        return str(self._values[name])

    def get_int(self, name: str) -> int:
        """An attribute that is an integer."""
        return int(self._values[name])

    def __repr__(self) -> str:
        return repr(self._values)
