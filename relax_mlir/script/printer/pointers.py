"""Parts of programs that a script points at: underlined, or with a remark."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tvm_ffi.access_path import AccessPath

from relax_mlir.objects.access_path import access_path, follow, key_name, parts_on
from relax_mlir.objects.prim import PrimExpr
from relax_mlir.objects.stmt import Stmt

__all__ = ["POINTING", "Pointers", "underline_lines", "underlined"]

# The options of ``script`` that point at something.
POINTING = (
    "path_to_underline",
    "obj_to_underline",
    "path_to_annotate",
    "obj_to_annotate",
)
# Private characters of Unicode, around what is underlined until a line is whole.
_START, _END = "\ue000", "\ue001"


@dataclass(frozen=True)
class Pointers:
    """What a script points at.

    Attributes:
        paths: the ways to what is underlined.
        objects: what is underlined.
        path_remarks: remarks by the way to what they are about.
        remarks: what has a remark, and the remark.
    """

    paths: Sequence[AccessPath] = ()
    objects: Sequence[Any] = ()
    path_remarks: Mapping[AccessPath, str] = field(default_factory=dict)
    remarks: Sequence[tuple[Any, str]] = ()

    @staticmethod
    def of(
        path_to_underline: Sequence[AccessPath] | None = None,
        obj_to_underline: Sequence[Any] | None = None,
        path_to_annotate: Mapping[AccessPath, str] | None = None,
        obj_to_annotate: Mapping[Any, str] | None = None,
    ) -> Pointers:
        """What the options of ``script`` point at."""
        return Pointers(
            tuple(path_to_underline or ()),
            tuple(obj_to_underline or ()),
            dict(path_to_annotate or {}),
            tuple((obj_to_annotate or {}).items()),
        )

    def __bool__(self) -> bool:
        parts = (self.paths, self.objects, self.path_remarks, self.remarks)
        return any(map(bool, parts))

    def inside(self, name: str) -> Pointers:
        """What it points at in one function of a module."""
        paths = [p for path in self.paths if (p := _below(path, name)) is not None]
        remarks = {
            p: text
            for path, text in self.path_remarks.items()
            if (p := _below(path, name)) is not None
        }
        return replace(self, paths=paths, path_remarks=remarks)

    def whole(self) -> bool:
        """Whether all of it is underlined."""
        return any(not path.to_steps() for path in self.paths)

    def at(self, root: Any) -> Pointers:
        """The same, with the objects that the paths lead to."""
        found = [_printed(root, path) for path in self.paths]
        objects = [_at(root, o) for o in self.objects]
        noted = [(_printed(root, p), text) for p, text in self.path_remarks.items()]
        about = [(_at(root, o), text) for o, text in self.remarks]
        return Pointers(
            self.paths, [*found, *objects], self.path_remarks, [*noted, *about]
        )

    def has(self, node: Any) -> bool:
        """Whether a part is underlined."""
        return any(node is o for o in self.objects)

    def remark(self, node: Any) -> str | None:
        """The remark about a part."""
        return next((text for o, text in self.remarks if o is node), None)


def _below(path: AccessPath, name: str) -> AccessPath | None:
    """The rest of a path that leads into a function."""
    steps = list(path.to_steps())
    if len(steps) < 2 or steps[0].key != "functions":
        return None
    if key_name(steps[1].key) != name:
        return None
    made = AccessPath.root()
    for step in steps[2:]:
        extend = (made.attr, made.array_item, made.map_item)[step.kind % 3]
        made = extend(step.key)
    return made


def _printed(root: Any, path: AccessPath) -> Any:
    """The last part on a path that a script spells."""
    parts = parts_on(root, path)
    listed = [p for p in parts if isinstance(p, (PrimExpr, Stmt))]
    return listed[-1] if listed else root


def _at(root: Any, node: Any) -> Any:
    """The statement of a program that another reading of it gave."""
    place = getattr(node, "place", None)
    if place is None:
        return node
    part = root
    for step in access_path(root, place).to_steps():
        part = follow(part, step)
    return part


def underlined(text: str) -> str:
    """A piece of a line, or a line but for its indentation, to be underlined."""
    spaces = len(text) - len(text.lstrip(" "))
    return f"{text[:spaces]}{_START}{text[spaces:]}{_END}" if text.strip() else text


def underline_lines(lines: Sequence[str]) -> list[str]:
    """Lines, those with marks followed by one that underlines what is marked."""
    found: list[str] = []
    for line in lines:
        carets, depth = [], 0
        for character in line:
            depth += (character == _START) - (character == _END)
            if character not in (_START, _END):
                carets.append("^" if depth else " ")
        found.append(re.sub(f"[{_START}{_END}]", "", line))
        if "^" in carets:
            found.append("".join(carets).rstrip())
    return found
