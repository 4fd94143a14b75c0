"""Operator tags of computed tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

__all__ = ["TagScope", "current_tag", "tag_scope"]


class TagScope:
    """Attaches ``tag`` to tensors computed inside; a context manager and a decorator.

    Attributes:
        tag: the tag.
    """

    _current: TagScope | None = None

    def __init__(self, tag: str) -> None:
        self.tag = tag

    @staticmethod
    def get_current() -> TagScope | None:
        """The active scope, or None."""
        return TagScope._current

    def __enter__(self) -> TagScope:  # noqa: PYI034  no Self in 3.10
        if TagScope._current is not None:
            raise ValueError(
                f"tag `{self.tag}`: expected no other tag scope to be open, got "
                f"`{TagScope._current.tag}`"
            )
        TagScope._current = self
        return self

    def __exit__(self, *failure: object) -> None:
        TagScope._current = None

    def __call__(self, declare: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(declare)
        def tagged(*args: Any, **kwargs: Any) -> Any:
            with self:
                return declare(*args, **kwargs)

        return tagged


def tag_scope(tag: str) -> TagScope:
    """Attaches ``tag`` to tensors computed inside, or by the decorated function."""
    return TagScope(tag)


def current_tag(tag: str) -> str:
    """``tag``, or that of the active scope.

    Raises:
        ValueError: both are given.
    """
    scope = TagScope.get_current()
    if scope is None:
        return tag
    if tag:
        raise ValueError(f"tag `{tag}`: expected no tag inside the scope `{scope.tag}`")
    return scope.tag
