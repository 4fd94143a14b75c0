"""Underlined and annotated nodes of a printed script."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tvm_ffi.access_path import AccessPath

from relax_mlir.objects.compare.access_path import (
    access_path,
    follow,
    key_name,
    parts_on,
)
from relax_mlir.objects.prim import PrimExpr
from relax_mlir.objects.stmt.statements import Stmt

__all__ = ["HIGHLIGHT_OPTIONS", "Highlights", "mark_underlined", "underline_lines"]

# The options of ``script`` that select nodes.
HIGHLIGHT_OPTIONS = (
    "path_to_underline",
    "obj_to_underline",
    "path_to_annotate",
    "obj_to_annotate",
)
# Private-use characters that delimit underlined text until its line is complete.
_START, _END = "\ue000", "\ue001"


@dataclass(frozen=True)
class Highlights:
    """The nodes of a script to underline or to annotate with a comment.

    Attributes:
        paths: access paths of nodes to underline.
        objects: nodes to underline.
        path_comments: comments by the access path of their node.
        comments: pairs of node and comment.
    """

    paths: Sequence[AccessPath] = ()
    objects: Sequence[Any] = ()
    path_comments: Mapping[AccessPath, str] = field(default_factory=dict)
    comments: Sequence[tuple[Any, str]] = ()

    @staticmethod
    def of(
        path_to_underline: Sequence[AccessPath] | None = None,
        obj_to_underline: Sequence[Any] | None = None,
        path_to_annotate: Mapping[AccessPath, str] | None = None,
        obj_to_annotate: Mapping[Any, str] | None = None,
    ) -> Highlights:
        """Creates highlights from the options of ``script``."""
        return Highlights(
            tuple(path_to_underline or ()),
            tuple(obj_to_underline or ()),
            dict(path_to_annotate or {}),
            tuple((obj_to_annotate or {}).items()),
        )

    def __bool__(self) -> bool:
        parts = (self.paths, self.objects, self.path_comments, self.comments)
        return any(map(bool, parts))

    def inside(self, name: str) -> Highlights:
        """Restricts the paths to one function of a module, and makes them relative to it."""
        paths = [
            p for path in self.paths if (p := _relative_path(path, name)) is not None
        ]
        comments = {
            p: text
            for path, text in self.path_comments.items()
            if (p := _relative_path(path, name)) is not None
        }
        return replace(self, paths=paths, path_comments=comments)

    def has_root(self) -> bool:
        """Whether the root itself is underlined."""
        return any(not path.to_steps() for path in self.paths)

    def at(self, root: Any) -> Highlights:
        """Resolves the paths to nodes of ``root``."""
        on_paths = [_innermost_printed(root, path) for path in self.paths]
        objects = [_node_in(root, o) for o in self.objects]
        path_comments = [
            (_innermost_printed(root, p), text)
            for p, text in self.path_comments.items()
        ]
        comments = [(_node_in(root, o), text) for o, text in self.comments]
        return Highlights(
            self.paths,
            [*on_paths, *objects],
            self.path_comments,
            [*path_comments, *comments],
        )

    def has(self, node: Any) -> bool:
        """Whether a node is underlined."""
        return any(node is o for o in self.objects)

    def comment(self, node: Any) -> str | None:
        """Returns the comment on a node, if any."""
        return next((text for o, text in self.comments if o is node), None)


def _relative_path(path: AccessPath, name: str) -> AccessPath | None:
    """Makes a path into the function ``name`` relative to it; None for other paths."""
    steps = list(path.to_steps())
    if len(steps) < 2 or steps[0].key != "functions":
        return None
    if key_name(steps[1].key) != name:
        return None
    relative = AccessPath.root()
    for step in steps[2:]:
        extend = (relative.attr, relative.array_item, relative.map_item)[step.kind % 3]
        relative = extend(step.key)
    return relative


def _innermost_printed(root: Any, path: AccessPath) -> Any:
    """Returns the innermost node on a path that has a text of its own."""
    parts = parts_on(root, path)
    printed = [p for p in parts if isinstance(p, (PrimExpr, Stmt))]
    return printed[-1] if printed else root


def _node_in(root: Any, node: Any) -> Any:
    """Returns the node of ``root`` at the access path of ``node``.

    Each decoding of a PrimFunc makes new statement objects; their paths are the same.
    """
    path = getattr(node, "access_path", None)
    if path is None:
        return node
    part = root
    for step in access_path(root, path).to_steps():
        part = follow(part, step)
    return part


def mark_underlined(text: str) -> str:
    """Marks a text for underlining, except for its indentation."""
    spaces = len(text) - len(text.lstrip(" "))
    return f"{text[:spaces]}{_START}{text[spaces:]}{_END}" if text.strip() else text


def underline_lines(lines: Sequence[str]) -> list[str]:
    """Replaces the underline marks of each line by a line of carets below it."""
    result: list[str] = []
    for line in lines:
        carets, depth = [], 0
        for character in line:
            depth += (character == _START) - (character == _END)
            if character not in (_START, _END):
                carets.append("^" if depth else " ")
        result.append(re.sub(f"[{_START}{_END}]", "", line))
        if "^" in carets:
            result.append("".join(carets).rstrip())
    return result
