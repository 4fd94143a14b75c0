"""JSON serialization of modules, functions, expressions and struct info."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np

from relax_mlir.dialects.dtypes import DType, dtype
from relax_mlir.ir.module import IRModule
from relax_mlir.objects.array_text import decode_array, encode_array
from relax_mlir.objects.expr import Id, Op
from relax_mlir.objects.function import BaseFunc
from relax_mlir.support.files import read_json_object

__all__ = ["load_json", "save_json"]

_FORMAT = "relax_mlir.ir"
_PACKAGE = "relax_mlir.objects."


def save_json(node: Any) -> str:
    """Serializes a module, a function, an expression or a type, including constants.

    Raises:
        TypeError: it is none of these.
    """
    if isinstance(node, BaseFunc):
        name = str(node.attrs.get("global_symbol", "main"))
        return _module_json(IRModule({name: node}), name)
    if isinstance(node, IRModule):
        return _module_json(node, None)
    if not _is_own_module(type(node).__module__):
        raise TypeError(
            "save_json: expected a module, a function, an expression or a type, got "
            f"`{type(node).__name__}`"
        )
    return json.dumps({"format": _FORMAT, "node": _Writer().write(node)}, indent=2)


def _module_json(module: IRModule, function: str | None) -> str:
    arrays = {name: encode_array(a) for name, a in module.named_constants().items()}
    content = {"format": _FORMAT, "function": function, "mlir": str(module.mlir)}
    return json.dumps({**content, "constants": arrays}, indent=2)


def load_json(json_str: str) -> Any:
    """Deserializes a text of :func:`save_json`.

    Raises:
        ValueError: the text was not written by :func:`save_json`.
    """
    content = read_json_object(json_str, "load_json")
    if content.get("format") != _FORMAT:
        raise ValueError("load_json: expected a text that `save_json` wrote")
    if "node" in content:
        return _Reader().read(content["node"])
    arrays = {name: decode_array(entry) for name, entry in content["constants"].items()}
    module = IRModule.restore(content["mlir"], arrays)
    function = content["function"]
    return module if function is None else module[function]


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, str))


class _Writer:
    """Serializes objects; a repeated object is a back reference."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._alive: list[object] = []

    def write(self, value: Any) -> Any:
        if _is_plain(value):
            return value
        if isinstance(value, (list, tuple)):
            kind = "list" if isinstance(value, list) else "tuple"
            return {kind: [self.write(one) for one in value]}
        if isinstance(value, Mapping) and not _is_own_module(type(value).__module__):
            return {"map": [[self.write(k), self.write(v)] for k, v in value.items()]}
        if isinstance(value, np.ndarray):
            return {"array": encode_array(value)}
        if isinstance(value, DType):
            return {"dtype": value.name}
        if isinstance(value, Op):
            return {"op": value.name}
        if isinstance(value, BaseFunc):
            return {"function": save_json(value)}
        return self._object(value)

    def _object(self, value: Any) -> Any:
        kind = type(value)
        if not _is_own_module(kind.__module__):
            raise TypeError(f"save_json: a `{kind.__name__}` is not part of a program")
        if id(value) in self._numbers:
            return {"again": self._numbers[id(value)]}
        self._numbers[id(value)] = len(self._numbers)
        self._alive.append(value)
        state = {name: self.write(part) for name, part in _state(value).items()}
        return {"class": [kind.__module__, kind.__qualname__], "state": state}


def _state(value: Any) -> dict[str, Any]:
    """The fields of an object, from its dictionary and slots."""
    slots = [s for k in type(value).__mro__ for s in k.__dict__.get("__slots__", ())]
    named = {s: getattr(value, s) for s in slots if hasattr(value, s)}
    return {**named, **getattr(value, "__dict__", {})}


class _Reader:
    """Deserializes objects of :class:`_Writer`."""

    def __init__(self) -> None:
        self._objects: list[Any] = []

    def read(self, written: Any) -> Any:
        if _is_plain(written):
            return written
        ((kind, content), *_) = written.items()
        if kind in ("list", "tuple"):
            parts = [self.read(one) for one in content]
            return parts if kind == "list" else tuple(parts)
        if kind == "map":
            return {self.read(k): self.read(v) for k, v in content}
        if kind == "array":
            return decode_array(content)
        if kind == "again":
            return self._objects[content]
        if kind == "class":
            return self._object(content, written["state"])
        return {"dtype": dtype, "function": load_json, "op": Op.of}[kind](content)

    def _object(self, kind: Any, state: Mapping[str, Any]) -> Any:
        module, name = kind
        found = (
            getattr(import_module(module), name, None)
            if _is_own_module(module)
            else None
        )
        if not isinstance(found, type) or not _is_own_module(found.__module__):
            raise ValueError(f"load_json: expected a class of relax_mlir, got `{name}`")
        instance = object.__new__(found)
        self._objects.append(instance)
        for field, written in state.items():
            object.__setattr__(instance, field, self.read(written))
        if isinstance(instance, Id):
            Id.__init__(instance, instance.name_hint)  # a fresh identity
        return instance


def _is_own_module(module: str) -> bool:
    return module.startswith(_PACKAGE)
