"""Global infos of a module: lists of objects that functions refer to by index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mlir import ir

from relax_mlir.errors import short_repr
from relax_mlir.objects.expr.struct_info import VDevice
from relax_mlir.objects.mlir_attributes import from_attribute, to_attribute

__all__ = ["DummyGlobalInfo", "read_global_infos", "write_global_infos"]

_NAME = "relax.global_infos"


class DummyGlobalInfo:
    """A placeholder among global infos."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DummyGlobalInfo)

    def __hash__(self) -> int:
        return hash(DummyGlobalInfo)

    def __repr__(self) -> str:
        return "I.dummy_global_info()"


def read_global_infos(module: ir.Operation) -> dict[str, list[Any]]:
    """The global infos of a module, by name."""
    if _NAME not in module.attributes:
        return {}
    lists = from_attribute(module.attributes[_NAME])
    return {name: [_read(entry) for entry in lists[name]] for name in lists}


def _read(entry: Any) -> Any:
    if entry is None:
        return DummyGlobalInfo()
    target, number, scope = entry
    return VDevice(target, number, scope)


def write_global_infos(
    module: ir.Operation, lists: Mapping[str, Sequence[Any]]
) -> None:
    """Sets the global infos of a module; needs its context.

    Raises:
        ValueError: an entry is neither a device nor a dummy.
    """
    written = {
        name: [_written(info) for info in infos] for name, infos in lists.items()
    }
    module.attributes[_NAME] = to_attribute(written)


def _written(info: Any) -> Any:
    if isinstance(info, DummyGlobalInfo):
        return None
    if isinstance(info, VDevice):
        return [str(info.target), info.vdevice_id, info.memory_scope]
    raise ValueError(f"expected a device or a dummy, got {short_repr(info)}")
