"""Where a part of a program stands: the way to it from the whole, step by step."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tvm_ffi.access_path import AccessPath

__all__ = ["access_path", "follow", "key_name", "missing", "parts_on"]

_STEP = re.compile(
    r"\.(?P<attr>\w+)|\[(?P<item>\d+)\]|\[\"(?P<name>[^\"]*)\"\]|\{(?P<param>\d+)\}"
)
_ATTR, _ITEM, _MAP = 0, 1, 2  # kinds of steps of an AccessPath


def access_path(root: Any, text: str) -> AccessPath:
    """The path that a text spells, such as ``<root>.body.args[0]``.

    Args:
        root: where it begins; tells what the keys of its mappings are.
        text: names of attributes, numbers of items, names of what is a key, and in
            braces the number of a parameter that is a key.
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
    """The key of a mapping that has a name."""
    for key in mapping if isinstance(mapping, Mapping) else ():
        if name in (key, getattr(key, "name_hint", None), getattr(key, "name", None)):
            return key
    return name


def follow(part: Any, step: Any) -> Any:
    """What one step of a path leads to, or None."""
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
    """The name of a key: of a variable or a function, or a text."""
    return getattr(key, "name_hint", None) or getattr(key, "name", None) or str(key)


def missing(path: AccessPath) -> AccessPath:
    """The way to an item that is not there."""
    if not (steps := list(path.to_steps())):
        return path
    *before, last = steps
    made = AccessPath.root()
    for step in before:
        made = (made.attr, made.array_item, made.map_item)[step.kind](step.key)
    extend = (made.attr_missing, made.array_item_missing, made.map_item_missing)
    return extend[last.kind](last.key)


def parts_on(root: Any, path: AccessPath) -> list[Any]:
    """What stands on the way along a path, from the whole on, as far as it leads."""
    found = [root]
    for step in path.to_steps():
        part = follow(found[-1], step)
        if part is None:
            break
        found.append(part)
    return found
