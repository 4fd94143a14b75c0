"""Compilation targets in TVM's notation."""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import Any

from relax_mlir.errors import near_misses, short_repr
from relax_mlir.runtime.ndarray import Device

__all__ = ["Target"]

_current: ContextVar[Target | None] = ContextVar("target", default=None)
_KINDS = {1: "llvm", 2: "cuda"}


class Target:
    """Compilation target; ``Target("llvm")`` is the host machine.

    ``with target:`` makes it the default target of passes.

    Attributes:
        attrs: options, such as ``mcpu``.
    """

    def __init__(self, target: Any = "llvm", host: Any = None) -> None:
        fields = (
            dict(target)
            if isinstance(target, dict)
            else _parsed(
                str(target) if isinstance(target, (str, Target)) else short_repr(target)
            )
        )
        self._name = _known_kind(str(fields.pop("kind", "llvm")))
        self.attrs: dict[str, Any] = fields
        self.host = None if host is None else Target(host)
        self._tokens: list[Token[Target | None]] = []

    @property
    def kind(self) -> _Kind:
        """The target kind; ``kind.name`` is its name."""
        return _Kind(self._name)

    @staticmethod
    def from_device(device: Device | str) -> Target:
        """The target of a runtime device."""
        if isinstance(device, str):
            return Target("cuda" if device.startswith("cuda") else "llvm")
        return Target(_KINDS[device.device_type])

    @staticmethod
    def current(allow_none: bool = True) -> Target | None:
        """The innermost target of a ``with`` statement.

        Raises:
            ValueError: there is none, and ``allow_none`` is not set.
        """
        found = _current.get()
        if found is None and not allow_none:
            raise ValueError("no target: expected an enclosing `with Target(...):`")
        return found

    def __enter__(self) -> Target:  # noqa: PYI034  Python 3.10 has no Self
        self._tokens.append(_current.set(self))
        return self

    def __exit__(self, *exception: object) -> None:
        _current.reset(self._tokens.pop())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Target) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        options = (f"-{name}={value}" for name, value in self.attrs.items())
        return " ".join([self._name, *options])

    def __repr__(self) -> str:
        return f'Target("{self}")'


class _Kind(str):
    """Target kind."""

    @property
    def name(self) -> str:
        """The name of the kind."""
        return str(self)


# TVM's target kinds; a name with a slash is a target tag, such as `nvidia/nvidia-a100`.
_KNOWN_KINDS = frozenset(
    {
        *("c", "composite", "cuda", "ext_dev", "hexagon", "hip", "llvm", "metal"),
        *("nvptx", "opencl", "rocm", "test", "vulkan", "webgpu"),
    }
)


def _known_kind(name: str) -> str:
    if name in _KNOWN_KINDS or "/" in name:
        return name
    raise ValueError(
        f"unknown target `{name}`: expected a target kind, such as `llvm` for the host."
        f"{near_misses(name, _KNOWN_KINDS)}"
    )


def _parsed(text: str) -> dict[str, Any]:
    if not text.split():
        raise ValueError("target: expected a target kind, got an empty string")
    kind, *options = text.split()
    fields: dict[str, Any] = {"kind": kind}
    for option in options:
        name, _, value = option.lstrip("-").partition("=")
        fields[name] = value or True
    return fields
