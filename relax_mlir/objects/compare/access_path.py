"""Access paths: from a program to one of its parts, step by step."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tvm_ffi.access_path import AccessPath

__all__ = ["access_path", "follow", "key_name", "missing", "parts_on"]

_STEP = re.compile(
    r"\.(?P<attr>\w+)|\[(?P<item>\d+)\]|\[\"(?P<name>[^\"]*)\"\]|\{(?P<param>\d+)\}"
)
_ATTR, _ITEM, _MAP = 0, 1, 2  # kinds of steps of a tvm-ffi AccessPath


def access_path(root: Any, text: str) -> AccessPath:
    """Parses the text of a path, such as ``<root>.body.args[0]``.

    Args:
        root: the program, in which the keys of mappings are looked up.
        text: attribute names, item numbers, quoted names of mapping keys, and in braces the
            number of a parameter that is a mapping key.
    """
    path, part, owner = AccessPath.root(), root, root
    for step in _STEP.finditer(text):
        if step["attr"] is not None:
            path, owner = path.attr(step["attr"]), part
            part = getattr(part, step["attr"], None)
        elif step["item"] is None:
            params = getattr(owner, "params", ())
            is_name = step["param"] is None
            key = _key(part, step["name"]) if is_name else params[int(step["param"])]
            path = path.map_item(key)
            part = _item(part, key)
        else:
            path = path.array_item(int(step["item"]))
            part = _item(part, int(step["item"]))
    return path


def _key(mapping: Any, name: str) -> Any:
    """The mapping key with a name."""
    for key in mapping if isinstance(mapping, Mapping) else ():
        if name in (key, getattr(key, "name_hint", None), getattr(key, "name", None)):
            return key
    return name


def follow(part: Any, step: Any) -> Any:
    """The part that a step of a path leads to, or None."""
    if step.kind == _ATTR:
        return getattr(part, step.key, None)
    if step.kind in (_ITEM, _MAP):
        return _item(part, step.key)
    return None


def _item(part: Any, key: Any) -> Any:
    if isinstance(part, Mapping):
        known = _key(part, key_name(key))
        return part[known] if known in list(part) else None
    if isinstance(part, Sequence) and isinstance(key, int) and key < len(part):
        return part[key]
    return None


def key_name(key: Any) -> str:
    """The name of a mapping key: of a variable, a function, or a string."""
    return getattr(key, "name_hint", None) or getattr(key, "name", None) or str(key)


def missing(path: AccessPath) -> AccessPath:
    """The same path, whose last step is marked as missing."""
    if not (steps := list(path.to_steps())):
        return path
    *before, last = steps
    prefix = AccessPath.root()
    for step in before:
        prefix = (prefix.attr, prefix.array_item, prefix.map_item)[step.kind](step.key)
    extend = (prefix.attr_missing, prefix.array_item_missing, prefix.map_item_missing)
    return extend[last.kind](last.key)


def parts_on(root: Any, path: AccessPath) -> list[Any]:
    """The parts along a path, starting with the root, as far as the path exists."""
    parts = [root]
    for step in path.to_steps():
        part = follow(parts[-1], step)
        if part is None:
            break
        parts.append(part)
    return parts
